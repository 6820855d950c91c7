//! `servecast profile import` of the tables of splitwise-sim and Vidur.

use std::fmt::Write;

use serde_json::Value;
use servecast::cost::{CostModel, LayerProfile, LayerTable, LayerTableOptions, StepShape};
use servecast::model::KvDtype;
use servecast::profiles;
use servecast::scenario::Calibration;

use super::Cli;
use crate::support::data;

#[test]
#[ignore = "needs SERVECAST_DATA"]
fn shipped_step_profiles_are_what_the_importer_makes() {
    let data = data();
    let table = data.join("op-tables/splitwise/perf_model.csv").display().to_string();
    for file in servecast::profiles::step_tables() {
        let model = if file.model == "bigscience/bloom" { "bloom-176b" } else { "llama2-70b" };
        let gpu = if file.gpu.starts_with("A100") { "a100-80gb" } else { "h100-80gb" };
        let tp = file.tensor_parallel_size;
        let of = format!("--model {model} --gpu {gpu} --tp {tp}");
        let import = format!("profile import --from splitwise {table} {of}");
        let made = Cli::new().words(&import).expect_exit(0).stderr_has("of 105 runs").stdout();
        assert_eq!(made, file.text, "{}", file.name);
    }
}

#[test]
fn shipped_step_tables_are_listed_shown_drawn_and_price_a_run() {
    const TABLE: &str = "h100-sxm5-80gb/llama-2-70b-hf-float16-tp4";
    let cli = Cli::with_scenario();
    cli.words("profile list cost").expect_exit(0).stdout_has(TABLE);
    let shown = cli.words(&format!("profile show {TABLE}")).expect_exit(0);
    shown.stdout_has("splitwise-sim").stdout_has("MIT").stdout_has("tokens 128 to 8192");
    let of = "--model llama2-70b --tp 4";
    cli.words(&format!("profile diff {TABLE} roofline {of}"))
        .expect_exit(0)
        .stdout_has("extrapolated");
    #[cfg(feature = "plot")]
    cli.words(&format!("profile plot {TABLE} {of} --output steps.svg")).expect_exit(0);
    let set = |key: &str| format!("--set cluster.{key}");
    let run = |more: &str| {
        let of = [
            set("model=llama2-70b"),
            set("step_time={type=\"step_table\"}"),
            set("engine={type=\"vllm_v1\",max_model_len=4096}"),
        ];
        cli.words(&format!("run s.toml --output-dir out --overwrite {} {more}", of.join(" ")))
    };
    let tp = set("tensor_parallel_size=4");
    run(&tp).expect_exit(0).stderr_has("splitwise-sim").stderr_has("outside the measured shapes");
    run(&set("tensor_parallel_size=3")).expect_exit(2).stderr_has("tensor_parallel_size");
    run(&format!("{tp} {}", set("gpu=H200"))).expect_exit(2).stderr_has("no step table of");
    let other = format!("{tp} {}", set("step_time.profile=h100-sxm5-80gb/bloom-float16-tp8"));
    run(&other).expect_exit(2).stderr_has("the profile has model bigscience/bloom");
    let misspelt = format!("{tp} {}", set("step_time.profile=h100-sxm5-80gb/blom-float16-tp8"));
    run(&misspelt).expect_exit(2).stderr_has("did you mean `");
    let drafts = "engine.speculation={method=\"ngram\",num_speculative_tokens=2,\
                  acceptance={type=\"mean_length\",tokens=1.5}}";
    run(&format!("{tp} {}", set(drafts))).expect_exit(2).stderr_has("verify drafts");
}

/// Runs of a made-up law: prefill 10 ms and 0.1 ms per token, decode 20 ms and 1 ms per sequence.
fn splitwise_runs() -> String {
    let head = "model,hardware,prompt_size,batch_size,token_size,prompt_time,token_time,e2e_time,\
                tensor_parallel\n";
    let mut text = head.to_owned();
    let alone = [128, 512, 2048].map(|prompt| (prompt, 1));
    for (prompt, batch) in alone.into_iter().chain([2, 4, 8].map(|batch| (512, batch))) {
        // Noise that medians take out.
        for noise in [-0.5, 0.0, 0.2] {
            let prefill = 10.0 + 0.1 * f64::from(prompt * batch) + noise;
            let decode = 20.0 + f64::from(batch) + noise;
            // Eight prompts do not fit at once.
            let e2e = if batch == 8 { 9e9 } else { prefill + 127.0 * decode };
            writeln!(text, "llama2-70b,h100-80gb,{prompt},{batch},128,{prefill},{decode},{e2e},4")
                .unwrap();
        }
    }
    text
}

#[test]
fn imported_runs_give_back_the_law_they_follow() {
    let cli = Cli::new().file("perf_model.csv", splitwise_runs());
    let import =
        "profile import --from splitwise perf_model.csv --model llama2-70b --gpu h100-80gb";
    cli.words(&format!("{import} --tp 4 --output own.toml"))
        .expect_exit(0)
        .stderr_has("medians of 15 of 18 runs; 3 did not run as one batch");
    let text = cli.read("own.toml");
    assert!(text.contains("tokens = \"128 512 2048\"\nus = \"22800 61200 214800\""), "{text}");
    assert!(text.contains("prompts = \"2 4\"\nus = \"112400 214800\""), "{text}");
    assert!(text.contains("sequences = \"1 2 4\"\nus = \"21000 22000 24000\""), "{text}");
    let diff = "profile diff own.toml roofline --model llama2-70b --gpu H100 --tp 4 --format json";
    let steps = cli.words(diff).expect_exit(0).stdout();
    let steps: Value = serde_json::from_str(&steps).unwrap();
    // One sequence at 512 tokens, and a prompt of 512.
    for (name, ms) in [("decode 1 at 512 tokens", 21.0), ("prefill 512 tokens", 61.2)] {
        let step = steps["steps"].as_array().unwrap().iter().find(|step| step["step"] == name);
        let found = step.unwrap()["a_ms"].as_f64().unwrap();
        assert!((found - ms).abs() < 1e-3, "{name}: {found} {ms}");
    }
}

#[test]
fn runs_that_are_not_understood_are_refused() {
    let good = splitwise_runs();
    let import = |table: &str, flags: &str| {
        let cli = Cli::new().file("runs.csv", table);
        cli.words(&format!("profile import --from splitwise runs.csv {flags}")).expect_exit(2)
    };
    let of = "--model llama2-70b --gpu h100-80gb --tp 4";
    import("", of).stderr_has("runs.csv: holds no rows");
    import(&good.replace("prompt_time", "prompt"), of).stderr_has("missing key `prompt_time`");
    import(&good.replace(",61.2,", ",-1,"), of)
        .stderr_has("prompt_time must be a time in ms, got -1");
    import(&good, &of.replace("tp 4", "tp 2")).stderr_has("it has llama2-70b on h100-80gb with 4");
    let other = good.replace("h100-80gb", "h100-pcap");
    import(&other, &of.replace("h100-80gb", "h100-pcap")).stderr_has("catalogue of GPUs");
    let other = good.replace("llama2-70b", "llama9");
    import(&other, &of.replace("llama2-70b", "llama9")).stderr_has("catalogue of models");
    let alone: String = good.split_inclusive('\n').filter(|line| !line.contains(",512,")).collect();
    import(&alone, of).stderr_has("no run of several prompts at once");
    import(&good, &format!("{of} --engine vllm")).stderr_has("--engine: is only for --from aic");
    import(&good, &format!("{of} --tolerance 0.1"))
        .stderr_has("is only for --from llmservingsim, vidur");
}

/// ms of each operator of `mlp.csv`: constant and per token.
const VIDUR: [(&str, f64, f64); 10] = [
    ("emb", 0.004, 1e-5),
    ("input_layernorm", 0.003, 1e-5),
    ("attn_pre_proj", 0.050, 3e-4),
    ("attn_rope", 0.002, 2e-5),
    ("attn_post_proj", 0.020, 1e-4),
    ("post_attention_layernorm", 0.005, 3e-5),
    ("mlp_up_proj", 0.080, 6e-4),
    ("mlp_act", 0.003, 4e-5),
    ("mlp_down_proj", 0.040, 3e-4),
    ("add", 0.002, 1e-5),
];

fn prefill_ms(tokens: f64, cached: f64) -> f64 {
    0.010 + 1e-8 * tokens * (cached + tokens / 2.0)
}

fn decode_ms(sequences: f64, context: f64) -> f64 {
    0.006 + 2e-7 * sequences * context
}

fn mlp_csv() -> String {
    let names = VIDUR.map(|(name, ..)| format!("time_stats.{name}.mean,time_stats.{name}.median,"));
    let mut text = names.concat();
    text += "n_head,n_kv_head,n_embd,n_expanded_embd,vocab_size,use_gated_mlp,num_tokens,\
             num_tensor_parallel_workers\n";
    for tp in [1, 2] {
        for power in (0..=12).rev() {
            let tokens = 1_u32 << power;
            for (_, constant, per_token) in VIDUR {
                let ms = (constant + per_token * f64::from(tokens)) / f64::from(tp);
                // Means are not read.
                write!(text, "99,{ms},").unwrap();
            }
            writeln!(text, "32,32,4096,11008,32768,True,{tokens},{tp}").unwrap();
        }
    }
    text
}

fn attention_csv() -> String {
    let mut text = "time_stats.attn_prefill.median,time_stats.attn_decode.median,\
        time_stats.attn_output_reshape.median,n_embd,n_q_head,n_kv_head,num_tensor_parallel_workers,\
        batch_size,prefill_chunk_size,kv_cache_size,is_prefill,attention_backend\n"
        .to_owned();
    let of = "4096,32,32,1";
    for chunk in [64, 128, 256, 512, 1024, 2048, 4096_u32] {
        for part in 0..4096 / chunk {
            let cached = part * chunk;
            let ms = prefill_ms(f64::from(chunk), f64::from(cached));
            writeln!(text, "{ms},,0.001,{of},1,{chunk},{cached},True,FLASH").unwrap();
        }
    }
    for sequences in [1, 2, 4, 8, 16, 32, 64, 128_u32] {
        for context in [0, 32, 64, 128, 256, 512, 1024, 2048, 4064_u32] {
            let ms = decode_ms(f64::from(sequences), f64::from(context));
            writeln!(text, ",{ms},0.001,{of},{sequences},0,{context},False,FLASH").unwrap();
        }
    }
    text
}

const VIDUR_FOLDER: &str = "compute/a100/meta-llama/Llama-2-7b-hf";

fn vidur(mlp: &str, attention: &str) -> Cli {
    let file = |name: &str| format!("{VIDUR_FOLDER}/{name}");
    Cli::new().file(&file("mlp.csv"), mlp).file(&file("attention.csv"), attention)
}

fn vidur_table(cli: &Cli) -> LayerTable {
    let profile = LayerProfile::parse(&cli.read("own.toml")).unwrap();
    let options = LayerTableOptions {
        tensor_parallel_size: 1,
        kv_cache_dtype: KvDtype::Auto,
        expert_gpus: None,
        all_reduce: None,
        calibration: Calibration::default(),
    };
    let model = profiles::model("meta-llama/Llama-2-7b-hf").unwrap();
    LayerTable::new(&profile, &model, &options).unwrap()
}

/// What the law says of a step, in ms: 32 layers of operators, two norms and two additions in each.
fn vidur_law(rows: u32, sequences: u32, attention: f64) -> f64 {
    let ms = |index: usize, count: u32| VIDUR[index].1 + VIDUR[index].2 * f64::from(count);
    let products: f64 = [2, 3, 4, 6, 7, 8].map(|index| ms(index, rows)).iter().sum();
    let layer = products + ms(1, rows) + ms(5, rows) + 2.0 * ms(9, rows) + attention;
    // The head has 32,000 outputs, the first product of the MLP 2·11,008.
    let head = ms(6, sequences) * 32_000.0 / 22_016.0;
    32.0 * layer + ms(0, rows) + ms(1, rows) + head
}

#[test]
fn tables_of_vidur_give_back_the_law_they_follow() {
    let cli = vidur(&mlp_csv(), &attention_csv());
    cli.words(&format!(
        "profile import --from vidur {VIDUR_FOLDER} --tolerance 0 --output own.toml"
    ))
    .expect_exit(0)
    .stdout_is_empty()
    .stderr_has("output head: not measured, estimated")
    .stderr_has("sampler: not measured, takes no time");
    let text = cli.read("own.toml");
    assert!(
        text.contains("gpu = \"A100-SXM4-80GB\"") && text.contains("licence = \"MIT\""),
        "{text}"
    );
    let table = vidur_table(&cli);
    let close = |shape: &StepShape, expected: f64| {
        let found = table.step_duration(shape).as_millis_f64();
        assert!((found / expected - 1.0).abs() < 0.005, "{shape:?}: {found} {expected}");
    };
    for (sequences, context) in [(1, 100), (8, 1000), (24, 700), (128, 4000_u32)] {
        let mut shape = StepShape::default();
        (0..sequences).for_each(|_| shape.add_decode(context, 0));
        let attention = decode_ms(f64::from(sequences), f64::from(context)) + 0.001;
        close(&shape, vidur_law(sequences, sequences, attention));
    }
    // Whole prompts, a chunk behind others, and a long prompt behind a cached one, which is not timed.
    for (tokens, cached) in [(512, 0), (4096, 0), (1024, 2048), (128, 3000), (4096, 2048_u32)] {
        let mut shape = StepShape::default();
        shape.add_prefill(tokens, cached, true);
        let attention = prefill_ms(f64::from(tokens), f64::from(cached)) + 0.001;
        close(&shape, vidur_law(tokens, 1, attention));
    }
    // Both at once: rows together, attention one after the other.
    let mut shape = StepShape::default();
    shape.add_prefill(512, 512, true);
    (0..16).for_each(|_| shape.add_decode(500, 0));
    let attention = prefill_ms(512.0, 512.0) + decode_ms(16.0, 500.0) + 0.002;
    close(&shape, vidur_law(528, 17, attention));
}

#[test]
fn all_reduces_of_vidur_become_a_latency_and_a_rate() {
    let mut text = "time_stats.all_reduce.median,num_workers,size\n".to_owned();
    for power in 11..=28 {
        let bytes = 1_u64 << power;
        // 20 us and 100·10⁹ B/s.
        let ms = 0.020 + bytes as f64 / 100e6;
        writeln!(text, "{ms},2,{bytes}\n{},4,{bytes}", 3.0 * ms).unwrap();
    }
    let attention = attention_csv().replace(",32,32,1,", ",32,32,2,");
    let cli = vidur(&mlp_csv(), &attention).file("all_reduce.csv", text);
    let import = format!("profile import --from vidur {VIDUR_FOLDER} --tp 2");
    let own = format!("{import} --all-reduce all_reduce.csv --output own.toml");
    cli.words(&own).expect_exit(0).stderr_has("latency and rate miss them by 0.0 %");
    let text = cli.read("own.toml");
    assert!(text.contains("latency_us = 20.0\ngb_s = 100.0"), "{text}");
    let set = "--set cluster.model=meta-llama/Llama-2-7b-hf --set cluster.gpu=A100 \
               --set cluster.tensor_parallel_size=2 \
               --set cluster.step_time={type=\"layer_table\",profile=\"own.toml\"}";
    let cli = cli.file("s.toml", super::SCENARIO);
    cli.words(&format!("run s.toml --output-dir out {set}")).expect_exit(0).stderr_has("Vidur");
    cli.words(&import.replace("tp 2", "tp 4"))
        .expect_exit(2)
        .stderr_has("mlp.csv: has no row with num_tensor_parallel_workers 4; it has 1, 2");
    let other = format!("{import} --all-reduce {VIDUR_FOLDER}/mlp.csv");
    cli.words(&other).expect_exit(2).stderr_has("has no column `num_workers`");
}

#[test]
fn tables_of_vidur_that_are_not_understood_are_refused() {
    let import = |mlp: &str, attention: &str, flags: &str| {
        let words = format!("profile import --from vidur {VIDUR_FOLDER} {flags}");
        vidur(mlp, attention).words(&words).expect_exit(2)
    };
    let (mlp, attention) = (mlp_csv(), attention_csv());
    import("", &attention, "").stderr_has("mlp.csv: holds no rows");
    import(&mlp, "", "").stderr_has("attention.csv: holds no rows");
    let less = mlp.replace("time_stats.mlp_act.median", "mlp_act");
    import(&less, &attention, "").stderr_has("has no column `time_stats.mlp_act.median`");
    let broken = mlp.replacen("99,0.", "99,x0.", 1);
    import(&broken, &attention, "")
        .stderr_has("line 2: time_stats.emb.median must be a time in ms");
    import(&mlp, &attention, "--model Llama-2-13b-hf")
        .stderr_has("n_embd: meta-llama/Llama-2-13b-hf has 5120, got 4096");
    import(&mlp, &attention, "--model phi-9")
        .stderr_has("`phi-9` is not in the catalogue of models");
    import(&mlp, &attention, "--model mixtral-8x7b-v0.1").stderr_has("has experts");
    import(&mlp, &attention, "--gpu a9000").stderr_has("`a9000` is not in the catalogue of GPUs");
    let two = attention.replacen("FLASH", "OTHER", 1);
    import(&mlp, &two, "").stderr_has("attention_backend: must be one, got OTHER and FLASH");
    let decodes: String =
        attention.split_inclusive('\n').filter(|line| !line.contains("True")).collect();
    import(&mlp, &decodes, "").stderr_has("has no prefills with tensor parallel size 1");
    Cli::new()
        .words("profile import --from vidur a/b/c")
        .expect_exit(2)
        .stderr_has("catalogue of GPUs");
}
