//! What GPUs cost in a plan, and layouts that have no price or no room.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use servecast::load::{Listener, Note};

use super::{STUDY, plan, study};
use crate::cli::Cli;

const SLO: [&str; 4] = ["--slo", "p99_ttft_ms<=400", "--resamples", "0"];
const GPUS: [&str; 2] = ["--gpu", "H100,L4,MI300X"];

fn prices(answer: &Value) -> Vec<(&str, Option<f64>)> {
    let all = answer["prices"].as_array().unwrap();
    all.iter().map(|one| (one["gpu"].as_str().unwrap(), one["usd_per_hour"].as_f64())).collect()
}

#[test]
fn a_file_of_prices_is_that_of_arguments_whatever_its_format() {
    let list = [("H100", 2.5), ("NVIDIA L4", 0.45), ("B200", 6.0)];
    let toml = list.map(|(gpu, usd)| format!("\"{gpu}\" = {usd}")).join("\n");
    let csv = list.map(|(gpu, usd)| format!("{usd};{gpu}")).join("\n");
    let cli = study().file("p.toml", toml).file("p.csv", "usd_per_hour;gpu\n".to_owned() + &csv);
    let of = |more: &[&str]| plan(&cli, &[&SLO[..], &GPUS, more].concat());
    let arguments = of(&["--price", "H100=2.5", "--price", "L4=0.45"]);
    let known = [("H100-SXM5-80GB", Some(2.5)), ("L4", Some(0.45))];
    assert_eq!(prices(&arguments)[..2], known);
    for file in ["p.toml", "p.csv"] {
        let mut listed = of(&["--price-file", file]);
        assert_eq!(listed["prices"][0]["from"], file);
        listed["prices"] = arguments["prices"].clone();
        assert_eq!(listed, arguments, "{file}");
    }
    let both = of(&["--price-file", "p.toml", "--price", "L4=9"]);
    assert_eq!(prices(&both)[..2], [("H100-SXM5-80GB", Some(2.5)), ("L4", Some(9.0))]);
}

#[test]
fn files_that_are_no_prices_are_refused_with_place_value_and_rule() {
    for (name, text, words) in [
        (
            "p.toml",
            "H10O = 2",
            "p.toml: H10O: `H10O` is not in the catalogue of GPUs; did you mean `H100`?",
        ),
        ("p.toml", "H100 = -2", "p.toml: H100: must be US dollars per hour, above 0"),
        (
            "p.toml",
            "H100 = nan",
            "H100: must be US dollars per hour, above 0 and at most 10⁶, got NaN",
        ),
        ("p.toml", "H100 = 'two'", "H100: must be US dollars per hour, got \"two\""),
        ("p.toml", "H100 = 2\nH100-SXM5-80GB = 3", "has two prices"),
        ("p.toml", "H100 = ", "p.toml: "),
        ("p.csv", "gpu,usd\nH100,2", "p.csv: must have the columns gpu and usd_per_hour"),
        ("p.csv", "gpu,usd_per_hour\nH100,two", "H100: must be US dollars per hour, got `two`"),
        (
            "p.csv",
            "gpu,usd_per_hour\nH100",
            "p.csv: line 2: a row must have as many fields as the header, 2, got 1",
        ),
        ("p.csv", "gpu,usd_per_hour\n", "p.csv: has no prices"),
        ("p.toml", "# none yet\n", "p.toml: has no prices"),
        ("p.xls", "H100", "p.xls: is not a table"),
    ] {
        let cli = study().file(name, text);
        let arguments = [&["plan", "study.toml", "--price-file", name], &SLO[..]].concat();
        let ran = cli.run(arguments).expect_exit(2).stdout_is_empty();
        assert!(ran.stderr().contains(words), "{text}: {}", ran.stderr());
    }
    let missing = [&["plan", "study.toml", "--price-file", "none.toml"], &SLO[..]].concat();
    study().run(missing).expect_exit(2).stderr_has("none.toml: ");
}

#[test]
fn layouts_without_a_price_share_a_line_and_all_shows_each() {
    let arguments = [&["plan", "study.toml", "--tp", "1,2"], &SLO[..], &GPUS].concat();
    let brief = study().run(arguments.clone()).expect_exit(0).stdout();
    let line = "No price of L4 is known, which leaves 2 layouts out: TP1, TP2\n";
    assert!(brief.contains(line) && !brief.contains("\nL4 TP1"), "{brief}");
    let unpriced = "none known; give --price L4=USD or --price-file";
    assert!(
        brief.lines().any(|line| line.starts_with("L4 ") && line.ends_with(unpriced)),
        "{brief}"
    );
    let each = study().run([&arguments[..], &["--all"]].concat()).expect_exit(0).stdout();
    assert!(!each.contains(line) && each.contains("\nL4 TP1 "), "{each}");
}

#[test]
fn layouts_that_do_not_fit_share_a_line_and_all_shows_each() {
    let large = STUDY.replace("Llama-3.1-8B", "Llama-3.1-70B");
    let cli = Cli::new().file("study.toml", large);
    let gpus = ["--gpu", "H100,A100", "--tp", "1,2,4,8", "--max-gpus", "64"];
    let slo = ["--slo", "p99_ttft_ms<=4000", "--resamples", "0"];
    let arguments = [&["plan", "study.toml"], &gpus[..], &slo].concat();
    let brief = cli.run(arguments.clone()).expect_exit(0).stdout();
    let line = "1 layout does not fit the memory of A100-SXM4-80GB: TP1\n";
    assert!(brief.contains(line) && !brief.contains("\nA100-SXM4-80GB TP1"), "{brief}");
    let each = cli.run([&arguments[..], &["--all"]].concat()).expect_exit(0).stdout();
    let row = |line: &str| {
        line.starts_with("A100-SXM4-80GB TP1 ")
            && line.ends_with("does not fit the memory of A100-SXM4-80GB")
    };
    assert!(each.lines().any(row), "{each}");
    // Other reasons keep lines of their own.
    let odd = cli.run([&arguments[..], &["--tp", "3"]].concat());
    odd.expect_exit(0).stdout_has("TP3  ");
}

#[test]
fn all_layouts_are_searched_to_their_ends_and_the_answer_stays() {
    let arguments = ["--gpu", "H100,A100,H200", "--tp", "1,2,4"];
    let load = ["workload.arrivals.rate_per_s=400", "workload.num_requests=800"];
    let load = load.map(|set| ["--set", set]).concat();
    let of = |more: &[&str]| plan(&study(), &[&SLO[..], &arguments, &load, more].concat());
    let (usual, all) = (of(&[]), of(&["--all"]));
    let rows = |answer: &Value| answer["layouts"].as_array().unwrap().clone();
    assert!(rows(&usual).iter().any(|row| row.get("dearer").is_some()), "{usual:#}");
    assert!(rows(&all).iter().all(|row| row["keeps"] == true), "{all:#}");
    assert_eq!(usual["layouts"][0], all["layouts"][0]);
    assert_eq!(usual["verdict"], all["verdict"]);
    // What was found of a layout is the same, whether others were searched too.
    for row in rows(&usual).iter().filter(|row| row["keeps"] == true) {
        assert!(rows(&all).contains(row), "{row:#} is not in {all:#}");
    }
}

#[test]
fn a_plan_tells_of_every_run_and_prints_none_of_it_without_a_terminal() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hears = heard.clone();
    let listener = Listener::new(move |note| {
        if let Note::Progress(progress) = note {
            hears.lock().unwrap().push(progress.clone());
        }
    });
    let text = STUDY.replace("240", "60");
    let draft = servecast::load::from_text(&text).unwrap();
    let mut question = servecast::Plan::new(draft);
    question.slos = vec!["p99_ttft_ms<=400".to_owned()];
    question.resamples = 2;
    question.listener = listener;
    let answer = question.read().unwrap().answer().unwrap();
    let heard = heard.lock().unwrap();
    let most = heard.iter().map(|progress| progress.ended).max().unwrap();
    assert!(most < heard.len() && heard.len() > answer.tried.len(), "{heard:?}");
    assert!(heard.iter().all(|progress| progress.now.contains(" x H100-SXM5-80GB TP1")));
    let ran = study().run([&["plan", "study.toml"], &SLO[..]].concat()).expect_exit(0);
    assert!(!ran.stderr().contains(" runs"), "{}", ran.stderr());
}

#[test]
fn layouts_without_a_price_are_not_said_to_miss_slos() {
    let none = ["plan", "study.toml", "--gpu", "L4,A10", "--slo", "p99_ttft_ms<=400"];
    let none = study().run([&none[..], &["--resamples", "0"]].concat()).expect_exit(1);
    let none =
        none.stdout_has("No layout was tried: no price of their GPUs is known.\nGive prices");
    none.stderr_has("error: no layout was tried: no price of their GPUs is known");
    let tight = [&["plan", "study.toml", "--slo", "p99_ttft_ms<=0.1"], &GPUS[..]].concat();
    let tight = [&tight[..], &["--resamples", "0", "--max-gpus", "8"]].concat();
    study().run(tight).expect_exit(1).stdout_has(
        "No layout that has a price meets all SLOs.\n1 layout without a price took no part. Give prices with",
    );
}

#[test]
fn a_layout_that_costs_as_much_is_named_with_what_decides() {
    let rate = ["--set", "workload.arrivals.rate_per_s=4"];
    let of = |arguments: &[&str]| {
        let all = [&["plan", "study.toml"], &SLO[..], &rate, arguments].concat();
        study().run(all).expect_exit(0).stdout()
    };
    let more = of(&["--tp", "1,2", "--price", "H100=2"]);
    assert!(!more.contains("costs as much"), "{more}");
    let same = of(&["--gpu", "H100,A100", "--price", "H100=2", "--price", "A100=2"]);
    let line = "  1 x A100-SXM4-80GB TP1 costs as much and takes ";
    assert!(same.contains(line) && same.contains(" of what its tightest SLO allows, "), "{same}");
    let fewer =
        of(&["--tp", "1,2", "--gpu", "H100,A100", "--price", "H100=4", "--price", "A100=2"]);
    assert!(fewer.contains("Cheapest: 1 x A100-SXM4-80GB TP1 "), "{fewer}");
}
