//! Rules on how many drafts are accepted, and the recording of it.

use super::{Rules, Scenario, ScenarioError};
use crate::scenario::{AcceptanceConfig, Speculation};

const KEY: &str = "cluster.engine.speculation";
const ACCEPTANCE: &str = "cluster.engine.speculation.acceptance";

pub(super) fn rules(speculation: Speculation<'_>, rules: &mut Rules) {
    let drafts = speculation.drafts;
    let path = format!("{KEY}.{}", speculation.keys.drafts);
    rules.check(drafts <= 1000, &path, "from 0 to 1000", drafts);
    if drafts == 0 {
        return;
    }
    match speculation.acceptance {
        AcceptanceConfig::PerPosition { probability } => {
            rules.share(&format!("{KEY}.acceptance.probability"), *probability);
        }
        AcceptanceConfig::MeanLength { tokens } => {
            let most = f64::from(drafts) + 1.0;
            let rule = format!("from 1 to {}, which is {most}", speculation.keys.longest);
            let holds = (1.0..=most).contains(tokens);
            rules.check(holds, &format!("{KEY}.acceptance.tokens"), &rule, tokens);
        }
        AcceptanceConfig::Recorded { path } => {
            let holds = !path.is_empty();
            rules.check(holds, &format!("{KEY}.acceptance.path"), "the name of a file", "none");
        }
    }
}

impl Scenario {
    /// The file of recorded acceptance that this scenario names, and the drafts per step.
    pub fn acceptance_recording(&self) -> Option<(&str, u32)> {
        let cluster = &self.cluster;
        if !cluster.groups.is_empty() {
            return None;
        }
        let speculation = cluster.engine.speculation()?;
        match speculation.acceptance {
            AcceptanceConfig::Recorded { path } => Some((path, speculation.drafts)),
            AcceptanceConfig::PerPosition { .. } | AcceptanceConfig::MeanLength { .. } => None,
        }
    }

    /// The same scenario with what its acceptance recording says: for each request, in order of
    /// arrival, the drafts accepted in each of its verifications.
    ///
    /// # Errors
    /// When the scenario names no recording, a request has no verification or more drafts accepted
    /// than there are, or the workload is known to send more requests.
    pub fn with_accepted_drafts(mut self, accepted: Vec<Vec<u32>>) -> Result<Self, ScenarioError> {
        let Some((_, drafts)) = self.acceptance_recording() else {
            return Err(ScenarioError::at(ACCEPTANCE, "is not of type `recorded`"));
        };
        for (request, counts) in accepted.iter().enumerate() {
            let problem = match counts.iter().find(|&&count| count > drafts) {
                Some(count) => {
                    format!("request {request} has {count} drafts accepted in a step of {drafts}")
                }
                None if counts.is_empty() => format!("request {request} has no verification"),
                None => continue,
            };
            return Err(ScenarioError::at(ACCEPTANCE, problem));
        }
        let known = self.workload.num_requests.unwrap_or_default();
        self.accepted_drafts = Some(accepted.into());
        self.check_accepted_drafts(u64::from(known))?;
        Ok(self)
    }

    /// Whether the acceptance recording, if there is one, has all of `requests` requests.
    ///
    /// # Errors
    /// When it has fewer.
    pub fn check_accepted_drafts(&self, requests: u64) -> Result<(), ScenarioError> {
        let recorded = self.accepted_drafts.as_ref().map(|accepted| accepted.len() as u64);
        match recorded.filter(|&recorded| recorded < requests) {
            None => Ok(()),
            Some(recorded) => Err(ScenarioError::at(
                ACCEPTANCE,
                format_args!("request {recorded} of {requests} is not in the recording"),
            )),
        }
    }
}
