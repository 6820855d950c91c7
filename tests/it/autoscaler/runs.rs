//! Runs worked out by hand.

use servecast::metrics::{
    Bill, ClusterReport, Presence, Recorder, ReplicaKind, ScaledPool, ScalingReport, Status,
};
use servecast::sim::Counts;
use servecast::units::SimTime;

use super::{autoscaler, resolved, run, scenario};

fn at(seconds: f64) -> SimTime {
    SimTime::from_secs_f64(seconds)
}

fn report(text: &str, recorder: &Recorder) -> ScalingReport {
    ScalingReport::new(recorder, &ScaledPool::of(&resolved(text))[0])
}

/// Six requests are under way at 1 s: those of the last 500 ms, and one that waits for its first step.
#[test]
fn replicas_come_with_the_load_and_go_with_it() {
    let text = scenario(20, 10.0, &autoscaler(4, "provisioning_s = 0.3"));
    let (counts, recorder) = run(&text);
    assert_eq!(counts, Counts { arrived: 20, finished: 20, ..Counts::default() });
    // Ordered at 1 s, there at 1.3 s, after the request that comes then; they get the next one.
    let presence = |id, seconds| recorder.presence.at(id, at(seconds));
    assert_eq!(presence(1, 0.9), Presence::Off);
    assert_eq!(presence(1, 1.1), Presence::Provisioning);
    assert_eq!(presence(1, 1.4), Presence::Up);
    let first = recorder.requests.iter().find(|record| record.instance.0 > 0).expect("one is");
    assert_eq!(first.sent, at(1.4));
    let report = report(&text, &recorder);
    assert!(report.scale_ups >= 1 && report.serving_peak > 1, "{report:?}");
    assert!((report.provisioning_s - 0.3 * f64::from(report.serving_peak - 1)).abs() < 1e-9);
}

#[test]
fn a_replica_that_drains_ends_with_what_it_has_and_is_off_then() {
    // Two a second for 5 s; both serve at first, and one is enough.
    let rest = "initial_replicas = 2\n";
    let text =
        scenario(10, 2.0, &autoscaler(2, rest)).replace("interval_s = 1.0", "interval_s = 1.2");
    let (counts, recorder) = run(&text);
    assert_eq!(counts.finished, 10);
    // The second request comes at 1.0 s, as the first is about to leave, and goes to the second replica:
    // that drains from 1.2 s on, and is off at 1.5 s, when it has answered.
    let presence = |seconds| recorder.presence.at(1, at(seconds));
    assert_eq!([1.1, 1.2, 1.5].map(presence), [Presence::Up, Presence::Draining, Presence::Off]);
    let report = report(&text, &recorder);
    assert_eq!((report.scale_downs, report.scale_ups), (1, 0));
    let end = recorder.observed().as_secs_f64();
    assert!((report.gpu_hours - (end + 1.5) / 3600.0).abs() < 1e-12, "{report:?}");
    assert!((report.gpu_hours_of_max_replicas - 2.0 * end / 3600.0).abs() < 1e-12);
}

#[test]
fn answers_of_a_draining_replica_are_whole() {
    // 40 requests at once on two replicas; the target would be met by one.
    let text = scenario(6, 10.0, &autoscaler(2, "initial_replicas = 2"))
        .replace("{ type = 'constant', rate_per_s = 10 }", "{ type = 'all_at_once' }")
        .replace("output_tokens = 5", "output_tokens = 30")
        .replace("target = 2.0", "target = 100.0");
    let (counts, recorder) = run(&text);
    assert_eq!(counts.finished, 6);
    assert!(recorder.requests.iter().all(|record| record.output_tokens == 30));
    // It drains from 1 s on and is off when its 30 steps have ended, one more being under way or not.
    assert_eq!(recorder.presence.at(1, at(1.0)), Presence::Draining);
    assert_eq!(recorder.presence.at(1, at(2.9)), Presence::Draining);
    let finish = recorder.requests[1].finish;
    assert_eq!((recorder.requests[1].instance.0, finish), (1, at(3.0)));
    let report = report(&text, &recorder);
    assert!((report.draining_s - 2.0).abs() < 1e-9, "{report:?}");
}

#[test]
fn only_what_is_on_is_paid_for_and_only_what_is_up_can_be_idle() {
    let bill = "[report]\nprices.H100 = 3600.0\n\
                [report.power.H100]\nidle_w = 100.0\nprefill_w = 100.0\ndecode_w = 100.0\n";
    let text = scenario(40, 4.0, &autoscaler(4, "provisioning_s = 2.0\n"));
    let text = format!("{text}{bill}");
    let (_, recorder) = run(&text);
    let kinds = ReplicaKind::of(&resolved(&text));
    let on_s: f64 = (0..4)
        .map(|id| recorder.presence.time(id, recorder.observed(), Presence::is_on).as_secs_f64())
        .sum();
    let bill = Bill::new(&recorder, &kinds, &resolved(&text).report);
    assert!((bill.gpu_hours - on_s / 3600.0).abs() < 1e-9, "{bill:?}");
    let cost = bill.cost.expect("there are prices");
    assert!((cost.usd - on_s).abs() < 1e-6, "{cost:?}");
    // Whatever it does, a GPU that is on draws 100 W here.
    let energy = bill.energy.expect("there is power");
    assert!((energy.joules - 100.0 * on_s).abs() < 1e-6, "{energy:?} for {on_s} s");
    let report = ClusterReport::new(&recorder, &kinds);
    let off = &report.replicas[3];
    assert!(off.up.abs() < 1e-12 && off.idle.abs() < 1e-12 && off.busy.abs() < 1e-12, "{off:?}");
    assert!((report.replicas[0].busy + report.replicas[0].idle - 1.0).abs() < 1e-12);
}

#[test]
fn a_replica_that_comes_again_has_an_empty_cache() {
    let lengths = "{ type = 'generated_shared_prefix', groups = 1, prompts_per_group = 12, \
                   system_prompt_tokens = 160, question_tokens = 16, output_tokens = 5, \
                   separator_tokens = 0 }";
    // One a second, answered in 500 ms. A look that meets one asks for two replicas, another for one:
    // the second serves from 5.4 to 9.9 s and from 14.4 s on.
    let text = scenario(18, 1.0, &autoscaler(2, ""))
        .replace("interval_s = 1.0", "interval_s = 0.9")
        .replace("target = 2.0", "target = 0.5")
        .replace("{ type = 'fixed', input_tokens = 10, output_tokens = 5 }", lengths)
        .replace("prompts_per_group = 12", "prompts_per_group = 18")
        .replace("least_outstanding_requests", "round_robin");
    let (counts, recorder) = run(&text);
    assert_eq!(counts.finished, 18);
    let second: Vec<_> = recorder.requests.iter().filter(|record| record.instance.0 == 1).collect();
    let cached = |from: f64, until: f64| -> Vec<u32> {
        let then = second.iter().filter(|record| (at(from)..at(until)).contains(&record.sent));
        then.map(|record| record.cached_tokens).collect()
    };
    assert_eq!(cached(0.0, 9.9), [0, 160]);
    assert_eq!(cached(9.9, 99.0), [0, 160]);
}

#[test]
fn a_crashed_replica_does_not_serve_and_another_takes_its_place() {
    let fault = "[[faults]]\ntype = 'crash'\nreplica = 0\nat_s = 1.05\ndown_s = 60.0\n";
    let text = scenario(40, 8.0, &autoscaler(3, "initial_replicas = 2"));
    let (counts, recorder) = run(&format!("{text}{fault}"));
    assert_eq!(counts.arrived, counts.finished + counts.failed);
    assert!(counts.failed > 0 && counts.failed < 8, "{counts:?}");
    // What it has lost does not count, but what comes then asks for the third.
    assert_eq!(recorder.presence.at(0, at(1.5)), Presence::Down);
    assert_eq!(recorder.presence.at(2, at(3.5)), Presence::Up);
    let later = recorder.requests.iter().filter(|record| record.sent > at(1.1));
    assert!(later.into_iter().all(|record| record.status == Status::Finished));
}

#[test]
fn looking_does_not_prolong_a_run() {
    let text = scenario(3, 1.0, &autoscaler(2, "provisioning_s = 1000.0\n"));
    let (_, recorder) = run(&text);
    assert_eq!(recorder.observed(), at(3.5));
    let csv = recorder.scaling_csv(&ScaledPool::of(&resolved(&text)));
    let rows: Vec<&str> = csv.lines().collect();
    let head = "time_s,provisioning,loading,serving,draining,down,off,signal,recommended,decided";
    assert_eq!(
        rows,
        [
            head,
            "0,0,0,1,0,0,1,,,",
            "1,0,0,1,0,0,1,1,1,1",
            "2,0,0,1,0,0,1,1,1,1",
            "3,0,0,1,0,0,1,1,1,1"
        ]
    );
}
