//! Static batching: a batch is put together once and padded, in both directions.
//!
//! An idle engine takes waiting requests in order of arrival, up to the batch size; it starts when
//! the batch is full, or when it has waited for so long since it could have started. Every prompt
//! is padded to the longest of the batch, and every row is computed until the longest answer ends:
//! a request that has its last token is answered, but its row stays and costs what the others
//! cost. Memory is taken for the batch as a whole, rows · (longest prompt + largest `max_tokens`),
//! and given back when it ends; a batch for which it does not suffice is smaller.
//!
//! Shapes of steps count padding as prompt tokens and decoding rows. This is how models are run
//! without a serving engine, and the simplest batching of a model server (a fixed batch with a
//! delay, as the dynamic batcher of NVIDIA's Triton). Left out: answers held back until the batch
//! ends; tokens come out as they are computed.

use super::baseline::{Queues, schedule_by_queues};
use super::{Handoff, Load, Schedule, StaticBatchingSettings};
use crate::engine::{Finish, Life, StepPlan, StepResult};
use crate::ids::RequestId;
use crate::request::Request;
use crate::units::{SimDuration, SimTime};

/// The batch that runs.
#[derive(Debug, Clone, Copy)]
struct Batch {
    rows: u32,
    /// Tokens of every row computed so far, padding included.
    context: u32,
}

/// Padded batches.
#[derive(Debug, Clone)]
pub struct StaticBatch {
    queues: Queues,
    batch_max: u32,
    timeout: SimDuration,
    batch: Option<Batch>,
    /// When the engine could have started the batch that it waits for.
    ready_since: Option<SimTime>,
}

impl StaticBatch {
    /// An engine without requests.
    ///
    /// # Panics
    /// When memory does not hold the longest sequence.
    pub fn new(settings: StaticBatchingSettings) -> Self {
        let queues = Queues::new(settings.memory);
        assert!(queues.holds_longest(0), "the longest sequence fits");
        Self {
            queues,
            batch_max: settings.batch_size,
            timeout: SimDuration::from_secs_f64(settings.batch_timeout_ms / 1e3),
            batch: None,
            ready_since: None,
        }
    }

    /// How many of the waiting requests fit into a padded batch, its prompt and its memory.
    fn next_batch(&self) -> (u32, u32, u32) {
        let (mut rows, mut prompt, mut answer) = (0, 0, 0);
        for slot in self.queues.waiting().take(self.batch_max as usize) {
            let life = &self.queues.get(slot).life;
            let (padded, longest) = (life.prompt_tokens.max(prompt), life.max_tokens.max(answer));
            let tokens = u64::from(rows + 1) * (u64::from(padded) + u64::from(longest));
            // Alone, a request fits: its length is limited by that of the model.
            if rows > 0 && tokens > u64::from(self.queues.free()) {
                break;
            }
            (rows, prompt, answer) = (rows + 1, padded, longest);
        }
        (rows, prompt, rows * (prompt + answer))
    }

    fn start(&mut self, now: SimTime, plan: &mut StepPlan) {
        let waiting = self.queues.load().waiting;
        if waiting == 0 {
            self.ready_since = None;
            return;
        }
        let since = *self.ready_since.get_or_insert(now);
        if waiting < self.batch_max && now < since + self.timeout {
            return;
        }
        self.ready_since = None;
        let (rows, prompt, memory) = self.next_batch();
        self.queues.set_aside(memory);
        for _ in 0..rows {
            let slot = self.queues.admit(0, 0).expect("the batch has its memory");
            let tokens = self.queues.get(slot).uncomputed();
            self.queues.share(slot, tokens, now, plan);
            plan.shape.add_prefill(prompt, 0, true);
        }
        self.batch = Some(Batch { rows, context: prompt });
    }

    fn decode(&mut self, mut batch: Batch, now: SimTime, plan: &mut StepPlan) {
        for index in 0..self.queues.running().len() {
            let slot = self.queues.running()[index];
            self.queues.share(slot, 1, now, plan);
        }
        let context = u64::from(batch.rows) * u64::from(batch.context);
        plan.shape.add_decodes(batch.rows, context, batch.context);
        batch.context += 1;
        self.batch = Some(batch);
    }

    fn end_if_done(&mut self) {
        if self.queues.running().is_empty() {
            self.batch = None;
            self.queues.give_back();
        }
    }
}

impl Schedule for StaticBatch {
    fn abort(&mut self, id: RequestId, result: &mut StepResult) {
        self.queues.abort(id, result);
        self.end_if_done();
    }

    fn schedule(&mut self, now: SimTime, plan: &mut StepPlan) {
        plan.clear();
        match self.batch {
            Some(batch) => self.decode(batch, now, plan),
            None => self.start(now, plan),
        }
    }

    fn complete(&mut self, now: SimTime, plan: &StepPlan, result: &mut StepResult) {
        self.queues.complete(now, plan, result);
        self.end_if_done();
    }

    fn waits_until(&self) -> Option<SimTime> {
        self.ready_since.map(|since| since + self.timeout)
    }

    fn token_budget(&self) -> u32 {
        u32::MAX
    }

    schedule_by_queues!(but waits_until);
}

#[cfg(test)]
mod tests {
    use super::super::baseline::tests::{Arrivals, shapes, steps};
    use super::*;
    use crate::engine::scheduler::Memory;

    fn engine(batch_size: u32, batch_timeout_ms: f64, kv_tokens: u32) -> StaticBatch {
        let memory = Memory::unpaged(kv_tokens, 20);
        StaticBatch::new(StaticBatchingSettings { memory, batch_size, batch_timeout_ms })
    }

    #[test]
    fn rows_are_padded_to_the_longest_prompt_and_the_longest_answer() {
        // Prompts of 5 and 3 tokens: 2 rows · 5 tokens. Answers of 3 and 1: request 1 has its
        // token after the prefill, but two rows decode twice more, with 5 and 6 tokens computed
        // before each.
        let shapes = shapes(&mut engine(2, 0.0, 100), &[(0, 5, 3), (0, 3, 1)]);
        assert_eq!((shapes[0].prefill_tokens, shapes[0].prefill_seqs), (10, 2));
        let decodes: Vec<_> =
            shapes[1..].iter().map(|s| (s.decode_seqs, s.decode_context_tokens)).collect();
        assert_eq!(decodes, [(2, 10), (2, 12)]);
    }

    #[test]
    fn nobody_joins_before_the_longest_answer_ends() {
        let arrivals: Arrivals = &[(0, 5, 3), (0, 3, 1), (0, 4, 1)];
        assert_eq!(steps(&mut engine(2, 0.0, 100), arrivals), ["0:5 1:3", "0:1", "0:1", "2:4"]);
    }

    #[test]
    fn a_batch_that_does_not_fit_is_smaller() {
        // Padded: 2 · (8 + 4) = 24 tokens are more than 20, so the two run one after the other;
        // without padding they would need 12 + 6 = 18.
        let arrivals: Arrivals = &[(0, 8, 4), (0, 4, 2)];
        let served = steps(&mut engine(2, 0.0, 20), arrivals);
        assert_eq!(served, ["0:8", "0:1", "0:1", "0:1", "1:4", "1:1"]);
    }

    #[test]
    fn a_partial_batch_waits_for_its_timeout() {
        let mut plan = StepPlan::default();
        let mut engine = engine(3, 10.0, 100);
        let at = |ms| SimTime::ZERO + SimDuration::from_micros(1000 * ms);
        for id in 0..2 {
            engine.enqueue(RequestId(id), &Request::new(at(5), 4, 1), Handoff::None).unwrap();
            engine.schedule(at(5 + u64::from(id)), &mut plan);
            assert!(plan.is_empty());
        }
        // It could have started at 5 ms and waits until 15 ms.
        assert_eq!(engine.waits_until(), Some(at(15)));
        engine.schedule(at(15), &mut plan);
        assert_eq!((plan.entries.len(), engine.waits_until()), (2, None));
    }

    #[test]
    fn a_full_batch_does_not_wait() {
        let mut plan = StepPlan::default();
        let mut engine = engine(2, 10.0, 100);
        for id in 0..2 {
            let request = Request::new(SimTime::ZERO, 4, 1);
            engine.enqueue(RequestId(id), &request, Handoff::None).unwrap();
        }
        engine.schedule(SimTime::ZERO, &mut plan);
        assert_eq!(plan.entries.len(), 2);
    }
}
