//! A comparison as JSON.

use serde_json::{Map, Value, json};

use super::Pairing;
use super::contestant::Contestant;
use super::findings::{Against, Finding, Findings, sense_word};
use super::runs::Runs;
use super::text;

/// Everything that was found; equal comparisons give equal bytes.
pub(super) fn value(all: &[Contestant], runs: &Runs, findings: &Findings) -> Value {
    let scenarios = all.iter().map(|one| {
        json!({
            "letter": one.letter,
            "name": one.name(),
            "changed": one.changed,
            "other_requests": one.other_requests().collect::<Vec<_>>(),
        })
    });
    json!({
        "servecast": env!("CARGO_PKG_VERSION"),
        "scenarios": scenarios.collect::<Vec<_>>(),
        "pairing": match runs.basis.pairing {
            Pairing::Paired => "paired",
            Pairing::Independent => "independent",
        },
        "confidence": runs.basis.confidence,
        "within": runs.rounds.within,
        "seeds": runs.seeds(),
        "seeds_of_first_round": runs.basis.first,
        "seeds_max": runs.rounds.most,
        "intervals_too_wide": findings.wide,
        "is_without_chance": findings.is_without_chance,
        "is_resampled": runs.are_resampled(),
        "cautions": text::cautions(all, runs, findings),
        "together": text::together(all, findings),
        "comparisons": findings.each.iter().map(|one| against(all, runs, one)).collect::<Vec<_>>(),
    })
}

fn against(all: &[Contestant], runs: &Runs, one: &Against) -> Value {
    let judged = one.judged.iter().map(|judged| {
        let mut value = finding(judged);
        value["sentence"] = json!(text::sentence(judged, all[one.other].letter, runs));
        value
    });
    let parts = one.parts.iter().map(|part| {
        let values = json!({ "a": part.a, "b": part.b, "difference": part.b - part.a });
        (part.name.to_owned(), values)
    });
    json!({
        "baseline": all[0].letter,
        "scenario": all[one.other].letter,
        "figures": judged.collect::<Vec<_>>(),
        "other_figures": one.beside.iter().map(finding).collect::<Vec<_>>(),
        "mean_e2e_parts": parts.collect::<Map<String, Value>>(),
    })
}

fn finding(finding: &Finding) -> Value {
    let found = &finding.found;
    let mut value = json!({
        "metric": finding.name,
        "better": sense_word(&finding.name),
        "a": found.mean_a,
        "b": found.mean_b,
        "difference": found.difference(),
        "difference_half_width": found.half_width,
        "relative": found.relative.map(|relative| relative.change),
        "relative_half_width": found.relative.map(|relative| relative.half_width),
        "p_value": found.p_value,
        "verdict": finding.verdict.name(),
    });
    if let Some(together) = finding.together {
        value["verdict_of_all_together"] = json!(together.name());
    }
    value
}
