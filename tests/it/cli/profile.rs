//! `servecast profile`.

use std::fmt::Write;

use serde_json::Value;

use super::Cli;

#[test]
fn lists_name_models_and_gpus() {
    let cli = Cli::new();
    cli.words("profile list").expect_exit(0).stdout_has("Qwen/Qwen3-32B").stdout_has("H200-SXM");
    let gpus = cli.words("profile list gpus").expect_exit(0).stdout();
    assert!(!gpus.contains("Qwen"), "{gpus}");
    let json = cli.words("profile list models --format json").expect_exit(0).stdout();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert!(json["models"].as_array().unwrap().len() > 20);
}

#[test]
fn a_model_on_a_gpu_has_memory_and_step_times() {
    let cli = Cli::new();
    let show = "profile show qwen2.5-7b --gpu H100";
    cli.words(show).expect_exit(0).stdout_has("decode step of 32").stdout_has("confidence");
    let json = cli.words(&format!("{show} --format json")).expect_exit(0).stdout();
    let json: Value = serde_json::from_str(&json).unwrap();
    // 28 layers · 2 · 4 KV heads · 128 elements · 2 bytes
    assert_eq!(json["on_gpu"]["kv_bytes_per_token_per_gpu"], 57_344);
    let ms = |index: usize| json["on_gpu"]["decode_step"][index]["ms"].as_f64().unwrap();
    // Reading 15.2 GB of weights at 3.35 TB/s takes 4.5 ms at least.
    assert!(ms(0) > 4.5 && ms(0) < ms(1) && ms(1) < ms(2), "{json}");
}

#[test]
fn a_misspelt_name_finds_its_neighbour() {
    let cli = Cli::new();
    cli.words("profile show H10O").expect_exit(2).stderr_has("did you mean `H100`?");
    cli.words("profile show qwen3-32b --gpu H10O").expect_exit(2).stderr_has("did you mean");
    cli.words("profile show H100 --gpu A10").expect_exit(2).stderr_has("is a GPU itself");
    cli.words("profile show deepseek-v3 --gpu A10").expect_exit(2).stderr_has("does not fit");
}

#[test]
fn tables_of_step_times_are_listed_shown_and_compared() {
    const TABLE: &str = "h100-sxm5-80gb/vllm-0.14.0";
    let cli = Cli::new();
    cli.words("profile list cost").expect_exit(0).stdout_has(TABLE);
    let show = format!("profile show {TABLE}");
    cli.words(&show).expect_exit(0).stdout_has("Apache-2.0").stdout_has("decode attention");
    let of = "--model llama-3.1-8b --format json";
    let same = cli.words(&format!("profile diff {TABLE} {TABLE} {of}")).expect_exit(0).stdout();
    let same: Value = serde_json::from_str(&same).unwrap();
    for step in same["steps"].as_array().unwrap() {
        assert_eq!(step["a_ms"], step["b_ms"]);
    }
    let other = cli.words(&format!("profile diff {TABLE} roofline {of}")).expect_exit(0).stdout();
    let other: Value = serde_json::from_str(&other).unwrap();
    assert_ne!(other["steps"][0]["a_ms"], other["steps"][0]["b_ms"]);
    cli.words("profile diff roofline roofline --model llama-3.1-8b")
        .expect_exit(2)
        .stderr_has("--gpu");
}

#[test]
fn imported_measurements_are_reduced_and_price_a_run() {
    let cli = Cli::new();
    let family = |family: &str, file: &str, text: &str| {
        let folder = cli.path(&format!("data/h100_sxm/{family}/vllm/0.14.0"));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(file), text).unwrap();
    };
    let mut products = "gemm_dtype,m,n,k,latency\n".to_owned();
    for (m, n, k) in [1, 64, 4096].into_iter().flat_map(|m| {
        [256, 8192, 65_536].into_iter().flat_map(move |n| [256, 16_384].map(|k| (m, n, k)))
    }) {
        let ms = 0.004 + 1e-12 * f64::from(n * k / 2 + m);
        writeln!(products, "bfloat16,{m},{n},{k},{ms}").unwrap();
    }
    // A row measured twice counts once, with the faster time; nothing else reads the second.
    products += "bfloat16,1,256,256,99.0\n";
    family("gemm", "gemm_perf.txt", &products);
    let heads = "num_heads,num_key_value_heads,head_dim,kv_cache_dtype,attn_dtype,window_size";
    let of = "32,8,128,bfloat16,bfloat16,0";
    let decode =
        format!("batch_size,isl,step,{heads},latency\n1,1,1023,{of},0.01\n64,1,1023,{of},0.05\n");
    family("attention", "generation_attention_perf.txt", &decode);
    let prefill = format!("batch_size,isl,{heads},latency\n1,128,{of},0.01\n1,4096,{of},0.4\n");
    family("attention", "context_attention_perf.txt", &prefill);
    let import = "profile import --from aiconfigurator data --gpu h100_sxm --version 0.14.0";
    cli.words(&format!("{import} --output own.toml")).expect_exit(0);
    let set =
        "--set cluster.step_time.type=operator_table --set cluster.step_time.profile=own.toml";
    cli.words(&format!("run --set cluster.gpu=H100 {set} --output-dir out"))
        .expect_exit(0)
        .stderr_has("operator table of vllm 0.14.0");
    cli.words(&format!("run --set cluster.gpu=A100 {set} --output-dir other"))
        .expect_exit(2)
        .stderr_has("measured on H100-SXM5-80GB");
    cli.words(&import.replace("0.14.0", "0.14.0 --engine sglang"))
        .expect_exit(2)
        .stderr_has("there is no table gemm_perf");
    cli.words(&import.replace("h100_sxm", "h300")).expect_exit(2).stderr_has("h200_sxm");
}

#[cfg(feature = "plot")]
#[test]
fn step_times_are_drawn_beside_the_roofline() {
    let cli = Cli::new();
    let plot = "profile plot h100-sxm5-80gb/vllm-0.14.0 --model llama-3.1-8b --output steps.svg";
    cli.words(plot).expect_exit(0);
    let svg = cli.read("steps.svg");
    assert!(svg.contains("32768 tokens of context") && svg.contains("Prefill step"), "{svg}");
}
