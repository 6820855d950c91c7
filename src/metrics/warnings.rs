//! What a result hangs on: requests that were not answered, what is not priced, steps beyond the measured shapes, a load near what can be served, KV
//! memory that is just enough, or that nobody counted.

use serde::{Deserialize, Serialize};

use super::coverage::StepCoverage;
use super::cut::CutAnswers;
use super::demand::Demanded;
use super::kv_need::{KvNeed, NEED_MAX};
use super::losses::Losses;
use super::saturation::{Busiest, Crowding};
use super::too_long::{Longest, TooLong};
use crate::cost::StepTime;
use crate::ids::ModelId;
use crate::request::Request;
use crate::resolved::{Caveat, Demand, DemandFigure, KvSource, Scenario};
use crate::sim::{Counts, Lane, Observer, Occurrence, Separable};
use crate::units::SimTime;

/// How near to a limit a run is warned of.
const NEAR: f64 = 0.05;

/// The observer of what a run is warned of.
#[derive(Debug)]
pub struct Caution {
    limits: Limits,
    /// By model.
    busiest: Vec<Busiest>,
    /// By model.
    longest: Vec<Longest>,
    costs: Vec<StepTime>,
}

/// What an instance shows of how near to its limits it came.
#[derive(Debug)]
pub struct Limits {
    coverage: StepCoverage,
    kv_need: KvNeed,
    crowding: Crowding,
    cut: CutAnswers,
    demand: Demanded,
}

/// What a run is warned of, and the figures that decide it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Warnings {
    /// Steps of all instances.
    pub steps: u64,
    /// Those beyond the shapes that step times were measured on.
    pub steps_extrapolated: u64,
    /// Load over capacity at the busiest time; nothing where requests do not come by themselves,
    /// or where none was ever left waiting and half of the KV memory stayed free. Of several models
    /// that with the highest.
    pub load: Option<f64>,
    /// Which model that is of, where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_model: Option<String>,
    /// KV blocks needed over blocks there are, on the instance where that is nearest to 1, at most 2;
    /// nothing where no memory is counted.
    pub kv_need: Option<f64>,
    /// Whether that is what finds nine tenths of the tokens of prefixes that come again, which is more than what
    /// requests hold and wait for.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub kv_need_is_of_prefixes: bool,
    /// Whether the KV capacity of that instance is an estimate.
    pub kv_capacity_is_derived: bool,
    /// What became of requests that were not answered, where that is worth a word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub losses: Option<Losses>,
    /// Requests that no replica takes, where some were rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub too_long: Option<TooLong>,
    /// Answers that an engine ended before they were over.
    #[serde(skip_serializing_if = "CutAnswers::is_none")]
    pub cut: CutAnswers,
    /// What the scenario leaves unpriced, and what of the run is beyond its calibration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub caveats: Vec<Caveat>,
    /// What the run asked of its replicas, for a calibration that is made on it.
    #[serde(skip)]
    pub demand: Option<Demand>,
}

/// What a warning is of: runs that are warned of alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WarningKind {
    /// Requests that were not answered in full.
    Losses,
    /// Prompts that no replica takes.
    TooLong,
    /// Answers that an engine ended before they were over.
    Cut,
    /// What the scenario leaves unpriced.
    Caveat,
    /// More requests per second than a calibration was fitted on.
    BeyondFittedRate,
    /// Longer prompts than that.
    BeyondFittedPrompts,
    /// Longer answers than that.
    BeyondFittedAnswers,
    /// Steps beyond the measured shapes.
    Extrapolation,
    /// A load near what can be served.
    Saturation,
    /// KV memory that is just enough, or just too small.
    KvMemory,
    /// KV memory that nobody counted.
    KvCapacity,
}

impl WarningKind {
    fn of(caveat: &Caveat) -> Self {
        match caveat {
            Caveat::BeyondCalibration { what, .. } => match what {
                DemandFigure::RequestsPerSPerReplica => Self::BeyondFittedRate,
                DemandFigure::PromptTokens => Self::BeyondFittedPrompts,
                DemandFigure::OutputTokens => Self::BeyondFittedAnswers,
            },
            _ => Self::Caveat,
        }
    }
}

/// Something that a run is warned of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// What it is of.
    pub kind: WarningKind,
    /// In words: a sentence.
    pub text: String,
}

impl Warning {
    /// What warnings share that are told once: their kind, and caveats their text too, as they are of different
    /// things.
    #[cfg(feature = "sweep")]
    pub(crate) fn topic(&self) -> (WarningKind, &str) {
        let text = if self.kind == WarningKind::Caveat { self.text.as_str() } else { "" };
        (self.kind, text)
    }
}

impl Caution {
    /// Of a run of this scenario, whose steps are priced by one of `costs` for each group.
    pub fn new(scenario: &Scenario, costs: Vec<StepTime>) -> Self {
        Self {
            limits: Limits {
                coverage: StepCoverage::new(costs.clone(), scenario.kinds()),
                kv_need: KvNeed::of(scenario),
                crowding: Crowding::default(),
                cut: CutAnswers::default(),
                demand: Demanded::default(),
            },
            busiest: scenario.models.iter().map(|_| Busiest::default()).collect(),
            longest: vec![Longest::default(); scenario.models.len()],
            costs,
        }
    }

    /// After the run, of which these are the requests.
    pub fn warnings(&self, scenario: &Scenario, counts: &Counts) -> Warnings {
        let Limits { coverage, kv_need, crowding, cut, demand } = &self.limits;
        let demand = demand.of(scenario);
        let fitted = scenario.fitted_demand.zip(demand);
        let beyond = fitted.map(|(fitted, demand)| fitted.exceeded_by(&demand));
        // Blocks that wait to be fetched, and requests that load, are in no such balance.
        let kv_need = (!scenario.is_disaggregated()).then(|| kv_need.closest()).flatten();
        let load = crowding.is_crowded().then(|| self.highest_load(scenario)).flatten();
        let (load, model) = load.unzip();
        Warnings {
            steps: coverage.steps,
            steps_extrapolated: coverage.extrapolated,
            load,
            load_model: model.filter(|_| scenario.models.len() > 1),
            kv_need: kv_need.map(|need| need.share),
            kv_need_is_of_prefixes: kv_need.is_some_and(|need| need.is_of_prefixes),
            kv_capacity_is_derived: kv_need
                .is_some_and(|need| matches!(scenario.groups[need.group].kv, KvSource::Derived(_))),
            losses: Losses::of(counts),
            too_long: (counts.rejected > 0).then(|| self.too_long(scenario)).flatten(),
            cut: *cut,
            caveats: scenario.caveats().into_iter().chain(beyond.into_iter().flatten()).collect(),
            demand,
        }
    }

    /// The highest load of a model, and its name.
    fn highest_load(&self, scenario: &Scenario) -> Option<(f64, String)> {
        let loads = (0..).zip(&self.busiest).filter_map(|(place, busiest)| {
            let load = busiest.load(scenario, &self.costs, ModelId(place))?;
            Some((load, scenario.models[usize::from(place)].clone()))
        });
        loads.max_by(|(a, _), (b, _)| a.total_cmp(b))
    }

    /// The first model that is sent requests which none of its replicas takes.
    fn too_long(&self, scenario: &Scenario) -> Option<TooLong> {
        let mut each = (0..).map(ModelId).zip(&self.longest);
        each.find_map(|(model, longest)| longest.refused(scenario, model))
    }

    #[inline]
    fn arrived(&mut self, request: &Request) {
        let model = request.model.index();
        self.busiest[model].add(request);
        self.limits.demand.add(request);
        self.longest[model].add(request);
    }
}

impl Observer for Caution {
    #[inline]
    fn on(&mut self, at: SimTime, what: Occurrence<'_>) {
        self.limits.on(at, what);
        if let Occurrence::Arrived(_, request) = what {
            self.arrived(request);
        }
    }
}

impl Observer for Limits {
    #[inline]
    fn on(&mut self, at: SimTime, what: Occurrence<'_>) {
        self.coverage.on(at, what);
        self.kv_need.on(at, what);
        self.crowding.on(at, what);
        self.cut.on(at, what);
        self.demand.on(at, what);
    }
}

impl Separable for Caution {
    type Lane = Limits;
    type Aside = ();

    fn lane(&mut self, lane: Lane) -> Limits {
        Limits {
            coverage: self.limits.coverage.anew(),
            kv_need: self.limits.kv_need.of_lane(lane),
            crowding: Crowding::default(),
            cut: CutAnswers::default(),
            demand: Demanded::default(),
        }
    }

    fn arrives(&mut self, request: &Request) {
        self.arrived(request);
    }

    fn join(&mut self, lanes: Vec<Limits>) {
        for lane in lanes {
            self.limits.coverage.join(&lane.coverage);
            self.limits.kv_need.join(lane.kv_need);
            self.limits.crowding.join(lane.crowding);
            self.limits.cut.join(lane.cut);
            self.limits.demand.join(lane.demand);
        }
    }
}

impl Warnings {
    /// Whether the KV memory is within 5 % of what the requests need.
    pub fn is_kv_critical(&self) -> bool {
        self.kv_need.is_some_and(|need| (need - 1.0).abs() <= NEAR)
    }

    /// Whether more comes than 95 % of what can be served.
    pub fn is_saturated(&self) -> bool {
        self.load.is_some_and(|load| load >= 1.0 - NEAR)
    }

    /// In words, one sentence a warning.
    pub fn texts(&self) -> Vec<String> {
        self.each().into_iter().map(|warning| warning.text).collect()
    }

    /// Each with what it is of.
    pub fn each(&self) -> Vec<Warning> {
        use WarningKind as Kind;
        let losses = self.losses.iter().map(|losses| (Kind::Losses, losses.to_string()));
        let too_long = self.too_long.iter().map(|long| (Kind::TooLong, long.to_string()));
        let cut = (!self.cut.is_none()).then(|| (Kind::Cut, self.cut.to_string()));
        let caveats = self.caveats.iter().map(|caveat| (Kind::of(caveat), caveat.to_string()));
        let derived = self.kv_capacity_is_derived.then(|| {
            let share = self.kv_share();
            format!("KV capacity is derived, not read from a server's log; {share} of it")
        });
        let limits = [
            (Kind::Extrapolation, self.extrapolation_text()),
            (Kind::Saturation, self.saturation_text()),
            (Kind::KvMemory, self.kv_text()),
            (Kind::KvCapacity, derived),
        ];
        let limits = limits.into_iter().filter_map(|(kind, text)| Some((kind, text?)));
        let all = losses.chain(too_long).chain(cut).chain(caveats).chain(limits);
        all.map(|(kind, text)| Warning { kind, text }).collect()
    }

    /// How many steps were extrapolated, if some were.
    pub fn extrapolation_text(&self) -> Option<String> {
        (self.steps_extrapolated > 0).then(|| {
            format!(
                "{} of {} steps were outside the measured shapes; their times are extrapolated",
                self.steps_extrapolated, self.steps
            )
        })
    }

    /// How near the load is to what can be served, if it is near.
    pub fn saturation_text(&self) -> Option<String> {
        self.is_saturated().then(|| {
            format!(
                "the load{} is {:.0} % of capacity: small errors of the step times, and the length of \
                 the run, change latencies a lot",
                self.load_model.as_ref().map_or_else(String::new, |model| format!(" of {model}")),
                100.0 * self.load.unwrap_or_default()
            )
        })
    }

    /// How near the requests come to the KV memory, if they come near.
    pub fn kv_text(&self) -> Option<String> {
        self.is_kv_critical().then(|| {
            format!("{} of the KV memory: its exact size changes latencies a lot", self.kv_share())
        })
    }

    /// Who needs which share of the KV memory, in words.
    fn kv_share(&self) -> String {
        let at_least =
            if self.kv_need.is_some_and(|need| need >= NEED_MAX) { "at least " } else { "" };
        let who = if self.kv_need_is_of_prefixes {
            "to find nine tenths of the prefixes that come again, the prefix cache needs"
        } else {
            "requests need"
        };
        format!("{who} {at_least}{:.0} %", 100.0 * self.kv_need.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none() -> Warnings {
        Warnings { steps: 10, ..Warnings::default() }
    }

    #[test]
    fn a_run_far_from_every_limit_is_not_warned_of() {
        assert!(none().texts().is_empty());
        let far = Warnings { load: Some(0.94), kv_need: Some(0.94), ..none() };
        assert!(far.texts().is_empty(), "{:?}", far.texts());
        let beyond = Warnings { kv_need: Some(1.06), ..none() };
        assert!(beyond.texts().is_empty(), "memory that is far too small is no close call");
    }

    #[test]
    fn each_limit_has_its_own_warning() {
        let words = |warnings: Warnings| {
            let texts = warnings.texts();
            assert_eq!(texts.len(), 1, "{texts:?}");
            texts[0].clone()
        };
        let beyond = words(Warnings { steps_extrapolated: 3, ..none() });
        assert!(beyond.starts_with("3 of 10 steps"), "{beyond}");
        let busy = words(Warnings { load: Some(0.96), ..none() });
        assert!(busy.starts_with("the load is 96 %"), "{busy}");
        for need in [0.96, 1.04] {
            let close = words(Warnings { kv_need: Some(need), ..none() });
            assert!(close.starts_with("requests need"), "{close}");
        }
        let derived =
            words(Warnings { kv_need: Some(0.4), kv_capacity_is_derived: true, ..none() });
        assert!(derived.ends_with("; requests need 40 % of it"), "{derived}");
        let again = words(Warnings {
            kv_need: Some(1.45),
            kv_need_is_of_prefixes: true,
            kv_capacity_is_derived: true,
            ..none()
        });
        let prefixes = "; to find nine tenths of the prefixes that come again, the prefix cache needs 145 % of it";
        assert!(again.ends_with(prefixes), "{again}");
    }
}
