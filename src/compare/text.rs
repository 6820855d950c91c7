//! A comparison in print.

use super::contestant::Contestant;
use super::findings::{Against, Finding, Findings, plain, title};
use super::runs::Runs;
use super::{Interval, Pairing, Verdict, quantity};
use crate::plain::{percent, table};
use crate::stats;

/// The whole report.
pub(super) fn text(all: &[Contestant], runs: &Runs, findings: &Findings) -> String {
    let mut text = heading(all, runs, findings);
    for one in &findings.each {
        text += &against(&all[one.other], runs, one);
    }
    if findings.each.len() > 1 {
        text += &side_by_side(all, runs, findings);
    }
    text + &overall(all, runs, findings)
}

/// All scenarios in one table: the mean of each figure that is judged or told, and its difference from the baseline.
fn side_by_side(all: &[Contestant], runs: &Runs, findings: &Findings) -> String {
    let told: Vec<&str> =
        findings.each.iter().flat_map(Against::told).map(|told| told.name.as_str()).collect();
    let names = runs.figures().filter(|name| told.contains(name));
    let names: Vec<&str> = runs.judged.iter().map(String::as_str).chain(names).collect();
    let head = names.iter().flat_map(|name| [title(name), "against A".to_owned()]);
    let head = [String::new()].into_iter().chain(head).collect();
    let name = |one: &Contestant| format!("{}  {}", one.letter, one.name());
    let mean =
        |name| runs.values(0, name).map_or("–".to_owned(), |all| quantity(stats::mean(&all)));
    let baseline = names.iter().flat_map(|name| [mean(name), String::new()]);
    let baseline = [name(&all[0])].into_iter().chain(baseline).collect();
    let others = findings.each.iter().map(|one| {
        let cells = names.iter().flat_map(|name| {
            let finding = one.judged.iter().chain(&one.beside).find(|one| one.name == **name);
            finding.map_or([String::new(), String::new()], |finding| {
                [quantity(finding.found.mean_b), signed_difference(finding)]
            })
        });
        [name(&all[one.other])].into_iter().chain(cells).collect()
    });
    let rows: Vec<Vec<String>> = [head, baseline].into_iter().chain(others).collect();
    format!("\n# All beside each other\n{}", table(&rows, &[]))
}

fn signed_difference(finding: &Finding) -> String {
    let found = &finding.found;
    format!("{:+}", Interval::new(found.difference(), found.half_width))
}

fn heading(all: &[Contestant], runs: &Runs, findings: &Findings) -> String {
    let mut text: Vec<String> = Vec::new();
    for (place, contestant) in all.iter().enumerate() {
        let what = match place {
            0 => "baseline".to_owned(),
            _ => format!("differs in {}", contestant.changes()),
        };
        text.push(format!("{}  {}  ({what})\n", contestant.letter, contestant.name()));
    }
    let requests = match runs.basis.pairing {
        Pairing::Paired => "each in all scenarios",
        Pairing::Independent => "of each scenario, none in common",
    };
    let confidence = percent(runs.basis.confidence);
    let intervals = if findings.is_without_chance {
        String::new()
    } else {
        format!("; intervals hold the truth in {confidence}")
    };
    text.push(format!("{} seeds, {requests}{intervals}\n", runs.seeds()));
    let is_jittered = all.iter().any(Contestant::is_jittered_trace);
    let drawn = match (runs.are_resampled(), is_jittered) {
        (true, _) => Some(RESAMPLED),
        (false, true) => Some(JITTERED),
        (false, false) => None,
    };
    text.extend(drawn.map(|drawn| format!("{drawn}\n")));
    text.extend(cautions(all, runs, findings).into_iter().map(|line| line + "\n"));
    text.concat()
}

/// What a comparison says of traces.
const RESAMPLED: &str = "Each seed sends a stretch resampled from the trace; `--point` replays it as recorded. Intervals are of other traffic \
                         like it: more seeds do not narrow them.";

/// What a comparison says of traces whose arrivals are moved.
const JITTERED: &str = "Each seed plays the same trace, its arrivals moved within workload.arrivals.jitter_s: intervals say little of other \
                        traffic like it. Without jitter, long traces are resampled.";

/// What a comparison says of which nothing is drawn.
const WITHOUT_CHANCE: &str = "Nothing in these runs is drawn: every seed sends the same requests, so differences have no intervals and say \
                              nothing of other traffic. `workload.arrivals.jitter_s` spreads arrivals anew; arrivals of another type \
                              than `trace`, with lengths in the order `with_replacement`, draw both.";

/// What to know before the differences are read.
pub(super) fn cautions(all: &[Contestant], runs: &Runs, findings: &Findings) -> Vec<String> {
    let mut text = Vec::new();
    let letters = |has: fn(&Contestant) -> bool| {
        let letters = all.iter().filter(|one| has(one)).map(|one| one.letter.to_string());
        letters.collect::<Vec<_>>().join(", ")
    };
    let other = letters(|one| one.other_requests().next().is_some());
    if !other.is_empty() && runs.basis.pairing == Pairing::Paired {
        text.push(format!(
            "Other requests than A's: {other}. Pairs share the seed and not the requests."
        ));
    }
    let kernels = letters(Contestant::has_other_kernels);
    if !kernels.is_empty() {
        text.push(format!(
            "Other kernels than A's: {kernels}. Intervals are of chance alone, not of how far predictions are off."
        ));
    }
    if findings.is_without_chance {
        text.push(WITHOUT_CHANCE.to_owned());
    }
    if findings.wide > 0 {
        text.push(format!(
            "{} of {} intervals are wider than ± {} % of A after as many seeds as allowed.",
            findings.wide,
            findings.each.iter().map(|one| one.judged.len()).sum::<usize>(),
            quantity(runs.rounds.within * 100.0)
        ));
    }
    text
}

fn against(other: &Contestant, runs: &Runs, one: &Against) -> String {
    let letter = other.letter;
    let head = ["", "A", &letter.to_string(), "difference"].map(str::to_owned);
    let rows = one.judged.iter().chain(one.told()).map(|finding| {
        let found = &finding.found;
        let [a, b] = [found.mean_a, found.mean_b].map(quantity);
        [title(&finding.name), a, b, signed_difference(finding)]
    });
    let head = format!("\n# {letter} against A\n{}", columns([head].into_iter().chain(rows)));
    let sentences = one.judged.iter().map(|finding| sentence(finding, letter, runs) + "\n");
    head + &sentences.collect::<String>() + &parts(letter, one)
}

/// What a difference is, in a sentence.
pub(super) fn sentence(finding: &Finding, letter: char, runs: &Runs) -> String {
    let (name, found) = (plain(&finding.name), &finding.found);
    if runs.is_without_chance() {
        return format!("{}.", finding.verdict.of_these(&letter.to_string(), &name, found));
    }
    let note = format!("({}, {} seeds)", percent(runs.basis.confidence), runs.seeds());
    format!("{}.", finding.verdict.sentence(&letter.to_string(), &name, found, &note))
}

/// Where the mean end-to-end time went.
fn parts(letter: char, one: &Against) -> String {
    let head = ["Mean E2E (ms)", "A", &letter.to_string(), "difference"].map(str::to_owned);
    let row = |name: &str, a: f64, b: f64| {
        [name.to_owned(), format!("{a:.3}"), format!("{b:.3}"), signed_ms(b - a)]
    };
    let word = |name: &'static str| name.trim_start_matches("mean_").trim_end_matches("_ms");
    let there = one.parts.iter().filter(|part| part.a != 0.0 || part.b != 0.0);
    let rows = there.map(|part| row(word(part.name), part.a, part.b));
    let sum = |of: fn(&super::findings::Part) -> f64| one.parts.iter().map(of).sum::<f64>();
    let total = row("total", sum(|part| part.a), sum(|part| part.b));
    format!("\n{}", columns([head].into_iter().chain(rows).chain([total])))
}

/// All judged figures together.
fn overall(all: &[Contestant], runs: &Runs, findings: &Findings) -> String {
    let count: usize = findings.each.iter().map(|one| one.judged.len()).sum();
    let head = if findings.is_without_chance {
        format!("\n{OF_THESE}:\n")
    } else {
        format!(
            "\nAll {count} differences together ({} that none is found by chance, Holm):\n",
            percent(runs.basis.confidence)
        )
    };
    let lines = together(all, findings).into_iter().map(|line| line + "\n");
    head + &lines.collect::<String>()
}

/// What is said of differences that no interval belongs to.
const OF_THESE: &str = "Of these requests alone";

/// What each scenario is better and worse in, all differences taken together.
pub(super) fn together(all: &[Contestant], findings: &Findings) -> Vec<String> {
    let line = |one: &Against| {
        let words = verdicts(one, findings.is_without_chance);
        let other = &all[one.other];
        format!("{}  {}: {}", other.letter, other.name(), words.join("; "))
    };
    findings.each.iter().map(line).collect()
}

/// What a scenario is better and worse in, with no more said of a difference than stands among all of them.
fn verdicts(one: &Against, is_without_chance: bool) -> Vec<String> {
    let of = |wanted: &[Verdict]| {
        let found = one
            .judged
            .iter()
            .filter(|finding| finding.together.is_some_and(|verdict| wanted.contains(&verdict)));
        found.map(|finding| plain(&finding.name)).collect::<Vec<_>>()
    };
    let named = [
        ("better in", of(&[Verdict::Better])),
        ("worse in", of(&[Verdict::Worse])),
        ("higher in", of(&[Verdict::Higher])),
        ("lower in", of(&[Verdict::Lower])),
    ];
    let mut words: Vec<String> = named
        .iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(word, names)| format!("{word} {}", names.join(", ")))
        .collect();
    let is_unsure = |finding: &&Finding| {
        let by_itself = [Verdict::Better, Verdict::Worse, Verdict::Higher, Verdict::Lower];
        finding.together == Some(Verdict::NoDifference) && by_itself.contains(&finding.verdict)
    };
    let unsure: Vec<_> =
        one.judged.iter().filter(is_unsure).map(|finding| plain(&finding.name)).collect();
    let rest = of(&[Verdict::NoDifference, Verdict::Identical]).len() - unsure.len();
    if !unsure.is_empty() {
        words.push(format!("unsure in {}", unsure.join(", ")));
    }
    let others = if rest == 1 { "1 other".to_owned() } else { format!("{rest} others") };
    match (words.is_empty(), is_without_chance) {
        (true, true) => words.push("the same in all".to_owned()),
        (true, false) => words.push("no difference found in any".to_owned()),
        (false, true) if rest > 0 => words.push(format!("the same in {others}")),
        (false, false) if rest > 0 => {
            words.push(format!("no difference found in {others}"));
        }
        _ => {}
    }
    words
}

fn signed_ms(value: f64) -> String {
    if value > 0.0 { format!("+{value:.3}") } else { format!("{value:.3}") }
}

fn columns<const N: usize>(rows: impl Iterator<Item = [String; N]>) -> String {
    table(&rows.map(|row| row.to_vec()).collect::<Vec<_>>(), &[])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Basis, Difference, Draws};

    #[test]
    fn what_is_better_by_itself_alone_is_unsure() {
        let basis =
            Basis { pairing: Pairing::Paired, draws: Draws::Requests, confidence: 0.95, first: 3 };
        let finding = |name: &str, verdict, together| Finding {
            name: name.to_owned(),
            found: Difference::new(&[1.0, 2.0, 3.0], &[1.5, 2.0, 3.0], basis),
            verdict,
            together: Some(together),
        };
        let none = Verdict::NoDifference;
        let judged = vec![
            finding("mean_ttft_ms", Verdict::Better, Verdict::Better),
            finding("p99_ttft_ms", Verdict::Better, none),
            finding("mean_tpot_ms", Verdict::Worse, none),
            finding("mean_e2el_ms", none, none),
        ];
        let said = |judged| {
            let one = Against { other: 1, judged, beside: Vec::new(), parts: Vec::new() };
            verdicts(&one, false).join("; ")
        };
        assert_eq!(
            said(judged),
            "better in Mean TTFT; unsure in P99 TTFT, Mean TPOT; no difference found in 1 other"
        );
        assert_eq!(said(vec![finding("mean_e2el_ms", none, none)]), "no difference found in any");
        let alone = vec![finding("mean_e2el_ms", Verdict::Better, none)];
        assert_eq!(said(alone), "unsure in Mean E2EL");
    }
}
