//! The time of a router's own process: it delays requests, and each of its threads takes one after the other.

use servecast::ids::RequestId;
use servecast::metrics::{Recorder, Status};
use servecast::sim::{Counts, Observer, Occurrence, simulation, step_times};
use servecast::units::SimTime;
use servecast::workload::Workload;

use crate::support::resolve;

/// Requests that come together; steps take 5 ms.
fn scenario(router: &str, time: &str, requests: u32, rest: &str) -> String {
    format!(
        "name = 'x'\n[cluster]\nmodel = 'meta-llama/Llama-3.1-8B'\ngpu = 'H100-SXM5-80GB'\n\
         replicas = 2\nrouter = {router}\n{time}\n[cluster.step_time]\ntype = 'linear'\n\
         base_us = 5000.0\nprefill_token_us = 0.0\ndecode_seq_us = 0.0\n\
         [workload]\nnum_requests = {requests}\narrivals = {{ type = 'all_at_once' }}\n\
         lengths = {{ type = 'fixed', input_tokens = 10, output_tokens = 1 }}\n{rest}"
    )
}

const TURNS: &str = "{ type = 'round_robin' }";

#[derive(Debug, Default, PartialEq)]
struct Sent(Vec<(u64, RequestId)>);

impl Observer for Sent {
    fn on(&mut self, at: SimTime, what: Occurrence<'_>) {
        if let Occurrence::Sent(id, _) = what {
            self.0.push((at.as_nanos() / 1_000_000, id));
        }
    }
}

fn run<O: Observer + Default>(text: &str) -> (Counts, O) {
    let scenario = resolve(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let workload = Workload::open(&scenario.workload, scenario.seed, None).expect("it opens");
    let costs = step_times(&scenario).expect("step times are known");
    let mut observer = O::default();
    let run = simulation(&scenario, &costs, workload).expect("it can be built");
    (run.run(&mut observer).expect("no trace is read"), observer)
}

fn sent(text: &str) -> Vec<u64> {
    let (counts, sent): (_, Sent) = run(text);
    assert_eq!(counts.finished, counts.arrived, "{text}");
    sent.0.iter().map(|(at, _)| *at).collect()
}

#[test]
fn each_thread_takes_one_request_after_the_other() {
    let time = "router_time = { per_request_us = 1000.0 }";
    assert_eq!(sent(&scenario(TURNS, time, 5, "")), [1, 2, 3, 4, 5]);
    let time = "router_time = { per_request_us = 1000.0, threads = 2 }";
    assert_eq!(sent(&scenario(TURNS, time, 5, "")), [1, 1, 2, 2, 3]);
    // A limit gives tokens first: two go on, and the others follow as answers have been read.
    let limited = "{ sglang = { max_concurrent_requests = 2, rate_limit_tokens_per_second = 1 } }";
    assert_eq!(sent(&scenario(limited, time, 4, "")), [1, 1, 7, 7]);
    let apart = "router_time = { per_request_us = 1000.0 }\nengine = { type = 'sglang' }\n\
                 disaggregation = { prefill_replicas = 1, decode_replicas = 1, transfer = { nic_gb_per_s = 10.0 } }";
    assert_eq!(
        sent(&scenario("{ sglang = {} }", apart, 3, "").replace("replicas = 2\n", "")),
        [1, 2, 3]
    );
}

#[test]
fn clients_wait_for_the_router_too() {
    let time = "router_time = { per_request_us = 1000.0 }";
    let (_, recorder): (_, Recorder) = run(&scenario(TURNS, time, 2, ""));
    let first_tokens = recorder.requests.iter().map(|it| it.first_token.as_nanos() / 1_000_000);
    // Decided after 1 and 2 ms, each on a replica of its own, and sent by their clients at once.
    assert_eq!(first_tokens.collect::<Vec<_>>(), [6, 7]);
    assert!(recorder.requests.iter().all(|it| it.sent == SimTime::ZERO));
    // Those whose turn has not come when they give up are sent nowhere.
    let client = "client = { timeout_s = 0.0065 }\n";
    let (counts, recorder): (_, Recorder) = run(&scenario(TURNS, time, 10, client));
    assert_eq!((counts.finished, counts.timed_out), (1, 9));
    let status = |status: Status| recorder.requests.iter().filter(|it| it.status == status).count();
    assert_eq!(status(Status::TimedOut), 9);
    let (_, sent): (_, Sent) = run(&scenario(TURNS, time, 10, client));
    assert_eq!(sent.0.len(), 6);
}

#[test]
fn an_attempt_takes_its_time_again() {
    let dead = "[[faults]]\ntype = 'crash'\nreplica = 0\nat_s = 0.0\ndown_s = 9.0\n\
                [[faults]]\ntype = 'crash'\nreplica = 1\nat_s = 0.0\ndown_s = 9.0\n";
    let router =
        "{ sglang = { policy = 'round_robin', retry_max_retries = 3, retry_jitter_factor = 0.0 } }";
    let time = "router_time = { per_request_us = 1000.0 }";
    let (counts, sent): (_, Sent) = run(&scenario(router, time, 1, dead));
    // 50 and 75 ms after an attempt has failed the next one comes to the router.
    assert_eq!(sent.0.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [1, 52, 128]);
    assert_eq!(counts.failed, 1);
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (time, rest, message) in [
        ("router_time = { per_request_us = -1.0 }", "", "per_request_us: must be a time"),
        (
            "router_time = { per_request_us = 1.0, threads = 0 }",
            "",
            "threads: must be from 1 to 1024",
        ),
        (
            "router_time = { per_request_us = 1.0 }",
            "[cluster.gateway]\nmax_outstanding_per_replica = 4\n",
            "cluster.router_time: is not modelled beside cluster.gateway",
        ),
    ] {
        let error = resolve(&scenario(TURNS, time, 1, rest)).expect_err(message);
        assert!(error.contains(message), "{error}");
    }
}
