//! How a server is spread over GPUs: its replicas, their stages and ranks, and the GPUs of each.

use std::fmt::Display;

use serde_json::Value;

use super::command;
use super::engine;
use super::record::{Record, count, switch};
use super::skip::{self, Skip};
use crate::model::ModelSpec;
use crate::scenario::{ExpertParallelConfig, RouterConfig};

/// GPUs of a node of the servers that are told of.
const GPUS_PER_NODE: u32 = 8;

/// What a record says of it. What it does not say is absent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Parallel {
    tensor: Option<u32>,
    pipeline: Option<u32>,
    data: Option<u32>,
    /// Ranks with as many GPUs each as tensor parallelism says, as `AIConfigurator` counts them.
    attention_ranks: Option<u32>,
    /// GPUs that share each expert, as `AIConfigurator` counts them.
    expert_tensor: Option<u32>,
    dp_attention: Option<bool>,
    /// Whether experts are whole on each GPU, and over how many they are spread, 1 for experts that are
    /// cut; over all of them where only the first is said.
    spreads_experts: Option<bool>,
    experts_over: Option<u32>,
}

/// A cluster that serves alike.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Layout {
    /// Engines that know nothing of each other.
    pub(super) replicas: u32,
    /// GPUs of a rank of a stage.
    pub(super) tensor: u32,
    pub(super) stages: u32,
    /// Ranks of a replica in lock step.
    pub(super) ranks: u32,
    pub(super) expert_parallel: Option<ExpertParallelConfig>,
    pub(super) router: RouterConfig,
}

/// What data parallelism of an engine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Data {
    Replicas(u32),
    /// With as many GPUs each as tensor parallelism says.
    Ranks(u32),
    /// Which share the GPUs that tensor parallelism says.
    Shares(u32),
}

impl Parallel {
    /// Takes a flag or field, if it is about parallelism; `unread` tells that its value is not known.
    pub(super) fn take(
        &mut self,
        key: &str,
        value: &Value,
        unread: impl Fn() -> Skip + Copy,
    ) -> Result<bool, Skip> {
        let whole = || count(value).ok_or_else(unread);
        let several = || count(value).filter(|many| *many > 0).ok_or_else(unread);
        let on = || switch(value).ok_or_else(unread);
        match key {
            "tp" | "tp_size" | "tensor_parallel_size" => {
                tell(&mut self.tensor, whole()?, "tensor parallelism")?;
            }
            "pp" | "pp_size" | "pipeline_parallel_size" => {
                tell(&mut self.pipeline, several()?, "pipeline parallelism")?;
            }
            "dp" | "dp_size" | "data_parallel_size" => {
                tell(&mut self.data, several()?, "data parallelism")?;
            }
            "attention_dp_size" => {
                tell(&mut self.attention_ranks, several()?, "data-parallel attention")?;
            }
            "moe_tp_size" => {
                tell(&mut self.expert_tensor, several()?, "tensor parallelism of experts")?;
            }
            "enable_dp_attention" | "dp_attention" => {
                tell(&mut self.dp_attention, on()?, "data-parallel attention")?;
            }
            // 0 and 1: no experts, or experts that are cut.
            "ep" | "ep_size" | "expert_parallel_size" | "moe_ep_size" => {
                tell(&mut self.experts_over, whole()?.max(1), "expert parallelism")?;
            }
            "enable_expert_parallel" | "expert_parallel" => {
                tell(&mut self.spreads_experts, on()?, "expert parallelism")?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// How the experts are spread over the GPUs of a replica; nothing where they are cut.
    fn experts(&self, gpus: u64) -> Result<Option<ExpertParallelConfig>, Skip> {
        let size = match (self.spreads_experts, self.experts_over) {
            (Some(false), Some(over @ 2..)) => {
                let what = format!("experts over {over} GPUs without expert parallelism");
                return Err(Skip::Contradiction(what));
            }
            (Some(true), Some(1)) if gpus > 1 => {
                let what = format!("expert parallelism over 1 GPU of {gpus}");
                return Err(Skip::Contradiction(what));
            }
            (Some(false), _) | (None, None | Some(..=1)) => return Ok(None),
            (Some(true) | None, over) => over.filter(|over| *over > 1),
        };
        Ok(Some(ExpertParallelConfig { size, ..ExpertParallelConfig::default() }))
    }

    /// The cluster that serves alike.
    pub(super) fn layout(&self, record: &Record, model: &ModelSpec) -> Result<Layout, Skip> {
        let counted_once = self.counted_once();
        let this = counted_once.as_ref().unwrap_or(self);
        this.layout_as_told(record, model)
    }

    /// The same where `AIConfigurator`'s dumps of `InferenceX` count GPUs twice: a server with N GPUs over which
    /// experts are spread as `tp_size` N², `moe_tp_size` N and `moe_ep_size` N (SGLang), or as `tp_size` N,
    /// `attention_dp_size` N, `moe_tp_size` 1 and `moe_ep_size` N² (vLLM). The recipes of these points start
    /// servers of N GPUs.
    fn counted_once(&self) -> Option<Self> {
        let (tensor, over) = (self.tensor?, self.experts_over.filter(|over| *over > 1)?);
        let square = |n: u32| n.checked_mul(n);
        let gpus = match (self.expert_tensor?, self.attention_ranks.unwrap_or(1)) {
            (cut, 1) if cut == over && square(cut) == Some(tensor) => cut,
            (1, ranks) if ranks == tensor && square(tensor) == Some(over) => tensor,
            _ => return None,
        };
        // Within a node it may be meant as it is told.
        if gpus.saturating_mul(gpus) <= GPUS_PER_NODE {
            return None;
        }
        let (tensor, experts_over) = (Some(gpus), Some(gpus));
        Some(Self {
            tensor,
            experts_over,
            expert_tensor: Some(1),
            attention_ranks: None,
            ..self.clone()
        })
    }

    fn layout_as_told(&self, record: &Record, model: &ModelSpec) -> Result<Layout, Skip> {
        let is_sglang = engine::is_sglang(&record.engine);
        let is_v0 = engine::is_v0(record);
        let data = if is_sglang { self.of_sglang(record)? } else { self.of_vllm(model)? };
        let data = self.by_attention_ranks().unwrap_or(Ok(data))?;
        let stages = self.pipeline.unwrap_or(1);
        match () {
            () if stages > 1 && is_sglang => return Err(skip::STAGES_OF_SGLANG),
            () if stages > 1 && is_v0 => return Err(skip::STAGES_OF_V0),
            () if data != Data::Replicas(1) && is_v0 && !is_sglang => {
                return Err(skip::RANKS_OF_V0);
            }
            () => {}
        }
        let tensor = self.tensor(record, data, stages)?;
        let (replicas, tensor, ranks) = match data {
            Data::Replicas(replicas) => (replicas, tensor, 1),
            Data::Ranks(ranks) => (1, tensor, ranks),
            Data::Shares(ranks) if tensor.is_multiple_of(ranks) => (1, tensor / ranks, ranks),
            Data::Shares(ranks) => {
                let what = format!("{ranks} ranks of attention share {tensor} GPUs");
                return Err(Skip::Contradiction(what));
            }
        };
        let router = match data {
            // Its front end sends a request to the engine with the fewest (0.33.0,
            // `vllm/v1/engine/core_client.py`).
            Data::Replicas(2..) if !is_sglang => RouterConfig::LeastOutstandingRequests {},
            _ => RouterConfig::RoundRobin {},
        };
        // Those of one stage.
        let gpus = u64::from(tensor).saturating_mul(u64::from(ranks));
        let cut = || ExpertParallelConfig { size: Some(1), ..ExpertParallelConfig::default() };
        let is_cut_over_ranks = ranks > 1 && model.experts().is_some();
        let expert_parallel = self.experts(gpus)?.or(is_cut_over_ranks.then(cut));
        let layout = Layout { replicas, tensor, stages, ranks, expert_parallel, router };
        layout.check(record, model)?;
        Ok(layout)
    }

    /// `SGLang` has replicas behind one front end, in turn; with DP attention ranks that share the
    /// GPUs, and none where there is only one (0.5.3, `sglang/srt/server_args.py`,
    /// `_handle_data_parallelism`). That there is only one is told by flags that do not say how many.
    fn of_sglang(&self, record: &Record) -> Result<Data, Skip> {
        let command = record.server_command.as_deref().unwrap_or_default();
        let has_flags = !record.engine_flags.is_empty() || command::starts_server(command);
        match (self.data, self.dp_attention) {
            (None, Some(true)) if !has_flags && self.attention_ranks.is_none() => {
                Err(skip::RANKS_NOT_STATED)
            }
            (Some(ranks @ 2..), Some(true)) => Ok(Data::Shares(ranks)),
            (replicas, _) => Ok(Data::Replicas(replicas.unwrap_or(1))),
        }
    }

    /// vLLM's engines serve on their own, but for a mixture, whose experts they share (0.33.0,
    /// `vllm/v1/engine/core.py`, `DPEngineCoreProc`).
    fn of_vllm(&self, model: &ModelSpec) -> Result<Data, Skip> {
        match (self.data.unwrap_or(1), self.dp_attention) {
            (1, Some(true)) if self.attention_ranks.is_none() => Err(skip::RANKS_NOT_STATED),
            (ranks @ 2.., Some(false)) if model.experts().is_some() => Err(Skip::Contradiction(
                format!("data parallelism of {ranks} without data-parallel attention"),
            )),
            (ranks @ 2.., told) if model.experts().is_some() || told == Some(true) => {
                Ok(Data::Ranks(ranks))
            }
            (replicas, _) => Ok(Data::Replicas(replicas)),
        }
    }

    /// What `AIConfigurator` says, which counts alike for all engines.
    fn by_attention_ranks(&self) -> Option<Result<Data, Skip>> {
        let ranks = self.attention_ranks.filter(|ranks| *ranks > 1)?;
        Some(match (self.data, self.dp_attention) {
            (Some(data), _) if data != ranks => {
                Err(Skip::Contradiction(format!("data parallelism of {data} and of {ranks}")))
            }
            (_, Some(false)) => {
                Err(Skip::Contradiction("data-parallel attention on and off".to_owned()))
            }
            _ => Ok(Data::Ranks(ranks)),
        })
    }

    /// The degree of tensor parallelism as the flag counts it.
    fn tensor(&self, record: &Record, data: Data, stages: u32) -> Result<u32, Skip> {
        let hardware = &record.hardware;
        // A command without the flag is one at its default.
        let command = record.server_command.as_deref().unwrap_or_default();
        if self.tensor.is_none() && command::starts_server(command) {
            return Ok(1);
        }
        if let Some(told) = self.tensor {
            return Ok(told);
        }
        let gpus = hardware.gpus_used.or(hardware.count).ok_or(Skip::GpuCount)?;
        let parts = match data {
            Data::Replicas(many) | Data::Ranks(many) => many.saturating_mul(stages),
            Data::Shares(_) => stages,
        };
        if gpus.is_multiple_of(parts) {
            return Ok(gpus / parts);
        }
        Err(Skip::Contradiction(format!("{parts} engines, ranks or stages on {gpus} GPUs")))
    }
}

impl Layout {
    /// What the record leaves open of it.
    pub(super) fn assumed(&self) -> Option<&'static str> {
        match self.router {
            _ if self.ranks > 1 => {
                Some("data-parallel ranks: each has all layers but the experts to itself")
            }
            RouterConfig::LeastOutstandingRequests {} => {
                Some("data-parallel engines: a request goes to the one with the fewest")
            }
            _ => None,
        }
    }

    fn check(&self, record: &Record, model: &ModelSpec) -> Result<(), Skip> {
        let Self { replicas, tensor, stages, ranks, .. } = *self;
        let product = |sizes: &[u32]| {
            sizes.iter().fold(1, |all: u64, size| all.saturating_mul(u64::from(*size)))
        };
        let of_replica = product(&[tensor, stages, ranks]);
        let gpus = product(&[tensor, stages, ranks, replicas]);
        let there = record.hardware.gpus_used.max(record.hardware.count);
        if replicas.max(stages).max(ranks) > 1
            && let Some(there) = there
            && gpus > u64::from(there)
        {
            return Err(Skip::Contradiction(format!("{gpus} GPUs of {there}")));
        }
        if ranks == 1 {
            return Ok(());
        }
        if model.experts().is_none() {
            return Err(skip::RANKS_WITHOUT_EXPERTS);
        }
        let over = self.expert_parallel.and_then(|parallel| parallel.size).map(u64::from);
        match over {
            Some(over) if over > of_replica => {
                Err(Skip::Contradiction(format!("experts over {over} GPUs of {of_replica}")))
            }
            // Only SGLang shares an expert between some of the GPUs.
            Some(over) if over > 1 && over != of_replica && !engine::is_sglang(&record.engine) => {
                Err(skip::CUT_EXPERTS)
            }
            Some(over) if !of_replica.is_multiple_of(over) => {
                Err(Skip::Contradiction(format!("experts over {over} GPUs of {of_replica}")))
            }
            _ => Ok(()),
        }
    }
}

/// Takes what a record may tell more than once.
fn tell<T: PartialEq + Copy + Display>(
    told: &mut Option<T>,
    now: T,
    what: &str,
) -> Result<(), Skip> {
    match told.replace(now) {
        Some(before) if before != now => {
            Err(Skip::Contradiction(format!("{what} of {before} and of {now}")))
        }
        _ => Ok(()),
    }
}
