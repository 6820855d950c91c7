//! A rule of one's own in place of a signal.

use servecast::cluster::{Cluster, Scale, ScaleView};
use servecast::resolved::Scenario;
use servecast::study::Case;
use servecast::units::SimTime;

use super::{autoscaler, resolved, scenario};

/// What `outstanding_per_replica` with a target of 2 asks for.
#[derive(Debug, Clone)]
struct Outstanding;

impl Scale for Outstanding {
    fn decide(&mut self, view: ScaleView<'_>, _now: SimTime) -> u32 {
        let outstanding: u32 = view.serving.iter().map(|report| report.outstanding).sum();
        let asked = f64::from(outstanding) / 2.0;
        if (asked / f64::from(view.replicas.max(1)) - 1.0).abs() <= 0.1 + 1e-9 {
            return view.replicas;
        }
        (asked - 1e-9).ceil() as u32
    }

    fn fresh(&self) -> Box<dyn Scale> {
        Box::new(self.clone())
    }
}

/// Always so many.
#[derive(Debug, Clone)]
struct Always(u32);

impl Scale for Always {
    fn decide(&mut self, _view: ScaleView<'_>, _now: SimTime) -> u32 {
        self.0
    }

    fn fresh(&self) -> Box<dyn Scale> {
        Box::new(self.clone())
    }
}

fn case(scenario: Scenario) -> Case {
    Case::new(scenario, None).expect("it can be simulated")
}

fn by(case: &Case, rule: impl Scale + 'static) -> Cluster {
    Cluster { scale: Some(Box::new(rule)), ..case.cluster().expect("there is one") }
}

#[test]
fn a_rule_that_asks_for_what_a_signal_asks_for_is_that_signal() {
    for rate in [1.0, 7.0, 25.0, 60.0] {
        let case = case(resolved(&scenario(300, rate, &autoscaler(9, "provisioning_s = 1.5"))));
        let [signal, own] =
            [case.run(), case.run_on(by(&case, Outstanding))].map(|run| run.expect("it runs"));
        assert_eq!(signal.figures(), own.figures(), "{rate} requests/s");
    }
}

#[test]
fn bounds_of_the_scenario_hold_for_a_rule() {
    let case = case(resolved(&scenario(200, 4.0, &autoscaler(3, "min_replicas = 2"))));
    let hours = |always| {
        let run = case.run_on(by(&case, Always(always))).expect("it runs");
        run.figures().get("gpu_hours").expect("GPUs are counted")
    };
    let [none, two, three, many] = [0, 2, 3, 1000].map(hours);
    assert!(none.to_bits() == two.to_bits() && three.to_bits() == many.to_bits());
    assert!(two < three);
}

#[test]
fn a_rule_without_an_autoscaler_is_refused() {
    let case = case(resolved(&scenario(3, 1.0, "replicas = 2")));
    let refused = case.run_on(by(&case, Outstanding)).expect_err("nothing is scaled");
    assert!(refused.to_string().contains("cluster.autoscaler"), "{refused}");
}
