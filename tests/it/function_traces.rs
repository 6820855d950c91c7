//! Calls of serverless functions become arrivals of adapters as in dLoRA's workload generator.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail with their test")]

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;
use servecast::io::traces::{
    FunctionCalls, FunctionMapping, FunctionOrder, FunctionWindow, TraceError, TraceOptions, open,
};
use servecast::rng::Seed;
use servecast::scenario::{AdapterCountsConfig, AdapterStreams};
use servecast::workload::AdapterCounts;
use tempfile::TempDir;

const HEADER_2021: &str = "app,func,end_timestamp,duration\n";
const FIRST_HOUR: FunctionWindow = FunctionWindow { first_hour: 0, hours: 1 };

fn by_name(adapters: u32, stride: u32) -> FunctionMapping {
    FunctionMapping { adapters, stride, order: FunctionOrder::Name }
}

fn by_calls(adapters: u32, stride: u32) -> FunctionMapping {
    FunctionMapping { adapters, stride, order: FunctionOrder::Calls }
}

/// A day of functions: names of owner, app and function, and calls by minute, counted from 1.
fn day(functions: &[(&str, &[(usize, u32)])]) -> String {
    let mut text = String::from("HashOwner,HashApp,HashFunction,Trigger");
    for minute in 1..=1440 {
        write!(text, ",{minute}").unwrap();
    }
    for (name, calls) in functions {
        write!(text, "\n{name},http").unwrap();
        for minute in 1..=1440 {
            let here = calls.iter().filter(|(at, _)| *at == minute);
            write!(text, ",{}", here.map(|(_, count)| count).sum::<u32>()).unwrap();
        }
    }
    text + "\n"
}

fn read(files: &[&str], window: FunctionWindow) -> Result<FunctionCalls, TraceError> {
    let folder = TempDir::new().expect("a scratch folder");
    let paths: Vec<PathBuf> =
        (0..files.len()).map(|id| folder.path().join(id.to_string())).collect();
    for (path, text) in paths.iter().zip(files) {
        fs::write(path, text).expect("the scratch folder is writable");
    }
    FunctionCalls::read(&paths, window)
}

/// What is said of the files, or of their mapping, without the folder's name.
fn refusal(files: &[&str], window: FunctionWindow, mapping: FunctionMapping) -> String {
    let refused = read(files, window).and_then(|calls| calls.per_adapter(mapping));
    let text = refused.expect_err("it is refused").to_string();
    text.rsplit_once('/').map_or(text.clone(), |(_, end)| end.to_owned())
}

#[test]
fn neighbours_by_name_share_an_adapter_and_a_call_is_of_the_hour_in_which_it_ends() {
    // In order of names: a/x, a/y, b/w, b/z, c/v. At a stride of 2, adapter 0 has the first two and the fifth, adapter 1
    // the others. b/z ends once a nanosecond before the second hour and once in it; c/v only there.
    let text = format!(
        "{HEADER_2021}b,z,3599.999999999,7000\nb,z,3600,1\na,y,10.5,0.01\na,x,0,0\nb,w,20,1\nc,v,7199,2\n"
    );
    let both = FunctionWindow { first_hour: 0, hours: 2 };
    let calls = read(&[&text], both).unwrap();
    assert_eq!(calls.per_adapter(by_name(2, 2)).unwrap(), [[2, 2], [1, 1]]);
    // The second hour alone: functions that are not called in it keep their places.
    let second = read(&[&text], FunctionWindow { first_hour: 1, hours: 1 }).unwrap();
    assert_eq!(
        (second.functions(FunctionOrder::Name), second.functions(FunctionOrder::Calls)),
        (5, 2)
    );
    assert_eq!(second.per_adapter(by_name(5, 1)).unwrap(), [[0, 0, 0, 1, 1]]);
    // By calls b/z comes first, then the others by name.
    assert_eq!(calls.per_adapter(by_calls(5, 1)).unwrap(), [[1, 1, 1, 1, 0], [1, 0, 0, 0, 1]]);
}

#[test]
fn days_follow_one_another_and_functions_without_calls_in_the_window_take_no_part() {
    // Minute 60 is the last of hour 0, minute 61 the first of hour 1; the second file begins with hour 24.
    let first =
        day(&[("o,a,g", &[(60, 3), (61, 5)]), ("o,a,f", &[(61, 7)]), ("n,b,h", &[(1440, 2)])]);
    let second = day(&[("o,a,f", &[(1, 11)]), ("n,b,h", &[(120, 1)])]);
    let of = |files: &[&str], first_hour, hours, mapping| {
        let calls = read(files, FunctionWindow { first_hour, hours }).unwrap();
        (calls.functions(FunctionOrder::Name), calls.per_adapter(mapping).unwrap())
    };
    assert_eq!(of(&[&first], 0, 1, by_name(1, 1)), (1, vec![vec![3]]));
    // o/a/f before o/a/g; n/b/h is not called.
    assert_eq!(of(&[&first], 0, 2, by_name(2, 1)), (2, vec![vec![0, 3], vec![7, 5]]));
    assert_eq!(of(&[&first, &second], 23, 2, by_name(2, 1)), (2, vec![vec![2, 0], vec![0, 11]]));
    assert_eq!(
        of(&[&first, &second], 23, 3, by_calls(2, 1)),
        (2, vec![vec![0, 2], vec![11, 0], vec![0, 1]])
    );
}

#[test]
fn the_published_arrivals_come_out_of_calls_with_their_counts() {
    // dLoRA's run of four adapters: one function of each adapter for every tenth of its calls.
    let mut text = HEADER_2021.to_owned();
    for (adapter, calls) in [111, 159, 58, 291].into_iter().enumerate() {
        for call in 0..calls {
            let (app, second) = (call % 10, call * 12);
            writeln!(text, "app{app},func{adapter},{second}.5,1.0").unwrap();
        }
    }
    let hourly_counts = read(&[&text], FIRST_HOUR).unwrap().per_adapter(by_name(4, 1)).unwrap();
    assert_eq!(hourly_counts, [[111, 159, 58, 291]]);
    let streams = AdapterStreams::SharedStream;
    let config = AdapterCountsConfig { rate_per_s: 4.0, cv: 1.0, hourly_counts, streams };
    let arrivals = AdapterCounts::open(&config, 1000, Seed(1), 0).unwrap();
    let (last_s, _) = arrivals.take(1000).last().unwrap();
    assert_eq!(last_s.to_bits(), 250.504_618_736_935_1_f64.to_bits());
}

proptest! {
    #![proptest_config(super::support::random_cases(32))]

    #[test]
    fn no_call_is_lost_and_order_of_rows_does_not_matter(
        calls in prop::collection::vec((0_u32..6, 0_u32..4, 0_u32..7200), 1..80),
        adapters in 1_u32..5,
        stride in 1_u32..4,
    ) {
        let rows: Vec<String> =
            calls.iter().map(|(app, func, at)| format!("{app},{func},{at},1\n")).collect();
        let text = |rows: Vec<String>| HEADER_2021.to_owned() + &rows.concat();
        let (forth, back) = (text(rows.clone()), text(rows.into_iter().rev().collect()));
        let window = FunctionWindow { first_hour: 0, hours: 2 };
        let counts = |text: &str, mapping| read(&[text], window).and_then(|calls| calls.per_adapter(mapping));
        for mapping in [by_name(adapters, stride), by_calls(adapters, stride)] {
            match (counts(&forth, mapping), counts(&back, mapping)) {
                (Ok(forth), Ok(back)) => {
                    let sum: u32 = forth.iter().flatten().sum();
                    prop_assert_eq!(sum as usize, calls.len());
                    prop_assert_eq!(forth, back);
                }
                (forth, back) => {
                    // An hour without calls, or too few functions.
                    prop_assert!(forth.is_err() && back.is_err());
                }
            }
        }
    }
}

#[test]
fn what_is_wrong_is_refused_with_its_place() {
    let good = day(&[("o,a,f", &[(1, 1)])]);
    let cut = good.trim_end().rsplit_once(',').unwrap().0.to_owned();
    let negative = good.replacen("http,1,", "http,-1,", 1);
    let broken = good.replacen("http,1,", "http,1.5,", 1);
    let short = good.replacen(",1440\n", "\n", 1);
    let of_2021 = format!("{HEADER_2021}a,f,5,1\n");
    let row = |row: &str| format!("{HEADER_2021}a,f,5,1\n{row}\n");
    let (cut_call, no_time) = (row("a,f,6"), row("a,f,soon,1"));
    let (before, half) = (row("a,f,-1,1"), row("a,f,6,"));
    let one = by_name(1, 1);
    let later = FunctionWindow { first_hour: 24, hours: 2 };
    let cases: [(&[&str], FunctionWindow, FunctionMapping, &str); 14] = [
        (&[""], FIRST_HOUR, one, "0: the trace is empty; it must have a header"),
        (&[HEADER_2021], FIRST_HOUR, one, "0: the trace has a header and no row"),
        (
            &["TIMESTAMP,ContextTokens,GeneratedTokens\n"],
            FIRST_HOUR,
            one,
            "0: the header must be HashOwner,",
        ),
        (
            &[&short],
            FIRST_HOUR,
            one,
            "got HashOwner,HashApp,HashFunction,Trigger,1,… of 1443 columns",
        ),
        (
            &[&cut],
            FIRST_HOUR,
            one,
            "0:2: a row must have as many fields as the header, 1444, got 1443",
        ),
        (
            &[&negative],
            FIRST_HOUR,
            one,
            "0:2: minute 1 must be a whole number of calls, at least 0, got `-1`",
        ),
        (
            &[&broken],
            FIRST_HOUR,
            one,
            "0:2: minute 1 must be a whole number of calls, at least 0, got `1.5`",
        ),
        (
            &[&cut_call],
            FIRST_HOUR,
            one,
            "0:3: a row must have as many fields as the header, 4, got 3",
        ),
        (
            &[&no_time],
            FIRST_HOUR,
            one,
            "0:3: `end_timestamp` must be a finite number of seconds, got `soon`",
        ),
        (&[&before], FIRST_HOUR, one, "0:3: `end_timestamp` must be at least 0 seconds, got `-1`"),
        (&[&half], FIRST_HOUR, one, "0:3: `duration` must be a finite number of seconds, got ``"),
        (
            &[&good, &of_2021],
            FIRST_HOUR,
            one,
            "1: the trace of 2021 is one file, and not read beside others",
        ),
        (
            &[&good],
            later,
            one,
            "0: the window must lie in hours 0 to 23 of what was read, got hours 24 to 25",
        ),
        (
            &[&of_2021],
            FIRST_HOUR,
            by_name(2, 3),
            "2 adapters at a stride of 3 must have 4 functions at least, got 1",
        ),
    ];
    for (files, window, mapping, expected) in cases {
        let told = refusal(files, window, mapping);
        assert!(told.contains(expected), "{told}\n{expected}");
    }
    let idle = refusal(&[&of_2021], FunctionWindow { first_hour: 0, hours: 2 }, one);
    assert_eq!(idle, "0: hour 1 must have at least one call, got none");
}

#[test]
fn such_a_file_is_no_trace_of_requests() {
    let folder = TempDir::new().expect("a scratch folder");
    for text in [day(&[("o,a,f", &[(1, 1)])]), format!("{HEADER_2021}a,f,5,1\n")] {
        let path = folder.path().join("calls.csv");
        fs::write(&path, text).expect("the scratch folder is writable");
        let told =
            open(&path, None, &TraceOptions::default()).err().expect("it is refused").to_string();
        assert!(told.contains("`servecast trace adapter-counts`"), "{told}");
    }
}

#[test]
fn a_day_that_is_there_twice_is_refused_by_its_file_or_line() {
    let first = day(&[("o,a,f", &[(1, 2)]), ("o,a,g", &[(2, 3)])]);
    let (_, rows) = first.split_once('\n').unwrap();
    let window = FunctionWindow { first_hour: 0, hours: 1 };
    let told = |files: &[&str]| refusal(files, window, by_name(1, 1));
    assert!(told(&[&first, &first]).contains("again; give each day once"));
    let names = format!("{first}{first}");
    assert!(told(&[&names]).starts_with("0:4: names the columns again"), "{}", told(&[&names]));
    let twice = told(&[&format!("{first}{rows}")]);
    assert!(twice.starts_with("0:4: is the same row as one before it"), "{twice}");
    // Another day may be like it but for a call.
    let second = day(&[("o,a,f", &[(1, 2)]), ("o,a,g", &[(2, 4)])]);
    read(&[&first, &second], window).unwrap();
}
