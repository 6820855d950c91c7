//! What replicas did and what that costs, against the records of the same runs and by hand.

use proptest::prelude::*;
use servecast::metrics::{
    Bill, ClusterReport, Recorder, ReplicaKind, ReplicaReport, RequestRecord, Status, StepKind,
    StepLog,
};
use servecast::resolved::Scenario;
use servecast::sim::{Counts, simulation, step_times};
use servecast::units::SimDuration;
use servecast::workload::Workload;

use super::support::resolve;

/// Step times without a table: 5 ms, 20 µs for a prompt token, 50 µs for a sequence that decodes.
fn text(cluster: &str, workload: &str, report: &str) -> String {
    format!(
        "name = 'x'\n[cluster]\nmodel = 'meta-llama/Llama-3.1-8B'\ngpu = 'H100-SXM5-80GB'\n\
         {cluster}\n[cluster.step_time]\ntype = 'linear'\nbase_us = 5000.0\n\
         prefill_token_us = 20.0\ndecode_seq_us = 50.0\n[workload]\n{workload}\n{report}"
    )
}

fn run(text: &str) -> (Scenario, Counts, Recorder, StepLog) {
    let scenario = resolve(text).expect("the scenario holds together");
    let workload = Workload::open(&scenario.workload, scenario.seed, None).expect("it opens");
    let costs = step_times(&scenario).expect("step times are known");
    let mut observers = (Recorder::default(), StepLog::default());
    let run = simulation(&scenario, &costs, workload).expect("it can be built");
    let counts = run.run(&mut observers).expect("no trace is read");
    (scenario, counts, observers.0, observers.1)
}

fn reports(scenario: &Scenario, recorder: &Recorder) -> (ClusterReport, Bill) {
    let groups = ReplicaKind::of(scenario);
    let bill = Bill::new(recorder, &groups, &scenario.report);
    (ClusterReport::new(recorder, &groups), bill)
}

const ROUTERS: [&str; 3] = ["round_robin", "least_outstanding_requests", "random"];

fn clusters() -> impl Strategy<Value = String> {
    let mixed = (1_u32..5, 0..ROUTERS.len(), 80_u32..400, any::<bool>()).prop_map(
        |(replicas, router, blocks, is_async)| {
            format!(
                "replicas = {replicas}\nrouter.type = '{}'\nengine = {{ type = 'vllm_v1', \
                 num_gpu_blocks = {blocks}, max_model_len = 1100, async_scheduling = {is_async} }}",
                ROUTERS[router]
            )
        },
    );
    let apart = (1_u32..3, 1_u32..3).prop_map(|(prefills, decodes)| {
        format!(
            "disaggregation = {{ prefill_replicas = {prefills}, decode_replicas = {decodes}, \
             transfer = {{ nic_gb_per_s = 2.0 }} }}"
        )
    });
    prop_oneof![3 => mixed, 1 => apart]
}

fn workloads() -> impl Strategy<Value = String> {
    (1_u32..150, 1.0..60.0_f64, 10_u32..600, 2_u32..200, 0_u64..1000).prop_map(
        |(requests, rate, input, output, seed)| {
            format!(
                "num_requests = {requests}\ntool_seed = {seed}\n\
                 arrivals = {{ type = 'poisson', rate_per_s = {rate} }}\n\
                 lengths = {{ type = 'vllm_random', input_tokens = {input}, \
                 output_tokens = {output}, range_ratio = 0.3 }}"
            )
        },
    )
}

fn sum<T: std::iter::Sum>(replicas: &[ReplicaReport], of: fn(&ReplicaReport) -> T) -> T {
    replicas.iter().map(of).sum()
}

proptest! {
    #![proptest_config(crate::support::random_cases(100))]

    #[test]
    fn replicas_together_did_what_the_records_and_steps_say(
        cluster in clusters(), workload in workloads(),
    ) {
        let (scenario, counts, recorder, log) = run(&text(&cluster, &workload, ""));
        prop_assert_eq!(counts.finished, counts.arrived);
        let (report, _) = reports(&scenario, &recorder);
        let replicas = &report.replicas;
        let is_apart = scenario.disaggregation().is_some();
        let parts = if is_apart { 2 } else { 1 };
        prop_assert_eq!(sum(replicas, |r| r.requests), parts * counts.finished);
        let of_records = |of: fn(&RequestRecord) -> u32| -> u64 {
            recorder.requests.iter().map(|record| u64::from(of(record))).sum()
        };
        prop_assert_eq!(sum(replicas, |r| r.output_tokens), of_records(|r| r.output_tokens));
        prop_assert_eq!(sum(replicas, |r| r.preemptions), of_records(|r| r.preemptions));
        let prompts: u64 = log.steps.iter().map(|step| u64::from(step.shape.prefill_tokens)).sum();
        prop_assert_eq!(sum(replicas, |r| r.computed_prompt_tokens), prompts);
        if !is_apart {
            prop_assert_eq!(sum(replicas, |r| r.cached_tokens), of_records(|r| r.cached_tokens));
        }
        for (id, replica) in recorder.replicas.iter().enumerate() {
            let steps = log.steps.iter().filter(|step| step.instance.index() == id);
            for kind in StepKind::ALL {
                let of_kind = steps.clone().filter(|step| StepKind::of(&step.shape) == kind);
                let spent = of_kind.fold(SimDuration::ZERO, |spent, step| spent + step.duration);
                prop_assert_eq!(replica.activity.spent(kind), spent);
            }
        }
        for replica in replicas {
            let parts = replica.prefill + replica.mixed + replica.decode;
            prop_assert!((parts - replica.busy).abs() < 1e-9 && replica.busy <= 1.0 + 1e-12);
            prop_assert!((replica.busy + replica.idle - 1.0).abs() < 1e-12);
            prop_assert!(replica.kv_use_mean <= replica.kv_use_peak + 1e-12);
            prop_assert!(replica.kv_use_peak <= 1.0);
        }
    }

    #[test]
    fn the_mean_number_inside_replicas_is_the_time_that_requests_spent_there(
        cluster in clusters().prop_filter("whole requests", |text| text.contains("replicas = ")
            && !text.contains("disaggregation")),
        workload in workloads(),
    ) {
        let (scenario, _, recorder, _) = run(&text(&cluster, &workload, ""));
        let (report, _) = reports(&scenario, &recorder);
        let inside = sum(&report.replicas, |r| r.running_mean + r.waiting_mean);
        let spent = recorder.requests.iter().map(|r| (r.finish - r.queued).as_secs_f64());
        let spent: f64 = spent.sum();
        let (is, should) = (inside * report.observed_s, spent);
        prop_assert!((is - should).abs() <= 1e-9 * should.max(1.0), "{} {}", is, should);
    }
}

/// One request of 1000 + 11 tokens on one of two replicas: a prefill of 25 ms and ten decode steps of
/// 5.05 ms.
const ONE: &str = "num_requests = 1\narrivals.type = 'all_at_once'\n\
                   lengths = { type = 'fixed', input_tokens = 1000, output_tokens = 11 }";
const TWO: &str = "replicas = 2\ntensor_parallel_size = 2\n\
                   engine = { type = 'vllm_v1', async_scheduling = false }";

#[test]
fn a_run_is_billed_for_every_gpu_until_its_end() {
    let report = "[report.prices]\nH100 = 3.6\nL4 = 0.5\n[report.power.H100]\nidle_w = 100.0\n\
                  prefill_w = 600.0\ndecode_w = 400.0";
    let (scenario, _, recorder, _) = run(&text(TWO, ONE, report));
    let (cluster, bill) = reports(&scenario, &recorder);
    assert!((cluster.observed_s - 0.0755).abs() < 1e-12);
    // 4 GPUs for 75.5 ms
    assert!((bill.gpu_hours - 4.0 * 0.0755 / 3600.0).abs() < 1e-15);
    let cost = bill.cost.expect("there are prices");
    // 3.6 USD per hour are 1 mUSD per second
    let usd = 4.0 * 0.0755 / 1000.0;
    assert!((cost.usd - usd).abs() < 1e-12);
    assert!((cost.usd_per_million_output_tokens.unwrap() - usd / 11e-6).abs() < 1e-9);
    assert!((cost.usd_per_1000_requests.unwrap() - usd * 1000.0).abs() < 1e-9);
    assert_eq!(cost.prices.len(), 1);
    let energy = bill.energy.expect("power is known");
    // two GPUs work, two have nothing to do all the time
    let [prefill, decode, idle] = [1200.0 * 0.025, 800.0 * 0.0505, 200.0 * 0.0755];
    assert!((energy.prefill_joules - prefill).abs() < 1e-9);
    assert!((energy.decode_joules - decode).abs() < 1e-9);
    assert!((energy.idle_joules - idle).abs() < 1e-9);
    let joules = prefill + decode + idle;
    assert!((energy.joules_per_output_token.unwrap() - joules / 11.0).abs() < 1e-9);
    assert!((energy.mean_watts - joules / 0.0755).abs() < 1e-6);
}

#[test]
fn nothing_is_billed_that_the_scenario_has_no_figures_of() {
    let (scenario, _, recorder, _) = run(&text(TWO, ONE, ""));
    let (_, bill) = reports(&scenario, &recorder);
    assert!(bill.gpu_hours > 0.0);
    assert_eq!((&bill.cost, &bill.energy), (&None, &None));
    assert_eq!(bill.text(), "");
}

#[test]
fn an_offer_of_the_catalogue_is_a_price_with_its_source() {
    let (scenario, _, recorder, _) = run(&text(TWO, ONE, "[report.prices]\nH100 = 'low'"));
    let (_, bill) = reports(&scenario, &recorder);
    let price = &bill.cost.expect("there is a price").prices[0];
    let offers = scenario.first().gpu.price.clone().expect("the catalogue lists offers");
    assert_eq!((price.usd_per_hour, &price.source), (offers.usd_per_hour_low, &offers.source));
}

#[test]
fn replicas_without_requests_count_in_means_and_imbalance() {
    let (scenario, _, recorder, _) = run(&text(TWO, ONE, ""));
    let (report, _) = reports(&scenario, &recorder);
    assert_eq!(report.replicas.len(), 2);
    assert_eq!(report.replicas[1].requests, 0);
    let uneven = report.groups[0].output_tokens.expect("tokens came out");
    // 11 and 0 tokens: the mean is 5.5, so is the deviation
    assert!((uneven.max_over_mean - 2.0).abs() < 1e-12 && (uneven.cv - 1.0).abs() < 1e-12);
    let block = report.text();
    for part in ["2 replicas, 0.1 s", "min", "busy (%)", "output tokens 2.00 (CV 1.00)"] {
        assert!(block.contains(part), "{block}");
    }
    assert!(recorder.requests.iter().all(|record| record.status == Status::Finished));
}

#[test]
fn a_replica_alone_has_no_block_and_prefill_replicas_one_of_their_own() {
    let (scenario, _, recorder, _) = run(&text("", ONE, ""));
    assert_eq!(reports(&scenario, &recorder).0.text(), "");
    let apart = "disaggregation = { prefill_replicas = 1, decode_replicas = 2, \
                 transfer = { nic_gb_per_s = 10.0 } }";
    let (scenario, _, recorder, _) = run(&text(apart, ONE, ""));
    let (report, _) = reports(&scenario, &recorder);
    let roles: Vec<_> = report.replicas.iter().map(|replica| replica.role).collect();
    assert_eq!(roles, ["prefill", "decode", "decode"]);
    assert_eq!(report.groups[0].output_tokens, None);
    let block = report.text();
    assert!(block.contains("1 prefill replica, ") && block.contains("2 decode replicas, "));
}

#[test]
fn what_a_bill_lacks_is_refused() {
    for (report, message) in [
        ("[report.prices]\nL4 = 1.0", "report.prices: no price is given for `H100-SXM5-80GB`"),
        ("[report.prices]\nH10O = 1.0", "report.prices: `H10O` is not in the catalogue of GPUs"),
        ("[report.prices]\nH100 = -1.0", "report.prices.H100: must be from 0 to 10⁶ USD"),
        ("[report.prices]\nH100 = 'mid'", "give US dollars per hour, or `low` or `high`"),
        ("[report.prices]\nH100 = 1.0\nA10 = 'low'", "no offer of this GPU is known"),
        ("[report.prices]\nH100 = 1.0\nH100-80GB = 1.0", "H100-SXM5-80GB is given twice"),
        (
            "[report.power.L4]\nidle_w = 1.0\nprefill_w = 2.0\ndecode_w = 2.0",
            "report.power: no power is given for `H100-SXM5-80GB`",
        ),
        (
            "[report.power.H100]\nidle_w = -1.0\nprefill_w = 2.0\ndecode_w = 2.0",
            "report.power.H100.idle_w: must be from 0 to 10⁶ W, got -1",
        ),
    ] {
        let problem = resolve(&text(TWO, ONE, report)).expect_err("it is refused");
        assert!(problem.contains(message), "{problem}");
    }
}
