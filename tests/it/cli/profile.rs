//! `servecast profile`.

use std::fmt::Write;

use serde_json::Value;

use super::Cli;
use crate::support::data;

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
fn a_model_that_stands_for_a_checkpoint_says_so_and_where_its_figures_are_from() {
    let cli = Cli::new();
    let shown = cli.words("profile show nvidia/Llama-3.3-70B-Instruct-FP4").expect_exit(0).stdout();
    for told in [
        "stands for            nvidia/Llama-3.3-70B-Instruct-FP4",
        "nvfp4 in attention, mlp",
        "source                published config.json",
    ] {
        assert!(shown.contains(told), "{told} is not in {shown}");
    }
    let known = cli.words("profile show meta-llama/Llama-3.1-70B").expect_exit(0).stdout();
    assert!(!known.contains("stands for"), "{known}");
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

#[test]
#[ignore = "needs SERVECAST_DATA"]
fn shipped_layer_profiles_are_what_the_importer_makes() {
    let data = data();
    let made = |folder: &str, options: &str| {
        let folder = data.join("layer-tables").join(folder).display().to_string();
        let words = format!("profile import --from llmservingsim {folder} {options}");
        Cli::new().words(&words).expect_exit(0).stderr_has("points kept").stdout()
    };
    let shipped =
        |name: &str| servecast::profiles::layer_table(name).expect("the profile is shipped").text;
    let llama = made("RTX4090/meta-llama/Llama-3.1-8B/bf16", "");
    assert_eq!(llama, shipped("rtx-4090/llama-3.1-8b-bfloat16-tp1"));
    let host = "--tp 2 --all-reduce-latency-us 20 --all-reduce-gb-s 16";
    let qwen = made("RTXPRO6000/Qwen/Qwen3-30B-A3B-Instruct-2507/bf16", host);
    assert_eq!(qwen, shipped("rtx-pro-6000/qwen3-30b-a3b-bfloat16-tp2"));
}

/// The smallest folder of layer tables: two points on every axis.
fn layer_tables() -> Cli {
    let meta = "profiler_version: 1.0.0\nvllm_version: 0.19.0\nhardware: RTX4090\n\
                profiled_at: '2026-08-17T19:43:32+00:00'\nmodel: meta-llama/Llama-3.1-8B\n\
                variant: bf16\nskew_fit:\n  enabled: false\n";
    let operators = [
        "embedding",
        "layernorm",
        "qkv_proj",
        "rotary_emb",
        "o_proj",
        "gate_up_proj",
        "act_fn",
        "down_proj",
        "final_layernorm",
    ];
    let rows = |name: &&str| format!("{name},1,10\n{name},64,20\n");
    let dense: String = operators.iter().map(rows).collect();
    let heads: String = ["lm_head", "sampler"].iter().map(rows).collect();
    let attention = "0,0,1,16,5\n0,0,1,32,6\n16,0,0,0,7\n16,64,0,0,8\n\
                     16,0,1,16,9\n16,0,1,32,10\n16,64,1,16,11\n16,64,1,32,12\n";
    let head = "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n";
    Cli::with_scenario()
        .file("tables/meta.yaml", meta)
        .file("tables/tp1/dense.csv", format!("layer,tokens,time_us\n{dense}"))
        .file("tables/tp1/per_sequence.csv", format!("layer,sequences,time_us\n{heads}"))
        .file("tables/tp1/attention.csv", format!("{head}{attention}"))
}

#[test]
fn an_imported_profile_prices_a_run() {
    let cli = layer_tables();
    let import = "profile import --from llmservingsim tables --output own.toml";
    cli.words(import).expect_exit(0).stdout_is_empty();
    cli.words(import).expect_exit(2).stderr_has("own.toml");
    let run = |profile: &str| {
        let step_time = format!("{{type=\"layer_table\",profile=\"{profile}\"}}");
        let model = "cluster.model=meta-llama/Llama-3.1-8B --set cluster.gpu=RTX-4090";
        let engine = "cluster.engine={type=\"vllm_v1\",max_model_len=4096}";
        let set = format!("--set {model} --set {engine} --set cluster.step_time={step_time}");
        cli.words(&format!("run s.toml --output-dir out --overwrite {set}"))
    };
    run("own.toml").expect_exit(0).stderr_has("LLMServingSim layer tables RTX4090");
    run("own.tom").expect_exit(2).stderr_has("neither in the catalogue nor a file");
    run("rtx-4090/llama-3.1-8b-bfloat16-tp1").expect_exit(0);
    run("rtx-pro-6000/llama-3.1-8b-bfloat16-tp1").expect_exit(2).stderr_has("the profile has gpu");
    let text = cli.read("own.toml");
    assert!(text.contains("mixed_tenth_us = \"\"\"\n90 100 110 120\n"), "{text}");
}

#[test]
fn tables_that_are_not_understood_are_refused() {
    let import = "profile import --from llmservingsim tables";
    let other = "layer,tokens,time_us\nmamba,1,10\n";
    let cli = layer_tables().file("tables/tp1/dense.csv", other);
    cli.words(import).expect_exit(2).stderr_has("has no layer `embedding`");
    layer_tables().words(&format!("{import} --tp 4")).expect_exit(2).stderr_has("tp4");
    let negative = "layer,sequences,time_us\nlm_head,1,-1\n";
    let cli = layer_tables().file("tables/tp1/per_sequence.csv", negative);
    cli.words(import).expect_exit(2).stderr_has("must be a time up to 10 s, got -1");
    Cli::new().words(import).expect_exit(2).stderr_has("meta.yaml");
}

/// Two layers of latent attention, the second with experts, and one module that drafts.
const DRAFTING: &str = r#"{"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "hidden_size": 256,
    "num_hidden_layers": 2, "num_attention_heads": 8, "q_lora_rank": 64, "kv_lora_rank": 64, "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 16, "v_head_dim": 32, "intermediate_size": 512, "moe_intermediate_size": 256,
    "n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 1, "first_k_dense_replace": 1,
    "topk_method": "noaux_tc", "vocab_size": 1000, "max_position_embeddings": 4096, "tie_word_embeddings": false,
    "num_nextn_predict_layers": 1}"#;

#[test]
fn a_layout_has_layers_that_draft_where_they_are_asked_for() {
    let without =
        DRAFTING.replace("\"num_nextn_predict_layers\": 1", "\"num_nextn_predict_layers\": 0");
    let cli = Cli::new().file("drafting/config.json", DRAFTING).file("not/config.json", without);
    let show = "profile show drafting --gpu B200 --engine";
    let shown = |words: &str| -> Value {
        let text = cli.words(&format!("{show} {words} --format json")).expect_exit(0).stdout();
        serde_json::from_str(&text).unwrap()
    };
    let (plain, drafting) = (shown("vllm"), shown("vllm --speculative mtp:1"));
    assert_eq!(plain, shown("vllm --speculative none"));
    assert_eq!((&plain["draft_modules"], &plain["speculative"]), (&1.into(), &Value::Null));
    assert_eq!(
        (&plain["groups"][0]["layers"], &drafting["groups"][0]["layers"]),
        (&2.into(), &3.into())
    );
    assert_eq!(drafting["speculative"], "mtp:1");
    assert!(drafting["draft_own_bytes_per_gpu"].as_u64() > Some(0), "{drafting}");
    assert_eq!(drafting["weight_bytes_per_gpu"], plain["weight_bytes_per_gpu"]);
    let sglang = shown("sglang --speculative mtp:2");
    assert_eq!(
        (&sglang["cell_size"], &sglang["max_running_requests_40gib"]),
        (&480.into(), &48.into())
    );
    cli.words(&format!("{show} vllm")).expect_exit(0).stdout_has("1, left out");
    let not = "profile show not --gpu B200 --engine vllm --speculative mtp:1";
    cli.words(not)
        .expect_exit(2)
        .stderr_has("--speculative: ")
        .stderr_has("has no layers that draft");
    for wrong in ["mtp", "mtp:0", "eagle:1"] {
        let told = cli.words(&format!("{show} vllm --speculative {wrong}")).expect_exit(2);
        told.stderr_has("must be none, or mtp: and a whole number from 1 to 1000");
    }
}
