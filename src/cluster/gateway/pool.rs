//! The instances that serve one model, as their router may know them.

use std::ops::Range;

use crate::cluster::{AdapterReport, Needs};
use crate::engine::Instance;
use crate::engine::scheduler::{CachesPrefixes, Load};
use crate::ids::InstanceId;
use crate::kv::CacheContent;
use crate::units::SimTime;

/// Instances that follow each other, and what they reported.
#[derive(Debug)]
pub(super) struct Pool {
    instances: Range<u32>,
    pub(super) signals: Vec<Load>,
    pub(super) signals_at: Option<SimTime>,
    /// What caches held when they were looked at last, where the router knows them with an age.
    pub(super) caches: Vec<CacheContent>,
    caches_at: Option<SimTime>,
    pub(super) adapters: Vec<AdapterReport>,
    adapters_at: Option<SimTime>,
    /// Those that get no requests now, by their places here: they are down, or as full as they may be.
    closed: Vec<InstanceId>,
}

impl Pool {
    pub(super) fn of(instances: Range<u32>) -> Self {
        Self {
            instances,
            signals: Vec::new(),
            signals_at: None,
            caches: Vec::new(),
            caches_at: None,
            adapters: Vec::new(),
            adapters_at: None,
            closed: Vec::new(),
        }
    }

    #[inline]
    pub(super) fn instances(&self) -> Range<u32> {
        self.instances.clone()
    }

    pub(super) fn has(&self, instance: InstanceId) -> bool {
        self.instances.contains(&instance.0)
    }

    #[inline]
    pub(super) fn has_place(&self) -> bool {
        self.closed.len() < self.instances.len()
    }

    pub(super) fn closed(&self) -> &[InstanceId] {
        &self.closed
    }

    pub(super) fn close(&mut self, instance: InstanceId) {
        let place = self.place(instance);
        if let Err(at) = self.closed.binary_search(&place) {
            self.closed.insert(at, place);
        }
    }

    pub(super) fn open(&mut self, instance: InstanceId) {
        if let Ok(at) = self.closed.binary_search(&self.place(instance)) {
            self.closed.remove(at);
        }
    }

    fn place(&self, instance: InstanceId) -> InstanceId {
        InstanceId(instance.0 - self.instances.start)
    }

    /// Whether what caches hold at `now` is looked at to route a request.
    pub(super) fn looks_at_caches(&self, needs: &Needs, now: SimTime) -> bool {
        let is_due = |interval| self.caches_at.is_none_or(|at| now.since(at) >= interval);
        needs.caches.is_some_and(is_due)
    }

    /// Takes new reports of the engines, and pictures of their caches, where the last ones are as old as the
    /// router lets them grow.
    pub(super) fn refresh(
        &mut self,
        needs: &Needs,
        keeps_caches: bool,
        instances: &[Instance],
        now: SimTime,
    ) {
        let is_due = |interval| self.signals_at.is_none_or(|at| now - at >= interval);
        if needs.signals.is_some_and(is_due) {
            self.signals.clear();
            self.signals.extend(instances.iter().map(|instance| instance.load_at(now)));
            self.signals_at = Some(now);
        }
        let is_due = |interval| self.adapters_at.is_none_or(|at| now - at >= interval);
        if needs.adapters.is_some_and(is_due) {
            self.adapters.clear();
            self.adapters.extend(instances.iter().map(AdapterReport::of));
            self.adapters_at = Some(now);
        }
        if keeps_caches && self.looks_at_caches(needs, now) {
            self.caches.clear();
            let content = |instance: &Instance| {
                instance.scheduler().prefix_cache().map(CachesPrefixes::content).unwrap_or_default()
            };
            self.caches.extend(instances.iter().map(content));
            self.caches_at = Some(now);
        }
    }
}
