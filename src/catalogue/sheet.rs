//! A model or GPU as lines of name and value, every figure with its unit.

use std::fmt;

use serde_json::{Value, json};

use super::on_gpu::{CONTEXT_TOKENS, OnGpu, PROMPT_TOKENS};
use crate::cost::{Numbers, OperatorProfile, StepProfile};
use crate::hardware::GpuSpec;
use crate::model::checkpoint::Indexer;
use crate::model::{Dtype, KvDtype, Mixer, ModelSpec, Module, Reach};
use crate::profiles::Profile;
use crate::units::Bytes;

/// Lines of name and value under a title, and the same as JSON.
#[derive(Debug, Clone, PartialEq)]
pub struct Sheet {
    title: String,
    lines: Vec<(String, String)>,
    json: Value,
}

impl Sheet {
    fn new(title: &str) -> Self {
        Self { title: title.to_owned(), lines: Vec::new(), json: Value::Null }
    }

    /// As JSON.
    pub fn json(&self) -> &Value {
        &self.json
    }

    fn push(&mut self, name: &str, value: impl fmt::Display) {
        self.lines.push((name.to_owned(), value.to_string()));
    }

    /// All figures of a model.
    pub(super) fn of_model(model: &ModelSpec, profile: Option<&Profile<ModelSpec>>) -> Self {
        let mut sheet = Self::new(&model.name);
        sheet.push("architecture", &model.architecture);
        let parameters = model.parameters();
        sheet.push("parameters", billions(parameters.total()));
        sheet.push("active parameters", billions(parameters.active));
        if parameters.vision > 0 {
            sheet.push("encoder of images", billions(parameters.vision));
        }
        sheet.push("layers", model.num_layers());
        sheet.push("hidden", model.hidden);
        sheet.push("vocabulary", format!("{} rows", model.vocab));
        sheet.push("output head", if model.tied_embeddings { "the embedding" } else { "its own" });
        if model.dense_layers() > 0 {
            let width = model.dense_width();
            sheet.push("MLP", format!("width {width} in {} layers", model.dense_layers()));
        }
        if let Some(experts) = model.experts() {
            let (count, chosen, width) = (experts.count, experts.per_token, experts.width);
            let layers = model.sparse_layers();
            let shared = match experts.shared_width {
                0 => String::new(),
                width => format!(", shared experts of width {width}"),
            };
            sheet.push(
                "experts",
                format!("{chosen} of {count} per token, width {width}{shared}, {layers} layers"),
            );
        }
        let mixers = model.distinct_mixers();
        for (mixer, layers) in &mixers {
            let place =
                if mixers.len() == 1 { String::new() } else { format!(", {layers} layers") };
            sheet.push(&mixer.to_string(), format!("{}{place}", shape(mixer)));
        }
        sheet.push("context", format!("{} tokens at most", model.max_position));
        sheet.push("number formats", formats(model));
        sheet.push("weights", model.weight_bytes(1));
        let kv = model.kv_bytes_per_token(1, KvDtype::Auto);
        sheet.push("KV cache per token", format!("{} at 16 bits", Bytes(kv)));
        sheet
            .push("FLOPs per token", format!("{:.3} x 10^9", model.flops_per_token() as f64 / 1e9));
        sheet.json = json!({
            "model": described(model),
            "params_total": parameters.total(),
            "params_active": parameters.active,
            "params_vision": parameters.vision,
            "weights_bytes": model.weight_bytes(1),
            "kv_bytes_per_token": kv,
        });
        sheet.push_origin(profile, "a local config.json");
        sheet
    }

    /// All figures of a GPU.
    pub(super) fn of_gpu(gpu: &GpuSpec, profile: Option<&Profile<GpuSpec>>) -> Self {
        let mut sheet = Self::new(&gpu.name);
        sheet.push("vendor", &gpu.vendor);
        sheet.push("architecture", format!("{}, {}", gpu.architecture, gpu.form_factor));
        let rates = [
            ("16-bit float", Some(gpu.bf16_tflops), "TFLOP/s dense"),
            ("8-bit float", gpu.fp8_tflops, "TFLOP/s dense"),
            ("8-bit integer", gpu.int8_tops, "TOP/s dense"),
            ("4-bit float", gpu.fp4_tflops, "TFLOP/s dense"),
        ];
        for (name, rate, unit) in rates {
            let value = rate.map_or_else(|| "none".to_owned(), |rate| format!("{rate} {unit}"));
            sheet.push(name, value);
        }
        sheet.push("memory", format!("{} as the driver reports it", gpu.memory()));
        sheet.push("memory bandwidth", format!("{} GB/s", gpu.memory_bandwidth_gb_s));
        let (link, rate, domain) = (&gpu.link, gpu.link_gb_s, gpu.gpus_per_domain);
        sheet.push("link", format!("{link}, {rate} GB/s in one direction, {domain} GPUs"));
        sheet.push("host bus", format!("{} GB/s in one direction", gpu.pcie_gb_s));
        if let Some(power) = gpu.tdp_w {
            sheet.push("design power", format!("{power} W"));
        }
        if let Some(price) = &gpu.price {
            let (low, high) = (price.usd_per_hour_low, price.usd_per_hour_high);
            sheet.push("rent", format!("{low} to {high} USD per hour ({})", price.source));
        }
        sheet.push_efficiency(gpu);
        sheet.json = json!({ "gpu": gpu });
        sheet.push_origin(profile, "a file of your own");
        sheet
    }

    fn push_efficiency(&mut self, gpu: &GpuSpec) {
        let kernels = &gpu.efficiency;
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        self.push(
            "matrix products",
            format!(
                "{} of bandwidth, {} of compute, {} us each",
                percent(kernels.gemm_bandwidth),
                percent(kernels.gemm_compute),
                kernels.gemm_overhead_us
            ),
        );
        self.push(
            "attention kernels",
            format!(
                "{} of bandwidth, {} of compute, {} us per layer",
                percent(kernels.attention_bandwidth),
                percent(kernels.attention_compute),
                kernels.attention_overhead_us
            ),
        );
        self.push("expert kernels", format!("{} of bandwidth", percent(kernels.expert_bandwidth)));
        for reduce in &kernels.all_reduce {
            let (latency, bandwidth) = (reduce.latency_us, reduce.bandwidth_gb_s);
            self.push(
                &format!("all-reduce, {} GPUs", reduce.gpus),
                format!("{latency} us + bytes / {bandwidth} GB/s"),
            );
        }
        for gpus in [2, 4, 8].into_iter().filter(|gpus| gpu.reduces_over_pcie(*gpus)) {
            let known = gpu.pcie_all_reduce(gpus);
            let (latency, rate) = (known.assumed.latency_us, known.assumed.bandwidth_gb_s);
            let (slowest, fastest) = (known.slowest_gb_s, known.fastest_gb_s);
            self.push(
                &format!("all-reduce, {gpus} GPUs"),
                format!(
                    "{latency} us + bytes / {rate} GB/s on PCIe; hosts: {slowest} to {fastest} GB/s"
                ),
            );
        }
        self.push("kernels measured on", &kernels.measured_on);
        self.push("kernel figures", &kernels.source);
    }

    /// Says that the catalogue has no checkpoint of this name, and that the model stands for it.
    pub(super) fn push_stands_for(&mut self, name: &str) {
        self.push("stands for", name);
        self.json["stands_for"] = json!(name);
    }

    /// Where figures are from; `local` is said of those of a file of the user's own.
    fn push_origin<T>(&mut self, profile: Option<&Profile<T>>, local: &str) {
        let Some(profile) = profile else {
            self.push("source", local);
            return;
        };
        if !profile.aliases.is_empty() {
            self.push("also named", profile.aliases.join(", "));
        }
        self.push("source", &profile.source);
        if let Some(licence) = &profile.licence {
            self.push("licence", licence);
        }
        self.push("confidence", format!("{}, checked {}", profile.confidence, profile.checked));
        self.json["aliases"] = json!(profile.aliases);
        self.json["source"] = json!(profile.source);
        self.json["licence"] = json!(profile.licence);
        self.json["confidence"] = json!(profile.confidence);
        self.json["checked"] = json!(profile.checked);
    }

    /// What a step table holds.
    pub(super) fn of_steps(name: &str, profile: &StepProfile) -> Self {
        let mut sheet = Self::new(name);
        sheet.push("model", format!("{}, {}", profile.model, profile.dtype));
        sheet.push("gpu", format!("{} x {}", profile.tensor_parallel_size, profile.gpu));
        sheet.push("engine", format!("{} {}", profile.engine, profile.engine_version));
        let span = |points: &Numbers, us: &Numbers| {
            let [first, last] = [points.first(), points.last()].map(|p| p.unwrap_or(&0));
            let [low, high] = [us.first(), us.last()].map(|us| *us.unwrap_or(&0) as f64 / 1e3);
            format!("{first} to {last}: {low:.1} to {high:.1} ms")
        };
        let StepProfile { one_prompt, prompts, decode, decode_context, .. } = profile;
        sheet.push("one prompt", format!("tokens {}", span(&one_prompt.tokens, &one_prompt.us)));
        sheet.push(
            &format!("prompts of {}", prompts.prompt_tokens),
            format!("together {}", span(&prompts.prompts, &prompts.us)),
        );
        sheet.push(
            &format!("decode at {}", decode.context),
            format!("sequences {}", span(&decode.sequences, &decode.us)),
        );
        sheet.push(
            "decode of one",
            format!("context {}", span(&decode_context.context, &decode_context.us)),
        );
        sheet.push("source", &profile.source);
        sheet.push("licence", &profile.licence);
        sheet.push("date", &profile.measured);
        sheet.json = json!({
            "cost": name,
            "model": profile.model,
            "gpu": profile.gpu,
            "tensor_parallel_size": profile.tensor_parallel_size,
            "dtype": profile.dtype,
            "engine": profile.engine,
            "version": profile.engine_version,
            "source": profile.source,
            "licence": profile.licence,
            "date": profile.measured,
        });
        sheet
    }

    /// What an operator table holds.
    pub(super) fn of_operators(name: &str, profile: &OperatorProfile) -> Self {
        let mut sheet = Self::new(name);
        sheet.push("gpu", &profile.gpu);
        sheet.push("kernels of", format!("{} {}", profile.engine, profile.version));
        let span = |grid: &[u32]| {
            let ends = (grid.first().unwrap_or(&0), grid.last().unwrap_or(&0));
            format!("{} to {}", ends.0, ends.1)
        };
        for table in &profile.products {
            let (rows, sides) = (span(&table.rows), span(&table.outputs));
            sheet.push("products", format!("{}: {rows} rows, {sides} outputs", table.dtype));
        }
        for table in &profile.decode_attention {
            sheet.push(
                "decode attention",
                format!(
                    "{} shapes of {}-element heads, {} cache: {} sequences, {} tokens",
                    table.heads.len(),
                    table.head_dim,
                    table.kv_dtype,
                    span(&table.sequences),
                    span(&table.contexts)
                ),
            );
        }
        for table in &profile.prefill_attention {
            let (shapes, dim) = (table.heads.len(), table.head_dim);
            let (prompts, tokens) = (span(&table.prompts), span(&table.tokens));
            let line = format!(
                "{shapes} shapes of {dim}-element heads: {prompts} prompts, {tokens} tokens"
            );
            sheet.push("prefill attention", line);
        }
        for table in &profile.experts {
            let (shapes, rows) = (table.shapes.len(), span(&table.rows));
            let line = format!("{}: {shapes} shapes, {rows} rows", table.dtype);
            sheet.push("experts", format!("{line}, {}", table.distribution));
        }
        for table in &profile.all_reduce {
            let ends = (table.bytes.first().unwrap_or(&0), table.bytes.last().unwrap_or(&0));
            sheet.push("all-reduce", format!("{} GPUs: {} to {} B", table.gpus, ends.0, ends.1));
        }
        sheet.push("source", &profile.source);
        sheet.push("licence", &profile.licence);
        sheet.push("date", &profile.date);
        sheet.json = json!({
            "cost": name,
            "gpu": profile.gpu,
            "engine": profile.engine,
            "version": profile.version,
            "source": profile.source,
            "licence": profile.licence,
            "date": profile.date,
        });
        sheet
    }

    /// What a model costs on a GPU.
    pub(super) fn push_on_gpu(&mut self, pair: &OnGpu) {
        self.push("", "");
        self.push("on", format!("{} x {}, vLLM's defaults", pair.tensor_parallel_size, pair.gpu));
        self.push("weights per GPU", pair.kv.weights);
        self.push("activations, graphs", format!("{} (estimate)", pair.kv.reserve));
        self.push("KV per token and GPU", pair.kv_per_token());
        let (blocks, size) = (pair.kv.blocks, pair.block_size);
        let tokens = pair.kv.tokens(size);
        self.push("KV blocks", format!("{blocks} of {size} tokens: {tokens} tokens"));
        for (sequences, time) in &pair.decode {
            self.push(
                &format!("decode step of {sequences}"),
                format!("{:.2} ms at {CONTEXT_TOKENS} tokens of context", time.as_millis_f64()),
            );
        }
        let prefill = pair.prefill.as_millis_f64();
        self.push("prefill", format!("{prefill:.2} ms for {PROMPT_TOKENS} tokens"));
        self.push("step times", format!("{}; not calibrated against a run", pair.provenance));
        self.json["on_gpu"] = pair.json();
    }
}

impl fmt::Display for Sheet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const USUAL: usize = 22;
        let longest = self.lines.iter().map(|(name, _)| name.len() + 2).max();
        let width = longest.unwrap_or(0).max(USUAL);
        writeln!(f, "{}", self.title)?;
        for (name, value) in &self.lines {
            writeln!(f, "{}", format!("  {name:<width$}{value}").trim_end())?;
        }
        Ok(())
    }
}

/// A count in billions.
pub(super) fn billions(count: u64) -> String {
    format!("{:.2} x 10^9", count as f64 / 1e9)
}

/// Heads and what is cached.
fn shape(mixer: &Mixer) -> String {
    match mixer {
        Mixer::Grouped(grouped) => {
            let reach = match grouped.reach {
                Reach::Full => String::new(),
                Reach::Window(tokens) => format!(", the latest {tokens} tokens"),
                Reach::Chunk(tokens) => format!(", chunks of {tokens} tokens"),
            };
            let chosen = chosen(grouped.indexer);
            format!(
                "{} heads, {} KV heads, {} elements each{reach}{chosen}",
                grouped.heads, grouped.kv_heads, grouped.head_dim
            )
        }
        Mixer::Latent(latent) => format!(
            "MLA, {} heads, {} + {} cached elements per token and layer{}",
            latent.heads,
            latent.kv_lora_rank,
            latent.qk_rope_head_dim,
            chosen(latent.indexer)
        ),
        Mixer::Compressed(compressed) => format!(
            "{} heads of {} elements, the latest {} tokens, {}{}",
            compressed.heads,
            compressed.head_dim,
            compressed.window,
            match compressed.ratio {
                0 => "nothing before".to_owned(),
                ratio => format!("one entry for {ratio} tokens before"),
            },
            chosen(compressed.indexer)
        ),
        Mixer::Delta(delta) => format!(
            "{} heads with a state of {} x {} elements",
            delta.value_heads, delta.key_dim, delta.value_dim
        ),
        Mixer::KimiDelta(delta) => format!(
            "{} heads with a state of {} x {} elements",
            delta.heads, delta.head_dim, delta.head_dim
        ),
        Mixer::Selective(selective) => {
            format!("{} channels with {} elements each", selective.channels, selective.state)
        }
        Mixer::ShortConv(conv) => {
            format!("{} channels, {} tokens", conv.channels, conv.conv_kernel)
        }
        Mixer::StateSpace(state) => format!(
            "{} heads with a state of {} x {} elements",
            state.heads, state.head_dim, state.state
        ),
    }
}

fn chosen(indexer: Option<Indexer>) -> String {
    indexer.map_or_else(String::new, |indexer| format!(", an indexer chooses {}", indexer.tokens))
}

/// A model in JSON.
fn described(model: &ModelSpec) -> Value {
    let mixers = model.distinct_mixers();
    let mixer = |(mixer, layers): &(Mixer, u32)| json!({ "kind": mixer.to_string(), "layers": layers, "shape": shape(mixer) });
    json!({
        "name": model.name,
        "architecture": model.architecture,
        "layers": model.num_layers(),
        "hidden": model.hidden,
        "vocab": model.vocab,
        "tied_embeddings": model.tied_embeddings,
        "max_position": model.max_position,
        "mixers": mixers.iter().map(mixer).collect::<Value>(),
        "dense_layers": model.dense_layers(),
        "sparse_layers": model.sparse_layers(),
        "experts": model.experts().map(|experts| experts.count),
        "experts_per_token": model.experts().map(|experts| experts.per_token),
        "formats": formats(model),
    })
}

/// The number format of the weights, and that of what is quantised.
fn formats(model: &ModelSpec) -> String {
    let plain = match model.dtype {
        Dtype::Bfloat16 => "bfloat16",
        Dtype::Float16 => "float16",
    };
    let modules =
        [Module::Attention, Module::Mlp, Module::Experts, Module::SharedExperts, Module::LmHead];
    let mut packings: Vec<(&str, Vec<&str>)> = Vec::new();
    for module in modules {
        let Some(packing) = model.packing_of_module(module) else { continue };
        let name = match module {
            Module::Attention => "attention",
            Module::Mlp => "mlp",
            Module::Experts => "experts",
            Module::SharedExperts => "shared_experts",
            _ => "lm_head",
        };
        match packings.iter_mut().find(|(other, _)| *other == packing.name()) {
            Some((_, names)) => names.push(name),
            None => packings.push((packing.name(), vec![name])),
        }
    }
    let packed =
        packings.iter().map(|(packing, names)| format!("; {packing} in {}", names.join(", ")));
    plain.to_owned() + &packed.collect::<String>()
}
