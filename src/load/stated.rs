//! What is said of a scenario before it is run.

use super::{Listener, Note};
use crate::cost::StepTime;
use crate::engine::scheduler::EngineSettings;
use crate::profiles;
use crate::resolved::{HostBasis, KvSource, ReplicaGroup, Scenario, ServerClass, Unstated};
use crate::scenario::{Calibration, EngineConfig, ReplicaRole, StepTimeConfig};

/// Says what is simulated, and the engines' memory.
pub fn state_setting(scenario: &Scenario, listener: &Listener) {
    let models = scenario.models.join(", ");
    if scenario.lists_groups() {
        say(listener, format!("{}: {models} on {} GPUs", scenario.name, scenario.gpus()));
        for group in &scenario.groups {
            let (count, parallel) = (group.replicas(), parallel(group));
            let word = if count == 1 { "replica" } else { "replicas" };
            let (name, gpu) = (group.name(), &group.gpu.name);
            let role = group.role.name();
            let of_model = match scenario.models.len() {
                1 => String::new(),
                _ => format!(" of {}", group.model.name),
            };
            say(
                listener,
                format!("  {name}: {count} {role} {word}{of_model} on {gpu}, {parallel}"),
            );
            state_memory(group, "  ", listener);
            state_drafts(group, "  ", listener);
            state_host(group, "  ", listener);
        }
    } else {
        let group = scenario.first();
        let (gpus, gpu) = (scenario.gpus(), &group.gpu.name);
        let replicas = scenario.replicas();
        let word = if replicas == 1 { "replica" } else { "replicas" };
        let of_role = |role| scenario.groups.iter().find(|group| group.role == role);
        let roles = of_role(ReplicaRole::Prefill).zip(of_role(ReplicaRole::Decode));
        let roles = roles.map_or_else(String::new, |(prefill, decode)| {
            format!(", {} prefill and {} decode", prefill.replicas(), decode.replicas())
        });
        let parallel = parallel(group);
        say(
            listener,
            format!(
                "{}: {models} on {gpus} {gpu} ({replicas} {word}{roles}, {parallel})",
                scenario.name
            ),
        );
        state_memory(group, "", listener);
        state_drafts(group, "", listener);
        state_host(group, "", listener);
    }
    for (place, name) in scenario.models.iter().enumerate() {
        let mut groups = scenario.groups.iter().filter(|group| group.serves.index() == place);
        let bounded = groups.find(|group| keeps_too_much(group));
        let Some(window) = bounded.and_then(|group| group.model.window()) else { continue };
        let of_model =
            if scenario.models.len() == 1 { String::new() } else { format!(" of {name}") };
        say(
            listener,
            format!(
                "  sliding window of {} tokens in {} layers{of_model}: counted in attention times; KV memory holds \
             their whole contexts, where the engine holds less",
                window.tokens, window.layers
            ),
        );
    }
}

/// What makes drafts, and what it takes.
fn state_drafts(group: &ReplicaGroup, indent: &str, listener: &Listener) {
    let Some(speculation) = group.speculation() else { return };
    let (Some(drafter), Some(method)) = (&group.drafter, speculation.name) else { return };
    let (drafts, name) = (speculation.drafts, &drafter.model.name);
    let words = if drafts == 1 { "draft a step, made" } else { "drafts a step, each made" };
    say(
        listener,
        format!(
            "{indent}  speculation: {drafts} {words} in a pass of its own through {name} ({method}), whose weights \
             are {} per GPU",
            drafter.weights
        ),
    );
}

/// Which processes of a server take time.
fn state_host(group: &ReplicaGroup, indent: &str, listener: &Listener) {
    let host = HostBasis::of(group);
    if matches!(host, HostBasis::Measured { .. }) {
        let text = format!("{indent}  host: {host}; cluster.host = \"none\" leaves them out");
        say(listener, text);
    }
}

fn say(listener: &Listener, text: String) {
    listener.tell(&Note::Remark(text));
}

/// Whether layers with a window keep more in KV memory than in the engine.
fn keeps_too_much(group: &ReplicaGroup) -> bool {
    let model = &group.model;
    let has_only_windows = model.window().is_some_and(|window| window.layers == model.num_layers());
    match &group.cluster.engine {
        EngineConfig::VllmV1(vllm) => {
            !vllm.disable_hybrid_kv_cache_manager && group.windows().is_none()
        }
        EngineConfig::Sglang(sglang) => has_only_windows && !sglang.disable_hybrid_swa_memory,
        _ => false,
    }
}

/// How the GPUs of a replica share a model.
fn parallel(group: &ReplicaGroup) -> String {
    let tp = group.cluster.tensor_parallel_size;
    let spread = group.cluster.expert_parallel.and_then(|parallel| parallel.size);
    let stages = match group.cluster.pipeline_parallel_size {
        1 => String::new(),
        stages => format!(", PP {stages}"),
    };
    let ranks = match group.cluster.data_parallel_size {
        1 => String::new(),
        ranks => format!(", DP {ranks}"),
    };
    let spread = spread.map_or_else(String::new, |size| format!(", EP {size}"));
    format!("TP {tp}{stages}{ranks}{spread}")
}

fn state_memory(group: &ReplicaGroup, indent: &str, listener: &Listener) {
    let KvSource::Derived(kv) = group.kv else { return };
    let memory = group.gpu.memory();
    let whose = if group.cluster.data_parallel_size > 1 { "rank" } else { "replica" };
    let adapters = match kv.adapters.0 {
        0 => String::new(),
        _ => format!(", slots of adapters {}", kv.adapters),
    };
    let (weights, reserve) = (kv.weights, kv.reserve);
    if let (EngineConfig::Sglang(sglang), EngineSettings::Sglang(settings)) =
        (&group.cluster.engine, &group.settings)
    {
        say(
            listener,
            format!(
                "{indent}  KV cache: {} tokens per {whose}, derived from {memory} of GPU memory: weights \
             {weights}{adapters}, {reserve} kept free by mem_fraction_static {} (estimate)",
                settings.max_total_tokens,
                sglang.mem_fraction_static.unwrap_or_default()
            ),
        );
    } else {
        say(
            listener,
            format!(
                "{indent}  KV cache: {} blocks per {whose}, derived from {memory} of GPU memory: weights \
             {weights}{adapters}, activations and graphs {reserve} (estimate)",
                kv.blocks
            ),
        );
    }
}

/// Says what prices the steps, and what of it is a stand-in.
pub fn state_step_times(scenario: &Scenario, costs: &[StepTime], listener: &Listener) {
    let is_listed = scenario.lists_groups();
    for (group, cost) in scenario.groups.iter().zip(costs) {
        let whose = if is_listed { format!(" of {}", group.name()) } else { String::new() };
        state_step_time(group, cost, &whose, listener);
        if !is_listed {
            return;
        }
    }
}

fn state_step_time(group: &ReplicaGroup, cost: &StepTime, whose: &str, listener: &Listener) {
    let config = &group.cluster.step_time;
    if matches!(config, StepTimeConfig::Linear { .. }) {
        return;
    }
    let why = match config {
        StepTimeConfig::Roofline { .. } => {
            let has_table = profiles::operator_tables()
                .iter()
                .any(|table| table.gpu().eq_ignore_ascii_case(&group.gpu.name));
            if has_table { "" } else { " (no operator table of this GPU)" }
        }
        _ => "",
    };
    let calibrated = match (group.class, config) {
        (Some(class), _) => expected(class, group.server),
        (
            None,
            StepTimeConfig::OperatorTable { calibration, .. }
            | StepTimeConfig::Roofline { calibration, .. },
        ) if !calibration.is_neutral() => {
            if group.is_calibrated { "calibrated" } else { "with factors set in the scenario" }
                .to_owned()
        }
        _ => "not calibrated against a run".to_owned(),
    };
    say(listener, format!("  step times{whose}: {}{why}; {calibrated}", cost.provenance()));
}

/// What is expected of servers of a class, beyond their kernels.
fn expected(class: ServerClass, server: Unstated) -> String {
    let neutral = Calibration::default();
    let factors = class.prior().factors_of(server);
    let factors = factors.entries().into_iter().zip(neutral.entries());
    let changed = factors.filter(|((_, factor), (_, one))| factor.to_bits() != one.to_bits());
    let rounded = |factor: f64| (factor * 1e4).round() / 1e4;
    let changed: Vec<String> =
        changed.map(|((key, factor), _)| format!("{key} {}", rounded(factor))).collect();
    if changed.is_empty() {
        return "not calibrated against a run".to_owned();
    }
    let (server, changed) = (server.title(), changed.join(", "));
    format!("times what they take alone, as on {server} in published runs ({changed})")
}
