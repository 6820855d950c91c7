//! What a check found, in print.

use crate::check::{Deviation, Outcome, Standing};

/// The whole report: a line for each scenario, and under it every figure that is not as recorded.
pub(super) fn text(outcomes: &[Outcome], forgotten: &[String]) -> String {
    let one = |outcome: &Outcome| {
        let reason = outcome.left_out.iter().map(|reason| format!("           {reason}\n"));
        let found = &outcome.deviations;
        let figures = if found.is_empty() { String::new() } else { table(found) };
        let head = format!("{:<9}  {}\n", word(outcome), outcome.scenario);
        head + &reason.collect::<String>() + &figures
    };
    let gone = |name: &String| {
        format!("FAIL       {name}\n           recorded, and there is no such scenario\n")
    };
    let count = |wanted: &str| outcomes.iter().filter(|outcome| word(outcome) == wanted).count();
    let failed = count("FAIL") + count("UNKNOWN") + forgotten.len();
    let (same, changed) = (count("as before"), count("changed"));
    let text: String = outcomes.iter().map(one).chain(forgotten.iter().map(gone)).collect();
    text + &format!("{same} as recorded, {changed} changed within tolerance, {failed} failed\n")
}

fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        _ if outcome.is_unrecorded => "UNKNOWN",
        _ if outcome.left_out.is_some() => "left out",
        _ if outcome.is_unchanged() => "as before",
        _ if outcome.passes() => "changed",
        _ => "FAIL",
    }
}

fn table(deviations: &[Deviation]) -> String {
    let mut shown: Vec<&Deviation> = deviations.iter().collect();
    shown.sort_by_key(|found| !found.standing.fails());
    let head = ["figure", "recorded", "now", "difference", "tolerance", ""].map(str::to_owned);
    let rows: Vec<[String; 6]> = [head].into_iter().chain(shown.into_iter().map(row)).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.to_vec()).collect();
    let lines = crate::plain::table(&rows, &[5]);
    lines.lines().fold(String::new(), |text, line| text + "           " + line + "\n")
}

fn row(found: &Deviation) -> [String; 6] {
    let number = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), digits);
    let difference = found.relative().map_or_else(
        || "–".to_owned(),
        |relative| match (relative * 100.0).abs() {
            small if small < 0.005 => format!("{:+.1e} %", relative * 100.0),
            _ => format!("{:+.2} %", relative * 100.0),
        },
    );
    let has_tolerance = !matches!(found.standing, Standing::Changed | Standing::OtherRequests);
    let tolerance = match found.tolerance {
        _ if !has_tolerance => "–".to_owned(),
        any if any.is_infinite() => "any".to_owned(),
        share => format!("{} %", share * 100.0),
    };
    let word = if found.standing.fails() {
        found.standing.name().to_uppercase()
    } else {
        found.standing.name().to_owned()
    };
    [found.figure.clone(), number(found.golden), number(found.now), difference, tolerance, word]
}

/// Six significant digits, or all before the point.
fn digits(value: f64) -> String {
    if value == 0.0 || value.fract() == 0.0 {
        return value.to_string();
    }
    let decimals = (5 - value.abs().log10().floor() as i32).clamp(0, 12) as usize;
    format!("{value:.decimals$}")
}
