//! The budget of GPUs: never over the most, and no movement that nobody asked for.
//!
//! Otherwise than in Dynamo 1.6.1, one pool that is raised to the least stays under the most where the least is no multiple of a replica's
//! GPUs.

use super::planner::{Counts, Reason};

/// What bounds the replicas of all pools.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    /// GPUs at least; none if negative.
    pub(super) min: i64,
    /// GPUs at most; any number if negative.
    pub(super) max: i64,
    /// GPUs of a replica.
    pub(super) gpus: Counts,
    /// Replicas of each pool, at least.
    pub(super) floor: Counts,
}

impl Budget {
    fn total(&self, counts: Counts) -> i64 {
        i64::from(counts.prefill) * i64::from(self.gpus.prefill)
            + i64::from(counts.decode) * i64::from(self.gpus.decode)
    }

    /// Below the least, what one step of the widest replica misses it by.
    fn slack(&self) -> i64 {
        if self.min >= 0 && self.max >= 0 {
            self.gpus.prefill.max(self.gpus.decode).into()
        } else {
            0
        }
    }

    fn is_under_most(&self, total: i64) -> bool {
        self.max < 0 || total <= self.max
    }

    fn is_within(&self, counts: Counts) -> bool {
        let total = self.total(counts);
        self.is_under_most(total) && (self.min < 0 || total >= self.min - self.slack())
    }

    /// The same without a least.
    pub(super) fn ceiling(self) -> Self {
        Self { min: -1, ..self }
    }

    /// What of a proposal is carried out, and why that is not all of it.
    pub(super) fn guard(&self, current: Counts, proposed: Counts) -> (Counts, Option<Reason>) {
        let has_two = self.gpus.prefill > 0;
        let is_below = current.prefill < self.floor.prefill || current.decode < self.floor.decode;
        if has_two && is_below {
            let raised = self.raised(proposed);
            return (self.in_proportion(raised), Some(Reason::GpuBudgetReconcile));
        }
        if !self.is_within(current) {
            return (self.in_proportion(current), Some(Reason::GpuBudgetReconcile));
        }
        let hold = (current, Some(Reason::GpuBudgetGuardHold));
        let exchange = Exchange::of(current, proposed);
        let total = self.total(current);
        let is_at_least = self.min >= 0 && total <= self.min;
        let is_at_most = self.max >= 0 && total >= self.max;
        if is_at_least && exchange.goes_down && !exchange.goes_up {
            return hold;
        }
        if is_at_most && exchange.goes_up && !exchange.goes_down {
            return hold;
        }
        if (is_at_least || is_at_most) && exchange.goes_up && exchange.goes_down {
            let fitted = self.fit(current, proposed);
            return if fitted == current { hold } else { (fitted, None) };
        }
        let shrunk = self.in_proportion(proposed);
        if self.is_within(shrunk) && is_between(current, shrunk, proposed) {
            (shrunk, None)
        } else {
            hold
        }
    }

    /// What is predicted, as far as it fits under the most: whatever else is to give way where a pool has fewer than its least.
    pub(super) fn fit_ceiling(&self, current: Counts, wished: Counts) -> Counts {
        let ceiling = self.ceiling();
        if current.prefill < self.floor.prefill || current.decode < self.floor.decode {
            ceiling.in_proportion(self.raised(wished))
        } else {
            ceiling.fit(current, wished)
        }
    }

    fn raised(&self, counts: Counts) -> Counts {
        Counts {
            prefill: counts.prefill.max(self.floor.prefill),
            decode: counts.decode.max(self.floor.decode),
        }
    }

    /// The part of a proposal that fits and goes its way: nearest to it, then most balanced, then furthest. Of an exchange both
    /// pools move or none.
    pub(super) fn fit(&self, current: Counts, proposed: Counts) -> Counts {
        let is_over_floor =
            proposed.prefill >= self.floor.prefill && proposed.decode >= self.floor.decode;
        if is_over_floor && self.is_within(proposed) {
            return proposed;
        }
        let prefills =
            self.span((current.prefill, proposed.prefill), (self.floor.prefill, self.gpus.prefill));
        let decodes =
            self.span((current.decode, proposed.decode), (self.floor.decode, self.gpus.decode));
        let exchange = Exchange::of(current, proposed);
        let is_exchange = exchange.goes_up && exchange.goes_down;
        let pairs = prefills
            .flat_map(|prefill| decodes.clone().map(move |decode| Counts { prefill, decode }));
        let fits = |counts: &Counts| {
            let moves = (counts.prefill != current.prefill, counts.decode != current.decode);
            self.is_within(*counts) && (!is_exchange || moves.0 == moves.1)
        };
        let (asked_prefill, asked_decode) = current.distances(proposed);
        let nearest = pairs.filter(fits).min_by_key(|counts| {
            let (left_prefill, left_decode) = proposed.distances(*counts);
            let (prefill, decode) = current.distances(*counts);
            let imbalance = (prefill * asked_decode).abs_diff(decode * asked_prefill);
            let moved = std::cmp::Reverse(prefill + decode);
            (left_prefill + left_decode, imbalance, moved, counts.prefill, counts.decode)
        });
        nearest.unwrap_or(current)
    }

    /// Replicas of a pool between what there are and what was proposed, of which there may be any within the budget.
    fn span(
        &self,
        (current, proposed): (u32, u32),
        (floor, gpus): (u32, u32),
    ) -> std::ops::RangeInclusive<u32> {
        let fit = if self.max < 0 || gpus == 0 { i64::MAX } else { self.max / i64::from(gpus) };
        let most = i64::from(current.max(proposed)).min(fit);
        current.min(proposed).max(floor)..=most as u32
    }

    /// A proposal that is shrunk, or raised, in proportion until it is within the budget; nothing where even the floors of the pools
    /// are over it.
    pub(super) fn in_proportion(&self, counts: Counts) -> Counts {
        if self.is_within(counts) {
            return counts;
        }
        let total = self.total(counts);
        if !self.is_under_most(total) {
            return self.shrink(counts, total);
        }
        self.raise(counts, total)
    }

    fn shrink(&self, counts: Counts, total: i64) -> Counts {
        if !self.is_under_most(self.total(self.floor)) {
            return Counts::default();
        }
        let share = self.max as f64 / total as f64;
        let decode_floor = i64::from(self.floor.decode) * i64::from(self.gpus.decode);
        let prefill = if self.gpus.prefill == 0 {
            0
        } else {
            let most = (self.max - decode_floor) / i64::from(self.gpus.prefill);
            let part = (f64::from(counts.prefill) * share).floor() as i64;
            part.min(most).max(self.floor.prefill.into())
        };
        let rest = self.max - prefill * i64::from(self.gpus.prefill);
        let decode = (rest / i64::from(self.gpus.decode.max(1))).max(self.floor.decode.into());
        Counts { prefill: prefill as u32, decode: decode as u32 }
    }

    /// Up to the least, of two pools in proportion; those that decode do not become fewer by that. Where whole replicas that
    /// reach it are over the most, one pool gets as many as fit, and of two the one that prefills, if it alone would grow.
    fn raise(&self, counts: Counts, total: i64) -> Counts {
        if self.gpus.prefill == 0 {
            let gpus = self.gpus.decode.max(1);
            let raised = Counts { decode: (self.min as u32).div_ceil(gpus), ..counts };
            let raised = Counts { decode: raised.decode.max(self.floor.decode), ..raised };
            let fits = self.is_under_most(self.total(raised));
            return if fits { raised } else { self.shrink(raised, self.total(raised)) };
        }
        let least = self.min as f64;
        let part = if total > 0 {
            (f64::from(counts.prefill) * (least / total as f64)).ceil()
        } else {
            (least / 2.0 / f64::from(self.gpus.prefill)).ceil()
        };
        let prefill = (part as u32).max(self.floor.prefill);
        let rest = (self.min - i64::from(prefill) * i64::from(self.gpus.prefill)).max(0) as f64;
        let needed = (rest / f64::from(self.gpus.decode.max(1))).ceil() as u32;
        let needed = needed.max(self.floor.decode);
        let raised = Counts { prefill, decode: needed.max(counts.decode) };
        if self.is_under_most(self.total(raised)) {
            raised
        } else if needed < counts.decode {
            self.fit(counts, Counts { prefill, ..counts })
        } else {
            counts
        }
    }
}

/// Which ways a proposal goes.
#[derive(Debug, Clone, Copy)]
struct Exchange {
    goes_up: bool,
    goes_down: bool,
}

impl Exchange {
    fn of(current: Counts, proposed: Counts) -> Self {
        let pools = [(current.prefill, proposed.prefill), (current.decode, proposed.decode)];
        Self {
            goes_up: pools.iter().any(|(current, proposed)| proposed > current),
            goes_down: pools.iter().any(|(current, proposed)| proposed < current),
        }
    }
}

fn is_between(current: Counts, counts: Counts, proposed: Counts) -> bool {
    let is = |current: u32, count: u32, proposed: u32| {
        (current.min(proposed)..=current.max(proposed)).contains(&count)
    };
    is(current.prefill, counts.prefill, proposed.prefill)
        && is(current.decode, counts.decode, proposed.decode)
}
