//! The suite of checks: it passes with the project's policies, notices any change, and catches policies that
//! are broken.

mod broken;

use servecast::check::{Golden, Outcome, Policies, Standing, Suite};
use servecast::engine::Finish;
use servecast::engine::scheduler::{
    Admit, Doorkeeper, Held, KvBlocks, Load, NextStep, Scheduler, SchedulingPolicy,
};
use servecast::ids::RequestId;
use servecast::request::RequestView;
use servecast::scenario::RouterConfig;
use servecast::units::SimTime;

fn checked(suite: &Suite, policies: &Policies<'_>) -> Vec<Outcome> {
    suite.check(policies).expect("the suite can be simulated")
}

#[test]
fn the_projects_policies_are_as_recorded() {
    for outcome in checked(&Suite::built_in(), &Policies::shipped()) {
        // Bit by bit: `servecast check checks --update` records a change that is meant.
        assert!(outcome.is_unchanged(), "{outcome:#?}");
    }
}

#[test]
fn every_file_of_the_folder_is_part_of_the_suite() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("checks");
    let files = std::fs::read_dir(folder).expect("the folder is there");
    let names = files.map(|file| file.expect("a file").file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names
        .filter_map(|name| Some(name.strip_suffix(".toml")?.to_owned()))
        .filter(|name| name != "golden")
        .collect();
    names.sort();
    let suite = Suite::built_in();
    let members: Vec<&str> = suite.members.iter().map(|member| member.name.as_str()).collect();
    assert_eq!(members, names);
    let recorded: Vec<&str> = suite.golden.figures.keys().map(String::as_str).collect();
    assert_eq!(recorded, names);
    for member in &suite.members {
        assert_eq!(member.case.scenario.name, member.name);
    }
}

#[test]
fn scenarios_meet_what_they_are_there_for() {
    let golden = Suite::built_in().golden;
    let figure = |scenario: &str, name: &str| golden.figures[scenario][name];
    for scenario in ["preemption", "sglang-retraction", "saturation"] {
        assert!(figure(scenario, "preemptions") > 0.0, "{scenario}");
    }
    for scenario in ["prefix-sharing", "router-prefixes", "router-sessions", "sglang"] {
        assert!(figure(scenario, "cache_hit_rate") > 10.0, "{scenario}");
    }
    for scenario in ["disaggregation-vllm", "disaggregation-sglang", "kv-tiers"] {
        assert!(figure(scenario, "mean_transfer_ms") > 0.0, "{scenario}");
    }
    assert!(figure("gateway-fairness", "mean_gateway_ms") > 100.0);
    assert!(
        figure("priorities", "patient.mean_ttft_ms")
            > 5.0 * figure("priorities", "urgent.mean_ttft_ms")
    );
    assert!(golden.figures.values().all(|figures| figures["finished"] > 0.0));
}

/// Gives the engine everything at once.
#[derive(Debug, Clone)]
struct Open;

impl Admit for Open {
    fn next(&mut self, _: &[Held], _: &Load, _: SimTime) -> Option<usize> {
        Some(0)
    }
}

#[test]
fn an_open_door_changes_nothing() {
    let policies =
        Policies::shipped().with_scheduler(|_, _, engine| Ok(Doorkeeper::new(Open, engine).into()));
    // Ranks are chosen among when a request comes to the engine, which is later behind a door.
    let suite = Suite::built_in().only(|name| name != "data-parallel");
    for outcome in checked(&suite, &policies) {
        assert!(outcome.is_unchanged(), "{outcome:#?}");
    }
}

/// Computes all that can be computed, with memory without end.
#[derive(Debug, Clone, Default)]
struct AllAtOnce(Vec<RequestId>);

impl SchedulingPolicy for AllAtOnce {
    fn enqueue(&mut self, request: RequestView<'_>) -> Result<(), Finish> {
        self.0.push(request.id);
        Ok(())
    }

    fn left(&mut self, id: RequestId) {
        self.0.retain(|&other| other != id);
    }

    fn schedule(&mut self, _: SimTime, step: &mut NextStep<'_>) {
        for &id in &self.0 {
            step.compute(id, step.uncomputed(id));
        }
    }

    fn kv_blocks(&self) -> KvBlocks {
        KvBlocks::default()
    }
}

#[test]
fn a_scheduler_of_ones_own_is_left_out_of_what_it_cannot() {
    let policies =
        Policies::shipped().with_scheduler(|_, _, _| Ok(Scheduler::custom(AllAtOnce::default())));
    let suite = Suite::built_in();
    let outcomes = checked(&suite, &policies);
    let left_out: Vec<(&str, &str)> = outcomes
        .iter()
        .filter_map(|it| Some((it.scenario.as_str(), it.left_out.as_deref()?)))
        .collect();
    let apart = "the scheduler hands over no KV";
    let expected = [
        ("disaggregation-sglang", apart),
        ("disaggregation-vllm", apart),
        ("kv-tiers", "the scheduler has no KV tiers"),
        ("lora", "the scheduler holds no adapters"),
    ];
    assert_eq!(left_out, expected);
    // All others are run with it.
    let changed = outcomes.iter().filter(|it| it.left_out.is_none() && !it.is_unchanged());
    assert!(changed.count() > 10);
}

#[test]
fn a_policy_that_is_not_for_a_scenario_is_left_out_of_it() {
    let suite = Suite::built_in().only(|name| name.starts_with("router-"));
    let policies = Policies::shipped().with_router(|scenario, shipped| match scenario.router() {
        RouterConfig::SessionSticky {} => Err("sessions are not for it".to_owned()),
        _ => Ok(shipped),
    });
    let outcomes = checked(&suite, &policies);
    let left_out: Vec<Option<&str>> =
        outcomes.iter().map(|outcome| outcome.left_out.as_deref()).collect();
    assert_eq!(left_out, [None, None, Some("sessions are not for it")]);
    assert!(outcomes.iter().all(Outcome::passes));
}

#[test]
fn a_figure_that_was_better_when_it_was_recorded_fails() {
    let mut suite = Suite::built_in().only(|name| name == "burst");
    let figures = suite.golden.figures.get_mut("burst").expect("it is recorded");
    let (mean, p99) = (figures["mean_ttft_ms"], figures["p99_ttft_ms"]);
    // 3 % are more than its tolerance of 2 %, and less than the 5 % of a tail.
    figures.insert("mean_ttft_ms".to_owned(), mean / 1.03);
    figures.insert("p99_ttft_ms".to_owned(), p99 / 1.03);
    let outcome = &checked(&suite, &Policies::shipped())[0];
    let found: Vec<(&str, Standing)> =
        outcome.deviations.iter().map(|one| (one.figure.as_str(), one.standing)).collect();
    let expected =
        [("mean_ttft_ms", Standing::Worse), ("p99_ttft_ms", Standing::WorseWithinTolerance)];
    assert_eq!(found, expected);
    assert!(!outcome.passes());
    suite.golden = Golden::empty();
    assert!(checked(&suite, &Policies::shipped())[0].is_unrecorded);
}
