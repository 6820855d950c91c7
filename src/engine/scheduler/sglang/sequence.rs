//! A request inside SGLang's scheduler.

use super::group::Member;
use crate::engine::Life;
use crate::engine::scheduler::Handoff;
use crate::ids::{AdapterId, RequestId};
use crate::kv::{BlockHash, PathLock, TreeKeys};
use crate::request::{Request, Segment};
use crate::rng::mix;

/// Where a request stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    /// Has no memory and waits to be admitted.
    Waiting,
    /// In the running batch, in the last prefill batch, or in chunked prefill.
    Admitted,
    /// Out of the running batch, because the outcome on its way is its last token.
    LastInFlight,
    /// Finished, but still listed in its batch until that is looked through again.
    Finished,
    /// Its prompt is computed elsewhere; waits for memory here.
    Unplaced,
    /// Has memory; its KV is on its way.
    Loading,
    /// Its KV is here; waits for a seat in the decode batch.
    Landed,
    /// Lost its memory; its KV is kept by the host.
    Displaced,
    /// Computed for another instance, which has yet to read its KV.
    Sending,
    /// Left; its place is vacant.
    Gone,
}

impl Status {
    /// Whether a client may wait for it.
    pub(super) fn is_inside(self) -> bool {
        !matches!(self, Self::Finished | Self::Sending | Self::Gone)
    }

    /// Whether it was prefilled elsewhere, and does not decode yet or just now.
    pub(super) fn is_received(self) -> bool {
        matches!(self, Self::Unplaced | Self::Loading | Self::Landed | Self::Displaced)
    }
}

/// Whether a client still wants the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Client {
    Waits,
    Left,
}

#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each may hold beside any other")]
pub(super) struct Sequence {
    pub(super) life: Life,
    pub(super) status: Status,
    pub(super) client: Client,
    pub(super) handoff: Handoff,
    /// Whether others have yet to read its KV.
    pub(super) is_sending: bool,
    pub(super) ignores_eos: bool,
    pub(super) priority: i32,
    pub(super) adapter: Option<AdapterId>,
    /// Prefixes are shared only within a namespace.
    pub(super) namespace: u64,
    /// The tokens of prompt and answer as the tree has them; segments that continue one another are
    /// joined. None while it is private.
    pub(super) tokens: Vec<Segment>,
    keys: TreeKeys,
    ends_itself: bool,
    /// Tokens that have a slot of KV memory; with speculation those whose KV is known to be valid.
    pub(super) kv: u32,
    /// Tokens up to which slots were taken for drafts, if that is more.
    pub(super) allocated: u32,
    /// Steps that verified drafts of it.
    pub(super) verifications: u32,
    /// Of those, the first ones that belong to the tree.
    pub(super) protected: u32,
    /// What protects them.
    pub(super) lock: PathLock,
    /// Tokens computed before its current or next prefill, as last looked up.
    pub(super) prefix: u32,
    /// Known tokens when it was last considered for admission; 0 before.
    pub(super) considered: u32,
    /// Where its last prefill ends.
    pub(super) extend_end: u32,
    /// Whether it holds one of the rows of `max_running_requests`.
    pub(super) has_row: bool,
    /// Steps it is in whose outcome is not in.
    pub(super) in_flight: u32,
    /// Its turn among all entries into the waiting queue.
    pub(super) queued: u64,
    /// What the waiting queue is ordered by if that is the cached prefix.
    pub(super) rank: i64,
    /// Its number in the order of the running batch, while that is served by the group.
    pub(super) place: u64,
    /// Where it stands in the group that decodes in lock step; its counters are those of then.
    pub(super) member: Option<Member>,
}

impl Sequence {
    /// A request that may generate `max_tokens`, and is known to the tree by these keys.
    pub(super) fn new(
        id: RequestId,
        request: &Request,
        max_tokens: u32,
        handoff: Handoff,
        keys: TreeKeys,
    ) -> Self {
        let mut life = Life::new(id, request);
        life.max_tokens = max_tokens;
        life.output_tokens = life.output_tokens.min(max_tokens).max(1);
        let ends_itself = !request.ignore_eos && request.output_tokens <= max_tokens;
        let mut sequence = Self {
            life,
            status: Status::Waiting,
            client: Client::Waits,
            handoff,
            is_sending: false,
            ignores_eos: request.ignore_eos,
            priority: request.priority,
            adapter: request.adapter,
            namespace: BlockHash::namespace(request.content.salt, request.adapter).number(),
            tokens: Vec::new(),
            keys,
            ends_itself,
            kv: 0,
            allocated: 0,
            verifications: 0,
            protected: 0,
            lock: PathLock::NONE,
            prefix: 0,
            considered: 0,
            extend_end: 0,
            has_row: false,
            in_flight: 0,
            queued: 0,
            rank: 0,
            place: 0,
            member: None,
        };
        if let Some(prompt) = request.content.segments.as_deref() {
            sequence.tokens = keys.of(sequence.joined(prompt));
        }
        sequence
    }

    /// Whether nobody else can look for its tokens, and itself has not yet: the tree counts them.
    pub(super) fn is_private(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Works out the tokens of a request that is no longer private.
    pub(super) fn reveal(&mut self) {
        let Life { id, prompt_tokens: len, .. } = self.life;
        let prompt = Segment { stream: Segment::unique_stream(id), start: 0, len };
        self.tokens = self.keys.of(self.joined(&[prompt]));
    }

    /// The tokens of prompt and answer, joined.
    fn joined(&self, prompt: &[Segment]) -> Vec<Segment> {
        let plain = self.life.output_tokens - u32::from(self.ends_itself);
        let stream = Segment::answer_stream(self.life.id);
        let answer = Segment { stream, start: 0, len: plain };
        let end = self.ends_itself.then_some(&Segment::END);
        let mut joined: Vec<Segment> = Vec::with_capacity(prompt.len() + 2);
        for &segment in prompt.iter().chain([&answer]).chain(end) {
            match joined.last_mut() {
                _ if segment.len == 0 => {}
                Some(last)
                    if last.stream == segment.stream && last.start + last.len == segment.start =>
                {
                    last.len += segment.len;
                }
                _ => joined.push(segment),
            }
        }
        joined
    }

    /// Prompt and generated tokens.
    pub(super) fn known(&self) -> u32 {
        self.life.prompt_tokens + self.life.generated
    }

    /// Tokens that have a slot of KV memory, those taken for drafts included.
    #[inline]
    pub(super) fn slots(&self) -> u32 {
        self.kv.max(self.allocated)
    }

    /// Whether it has memory for a KV that is on its way.
    pub(super) fn is_loading(&self) -> bool {
        self.status == Status::Loading
    }

    /// Whether all it does is to decode: its client waits, it has had a token or will with the step
    /// in flight, and only its last token is not computed. A request cut by the end of a batch in
    /// which another one was cut later starts to decode before its prompt is computed.
    pub(super) fn can_join(&self) -> bool {
        let tokens = self.known() + self.in_flight;
        let has_token = self.life.first_token.is_some() || self.in_flight > 0;
        self.client == Client::Waits && has_token && self.kv + 1 == tokens
    }

    /// A name for its first `tokens` tokens, as the tree has them.
    pub(super) fn beginning(&self, tokens: u32) -> u64 {
        let mut left = tokens;
        let mut name = self.namespace;
        for run in &self.tokens {
            let len = run.len.min(left);
            name = mix(mix(name ^ mix(run.stream)) ^ (u64::from(run.start) << 32 | u64::from(len)));
            left -= len;
            if left == 0 {
                break;
            }
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::SimTime;

    #[test]
    fn an_answer_that_stops_early_ends_with_the_token_of_the_end() {
        let mut request = Request::new(SimTime::ZERO, 10, 4);
        request.max_tokens = 9;
        request.ignore_eos = false;
        let lengths = |s: &Sequence| s.tokens.iter().map(|run| run.len).collect::<Vec<_>>();
        let revealed = |max_tokens| {
            let (id, keys) = (RequestId(0), TreeKeys::Tokens);
            let mut sequence = Sequence::new(id, &request, max_tokens, Handoff::None, keys);
            sequence.reveal();
            sequence
        };
        let stopped = revealed(9);
        assert_eq!(lengths(&stopped), [10, 3, 1]);
        assert_eq!(stopped.tokens[2], Segment::END);
        // cut at 3 tokens, it never comes to the end
        let cut = revealed(3);
        assert_eq!(lengths(&cut), [10, 3]);
    }
}
