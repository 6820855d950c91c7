//! What a plan assumes of its layouts: facts that hold of several are told once.

use std::fmt;

use serde::Serialize;
use serde_json::{Value, json};

use super::layouts::Layout;
use super::nic::Nic;
use super::outcome::Row;
use crate::metrics::Warnings;
use crate::plain::shown;
use crate::resolved::{Basis, Caveat, HostBasis, KvBasis, ServerBasis, StepTimeSource};
use crate::scenario::{ArrivalConfig, HandoverProtocol, RouterConfig};

/// Something that a plan takes to be so.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Assumption {
    /// Where step times come from.
    StepTimes(StepTimeSource),
    /// What is known of servers beside their kernels.
    Servers {
        /// That.
        #[serde(flatten)]
        basis: ServerBasis,
        /// Whether it is planned for those that are slower than 19 of 20 of them.
        for_slow: bool,
    },
    /// What their host takes.
    Host(HostBasis),
    /// Where the size of KV memory comes from.
    KvMemory(KvBasis),
    /// How KV caches come from replicas that prefill to those that decode.
    HandOver {
        /// Who moves them, and who waits for them.
        protocol: HandoverProtocol,
        /// What they travel over.
        nic: Nic,
    },
    /// Copies of the requests of a trace.
    Traffic(Copies),
    /// Which router shares out the requests, where there are several replicas.
    Routing(String),
    /// Steps beyond what was measured, in the run of an answer.
    Extrapolation(Warnings),
    /// A load near what can be served, in the run of an answer.
    Load(Warnings),
    /// KV memory that is just enough, in the run of an answer.
    KvNeed(Warnings),
    /// What is known to be wrong, or not known to be right.
    Caveat(Caveat),
}

/// Requests of a trace that come several times.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Copies {
    /// How many times each comes.
    copies: u32,
    /// By how much each of them is late at most, in seconds of the trace.
    jitter_s: f64,
}

impl Copies {
    /// Of these arrivals, if any is sent twice.
    pub(super) fn of(arrivals: &ArrivalConfig) -> Option<Self> {
        let ArrivalConfig::Trace(trace) = arrivals else { return None };
        (trace.copies > 1).then_some(Self { copies: trace.copies, jitter_s: trace.jitter_s })
    }
}

impl fmt::Display for Copies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { copies, jitter_s } = self;
        write!(f, "each request of the trace comes {copies} times, ")?;
        if *jitter_s > 0.0 {
            let span = shown(*jitter_s);
            write!(
                f,
                "each time up to {span} s late (workload.arrivals.jitter_s); bursts of the trace that last longer are"
            )?;
        } else {
            write!(
                f,
                "all at one instant (workload.arrivals.jitter_s is 0); so bursts of the trace are"
            )?;
        }
        write!(f, " {copies} times as large. With another jitter_s the answer may be another")
    }
}

impl Assumption {
    /// What it is about, as JSON has it.
    pub fn what(&self) -> &'static str {
        match self {
            Self::StepTimes(_) => "step_times",
            Self::Servers { .. } => "servers",
            Self::Host(_) => "host",
            Self::KvMemory(_) => "kv_memory",
            Self::HandOver { .. } => "hand_over",
            Self::Traffic(_) => "traffic",
            Self::Routing(_) => "routing",
            Self::Extrapolation(_) => "extrapolation",
            Self::Load(_) => "load",
            Self::KvNeed(_) => "kv_need",
            Self::Caveat(_) => "caveat",
        }
    }

    /// The same in words.
    fn title(&self) -> &'static str {
        match self {
            Self::StepTimes(_) => "step times",
            Self::KvMemory(_) => "KV memory",
            Self::KvNeed(_) => "KV need",
            Self::HandOver { .. } => "hand-over",
            _ => self.what(),
        }
    }

    /// It in words.
    pub fn text(&self) -> String {
        match self {
            Self::StepTimes(source) => source.to_string(),
            Self::Servers { basis, for_slow } => {
                let slow = "; planned for one slower than 19 of 20, so SLOs have the values of such a server";
                let slow = if *for_slow { slow } else { "" };
                format!("{basis}{slow}")
            }
            Self::Host(host) => host.to_string(),
            Self::KvMemory(kv) => kv.to_string(),
            Self::HandOver { protocol, nic } => format!(
                "`{}` over NICs of {nic}. Of all layouts, those with prefill and decode apart are predicted least exactly",
                protocol.name()
            ),
            Self::Traffic(copies) => copies.to_string(),
            Self::Routing(router) => {
                format!("`{router}` (cluster.router); with another one the answer may be another")
            }
            Self::Extrapolation(run) => run.extrapolation_text().unwrap_or_default(),
            Self::Load(run) => run.saturation_text().unwrap_or_default(),
            Self::KvNeed(run) => run.kv_text().unwrap_or_default(),
            Self::Caveat(caveat) => caveat.to_string(),
        }
    }
}

/// An assumption, and what it is about.
#[derive(Debug, Clone, PartialEq)]
pub struct Assumed {
    /// What is assumed.
    pub assumption: Assumption,
    /// GPUs, or layouts where it does not hold of all that have a GPU.
    pub of: Vec<String>,
    /// Whether it holds of all layouts that were looked at.
    pub of_all: bool,
}

impl Assumed {
    /// Of the plan as a whole.
    fn of_all(assumption: Assumption) -> Self {
        Self { assumption, of: Vec::new(), of_all: true }
    }

    /// A line for people.
    pub(super) fn text(&self) -> String {
        let of = if self.of_all { String::new() } else { format!(" ({})", self.of.join(", ")) };
        format!("  {}{of}: {}\n", self.assumption.title(), self.assumption.text())
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "what": self.assumption.what(),
            "title": self.assumption.title(),
            "of": self.of,
            "text": self.assumption.text(),
            "is": self.assumption,
        })
    }
}

/// Replicas of one kind that can serve the traffic, and what they rest on.
pub(super) struct Known {
    /// The place of the layout that has them.
    place: usize,
    /// As people write them: `H100 TP4`.
    name: String,
    gpu: String,
    basis: Basis,
    for_slow: bool,
}

impl Known {
    /// Of a layout at this place.
    pub(super) fn of(
        (place, layout): (usize, &Layout),
        basis: &[Basis],
        for_slow: bool,
    ) -> Vec<Self> {
        let parts = layout.part_names().into_iter().zip(basis);
        let known = parts.map(|(name, basis)| {
            let gpu = layout.gpu().name.clone();
            // Of a pair one part may have been measured.
            let for_slow = for_slow && matches!(basis.servers, ServerBasis::Expected { .. });
            Self { place, name, gpu, basis: basis.clone(), for_slow }
        });
        known.collect()
    }
}

/// What is assumed of layouts with such replicas, of which these were found, the best first.
pub(super) fn assumed(
    (layouts, router): (&[Layout], &RouterConfig),
    traffic: Option<Copies>,
    known: &[Known],
    rows: &[Row],
) -> Vec<Assumed> {
    let kinds: [fn(&Known) -> Assumption; 4] = [
        |one| Assumption::StepTimes(one.basis.step_times.clone()),
        |one| Assumption::Servers { basis: one.basis.servers.clone(), for_slow: one.for_slow },
        |one| Assumption::Host(one.basis.host.clone()),
        |one| Assumption::KvMemory(one.basis.kv_memory.clone()),
    ];
    let traffic = traffic.map(|copies| Assumed::of_all(Assumption::Traffic(copies)));
    let facts = kinds.into_iter().flat_map(|kind| {
        let each = known.iter().map(|one| (kind(one), one.name.clone()));
        folded(each).into_iter().map(|(it, names)| about(it, &names, known))
    });
    let caveats = rows.iter().flat_map(|row| {
        let caveats = row.found().map(|found| found.trial.warnings.caveats.clone());
        let names = layouts[row.place].part_names();
        let of_all = move |caveat: Caveat| {
            let each = names.clone().into_iter();
            each.map(move |name| (Assumption::Caveat(caveat.clone()), name)).collect::<Vec<_>>()
        };
        caveats.into_iter().flatten().flat_map(of_all)
    });
    let caveats = folded(caveats).into_iter().map(|(it, names)| about(it, &names, known));
    let mut sizes = rows.iter().filter_map(Row::found).map(|found| found.size.replicas());
    let is_routed = sizes.any(|replicas| replicas.iter().any(|count| *count > 1));
    let routing = is_routed.then(|| Assumption::Routing(router.title()));
    let routing = routing.map(Assumed::of_all);
    let all = traffic.into_iter().chain(facts).chain(handed_over(layouts, known));
    all.chain(routing).chain(of_runs(layouts, rows)).chain(caveats).collect()
}

/// How layouts hand KV caches over that have prefill and decode apart: their GPUs are named, or they themselves
/// where they do it in several ways.
fn handed_over(layouts: &[Layout], known: &[Known]) -> Vec<Assumed> {
    let each = known.iter().filter_map(|one| {
        let (layout, protocol) = (&layouts[one.place], one.basis.hand_over?);
        Some((Assumption::HandOver { protocol, nic: layout.nic()? }, layout))
    });
    let each: Vec<(Assumption, &Layout)> = each.collect();
    let is_one = each.iter().all(|(it, _)| *it == each[0].0);
    let name = |layout: &Layout| if is_one { layout.gpu().name.clone() } else { layout.name() };
    let named = folded(each.into_iter().map(|(it, layout)| (it, name(layout))));
    let assumed = |(assumption, of)| Assumed { assumption, of, of_all: is_one };
    named.into_iter().map(assumed).collect()
}

/// Each assumption once, with the names of all that it holds of.
fn folded(each: impl Iterator<Item = (Assumption, String)>) -> Vec<(Assumption, Vec<String>)> {
    let mut all: Vec<(Assumption, Vec<String>)> = Vec::new();
    for (it, name) in each {
        match all.iter_mut().find(|(known, _)| *known == it) {
            Some((_, names)) if names.contains(&name) => {}
            Some((_, names)) => names.push(name),
            None => all.push((it, vec![name])),
        }
    }
    all
}

/// An assumption of replicas of these names, by the GPU where it holds of all that have it.
fn about(it: Assumption, names: &[String], known: &[Known]) -> Assumed {
    let mut of: Vec<String> = Vec::new();
    for name in names {
        let gpu = known.iter().find(|one| one.name == *name).map(|one| &one.gpu);
        let mut same = known.iter().filter(|one| Some(&one.gpu) == gpu);
        let is_of_gpu = same.all(|one| names.contains(&one.name));
        let name = gpu.filter(|_| is_of_gpu).unwrap_or(name);
        if !of.contains(name) {
            of.push(name.clone());
        }
    }
    let of_all = known.iter().all(|one| names.contains(&one.name));
    Assumed { assumption: it, of, of_all }
}

/// What the runs of answers hang on: of each kind of GPU that of its best layout.
fn of_runs(layouts: &[Layout], rows: &[Row]) -> Vec<Assumed> {
    let mut seen: Vec<&str> = Vec::new();
    let mut all = Vec::new();
    for row in rows {
        let Some(found) = row.found() else { continue };
        let layout = &layouts[row.place];
        if seen.contains(&layout.gpu().name.as_str()) {
            continue;
        }
        seen.push(&layout.gpu().name);
        let run = &found.trial.warnings;
        let facts = [
            run.extrapolation_text().map(|_| Assumption::Extrapolation(run.clone())),
            run.saturation_text().map(|_| Assumption::Load(run.clone())),
            run.kv_text().map(|_| Assumption::KvNeed(run.clone())),
        ];
        let of = vec![format!("{} x {}", found.size.name(), layout.name())];
        all.extend(facts.into_iter().flatten().map(|assumption| Assumed {
            assumption,
            of: of.clone(),
            of_all: false,
        }));
    }
    all.sort_by_key(|one: &Assumed| one.assumption.what());
    all
}
