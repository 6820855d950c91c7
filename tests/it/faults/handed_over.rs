//! Faults and impatient clients where memory is set aside first (`reserve`), or steps stand still for KV caches
//! (`blocking`), worked out by hand. The laws are watched in every run: what was set aside, held or copied comes
//! free.

use servecast::metrics::{Recorder, Status};
use servecast::sim::Counts;

use super::{crash, ms, run};

/// Bytes of a prompt of 160 tokens: its KV; with `blocking` hidden states, an id and a flag for each token too.
fn bytes(protocol: &str) -> f64 {
    use servecast::model::KvDtype;
    use servecast::profiles;
    let model = profiles::model("Qwen/Qwen3-8B").expect("it is in the catalogue");
    let hidden = if protocol == "blocking" { 2 * u64::from(model.hidden) + 9 } else { 0 };
    (160 * (model.kv_bytes_per_token(1, KvDtype::default()) + hidden)) as f64
}

/// Requests of 160 tokens in and 5 out, on one replica that prefills and some that decode, 100 ms a step. The
/// KV of a prompt takes a second to travel.
fn apart(engine: &str, requests: u32, decodes: u32, rest: &str) -> String {
    let (protocol, flags) = match engine {
        "vllm_v0" => ("blocking", "max_model_len = 2000"),
        "sglang" => ("reserve", "disable_overlap_schedule = true"),
        _ => ("reserve", "async_scheduling = false"),
    };
    let rate = bytes(protocol) / 1e9;
    let (client, faults) = rest.split_once("--").unwrap_or(("", rest));
    format!(
        "name = 'apart'\n[workload]\nnum_requests = {requests}\narrivals.type = 'all_at_once'\n{client}\n\
         lengths = {{ type = 'fixed', input_tokens = 160, output_tokens = 5 }}\n\
         [cluster]\nmodel = 'Qwen/Qwen3-8B'\ngpu = 'H100'\n\
         [cluster.disaggregation]\nprefill_replicas = 1\ndecode_replicas = {decodes}\n\
         protocol = {{ type = '{protocol}' }}\ntransfer = {{ nic_gb_per_s = {rate} }}\n\
         [cluster.engine]\ntype = '{engine}'\n{flags}\n\
         [cluster.step_time]\ntype = 'linear'\nbase_us = 100000.0\nprefill_token_us = 0.0\n\
         decode_seq_us = 0.0\n{faults}"
    )
}

/// How the only request of a run ended, and when.
fn alone(engine: &str, rest: &str) -> (Status, u64, Recorder) {
    let (counts, recorder) = run(&apart(engine, 1, 1, rest));
    assert_eq!((counts.arrived, counts.stuck, counts.unfinished), (1, 0, 0));
    (recorder.requests[0].status, ms(recorder.requests[0].finish), recorder)
}

fn ended(engine: &str, rest: &str) -> (Status, u64) {
    let (status, at, _) = alone(engine, rest);
    (status, at)
}

fn lost(replica: u32, at_s: f64) -> String {
    format!("[[faults]]\ntype = 'lost_transfers'\nreplica = {replica}\nat_s = {at_s}\n")
}

#[test]
fn without_faults_a_kv_cache_travels_for_a_second() {
    // Prompt and transfer; SGLang's first token comes with the KV, and 4 steps follow.
    assert_eq!(ended("sglang", ""), (Status::Finished, 1500));
    // vLLM computes the last token of the prompt again; vLLM 0.6 draws a token from what was fetched.
    assert_eq!(ended("vllm_v1", ""), (Status::Finished, 1600));
    assert_eq!(ended("vllm_v0", ""), (Status::Finished, 1600));
}

#[test]
fn a_request_whose_transfer_is_lost_fails_where_memory_was_set_aside_for_it() {
    for engine in ["sglang", "vllm_v1"] {
        for replica in [0, 1] {
            let (status, at, recorder) = alone(engine, &lost(replica, 0.6));
            assert_eq!((status, at), (Status::Failed, 600), "{engine}");
            assert_eq!(recorder.fault_report().transfers_failed, 1);
            assert_eq!(recorder.carried.transfers, 0);
            // Sent again it takes as long as the first time would have: all of the KV travels.
            let again = format!("client.retries = {{ backoff_s = 0.4 }}--{}", lost(replica, 0.6));
            let (counts, recorder) = run(&apart(engine, 1, 1, &again));
            assert_eq!((counts.finished, counts.retried), (1, 1));
            let alone = if engine == "sglang" { 1500 } else { 1600 };
            assert_eq!(ms(recorder.requests[1].finish), 1000 + alone, "{engine}");
        }
    }
}

#[test]
fn a_copy_that_is_lost_on_its_way_is_computed_where_it_was_asked_for() {
    // The step that stood still since 100 ms is computed with its prompt, and 4 follow.
    for replica in [0, 1] {
        let (status, at, recorder) = alone("vllm_v0", &lost(replica, 0.6));
        assert_eq!((status, at), (Status::Finished, 1100));
        assert_eq!(recorder.fault_report().transfers_failed, 1);
    }
    let crashed = crash(0, 0.6, 9.0, 0.5);
    assert_eq!(
        ended("vllm_v0", &crashed),
        (Status::Finished, 1100),
        "nobody has the copy any more"
    );
}

#[test]
fn a_request_needs_both_of_its_replicas_until_its_kv_has_come() {
    for engine in ["sglang", "vllm_v1"] {
        // While the prompt is computed, and while its KV travels; noticed 200 ms later.
        for at in [0.05, 0.6] {
            for replica in [0, 1] {
                let faults = crash(replica, at, 9.0, 0.2);
                let (status, finish, _) = alone(engine, &faults);
                let expected = (at * 1e3) as u64 + 200;
                assert_eq!((status, finish), (Status::Failed, expected), "{engine}, {replica}");
            }
        }
        // Once it has come only the one that decodes matters.
        assert_eq!(ended(engine, &crash(0, 1.25, 9.0, 0.0)).0, Status::Finished);
        assert_eq!(ended(engine, &crash(1, 1.25, 9.0, 0.1)), (Status::Failed, 1350));
    }
}

#[test]
fn a_request_is_not_sent_where_no_replica_decodes() {
    for engine in ["sglang", "vllm_v1"] {
        let text = apart(engine, 1, 1, &crash(1, 0.5, 9.0, 0.0));
        let later = "arrivals = { type = 'constant', rate_per_s = 1.0 }";
        let (counts, recorder) = run(&text.replace("arrivals.type = 'all_at_once'", later));
        assert_eq!((counts.failed, ms(recorder.requests[0].finish)), (1, 1000), "{engine}");
    }
}

#[test]
fn who_gives_up_leaves_nothing_set_aside() {
    for engine in ["sglang", "vllm_v1"] {
        // While it is computed, and while it travels.
        for timeout in ["0.05", "0.6"] {
            let (status, at) = ended(engine, &format!("client.timeout_s = {timeout}--"));
            assert_eq!(status, Status::TimedOut);
            assert_eq!(at, (timeout.parse::<f64>().expect("a number") * 1e3) as u64);
        }
    }
}

/// Memory for one request at a time where it is decoded.
fn one_by_one(engine: &str) -> &'static str {
    match engine {
        "sglang" => "max_total_tokens = 800\ncontext_length = 200\n",
        _ => "num_gpu_blocks = 14\nmax_model_len = 200\n",
    }
}

#[test]
fn who_waits_for_memory_gets_that_of_one_that_gives_up() {
    for engine in ["sglang", "vllm_v1"] {
        let memory = one_by_one(engine);
        let text = |client: &str| {
            let text = apart(engine, 2, 1, &format!("{client}--"));
            text.replace("[cluster.step_time]", &format!("{memory}[cluster.step_time]"))
        };
        let (_, recorder) = run(&text(""));
        let both = [0, 1].map(|place| ms(recorder.requests[place].finish));
        assert!(both[1] > both[0] + 1000, "{engine}: one after the other, {both:?}");
        // The first goes away while its KV travels; the second is prefilled at once.
        let (counts, recorder) = run(&text("client.first_token_timeout_s = 0.6"));
        assert_eq!(counts.timed_out, 2, "{engine}");
        assert_eq!(recorder.requests.iter().map(|it| ms(it.finish)).max(), Some(600));
        let lost = text("").replace("[cluster.step_time]", "[cluster.step_time]\n") + &lost(1, 0.6);
        let (counts, recorder) = run(&lost);
        assert_eq!((counts.failed, counts.finished), (1, 1), "{engine}");
        let alone = if engine == "sglang" { 1500 } else { 1600 };
        assert_eq!(ms(recorder.requests[1].finish), 600 + alone, "{engine}");
    }
}

fn fates(text: &str) -> (Counts, Vec<(Status, u64)>) {
    let (counts, recorder) = run(text);
    (counts, recorder.requests.iter().map(|it| (it.status, ms(it.finish))).collect())
}

#[test]
fn a_fetch_goes_on_where_its_client_has_gone() {
    // Both are fetched one after the other, from 100 to 2100 ms; nobody reads before that step that a client
    // has gone. Both go while the KV of the first travels.
    let both = apart("vllm_v0", 2, 1, "");
    let (_, expected) = fates(&both);
    assert_eq!(expected, [(Status::Finished, 2600), (Status::Finished, 2600)]);
    let timeout = apart("vllm_v0", 2, 1, "client.first_token_timeout_s = 0.6--");
    let (counts, recorder) = run(&timeout);
    assert_eq!(counts.timed_out, 2);
    // The step for which they were fetched is computed all the same.
    assert!(ms(recorder.observed()) >= 2100, "{}", recorder.observed());
}

#[test]
fn a_sender_goes_on_where_who_asked_has_crashed() {
    // Both replicas ask at 100 ms; the second is answered when the first has its copy, or has crashed.
    let (_, all) = fates(&apart("vllm_v0", 2, 2, ""));
    assert_eq!(all, [(Status::Finished, 1600), (Status::Finished, 2600)]);
    let (counts, all) = fates(&apart("vllm_v0", 2, 2, &crash(1, 0.5, 9.0, 0.0)));
    assert_eq!(counts.failed, 1);
    assert_eq!(all, [(Status::Failed, 500), (Status::Finished, 2000)]);
    // The other way round the first is not disturbed, and nobody is answered after it.
    let (_, all) = fates(&apart("vllm_v0", 2, 2, &crash(2, 0.5, 9.0, 0.0)));
    assert_eq!(all, [(Status::Finished, 1600), (Status::Failed, 500)]);
}

#[test]
fn a_seat_that_comes_free_with_the_last_step_is_taken_by_one_that_has_landed() {
    // All land after one step of prefill, and there is one seat: nothing from outside wakes the replica.
    let slow = format!("nic_gb_per_s = {}", bytes("reserve") / 1e9);
    let text = apart("sglang", 3, 1, "")
        .replace(&slow, "nic_gb_per_s = 20.0")
        .replace("[cluster.step_time]", "max_running_requests = 1\n[cluster.step_time]");
    let (counts, all) = fates(&text);
    assert_eq!((counts.finished, counts.stuck), (3, 0), "{all:?}");
}

const TWO: &str = "[cluster]\nmodel = 'Qwen/Qwen3-8B'\ngpu = 'H100'\n\
     [cluster.step_time]\ntype = 'linear'\nbase_us = 1000.0\nprefill_token_us = 0.0\n\
     decode_seq_us = 0.0\n[cluster.disaggregation]\nprotocol = { type = 'reserve' }\n\
     transfer = { nic_gb_per_s = 50.0 }\n";

fn group(role: &str, rest: &str) -> String {
    format!("[[cluster.groups]]\nrole = '{role}'\nreplicas = 1\n{rest}\n")
}

#[test]
fn a_model_on_mixed_replicas_needs_no_memory_elsewhere() {
    let small = "model = 'meta-llama/Llama-3.1-8B'";
    let engine = "engine = { type = 'vllm_v1' }";
    let groups = [
        group("mixed", &format!("{small}\n{engine}")),
        group("prefill", engine),
        group("decode", engine),
    ];
    let text = format!(
        "name = 'two'\n[workload]\nnum_requests = 10\narrivals = {{ type = 'constant', rate_per_s = 1.0 }}\n\
         lengths = {{ type = 'fixed', input_tokens = 160, output_tokens = 5 }}\n\
         [[workload.classes]]\nname = 'a'\nshare = 0.5\n[[workload.classes]]\nname = 'b'\n\
         share = 0.5\n{small}\n{TWO}{}",
        groups.concat()
    );
    let (counts, recorder) = run(&text);
    assert_eq!(counts.finished, 10);
    let is_small = |it: &&servecast::metrics::RequestRecord| it.instance.index() == 0;
    assert!((1..10).contains(&recorder.requests.iter().filter(is_small).count()));
}

#[test]
fn memory_of_a_request_that_the_other_replica_refuses_comes_free_for_those_that_wait_for_it() {
    // The first takes 44 of 52 blocks, and is too long for the replica that prefills.
    let groups = [
        group(
            "prefill",
            "engine = { type = 'vllm_v1', max_model_len = 300, num_gpu_blocks = 100 }",
        ),
        group("decode", "engine = { type = 'vllm_v1', max_model_len = 800, num_gpu_blocks = 52 }"),
    ];
    let text = format!(
        "name = 'refused'\n[workload]\nnum_requests = 2\narrivals.type = 'all_at_once'\n\
         lengths = {{ type = 'list', order = 'recorded', pairs = [[700, 5], [160, 5]] }}\n{TWO}{}",
        groups.concat()
    );
    let (counts, _) = run(&text);
    assert_eq!((counts.finished, counts.rejected, counts.stuck), (1, 1, 0));
}

#[test]
fn a_gateway_without_a_destination_says_that_no_replica_was_up() {
    for limit in [
        "max_outstanding_per_replica = 4\nmax_waiting = 0",
        "rate_limit = { requests_per_s = 1000.0, burst = 10 }",
    ] {
        let rest = format!(
            "client.timeout_s = 100.0--{}[cluster.gateway]\n{limit}\n",
            crash(1, 0.05, 9.0, 0.0)
        );
        let (counts, _) = run(&apart("vllm_v1", 3, 1, &rest));
        let (waited, _) = run(&apart("vllm_v1", 3, 1, &rest.replace("replica = 1", "replica = 0")));
        assert_eq!((counts.failed, counts.rejected), (waited.failed, waited.rejected), "{limit}");
    }
}

#[test]
fn who_waits_at_a_router_fails_where_no_replica_decodes_when_it_is_next() {
    // The first one is prefilled, and the others wait for that, as the replica that decodes crashes.
    for engine in ["sglang", "vllm_v1"] {
        let router =
            "router = { dynamo = { router_queue_threshold = 0.001 } }\n[cluster.disaggregation]";
        let text = apart(engine, 3, 1, &crash(1, 0.05, 9.0, 0.0));
        let (counts, all) = fates(&text.replace("[cluster.disaggregation]", router));
        assert_eq!(counts.failed, 3, "{engine}");
        assert_eq!(all, [(Status::Failed, 50); 3], "{engine}");
    }
}
