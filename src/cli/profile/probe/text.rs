//! What a probe found, for people.

use std::fmt::Write as _;

use crate::calibrate::probe::{Observed, Probed};
use crate::cli::calibrate::parameter_table;

pub(super) fn text(probed: &Probed) -> String {
    let header = ("step", "measured ms", "fitted ms", "error");
    let mut text = format!("{:<36}{:>12}{:>11}{:>10}\n", header.0, header.1, header.2, header.3);
    for (point, fitted) in probed.points.iter().zip(&probed.fit.fitted_ms) {
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
    text.push_str(&parameter_table(&probed.fit.estimates));
    for (term, value) in &probed.fit.outside {
        let _ = writeln!(
            text,
            "{value:.4} {}: measured, but no key of type linear takes it",
            term.name()
        );
    }
    for pair in &probed.fit.inseparable {
        let _ = writeln!(
            text,
            "{} and {} are not separable by these rounds (correlation {:+.2})",
            pair.first, pair.second, pair.correlation
        );
    }
    let _ = writeln!(text, "misfit: {:.1} times a noise of 1 %", probed.fit.misfit);
    if probed.is_affine {
        text.push_str(
            "for scenarios with step_time = { type = \"linear\", base_us = 0.0, \
             prefill_token_us = 0.0, decode_seq_us = 0.0 }\n",
        );
    }
    text
}
