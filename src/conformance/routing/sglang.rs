//! Recorded decisions of `SGLang`'s router (0.3.2) and of vLLM's (0.1.17), replayed.
//!
//! What clients and workers do is told by the recording: when requests come and end, which answers fail. Which worker
//! each attempt goes to is decided by the policies that simulations use. What the router draws and does not show
//! (the owner of a prompt that lost its own) is kept open: of all that may have been drawn, what agrees goes on.
//!
//! * `sglang/settings.rs`: the command line
//! * `sglang/lines.rs`: what happened
//! * `sglang/prompt.rs`: texts
//! * `sglang/side.rs`: the policy that chooses one of several workers, and all that it may have drawn
//! * `sglang/drive.rs`: requests, attempts, read-outs
//! * `sglang/limit.rs`: recordings of the limit to requests

mod drive;
mod limit;
mod lines;
mod prompt;
mod settings;
mod side;

use serde_json::Value;

use super::Tally;
use crate::conformance::RecordingError;
use drive::Drive;
use lines::Line;
use settings::{Router, Settings};

/// The counter of uses at the first request is known modulo this: it hangs on how workers register.
const PHASES: u64 = 8;

/// Orders of workers that decode are told nowhere; of so many workers all are tried.
const ORDERED_MAX: usize = 6;

/// Replays a recording.
pub(super) fn replay(lines: &[Value]) -> Result<Tally, RecordingError> {
    let settings = Settings::read(lines)?;
    let lines = Line::read_all(lines, &settings)?;
    if settings.limit().is_some() {
        return Ok(limit::replay(&settings, &lines));
    }
    let orders = match settings.decodes() {
        Some(decodes) if decodes.len() <= ORDERED_MAX => permutations(decodes),
        Some(decodes) => vec![decodes.to_vec()],
        None => vec![Vec::new()],
    };
    let has_phases = settings.is_tree() && matches!(settings.router, Router::Sglang(_));
    let phases = if has_phases { PHASES } else { 1 };
    let mut best: Option<Tally> = None;
    for order in &orders {
        for phase in 0..phases {
            let tally = Drive::new(&settings, order, phase).run(&lines);
            if best.as_ref().is_none_or(|best| tally.wrong < best.wrong) {
                best = Some(tally);
            }
            if best.as_ref().is_some_and(|best| best.wrong == 0) {
                break;
            }
        }
    }
    Ok(best.expect("there is an order and a phase"))
}

fn permutations<T: Copy>(of: &[T]) -> Vec<Vec<T>> {
    if of.is_empty() {
        return vec![Vec::new()];
    }
    let with_first = |place: usize| {
        let others = [&of[..place], &of[place + 1..]].concat();
        permutations(&others).into_iter().map(move |rest| {
            let first = std::iter::once(of[place]);
            first.chain(rest).collect::<Vec<_>>()
        })
    };
    (0..of.len()).flat_map(with_first).collect()
}

#[cfg(test)]
mod tests;
