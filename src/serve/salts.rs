//! What keeps prompts apart that begin alike: caches of the servers have a part for each salt.
//!
//! vLLM has `cache_salt`; SGLang 0.5.23 `extra_key` beside it (`python/sglang/srt/disaggregation/kv_events.py`), each
//! once or for each prompt.

use super::app::Dialect;
use super::error::ApiError;
use super::fields::Fields;
use super::prompts::Texts;
use crate::rng::mix;

/// The number of the salt of each of so many prompts; 0 of those without one.
pub(super) fn read(
    fields: &mut Fields,
    dialect: Dialect,
    prompts: usize,
) -> Result<Vec<u64>, ApiError> {
    let mut salts = vec![0; prompts];
    let names: &[&str] = match dialect {
        Dialect::Vllm => &["cache_salt"],
        Dialect::Sglang => &["extra_key", "cache_salt"],
    };
    for (name, kind) in names.iter().zip(1..) {
        let Some(texts) = fields.take::<Texts>(name)? else { continue };
        for (salt, text) in salts.iter_mut().zip(texts.of(name, prompts)?) {
            if !text.is_empty() {
                *salt = salted(*salt, kind, &text);
            }
        }
    }
    Ok(salts)
}

/// The number of a salt beside another one.
fn salted(other: u64, kind: u64, text: &str) -> u64 {
    let begin = mix(other ^ kind);
    text.bytes().fold(begin, |hash, byte| mix(hash ^ u64::from(byte))).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn salts_of_one_text_differ_by_their_kind() {
        let salts = [
            salted(0, 1, "a"),
            salted(0, 2, "a"),
            salted(salted(0, 1, "a"), 2, "a"),
            salted(0, 1, "b"),
        ];
        let different: std::collections::BTreeSet<u64> = salts.into_iter().collect();
        assert_eq!(different.len(), 4);
        assert!(!different.contains(&0));
    }
}
