//! When a step that was decided runs on host and device.

use super::Instance;
use crate::cost::{CostModel, Drafting, LoraTimes, RankStep, StepShape, agree_on_graph};
use crate::engine::Execution;
use crate::engine::host::HostPart;
use crate::units::{SimDuration, SimTime};

impl Instance {
    /// The same replica with kernels and loads of adapters.
    #[must_use]
    pub fn with_lora(mut self, lora: Option<LoraTimes>) -> Self {
        self.lora = lora;
        self
    }

    /// The same replica, which makes drafts.
    #[must_use]
    pub fn with_drafting(mut self, drafting: Option<Drafting>) -> Self {
        self.drafting = drafting;
        self
    }

    /// A step of nothing, with the window that its cost model asks to count.
    pub fn empty_shape(&self) -> StepShape {
        StepShape::seeing(self.prefill_window)
    }

    /// How long its device would take for a step of this shape, if it were no straggler.
    pub fn price(&self, mut shape: StepShape) -> SimDuration {
        shape.cuda_graph = self.graphs.replayed(&shape);
        let drafts = self.drafting.as_ref().map(|drafting| drafting.time(&shape).device);
        self.cost.step_duration(&shape) + drafts.unwrap_or_default()
    }

    /// A step decided at `now` takes its turn on host and device.
    pub(super) fn time(&mut self, now: SimTime) {
        self.copies.begin_step();
        let mut host = self.host_part(now);
        let step = self.steps;
        let plan = &mut self.in_flight.next_mut().plan;
        let mut duration = match &self.wave {
            None => self.cost.step_duration(&plan.shape),
            Some(wave) => wave.price(step, &mut plan.ranks),
        };
        let batch = self.in_flight.next();
        let shape = &batch.plan.shape;
        let (mut loading, mut switching) = (SimDuration::ZERO, SimDuration::ZERO);
        if let Some(lora) = &self.lora {
            if batch.plan.execution == Execution::Unmerged {
                duration += lora.kernels(shape);
            }
            let loads = &batch.plan.adapter_loads;
            loading = lora.loads(loads.from_disk, loads.to_gpu);
            switching = lora.merges(batch.plan.merges);
            host = host.delayed(loading + switching + lora.walk(batch.plan.passed_over));
        }
        if let Some(drafting) = &self.drafting {
            let drafts = drafting.time(shape);
            duration += drafts.device;
            host = host.drafting(&drafts);
        }
        let duration = self.slowed(duration) + self.in_flight.next().plan.stall;
        let batch = self.in_flight.next_mut();
        let (start, duration) = host.timing(now, self.device_free, duration);
        batch.step = self.steps;
        batch.scheduled_at = now;
        batch.starts_at = start;
        batch.loading = loading;
        batch.switching = switching;
        batch.duration = duration;
        batch.post_process = host.post_process;
        self.host_free = host.launched(now);
        self.device_free = batch.ends_at();
        self.steps += 1;
    }

    /// The host's part of the next step, decided at `now`, which replays a captured graph if one covers it.
    #[inline]
    pub(super) fn host_part(&mut self, now: SimTime) -> HostPart {
        // A host that has neither a step in flight nor just had an outcome has slept.
        let is_idle = self.in_flight.is_empty() && self.last_completion != now;
        let waited = if is_idle { SimDuration::from_nanos(u64::MAX) } else { self.waited };
        self.cold_host_part().after(waited)
    }

    fn cold_host_part(&mut self) -> HostPart {
        if self.wave.is_some() {
            return self.host_part_of_ranks();
        }
        let batch = self.in_flight.next_mut();
        let shape = &mut batch.plan.shape;
        shape.cuda_graph = self.graphs.replayed(shape);
        let new_requests = batch.plan.hits.len() as u32;
        if shape.prefill_seqs == 0 {
            return self.host.of(shape, new_requests);
        }
        self.prefill_steps += 1;
        self.host.of_prefill(shape, new_requests, self.prefill_steps - 1)
    }

    /// The same of ranks, each with a host process of its own: what the slowest takes.
    fn host_part_of_ranks(&mut self) -> HostPart {
        let plan = &mut self.in_flight.next_mut().plan;
        plan.shape.cuda_graph = agree_on_graph(&self.graphs, &mut plan.ranks);
        let plan = &self.in_flight.next().plan;
        let prefills = plan.shape.prefill_seqs > 0;
        let part = |rank: &RankStep| {
            if prefills {
                self.host.of_prefill(&rank.shape, rank.new_requests, self.prefill_steps)
            } else {
                self.host.of(&rank.shape, rank.new_requests)
            }
        };
        let slowest = plan.ranks.iter().map(part).fold(HostPart::default(), HostPart::slower);
        self.prefill_steps += u64::from(prefills);
        slowest
    }
}
