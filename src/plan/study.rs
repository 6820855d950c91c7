//! What a plan is made for: layouts, SLOs and traffic.

use super::answer::Found;
use super::assumptions::{Copies, Known, assumed};
use super::checks::{
    check_base, check_numbers, check_scenario, check_slos, check_step_times, check_window,
    check_workload,
};
use super::error::{asked, stated};
use super::hunt::{Hunt, Terms};
use super::layouts::{Gpu, Layout, Size};
use super::limits::Faster;
use super::outcome::{Obstacle, winner};
use super::prices::Prices;
use super::question::{Plan, Seeks};
use super::told::Told;
use super::{Answer, End, PlanError, Slo, Traffic, Trial, WarmUp};
use crate::load::{Cases, Draft, Note};
use crate::metrics::bench::Slos;
use crate::resolved::{Caveat, Scenario, Unstated};
use crate::rng::Seed;
use crate::scenario::{ArrivalConfig, RouterConfig, ScenarioFile};
use crate::study::Case;
use crate::threads;
use crate::workload::{STRETCH_BLOCKS, STRETCH_DRAWS_MAX};

/// A question whose scenario was read: its layouts can be tried.
#[derive(Debug)]
pub struct Study {
    pub(super) question: Plan,
    pub(super) layouts: Vec<Layout>,
    pub(super) prices: Prices,
    /// The SLOs.
    pub slos: Vec<Slo>,
    /// The requests.
    pub traffic: Traffic,
    pub(super) is_trace: bool,
    copies: Option<Copies>,
    warm_up: WarmUp,
    /// The seed of the scenario.
    pub seed: Seed,
    cases: Cases,
    told: Told,
    /// A layout that resolves, from which other requests can be drawn.
    first: usize,
    /// The title of the scenario.
    pub name: String,
    /// The router of the scenario.
    pub router: RouterConfig,
    /// The model that is served.
    pub model: String,
}

impl Study {
    pub(super) fn new(mut question: Plan) -> Result<Self, PlanError> {
        check_numbers(&question)?;
        let point = question.point;
        let server = if point { Unstated::TYPICAL } else { Unstated::SLOW };
        let draft = question.draft.of_server(server);
        question.draft = if point { draft.pinned() } else { draft };
        let base = &question.draft;
        check_base(base)?;
        let layouts = Layout::all(&question)?;
        let mut gpus: Vec<&Gpu> = Vec::new();
        for gpu in layouts.iter().map(Layout::gpu) {
            if gpus.iter().all(|known| known.name != gpu.name) {
                gpus.push(gpu);
            }
        }
        let prices = Prices::new(&question, &gpus)?;
        let cases = Cases::told(&question.listener);
        let (first, case) = first_case(&layouts, base, &cases)?;
        check_scenario(base, &case.scenario)?;
        check_workload(base, &case.scenario.workload, question.seeks)?;
        let traffic = Traffic::draw(case.workload()?)?;
        let arrivals = &case.scenario.workload.arrivals;
        let (is_trace, copies) =
            (matches!(arrivals, ArrivalConfig::Trace(_)), Copies::of(arrivals));
        let found = if is_trace { WarmUp::Counts } else { WarmUp::Mser5 };
        let warm_up = question.warm_up.unwrap_or(found);
        let slos = slos(&question, &case.scenario)?;
        check_slos(&slos, &traffic, &question.listener)?;
        check_window(question.window_s, &traffic)?;
        check_step_times(&layouts, &question)?;
        let told = Told::to(&question.listener);
        let ScenarioFile { name, seed, cluster, .. } = case.scenario.written();
        let router = cluster.router;
        Ok(Self {
            question,
            layouts,
            prices,
            slos,
            traffic,
            is_trace,
            copies,
            warm_up,
            seed,
            cases,
            told,
            first,
            name,
            router,
            model: cluster.model,
        })
    }

    /// Tries the layouts.
    ///
    /// # Errors
    /// When a run fails.
    pub fn answer(self) -> Result<Answer, PlanError> {
        let Found { rows, tried, limits, known } = match self.question.seeks {
            Seeks::FewestReplicas => self.sizes()?,
            Seeks::HighestRate => self.rates()?,
        };
        if let Some((_, found)) = winner(&rows) {
            let caveats = found.trial.warnings.caveats.iter();
            let beyond = caveats.filter(|one| matches!(one, Caveat::BeyondCalibration { .. }));
            beyond.for_each(|one| self.question.listener.tell(&Note::Warning(one.to_string())));
        }
        let assumptions = assumed((&self.layouts, &self.router), self.copies, &known, &rows);
        Ok(Answer { study: self, rows, tried, limits, assumptions })
    }

    pub(super) fn base(&self) -> &Draft {
        &self.question.draft
    }

    /// Whether a layout is planned for servers that are slower than most of their class.
    pub(super) fn is_for_slow(&self, hunt: &Hunt<'_>) -> bool {
        !self.question.point && hunt.is_assumed()
    }

    /// What comes of servers that are like most of their class, and of fast ones; nothing where this layout is not
    /// planned for slow ones.
    pub(super) fn faster<T>(
        &self,
        hunt: &Hunt<'_>,
        mut one: impl FnMut(Draft) -> Result<T, PlanError>,
    ) -> Result<Option<Faster<T>>, PlanError> {
        if !self.is_for_slow(hunt) {
            return Ok(None);
        }
        let mut of = |server| one(self.base().clone().of_server(server));
        Ok(Some(Faster { typical: of(Unstated::TYPICAL)?, fast: of(Unstated::FAST)? }))
    }

    /// How a size of a layout fares on typical servers, at so many times the rate; nothing where this layout is not
    /// planned for slow ones.
    pub(super) fn on_typical(
        &self,
        place: usize,
        hunt: &Hunt<'_>,
        (size, factor): (Size, f64),
    ) -> Result<Option<Trial>, PlanError> {
        if !self.is_for_slow(hunt) {
            return Ok(None);
        }
        let draft = self.base().clone().of_server(Unstated::TYPICAL);
        let typical = self.hunt(&self.layouts[place], &draft, &self.traffic)?;
        let Ok(typical) = typical else { return Ok(None) };
        typical.simulate(size, &self.traffic, factor, End::AllLeft).map(Some)
    }

    /// Whether adapters are placed on replicas.
    pub(super) fn places_adapters(&self) -> bool {
        self.base().get(&["cluster", "lora", "placement"]).is_some()
    }

    /// Whether the popularity of adapters moves with time, which rates that are scaled would change.
    pub(super) fn drifts(&self) -> bool {
        self.base().get(&["workload", "adapters", "drift"]).is_some()
    }

    /// What the layouts rest on that can serve the traffic.
    pub(super) fn known<E>(&self, hunts: &[Result<Hunt<'_>, E>]) -> Vec<Known> {
        let hunts = self.layouts.iter().enumerate().zip(hunts);
        let hunts = hunts.filter_map(|(layout, hunt)| Some((layout, hunt.as_ref().ok()?)));
        let of = |(layout, hunt): ((usize, &Layout), &Hunt<'_>)| {
            Known::of(layout, hunt.basis(), self.is_for_slow(hunt))
        };
        hunts.flat_map(of).collect()
    }

    /// A layout on its own, for these requests; the reason where it cannot serve them in any number.
    pub(super) fn hunt<'b>(
        &'b self,
        layout: &'b Layout,
        base: &'b Draft,
        traffic: &Traffic,
    ) -> Result<Result<Hunt<'b>, Obstacle>, PlanError> {
        let (slos, warm_up, prices) = (&self.slos[..], self.warm_up, &self.prices);
        let (is_trace, told) = (self.is_trace, &self.told);
        let terms = Terms { slos, warm_up, is_trace, prices, told };
        Hunt::new(layout, base, terms, traffic)
    }

    /// A trial that was broken off, to its end.
    pub(super) fn whole(
        &self,
        hunt: &Hunt<'_>,
        (size, trial): (Size, Trial),
        factor: f64,
    ) -> Result<(Size, Trial), PlanError> {
        if trial.values.is_some() {
            return Ok((size, trial));
        }
        Ok((size, hunt.simulate(size, &self.traffic, factor, End::AllLeft)?))
    }

    /// Other requests that could have come, and parameters as uncertain as they are.
    fn again(&self, number: u32) -> Result<(Draft, Traffic), PlanError> {
        let draft = self.base().drawn(number)?;
        let traffic = if self.is_trace {
            let mut stream = self.seed.stream("stretch", u64::from(number));
            let drawn = (0..STRETCH_DRAWS_MAX)
                .find_map(|_| self.traffic.resampled(STRETCH_BLOCKS, &mut stream));
            drawn.ok_or_else(|| {
                asked("--resamples", "the trace has too few requests to resample; give 0")
            })?
        } else {
            let layout = &self.layouts[self.first];
            let case = self.cases.of_draft(&layout.alone(&draft)?)?;
            Traffic::draw(case.workload()?)?
        };
        Ok((draft, traffic))
    }

    /// What comes of each of them.
    pub(super) fn replicas<T: Send>(
        &self,
        one: impl Fn(Draft, Traffic) -> Result<T, PlanError> + Send + Sync,
    ) -> Result<Vec<T>, PlanError> {
        let replicas: Vec<u32> = (1..=self.question.resamples).collect();
        let done = threads::map(&replicas, |replica| {
            self.again(*replica).and_then(|(draft, traffic)| one(draft, traffic))
        });
        done.into_iter().collect()
    }
}

fn first_case(layouts: &[Layout], base: &Draft, cases: &Cases) -> Result<(usize, Case), PlanError> {
    let mut problem = None;
    for (place, layout) in layouts.iter().enumerate() {
        match layout.alone(base).and_then(|draft| Ok(cases.of_draft(&draft)?)) {
            Ok(case) => return Ok((place, case)),
            Err(error) => problem = problem.or(Some((layout.name(), error))),
        }
    }
    let (name, error) = problem.expect("there is a layout");
    match layouts.len() {
        1 => Err(error),
        count => {
            let (first, problem) = (name, Box::new(error));
            Err(PlanError::NoLayout { count, first, problem })
        }
    }
}

fn slos(question: &Plan, scenario: &Scenario) -> Result<Vec<Slo>, PlanError> {
    let classes: Vec<String> =
        scenario.workload.classes.iter().map(|class| class.name.clone()).collect();
    let limits = scenario.report.goodput.iter().map(|(metric, limit)| format!("{metric}:{limit}"));
    let limits: Vec<String> = limits.collect();
    let each = (!limits.is_empty()).then(|| Slos::parse(&limits)).transpose();
    let each = each.map_err(|error| stated(&question.draft, "report.goodput", error))?;
    let parse = |text: &String| {
        Slo::parse(text, &classes, each.as_ref())
            .map_err(|problem| asked("--slo", format_args!("{text}: {problem}")))
    };
    question.slos.iter().map(parse).collect()
}
