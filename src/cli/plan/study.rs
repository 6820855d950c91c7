//! What a plan is made for: layouts, SLOs and traffic.

use super::args::{PlanArguments, WarmUpKind};
use super::checks::{
    check_base, check_numbers, check_scenario, check_slos, check_step_times, check_window,
    check_workload,
};
use super::hunt::{Hunt, Terms};
use super::layouts::{Layout, Size};
use super::prices::Prices;
use crate::cli::{Failure, say};
use crate::load::Cases;
use crate::load::{Draft, Drafts};
use crate::metrics::bench::Slos;
use crate::plan::{End, Slo, Traffic, Trial, WarmUp};
use crate::rng::Seed;
use crate::scenario::{ArrivalConfig, ScenarioFile};
use crate::study::Case;
use crate::threads;

/// How often blocks are drawn that may hold no requests.
const DRAWS_MAX: u32 = 100;

/// Blocks of a trace that are drawn anew.
const BLOCKS: u32 = 24;

/// What is planned.
#[derive(Debug)]
pub(super) struct Study<'a> {
    pub(super) arguments: &'a PlanArguments,
    drafts: Drafts,
    pub(super) layouts: Vec<Layout>,
    pub(super) prices: Prices,
    pub(super) slos: Vec<Slo>,
    pub(super) traffic: Traffic,
    pub(super) is_trace: bool,
    warm_up: WarmUp,
    pub(super) seed: Seed,
    cases: Cases,
    /// A layout that resolves, from which other requests can be drawn.
    first: usize,
    pub(super) name: String,
    pub(super) model: String,
}

impl<'a> Study<'a> {
    pub(super) fn new(arguments: &'a PlanArguments) -> Result<Self, Failure> {
        check_numbers(arguments)?;
        let drafts = arguments.changes.changes()?.load(arguments.scenario.as_deref())?;
        check_base(&drafts)?;
        let base = &drafts.each[0];
        let layouts = Layout::all(arguments, base)?;
        let gpus = layouts.iter().flat_map(Layout::gpus);
        let gpus = gpus.map(|gpu| (gpu.name.as_str(), gpu)).collect();
        let prices = Prices::new(&arguments.prices, base, &gpus)?;
        let cases = Cases::told(&crate::cli::listener());
        let (first, case) = first_case(&layouts, base, &cases)?;
        check_scenario(&case.scenario)?;
        let file = &case.scenario.file;
        check_workload(file, arguments.rate)?;
        let traffic = Traffic::draw(case.workload()?).map_err(|e| Failure::Input(e.into()))?;
        let is_trace = matches!(file.workload.arrivals, ArrivalConfig::Trace(_));
        let warm_up = match (arguments.warm_up, is_trace) {
            (WarmUpKind::Counts, _) | (WarmUpKind::Auto, true) => WarmUp::Counts,
            _ => WarmUp::Mser5,
        };
        let slos = slos(arguments, file)?;
        check_slos(&slos, &traffic)?;
        check_window(arguments.window, &traffic)?;
        check_step_times(&layouts, &drafts)?;
        let (name, model, seed) = (file.name.clone(), file.cluster.model.clone(), file.seed);
        Ok(Self {
            arguments,
            drafts,
            layouts,
            prices,
            slos,
            traffic,
            is_trace,
            warm_up,
            seed,
            cases,
            first,
            name,
            model,
        })
    }

    pub(super) fn base(&self) -> &Draft {
        &self.drafts.each[0]
    }

    /// Whether adapters are placed on replicas.
    pub(super) fn places_adapters(&self) -> bool {
        self.base().get(&["cluster", "lora", "placement"]).is_some()
    }

    /// Whether the popularity of adapters moves with time, which rates that are scaled would change.
    pub(super) fn drifts(&self) -> bool {
        self.base().get(&["workload", "adapters", "drift"]).is_some()
    }

    /// A layout on its own, for these requests; the reason where it cannot serve them in any number.
    pub(super) fn hunt<'b>(
        &'b self,
        layout: &'b Layout,
        base: &'b Draft,
        traffic: &Traffic,
    ) -> Result<Result<Hunt<'b>, String>, Failure> {
        let (slos, warm_up, prices) = (&self.slos[..], self.warm_up, &self.prices);
        let terms = Terms { slos, warm_up, is_trace: self.is_trace, prices };
        Hunt::new(layout, base, terms, traffic)
    }

    /// A trial that was broken off, to its end.
    pub(super) fn whole(
        &self,
        hunt: &Hunt<'_>,
        (size, trial): (Size, Trial),
        factor: f64,
    ) -> Result<(Size, Trial), Failure> {
        if trial.values.is_some() {
            return Ok((size, trial));
        }
        Ok((size, hunt.simulate(size, &self.traffic, factor, End::AllLeft)?))
    }

    /// Other requests that could have come, and parameters as uncertain as they are.
    fn again(&self, number: u32) -> Result<(Draft, Traffic), Failure> {
        let draft = self.drafts.drawn(0, number)?;
        let traffic = if self.is_trace {
            let mut stream = self.seed.stream("stretch", u64::from(number));
            let drawn = (0..DRAWS_MAX).find_map(|_| self.traffic.resampled(BLOCKS, &mut stream));
            drawn.ok_or_else(|| {
                Failure::input("the trace has too few requests to resample; give --resamples 0")
            })?
        } else {
            let layout = &self.layouts[self.first];
            let case = self.cases.of_draft(&layout.alone(&draft)?)?;
            Traffic::draw(case.workload()?).map_err(|error| Failure::Input(error.into()))?
        };
        Ok((draft, traffic))
    }

    /// What comes of each of them.
    pub(super) fn replicas<T: Send>(
        &self,
        one: impl Fn(Draft, Traffic) -> Result<T, Failure> + Send + Sync,
    ) -> Result<Vec<T>, Failure> {
        let replicas: Vec<u32> = (1..=self.arguments.resamples).collect();
        let done = threads::map(&replicas, |replica| {
            self.again(*replica).and_then(|(draft, traffic)| one(draft, traffic))
        });
        done.into_iter().collect()
    }
}

fn first_case(layouts: &[Layout], base: &Draft, cases: &Cases) -> Result<(usize, Case), Failure> {
    let mut problem = None;
    for (place, layout) in layouts.iter().enumerate() {
        match layout.alone(base).and_then(|draft| Ok(cases.of_draft(&draft)?)) {
            Ok(case) => return Ok((place, case)),
            Err(failure) => problem = problem.or(Some((layout.name(), failure))),
        }
    }
    let (name, failure) = problem.expect("there is a layout");
    match layouts.len() {
        1 => Err(failure),
        count => Err(Failure::input(format!("none of {count} layouts can be: {name}: {failure}"))),
    }
}

fn slos(arguments: &PlanArguments, file: &ScenarioFile) -> Result<Vec<Slo>, Failure> {
    let classes: Vec<String> =
        file.workload.classes.iter().map(|class| class.name.clone()).collect();
    let limits = file.report.goodput.iter().map(|(metric, limit)| format!("{metric}:{limit}"));
    let limits: Vec<String> = limits.collect();
    let each = (!limits.is_empty()).then(|| Slos::parse(&limits)).transpose();
    let each = each.map_err(|error| Failure::input(format!("report.goodput: {error}")))?;
    let parse = |text: &String| {
        Slo::parse(text, &classes, each.as_ref())
            .map_err(|problem| Failure::input(format!("--slo {text}: {problem}")))
    };
    let slos: Vec<Slo> = arguments.slos.iter().map(parse).collect::<Result<_, _>>()?;
    say(&format!("SLOs: {}", slos.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")));
    Ok(slos)
}
