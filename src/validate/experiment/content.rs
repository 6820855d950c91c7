//! Which prompts share what.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Repeat, RequestsConfig, Row};
use crate::request::{Content, Segment};

/// Contents of prompts, in one of three forms: ids of blocks, names of prompts, a period.
pub(super) struct Contents {
    block_tokens: Option<u32>,
    repeat: Option<Repeat>,
    /// Streams of the named prompts or blocks, in order of appearance.
    named: BTreeMap<String, u64>,
}

/// Streams of shared beginnings lie above those of prompts.
const SHARED: u64 = 1 << 48;

impl Contents {
    pub(super) fn new(config: &RequestsConfig) -> Result<Self, String> {
        let forms = [
            config.columns.contains_key("hash_ids"),
            config.columns.contains_key("prompt"),
            config.repeat.is_some(),
        ];
        if forms.iter().filter(|given| **given).count() > 1 {
            return Err("requests: give one of columns.hash_ids, columns.prompt and repeat".into());
        }
        if forms[0] && config.hash_block_tokens.is_none_or(|tokens| tokens == 0) {
            return Err("requests.hash_block_tokens: must be given with columns.hash_ids".into());
        }
        if let Some(repeat) = config.repeat
            && (repeat.prompts == 0 || repeat.shared_by == 0)
        {
            return Err("requests.repeat: prompts and shared_by must be at least 1".into());
        }
        Ok(Self {
            block_tokens: config.hash_block_tokens,
            repeat: config.repeat,
            named: BTreeMap::new(),
        })
    }

    /// The content of the prompt of a row.
    pub(super) fn of(&mut self, index: usize, row: &Row) -> Result<Content, String> {
        let segments: Option<Vec<Segment>> = if let Some(repeat) = self.repeat {
            Some(repeated(repeat, index as u64, row.prompt_tokens))
        } else if let Some(name) = &row.prompt {
            let stream = self.stream(name);
            Some(vec![Segment { stream, start: 0, len: row.prompt_tokens }])
        } else if row.hash_ids.is_empty() {
            None
        } else {
            let block_tokens = self.block_tokens.unwrap_or(1);
            let ids: Vec<u64> = row.hash_ids.iter().map(|id| self.stream(id)).collect();
            Some(blocks(&ids, block_tokens, row.prompt_tokens, index)?)
        };
        let segments = segments.map(|all| {
            all.into_iter().filter(|segment| segment.len > 0).collect::<Arc<[Segment]>>()
        });
        Ok(Content { segments, ..Content::default() })
    }

    /// The stream of a name: the same for the same text.
    fn stream(&mut self, name: &str) -> u64 {
        let next = self.named.len() as u64;
        *self.named.entry(name.to_owned()).or_insert(next)
    }
}

fn repeated(repeat: Repeat, index: u64, tokens: u32) -> Vec<Segment> {
    let prompt = index % u64::from(repeat.prompts);
    let shared = repeat.shared_tokens.min(tokens);
    let group = SHARED + prompt / u64::from(repeat.shared_by);
    vec![
        Segment { stream: group, start: 0, len: shared },
        Segment { stream: prompt, start: 0, len: tokens - shared },
    ]
}

/// One segment a block; tokens behind the last id belong to nobody else.
fn blocks(
    ids: &[u64],
    block_tokens: u32,
    tokens: u32,
    index: usize,
) -> Result<Vec<Segment>, String> {
    let needed = tokens.div_ceil(block_tokens) as usize;
    if ids.len() > needed {
        return Err(format!(
            "row {}: a prompt of {tokens} tokens has {needed} blocks of {block_tokens}, but {} \
             hash ids are given",
            index + 1,
            ids.len()
        ));
    }
    let mut left = tokens;
    let mut segments: Vec<Segment> = ids
        .iter()
        .map(|&stream| {
            let len = left.min(block_tokens);
            left -= len;
            Segment { stream, start: 0, len }
        })
        .collect();
    segments.push(Segment { stream: SHARED + index as u64, start: 0, len: left });
    Ok(segments)
}
