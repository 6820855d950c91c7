//! The host's part of a step: to decide it, to launch it, to take in its outcome.
//!
//! One host thread does all three. A serial engine does them between steps, so that a cycle lasts
//! schedule + launch + device + post-processing. An engine with two steps in flight decides and
//! launches the next step while the device works on the one before, so that a cycle lasts as long
//! as the slower of host and device. vLLM V0 hands over the outcome of the step before while the device works. Without a captured graph the kernels of a step are launched
//! one by one beside the device, and the step lasts at least as long as that. One prefill step may
//! take longer to launch, as servers do at shapes that they meet for the first time.

use crate::cost::{DraftTime, StepShape};
use crate::scenario::HostConfig;
use crate::units::{SimDuration, SimTime};

/// Host time of each step of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostTimes {
    schedule: SimDuration,
    schedule_per_sequence: SimDuration,
    schedule_per_new_request: SimDuration,
    launch: SimDuration,
    launch_per_sequence: SimDuration,
    eager_launch: SimDuration,
    pieces_launch: SimDuration,
    hand_over: SimDuration,
    hand_over_per_sequence: SimDuration,
    post_process: SimDuration,
    post_process_per_sequence: SimDuration,
    schedule_prefill: SimDuration,
    schedule_per_prefill_token: SimDuration,
    post_process_prefill: SimDuration,
    post_process_per_prefill: SimDuration,
    warm_up: SimDuration,
    warm_up_after: u32,
    warmth: Warmth,
}

/// How much sooner a host is done that has just worked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Warmth(Option<Cooling>);

/// What is saved while caches are warm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cooling {
    /// Thousandths of its time that the host takes right after other work.
    permille: u64,
    /// After how long without work it takes all of it.
    cools: SimDuration,
}

impl Warmth {
    /// How long work takes a host that has waited so long before.
    #[inline]
    fn of(self, work: SimDuration, waited: SimDuration) -> SimDuration {
        let Self(Some(Cooling { permille, cools })) = self else { return work };
        let cools = cools.as_nanos();
        let waited = waited.as_nanos().min(cools);
        let permille = permille + (1000 - permille) * waited / cools;
        SimDuration::from_nanos(work.as_nanos() * permille / 1000)
    }
}

impl From<&HostConfig> for HostTimes {
    fn from(config: &HostConfig) -> Self {
        let micros = |us: f64| SimDuration::from_secs_f64(us / 1e6);
        Self {
            schedule: micros(config.schedule_us),
            schedule_per_sequence: micros(config.schedule_per_sequence_us),
            schedule_per_new_request: micros(config.schedule_per_new_request_us),
            launch: micros(config.launch_us),
            launch_per_sequence: micros(config.launch_per_sequence_us),
            eager_launch: micros(config.eager_launch_us),
            pieces_launch: micros(config.pieces_launch_us),
            hand_over: micros(config.hand_over_us),
            hand_over_per_sequence: micros(config.hand_over_per_sequence_us),
            post_process: micros(config.post_process_us),
            post_process_per_sequence: micros(config.post_process_per_sequence_us),
            schedule_prefill: micros(config.schedule_prefill_us),
            schedule_per_prefill_token: micros(config.schedule_per_prefill_token_us),
            post_process_prefill: micros(config.post_process_prefill_us),
            post_process_per_prefill: micros(config.post_process_per_prefill_us),
            warm_up: micros(config.warm_up_us),
            warm_up_after: config.warm_up_after_prefill_steps,
            warmth: Warmth(config.warm_share.map(|share| Cooling {
                permille: (share * 1e3).round() as u64,
                cools: micros(config.cools_us.max(1e-3)),
            })),
        }
    }
}

impl HostTimes {
    /// How long it takes in an outcome that has come at `end`, when it had nothing to do from `free` on.
    pub(super) fn takes_in(&self, end: SimTime, free: SimTime, cold: SimDuration) -> SimDuration {
        self.warmth.of(cold, end.saturating_since(free))
    }

    /// The host's part of a step of this shape, in which so many requests are admitted.
    pub(super) fn of(&self, shape: &StepShape, new_requests: u32) -> HostPart {
        let seqs = u64::from(shape.seqs());
        let schedule = self.schedule
            + self.schedule_per_sequence * seqs
            + self.schedule_per_new_request * u64::from(new_requests);
        HostPart {
            before: schedule + self.launch + self.launch_per_sequence * seqs,
            beside: self.launch_beside(shape) + self.hand_over + self.hand_over_per_sequence * seqs,
            post_process: self.post_process + self.post_process_per_sequence * seqs,
            warmth: self.warmth,
        }
    }

    /// How long the host goes on launching a step of this shape after the device has begun it.
    pub(super) fn launch_beside(&self, shape: &StepShape) -> SimDuration {
        match shape.cuda_graph {
            None => self.eager_launch,
            Some(_) if shape.prefill_seqs > 0 => self.pieces_launch,
            Some(_) => SimDuration::ZERO,
        }
    }

    /// The same for a step that prefills, after so many others that did.
    pub(super) fn of_prefill(
        &self,
        shape: &StepShape,
        new_requests: u32,
        prefills_before: u64,
    ) -> HostPart {
        let mut part = self.of(shape, new_requests);
        let (prompts, tokens) = (u64::from(shape.prefill_seqs), u64::from(shape.prefill_tokens));
        part.before += self.schedule_prefill + self.schedule_per_prefill_token * tokens;
        part.post_process += self.post_process_prefill + self.post_process_per_prefill * prompts;
        if prefills_before == u64::from(self.warm_up_after) {
            part.before += self.warm_up;
        }
        part
    }
}

/// The host's part of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct HostPart {
    /// Until the device can start it.
    before: SimDuration,
    /// From there until it is launched whole, beside the device.
    beside: SimDuration,
    /// Until its outcome is known, once it has ended and the host is free.
    pub(super) post_process: SimDuration,
    warmth: Warmth,
}

impl HostPart {
    /// The same after the host has waited so long; what it does with the outcome follows another wait.
    #[inline]
    pub(super) fn after(mut self, waited: SimDuration) -> Self {
        self.before = self.warmth.of(self.before, waited);
        self
    }

    /// How long it takes in an outcome that has come at `end`, when it had nothing to do from `free` on.
    #[inline]
    pub(super) fn takes_in(&self, end: SimTime, free: SimTime, cold: SimDuration) -> SimDuration {
        self.warmth.of(cold, end.saturating_since(free))
    }

    /// The same for a step with so many more launches beside the device, and so much more to do with its outcome.
    pub(super) fn drafting(mut self, drafts: &DraftTime) -> Self {
        self.beside += drafts.launches;
        self.post_process += drafts.host;
        self
    }

    /// The same for a step that something else delays.
    pub(super) fn delayed(mut self, by: SimDuration) -> Self {
        self.before += by;
        self
    }

    /// The longer of each part of both.
    pub(super) fn slower(self, other: Self) -> Self {
        Self {
            before: self.before.max(other.before),
            beside: self.beside.max(other.beside),
            post_process: self.post_process.max(other.post_process),
            // They are of one engine.
            warmth: Warmth(self.warmth.0.or(other.warmth.0)),
        }
    }

    /// When the host has launched a step decided at `now`.
    pub(super) fn launched(&self, now: SimTime) -> SimTime {
        now + self.before + self.beside
    }

    /// When the device can start a step decided at `now`, and for how long the host launches it beside.
    pub(super) fn launch(&self, now: SimTime) -> (SimTime, SimDuration) {
        (now + self.before, self.beside)
    }

    /// When the device starts a step decided at `now` that needs it for `work`, and for how long
    /// the step takes it.
    #[inline]
    pub(super) fn timing(
        &self,
        now: SimTime,
        device_free: SimTime,
        work: SimDuration,
    ) -> (SimTime, SimDuration) {
        let start = device_free.max(now + self.before);
        let end = self.launched(now).max(start + work);
        (start, end - start)
    }
}
