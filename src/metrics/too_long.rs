//! Requests that replicas reject because of their length.

use std::fmt;

use serde::Serialize;

use crate::ids::ModelId;
use crate::request::Request;
use crate::resolved::{ReplicaGroup, Scenario};

/// Requests that replicas reject because of their length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TooLong {
    /// Tokens of the longest prompt.
    pub prompt_tokens: u32,
    /// Tokens of prompt and answer that the replicas of its model take at most.
    pub max_model_len: u32,
    /// The engine's name for what sets that.
    pub key: &'static str,
    /// Tokens of the longest prompt that they take.
    pub prompt_tokens_max: u32,
    /// Tokens of the longest request, prompt and `max_tokens` together, where they reject those.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whole_tokens: Option<u32>,
}

impl TooLong {
    /// What is rejected, in words.
    pub(crate) fn rejected(&self) -> String {
        match self.whole_tokens {
            None => format!("prompts of {} tokens", self.prompt_tokens),
            Some(tokens) => format!("requests of {tokens} tokens of prompt and max_tokens"),
        }
    }
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { max_model_len, key, prompt_tokens_max, whole_tokens, .. } = self;
        write!(f, "there are {}, and ", self.rejected())?;
        let kept = max_model_len.saturating_sub(*prompt_tokens_max);
        let shorter = if whole_tokens.is_some() {
            write!(f, "refuse_beyond_context rejects those that reach {key} = {max_model_len}")?;
            "ask for fewer tokens"
        } else if kept > 1 {
            write!(
                f,
                "SGLang rejects those of more than {prompt_tokens_max}, as it keeps {kept} of {key} = \
                 {max_model_len} for the answer"
            )?;
            "give shorter prompts"
        } else {
            write!(f, "replicas reject what does not fit into {key} = {max_model_len}")?;
            "give shorter prompts"
        };
        write!(f, ": {shorter}, or set cluster.engine.{key} if ")?;
        f.write_str(if *key == KV_TOKENS {
            "the memory holds more"
        } else {
            "the model takes more"
        })
    }
}

/// SGLang's name for its KV memory, which may be less than a context.
const KV_TOKENS: &str = "max_total_tokens";

/// The longest requests of a model.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Longest {
    prompt_tokens: u32,
    /// Prompt and `max_tokens` together.
    whole_tokens: u32,
}

impl Longest {
    #[inline]
    pub(super) fn add(&mut self, request: &Request) {
        self.prompt_tokens = self.prompt_tokens.max(request.prompt_tokens);
        let whole_tokens = request.prompt_tokens.saturating_add(request.max_tokens);
        self.whole_tokens = self.whole_tokens.max(whole_tokens);
    }

    /// Why none of the replicas of its model takes them, if none does.
    pub(super) fn refused(self, scenario: &Scenario, model: ModelId) -> Option<TooLong> {
        let own = || scenario.groups.iter().filter(|group| group.serves == model);
        let group = own().max_by_key(|group| group.settings.prompt_max())?;
        let (max_model_len, key) = limit(group);
        let long = TooLong {
            prompt_tokens: self.prompt_tokens,
            max_model_len,
            key,
            prompt_tokens_max: group.settings.prompt_max(),
            whole_tokens: None,
        };
        if long.prompt_tokens > long.prompt_tokens_max {
            return Some(long);
        }
        let from = own().map(|group| group.settings.refused_from()).collect::<Option<Vec<u32>>>();
        let from = from?.into_iter().max()?;
        let key = group.cluster.engine.context_key();
        let whole_tokens = Some(self.whole_tokens);
        let long = TooLong { max_model_len: from, key, whole_tokens, ..long };
        (self.whole_tokens >= from).then_some(long)
    }
}

/// Tokens of the longest sequence, and the setting that says so.
fn limit(group: &ReplicaGroup) -> (u32, &'static str) {
    let context = (group.settings.max_model_len(), group.cluster.engine.context_key());
    let memory = group.settings.max_total_tokens().map(|tokens| (tokens, KV_TOKENS));
    memory.filter(|memory| memory.0 < context.0).unwrap_or(context)
}
