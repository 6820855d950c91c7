//! Names that clients give to their requests (SGLang's `rid`), by which they may end them.
//!
//! SGLang 0.5.23, `python/sglang/srt/managers/io_struct.py` (`_normalize_rid`), `tokenizer_manager.py`
//! (`abort_request`) and `scheduler.py` (`abort_request`).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::answer::Answer;
use super::error::ApiError;
use super::fields::Fields;
use super::prompts::Texts;

/// Bytes of a name at most: it is kept for as long as its request.
const MOST_BYTES: usize = 1024;

/// The requests under way that have names.
#[derive(Debug, Default)]
pub(super) struct Rids(Mutex<BTreeMap<String, Arc<Answer>>>);

/// A request that has one.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) rid: String,
    pub(super) answer: Arc<Answer>,
    among: Arc<Rids>,
}

impl Rids {
    /// The names that a body gives to the requests for its prompts: one, numbered where the prompts are a list, or one
    /// of each. Several answers to a prompt have none, as in SGLang.
    pub(super) fn read(
        self: &Arc<Self>,
        fields: &mut Fields,
        (prompts, is_list, n): (usize, bool, u32),
    ) -> Result<Vec<Option<Named>>, ApiError> {
        let rids: Option<Texts> = fields.take("rid")?;
        let choices = prompts.saturating_mul(n as usize);
        let rids = match rids {
            Some(Texts::One(rid)) if is_list => {
                (0..prompts).map(|index| format!("{rid}_{index}")).collect()
            }
            Some(rids) => rids.of("rid", prompts)?,
            None => Vec::new(),
        };
        if rids.is_empty() || n != 1 {
            return Ok((0..choices).map(|_| None).collect());
        }
        rids.into_iter().map(|rid| self.enter(rid).map(Some)).collect()
    }

    fn enter(self: &Arc<Self>, rid: String) -> Result<Named, ApiError> {
        if rid.len() > MOST_BYTES {
            let message = format!("`rid` has at most {MOST_BYTES} bytes, got {}", rid.len());
            return Err(ApiError::field("rid", message));
        }
        let mut all = self.lock();
        if all.contains_key(&rid) {
            return Err(ApiError::field("rid", format!("Duplicate request ID detected: {rid}")));
        }
        let answer = Answer::new();
        all.insert(rid.clone(), answer.clone());
        Ok(Named { rid, answer, among: self.clone() })
    }

    /// What a name ends: its request, and those whose names begin with it. Nothing where no request has it.
    pub(super) fn ended_by(&self, rid: &str) -> Vec<Arc<Answer>> {
        let all = self.lock();
        if rid.is_empty() || !all.contains_key(rid) {
            return Vec::new();
        }
        let from =
            all.range::<str, _>((std::ops::Bound::Included(rid), std::ops::Bound::Unbounded));
        from.take_while(|(name, _)| name.starts_with(rid)).map(|(_, it)| it.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Answer>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        self.among.lock().remove(&self.rid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_ends_its_request_and_those_that_begin_with_it() {
        let rids = Arc::new(Rids::default());
        let names = ["a", "a_1", "a_10", "b", ""];
        let mut named: Vec<Named> =
            names.iter().map(|name| rids.enter((*name).to_owned()).expect("it is new")).collect();
        assert!(rids.enter("a_1".to_owned()).is_err());
        let ended = |rid: &str| rids.ended_by(rid).len();
        assert_eq!(["a", "a_1", "a_10", "b", "", "a_", "c"].map(ended), [3, 2, 1, 1, 0, 0, 0]);
        named.remove(0);
        assert_eq!(ended("a"), 0, "it is over");
        assert_eq!(ended("a_1"), 2);
        drop(named);
        assert!(rids.lock().is_empty());
    }
}
