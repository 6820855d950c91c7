//! An engine before its first request.

use std::collections::VecDeque;

use rustc_hash::FxHashSet;

use super::cache::Cache;
use super::group::Group;
use super::handoff::Handoffs;
use super::inbox::Inbox;
use super::lockstep::Serving;
use super::ratio::NewTokenRatio;
use super::states::StateCache;
use super::windows::WindowCache;
use super::{Sglang, SglangHybrid, SglangSettings};
use crate::engine::Adapters;
use crate::engine::scheduler::Acceptance;
use crate::engine::scheduler::handed::Handed;
use crate::kv::RadixTree;

impl Sglang {
    /// An engine without requests.
    ///
    /// # Panics
    /// When a page, the memory or the number of running requests is 0, when priorities are combined with a
    /// policy that knows none, or when there is a [conflict](SglangSettings::conflict).
    pub fn new(settings: SglangSettings) -> Self {
        let (tokens, page_size) = (settings.max_total_tokens, settings.page_size);
        let max_running = settings.max_running_requests;
        assert!(page_size > 0, "a page holds at least one token");
        assert!(
            tokens >= page_size && max_running > 0,
            "memory for a page and a running request are there"
        );
        assert!(
            !settings.enable_priority_scheduling || settings.schedule_policy.knows_priorities(),
            "priority scheduling goes with the policies `fcfs` and `lof`"
        );
        if let Some((flag, rule)) = settings.conflict() {
            panic!("{flag}: {rule}");
        }
        let speculates = settings.speculative_num_steps > 0;
        let keys = settings.tree_keys();
        let cache = match settings.hybrid {
            None => Cache::Full(RadixTree::new(page_size).with_keys(keys)),
            Some(SglangHybrid::State(pool)) => {
                Cache::State(Box::new(StateCache::new(&settings, pool)))
            }
            Some(SglangHybrid::Window(pool)) => {
                Cache::Window(Box::new(WindowCache::new(page_size, keys, pool)))
            }
        };
        // Requests that accept drafts do not go on in lock step, and what hybrid models give back depends
        // on each request's length; steps between two looks at what has come are counted: every step of theirs is decided request by request, and none of them
        // is run with others in one go, which only the group can.
        let is_plain =
            speculates || settings.hybrid.is_some() || settings.scheduler_recv_interval > 1;
        let pool = settings.pool();
        Self {
            longest: settings.longest(),
            pool,
            ratio: NewTokenRatio::new(settings.schedule_conservativeness),
            acceptance: Acceptance::NONE,
            cache,
            available: pool,
            rows: max_running,
            rows_free: max_running,
            sequences: Vec::new(),
            handed: Handed::default(),
            vacant: Vec::new(),
            inbox: Inbox::new(settings.scheduler_recv_interval),
            waiting: VecDeque::new(),
            running: Vec::new(),
            last_prefill: Vec::new(),
            chunked: None,
            chunked_is_left: false,
            is_full: false,
            has_chunk: false,
            in_flight: 0,
            queued: 0,
            refresh_turn: 0,
            retractions_from: 0,
            finished: Vec::new(),
            last_in_flight: 0,
            handoffs: Handoffs::default(),
            group: Group::new(page_size),
            serving: if is_plain { Serving::Never } else { Serving::Grouped },
            dissolved: VecDeque::new(),
            last_outcome_was_tick: false,
            records_entries: false,
            chosen: Vec::new(),
            preempted: Vec::new(),
            scratch: Vec::new(),
            adapters: Vec::new(),
            loras: Adapters::default(),
            beginnings: FxHashSet::default(),
            set_aside: Vec::new(),
            fresh: Vec::new(),
            done: Vec::new(),
            settings,
        }
    }

    /// The same engine with these adapters.
    #[must_use]
    pub fn with_adapters(mut self, adapters: Adapters) -> Self {
        self.loras = adapters;
        self
    }

    /// The same engine, whose drafts are accepted by this law; without one, none is.
    #[must_use]
    pub fn accepting(mut self, acceptance: Acceptance) -> Self {
        self.acceptance = acceptance;
        self
    }

    /// Tells every share of a step in its plan.
    #[must_use]
    pub fn recording_entries(mut self) -> Self {
        self.records_entries = true;
        self
    }

    /// Decides every step request by request: the plain algorithm, without the group of requests
    /// that decode in lock step, and with a name for everything in the tree.
    #[must_use]
    pub fn request_by_request(mut self) -> Self {
        self.serving = Serving::Never;
        self
    }
}
