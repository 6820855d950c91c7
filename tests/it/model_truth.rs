//! Sizes of models beside those that engines derive themselves (`model-truth` of the reference data): vLLM 0.33.0 from
//! its model classes, built without weights, SGLang 0.5.23 from its own arithmetic.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use servecast::model::checkpoint::{Checkpoint, Drafts, describes};
use servecast::model::layout::{Machine, SglangLayout, VllmLayout};
use servecast::model::{Generation, KvDtype, ModelError};
use servecast::units::Bytes;

fn data() -> PathBuf {
    PathBuf::from(std::env::var_os("SERVECAST_DATA").expect("SERVECAST_DATA"))
}

const FOLDERS: [&str; 2] = ["model-configs", "model-configs-2026"];

fn file(data: &Path, name: &str, kind: &str) -> Option<String> {
    let path = |folder: &&str| data.join(folder).join(format!("{name}.{kind}.json"));
    FOLDERS.iter().find_map(|folder| fs::read_to_string(path(folder)).ok())
}

/// The checkpoint of a config by the name of its file, if the file is there.
fn checkpoint(data: &Path, name: &str) -> Option<Result<Checkpoint, ModelError>> {
    let config = file(data, name, "config")?;
    let apart = file(data, name, "hf_quant_config");
    Some(Checkpoint::from_hf_config(&config, apart.as_deref(), name))
}

fn configs(data: &Path) -> BTreeSet<String> {
    let files =
        FOLDERS.iter().flat_map(|folder| fs::read_dir(data.join(folder)).expect("a folder"));
    let names = files.map(|file| file.expect("a file").file_name().into_string().expect("a name"));
    names.filter_map(|name| name.strip_suffix(".config.json").map(str::to_owned)).collect()
}

fn machine(line: &Value) -> Machine {
    let is_blackwell = line["gpu"] == "B200";
    Machine {
        generation: if is_blackwell { Generation::Blackwell } else { Generation::Hopper },
        tp: line["tp"].as_u64().expect("a number") as u32,
        kv_cache_dtype: if line["kv_cache_dtype"] == "fp8" { KvDtype::Fp8 } else { KvDtype::Auto },
        draft_tokens: draft_tokens(line),
    }
}

/// What `speculative` says: nothing, or `mtp:` and a number.
fn draft_tokens(line: &Value) -> u32 {
    let said = line["speculative"].as_str();
    let tokens = said.map(|said| said.strip_prefix("mtp:").expect("mtp").parse());
    tokens.map_or(0, |tokens| tokens.expect("a number"))
}

const SMALL: Bytes = Bytes(40 << 30);
const LARGE: Bytes = Bytes(100 << 30);

/// What vLLM's lines and ours say, under the names of the lines.
fn in_vllm(model: &Checkpoint, machine: Machine) -> Value {
    let layout = VllmLayout::of(model, machine);
    let parameters = model.parameters();
    let groups = layout
        .groups
        .iter()
        .map(|group| json!([group.name(), group.layers, group.block_size, group.block_bytes]));
    // What is used of blocks of states, which padding makes as large as others.
    let of_states = layout.groups.iter().filter(|group| group.name() == "MambaSpec");
    let states = of_states.map(|group| group.used_bytes);
    json!({
        "params_total": parameters.total(),
        "params_text": parameters.text,
        "params_active": parameters.active,
        "max_model_len": model.max_position,
        "block_size": layout.block_size,
        "bytes_per_block": layout.bytes_per_block,
        "kv_bytes_per_token_data": layout.kv_bytes_per_token(),
        "state_bytes_per_seq": layout.state_bytes_per_seq,
        "blocks_40gib": layout.blocks(SMALL),
        "blocks_100gib": layout.blocks(LARGE),
        "kv_tokens_40gib": layout.kv_tokens(SMALL),
        "kv_tokens_100gib": layout.kv_tokens(LARGE),
        "max_concurrency_40gib": layout.max_concurrency(SMALL),
        "max_concurrency_100gib": layout.max_concurrency(LARGE),
        "groups": groups.collect::<Vec<_>>(),
        "states": states.collect::<Vec<_>>(),
    })
}

fn in_sglang(model: &Checkpoint, machine: Machine) -> Value {
    let layout = SglangLayout::of(model, machine);
    let (small, large) = (layout.pools(SMALL), layout.pools(LARGE));
    json!({
        "cell_size": layout.cell_size,
        "page_size": layout.page_size,
        "mamba_cache_per_req": Some(layout.state_bytes).filter(|bytes| *bytes > 0),
        "max_total_num_tokens_40gib": small.max_total_num_tokens,
        "max_total_num_tokens_100gib": large.max_total_num_tokens,
        "swa_max_total_num_tokens_40gib": small.swa_max_total_num_tokens,
        "swa_max_total_num_tokens_100gib": large.swa_max_total_num_tokens,
        "max_mamba_cache_size_40gib": small.max_mamba_cache_size,
        "max_mamba_cache_size_100gib": large.max_mamba_cache_size,
        "max_running_requests_40gib": small.max_running_requests,
        "max_running_requests_100gib": large.max_running_requests,
    })
}

/// The same of a line.
fn told(line: &Value, key: &str) -> Value {
    match key {
        "groups" => {
            let group = |group: &Value| {
                json!([group["kind"], group["layers"], group["block_size"], group["block_bytes"]])
            };
            line["groups"].as_array().expect("groups").iter().map(group).collect()
        }
        "states" => {
            let groups = line["groups"].as_array().expect("groups").iter();
            let used = |group: &Value| {
                let whole = |key: &str| group[key].as_u64();
                // It is told where there is padding.
                let page = whole("real_page_bytes").or(whole("page_bytes"));
                Value::from(whole("layers").zip(page).map(|(layers, page)| layers * page))
            };
            groups.filter(|group| group["kind"] == "MambaSpec").map(used).collect()
        }
        // DeepSeek-V4's is told under another name.
        "cell_size" if line["cell_size"].is_null() => line["bytes_per_full_token"].clone(),
        _ => line[key].clone(),
    }
}

/// Whether two values are the same, as numbers where they are some.
fn same(ours: &Value, theirs: &Value) -> bool {
    match (ours.as_f64(), theirs.as_f64()) {
        (Some(ours), Some(theirs)) => (ours - theirs).abs() <= 1e-12 * theirs.abs(),
        _ => ours == theirs,
    }
}

/// What differs from the engine and why it is left so.
///
/// SGLang knows Step-3.7 under another class only, which brings a context of its own.
fn is_left(line: &Value, key: &str) -> bool {
    line["config"] == "stepfun-ai--Step-3.7-Flash" && key.starts_with("max_running_requests")
}

/// Whether the checkpoint of a line is one that its engine starts with, as we say. SGLang's lines are those of its
/// arithmetic alone, which does not ask whether GPUs can share the heads.
fn starts(model: &Checkpoint, line: &Value) -> bool {
    let machine = machine(line);
    match line["engine"].as_str() {
        Some("vllm") => {
            VllmLayout::check(model, machine).is_ok()
                && model.check_tensor_parallel(machine.tp).is_ok()
        }
        _ => SglangLayout::check(model, machine).is_ok(),
    }
}

/// Whether an engine refuses a line because the library that reads configs does not know `model_type`, or only with
/// `--trust-remote-code`: which of these it is hangs on files beside the config, and no layout follows from it.
fn knows_no_type(line: &Value) -> bool {
    let told = line["error"].as_str().unwrap_or_default();
    line["engine"] == "sglang"
        && (told.contains("Transformers does not recognize this architecture")
            || told.contains("trust_remote_code=True"))
}

fn compare(engine: &str) {
    let data = data();
    let text = fs::read_to_string(data.join("model-truth/model-truth.jsonl")).expect("a file");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let mut models = BTreeMap::new();
    let (mut count, mut refused, mut drafting, mut left, mut wrong) = (0, 0, 0, 0, Vec::new());
    for line in lines {
        if line["engine"] != engine {
            continue;
        }
        let name = line["config"].as_str().expect("a name").to_owned();
        let model = models.entry(name.clone()).or_insert_with(|| checkpoint(&data, &name));
        let Some(Ok(model)) = model else {
            wrong.push(format!("{name}: {model:?}"));
            continue;
        };
        if line["status"] != "ok" {
            refused += 1;
            if !knows_no_type(&line) && starts(model, &line) {
                wrong.push(format!("{name} starts: {}", line["error"]));
            }
            continue;
        }
        if !starts(model, &line) {
            wrong.push(format!("{name} does not start at {}", line["tp"]));
        }
        count += 1;
        drafting += usize::from(!line["speculative"].is_null());
        let machine = machine(&line);
        let ours =
            if engine == "vllm" { in_vllm(model, machine) } else { in_sglang(model, machine) };
        let keys = ours.as_object().expect("an object");
        let differing = keys.iter().filter(|(key, ours)| !same(ours, &told(&line, key)));
        let (excused, differing): (Vec<_>, Vec<_>) =
            differing.partition(|(key, _)| is_left(&line, key));
        left += usize::from(!excused.is_empty());
        for (key, ours) in differing {
            let (gpu, tp, kv) = (&line["gpu"], &line["tp"], &line["kv_cache_dtype"]);
            wrong.push(format!("{name} {gpu} {tp} {kv}: {key} {ours}, {}", told(&line, key)));
        }
        if engine == "vllm" {
            let drafts = (model.draft_bytes(machine), "draft_own_bytes_per_gpu");
            let drafts = Some(drafts).filter(|_| machine.draft_tokens > 0);
            let weights = (model.created_bytes(machine), "weight_bytes_per_gpu");
            for (Bytes(bytes), key) in [weights].into_iter().chain(drafts) {
                let ratio = bytes as f64 / line[key].as_f64().expect("bytes");
                if (ratio - 1.0).abs() > 0.001 {
                    wrong.push(format!("{name} {machine:?}: {key} {ratio}"));
                }
            }
        }
    }
    assert!(count > 300, "{count} lines");
    assert_eq!(refused, if engine == "vllm" { 6 } else { 18 }, "lines that are refused");
    assert_eq!(drafting, if engine == "vllm" { 19 } else { 0 }, "lines that draft");
    assert!(wrong.is_empty(), "{} of {count} lines: {}", wrong.len(), wrong.join("\n"));
    assert!(left * 50 <= count, "{left} of {count} are left as they are");
}

#[test]
#[ignore = "needs SERVECAST_DATA"]
fn vllm_lays_models_out_as_told() {
    compare("vllm");
}

#[test]
#[ignore = "needs SERVECAST_DATA"]
fn sglang_lays_models_out_as_told() {
    compare("sglang");
}

#[test]
#[ignore = "needs SERVECAST_DATA"]
fn every_config_is_read() {
    let data = data();
    let names = configs(&data);
    assert!(names.len() >= 86, "{} configs", names.len());
    let read = names.iter().map(|name| checkpoint(&data, name).expect("it is there"));
    let problems: Vec<String> =
        read.filter_map(Result::err).map(|error| error.to_string()).collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Every checkpoint that says it has modules which draft is laid out with them, but those that vLLM has no class for, or
/// not enough in the config.
#[test]
#[ignore = "needs SERVECAST_DATA"]
fn every_module_that_drafts_is_read() {
    let data = data();
    let (mut read, mut unread) = (0, BTreeSet::new());
    for name in configs(&data) {
        let model = checkpoint(&data, &name).expect("it is there").expect("it is read");
        let machine = |tp| Machine {
            generation: Generation::Blackwell,
            tp,
            kv_cache_dtype: KvDtype::Auto,
            draft_tokens: 1,
        };
        match &model.drafts {
            Drafts::None => assert!(VllmLayout::check(&model, machine(1)).is_err(), "{name}"),
            Drafts::Unread { .. } => {
                unread.insert(name);
            }
            Drafts::Read(drafts) => {
                read += 1;
                let layers = drafts.layers.len();
                assert!(layers >= drafts.modules as usize, "{name}: {layers} layers");
                let [one, eight] = [1, 8].map(|tp| model.draft_bytes(machine(tp)).0);
                let whole = model.created_bytes(machine(1)).0;
                assert!(
                    eight < one && one <= 8 * eight && one < whole / 4,
                    "{name}: {one}, {eight}"
                );
            }
        }
    }
    assert!(read >= 30, "{read} are read");
    let known = [
        "MiniMaxAI--MiniMax-M2.5",
        "MiniMaxAI--MiniMax-M2.7",
        "MiniMaxAI--MiniMax-M3",
        "nvidia--MiniMax-M2.5-NVFP4",
        "nvidia--MiniMax-M2.7-NVFP4",
        "stepfun-ai--Step-3.7-Flash",
        "stepfun-ai--Step-3.7-Flash-FP8",
    ];
    assert_eq!(unread, known.map(str::to_owned).into());
}

/// Keys that are read though another value may be the same model: in some families they say again what others say, or
/// are of parts that the model has not. The factor of `YaRN` is one: the positions beside it are stretched already.
const SAID_TWICE: &[&str] = &[
    "attention_k_eq_v",
    "attn_res_block_size",
    "expand",
    "factor",
    "first_k_dense_replace",
    "full_attention_interval",
    "global_head_dim",
    "head_dim",
    "index_skip_topk_offset",
    "index_topk_freq",
    "init_pos_emb_time",
    "intermediate_size",
    "intermediate_size_mlp",
    "max_window_layers",
    "mlp_bias",
    "mm_hidden_size",
    "model_type",
    "moe_layer_freq",
    "moe_router_dtype",
    "moe_shared_expert_overlap",
    "num_key_value_heads",
    "qk_head_dim",
    "sliding_window",
    "time_step_rank",
    "use_qk_norm",
    "use_sliding_window",
    "vocab_size",
];

/// Another value of the same kind, if there is one.
fn changed(value: &Value) -> Option<Value> {
    match value {
        Value::Bool(flag) => Some(Value::Bool(!flag)),
        Value::Number(number) => number.as_u64().map(|number| Value::from(number + 1)),
        Value::String(text) => Some(Value::String(format!("{text}x"))),
        Value::Array(list) => (list.len() > 1).then(|| Value::Array(list[1..].to_vec())),
        Value::Null | Value::Object(_) => None,
    }
}

/// Every key of every config changes the model, is refused, or is known to describe.
#[test]
#[ignore = "needs SERVECAST_DATA"]
fn no_value_is_ignored() {
    let data =
        std::path::PathBuf::from(std::env::var_os("SERVECAST_DATA").expect("SERVECAST_DATA"));
    let mut ignored = std::collections::BTreeSet::new();
    let mut checked = 0;
    for name in configs(&data) {
        let text = file(&data, &name, "config").expect("it is there").replace("Infinity", "1e308");
        let apart = file(&data, &name, "hf_quant_config");
        let read =
            |value: &Value| Checkpoint::from_hf_config(&value.to_string(), apart.as_deref(), "it");
        let config: Value = serde_json::from_str(&text).expect("JSON");
        let model = read(&config).expect("it is read");
        for part in [
            "",
            "text_config",
            "vision_config",
            "rope_scaling",
            "linear_attn_config",
            "sparse_attention_config",
        ] {
            let at = if part.is_empty() { String::new() } else { format!("/{part}") };
            let Some(Value::Object(keys)) = config.pointer(&at) else { continue };
            for (key, value) in keys {
                let Some(other) = changed(value).filter(|_| !describes(key)) else { continue };
                let mut config = config.clone();
                *config.pointer_mut(&format!("{at}/{key}")).expect("it is there") = other;
                checked += 1;
                if read(&config).is_ok_and(|read| read == model) {
                    ignored.insert(key.clone());
                }
            }
        }
    }
    let ignored: Vec<&str> = ignored.iter().map(String::as_str).collect();
    assert!(checked > 1000, "{checked} values");
    assert_eq!(ignored, SAID_TWICE);
}
