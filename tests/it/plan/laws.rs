//! What holds of every trial.

use proptest::prelude::*;

use servecast::metrics::bench::Slos;
use servecast::plan::{End, GoesOn, Setup, Slo, Traffic, WarmUp};
use servecast::resolved::Scenario;
use servecast::scenario::ScenarioFile;
use servecast::sim::step_times;
use servecast::study::Case;

use crate::support::random_cases;

/// Random lengths and arrivals for one or two replicas of small engines.
fn scenario(seed: u64, replicas: u32, rate_per_s: f64) -> Scenario {
    let text = format!(
        "name = 'random'\nseed = {seed}\n[workload]\nnum_requests = 120\n\
         arrivals = {{ type = 'poisson', rate_per_s = {rate_per_s} }}\n\
         lengths = {{ type = 'sampled', input_tokens = {{ type = 'uniform', min_tokens = 1, max_tokens = 300 }}, \
         output_tokens = {{ type = 'uniform', min_tokens = 1, max_tokens = 30 }} }}\n\
         [cluster]\nmodel = 'Qwen/Qwen3-8B'\ngpu = 'H100'\nreplicas = {replicas}\n\
         [cluster.engine]\ntype = 'vllm_v1'\nmax_num_seqs = 8\nmax_model_len = 512\n\
         [cluster.step_time]\ntype = 'linear'\nbase_us = 5000.0\nprefill_token_us = 20.0\n\
         decode_seq_us = 100.0\n"
    );
    let file: ScenarioFile = toml::from_str(&text).expect("it is a scenario");
    Scenario::resolve(file, None).expect("it holds together")
}

proptest! {
    #![proptest_config(random_cases(48))]

    #[test]
    fn a_trial_that_is_broken_off_would_have_missed(
        seed in any::<u32>(),
        replicas in 1_u32..3,
        rate_per_s in 1.0_f64..150.0,
        factor in 0.5_f64..2.0,
        percentile in prop::sample::select(vec![50, 90, 95, 99]),
        limit in 1.0_f64..500.0,
        figure in prop::sample::select(vec!["ttft", "tpot", "e2el"]),
        share_pct in 0_u32..=100,
        warm_up in prop::sample::select(vec![WarmUp::Counts, WarmUp::Mser5]),
    ) {
        let scenario = scenario(seed.into(), replicas, rate_per_s);
        let costs = step_times(&scenario).expect("there are step times");
        let case = Case::new(scenario.clone(), None).expect("there are step times");
        let traffic = Traffic::draw(case.workload().expect("it is drawn")).expect("it takes time");
        let each = Slos::parse(["ttft:100 tpot:20"]).expect("they are SLOs");
        let texts = [format!("p{percentile}_{figure}_ms<={limit}"), format!("attainment>={}", f64::from(share_pct) / 100.0)];
        let slos = texts.map(|text| Slo::parse(&text, &[], Some(&each)).expect("it is an SLO"));
        let trial = |end| {
            let setup = Setup {
                policies: None,
                scenario: &scenario, costs: &costs, traffic: &traffic, factor, slos: &slos, warm_up, end, goes_on: GoesOn::ForEver { throughput_factor: 1.2 },
            };
            setup.run().expect("it runs")
        };
        let (early, whole) = (trial(End::Early), trial(End::AllLeft));
        prop_assert_eq!(early.is_kept, whole.is_kept, "{:?}\n{:?}", early, whole);
        match early.broken_off {
            // Nothing was left out.
            None => prop_assert_eq!(&early.values, &whole.values),
            Some(place) => {
                let value = whole.values.expect("it ran to its end")[place];
                prop_assert!(!slos[place].is_kept(value.value), "{} {:?}", slos[place], value);
            }
        }
    }

    #[test]
    fn traffic_at_its_own_rate_is_that_of_a_run(seed in any::<u32>(), rate_per_s in 1.0_f64..50.0) {
        let scenario = scenario(seed.into(), 1, rate_per_s);
        let case = Case::new(scenario.clone(), None).expect("there are step times");
        let figures = case.figures().expect("it runs");
        let traffic = Traffic::draw(case.workload().expect("it is drawn")).expect("it takes time");
        let slos = [Slo::parse("p99_ttft_ms<=1e6", &[], None).expect("it is an SLO")];
        let setup = Setup {
            policies: None,
            scenario: &scenario, costs: case.costs(), traffic: &traffic, factor: 1.0, slos: &slos,
            warm_up: WarmUp::Counts, end: End::Early, goes_on: GoesOn::AsRecorded,
        };
        let trial = setup.run().expect("it runs");
        let p99 = trial.values.expect("it is kept")[0].value;
        let same = figures.get("p99_ttft_ms").expect("it is there");
        prop_assert!((p99 - same).abs() < 1e-6 * same, "{} {}", p99, same);
    }
}

#[test]
fn of_layouts_at_one_price_the_better_is_recommended_in_whatever_order_they_are_given() {
    for values in ["50,0", "0,50"] {
        let cli = super::study();
        let varied = format!("cluster.api_delay_ms={values}");
        let arguments = ["--slo", "p99_ttft_ms<=2000", "--vary", &varied, "--resamples", "0"];
        let answer = super::plan(&cli, &arguments);
        let rows = answer["layouts"].as_array().expect("a plan lists its layouts");
        assert_eq!(rows[0]["usd_per_hour"], rows[1]["usd_per_hour"], "{answer:#}");
        let value = |row: usize| rows[row]["slos"][0]["value"].as_f64().expect("it was simulated");
        assert!(value(0) < value(1), "{values}: {answer:#}");
    }
}
