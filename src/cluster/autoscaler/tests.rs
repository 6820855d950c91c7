//! The controller with a clock held in the hand.

use proptest::prelude::*;

use super::*;
use crate::cluster::wires::Cargo;

const GIB: u64 = 1 << 30;

fn config(text: &str) -> AutoscalerConfig {
    let defaults = "max_replicas = 8\nsignal = { type = 'outstanding_per_replica', target = 4.0 }\n\
                    interval_s = 10.0\nstabilisation_down_s = 0.0\n";
    let mut table: toml::Table = toml::from_str(defaults).unwrap();
    table.extend(toml::from_str::<toml::Table>(text).unwrap());
    table.try_into().unwrap()
}

fn at(seconds: f64) -> SimTime {
    SimTime::from_secs_f64(seconds)
}

/// A controller, and what it has said.
struct Driven {
    scaler: Autoscaler,
    wires: Wires,
    max: u32,
    changed: Vec<(InstanceId, Stage)>,
}

impl Driven {
    fn new(config: &AutoscalerConfig, weight_bytes: u64) -> Self {
        let mut wires = Wires::default();
        let scaler = Autoscaler::new(&mut wires, config, (InstanceId(0), weight_bytes));
        Self { scaler, wires, max: config.max_replicas, changed: Vec::new() }
    }

    /// Goes on to the next look, with so many requests spread over those that serve.
    fn look(&mut self, requests: u32) -> (SimTime, Look) {
        loop {
            let now = self.next_change();
            let mut arrived = Vec::new();
            self.wires.advance(now, &mut arrived);
            for cargo in arrived {
                let Cargo::Weights(instance) = cargo else { unreachable!("nothing else flows") };
                self.scaler.weights_landed(instance);
            }
            self.scaler.advance(&mut self.wires, now, &mut self.changed);
            if self.scaler.looks(now) {
                let reports = self.reports(requests);
                let Self { scaler, wires, changed, .. } = self;
                return (now, scaler.look(wires, now, (&reports, 0), changed));
            }
        }
    }

    fn next_change(&mut self) -> SimTime {
        let lands = self.wires.next_change().unwrap_or(SimTime::MAX);
        self.scaler.next_change().min(lands)
    }

    fn reports(&self, requests: u32) -> Vec<Report> {
        let serving = self.count(Stage::Serving).max(1);
        let report = |(instance, stage): (InstanceId, Stage)| {
            let mine = if stage == Stage::Serving {
                requests / serving + u32::from(instance.0 < requests % serving)
            } else {
                0
            };
            Report { outstanding: mine, load: Load::default(), is_down: false }
        };
        self.scaler.stages().map(report).collect()
    }

    fn count(&self, stage: Stage) -> u32 {
        self.scaler.stages().filter(|(_, of)| *of == stage).count() as u32
    }
}

#[test]
fn replicas_come_up_after_their_machine_and_their_weights() {
    let config = config("provisioning_s = 25.0\nweights_gib_per_s = 2.0");
    let mut driven = Driven::new(&config, 30 * GIB);
    let (now, look) = driven.look(9);
    assert_eq!((now, look.value, look.decided), (at(10.0), Some(9.0), 3));
    // Ordered at 10 s, there at 35 s, 15 s for the weights.
    assert_eq!(driven.count(Stage::Provisioning), 2);
    driven.look(9);
    driven.look(9);
    driven.look(9);
    assert_eq!((driven.count(Stage::Loading), driven.count(Stage::Serving)), (2, 1));
    let (now, _) = driven.look(9);
    assert_eq!((now, driven.count(Stage::Serving)), (at(50.0), 3));
}

#[test]
fn replicas_that_load_from_one_place_share_its_rate() {
    let config = config("weights_gib_per_s = 4.0\nweights_source_gib_per_s = 6.0");
    let mut driven = Driven::new(&config, 12 * GIB);
    driven.look(16);
    // Three at 2 GiB/s each are there 6 s later.
    assert_eq!(driven.count(Stage::Loading), 3);
    assert_eq!(driven.next_change(), at(16.0));
    driven.look(16);
    assert_eq!(driven.count(Stage::Serving), 4);
    // One alone is limited by its own link: 3 s.
    driven.look(20);
    assert_eq!(driven.next_change(), at(33.0));
}

#[test]
fn what_starts_is_stopped_first_then_the_youngest() {
    let config = config("initial_replicas = 2\nprovisioning_s = 15.0");
    let mut driven = Driven::new(&config, 0);
    driven.look(12); // a third is ordered at 10 s
    driven.look(16); // and a fourth at 20 s, before that is there
    assert_eq!(driven.count(Stage::Provisioning), 2);
    driven.look(12); // at 30 s the third serves; the fourth is not wanted
    let stage = |driven: &Driven, id| driven.scaler.stage(InstanceId(id));
    assert_eq!((stage(&driven, 2), stage(&driven, 3)), (Stage::Serving, Stage::Off));
    driven.look(4);
    let stages = [0, 1, 2].map(|id| stage(&driven, id));
    assert_eq!(stages, [Stage::Serving, Stage::Draining, Stage::Draining]);
    // What drains is taken back before a machine is ordered.
    driven.look(8);
    let stages = [0, 1, 2, 3].map(|id| stage(&driven, id));
    assert_eq!(stages, [Stage::Serving, Stage::Serving, Stage::Draining, Stage::Off]);
}

#[test]
fn those_that_are_down_stop_before_those_that_are_up() {
    let config = config("initial_replicas = 3");
    let mut driven = Driven::new(&config, 0);
    let mut reports = driven.reports(8);
    reports[0].is_down = true;
    let now = driven.next_change();
    let Driven { scaler, wires, changed, .. } = &mut driven;
    scaler.look(wires, now, (&reports, 0), changed);
    assert_eq!(driven.changed, [(InstanceId(0), Stage::Draining)]);
}

#[test]
fn replicas_go_when_fewer_were_wanted_for_the_whole_window() {
    let config = config("initial_replicas = 4\nstabilisation_down_s = 30.0");
    let mut driven = Driven::new(&config, 0);
    // The start of the run counts for 30 s, then the 3 that were wanted at 20 s.
    let decided = [4, 12, 4, 4, 4].map(|requests| driven.look(requests).1.decided);
    assert_eq!(decided, [4, 4, 3, 3, 1]);
}

#[test]
fn replicas_come_when_more_were_wanted_for_the_whole_window() {
    let config = config("stabilisation_up_s = 30.0");
    let mut driven = Driven::new(&config, 0);
    let decided = [16, 12, 16, 16].map(|requests| driven.look(requests).1.decided);
    assert_eq!(decided, [1, 1, 3, 3]);
}

#[test]
fn so_many_come_and_go_at_a_time() {
    let config = config("max_added = 2\nmax_removed = 1");
    let mut driven = Driven::new(&config, 0);
    let decided = [32, 32, 32, 32, 4, 4].map(|requests| driven.look(requests).1.decided);
    assert_eq!(decided, [3, 5, 7, 8, 7, 6]);
}

#[test]
fn latencies_add_one_replica_at_a_time_and_take_one() {
    let config = config(
        "initial_replicas = 2\nprovisioning_s = 15.0\n\
         signal = { type = 'slo_headroom', ttft_ms = 1000.0, target = 0.9 }",
    );
    let mut driven = Driven::new(&config, 0);
    let answer = |driven: &mut Driven, kept: u32, ttft_ms: u64| {
        let slo = driven.scaler.slo().expect("it has SLOs");
        for id in 0..10 {
            let request = crate::request::Request::new(SimTime::ZERO, 8, 1);
            let mut life = crate::engine::Life::new(crate::ids::RequestId(id), &request);
            slo.sent(life.id, SimTime::ZERO);
            let ttft = if id < kept { ttft_ms } else { 5_000 };
            life.first_token = Some(SimTime::ZERO + SimDuration::from_millis(ttft));
            life.last_token = SimTime::ZERO + SimDuration::from_millis(ttft);
            slo.answered(&life);
        }
    };
    answer(&mut driven, 8, 900);
    assert_eq!(driven.look(5).1.decided, 3);
    // It waits for the one that starts.
    answer(&mut driven, 8, 900);
    assert_eq!(driven.look(5).1.decided, 3);
    answer(&mut driven, 9, 900);
    assert_eq!(driven.look(5).1.decided, 3);
    // Nothing is known where nothing has ended.
    assert_eq!(driven.look(5).1, Look { value: None, replicas: 3, recommended: 3, decided: 3 });
    answer(&mut driven, 9, 400);
    let look = driven.look(5).1;
    assert_eq!((look.value, look.decided), (Some(0.9), 2));
    assert_eq!(driven.look(0).1.decided, 1);
}

proptest! {
    #[test]
    fn as_many_serve_or_start_as_the_bounds_allow_whatever_the_load(
        min in 1_u32..4, more in 0_u32..6, loads in prop::collection::vec(0_u32..80, 1..60),
        provisioning in 0.0..60.0_f64, down in prop::sample::select(vec![0.0, 10.0, 45.0]),
        rate in prop::option::of(0.1..5.0_f64), steps in prop::option::of(1_u32..3),
    ) {
        let mut config = config("");
        (config.min_replicas, config.max_replicas) = (min, min + more);
        (config.provisioning_s, config.stabilisation_down_s) = (provisioning, down);
        (config.weights_source_gib_per_s, config.max_added) = (rate, steps);
        let mut driven = Driven::new(&config, 7 * GIB);
        for load in loads {
            let look = driven.look(load).1;
            let there = driven.count(Stage::Serving)
                + driven.count(Stage::Provisioning)
                + driven.count(Stage::Loading);
            prop_assert_eq!(there, look.decided);
            prop_assert!((min..=driven.max).contains(&there), "{} replicas", there);
            prop_assert!(driven.count(Stage::Serving) > 0, "somebody serves");
        }
    }

    #[test]
    fn a_load_that_stays_comes_to_the_point_that_the_rule_says(
        load in 0_u32..40, initial in 1_u32..9, provisioning in 0.0..60.0_f64,
    ) {
        let mut config = config("tolerance = 0.0");
        (config.initial_replicas, config.provisioning_s) = (Some(initial), provisioning);
        let mut driven = Driven::new(&config, 0);
        for _ in 0..12 {
            driven.look(load);
        }
        prop_assert_eq!(driven.count(Stage::Serving), load.div_ceil(4).clamp(1, 8));
    }
}
