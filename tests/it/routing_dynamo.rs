//! Dynamo's KV router: recorded decisions come out as they were made, and it routes whole runs.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use servecast::conformance::RecordingError;
use servecast::conformance::routing::{Tally, check};
use servecast::engine::Instance;
use servecast::metrics::{Recorder, RequestRecord};
use servecast::sim::{cluster, cluster_priced_by, simulation, step_times};
use servecast::workload::Workload;

use crate::support::{data, requests_on, resolve};

/// Recordings that are not replayed, and why.
const REFUSED: [(&str, &str); 1] = [("replay-agg-evict.jsonl.gz", "num_gpu_blocks")];

fn read(path: &Path) -> String {
    let mut text = String::new();
    let file = File::open(path).expect("a recording is readable");
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).expect("a recording is text");
    text
}

#[test]
#[ignore = "needs SERVECAST_DATA"]
fn recorded_decisions_of_dynamo_come_out() {
    let folder = data().join("routing/dynamo");
    let mut paths: Vec<_> = (fs::read_dir(&folder).expect("the folder is readable"))
        .map(|entry| entry.expect("an entry is readable").path())
        .collect();
    paths.sort();
    let mut sum = Tally::default();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !name.ends_with(".jsonl.gz") || name.starts_with("planner-") {
            continue;
        }
        let refused = REFUSED.iter().find(|(one, _)| *one == name);
        match (check(&read(&path)), refused) {
            (Ok(tally), None) => {
                println!("{name}: {} exact, {} drawn", tally.exact, tally.drawn);
                assert_eq!((tally.wrong, &tally.first), (0, &None), "{name}");
                (sum.exact, sum.drawn) = (sum.exact + tally.exact, sum.drawn + tally.drawn);
            }
            (Err(RecordingError::NotModelled { problem, .. }), Some((_, why))) => {
                assert!(problem.contains(why), "{name}: {problem}");
            }
            (other, _) => panic!("{name}: {other:?}"),
        }
    }
    println!("all: {} exact, {} drawn", sum.exact, sum.drawn);
}

const SETTINGS: &str = r#"{"k":"settings","name":"x","seed":1,"source":"SelectionService","version":"ai-dynamo-runtime 1.6.1","block_size":16,"env":{},"policy":null,"indexer_threads":4,"note":""}
{"k":"worker","op":"add","id":1}
{"k":"worker","op":"add","id":2}
{"k":"arrive","id":"a","t":0.5,"p":[[1,2]],"isl":40,"overlap":{},"potential":{"1.0":[40,2,0],"2.0":[40,2,0]}}
{"k":"decision","id":"a","t":1.0,"w":2,"r":0,"cost":4.5}
{"k":"arrive","id":"b","t":1.5,"p":[[1,2]],"isl":40,"overlap":{},"potential":{"1.0":[40,2,0],"2.0":[80,2,1]}}
{"k":"decision","id":"b","t":2.0,"w":1,"r":0,"cost":4.5}
{"k":"prefill_done","id":"a","t":2.5}
{"k":"free","id":"a","t":3.0}
{"k":"end","t":4.0,"unfinished":0}
"#;

#[test]
fn a_recording_is_replayed_and_what_is_not_so_is_counted() {
    let tally = check(SETTINGS).unwrap();
    assert_eq!((tally.exact, tally.drawn, tally.wrong), (1, 1, 0));

    for (right, other, wrong) in [
        (r#""id":"b","t":2.0,"w":1"#, r#""id":"b","t":2.0,"w":2"#, 1),
        (r#""2.0":[80,2,1]"#, r#""2.0":[80,3,1]"#, 1),
        (r#""w":1,"r":0,"cost":4.5"#, r#""w":1,"r":0,"cost":4.6"#, 1),
        (
            r#""overlap":{},"potential":{"1.0":[40,2,0],"2.0":[80"#,
            r#""overlap":{"1.0":1},"potential":{"1.0":[40,2,0],"2.0":[80"#,
            3,
        ),
    ] {
        assert!(SETTINGS.contains(right), "{right}");
        let tally = check(&SETTINGS.replace(right, other)).unwrap();
        assert_eq!(tally.wrong, wrong, "{other}: {:?}", tally.first);
    }
}

#[test]
fn what_is_not_modelled_is_refused_by_name() {
    for (right, other, name) in [
        (
            r#""env":{}"#,
            r#""env":{"DYN_ROUTER_PREFILL_LOAD_MODEL":"ais"}"#,
            "DYN_ROUTER_PREFILL_LOAD_MODEL",
        ),
        (r#""note":"""#, r#""note":"","worker_selection":{"type":"thunderagent"}"#, "thunderagent"),
        ("runtime 1.6.1", "runtime 1.7.0", "1.7.0"),
        (
            r#""isl":40,"overlap":{},"potential":{"1.0":[40,2,0],"2.0":[40"#,
            r#""isl":40,"opts":{"shared":1},"overlap":{},"potential":{"1.0":[40,2,0],"2.0":[40"#,
            "shared",
        ),
        (r#""isl":40"#, r#""isl":30"#, "line 4: isl"),
        (r#""t":2.5"#, r#""t":-1.0"#, "line 8"),
        (r#""id":2}"#, r#""id":2,"dp":5000000}"#, "line 3: dp"),
        ("[[1,2]]", "[[1,4000000000],[1,4000000000]]", "line 4: p"),
    ] {
        assert!(SETTINGS.contains(right), "{right}");
        let error = check(&SETTINGS.replacen(right, other, 1)).unwrap_err().to_string();
        assert!(error.contains(name), "{other}: {error}");
    }
}

/// A scenario behind the router with these settings.
fn scenario(router: &str, cluster: &str) -> String {
    format!(
        "name = 'x'\nseed = 3\n[workload]\nnum_requests = 120\n\
         arrivals = {{ type = 'poisson', rate_per_s = 30.0 }}\n\
         lengths = {{ type = 'generated_shared_prefix', groups = 6, prompts_per_group = 20, \
         system_prompt_tokens = 512, question_tokens = 128, output_tokens = 32 }}\n\
         [cluster]\nmodel = 'Qwen/Qwen3-8B'\ngpu = 'A100-SXM4-80GB'\n\
         router = {{ dynamo = {{ {router} }} }}\n{cluster}\n"
    )
}

const FOUR: &str =
    "replicas = 4\nengine = { type = 'vllm_v1', num_gpu_blocks = 2000, max_model_len = 4096 }";
const PARTS: &str = "disaggregation = { prefill_replicas = 2, decode_replicas = 2, transfer = { nic_gb_per_s = 50.0 } }\n\
     engine = { type = 'vllm_v1', num_gpu_blocks = 2000, max_model_len = 4096 }";

fn served(text: &str) -> Recorder {
    let scenario = resolve(text).expect("it holds together");
    let workload = Workload::open(&scenario.workload, scenario.seed, None).expect("it opens");
    let costs = step_times(&scenario).expect("step times are known");
    let run = simulation(&scenario, &costs, workload).expect("it can be built");
    let mut recorder = Recorder::default();
    let counts = run.run(&mut recorder).expect("no trace is read");
    assert_eq!(counts.finished, 120, "{text}");
    recorder
}

fn cached(recorder: &Recorder) -> u64 {
    recorder.requests.iter().map(|record| u64::from(record.cached_tokens)).sum()
}

#[test]
fn requests_wait_at_the_router_while_all_replicas_are_busy() {
    let at_once = served(&scenario("", FOUR));
    let none_waits = |record: &RequestRecord| record.queued == record.arrival;
    assert!(at_once.requests.iter().all(none_waits));
    for order in ["fcfs", "lcfs", "wspt"] {
        let settings = format!("router_queue_threshold = 0.02, router_queue_policy = '{order}'");
        let text = scenario(&settings, FOUR).replace("rate_per_s = 30.0", "rate_per_s = 120.0");
        let queued = served(&text);
        let waited = queued.requests.iter().filter(|record| !none_waits(record)).count();
        println!("{order}: {waited} requests waited");
        assert!(waited > 10, "{order}: {waited} requests waited");
        // The worst of them waits a prefill or two, not for ever.
        let longest =
            queued.requests.iter().map(|record| record.queued.since(record.arrival)).max();
        assert!(longest.is_some_and(|longest| longest.as_secs_f64() < 5.0), "{order}: {longest:?}");
    }
}

#[test]
fn what_one_replica_has_cached_is_known_however_far_its_steps_are_planned() {
    let talks = "[workload]\nnum_requests = 60\narrivals = { type = 'poisson', rate_per_s = 30.0 }\n\
                 lengths = { type = 'fixed', input_tokens = 400, output_tokens = 60 }\n\
                 sessions = { turns_min = 2, turns_max = 5, \
                 message_tokens = { type = 'uniform', min_tokens = 10, max_tokens = 900 }, \
                 output_tokens = { type = 'uniform', min_tokens = 10, max_tokens = 90 }, \
                 think_time = { type = 'exponential', mean_s = 0.5 } }\n[cluster]";
    // Steps that are planned ahead evict what others have cached.
    let small = "engine = { type = 'vllm_v1', num_gpu_blocks = 300, max_model_len = 4096 }";
    let own = scenario("router_queue_threshold = 0.02, router_queue_policy = 'wspt'", small);
    let (head, tail) = own.split_once("[workload]").expect("there is one");
    let (_, tail) = tail.split_once("[cluster]").expect("there is one");
    let mut waited = 0;
    for seed in 0..6 {
        let text = format!("{head}{talks}{tail}").replace("seed = 3", &format!("seed = {seed}"));
        let scenario = resolve(&text).expect("it holds together");
        let costs = step_times(&scenario).expect("step times are known");
        let run = |is_planned: bool| {
            let mut cluster = cluster_priced_by(&scenario, &costs).expect("it can be built");
            if !is_planned {
                let instances = cluster.instances.into_iter().map(Instance::step_by_step);
                cluster.instances = instances.collect();
            }
            requests_on(&scenario, cluster)
        };
        let planned = run(true);
        assert_eq!(planned, run(false), "seed {seed}");
        waited += planned.iter().filter(|record| record.queued > record.arrival).count();
    }
    assert!(waited > 60, "{waited} of 360 requests waited");
}

#[test]
fn classes_that_are_full_turn_requests_away() {
    let settings = "policy = { default_policy_family = 'a', \
         uncached_isl_buckets = [{ min_tokens = 0, bucket = 'all' }], policy_classes = [{ name = 'one', \
         policy_family = 'a', cache_bucket = 'all', quantum = 64, prefill_busy_threshold = 0, \
         request_queue_limit_per_worker = 1 }] }";
    let text = scenario(settings, FOUR).replace("rate_per_s = 30.0", "rate_per_s = 3000.0");
    let parsed = resolve(&text).expect("it holds together");
    let workload = Workload::open(&parsed.workload, parsed.seed, None).expect("it opens");
    let costs = step_times(&parsed).expect("step times are known");
    let run = simulation(&parsed, &costs, workload).expect("it can be built");
    let counts = run.run(&mut Recorder::default()).expect("no trace is read");
    println!("{counts:?}");
    assert!(counts.rejected > 50 && counts.finished + counts.rejected == 120, "{counts:?}");
}

#[test]
fn pools_that_hand_over_have_routers_of_their_own() {
    let looks = served(&scenario("", PARTS));
    let by_load = served(&scenario("overlap_score_credit = 0.0", PARTS));
    let queued = served(&scenario("router_queue_threshold = 0.02", PARTS));
    println!("{} {} {}", cached(&looks), cached(&by_load), cached(&queued));
    let decodes = |recorder: &Recorder| {
        let on = |id| recorder.requests.iter().filter(|one| one.instance.0 == id).count();
        [on(2), on(3)]
    };
    assert!(decodes(&looks).iter().all(|count| *count > 30), "{:?}", decodes(&looks));
}

#[test]
fn caches_of_both_engines_are_known_as_they_are() {
    for engine in ["{ type = 'vllm_v1', block_size = 16 }", "{ type = 'sglang', page_size = 16 }"] {
        let cluster = format!("replicas = 4\nengine = {engine}");
        let [by_cache, by_load, by_what_was_sent] = [
            "prefill_load_scale = 32.0",
            "overlap_score_credit = 0.0",
            "prefill_load_scale = 32.0, use_kv_events = false",
        ]
        .map(|settings| cached(&served(&scenario(settings, &cluster))));
        let told = format!("{engine}: {by_cache} {by_load} {by_what_was_sent}");
        println!("{told}");
        // What engines tell is worth as much as what the router remembers to have sent.
        assert!(
            by_cache > by_load && by_cache.abs_diff(by_what_was_sent) < by_what_was_sent / 10,
            "{told}"
        );
    }
}

#[test]
fn what_is_not_modelled_in_the_simulation_is_refused_by_name() {
    let sglang = "replicas = 2\nengine = { type = 'sglang', page_size = 16 }";
    served(&scenario("", sglang));
    for (router, cluster, names) in [
        ("router_track_output_blocks = true", FOUR, "router_track_output_blocks"),
        (
            "router_temperature = -1.0",
            FOUR,
            "cluster.router.dynamo.router_temperature: must be at least 0",
        ),
        ("router_prefill_load_model = 'ais'", FOUR, "router_prefill_load_model"),
        ("kv_cache_block_size = 64", FOUR, "must be that of all engines: there are 16 and 64"),
        ("use_kv_events = false, router_predicted_ttl_secs = 1.0", FOUR, "needs use_kv_events"),
        (
            "router_queue_threshold = 1.0",
            &format!("{FOUR}\ngateway = {{ max_outstanding_per_replica = 4 }}"),
            "cluster.router.dynamo.router_queue_threshold: a queue at the router behind that of cluster.gateway",
        ),
        ("worker_selection = { type = 'thunderagent' }", FOUR, "thunderagent"),
    ] {
        let text = scenario(router, cluster);
        let error = resolve(&text).expect_err("it is refused");
        assert!(error.contains(names), "{router}: {error}");
    }
    // Of caches that tell nothing the router cannot hear.
    let blind = "replicas = 2\nengine = { type = 'vllm_v1', enable_prefix_caching = false }";
    let text = scenario("", blind);
    let parsed = resolve(&text).expect("it holds together");
    let error = cluster(&parsed).expect_err("it is refused").to_string();
    assert!(error.contains("use_kv_events = false"), "{error}");
    served(&scenario("use_kv_events = false", blind));
}
