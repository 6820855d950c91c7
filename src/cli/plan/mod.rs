//! `servecast plan`: how many replicas of which layout keep promised latencies, and at what price.

mod answer;
mod args;
mod figures;
mod hunt;
mod json;
mod layouts;
mod limits;
mod prices;

pub(super) use self::args::PlanArguments;

use std::collections::BTreeSet;

use self::answer::{Answer, Outcome, Row};
use self::args::WarmUpKind;
use self::hunt::{Found, Hunt};
use self::layouts::{Layout, Size};
use self::limits::{Stretch, Windows};
use self::prices::Prices;
use super::args::Format;
use super::cases::Cases;
use super::scenario_file::{self, Draft, Drafts};
use super::{Failure, print, say};
use crate::metrics::bench::{Latency, Slos, Statistic};
use crate::plan::{End, GoesOn, Promise, Slo, Traffic, Trial, WarmUp};
use crate::rng::Seed;
use crate::scenario::{ArrivalConfig, ScenarioFile};
use crate::study::Case;
use crate::threads;

/// Layouts that are searched before the cheapest so far are looked at: few enough that those which cannot be
/// cheaper are left out, enough for some threads.
const WAVE: usize = 4;

/// How often blocks are drawn that may hold no requests.
const DRAWS_MAX: u32 = 100;

/// Blocks of a trace that are drawn anew.
const BLOCKS: u32 = 24;

pub(super) fn plan(arguments: &PlanArguments) -> Result<(), Failure> {
    let study = Study::new(arguments)?;
    let answer = if arguments.rate { study.rates()? } else { study.sizes()? };
    let text = match arguments.format {
        Format::Table => answer.text(),
        Format::Json => format!("{:#}\n", answer.json()),
    };
    if let Some(dir) = &arguments.output_dir {
        figures::write(&answer, study.seed, dir, arguments.overwrite)?;
    }
    print(&text)?;
    if answer.winner().is_none() {
        return Err(Failure::Run(anyhow::anyhow!("no layout keeps all promises")));
    }
    Ok(())
}

/// What is planned.
struct Study<'a> {
    arguments: &'a PlanArguments,
    drafts: Drafts,
    layouts: Vec<Layout>,
    prices: Prices,
    slos: Vec<Slo>,
    traffic: Traffic,
    is_trace: bool,
    warm_up: WarmUp,
    seed: Seed,
    cases: Cases,
    /// A layout that resolves, from which other requests can be drawn.
    first: usize,
    name: String,
    model: String,
}

impl<'a> Study<'a> {
    fn new(arguments: &'a PlanArguments) -> Result<Self, Failure> {
        check_numbers(arguments)?;
        let drafts = scenario_file::drafts(
            arguments.scenario.as_deref(),
            arguments.calibration.as_deref(),
            &arguments.overrides,
            arguments.seed,
        )?;
        check_base(&drafts)?;
        let base = &drafts.each[0];
        let layouts = Layout::all(arguments, base)?;
        let gpus = layouts.iter().flat_map(Layout::gpus).collect();
        let prices = Prices::new(&arguments.prices, base, &gpus)?;
        let cases = Cases::default();
        let (first, case) = first_case(&layouts, base, &cases)?;
        let file = &case.scenario.file;
        check_workload(file)?;
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

    fn base(&self) -> &Draft {
        &self.drafts.each[0]
    }

    fn hunt<'b>(
        &'b self,
        layout: &'b Layout,
        base: &'b Draft,
        traffic: &Traffic,
    ) -> Result<Result<Hunt<'b>, String>, Failure> {
        let goes_on = if self.is_trace { GoesOn::AsRecorded } else { GoesOn::ForEver };
        Hunt::new(layout, base, (&self.slos, self.warm_up, goes_on), &self.prices, traffic)
    }

    /// The fewest replicas of each layout that may be the cheapest or the second cheapest.
    fn sizes(&self) -> Result<Answer, Failure> {
        let hunts = self.layouts.iter().map(|layout| self.hunt(layout, self.base(), &self.traffic));
        let hunts = hunts.collect::<Result<Vec<_>, _>>()?;
        let rate_per_s = self.traffic.rate_per_s();
        let mut rows: Vec<Row> = Vec::new();
        let mut ready: Vec<(usize, &Hunt<'_>, Size, f64)> = Vec::new();
        for (place, hunt) in hunts.iter().enumerate() {
            match hunt {
                Ok(hunt) => {
                    let least = hunt.least(rate_per_s);
                    ready.push((place, hunt, least, hunt.cost(least)));
                }
                Err(reason) => rows.push(Row::new(place, Outcome::Impossible(reason.clone()))),
            }
        }
        ready.sort_by(|a, b| a.3.total_cmp(&b.3).then(a.0.cmp(&b.0)));
        // What was found, cheapest first.
        let mut paid: Vec<f64> = Vec::new();
        for wave in ready.chunks(WAVE) {
            let second = paid.get(1).copied().unwrap_or(f64::INFINITY);
            let mut jobs: Vec<_> = wave.iter().map(|one| (one, None)).collect();
            threads::for_each(&mut jobs, |(one, found)| {
                let (_, hunt, least, bound) = **one;
                *found = Some(self.cheaper(hunt, least, bound, second));
            });
            for ((place, hunt, ..), found) in jobs {
                let outcome = match found.transpose()?.flatten() {
                    Some(Err(broken)) => Outcome::TooDear { broken, cost: hunt.cost(broken) },
                    None => Outcome::TooMany,
                    Some(Ok(found)) => {
                        paid.push(found.cost);
                        paid.sort_by(f64::total_cmp);
                        let misses = nearest_miss(&found, &hunt.tried());
                        let misses = misses.map(|miss| self.whole(hunt, miss)).transpose()?;
                        Outcome::Keeps { found, misses }
                    }
                };
                rows.push(Row::new(*place, outcome));
            }
        }
        let mut answer = Answer::new(self, rows);
        answer.tried = hunts
            .iter()
            .enumerate()
            .filter_map(|(place, hunt)| Some((place, hunt.as_ref().ok()?)))
            .flat_map(|(place, hunt)| {
                hunt.tried().into_iter().map(move |(size, trial)| {
                    answer::Tried::new(place, size, trial, (hunt.gpus(size), hunt.cost(size)))
                })
            })
            .collect();
        if let Some((place, found)) = answer.winner().map(|(row, found)| (row.place, found.clone()))
            && let Ok(hunt) = &hunts[place]
        {
            answer.stretches = self.stretches(place, found.size)?;
            let start = hunt.throughput_factor(found.size, &self.traffic).clamp(1.01, 2.0);
            let highest = hunt.highest_factor(found.size, &self.traffic, start)?;
            // At the traffic itself it keeps them.
            let factor = highest.map_or(1.0, |(kept, _)| kept.max(1.0));
            answer.carries = Some(factor);
            answer.windows =
                Some(Windows::new(&self.traffic, self.arguments.window, &found, factor));
        }
        Ok(answer)
    }

    /// The least size of a layout; the largest that is no dearer than the second cheapest answer where that
    /// breaks a promise.
    fn cheaper(
        &self,
        hunt: &Hunt<'_>,
        least: Size,
        bound: f64,
        second: f64,
    ) -> Result<Option<Result<Found, Size>>, Failure> {
        if bound > second
            && let Some(largest) = hunt.largest_for(second, least).filter(|it| hunt.has_room(*it))
            && !hunt.remembered(largest, &self.traffic)?.is_kept
        {
            return Ok(Some(Err(largest)));
        }
        let found = hunt.fewest(least, &self.traffic, self.arguments.max_gpus)?;
        Ok(found.map(Ok))
    }

    /// A trial that was broken off, to its end.
    fn whole(&self, hunt: &Hunt<'_>, miss: (Size, Trial)) -> Result<(Size, Trial), Failure> {
        self.whole_at(hunt, miss, 1.0)
    }

    fn whole_at(
        &self,
        hunt: &Hunt<'_>,
        (size, trial): (Size, Trial),
        factor: f64,
    ) -> Result<(Size, Trial), Failure> {
        if trial.values.is_some() || trial.is_overloaded {
            return Ok((size, trial));
        }
        Ok((size, hunt.simulate(size, &self.traffic, factor, End::AllLeft)?))
    }

    /// The highest rate of each layout with the replicas of the scenario.
    fn rates(&self) -> Result<Answer, Failure> {
        let mut rows = Vec::new();
        for (place, layout) in self.layouts.iter().enumerate() {
            let hunt = match self.hunt(layout, self.base(), &self.traffic)? {
                Ok(hunt) => hunt,
                Err(reason) => {
                    rows.push(Row::new(place, Outcome::Impossible(reason)));
                    continue;
                }
            };
            let size = layout.told(self.base());
            let start = hunt.throughput_factor(size, &self.traffic) * 0.8;
            let highest = hunt.highest_factor(size, &self.traffic, start)?;
            rows.push(Row::new(
                place,
                match highest {
                    None => Outcome::TooMany,
                    Some((factor, broken)) => {
                        let trial = hunt.attempt(size, &self.traffic, factor)?;
                        let misses = (size, hunt.attempt(size, &self.traffic, broken)?);
                        let misses = self.whole_at(&hunt, misses, broken)?;
                        let (cost, gpus) = (hunt.cost(size), hunt.gpus(size));
                        let found = Found { size, trial, cost, gpus, least: hunt.least_with_room };
                        Outcome::Carries { found, misses: Some(misses), factor }
                    }
                },
            ));
        }
        let mut answer = Answer::new(self, rows);
        if let Some((row, found)) = answer.winner().map(|(row, found)| (row.clone(), found.clone()))
            && let Outcome::Carries { factor, .. } = row.outcome
        {
            answer.rates = self.rates_of(row.place, found.size, factor)?;
        }
        Ok(answer)
    }

    /// Other requests that could have come, and parameters as uncertain as they are.
    fn again(&self, replica: u32) -> Result<(Draft, Traffic), Failure> {
        let draft = self.drafts.replica(0, replica)?;
        let traffic = if self.is_trace {
            let mut stream = self.seed.stream("stretch", u64::from(replica));
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

    fn replicas<T: Send>(
        &self,
        one: impl Fn(Draft, Traffic) -> Result<T, Failure> + Send + Sync,
    ) -> Result<Vec<T>, Failure> {
        let mut jobs: Vec<_> =
            (1..=self.arguments.resamples).map(|replica| (replica, None)).collect();
        threads::for_each(&mut jobs, |(replica, done)| {
            *done = Some(self.again(*replica).and_then(|(draft, traffic)| one(draft, traffic)));
        });
        jobs.into_iter().map(|(_, done)| done.expect("each job is done")).collect()
    }

    /// The fewest replicas of a layout for other requests.
    fn stretches(&self, place: usize, size: Size) -> Result<Vec<Stretch>, Failure> {
        self.replicas(|draft, traffic| {
            let Ok(hunt) = self.hunt(&self.layouts[place], &draft, &traffic)? else {
                return Ok(Stretch { size: None, cost: f64::INFINITY, is_enough: false });
            };
            let is_enough = hunt.attempt(size, &traffic, 1.0)?.is_kept;
            let fewest = hunt.fewest_of(size, &traffic, self.arguments.max_gpus)?;
            let cost = fewest.map_or(f64::INFINITY, |size| hunt.cost(size));
            Ok(Stretch { size: fewest, cost, is_enough })
        })
    }

    /// The highest rates of a layout for other requests, in requests per second.
    fn rates_of(&self, place: usize, size: Size, factor: f64) -> Result<Vec<f64>, Failure> {
        self.replicas(|draft, traffic| {
            let Ok(hunt) = self.hunt(&self.layouts[place], &draft, &traffic)? else {
                return Ok(0.0);
            };
            let highest = hunt.highest_factor(size, &traffic, factor)?;
            Ok(highest.map_or(0.0, |(kept, _)| kept * traffic.rate_per_s()))
        })
    }
}

/// Of the trials that break a promise, that whose size comes next to the one that was found.
fn nearest_miss(found: &Found, tried: &[(Size, Trial)]) -> Option<(Size, Trial)> {
    let count = |size: Size| size.replicas().into_iter().map(u64::from).sum::<u64>();
    let broken = tried.iter().filter(|(_, trial)| !trial.is_kept);
    let smaller = broken.filter(|(size, _)| count(*size) <= count(found.size));
    smaller.max_by_key(|(size, _)| count(*size)).cloned()
}

fn first_case(layouts: &[Layout], base: &Draft, cases: &Cases) -> Result<(usize, Case), Failure> {
    let mut problem = None;
    for (place, layout) in layouts.iter().enumerate() {
        match layout.alone(base).and_then(|draft| cases.of_draft(&draft)) {
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

fn check_numbers(arguments: &PlanArguments) -> Result<(), Failure> {
    let positive = [("--window", arguments.window), ("--nic-gb-per-s", arguments.nic_gb_per_s)];
    for (flag, value) in positive {
        if !(value > 0.0 && value <= 1e9) {
            return Err(Failure::input(format!("{flag} {value}: must be above 0 and at most 10⁹")));
        }
    }
    Ok(())
}

/// What a plan decides itself must not be in the scenario.
fn check_base(drafts: &Drafts) -> Result<(), Failure> {
    let base = &drafts.each[0];
    let refused = |what: &str, why: &str| {
        Err(Failure::input(format!("{}: {what}: a plan {why}", base.name())))
    };
    if drafts.each.len() > 1 {
        return refused(
            "variants",
            "is of one scenario; take them out, or give what varies with --vary",
        );
    }
    for (keys, why) in [
        (["cluster", "groups"], "chooses groups of replicas itself; take them out"),
        (["cluster", "autoscaler"], "is of a fixed number of replicas; take it out"),
        (
            ["faults", ""],
            "is of replicas that do not fail; take them out, and run its answer with them",
        ),
    ] {
        let keys: Vec<&str> = keys.into_iter().filter(|key| !key.is_empty()).collect();
        if base.get(&keys).is_some() {
            return refused(&keys.join("."), why);
        }
    }
    let placement = base.get(&["cluster", "lora", "placement", "type"]);
    if placement.and_then(toml::Value::as_str) == Some("static") {
        return refused(
            "cluster.lora.placement",
            "has any number of replicas, static is for one: give greedy or load_balanced",
        );
    }
    Ok(())
}

fn check_workload(file: &ScenarioFile) -> Result<(), Failure> {
    if file.workload.client.max_concurrency.is_some() {
        return Err(Failure::input(
            "workload.client.max_concurrency: a plan needs requests that come by themselves; take it out",
        ));
    }
    if file.workload.client.stop_after_s.is_some() {
        return Err(Failure::input(
            "workload.client.stop_after_s: a plan waits for all answers; take it out",
        ));
    }
    Ok(())
}

/// What nobody is promised is not kept by everybody.
fn check_slos(slos: &[Slo], traffic: &Traffic) -> Result<(), Failure> {
    for slo in slos {
        let concerned = || {
            let class = slo.class.as_ref().map(|(class, _)| *class);
            traffic
                .requests()
                .iter()
                .filter(move |request| class.is_none_or(|one| one == request.class))
        };
        let needs_gaps = matches!(slo.promise, Promise::Latency(Latency::Tpot | Latency::Itl, _));
        let count = concerned().filter(|request| !needs_gaps || request.output_tokens > 1).count();
        if count == 0 {
            let what =
                if needs_gaps { "with answers of two tokens or more" } else { "of this class" };
            return Err(Failure::input(format!("--slo: {slo}: there are no requests {what}")));
        }
        if let Promise::Latency(_, Statistic::Percentile(p)) = slo.promise
            && (count as f64) * (1.0 - p / 100.0) < 1.0
        {
            say(&format!("notice: {slo}: of {count} requests that is next to the slowest one"));
        }
    }
    Ok(())
}

fn check_window(window_s: f64, traffic: &Traffic) -> Result<(), Failure> {
    const WINDOWS_MAX: f64 = 1e5;
    let span_s = traffic.span().as_secs_f64();
    if span_s / window_s > WINDOWS_MAX {
        return Err(Failure::input(format!(
            "--window {window_s}: must be at least {:.3} for requests that come over {span_s:.0} s",
            span_s / WINDOWS_MAX
        )));
    }
    Ok(())
}

/// Step times that are of one GPU say nothing of others.
fn check_step_times(layouts: &[Layout], drafts: &Drafts) -> Result<(), Failure> {
    let base = &drafts.each[0];
    let machines: BTreeSet<String> = layouts.iter().map(Layout::machines).collect();
    if machines.len() < 2 {
        return Ok(());
    }
    let step_time = base.get(&["cluster", "step_time"]);
    let of_step_time = |key: &str| step_time.and_then(|table| table.get(key));
    if of_step_time("type").and_then(toml::Value::as_str) == Some("linear") {
        return Err(Failure::input(format!(
            "{}: cluster.step_time: a `linear` law is that of one machine; plan with one GPU and \
             tensor-parallel size, or take it out",
            base.name()
        )));
    }
    if drafts.calibration.is_some() || of_step_time("calibration").is_some() {
        say("warning: the calibration was found on one machine; it is taken for all layouts");
    }
    Ok(())
}

fn slos(arguments: &PlanArguments, file: &ScenarioFile) -> Result<Vec<Slo>, Failure> {
    let classes: Vec<String> =
        file.workload.classes.iter().map(|class| class.name.clone()).collect();
    let limits = file.report.goodput.iter().map(|(metric, limit)| format!("{metric}:{limit}"));
    let limits: Vec<String> = limits.collect();
    let promised = (!limits.is_empty()).then(|| Slos::parse(&limits)).transpose();
    let promised = promised.map_err(|error| Failure::input(format!("report.goodput: {error}")))?;
    let parse = |text: &String| {
        Slo::parse(text, &classes, promised.as_ref())
            .map_err(|problem| Failure::input(format!("--slo {text}: {problem}")))
    };
    let slos: Vec<Slo> = arguments.slos.iter().map(parse).collect::<Result<_, _>>()?;
    say(&format!(
        "promises: {}",
        slos.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    ));
    Ok(slos)
}
