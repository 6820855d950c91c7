//! Prompts that the decode side computes itself, because they are short, because it has most of them cached, or
//! because the prefill side is busy (Dynamo's conditional disaggregation, 0.2 to 0.4, `disagg_router`:
//! `max-local-prefill-length` and `max-prefill-queue-size`). That of 1.6 is in [`conditional`](super::conditional).

use super::Disaggregation;
use crate::engine::Instance;
use crate::ids::InstanceId;
use crate::request::RequestView;
use crate::scenario::LocalPrefillConfig;
use crate::units::SimTime;

impl Disaggregation {
    /// The same, where the decode side computes some prompts itself.
    #[must_use]
    pub fn prefilling_locally(mut self, config: Option<LocalPrefillConfig>) -> Self {
        self.local_prefill = config;
        if config.is_some() {
            // Of decode replicas that lack equally much of a prompt, the least loaded computes it.
            self.count_outstanding();
        }
        self
    }

    /// When the decode side computes prompts itself, if it ever does.
    pub fn local_prefill(&self) -> Option<LocalPrefillConfig> {
        self.local_prefill
    }

    /// The instance that decodes and computes the prompt of a request too; `None` where one that prefills
    /// computes it, or no instance that decodes is up. So many others wait at the gateway.
    pub fn prefill_locally(
        &mut self,
        request: RequestView<'_>,
        at_gateway: u32,
        instances: &[Instance],
        now: SimTime,
    ) -> Option<InstanceId> {
        let config = self.local_prefill?;
        let is_short = config.max_prompt_tokens.is_some_and(|most| request.prompt_tokens <= most);
        let is_queue_long = config.max_prefill_queue.is_some_and(|most| {
            let prefills = self.roles.whole as usize..self.roles.entrances() as usize;
            let waiting = instances[prefills].iter().map(|it| it.scheduler().load().waiting);
            at_gateway + waiting.sum::<u32>() > most
        });
        if is_short || is_queue_long {
            return self.route_decode(request, instances, now);
        }
        let most = config.max_new_tokens?;
        let first = self.roles.entrances();
        let decodes = (first..).zip(&instances[first as usize..]);
        let new_tokens = |(id, decode): (u32, &Instance)| {
            let cached = decode.cached_tokens(request);
            let outstanding = self.gateway.outstanding(InstanceId(id - first));
            (request.prompt_tokens - cached.min(request.prompt_tokens), outstanding, id)
        };
        let up = decodes.filter(|(id, _)| self.gateway.is_up(InstanceId(id - first)));
        let (new, _, decode) = up.map(new_tokens).min()?;
        if new > most {
            return None;
        }
        self.gateway.send_to(request, InstanceId(decode - first));
        Some(InstanceId(decode))
    }
}
