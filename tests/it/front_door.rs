//! What the library offers to those who build on it: runs that are stopped, drafts that travel, tables.

#[cfg(feature = "sweep")]
mod sweeps;

use std::sync::Arc;
use std::time::Duration;

use servecast::check::Policies;
use servecast::cluster::{ClusterView, Needs, Route, Router};
use servecast::compare::{One, Wanted};
use servecast::ids::InstanceId;
use servecast::io::results::{Cells, NamedCells};
use servecast::io::tables;
use servecast::load::{self, Draft};
use servecast::request::RequestView;
use servecast::sim::{Lane, Observer, Occurrence, Separable};
use servecast::study::{Figures, StudyError};
use servecast::threads::{Stop, Stopped};
use servecast::units::SimTime;
use servecast::{Compare, Plan};

/// Asks the run to end when it hears of the hundredth request.
struct StopsAtHundred(Stop);

impl Observer for StopsAtHundred {
    fn on(&mut self, _: SimTime, what: Occurrence<'_>) {
        if matches!(what, Occurrence::Arrived(id, _) if id.0 == 100) {
            self.0.stop();
        }
    }
}

impl Separable for StopsAtHundred {
    type Lane = Self;
    type Aside = ();

    fn lane(&mut self, _: Lane) -> Self {
        Self(self.0.clone())
    }

    fn join(&mut self, _: Vec<Self>) {}
}

fn draft(settings: &[(&str, &str)]) -> Draft {
    settings.iter().fold(load::built_in(), |draft, (path, value)| {
        draft.with(path, load::value_of(value).expect("it is a value")).expect("it has a place")
    })
}

#[test]
fn a_run_ends_when_it_is_asked_to_in_lanes_and_in_one_loop() {
    for router in ["round_robin", "least_outstanding_requests"] {
        let router = format!("{{ type = \"{router}\" }}");
        let draft = draft(&[
            ("workload.num_requests", "4000000"),
            ("cluster.replicas", "4"),
            ("cluster.router", &router),
        ]);
        let case = draft.resolve().unwrap().case().unwrap();
        let stop = Stop::default();
        let cluster = case.cluster().unwrap();
        let mut observer = StopsAtHundred(stop.clone());
        let done = stop.run(|| case.observe_on(cluster, &mut observer).map(drop).is_ok());
        assert_eq!(done, Err(Stopped), "{router}");
    }
}

#[test]
fn a_stop_can_come_at_any_time() {
    let draft = draft(&[("workload.num_requests", "1000000"), ("cluster.replicas", "2")]);
    let stop = Stop::default();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
            stop.stop();
        });
        assert!(stop.run(|| draft.run().map(drop).is_ok()).is_err());
    });
}

#[test]
fn a_draft_that_was_written_runs_as_before() {
    let scratch = tempfile::tempdir().unwrap();
    let trace = "TIMESTAMP,ContextTokens,GeneratedTokens\n\
                 2024-05-10 00:00:00.000,100,20\n2024-05-10 00:00:00.500,200,30\n";
    std::fs::write(scratch.path().join("two.csv"), trace).unwrap();
    let by_trace = "name = \"two\"\ntrace.path = \"two.csv\"\n\
                    workload = { arrivals.type = \"trace\", lengths.type = \"trace\" }\n\
                    cluster = { model = \"Qwen/Qwen3-8B\", gpu = \"H100\" }\n";
    std::fs::write(scratch.path().join("two.toml"), by_trace).unwrap();
    let calibrated = "profiles/reference-runs/qwen2.5-0.5b-burst.toml";
    let drafts = [
        draft(&[("workload.num_requests", "50"), ("cluster.replicas", "2")]),
        draft(&[("workload.num_requests", "50")]).with_seed(7).unwrap().drawn(3).unwrap(),
        draft(&[("workload.num_requests", "50")]).pinned(),
        load::load(scratch.path().join("two.toml")).unwrap(),
        load::load(calibrated).unwrap(),
    ];
    for draft in drafts {
        let text = toml::to_string(&draft).unwrap();
        let read: Draft = toml::from_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(toml::to_string(&read).unwrap(), text);
        let [before, after] = [&draft, &read].map(|draft| draft.drawn(2).unwrap().run().unwrap());
        assert_eq!(before.figures(), after.figures());
    }
    // Whoever broke a rule is still told.
    let wrong = load::built_in().with("cluster.gpu", "H10").unwrap();
    let read: Draft = toml::from_str(&toml::to_string(&wrong).unwrap()).unwrap();
    let [before, after] = [&wrong, &read].map(|draft| draft.resolve().unwrap_err().to_string());
    assert_eq!(before, after);
    assert!(before.contains("cluster.gpu=\"H10\""), "{before}");
}

fn numbers<'a>(table: &'a [NamedCells], name: &str) -> &'a [f64] {
    match table.iter().find(|(known, _)| known == name) {
        Some((_, Cells::AllNumbers(cells))) => cells,
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn series_add_up_to_what_requests_spent() {
    // With no time between the engine and the client.
    let draft = draft(&[
        ("workload.num_requests", "200"),
        ("cluster.replicas", "3"),
        ("cluster.host", "none"),
        ("cluster.step_time", "{ type = \"auto\" }"),
    ]);
    let case = draft.resolve().unwrap().case().unwrap();
    let recording = case.record(case.cluster().unwrap(), true, &mut ()).unwrap();
    let series = tables::series(&recording.run.recorder);
    let Some((_, Cells::Words { words, cells })) = series.first() else { panic!("{series:?}") };
    let inside = words.iter().position(|word| word == "inside").unwrap() as u32;
    let (times, values) = (numbers(&series, "time_s"), numbers(&series, "value"));
    let Cells::Counts(replicas) = &series[1].1 else { panic!("{series:?}") };
    let mut request_s = 0.0;
    for replica in 0..3 {
        let rows: Vec<usize> = (0..times.len())
            .filter(|row| cells[*row] == inside && replicas[*row] == Some(replica))
            .collect();
        let width_s = 2.0 * times[rows[0]];
        request_s += rows.iter().map(|row| values[*row] * width_s).sum::<f64>();
    }
    let records = &recording.run.recorder.requests;
    let spent: f64 = records.iter().map(|one| (one.finish - one.queued).as_secs_f64()).sum();
    assert!((request_s - spent).abs() < 1e-6 * spent, "{request_s} beside {spent}");

    // The steps are those of the same run, and the summary is what the command line says.
    let steps = tables::steps(&recording.steps.as_ref().unwrap().steps);
    assert_eq!(steps[0].1.rows() as u64, recording.run.recorder.steps);
    let plain = case.record(case.cluster().unwrap(), false, &mut ()).unwrap();
    assert_eq!(plain.summary(), recording.summary());
    assert_eq!(recording.summary().comparison.is_some(), case.scenario.measured.is_some());
}

/// As `least_outstanding_requests`, written anew.
#[derive(Debug)]
struct Least;

impl Route for Least {
    fn route(&mut self, _: RequestView<'_>, view: &ClusterView<'_>) -> InstanceId {
        view.least_requests()
    }

    fn needs(&self) -> Needs {
        Needs::OUTSTANDING
    }
}

fn with_least(draft: &Draft) -> Draft {
    let least = |_: &_, _: Router| Ok(Router::Custom(Box::new(Least)));
    draft.clone().with_policies(Arc::new(Policies::shipped().with_router(least)))
}

#[test]
fn studies_simulate_policies_of_ones_own() {
    let draft = |router: &str| {
        let router = format!("{{ type = \"{router}\" }}");
        draft(&[
            ("workload.num_requests", "150"),
            ("workload.arrivals", "{ type = \"poisson\", rate_per_s = 30.0 }"),
            ("cluster.replicas", "3"),
            ("cluster.router", &router),
        ])
    };
    let (turns, least) = (draft("round_robin"), draft("least_outstanding_requests"));
    let own = with_least(&turns);
    let figures = |draft: &Draft| -> Figures { draft.run().unwrap().figures() };
    assert_eq!(figures(&own), figures(&least));
    assert_ne!(figures(&own), figures(&turns));
    // Drawn servers and seeds have it too.
    assert_eq!(figures(&own.drawn(3).unwrap()), figures(&least.drawn(3).unwrap()));

    let mut compare = Compare::new(vec![turns.clone(), own.clone(), least.clone()]);
    compare.seeds = [3, 3];
    let compared = compare.read().unwrap().run().unwrap();
    let of = |other| compared.difference(other, "p99_ttft_ms").unwrap().difference();
    assert!((of(1) - of(2)).abs() < 1e-12 && of(1).abs() > 1e-6, "{} {}", of(1), of(2));

    let answer = |draft: Draft| {
        let mut plan = Plan::new(draft);
        plan.slos = vec!["p99_ttft_ms<=150".to_owned()];
        plan.resamples = 0;
        let answer = plan.read().unwrap().answer().unwrap();
        format!("{:?}", answer.tried)
    };
    assert_eq!(answer(own.clone()), answer(least));
    assert_ne!(answer(own), answer(turns));
}

#[test]
fn a_policy_that_is_not_for_a_scenario_says_so() {
    let draft = draft(&[("workload.num_requests", "10")]);
    let rule = |_: &_| Err("never asked".to_owned());
    let scaled = draft.with_policies(Arc::new(Policies::shipped().with_scale(rule)));
    let refused = scaled.run().unwrap_err().to_string();
    assert_eq!(refused, "the scenario has no autoscaler (cluster.autoscaler)");
    let case = scaled.resolve().unwrap().case().unwrap();
    assert!(matches!(case.cluster(), Err(StudyError::Policy(_))));
}

#[test]
fn a_comparison_whose_runs_are_done_elsewhere_finds_the_same() {
    let contest = || {
        let one = draft(&[("workload.num_requests", "60")]);
        let other = one.clone().with("cluster.replicas", 2).unwrap();
        let mut compare = Compare::new(vec![one, other]);
        (compare.seeds, compare.within) = ([3, 8], 1e-9);
        compare.read().unwrap()
    };
    let here = contest().run().unwrap();
    let worker = contest();
    let elsewhere = contest().run_elsewhere(|wanted| {
        // As JSON, one by one, from the last to the first.
        let mut done: Vec<One> = Vec::new();
        for wanted in wanted.iter().rev() {
            let text = serde_json::to_string(wanted).unwrap();
            let wanted: Wanted = serde_json::from_str(&text).unwrap();
            let one = worker.some(&[wanted])?.remove(0);
            done.push(serde_json::from_str(&serde_json::to_string(&one).unwrap()).unwrap());
        }
        done.reverse();
        Ok(done)
    });
    let elsewhere = elsewhere.unwrap();
    assert_eq!(elsewhere.json(), here.json());
    assert_eq!(elsewhere.seeds_csv(), here.seeds_csv());
    assert_eq!(elsewhere.to_string(), here.to_string());
}
