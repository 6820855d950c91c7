//! Traces read back as they were written, wrong files are refused where they are wrong, and the
//! published traces have the figures that their users know.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use servecast::io::traces::{
    Existing, LengthPairing, Origin, Skipped, TimeUnit, TraceError, TraceFormat, TraceOptions,
    TraceSummary, WriteOptions, describe, describe_and_open, open, parse_wall_clock, write,
    write_to,
};
use servecast::rng::Seed;
use servecast::units::SimTime;
use servecast::workload::TraceRow;
use tempfile::TempDir;

use crate::support::data;

fn folder() -> TempDir {
    tempfile::tempdir().expect("a scratch folder")
}

fn file(folder: &TempDir, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, content).expect("the scratch folder is writable");
    path
}

fn rows(path: &Path) -> Vec<TraceRow> {
    rows_with(path, None, &TraceOptions::default()).expect("a good trace")
}

fn rows_with(
    path: &Path,
    format: Option<TraceFormat>,
    options: &TraceOptions,
) -> Result<Vec<TraceRow>, TraceError> {
    open(path, format, options)?.collect()
}

/// The error of a file with this content, without the folder's name.
fn refusal(name: &str, content: impl AsRef<[u8]>) -> String {
    refusal_with(name, content, None, &TraceOptions::default())
}

fn refusal_with(
    name: &str,
    content: impl AsRef<[u8]>,
    format: Option<TraceFormat>,
    options: &TraceOptions,
) -> String {
    let folder = folder();
    let path = file(&folder, name, content);
    let error = rows_with(&path, format, options).expect_err("a wrong trace");
    error.to_string().replace(&format!("{}/", folder.path().display()), "")
}

fn row(arrival_ns: u64, prompt_tokens: u32, output_tokens: u32) -> TraceRow {
    TraceRow {
        arrival: Some(SimTime::from_nanos(arrival_ns)),
        prompt_tokens,
        output_tokens,
        ..TraceRow::default()
    }
}

// ── laws ────────────────────────────────────────────────────────────────────────────────────

/// Rows in order of time from zero on, with 512-token prefix ids and sessions on some.
fn any_rows() -> impl Strategy<Value = Vec<TraceRow>> {
    let one = (0..5_000_000_000_u64, 1..5000_u32, 1..900_u32, any::<bool>(), any::<Option<u64>>());
    prop::collection::vec(one, 1..40).prop_map(|parts| {
        let mut arrival = 0;
        let mut rows = Vec::new();
        for (gap, prompt_tokens, output_tokens, hashed, session) in parts {
            let blocks = if hashed { prompt_tokens.div_ceil(512) } else { 0 };
            rows.push(TraceRow {
                arrival: Some(SimTime::from_nanos(arrival)),
                prompt_tokens,
                output_tokens,
                hash_ids: (0..u64::from(blocks))
                    .map(|block| block * u64::from(prompt_tokens))
                    .collect(),
                hash_block_tokens: if hashed { 512 } else { 0 },
                session,
                class: None,
                adapter: None,
            });
            arrival += gap;
        }
        rows
    })
}

/// What a format keeps of a row.
fn kept(row: &TraceRow, format: TraceFormat) -> TraceRow {
    let (unit, session, hashes) = match format {
        TraceFormat::Azure => (100, false, false),
        TraceFormat::Mooncake => (1_000_000, true, true),
        TraceFormat::BurstGpt => (1_000_000_000, false, false),
        TraceFormat::Csv => (1, true, false),
        _ => (1, true, true),
    };
    let mut row = row.clone();
    row.arrival = row.arrival.map(|at| SimTime::from_nanos(at.as_nanos() / unit * unit));
    row.session = row.session.filter(|_| session);
    if !hashes {
        (row.hash_ids, row.hash_block_tokens) = (Vec::new(), 0);
    }
    row
}

proptest! {
    #![proptest_config(crate::support::random_cases(32))]

    #[test]
    fn what_is_written_reads_back_to_the_resolution_of_the_format(rows_in in any_rows()) {
        let folder = folder();
        let epoch_nanos = parse_wall_clock("2023-11-16 18:17:03.9799600").unwrap();
        let options = WriteOptions { existing: Existing::Replace, epoch_nanos };
        for format in [
            TraceFormat::Azure,
            TraceFormat::Mooncake,
            TraceFormat::BurstGpt,
            TraceFormat::Csv,
            TraceFormat::Jsonl,
        ] {
            for name in ["trace", "trace.gz"] {
                let path = folder.path().join(name);
                let given = rows_in.iter().cloned().map(Ok::<_, TraceError>);
                let written = write(&path, format, given, &options).unwrap();
                prop_assert_eq!(written.rows, rows_in.len() as u64);
                let expected: Vec<_> = rows_in.iter().map(|row| kept(row, format)).collect();
                // The format is found again from the file itself.
                let reader = open(&path, None, &TraceOptions::default()).unwrap();
                prop_assert_eq!(reader.format(), format);
                prop_assert_eq!(reader.collect::<Result<Vec<_>, _>>().unwrap(), expected);
            }
        }
    }
}

#[test]
fn any_origin_gives_the_first_row_time_zero() {
    let folder = folder();
    let shifted = file(&folder, "t.csv", "arrival_ms,prompt_tokens,output_tokens\n-5,1,2\n7,3,4\n");
    assert_eq!(rows(&shifted), [row(0, 1, 2), row(12_000_000, 3, 4)]);
}

#[test]
fn an_azure_file_written_from_its_own_origin_is_the_same_file() {
    let folder = folder();
    let text = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n\
                2023-11-16 18:17:04.0319600,3180,8\n";
    let source = file(&folder, "in.csv", text);
    let mut reader = open(&source, None, &TraceOptions::default()).unwrap();
    let read: Vec<_> = reader.by_ref().collect();
    let epoch_nanos = reader.origin_nanos().expect("a clock");
    let target = folder.path().join("out.csv");
    let options = WriteOptions { epoch_nanos, ..WriteOptions::default() };
    write(&target, TraceFormat::Azure, read, &options).unwrap();
    assert_eq!(fs::read_to_string(&target).unwrap(), text);
}

// ── formats by example ──────────────────────────────────────────────────────────────────────

#[test]
fn azure_stamps_keep_their_seventh_digit() {
    let folder = folder();
    let path = file(
        &folder,
        "t.csv",
        "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 23:59:59.9999999,5,6\r\n\
         2023-11-17 00:00:00.0000001,7,8",
    );
    assert_eq!(rows(&path), [row(0, 5, 6), row(200, 7, 8)]);
}

#[test]
fn a_failed_burstgpt_request_is_skipped_and_counted() {
    let folder = folder();
    let path = file(
        &folder,
        "t.csv",
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type,Session ID\n\
         5,ChatGPT,472,18,490,Conversation log,12.0\n45,ChatGPT,1087,0,1087,API log,\n\
         118,GPT-4,417,276,693,API log,\n",
    );
    let mut reader = open(&path, None, &TraceOptions::default()).unwrap();
    let read: Vec<_> = reader.by_ref().map(Result::unwrap).collect();
    let first = TraceRow { session: Some(12), ..row(0, 472, 18) };
    assert_eq!(read, [first, row(113_000_000_000, 417, 276)]);
    assert_eq!(reader.skipped(), Skipped { zero_prompt: 0, zero_output: 1 });
}

#[test]
fn mooncake_rows_have_blocks_of_512_and_bailian_rows_of_16() {
    let folder = folder();
    let mooncake = file(
        &folder,
        "m.jsonl",
        "\u{feff}{\"timestamp\": 27, \"input_length\": 513, \"output_length\": 4, \
         \"hash_ids\": [9, 8]}\n\n{\"timestamp\": 30, \"input_length\": 2, \"output_length\": 4, \
         \"hash_ids\": [7], \"extra\": {\"deep\": [1, {}]}}\n",
    );
    let read = rows(&mooncake);
    assert_eq!((read[0].hash_ids.as_slice(), read[0].hash_block_tokens), (&[9, 8][..], 512));
    assert_eq!(read[1].arrival, Some(SimTime::from_nanos(3_000_000)));
    let bailian = file(
        &folder,
        "b.jsonl",
        r#"{"chat_id": 1, "parent_chat_id": -1, "timestamp": 61.114, "input_length": 17, "output_length": 3, "type": "text", "turn": 1, "hash_ids": [1, 2]}
{"chat_id": 2, "parent_chat_id": 1, "timestamp": 61.115, "input_length": 16, "output_length": 3, "type": "text", "turn": 2, "hash_ids": [1]}"#,
    );
    let read = rows(&bailian);
    assert_eq!(read[0].hash_block_tokens, 16);
    assert_eq!(read[1].arrival, Some(SimTime::from_nanos(1_000_000)));
}

#[test]
fn the_name_of_a_column_or_the_user_tells_the_unit() {
    let folder = folder();
    for (text, unit) in [
        ("arrival_time_ns,input_tokens,output_tokens\n5000,1,1\n6000,1,1\n", TimeUnit::Nanoseconds),
        ("timestamp_us,prompt_len,output_len\n5,1,1\n6,1,1\n", TimeUnit::Microseconds),
        ("id,arrived_at,input_len,output_len\n0,0.5,1,1\n1,0.500001,1,1\n", TimeUnit::Seconds),
        (
            "timestamp,prompt_tokens,output_tokens\n2024-05-10 00:00:00.009930+00:00,1,1\n\
             2024-05-10 00:00:00.009931+00:00,1,1\n",
            TimeUnit::WallClock,
        ),
    ] {
        let path = file(&folder, "t.csv", text);
        let reader = open(&path, None, &TraceOptions::default()).unwrap();
        assert_eq!(reader.time_unit(), Some(unit));
        let read: Vec<_> = reader.map(Result::unwrap).collect();
        assert_eq!(read, [row(0, 1, 1), row(1000, 1, 1)], "{text}");
    }
    let mut options =
        TraceOptions { time_unit: Some(TimeUnit::Milliseconds), ..TraceOptions::default() };
    options.columns.prompt_tokens = Some("in".to_owned());
    let path = file(&folder, "t.csv", "timestamp,in,output_tokens\n1,8,9\n2.5,8,9\n");
    let read = rows_with(&path, Some(TraceFormat::Csv), &options).unwrap();
    assert_eq!(read[1].arrival, Some(SimTime::from_nanos(1_500_000)));
}

#[test]
fn names_of_columns_may_be_written_in_any_way() {
    let folder = folder();
    for header in [
        "Arrival Time (s),Prompt Tokens,Output Tokens",
        "arrivalTime_seconds,promptTokens,completionTokens",
        "Arrival-Time-S,ISL,OSL",
        "time_s,num_prompt_tokens,num_generated_tokens",
        "timestamp.s,Input Length,Response-Length",
    ] {
        let path = file(&folder, "t.csv", format!("{header}\n1,5,6\n2.5,7,8\n"));
        assert_eq!(rows(&path), [row(0, 5, 6), row(1_500_000_000, 7, 8)], "{header}");
    }
    // Names of a published format are as they are written there.
    let loose = "timestamp,context tokens,Generated_Tokens\n";
    let options = TraceOptions::default();
    let error = refusal_with("t.csv", loose, Some(TraceFormat::Azure), &options);
    assert!(error.contains("azure needs columns"), "{error}");
}

#[test]
fn separators_marks_and_line_ends_of_spreadsheets_are_read() {
    let folder = folder();
    let comma = "arrival_ms,prompt_tokens,output_tokens\n0,5,6\n1500,7,8\n";
    let expected = rows(&file(&folder, "t.csv", comma));
    assert_eq!(expected, [row(0, 5, 6), row(1_500_000_000, 7, 8)]);
    for separator in [",", ";", "\t"] {
        for end in ["\n", "\r\n"] {
            for mark in ["", "\u{feff}"] {
                let text = format!("{mark}{comma}").replace(',', separator).replace('\n', end);
                assert_eq!(rows(&file(&folder, "t.csv", &text)), expected, "{text:?}");
            }
        }
    }
    let wide: Vec<u8> =
        format!("\u{feff}{comma}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(
        refusal("t.csv", wide),
        "t.csv: must be text in UTF-8, got UTF-16; save it as UTF-8"
    );
}

#[test]
fn commas_in_numbers_are_refused_by_name() {
    let csv = |row: &str| {
        refusal("t.csv", format!("arrival_s;prompt_tokens;output_tokens\n0;1;1\n{row}\n"))
    };
    let rule = "must have a point before its decimals and no commas, got";
    assert_eq!(csv("0,5;1;1"), format!("t.csv:3: `arrival_s` {rule} `0,5`"));
    assert_eq!(csv("1;1,024;1"), format!("t.csv:3: `prompt_tokens` {rule} `1,024`"));
    assert_eq!(
        refusal("t.csv", "arrival_s,prompt_tokens,output_tokens\n0,5,1,1\n"),
        "t.csv:2: a row must have as many fields as the header, 3, got 4 (are there commas inside \
         numbers or texts?)"
    );
}

#[test]
fn rows_before_the_first_need_the_earliest_as_origin() {
    let text = "arrival_s,prompt_tokens,output_tokens\n5,1,1\n3,2,2\n9,3,3\n";
    let first = TraceOptions { origin: Origin::FirstRow, ..TraceOptions::default() };
    let error = refusal_with("t.csv", text, None, &first);
    assert_eq!(
        error,
        "t.csv:3: the first row must be the earliest, this one is 2.000000 s before it; sort the \
         file, or let the earliest row be time zero (origin earliest_row)"
    );
    let folder = folder();
    let options = TraceOptions { origin: Origin::EarliestRow, ..TraceOptions::default() };
    let read = rows_with(&file(&folder, "t.csv", text), None, &options).unwrap();
    let second = 1_000_000_000;
    assert_eq!(read, [row(2 * second, 1, 1), row(0, 2, 2), row(6 * second, 3, 3)]);
}

// ── wrong files ─────────────────────────────────────────────────────────────────────────────

#[test]
fn a_missing_column_names_what_is_there_and_what_is_close() {
    assert_eq!(
        refusal_with(
            "t.csv",
            "TIMESTAMP,ContextToken,GeneratedTokens\n",
            Some(TraceFormat::Azure),
            &TraceOptions::default()
        ),
        "t.csv:1: azure needs a column for the prompt tokens (`ContextTokens`), found \
         `TIMESTAMP`, `ContextToken`, `GeneratedTokens`; say which it is, as in `--column \
         prompt_tokens=ContextToken`, or in a scenario `trace.columns = { prompt_tokens = \
         \"ContextToken\" }`"
    );
    // Everything that is missing is told at once, and columns that are taken are not proposed.
    assert_eq!(
        refusal("t.csv", "when,id,length of prompt,size,output_tokens\n"),
        "t.csv:1: csv needs columns for the arrival time (such as `arrival_s`), the prompt tokens \
         (such as `prompt_tokens`), found `when`, `id`, `length of prompt`, `size`, \
         `output_tokens`; say which it is, as in `--column arrival=NAME --column \
         'prompt_tokens=length of prompt'`, or in a scenario `trace.columns = { arrival = \
         \"NAME\", prompt_tokens = \"length of prompt\" }`"
    );
    // What has one column is no trace: no part of it is proposed.
    let alone = refusal("t.csv", "# A scenario of mine\nname = \"x\"\n");
    assert!(alone.contains("found `# A scenario of mine` alone; a trace has"), "{alone}");
    assert!(!alone.contains("--column"), "{alone}");
    let error = refusal("t.jsonl", r#"{"arrival_s": 1, "prompt_tokens": 2}"#);
    assert!(error.starts_with("t.jsonl:1: jsonl needs a column for the output tokens"), "{error}");
}

#[test]
fn a_wrong_row_is_named_with_its_line_its_rule_and_its_value() {
    let csv = |row: &str| {
        refusal("t.csv", format!("arrival_s,prompt_tokens,output_tokens\n0,1,1\n{row}\n"))
    };
    let tokens = "must be a whole number of tokens, 0 to 4294967295, got";
    for (row, problem) in [
        ("1,4294967296,1", format!("`prompt_tokens` {tokens} `4294967296`")),
        ("1,-3,1", format!("`prompt_tokens` {tokens} `-3`")),
        ("1,3,1.5", format!("`output_tokens` {tokens} `1.5`")),
        ("1,,1", format!("`prompt_tokens` {tokens} ``")),
        ("NaN,3,1", "`arrival_s` must be a finite number of seconds, got `NaN`".to_owned()),
        ("1,0,1", "a request must have at least 1 prompt token, got 0".to_owned()),
        ("1,1,0", "a request must have at least 1 output token, got 0".to_owned()),
        (
            "1,2",
            "a row must have as many fields as the header, 3, got 2 (is the file cut off?)"
                .to_owned(),
        ),
    ] {
        assert_eq!(csv(row), format!("t.csv:3: {problem}"));
    }
    assert_eq!(
        refusal("t.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n16.11.2023 18:17,1,1\n"),
        "t.csv:2: `TIMESTAMP` must be a stamp like 2023-11-16 18:17:03.9799600, got \
         `16.11.2023 18:17`"
    );
    assert_eq!(
        refusal("t.csv", "timestamp,prompt_tokens,output_tokens\n17,1,1\n"),
        "t.csv:2: the name of column `timestamp` does not say the unit of its times (first value \
         `17`); state it, as in `--time-unit ms` or `trace.time_unit = \"ms\"`: s, ms, us or ns"
    );
}

#[test]
fn a_unit_that_the_name_of_the_column_contradicts_is_refused() {
    let text = "sent_ms,prompt_tokens,output_tokens\n0,1,1\n1000,1,1\n";
    let with = |unit| {
        let mut options = TraceOptions { time_unit: Some(unit), ..TraceOptions::default() };
        options.columns.arrival = Some("sent_ms".to_owned());
        options
    };
    assert_eq!(
        refusal_with("t.csv", text, None, &with(TimeUnit::Seconds)),
        "t.csv:1: the name of column `sent_ms` says milliseconds, and `--time-unit` or `trace.time_unit` says \
         seconds; leave that out, or rename the column"
    );
    let folder = folder();
    let read = rows_with(&file(&folder, "t.csv", text), None, &with(TimeUnit::Milliseconds));
    assert_eq!(read.unwrap(), [row(0, 1, 1), row(1_000_000_000, 1, 1)]);
}

#[test]
fn a_wrong_json_line_is_named_too() {
    let good = r#"{"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids": [1]}"#;
    let json = |line: &str| refusal("t.jsonl", format!("{good}\n{line}"));
    assert_eq!(
        json(r#"{"timestamp": 3, "input_le"#),
        "t.jsonl:2: a line must hold one whole JSON object, this one ends inside it (is the file \
         cut off?)"
    );
    assert_eq!(
        json(r#"{"timestamp": 3, "input_length": 5}"#),
        "t.jsonl:2: the row must have `output_length` as the first row does"
    );
    let tokens = "must be a whole number of tokens, 0 to 4294967295, got";
    assert_eq!(
        json(r#"{"timestamp": 3, "input_length": -5, "output_length": 1}"#),
        format!("t.jsonl:2: `input_length` {tokens} `-5`")
    );
    assert_eq!(
        json(r#"{"timestamp": 3, "input_length": 5.5, "output_length": 1}"#),
        format!("t.jsonl:2: `input_length` {tokens} `5.5`")
    );
    assert_eq!(
        json(r#"{"timestamp": 3, "input_length": 1025, "output_length": 1, "hash_ids": [1]}"#),
        "t.jsonl:2: `hash_ids` must have one id for every 512 prompt tokens, 3 for 1025, got 1; \
         if blocks are of another size, state it"
    );
    assert_eq!(
        json(r#"{"timestamp": 3, "input_length": "5", "output_length": 1}"#),
        format!("t.jsonl:2: `input_length` {tokens} `\"5\"`")
    );
    assert!(json("[1]").starts_with("t.jsonl:2: a line must hold one JSON object"));
    let more = json(r#"{"timestamp": 3, "input_length": 5, "output_length": 1} x"#);
    assert!(more.contains("JSON object: trailing characters at column 57"), "{more}");
}

#[test]
fn a_trace_without_rows_is_refused() {
    for content in ["", "\n\n", "TIMESTAMP,ContextTokens,GeneratedTokens\n"] {
        assert!(refusal("t.csv", content).starts_with("t.csv: the trace is empty"), "{content:?}");
    }
    assert_eq!(
        refusal("t.csv", "prompt_len,output_len\n0,5\n7,0\n"),
        "t.csv: none of the 2 rows has both prompt and output tokens"
    );
    assert!(refusal("t.json", "[{\"conversations\": []}]").contains("must be tokenised first"));
}

#[test]
fn a_path_of_the_wrong_kind_is_refused() {
    let folder = folder();
    let options = TraceOptions::default();
    let error = |path: &Path, format| rows_with(path, format, &options).unwrap_err().to_string();
    let path = folder.path();
    assert!(error(path, Some(TraceFormat::Azure)).ends_with("must be a file, got a folder"));
    assert!(error(path, None).contains("a folder must be a servegen trace"));
    assert!(error(&path.join("none"), None).contains("cannot be read"));
    let plain = file(&folder, "t.csv", "prompt_len,output_len\n1,1\n");
    assert!(error(&plain, Some(TraceFormat::ServeGen)).contains("must be a folder of chunk"));
    let cut = file(&folder, "t.csv.gz", [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1]);
    assert!(error(&cut, None).contains(": ends before its gzip stream does; "));
}

#[test]
fn a_failed_write_leaves_nothing_behind() {
    let folder = folder();
    let target = folder.path().join("t.csv");
    let one = || [Ok::<_, TraceError>(row(0, 1, 1))];
    let options = WriteOptions::default();
    let untimed =
        [Ok(row(0, 1, 1)), Ok::<_, TraceError>(TraceRow { arrival: None, ..row(0, 1, 1) })];
    let error = write(&target, TraceFormat::Csv, untimed, &options).unwrap_err();
    assert!(error.to_string().contains("row 2: a row of a csv trace must have an arrival"));
    assert!(write(&target, TraceFormat::Vidur, one(), &options).is_err());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);

    write(&target, TraceFormat::Csv, one(), &options).unwrap();
    let before = fs::read(&target).unwrap();
    let error = write(&target, TraceFormat::Azure, one(), &options).unwrap_err();
    assert!(matches!(error, TraceError::Exists { .. }), "{error}");
    assert_eq!(fs::read(&target).unwrap(), before);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);

    let nowhere = folder.path().join("none").join("t.csv");
    let error = write(&nowhere, TraceFormat::Csv, one(), &options).unwrap_err();
    assert!(error.to_string().contains("does not exist; make it first"), "{error}");
}

/// A disk with room for some bytes.
struct Disk(usize);

impl io::Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        Ok(taken)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_an_error_wherever_it_fills() {
    let options = WriteOptions::default();
    for room in [0, 10, 60, 100] {
        for format in [TraceFormat::Azure, TraceFormat::Mooncake, TraceFormat::Csv] {
            let rows = (0..4).map(|i| Ok::<_, TraceError>(row(i, 1, 1)));
            let written = write_to(&mut Disk(room), Path::new("t"), format, rows, &options);
            let error = written.expect_err("no room").to_string();
            assert!(error.starts_with("t: cannot be written"), "{error}");
        }
    }
}

#[test]
fn what_a_format_cannot_hold_is_counted_or_refused() {
    let folder = folder();
    let full = TraceRow {
        hash_ids: vec![1, 2],
        hash_block_tokens: 16,
        session: Some(4),
        ..row(1_500_000, 20, 1)
    };
    let given = || [Ok::<_, TraceError>(full.clone())];
    let options = WriteOptions::default();
    let written =
        write(&folder.path().join("b"), TraceFormat::BurstGpt, given(), &options).unwrap();
    assert_eq!((written.hash_ids_lost, written.sessions_lost, written.arrivals_rounded), (1, 1, 1));
    let error = write(&folder.path().join("m"), TraceFormat::Mooncake, given(), &options);
    assert!(error.unwrap_err().to_string().contains("must stand for 512 tokens, these for 16"));
}

#[test]
fn a_trace_opened_while_it_is_described_has_the_rows_of_one_opened_by_itself() {
    let folder = TempDir::new().expect("a scratch folder");
    let path = folder.path().join("t.csv");
    // kept in memory, and read again
    for rows in [10, 300_000] {
        let row = |n: u32| format!("{},{},{}\n", 7 + (n ^ 1), 1 + n % 50, 1 + n % 9);
        let text: String = (0..rows).map(row).collect();
        fs::write(&path, format!("arrival_s,prompt_tokens,output_tokens\n{text}")).expect("room");
        let options = TraceOptions { origin: Origin::EarliestRow, ..TraceOptions::default() };
        let (summary, both) = describe_and_open(&path, None, &options).expect("readable");
        assert_eq!(summary, describe(&path, None, &options).expect("readable"));
        assert_eq!(summary.rows, u64::from(rows));
        let alone = open(&path, None, &options).expect("readable").into_rows();
        assert!(both.map(Result::unwrap).eq(alone.map(Result::unwrap)));
    }
}

// ── the published traces ────────────────────────────────────────────────────────────────────

fn figures(path: &Path) -> TraceSummary {
    describe(path, None, &TraceOptions::default()).expect("a published trace is readable")
}

/// Equal when rounded to as many decimal places as are known.
fn near(found: f64, known: f64, places: i32) {
    let half = 0.5 * 10_f64.powi(-places) * (1.0 + 1e-9);
    assert!((found - known).abs() <= half, "found {found}, known {known}");
}

/// Equal to a tenth of a percent: these are known to that, rounded from hundredths.
fn within_a_thousandth(found: f64, known: f64) {
    assert!((found - known).abs() < 0.001, "found {found}, known {known}");
}

/// Mean to its printed places; percentiles within a token, as they are known to whole ones cut off.
fn lengths(found: &servecast::io::traces::LengthSummary, known: [f64; 5], places: i32) {
    near(found.mean, known[0], places);
    for (found, known) in [found.p50, found.p90, found.p99, found.max].into_iter().zip(&known[1..])
    {
        assert!((found - known).abs() < 1.0, "found {found}, known {known}");
    }
}

#[test]
#[ignore = "needs SERVECAST_DATA"]
fn azure_2023_has_its_known_figures() {
    let data = data();
    let folder = data.join("traces/azure2023");
    let code = figures(&folder.join("AzureLLMInferenceTrace_code.csv"));
    assert_eq!((code.format, code.rows, code.skipped.total()), (TraceFormat::Azure, 8819, 0));
    let time = code.time.as_ref().expect("times");
    near(time.span_s, 3436.0, 0);
    near(time.rate_per_s.unwrap(), 2.57, 2);
    let gaps = time.gaps.as_ref().expect("in order");
    near(gaps.cv.unwrap(), 13.2, 1);
    assert_eq!((gaps.per_minute_min, gaps.per_minute_max), (0, 632));
    lengths(&code.prompt_tokens, [2048.0, 1469.0, 5187.0, 7436.0, 7437.0], 0);
    lengths(&code.output_tokens, [27.9, 13.0, 55.0, 251.0, 1899.0], 1);

    let conv = figures(&folder.join("AzureLLMInferenceTrace_conv.csv"));
    assert_eq!(conv.rows, 19_366);
    let time = conv.time.as_ref().expect("times");
    near(time.span_s, 3502.0, 0);
    near(time.rate_per_s.unwrap(), 5.53, 2);
    let gaps = time.gaps.as_ref().expect("in order");
    near(gaps.cv.unwrap(), 1.09, 2);
    assert_eq!((gaps.per_minute_min, gaps.per_minute_max), (191, 507));
    // Of the seven digits the last is always zero.
    near(gaps.resolution_s, 1e-6, 8);
    lengths(&conv.prompt_tokens, [1155.0, 1020.0, 2734.0, 4142.0, 14050.0], 0);
    lengths(&conv.output_tokens, [211.0, 129.0, 424.0, 601.0, 1000.0], 0);
}

#[test]
#[ignore = "needs SERVECAST_DATA"]
fn mooncake_has_its_known_figures_and_reuse() {
    let data = data();
    let folder = data.join("traces/mooncake");
    let conversation = figures(&folder.join("conversation_trace.jsonl"));
    assert_eq!((conversation.format, conversation.rows), (TraceFormat::Mooncake, 12_031));
    let time = conversation.time.as_ref().expect("times");
    near(time.span_s, 3537.0, 0);
    near(time.rate_per_s.unwrap(), 3.40, 2);
    let gaps = time.gaps.as_ref().expect("in order");
    near(gaps.cv.unwrap(), 3.03, 2);
    near(gaps.zero_share, 0.90, 2);
    assert_eq!((gaps.distinct_stamps, gaps.same_stamp_max), (1180, 28));
    near(gaps.step_median_s.unwrap(), 3.0, 3);
    assert_eq!(conversation.notices().len(), 1);
    lengths(&conversation.prompt_tokens, [12035.0, 6909.0, 27367.0, 85400.0, 126_195.0], 0);
    lengths(&conversation.output_tokens, [343.0, 350.0, 597.0, 1118.0, 2000.0], 0);
    let prefix = conversation.prefix.expect("hash ids");
    near(prefix.hit_blocks_share, 0.366, 3);
    near(prefix.hit_tokens_share, 0.374, 3);
    near(prefix.used_once_share, 0.758, 3);
    let hits = [0.045, 0.110, 0.211, 0.288, 0.355, 0.364];
    for (found, known) in prefix.lru.iter().zip(hits) {
        within_a_thousandth(found.hit_blocks_share, known);
    }

    let synthetic = figures(&folder.join("synthetic_trace.jsonl"));
    assert_eq!(synthetic.rows, 3993);
    let time = synthetic.time.as_ref().expect("times");
    near(time.span_s, 1022.0, 0);
    near(time.rate_per_s.unwrap(), 3.91, 2);
    near(time.gaps.as_ref().expect("in order").cv.unwrap(), 1.01, 2);
    lengths(&synthetic.prompt_tokens, [15325.0, 11587.0, 38611.0, 66456.0, 191_378.0], 0);
    lengths(&synthetic.output_tokens, [149.0, 69.0, 389.0, 768.0, 893.0], 0);
    let prefix = synthetic.prefix.expect("hash ids");
    near(prefix.hit_blocks_share, 0.640, 3);
    near(prefix.hit_tokens_share, 0.651, 3);
    near(prefix.hit_requests_share, 0.446, 3);
    let hits = [0.083, 0.279, 0.424, 0.572, 0.640, 0.640];
    for (found, known) in prefix.lru.iter().zip(hits) {
        within_a_thousandth(found.hit_blocks_share, known);
    }
}

#[test]
#[ignore = "needs SERVECAST_DATA"]
fn length_files_and_project_files_are_recognised() {
    let data = data();
    let arxiv = "traces/lengths/arxiv_summarization_stats_llama2_tokenizer_filtered_v2.csv";
    let arxiv = figures(&data.join(arxiv));
    assert_eq!((arxiv.format, arxiv.rows, arxiv.time), (TraceFormat::Vidur, 28_257, None));
    lengths(&arxiv.prompt_tokens, [2588.0, 2730.0, 3702.0, 3933.0, 4054.0], 0);
    lengths(&arxiv.output_tokens, [291.0, 167.0, 372.0, 3271.0, 4056.0], 0);

    let sharegpt = figures(&data.join("lora/sharegpt-lengths-llama2.csv"));
    assert_eq!(sharegpt.format, TraceFormat::ShareGptLengths);
    assert_eq!(sharegpt.rows + sharegpt.skipped.total(), 17_400);
    assert!(sharegpt.statement().ends_with("no times"), "{}", sharegpt.statement());

    let bench = figures(&data.join("bench-traces/w2.csv.gz"));
    assert_eq!((bench.format, bench.rows), (TraceFormat::Csv, 10_000));
    assert_eq!(bench.time_unit, Some(TimeUnit::Seconds));
    near(bench.time.unwrap().rate_per_s.unwrap(), 5.0, 0);

    let run = "real-runs/sharegpt-300/sharegpt-llama-3.1-8b-300-sps10.jsonl";
    let run = figures(&data.join(run));
    assert_eq!((run.format, run.rows), (TraceFormat::LlmServingSim, 300));
    lengths(&run.prompt_tokens, [857.0, 732.0, 1460.0, 2765.0, run.prompt_tokens.max], 0);
    lengths(&run.output_tokens, [653.0, 632.0, 770.0, 784.0, run.output_tokens.max], 0);
}

#[test]
#[ignore = "needs SERVECAST_DATA"]
fn servegen_requests_have_the_recorded_count_rates_and_lengths() {
    let data = data();
    let folder = data.join("traces/servegen/reason/deepseek-r1");
    let of = |seed, pairing| {
        let options = TraceOptions { seed: Seed(seed), pairing, ..TraceOptions::default() };
        open(&folder, None, &options).expect("a published folder is readable")
    };
    let summary = figures(&folder);
    // the sum of rate × 600 over all clients and windows
    assert_eq!((summary.format, summary.rows), (TraceFormat::ServeGen, 1_383_669));
    let time = summary.time.as_ref().expect("times");
    near(time.rate_per_s.unwrap(), 16.0, 0);
    assert_eq!(time.rows_out_of_order, 0);
    // The histograms of all clients, each weighted by the requests of the windows it holds for.
    let close = |found: f64, known: f64| {
        assert!((found / known - 1.0).abs() < 0.01, "found {found}, known {known}");
    };
    let (prompt, output) = (&summary.prompt_tokens, &summary.output_tokens);
    for (found, known) in [
        (prompt.mean, 1268.25),
        (prompt.p50, 208.0),
        (prompt.p90, 2092.0),
        (prompt.p99, 23_423.0),
        (prompt.max, 57_284.0),
        (output.mean, 1527.42),
        (output.p50, 792.0),
        (output.p90, 3432.0),
        (output.p99, 12_607.0),
        (output.max, 32_768.0),
    ] {
        close(found, known);
    }

    let head = |seed, pairing| -> Vec<TraceRow> {
        of(seed, pairing).take(2000).map(Result::unwrap).collect()
    };
    let first = head(1, LengthPairing::Shared);
    assert_eq!(first, head(1, LengthPairing::Shared));
    assert_ne!(first, head(2, LengthPairing::Shared));
    assert_ne!(first, head(1, LengthPairing::Independent));
}
