//! What a probe found, for people and as a file.

use std::fmt::Write as _;

use crate::calibrate::Estimate;
use crate::calibrate::probe::{Observed, Plan, Point, ProbeFit, Round};
use crate::calibration::{CalibrationFile, MadeOn};
use crate::cli::calibrate::parameter_table;
use crate::io::openai::Offered;

pub(super) struct Report<'a> {
    pub(super) points: &'a [Point],
    pub(super) fit: &'a ProbeFit,
    pub(super) is_affine: bool,
}

/// The rounds of a plan, a line each.
pub(super) fn plan(plan: &Plan) -> String {
    let mut text = format!("each {} times:\n", plan.repetitions);
    for one in &plan.rounds {
        // A string can always be written to.
        let _ = writeln!(text, "{}", round(one));
    }
    text
}

/// A round in words.
pub(super) fn round(round: &Round) -> String {
    let Round { streams, prompt_tokens, output_tokens, times } = round;
    let many = if *streams == 1 { "request" } else { "requests" };
    let times = if *times == 1 { String::new() } else { format!(", {times} times") };
    format!("{streams} {many}, {prompt_tokens} tokens in, {output_tokens} out{times}")
}

impl Report<'_> {
    pub(super) fn text(&self) -> String {
        let header = ("step", "measured ms", "fitted ms", "error");
        let mut text =
            format!("{:<36}{:>12}{:>11}{:>10}\n", header.0, header.1, header.2, header.3);
        for (point, fitted) in self.points.iter().zip(&self.fit.fitted_ms) {
            let name = match point.observed {
                Observed::FirstToken => format!("first token, prompt of {}", point.prompt_tokens),
                Observed::Gap => {
                    let context = point.shape.decode_context_max;
                    format!("gap, {} at context {context}", point.streams)
                }
            };
            let error = (fitted / point.measured_ms - 1.0) * 100.0;
            let measured = point.measured_ms;
            let _ = writeln!(text, "{name:<36}{measured:>12.3}{fitted:>11.3}{error:>+8.1} %");
        }
        text.push('\n');
        text.push_str(&parameter_table(&self.fit.estimates));
        for (term, value) in &self.fit.outside {
            let _ = writeln!(
                text,
                "{value:.4} {}: measured, but no key of type linear takes it",
                term.name()
            );
        }
        for pair in &self.fit.inseparable {
            let _ = writeln!(
                text,
                "{} and {} are not separable by these rounds (correlation {:+.2})",
                pair.first, pair.second, pair.correlation
            );
        }
        let _ = writeln!(text, "misfit: {:.1} times a noise of 1 %", self.fit.misfit);
        if self.is_affine {
            text.push_str(
                "for scenarios with step_time = { type = \"linear\", base_us = 0.0, \
                 prefill_token_us = 0.0, decode_seq_us = 0.0 }\n",
            );
        }
        text
    }

    /// The parameters as a file that scenarios can take.
    pub(super) fn file(
        &self,
        offered: &Offered,
        url: &str,
        base: Option<(&str, &MadeOn)>,
    ) -> String {
        let engine = offered.owned_by.as_deref().unwrap_or("unknown engine");
        let law = base
            .map_or_else(|| "affine law".to_owned(), |(base, _)| format!("step times of {base}"));
        let of_model = || MadeOn { models: vec![offered.id.clone()], ..MadeOn::default() };
        CalibrationFile {
            servecast: env!("CARGO_PKG_VERSION").to_owned(),
            fitted_to: vec![format!("probe of {} at {url} ({engine}), {law}", offered.id)],
            held_out: Vec::new(),
            misfit: self.fit.misfit,
            covariance: self.fit.covariance.clone(),
            made_on: Some(base.map_or_else(of_model, |(_, made_on)| made_on.clone())),
            parameters: self.fit.estimates.iter().map(Estimate::found).collect(),
        }
        .text()
    }
}
