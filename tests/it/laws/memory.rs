//! L3: every block is free, held or cached, at every step; and the limits of a step are kept.

use proptest::prelude::*;

use servecast::sim::{Observer, Occurrence};
use servecast::units::SimTime;

use super::random::{Case, cases};
use crate::support::{drive, instance};

/// Checks what a step may hold.
struct Limits<'a>(&'a Case);

impl Observer for Limits<'_> {
    fn on(&mut self, _: SimTime, what: Occurrence<'_>) {
        let Occurrence::Planned(_, batch, load) = what else { return };
        let engine = &self.0.engine;
        let (plan, limit) = (&batch.plan, |limit: Option<u32>| limit.expect("resolved"));
        let tokens: u32 = plan.decodes + plan.entries.iter().map(|entry| entry.tokens).sum::<u32>();
        assert_eq!(plan.shape.tokens(), tokens, "every token is priced");
        let seqs = plan.decodes + plan.entries.len() as u32;
        assert_eq!(plan.shape.seqs(), seqs, "every sequence is priced");
        assert!(tokens <= limit(engine.max_num_batched_tokens), "the budget holds");
        assert!(load.running <= limit(engine.max_num_seqs), "the seats hold");
        let mut seen: Vec<_> = plan.entries.iter().map(|entry| entry.request).collect();
        seen.extend(&plan.preempted);
        seen.sort_unstable();
        assert!(seen.windows(2).all(|pair| pair[0] != pair[1]), "{seen:?} are in a step once");
        for entry in &plan.entries {
            assert!(entry.tokens > 0, "a share of nothing");
            let end = entry.computed + entry.tokens;
            assert!(end <= limit(engine.max_model_len), "request {} grows to {end}", entry.request);
        }
    }
}

proptest! {
    #![proptest_config(crate::support::random_cases(400))]

    #[test]
    fn blocks_add_up_at_every_step_and_are_free_at_the_end(case in cases()) {
        let engine = instance(&case.engine, case.law);
        let (counts, engine) =
            drive(engine, &case.requests, &case.aborts, &mut Limits(&case), |engine, _| {
                assert!(engine.scheduler().is_balanced());
            });
        let load = engine.scheduler().load();
        if counts.stuck == 0 {
            prop_assert_eq!(load.kv_blocks_free, load.kv_blocks);
        }
    }
}
