//! Folders of runs, written by hand.

use super::*;

fn read(path: &Path, overrides: &[Override]) -> Result<Vec<Case>, LoadError> {
    host_runs(path, overrides, &Listener::default())
}

fn folder(name: &str, meta: &str, requests: &str) -> PathBuf {
    let folder =
        std::env::temp_dir().join(format!("servecast-host-run-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    std::fs::write(folder.join(META), meta).expect("a file can be written");
    std::fs::write(folder.join("requests.csv"), requests).expect("a file can be written");
    folder
}

const VLLM: &str = r#"{"server_flags": ["serve", "M", "--max-model-len", "4096"],
    "client_flags": ["bench", "serve", "--dataset-name", "random", "--max-concurrency", "2"],
    "step_law_ms": {"a": 6.5, "b_per_token_beyond_one_per_seq": 0.045, "c_per_seq": 0.008}}"#;
const VLLM_REQUESTS: &str = "i,send_ms,prompt_tokens,output_tokens,ttft_ms,e2e_ms\n\
    0,5.0,100,10,30.0,100.0\n1,6.0,100,10,40.0,110.0\n2,105.0,100,10,20.0,90.0\n";
const SGLANG: &str = r#"{"server_args": ["--max-total-tokens", "10000", "--disable-overlap-schedule"],
    "bench_args": ["--backend", "sglang", "--request-rate", "2"],
    "gpu_us": {"dec_a": 6300, "dec_b": 10, "dec_c": 0.045, "ext_a": 5000, "ext_b": 27, "ext_s": 0}}"#;
const SGLANG_REQUESTS: &str = "send_us,prompt_tokens,output_tokens,ttft_us,e2e_us\n\
    0,100,10,30000,100000\n500000,100,10,30000,100000\n";

fn error(name: &str, meta: &str, requests: &str) -> String {
    let folder = folder(name, meta, requests);
    read(&folder, &[]).expect_err("it is refused").to_string()
}

#[test]
fn a_closed_loop_has_its_requests_ready_and_is_measured_from_when_they_were_sent() {
    let cases = read(&folder("vllm", VLLM, VLLM_REQUESTS), &[]).expect("it is read");
    let [case] = &cases[..] else { panic!("one case") };
    let requests = case.requests.as_ref().expect("the requests of the table");
    assert!(requests.iter().all(|request| request.arrival == SimTime::ZERO));
    let value = |name: &str| {
        let key = crate::metrics::bench::MetricKey::parse(name);
        case.measured.iter().find(|(known, _)| Some(*known) == key).expect("it is measured").1
    };
    assert!((value("duration") - 0.190).abs() < 1e-9);
    assert!((value("mean_ttft_ms") - 30.0).abs() < 1e-9);
    assert!((value("mean_tpot_ms") - 70.0 / 9.0).abs() < 1e-9);
    let EngineConfig::VllmV1(vllm) = &case.scenario.first().cluster.engine else { panic!("vLLM") };
    assert!(vllm.async_scheduling && vllm.host.schedule_us > 0.0);
    let score = case.run().expect("it is simulated");
    assert_eq!(score.rows.len(), case.measured.len());
}

#[test]
fn an_open_loop_arrives_as_it_was_sent_and_the_law_is_that_of_the_folder() {
    let cases = read(&folder("sglang", SGLANG, SGLANG_REQUESTS), &[]).expect("it is read");
    let requests = cases[0].requests.as_ref().expect("the requests of the table");
    assert_eq!(requests[1].arrival, SimTime::from_nanos(500_000_000));
    let group = cases[0].scenario.first();
    let StepTimeConfig::Linear { prefill_base_us, context_token_us, .. } = group.cluster.step_time
    else {
        panic!("an affine law")
    };
    assert_eq!((prefill_base_us, context_token_us), (Some(5000.0), 0.045));
}

#[test]
fn folders_of_runs_are_read_one_after_the_other_and_overrides_count() {
    let all = folder("all", "", "");
    std::fs::remove_file(all.join(META)).expect("it is there");
    for name in ["b", "a"] {
        let one = all.join(name);
        std::fs::create_dir_all(&one).expect("a folder can be made");
        std::fs::write(one.join(META), SGLANG).expect("a file can be written");
        std::fs::write(one.join("requests.csv"), SGLANG_REQUESTS).expect("a file can be written");
    }
    let none = [Override::new("cluster.host", "none")];
    let cases = read(&all, &none).expect("they are read");
    assert_eq!(cases.iter().map(|case| case.id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(cases[0].scenario.first().cluster.host, Some(ServerHost::NONE));
}

#[test]
fn what_is_not_known_is_refused_with_its_place() {
    let told = error("flag", &VLLM.replace("--max-model-len", "--enable-lora"), VLLM_REQUESTS);
    assert!(told.contains("meta.json") && told.contains("--enable-lora is not modelled"), "{told}");
    let told = error("law", &VLLM.replace("0.008", "\"x\""), VLLM_REQUESTS);
    assert!(told.contains("step_law_ms.c_per_seq: must be a number"), "{told}");
    let told = error("neither", "{}", VLLM_REQUESTS);
    assert!(told.contains("neither server_flags"), "{told}");
    let told = error("empty", SGLANG, "send_us,prompt_tokens,output_tokens,ttft_us,e2e_us\n");
    assert!(told.contains("holds no request"), "{told}");
    for (cells, column) in [
        ("-1,100,10,1,2", "send_us"),
        ("NaN,100,10,1,2", "send_us"),
        ("0,0,10,1,2", "prompt_tokens"),
        ("0,100,10,3,2", "ttft_us"),
    ] {
        let table = format!("send_us,prompt_tokens,output_tokens,ttft_us,e2e_us\n{cells}\n");
        let told = error("row", SGLANG, &table);
        assert!(told.contains("requests.csv: line 2") && told.contains(column), "{told}");
    }
    let nowhere = std::env::temp_dir().join("servecast-host-run-nowhere");
    std::fs::create_dir_all(&nowhere).expect("a folder can be made");
    let told = read(&nowhere, &[]).expect_err("it is refused").to_string();
    assert!(told.contains("neither it nor a folder in it has a meta.json"), "{told}");
}
