//! An order of admission of one's own, run through the project's suite of checks: short prompts first, but
//! nobody is overtaken for ever.
//!
//! ```sh
//! cargo run --release --no-default-features --example custom_admission
//! ```

#![allow(clippy::print_stdout, reason = "an example shows its result")]

use servecast::check::{Policies, Standing, Suite};
use servecast::engine::scheduler::{Admit, Doorkeeper, Held, Load};
use servecast::units::{SimDuration, SimTime};

/// The shortest prompt goes in first; who has waited for so long goes before all others.
#[derive(Debug, Clone)]
struct ShortestFirst {
    patience: SimDuration,
}

impl Admit for ShortestFirst {
    fn next(&mut self, waiting: &[Held], engine: &Load, now: SimTime) -> Option<usize> {
        // One at a time, so that the engine's own queue holds nobody whom a later one should overtake.
        if engine.waiting > 0 {
            return None;
        }
        let has_waited = |held: &Held| now - held.view().arrival > self.patience;
        let late = waiting.iter().position(has_waited);
        let shortest = (0..waiting.len()).min_by_key(|&place| waiting[place].view().prompt_tokens);
        late.or(shortest)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let policy = ShortestFirst { patience: SimDuration::from_millis(5000) };
    let policies = Policies::shipped().with_scheduler(|scenario, _group, engine| {
        // What the policy is not for is left out with a reason.
        if scenario.gateway().is_some() {
            return Err("the gateway orders requests already".to_owned());
        }
        Ok(Doorkeeper::new(policy.clone(), engine).into())
    });
    for outcome in Suite::built_in().check(&policies)? {
        if let Some(reason) = &outcome.left_out {
            println!("{}: left out, {reason}", outcome.scenario);
            continue;
        }
        let count = |wanted| outcome.deviations.iter().filter(|one| one.standing == wanted).count();
        let (better, worse) = (count(Standing::Better), count(Standing::Worse));
        println!("{}: {better} figures better, {worse} worse than allowed", outcome.scenario);
        for found in outcome.failures().filter(|found| found.figure.starts_with("mean_")) {
            println!("  {} {:?} -> {:?}", found.figure, found.golden, found.now);
        }
    }
    Ok(())
}
