//! Models whose layers keep different things: with windows that nothing outgrows they are served as models
//! that see everything, and whatever they keep, nothing of it is lost.

use proptest::collection::vec;
use proptest::prelude::*;

use servecast::engine::scheduler::Scheduler;
use servecast::engine::{Finish, Instance};
use servecast::ids::RequestId;
use servecast::model::{GroupKind, GroupSpec, Groups};
use servecast::request::Request;
use servecast::scenario::VllmConfig;
use servecast::sim::{Observer, Occurrence};
use servecast::units::SimTime;

use super::random::{Case, cases};
use crate::support::{drive, instance};

/// Who left, when, and with how many tokens.
#[derive(Debug, Default, PartialEq)]
struct Departures(Vec<(SimTime, RequestId, Finish, u32)>);

impl Observer for Departures {
    fn on(&mut self, at: SimTime, what: Occurrence<'_>) {
        if let Occurrence::Left(_, life, finish) = what {
            self.0.push((at, life.id, finish, life.generated));
        }
    }
}

fn spec(kind: GroupKind, block_size: u32) -> GroupSpec {
    GroupSpec { kind, block_size, layers: 1, page_bytes: 1 }
}

fn with_groups(case: &Case, engine: &VllmConfig, groups: Groups) -> Instance {
    instance(engine, case.law).with_scheduler(|scheduler| match scheduler {
        Scheduler::VllmV1(vllm) => Scheduler::VllmV1(Box::new(vllm.with_groups(groups))),
        other => other,
    })
}

fn departures(case: &Case, requests: &[Request], instance: Instance) -> Departures {
    let mut departures = Departures::default();
    drive(instance, requests, &case.aborts, &mut departures, |engine, _| {
        assert!(engine.scheduler().is_balanced(), "blocks do not add up");
    });
    departures
}

fn kinds(caches: bool, block_size: u32) -> impl Strategy<Value = Vec<GroupKind>> {
    let state = if caches { GroupKind::AlignedState } else { GroupKind::State };
    let kind = (0..4, 1_u32..40).prop_map(move |(kind, tokens)| match kind {
        0 => GroupKind::Full,
        1 => GroupKind::Sliding { window: tokens },
        // A chunk of vLLM's models is a whole number of blocks.
        2 => GroupKind::Chunked { chunk: tokens * block_size },
        _ => state,
    });
    vec(kind, 2..5)
}

proptest! {
    #![proptest_config(crate::support::random_cases(300))]

    #[test]
    fn a_window_that_nothing_outgrows_is_no_window(case in cases(), is_tight in any::<bool>()) {
        // Which of two groups' blocks is evicted first is another question where both are cached.
        let blocks = if is_tight { case.engine.num_gpu_blocks.expect("resolved") } else { 4000 };
        let plain = VllmConfig {
            num_gpu_blocks: Some(blocks),
            enable_prefix_caching: case.engine.enable_prefix_caching && !is_tight,
            watermark: 0.0,
            ..case.engine.clone()
        };
        let hybrid = VllmConfig { num_gpu_blocks: Some(2 * blocks - 1), ..plain.clone() };
        let size = plain.block_size;
        let window = GroupKind::Sliding { window: 1 << 20 };
        let groups = Groups::new(vec![spec(window, size), spec(GroupKind::Full, size)], None);
        let expected = departures(&case, &case.requests, instance(&plain, case.law));
        let got = departures(&case, &case.requests, with_groups(&case, &hybrid, groups));
        prop_assert_eq!(got, expected);
    }

    #[test]
    fn nothing_is_lost_whatever_groups_keep(
        (case, kinds) in cases().prop_flat_map(|case| {
            let kinds = kinds(case.engine.enable_prefix_caching, case.engine.block_size);
            (Just(case), kinds)
        }),
        interval in prop::option::of(0_u32..64),
    ) {
        let count = kinds.len() as u32;
        let drafts = case.engine.speculation.as_ref().map_or(0, |s| s.num_speculative_tokens);
        let blocks = case.engine.num_gpu_blocks.expect("resolved") + 2 + 2 * drafts;
        // Shares that end at blocks need chunks.
        let aligned = kinds.contains(&GroupKind::AlignedState);
        let engine = VllmConfig {
            num_gpu_blocks: Some(blocks * count),
            enable_chunked_prefill: case.engine.enable_chunked_prefill || aligned,
            ..case.engine.clone()
        };
        let size = engine.block_size;
        let is_state = |kind: &GroupKind| *kind == GroupKind::State;
        let tokens = |kind: &GroupKind| if is_state(kind) { 120 } else { size };
        let specs = kinds.iter().map(|kind| spec(*kind, tokens(kind))).collect();
        let groups = Groups::new(specs, interval);
        let mut departures = Departures::default();
        let (counts, last) = drive(
            with_groups(&case, &engine, groups),
            &case.requests,
            &case.aborts,
            &mut departures,
            |engine, _| assert!(engine.scheduler().is_balanced(), "blocks do not add up"),
        );
        let left = counts.finished + counts.aborted + counts.rejected;
        let load = last.scheduler().load();
        if left == counts.arrived {
            prop_assert_eq!(load.kv_blocks_free, load.kv_blocks);
        }
    }
}
