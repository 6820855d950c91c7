//! What the relay hears of a run.

use super::{Relay, Stream};
use crate::engine::Finish;
use crate::serve::answer::End;
use crate::serve::counters::Cached;
use crate::sim::{Observer, Occurrence};
use crate::units::SimTime;

impl Observer for Relay {
    fn on(&mut self, at: SimTime, what: Occurrence<'_>) {
        match what {
            Occurrence::Arrived(id, _) => {
                if let Some(stream) = self.coming.take() {
                    for answer in [Some(&stream.answer), stream.prefill.as_ref()] {
                        let Some(answer) = answer else { continue };
                        answer.change(|progress| progress.id = Some(id));
                    }
                    self.streams.insert(id, Stream { arrival: at, ..stream });
                }
            }
            Occurrence::Sent(id, instance) | Occurrence::Forwarded(id, instance) => {
                if let Some(stream) = self.streams.get_mut(&id) {
                    stream.instance = Some(instance);
                }
            }
            Occurrence::Queued(instance, id, _) => {
                if let Some(stream) = self.streams.get_mut(&id) {
                    (stream.instance, stream.queued) = (Some(instance), at);
                    stream.cached = Cached::default();
                }
            }
            Occurrence::Planned(instance, batch, _) => self.planned(at, instance, &batch.plan),
            Occurrence::Loading(instance, plan) => {
                self.admitted(at, instance, plan);
            }
            Occurrence::HandedOver(instance, life) => self.prompt_computed(at, instance, life),
            Occurrence::Released(_, id) => {
                self.awaited_is_over(id);
                if !self.ends_with_prompts {
                    // With memory set aside first, a server has ended a request when its KV is there; the other one
                    // queues it then.
                    self.prefill_over(at, id);
                    if let Some(stream) = self.streams.get_mut(&id) {
                        stream.queued = at;
                    }
                }
            }
            Occurrence::LoadBegan(instance, load, _) => self.loads(instance, load),
            Occurrence::Displaced(instance, requests) => {
                self.counters[instance.index()].preemptions += requests.len() as u64;
                self.preempted(instance, requests);
            }
            Occurrence::Stepped(instance, batch, result, _) => {
                self.came(instance, result);
                let came = (result.tokens, &result.drafts);
                self.counters[instance.index()].stepped(at, &batch.plan, came);
            }
            Occurrence::Landed(instance, result, _) => {
                self.came(instance, result);
                result.landed.iter().for_each(|id| self.landed(at, instance, *id));
                self.counters[instance.index()].drafts.add(&result.drafts);
            }
            Occurrence::Left(_, life, finish) => {
                let is_cut = life.asked_tokens > life.output_tokens;
                let of = self.streams.get(&life.id);
                let ends_itself = of.is_some_and(|stream| stream.length.ends_itself);
                let end = match finish {
                    Finish::Done if is_cut || !ends_itself => End::Length,
                    Finish::Done => End::Stop,
                    Finish::Aborted => End::Aborted,
                    Finish::Rejected => End::Rejected,
                    Finish::TimedOut | Finish::Failed => End::Failed,
                };
                self.end(at, life.id, Some(life), end);
            }
            Occurrence::Refused(_, id) => self.end(at, id, None, End::Rejected),
            Occurrence::GaveUp { request, life, finish, tries_again: false } => {
                let end = match finish {
                    Finish::Aborted => End::Aborted,
                    Finish::Rejected => End::Busy,
                    _ => End::Failed,
                };
                self.end(at, request, life, end);
            }
            _ => {}
        }
    }
}
