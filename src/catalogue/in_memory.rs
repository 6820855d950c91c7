//! How an engine lays out a checkpoint in the memory of GPUs.

use std::fmt::{self, Write as _};
use std::path::Path;

use serde_json::{Value, json};

use super::CatalogueError;
use super::sheet::billions;
use crate::load;
use crate::model::checkpoint::Drafts;
use crate::model::layout::{
    CacheGroup, Machine, Refusal, RefusedSetting, SglangLayout, VllmLayout,
};
use crate::model::{Generation, KvDtype, ModelSpec};
use crate::problem::Problem;
use crate::units::Bytes;

/// The engine whose layout is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayoutEngine {
    /// vLLM 0.33.
    Vllm,
    /// SGLang 0.5.23.
    Sglang,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LayoutQuestion<'a> {
    /// The engine.
    pub engine: LayoutEngine,
    /// The GPU, by a name of the catalogue or a file.
    pub gpu: &'a str,
    /// GPUs that share each layer.
    pub tp: u32,
    /// What keys and values are to be stored in.
    pub kv_cache_dtype: KvDtype,
    /// Tokens that layers which draft (multi-token prediction) add to each step of a sequence; 0 for none.
    pub draft_tokens: u32,
    /// Memory for caches on each GPU; those of 40 and 100 GiB if absent.
    pub kv_memory: Option<Bytes>,
}

/// A checkpoint in the memory of GPUs, as a table and as JSON.
#[derive(Debug, Clone, PartialEq)]
pub struct InMemory {
    lines: Vec<(String, String)>,
    json: Value,
}

impl InMemory {
    /// As JSON, under the names that the engines use.
    pub fn json(&self) -> &Value {
        &self.json
    }

    /// The layout of the checkpoint of a local `config.json`.
    ///
    /// # Errors
    /// When there is no such file or GPU, the file cannot be read, GPUs cannot share the model, or the engine does not
    /// start with it.
    pub fn of(name: &str, question: LayoutQuestion<'_>) -> Result<Self, CatalogueError> {
        let here = Path::new("");
        let Some(model) = load::checkpoint("", name, here)? else {
            let what = format!(
                "`{name}` is not a local config.json; layouts are read from the checkpoint's own files"
            );
            return Err(Problem::new("", what).into());
        };
        let Some(gpu) = load::gpu("--gpu", question.gpu, here)? else {
            return Err(Problem::new(
                "--gpu",
                format!("`{}` is not a GPU of the catalogue", question.gpu),
            )
            .into());
        };
        let generation = gpu.card().generation;
        if !matches!(generation, Generation::Hopper | Generation::Blackwell) {
            let what = format!(
                "layouts are known on data-centre GPUs of Hopper and Blackwell (H100, H200, B200, B300 and \
                 their kin), not on {}",
                gpu.name
            );
            return Err(Problem::new("--gpu", what).into());
        }
        model.check_tensor_parallel(question.tp).map_err(|what| Problem::new("--tp", what))?;
        let machine = Machine {
            generation,
            tp: question.tp,
            kv_cache_dtype: question.kv_cache_dtype,
            draft_tokens: question.draft_tokens,
        };
        let checked = match question.engine {
            LayoutEngine::Vllm => VllmLayout::check(&model, machine),
            LayoutEngine::Sglang => SglangLayout::check(&model, machine),
        };
        checked.map_err(|refusal| problem_of(&refusal))?;
        let mut sheet = Self { lines: Vec::new(), json: json!({}) };
        sheet.push_model(&model, machine);
        match question.engine {
            LayoutEngine::Vllm => {
                sheet.push_vllm(&VllmLayout::of(&model, machine), question.kv_memory);
            }
            LayoutEngine::Sglang => {
                let layout = SglangLayout::of(&model, machine);
                if layout.cell_size <= 0.0 {
                    let what = "its pools hold tokens, and this model keeps states alone";
                    return Err(Problem::new("--engine sglang", what).into());
                }
                sheet.push_sglang(&layout, question.kv_memory);
            }
        }
        Ok(sheet)
    }

    fn push(&mut self, key: &str, value: impl Into<Value>, name: &str, text: impl fmt::Display) {
        self.json[key] = value.into();
        self.lines.push((name.to_owned(), text.to_string()));
    }

    fn push_model(&mut self, model: &ModelSpec, machine: Machine) {
        self.lines.push(("model".to_owned(), format!("{}, {}", model.name, model.architecture)));
        self.json["architecture"] = model.architecture.clone().into();
        let parameters = model.parameters();
        self.push("params_total", parameters.total(), "parameters", billions(parameters.total()));
        self.push(
            "params_active",
            parameters.active,
            "active parameters",
            billions(parameters.active),
        );
        if parameters.vision > 0 {
            self.push(
                "params_vision",
                parameters.vision,
                "encoder of images",
                billions(parameters.vision),
            );
        }
        self.push(
            "max_model_len",
            model.max_position,
            "context",
            format!("{} tokens at most", model.max_position),
        );
        for (mixer, count) in model.mixers() {
            self.lines.push((mixer, format!("{count} layers")));
        }
        let bytes = model.created_bytes(machine).0;
        self.push("weight_bytes_per_gpu", bytes, "weights per GPU", Bytes(bytes));
        self.push_drafts(model, machine);
    }

    fn push_drafts(&mut self, model: &ModelSpec, machine: Machine) {
        let modules = match &model.drafts {
            Drafts::None => return,
            Drafts::Unread { modules, .. } => *modules,
            Drafts::Read(drafts) => drafts.modules,
        };
        if machine.draft_tokens == 0 {
            self.push(
                "draft_modules",
                modules,
                "modules that draft",
                format!("{modules}, left out"),
            );
            return;
        }
        let tokens = machine.draft_tokens;
        self.push("draft_modules", modules, "modules that draft", modules);
        self.push("speculative", format!("mtp:{tokens}"), "drafted tokens", tokens);
        let bytes = model.draft_bytes(machine).0;
        self.push("draft_own_bytes_per_gpu", bytes, "their weights per GPU", Bytes(bytes));
    }

    fn push_vllm(&mut self, layout: &VllmLayout, memory: Option<Bytes>) {
        self.push(
            "block_size",
            layout.block_size,
            "block",
            format!("{} tokens", layout.block_size),
        );
        self.push(
            "bytes_per_block",
            layout.bytes_per_block,
            "block of any group",
            Bytes(layout.bytes_per_block),
        );
        let per_token = layout.kv_bytes_per_token();
        self.push(
            "kv_bytes_per_token_data",
            whole(per_token),
            "KV cache per token",
            format!("{per_token} B"),
        );
        let state = layout.state_bytes_per_seq;
        self.push("state_bytes_per_seq", state, "states per sequence", Bytes(state));
        self.json["groups"] = layout.groups.iter().map(group_json).collect();
        self.json["num_groups"] = layout.groups.len().into();
        for group in &layout.groups {
            let (layers, block, bytes) = (group.layers, group.block_size, Bytes(group.block_bytes));
            let padding = Bytes(group.block_bytes.saturating_sub(group.used_bytes));
            let padding =
                if padding.0 > 0 { format!(", {padding} of it padding") } else { String::new() };
            self.lines.push((
                group.name().to_owned(),
                format!("{layers} layers, blocks of {block} tokens and {bytes}{padding}"),
            ));
        }
        for (suffix, memory) in memories(memory) {
            let (blocks, tokens) = (layout.blocks(memory), layout.kv_tokens(memory));
            self.push(&format!("blocks{suffix}"), blocks, &format!("blocks in {memory}"), blocks);
            let text = tokens.map_or(
                "none: one request of the longest context does not fit".to_owned(),
                |tokens| tokens.to_string(),
            );
            self.push(&format!("kv_tokens{suffix}"), tokens, &format!("tokens in {memory}"), text);
            let concurrency = layout.max_concurrency(memory);
            self.json[format!("max_concurrency{suffix}")] = concurrency.into();
        }
    }

    fn push_sglang(&mut self, layout: &SglangLayout, memory: Option<Bytes>) {
        self.push("page_size", layout.page_size, "page", format!("{} tokens", layout.page_size));
        let cell = layout.cell_size;
        self.push("cell_size", whole(cell), "KV cache per token", format!("{cell} B"));
        self.json["pool_kv_cache_dtype"] =
            if layout.kv_cache_dtype.is_auto() { "auto" } else { "fp8" }.into();
        if layout.state_bytes > 0 {
            let bytes = layout.state_bytes;
            self.push("mamba_cache_per_req", bytes, "states per request", Bytes(bytes));
        }
        for (suffix, memory) in memories(memory) {
            let pools = layout.pools(memory);
            let mut push = |key: &str, value: u64, what: &str| {
                self.push(&format!("{key}{suffix}"), value, &format!("{what} in {memory}"), value);
            };
            push("max_total_num_tokens", pools.max_total_num_tokens, "tokens");
            if let Some(tokens) = pools.swa_max_total_num_tokens {
                push("swa_max_total_num_tokens", tokens, "tokens of windows");
            }
            if let Some(slots) = pools.max_mamba_cache_size {
                push("max_mamba_cache_size", slots, "slots of states");
            }
            push("max_running_requests", pools.max_running_requests, "requests at once");
        }
    }
}

fn problem_of(refusal: &Refusal) -> Problem {
    let setting = match refusal.setting {
        RefusedSetting::TensorParallel => "--tp",
        RefusedSetting::KvCacheDtype => "--kv-cache-dtype",
        RefusedSetting::Drafts => "--speculative",
    };
    Problem::new(setting, refusal.to_string())
}

/// The memories asked for, and how figures of each end.
fn memories(given: Option<Bytes>) -> Vec<(String, Bytes)> {
    const USUAL: [u64; 2] = [40, 100];
    match given {
        None => USUAL.map(|gib| (format!("_{gib}gib"), Bytes(gib << 30))).to_vec(),
        Some(bytes) => {
            let gib = bytes.as_gib();
            let name = if gib.fract() == 0.0 { format!("_{gib}gib") } else { String::new() };
            vec![(name, bytes)]
        }
    }
}

/// A whole number where it is one.
fn whole(value: f64) -> Value {
    if value.fract() == 0.0 { Value::from(value as u64) } else { Value::from(value) }
}

fn group_json(group: &CacheGroup) -> Value {
    let per_token = group.kind.keeps_all() || group.kind.window().is_some();
    let bytes = group.block_bytes as f64 / f64::from(group.block_size);
    json!({
        "kind": group.name(),
        "layers": group.layers,
        "block_size": group.block_size,
        "page_bytes": group.page_bytes.filter(|_| !group.is_mixed),
        "block_bytes": group.block_bytes,
        "used_bytes": group.used_bytes,
        "bytes_per_token": if per_token { whole(bytes) } else { Value::Null },
        "window": group.kind.window(),
    })
}

impl fmt::Display for InMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let mut text = String::new();
        for (name, value) in &self.lines {
            writeln!(text, "{name:width$}  {value}")?;
        }
        f.write_str(&text)
    }
}
