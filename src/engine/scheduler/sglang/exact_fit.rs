//! Admission without a prefix cache, when answers are sure to run to their limit: the completion
//! of all requests is played through (SGLang 0.5.23, `sglang/srt/managers/schedule_policy.py`,
//! `add_one_req_ignore_eos`).

/// A request as the play sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Completion {
    /// Tokens until it finishes.
    pub(super) left: f64,
    /// Tokens of memory that it then frees.
    pub(super) held: u32,
}

/// The requests of a batch in the order in which they will finish.
#[derive(Debug, Clone, Default)]
pub(super) struct Completions(Vec<Completion>);

impl Completions {
    /// The requests in play as the first candidate of a batch is looked at, the candidate first.
    /// Those without tokens left do not count.
    pub(super) fn new(requests: impl Iterator<Item = Completion>) -> Self {
        let mut all: Vec<_> = requests.filter(|request| request.left > 0.0).collect();
        all.sort_by(|a, b| a.left.total_cmp(&b.left));
        Self(all)
    }

    /// Adds a later candidate: before the first request that finishes no sooner; before the last
    /// one if all finish sooner, as the engine does.
    pub(super) fn add(&mut self, candidate: Completion) {
        if candidate.left > 0.0 {
            let at = self.0.iter().position(|request| candidate.left <= request.left);
            self.0.insert(at.unwrap_or(self.0.len().saturating_sub(1)), candidate);
        }
    }

    /// Whether memory lasts until each request finishes, one token each to spare, if `free`
    /// tokens are left after the candidate's prefill.
    pub(super) fn fit(&self, free: f64) -> bool {
        let mut free = free;
        self.0.iter().enumerate().all(|(index, request)| {
            let batch = (self.0.len() - index) as f64;
            let fits = free - request.left * batch > batch;
            free += f64::from(request.held);
            fits
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completion(left: f64, held: u32) -> Completion {
        Completion { left, held }
    }

    #[test]
    fn memory_must_last_until_each_request_finishes() {
        let all = [completion(30.0, 5), completion(10.0, 40), completion(0.0, 99)];
        let all = Completions::new(all.into_iter());
        // first to finish: 10 tokens left, 2 requests: free − 20 > 2; then 40 come free:
        // free + 40 − 30 > 1
        assert!(all.fit(23.0));
        assert!(!all.fit(22.0));
    }

    #[test]
    fn a_later_candidate_that_finishes_last_stands_before_the_last() {
        let mut all = Completions::new([completion(10.0, 1), completion(20.0, 2)].into_iter());
        all.add(completion(30.0, 3));
        all.add(completion(10.0, 4));
        let held: Vec<_> = all.0.iter().map(|request| request.held).collect();
        assert_eq!(held, [4, 1, 3, 2]);
        let mut none = Completions::default();
        none.add(completion(5.0, 6));
        assert_eq!(none.0.len(), 1);
    }
}
