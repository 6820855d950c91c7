//! How figures stand to recorded ones.

use super::outcome::Standing;
use super::{Golden, GoldenError};

const FILE: &str = r"
[tolerances]
default = 0.1
finished = 0.0
preemptions = inf
[tolerances_of.tight]
mean_ttft_ms = 0.01
[figures.loose]
arrived = 10.0
finished = 10.0
mean_ttft_ms = 100.0
output_throughput = 50.0
preemptions = 0.0
steps = 7.0
rejected = 0.0
[figures.tight]
mean_ttft_ms = 100.0
";

fn standings(scenario: &str, figures: &[(&str, f64)]) -> Vec<(String, Standing)> {
    let golden = Golden::parse(FILE).expect("the file is one");
    let figures = crate::study::Figures::of(figures.iter().copied());
    let found = golden.deviations(scenario, &figures).expect("it is recorded");
    found.into_iter().map(|one| (one.figure, one.standing)).collect()
}

const SAME: [(&str, f64); 7] = [
    ("arrived", 10.0),
    ("finished", 10.0),
    ("mean_ttft_ms", 100.0),
    ("output_throughput", 50.0),
    ("preemptions", 0.0),
    ("steps", 7.0),
    ("rejected", 0.0),
];

/// The one figure that differs, and how it stands.
fn standing(name: &str, value: f64) -> Standing {
    let changed = SAME.map(|(known, before)| (known, if known == name { value } else { before }));
    let found = standings("loose", &changed);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].0, name);
    found[0].1
}

#[test]
fn what_is_as_recorded_is_not_listed_and_anything_else_is() {
    assert!(standings("loose", &SAME).is_empty());
    assert_eq!(standing("mean_ttft_ms", 100.0 + 1e-12), Standing::WorseWithinTolerance);
    assert_eq!(standing("mean_ttft_ms", 110.0), Standing::WorseWithinTolerance);
    assert_eq!(standing("mean_ttft_ms", 110.1), Standing::Worse);
    assert_eq!(standing("mean_ttft_ms", 20.0), Standing::Better);
    assert_eq!(standing("output_throughput", 44.0), Standing::Worse);
    assert_eq!(standing("output_throughput", 51.0), Standing::Better);
    assert_eq!(standing("finished", 9.0), Standing::Worse);
    assert_eq!(standing("steps", 900.0), Standing::Changed);
    assert_eq!(standing("arrived", 11.0), Standing::OtherRequests);
}

#[test]
fn more_than_nothing_is_worse_unless_anything_is_allowed() {
    assert_eq!(standing("rejected", 1.0), Standing::Worse);
    assert_eq!(standing("preemptions", 1.0), Standing::WorseWithinTolerance);
}

#[test]
fn a_scenario_may_have_tolerances_of_its_own() {
    let found = standings("tight", &[("mean_ttft_ms", 102.0)]);
    assert_eq!(found, [("mean_ttft_ms".to_owned(), Standing::Worse)]);
}

#[test]
fn the_nearest_tolerance_that_names_a_figure_holds_and_a_default_of_a_scenario_before_that_of_all()
{
    let text = "[tolerances]\ndefault = 0.1\nmean_ttft_ms = 0.2\n\
                [tolerances_of.a]\ndefault = 0.3\np99_ttft_ms = 0.4\n\
                [figures.a]\nmean_ttft_ms = 1.0\n'urgent.p99_ttft_ms' = 1.0\nmean_tpot_ms = 1.0\n";
    let golden = Golden::parse(text).unwrap();
    golden.check_names().unwrap();
    for (scenario, figure, expected) in [
        ("a", "mean_ttft_ms", 0.2),
        ("a", "urgent.p99_ttft_ms", 0.4),
        ("a", "mean_tpot_ms", 0.3),
        ("b", "mean_tpot_ms", 0.1),
        ("b", "urgent.mean_ttft_ms", 0.2),
    ] {
        assert!(
            (golden.tolerance(scenario, figure) - expected).abs() < 1e-12,
            "{scenario} {figure}"
        );
    }
    for (own, told) in [
        (
            "[tolerances_of.c]\nfinished = 0.0\n",
            "tolerances_of.c: nothing of that name is recorded",
        ),
        ("[tolerances_of.a]\np99_tftt_ms = 0.0\n", "tolerances_of.a.p99_tftt_ms: nothing"),
    ] {
        let text = format!("[tolerances]\ndefault = 0.1\n{own}[figures.a]\nmean_ttft_ms = 1.0\n");
        let problem = Golden::parse(&text).unwrap().check_names().unwrap_err().to_string();
        assert!(problem.starts_with(told), "{problem}");
    }
}

#[test]
fn figures_that_come_and_go_are_named() {
    let found = standings("tight", &[("mean_tpot_ms", 3.0)]);
    let named = [("mean_tpot_ms", Standing::New), ("mean_ttft_ms", Standing::Gone)];
    assert!(named.iter().all(|(name, standing)| found.contains(&((*name).to_owned(), *standing))));
    assert!(Standing::Gone.fails() && !Standing::New.fails());
    assert!(
        Golden::parse(FILE)
            .unwrap()
            .deviations("absent", &crate::study::Figures::default())
            .is_none()
    );
}

#[test]
fn what_is_written_reads_back() {
    let golden = Golden::parse(FILE).unwrap();
    assert_eq!(Golden::parse(&golden.text()).unwrap(), golden);
    assert!(Golden::parse(&Golden::empty().text()).is_ok());
}

#[test]
fn files_that_are_none_are_refused() {
    assert!(matches!(Golden::parse("[tolerances]\n"), Err(GoldenError::NoDefault)));
    let negative = Golden::parse("[tolerances]\ndefault = 0.1\nfinished = -1.0\n").unwrap_err();
    assert_eq!(negative.to_string(), "tolerances.finished: must be 0 or more, or inf, got -1");
    assert!(Golden::parse("tolerance = 1").is_err());
    let long = format!("[tolerances]\ndefault = 0.1\n[figures.x]\n{} = 1.0\n", "f".repeat(201));
    let error = Golden::parse(&long).unwrap_err().to_string();
    assert_eq!(error, "figures: names have at most 200 letters, got 201");
}
