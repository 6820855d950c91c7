//! What the runs of a comparison show.

use super::contestant::Contestant;
use super::runs::Runs;
use super::{Difference, Draws, Verdict, holm};
use crate::metrics::bench::{MetricKey, Tool};
use crate::study::{self, Sense};

/// A figure of a scenario beside that of the baseline.
#[derive(Debug)]
pub struct Finding {
    /// Its name.
    pub name: String,
    /// How much it differs.
    pub found: Difference,
    /// By itself, at the confidence that was asked for.
    pub verdict: Verdict,
    /// Together with all other judged figures of all scenarios; `None` where it is not judged.
    pub together: Option<Verdict>,
}

/// A part of the mean end-to-end time, in ms.
#[derive(Debug)]
pub struct Part {
    /// Its name.
    pub name: &'static str,
    /// Of the baseline.
    pub a: f64,
    /// Of the other.
    pub b: f64,
}

/// All of one scenario.
#[derive(Debug)]
pub struct Against {
    /// The place of the scenario; that of the baseline is 0.
    pub other: usize,
    /// Figures that are judged.
    pub judged: Vec<Finding>,
    /// Figures that were not asked for.
    pub beside: Vec<Finding>,
    /// Where the mean end-to-end time went.
    pub parts: Vec<Part>,
}

impl Against {
    /// Figures that are told beside the judged ones, in which no verdict is sought.
    pub(super) fn told(&self) -> impl Iterator<Item = &Finding> {
        let is_told = |finding: &&Finding| {
            is_told(&finding.name, [finding.found.mean_a, finding.found.mean_b])
        };
        self.beside.iter().filter(is_told)
    }
}

/// Whether a figure is told beside the judged ones, by its means of both scenarios: shares of prompts that were found in
/// prefix caches, where some were.
pub fn is_told(name: &str, means: [f64; 2]) -> bool {
    name == "cache_hit_rate" && means.iter().any(|mean| *mean > 0.0)
}

/// All that was found.
#[derive(Debug)]
pub struct Findings {
    /// Of each scenario but the baseline.
    pub each: Vec<Against>,
    /// Judged figures whose intervals are wider than asked for.
    pub wide: usize,
    /// Whether every run of a scenario gave the same figures, whatever its seed.
    pub is_without_chance: bool,
}

impl Findings {
    pub(super) fn new(all: &[Contestant], runs: &Runs) -> Self {
        let mut each: Vec<Against> = (1..all.len()).map(|other| against(other, runs)).collect();
        let p_values: Vec<f64> = each.iter().flat_map(|one| &one.judged).map(p_value).collect();
        let stands = holm(&p_values, runs.basis.confidence);
        let judged = each.iter_mut().flat_map(|one| &mut one.judged);
        for (finding, stands) in judged.zip(stands) {
            let sense = study::sense(&finding.name);
            finding.together = Some(Verdict::new(&finding.found, sense, stands));
        }
        let judged = each.iter().flat_map(|one| &one.judged);
        // More seeds of a trace would not narrow them.
        let judged = judged.filter(|_| runs.basis.draws == Draws::Requests);
        let wide = judged.filter(|finding| !runs.rounds.is_narrow(&finding.found)).count();
        Self { each, wide, is_without_chance: runs.is_without_chance() }
    }
}

fn p_value(finding: &Finding) -> f64 {
    finding.found.p_value
}

fn against(other: usize, runs: &Runs) -> Against {
    let finding = |name: &str| {
        let found = runs.difference(other, name)?;
        let stands = found.p_value < 1.0 - runs.basis.confidence;
        let verdict = Verdict::new(&found, study::sense(name), stands);
        Some(Finding { name: name.to_owned(), found, verdict, together: None })
    };
    let judged = runs.judged.iter().filter_map(|name| finding(name)).collect();
    let beside = runs.figures().filter(|name| runs.judged.iter().all(|judged| judged != name));
    let beside = beside.filter_map(finding).collect();
    let mean = |of: usize, name: &str| {
        let values = runs.values(of, name).unwrap_or_default();
        crate::stats::mean(&values)
    };
    let parts = study::parts().map(|name| Part { name, a: mean(0, name), b: mean(other, name) });
    let parts = parts.collect();
    Against { other, judged, beside, parts }
}

/// A figure as reports call it: `Mean TTFT (ms)`; its own name where they have none.
pub fn title(name: &str) -> String {
    match (name, MetricKey::parse(name)) {
        ("slo_attainment", _) => "SLO attainment".to_owned(),
        ("cache_hit_rate", _) => "Cache hit rate (%)".to_owned(),
        ("busy_max_over_mean", _) => "Busy max/mean".to_owned(),
        (_, Some(key)) => key.title(Tool::Vllm),
        (_, None) => name.to_owned(),
    }
}

/// The same without its unit.
pub fn plain(name: &str) -> String {
    let title = title(name);
    match title.split_once(" (") {
        Some((plain, _)) => plain.to_owned(),
        None => title,
    }
}

/// The words for a sense.
pub(super) fn sense_word(name: &str) -> Option<&'static str> {
    match study::sense(name) {
        Sense::LowerIsBetter => Some("lower"),
        Sense::HigherIsBetter => Some("higher"),
        Sense::Neither => None,
    }
}
