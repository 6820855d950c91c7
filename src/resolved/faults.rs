//! Rules of faults, and of clients that go away or try again.

use super::Rules;
use super::groups::{Asked, asked};
use super::rules::LONGEST_S;
use crate::scenario::{
    AcceptanceConfig, ClientConfig, FaultConfig, HandoverProtocol, OverRate, RandomFault,
    RandomFaultConfig, ReplicaRole, ScenarioFile,
};
use crate::units::{SimDuration, SimTime};

/// Random faults that are drawn before a run.
const MOST_EXPECTED: f64 = 1e6;

/// Rules that need no look-up.
pub(super) fn rules(file: &ScenarioFile, rules: &mut Rules) {
    let cluster = &file.cluster;
    let groups = asked(cluster);
    let sum = |sum: u32, group: &Asked| sum.saturating_add(group.cluster.replicas);
    let replicas = groups.iter().fold(0, sum);
    let mut windows = Windows::default();
    for (index, fault) in file.faults.iter().enumerate() {
        let place = Place { path: format!("faults[{index}]"), replicas, groups: &groups, file };
        place.check(fault, &mut windows, rules);
    }
    windows.check(rules);
    client_rules(file, rules);
}

fn client_rules(file: &ScenarioFile, rules: &mut Rules) {
    let path = |key: &str| format!("workload.client.{key}");
    let client = &file.workload.client;
    let timeouts =
        [("timeout_s", client.timeout_s), ("first_token_timeout_s", client.first_token_timeout_s)];
    for (key, timeout) in timeouts {
        rules.lasting(&path(key), timeout.unwrap_or(1.0));
    }
    if let Some(cancellations) = &client.cancellations {
        rules.share(&path("cancellations.share"), cancellations.share);
        rules.lasting(&path("cancellations.mean_s"), cancellations.mean_s);
    }
    let Some(retries) = &client.retries else { return };
    // Each attempt that fails leaves something behind in a run.
    let (many, rule) = (retries.max_retries, "from 1 to 1000");
    rules.check((1..=1000).contains(&many), &path("retries.max_retries"), rule, many);
    rules.time(&path("retries.backoff_s"), retries.backoff_s, 1.0);
    rules.time(&path("retries.max_backoff_s"), retries.max_backoff_s, 1.0);
    let turns_away = retries.on_refusal && may_turn_away(file);
    if !turns_away && !may_fail(file, client, retries.on_timeout) {
        let message = "nothing can fail that is retried: no crash in `faults`, no timeout, no gateway \
                       that turns requests away";
        rules.broken(&path("retries"), message);
    }
    if let Some(speculation) = file.cluster.engine.speculation()
        && let AcceptanceConfig::Recorded { .. } = speculation.acceptance
    {
        let message = "a recording of accepted drafts knows no retries";
        rules.broken(&path("retries"), message);
    }
}

/// Whether the gateway may turn a request away while replicas are up.
fn may_turn_away(file: &ScenarioFile) -> bool {
    let Some(gateway) = &file.cluster.gateway else {
        return file.cluster.router.limits_requests();
    };
    let refuses = gateway.rate_limit.as_ref().is_some_and(|limit| limit.over == OverRate::Refuse);
    let has_deadline = gateway.deadline_ms.is_some()
        || file.workload.classes.iter().any(|class| class.deadline_ms.is_some());
    refuses || gateway.max_waiting.is_some() || has_deadline
}

/// Whether requests need memory where they are decoded before they are prefilled, and fail where their KV does
/// not come.
fn reserves(file: &ScenarioFile) -> bool {
    let Some(parts) = &file.cluster.disaggregation else { return false };
    let groups = asked(&file.cluster);
    let parted = groups.iter().find(|group| group.role != ReplicaRole::Mixed);
    parted
        .is_some_and(|group| parts.protocol_of(&group.cluster.engine) == HandoverProtocol::Reserve)
}

/// Whether there may be anything to retry.
fn may_fail(file: &ScenarioFile, client: &ClientConfig, on_timeout: bool) -> bool {
    let has_timeout = client.timeout_s.is_some() || client.first_token_timeout_s.is_some();
    let crashes = |fault: &FaultConfig| match fault {
        FaultConfig::Crash { .. } => true,
        FaultConfig::LostTransfers { .. } => reserves(file),
        FaultConfig::Random(random) => match random.fault {
            RandomFault::Crash { .. } => true,
            RandomFault::LostTransfers {} => reserves(file),
            _ => false,
        },
        _ => false,
    };
    on_timeout && has_timeout || file.faults.iter().any(crashes)
}

/// A fault in its file.
struct Place<'a> {
    path: String,
    replicas: u32,
    groups: &'a [Asked],
    file: &'a ScenarioFile,
}

impl Place<'_> {
    fn check(&self, fault: &FaultConfig, windows: &mut Windows, rules: &mut Rules) {
        let path = |key: &str| format!("{}.{key}", self.path);
        let (replica, kind, from, lasts) = match *fault {
            FaultConfig::Crash { replica, at_s, down_s, detection_s } => {
                rules.lasting(&path("down_s"), down_s);
                self.detection(detection_s, rules);
                let holds = detection_s <= down_s;
                rules.check(holds, &path("detection_s"), "at most down_s", detection_s);
                (replica, RandomFault::Crash { detection_s }, at_s, Some(down_s))
            }
            FaultConfig::Straggler { replica, at_s, for_s, factor } => {
                rules.lasting(&path("for_s"), for_s);
                (replica, RandomFault::Straggler { factor }, at_s, Some(for_s))
            }
            FaultConfig::SlowLink { replica, at_s, for_s, share } => {
                rules.lasting(&path("for_s"), for_s);
                (replica, RandomFault::SlowLink { share }, at_s, Some(for_s))
            }
            FaultConfig::LostCache { replica, at_s } => {
                (replica, RandomFault::LostCache {}, at_s, None)
            }
            FaultConfig::LostTransfers { replica, at_s } => {
                (replica, RandomFault::LostTransfers {}, at_s, None)
            }
            FaultConfig::Random(ref random) => return self.random(random, windows, rules),
        };
        self.replica("replica", replica, rules);
        self.kind(&self.path, kind, Some(&[replica]), rules);
        rules.time(&path("at_s"), at_s_of(from, lasts), 1.0);
        // The rules above tell of times that do not fit the clock.
        let fits = at_s_of(from, lasts) <= LONGEST_S;
        let span = SimDuration::try_from_secs_f64;
        if let (true, Some(from), Some(lasts)) = (fits, span(from), lasts.and_then(span)) {
            let from = SimTime::ZERO + from;
            windows.add(&self.path, kind.name(), replica, (from, from + lasts));
        }
    }

    fn random(&self, random: &RandomFaultConfig, windows: &mut Windows, rules: &mut Rules) {
        let path = |key: &str| format!("{}.{key}", self.path);
        self.kind(&path("fault"), random.fault, random.replicas.as_deref(), rules);
        rules.lasting(&path("mean_time_between_s"), random.mean_time_between_s);
        rules.time(&path("until_s"), random.until_s, 1.0);
        let count = random.replicas.as_ref().map_or(self.replicas as usize, Vec::len);
        let expected = random.until_s / random.mean_time_between_s * count as f64;
        let rule = "0 to 1000000 faults expected until then";
        rules.check(expected <= MOST_EXPECTED, &path("until_s"), rule, random.until_s);
        match (random.mean_duration_s, random.fault.lasts()) {
            (Some(mean), true) => rules.lasting(&path("mean_duration_s"), mean),
            (None, false) => {}
            (None, true) => {
                rules.broken(&path("mean_duration_s"), "must be given for what lasts");
            }
            (Some(mean), false) => {
                let rule = "absent for what does not last";
                rules.check(false, &path("mean_duration_s"), rule, mean);
            }
        }
        if let RandomFault::Crash { detection_s } = random.fault {
            self.detection(detection_s, rules);
        }
        if let Some(named) = &random.replicas {
            rules.check(!named.is_empty(), &path("replicas"), "absent, or one at least", "none");
            for (index, replica) in named.iter().enumerate() {
                self.replica(&format!("replicas[{index}]"), *replica, rules);
            }
        }
        if expected > MOST_EXPECTED || f64::from(self.replicas) > MOST_EXPECTED {
            return;
        }
        let all = || (0..self.replicas).collect();
        for replica in random.replicas.clone().unwrap_or_else(all) {
            windows.add(&self.path, random.fault.name(), replica, (SimTime::ZERO, SimTime::MAX));
        }
    }

    fn replica(&self, key: &str, replica: u32, rules: &mut Rules) {
        let rule = format!("below the {} replicas of the cluster", self.replicas);
        rules.check(replica < self.replicas, &format!("{}.{key}", self.path), &rule, replica);
    }

    fn detection(&self, detection_s: f64, rules: &mut Rules) {
        rules.time(&format!("{}.detection_s", self.path), detection_s, 1.0);
    }

    /// What a kind of fault asks of its numbers and of the replicas that it strikes, all if none are named.
    fn kind(&self, path: &str, kind: RandomFault, named: Option<&[u32]>, rules: &mut Rules) {
        match kind {
            RandomFault::Crash { .. } => {}
            RandomFault::Straggler { factor } => {
                let holds = (1.0..=MOST_EXPECTED).contains(&factor);
                rules.check(holds, &format!("{path}.factor"), "from 1 to 1000000", factor);
            }
            RandomFault::SlowLink { share } => {
                rules.share(&format!("{path}.share"), share);
                self.network(path, named, rules);
                let nic = |group: &Asked| Some(group.nic_gb_per_s(&self.file.cluster)? * 1e9);
                let left = self.struck(named).filter_map(nic).fold(f64::INFINITY, f64::min) * share;
                let rule = "so much that a NIC carries 1 byte/s at least";
                rules.check(left.is_nan() || left >= 1.0, path, rule, share);
            }
            RandomFault::LostCache {} => self.cache(path, named, rules),
            RandomFault::LostTransfers {} => self.network(path, named, rules),
        }
    }

    fn network(&self, path: &str, named: Option<&[u32]>, rules: &mut Rules) {
        if self.file.cluster.disaggregation.is_none() {
            rules.broken(path, "there is no network: it needs cluster.disaggregation");
        } else if self.struck(named).any(|group| group.role == ReplicaRole::Mixed) {
            rules.broken(path, "mixed replicas have no part in transfers");
        }
    }

    fn cache(&self, path: &str, named: Option<&[u32]>, rules: &mut Rules) {
        let lacks_cache = |group: &&Asked| !group.cluster.engine.keeps_prefixes();
        if let Some(group) = self.struck(named).find(lacks_cache) {
            let engine = group.cluster.engine.name();
            let message = format!("{engine} keeps no prefix cache here that could be lost");
            rules.broken(path, &message);
        }
    }

    /// The groups of the replicas that a fault strikes.
    fn struck<'b>(&'b self, named: Option<&'b [u32]>) -> impl Iterator<Item = &'b Asked> {
        let mut first = 0_u32;
        self.groups.iter().filter(move |group| {
            let end = first.saturating_add(group.cluster.replicas);
            let own = std::mem::replace(&mut first, end)..end;
            named.is_none_or(|named| named.iter().any(|replica| own.contains(replica)))
        })
    }
}

/// The end of a fault, which has to fit the clock as its beginning.
fn at_s_of(from: f64, lasts: Option<f64>) -> f64 {
    if from < 0.0 { from } else { from + lasts.unwrap_or(0.0).max(0.0) }
}

/// Windows by kind and replica; random faults take all time.
#[derive(Default)]
struct Windows(Vec<Window>);

struct Window {
    path: String,
    kind: &'static str,
    replica: u32,
    from: SimTime,
    until: SimTime,
}

impl Windows {
    fn add(
        &mut self,
        path: &str,
        kind: &'static str,
        replica: u32,
        (from, until): (SimTime, SimTime),
    ) {
        self.0.push(Window { path: path.to_owned(), kind, replica, from, until });
    }

    /// Of one kind, a replica has one fault at a time.
    fn check(&mut self, rules: &mut Rules) {
        let order = |a: &Window, b: &Window| {
            (a.kind, a.replica).cmp(&(b.kind, b.replica)).then(a.from.cmp(&b.from))
        };
        self.0.sort_by(order);
        for pair in self.0.windows(2) {
            let [a, b] = pair else { continue };
            if (a.kind, a.replica) == (b.kind, b.replica) && b.from < a.until {
                let message = format!(
                    "overlaps with the {} of replica {} in {}; a replica has one at a time",
                    a.kind, a.replica, a.path
                );
                rules.broken(&b.path, &message);
            }
        }
    }
}
