//! Settings that are worth a try, one at a time.

use serde::Serialize;
use toml::{Table, Value};

use super::paths::{at, number_at};
use crate::erased;
use crate::load::{Draft, LoadError, Override};
use crate::resolved::{KvSource, ReplicaGroup, Scenario};
use crate::scenario::{EngineConfig, Policy, SglangPolicy};

/// Routers that are tried: those that need no further setting. The last is for adapters.
const ROUTERS: [&str; 6] = [
    "round_robin",
    "least_outstanding_requests",
    "least_outstanding_tokens",
    "power_of_two_choices",
    "prefix_aware",
    ADAPTERS,
];
const ADAPTERS: &str = "adapter_affinity";

/// GPUs that share the matrices of a model: up to those of a node.
const TENSOR_PARALLEL: [u32; 4] = [1, 2, 4, 8];

/// Tokens of a step, or of a chunk of a prompt, that are tried.
const STEP_TOKENS: [u32; 4] = [2048, 4096, 8192, 16384];

/// GPU memory of engines at most, as a share; how far it is raised, and lowered.
const MEMORY_MAX: f64 = 0.95;
const MEMORY_MORE: f64 = 0.03;
const MEMORY_LESS: f64 = 0.1;

/// How much of the load is left where less of it is tried.
const LESS_LOAD: f64 = 0.9;

/// A change of one setting, with those that follow from it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// In words, as in `max_num_seqs 256 → 512`.
    pub name: String,
    /// What is set, as `--set` takes it.
    pub set: Vec<String>,
    /// Whether it is less load, which is no setting of the cluster.
    pub is_load: bool,
    /// Whether it does nothing but hide the host's time behind the device's, or no longer.
    #[serde(skip)]
    pub(super) is_of_host: bool,
    #[serde(skip)]
    settings: Vec<Override>,
}

impl Change {
    fn new(name: impl Into<String>, settings: Vec<Override>) -> Self {
        let set = settings.iter().map(ToString::to_string).collect();
        Self { name: name.into(), set, is_load: false, is_of_host: false, settings }
    }

    /// One that sets nothing.
    #[cfg(test)]
    pub(super) fn named(name: &str) -> Self {
        Self::new(name, Vec::new())
    }

    /// A scenario with it.
    pub(super) fn of(&self, draft: &Draft) -> Result<Draft, LoadError> {
        let mut changed = draft.clone();
        for setting in &self.settings {
            changed = changed.with(&setting.path, setting.value.clone())?;
        }
        Ok(changed)
    }

    /// Those that could be made to a scenario; some may break its rules.
    pub(super) fn all(draft: &Draft, scenario: &Scenario) -> Vec<Self> {
        let table = erased::table(&scenario.written()).unwrap_or_default();
        let from = From { draft, scenario, table };
        let mut all = from.replicas();
        all.extend(from.network());
        all.extend(from.tensor_parallel());
        all.extend(from.engine());
        all.extend(from.memory());
        all.extend(from.routers());
        all.extend(from.less_load());
        all
    }
}

/// Where changes start from.
struct From<'a> {
    draft: &'a Draft,
    scenario: &'a Scenario,
    /// The scenario with every default.
    table: Table,
}

impl From<'_> {
    fn replicas(&self) -> Vec<Change> {
        let replicas = self.scenario.replicas();
        if self.scenario.lists_groups() {
            let groups = self.scenario.groups.iter().enumerate();
            return groups
                .map(|(index, group)| {
                    let count = group.replicas();
                    let name = format!("replicas of group {} {}", index, steps(count, count + 1));
                    let path = format!("cluster.groups[{index}].replicas");
                    Change::new(name, vec![whole(&path, count + 1)])
                })
                .collect();
        }
        let total = whole("cluster.replicas", replicas + 1);
        let Some(apart) = self.scenario.disaggregation() else {
            return vec![Change::new(
                format!("replicas {}", steps(replicas, replicas + 1)),
                vec![total],
            )];
        };
        let (Some(prefill), Some(decode)) = (apart.prefill_replicas, apart.decode_replicas) else {
            return Vec::new();
        };
        let each = [("prefill_replicas", prefill), ("decode_replicas", decode)];
        let set =
            |(key, _): (&str, u32), count| whole(&format!("cluster.disaggregation.{key}"), count);
        let more = each.into_iter().map(|one| {
            let name = format!("{} {}", one.0, steps(one.1, one.1 + 1));
            Change::new(name, vec![total.clone(), set(one, one.1 + 1)])
        });
        let moved = [(each[0], each[1]), (each[1], each[0])].into_iter();
        let moved = moved.filter(|(_, less)| less.1 > 1).map(|(more, less)| {
            let [up, down] = [steps(more.1, more.1 + 1), steps(less.1, less.1 - 1)];
            let name = format!("{} {up}, {} {down}", more.0, less.0);
            Change::new(name, vec![set(more, more.1 + 1), set(less, less.1 - 1)])
        });
        more.chain(moved).collect()
    }

    /// Twice the bandwidth between replicas that prefill and those that decode.
    fn network(&self) -> Option<Change> {
        let path = "cluster.disaggregation.transfer.nic_gb_per_s";
        let now = number_at(&self.table, path)?;
        let name = format!("nic_gb_per_s {}", steps(now, now * 2.0));
        Some(Change::new(name, vec![Override::new(path, now * 2.0)]))
    }

    /// Twice the tensor parallelism, and every other one on the same GPUs.
    fn tensor_parallel(&self) -> Vec<Change> {
        let now = number_at(&self.table, "cluster.tensor_parallel_size").unwrap_or(1.0) as u32;
        if self.scenario.lists_groups() {
            return Vec::new();
        }
        let replicas = self.scenario.replicas();
        let set = |then| whole("cluster.tensor_parallel_size", then);
        let name = |then| format!("tensor_parallel_size {}", steps(now, then));
        let others = TENSOR_PARALLEL.into_iter().filter(|then| *then != now);
        let doubled = others.clone().filter(|then| *then == now * 2);
        let doubled = doubled.map(|then| Change::new(name(then), vec![set(then)]));
        let is_whole = |then: &u32| (replicas * now).is_multiple_of(*then);
        let on_the_same = others.filter(|then| is_whole(then) && !self.scenario.is_disaggregated());
        let on_the_same = on_the_same.map(|then| {
            let count = replicas * now / then;
            let name = format!("{}, replicas {}", name(then), steps(replicas, count));
            Change::new(name, vec![set(then), whole("cluster.replicas", count)])
        });
        doubled.chain(on_the_same).collect()
    }

    fn engine(&self) -> Vec<Change> {
        let Some(first) = self.scenario.groups.first() else { return Vec::new() };
        match &first.cluster.engine {
            EngineConfig::VllmV1(engine) => {
                let mut all = self.others("max_num_batched_tokens", ladder, |engine| {
                    as_vllm(engine)?.max_num_batched_tokens
                });
                all.extend(
                    self.others("max_num_seqs", powers_of_two, |engine| {
                        as_vllm(engine)?.max_num_seqs
                    }),
                );
                all.extend(
                    self.others("max_loras", twice_and_half, |engine| as_vllm(engine)?.max_loras),
                );
                let other = match engine.policy {
                    Policy::Fcfs => Policy::Priority,
                    Policy::Priority => Policy::Fcfs,
                };
                let has_priorities =
                    self.scenario.workload.classes.iter().any(|class| class.priority != 0);
                all.extend(has_priorities.then(|| self.named("policy", engine.policy, other)));
                all.push(self.switched("enable_prefix_caching", engine.enable_prefix_caching));
                all.push(self.hidden_host("async_scheduling", engine.async_scheduling));
                all
            }
            EngineConfig::Sglang(engine) => {
                let mut all = self.others("chunked_prefill_size", ladder, |engine| {
                    let size = as_sglang(engine)?.chunked_prefill_size?;
                    u32::try_from(size).ok().filter(|size| *size > 0)
                });
                all.extend(self.others("max_running_requests", powers_of_two, |engine| {
                    as_sglang(engine)?.max_running_requests
                }));
                all.extend(self.others("max_loras_per_batch", twice_and_half, |engine| {
                    as_sglang(engine)?.max_loras_per_batch
                }));
                let orders = [SglangPolicy::Fcfs, SglangPolicy::Lpm, SglangPolicy::Lof];
                let others = orders.into_iter().filter(|order| *order != engine.schedule_policy);
                all.extend(
                    others
                        .map(|order| self.named("schedule_policy", engine.schedule_policy, order)),
                );
                all.push(self.switched("disable_radix_cache", engine.disable_radix_cache));
                let serial = engine.disable_overlap_schedule;
                all.push(self.hidden_host("disable_overlap_schedule", serial));
                all
            }
            EngineConfig::VllmV0(_) => {
                let mut all = self.others("max_num_batched_tokens", ladder, |engine| {
                    as_vllm_v0(engine)?.max_num_batched_tokens
                });
                all.extend(self.others("max_num_seqs", powers_of_two, |engine| {
                    Some(as_vllm_v0(engine)?.max_num_seqs)
                }));
                all
            }
            EngineConfig::Sarathi(_) => {
                let mut all = self
                    .others("chunk_size", ladder, |engine| Some(as_sarathi(engine)?.chunk_size));
                all.extend(self.others("max_num_seqs", powers_of_two, |engine| {
                    Some(as_sarathi(engine)?.max_num_seqs)
                }));
                all
            }
            _ => Vec::new(),
        }
    }

    /// Other values of a setting of the engine, in every group.
    fn others(
        &self,
        key: &str,
        around: impl Fn(u32) -> Vec<u32>,
        of: impl Fn(&EngineConfig) -> Option<u32>,
    ) -> Vec<Change> {
        let Some(now) = self.scenario.groups.first().and_then(|group| of(&group.cluster.engine))
        else {
            return Vec::new();
        };
        let each = around(now).into_iter();
        let each = each.filter(|then| (1..=i32::MAX.cast_unsigned()).contains(then));
        each.map(|then| {
            Change::new(format!("{key} {}", steps(now, then)), self.everywhere(key, then))
        })
        .collect()
    }

    fn switched(&self, key: &str, now: bool) -> Change {
        Change::new(format!("{key} {}", steps(now, !now)), self.everywhere(key, !now))
    }

    /// A switch that decides whether the host works while the device does.
    fn hidden_host(&self, key: &str, now: bool) -> Change {
        Change { is_of_host: true, ..self.switched(key, now) }
    }

    /// Another one of several values with names.
    fn named(&self, key: &str, now: impl Serialize, then: impl Serialize) -> Change {
        let name = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (now, then) = (written(now), written(then));
        let text = format!("{key} {}", steps(name(&now), name(&then)));
        Change::new(text, self.everywhere(key, then))
    }

    /// A setting of the engine, wherever the scenario says something of an engine.
    fn everywhere(&self, key: &str, value: impl Into<Value>) -> Vec<Override> {
        let value = value.into();
        let groups = self.draft.get(&["cluster", "groups"]).and_then(Value::as_array);
        let own = groups.into_iter().flatten().enumerate().filter(|(_, group)| {
            group.as_table().is_some_and(|group| group.contains_key("engine"))
        });
        let mut places: Vec<String> =
            own.map(|(index, _)| format!("cluster.groups[{index}].engine")).collect();
        let count = groups.map_or(0, Vec::len);
        let mut settings = Vec::new();
        if places.len() < count.max(1) {
            let says = self.draft.get(&["cluster", "engine"]).is_some();
            let kind = at(&self.table, "cluster.engine.type").filter(|_| !says);
            settings.extend(kind.map(|kind| Override::new("cluster.engine.type", kind.clone())));
            places.push("cluster.engine".to_owned());
        }
        let each =
            places.iter().map(|place| Override::new(&format!("{place}.{key}"), value.clone()));
        settings.extend(each);
        settings
    }

    /// More GPU memory for the engine, and less, where that decides how much KV memory there is.
    fn memory(&self) -> Vec<Change> {
        let derived = |group: &ReplicaGroup| matches!(group.kv, KvSource::Derived(_));
        let Some(first) = self.scenario.groups.first().filter(|group| derived(group)) else {
            return Vec::new();
        };
        if self.scenario.lists_groups() {
            return Vec::new();
        }
        let (key, now) = match as_sglang(&first.cluster.engine) {
            Some(engine) => ("mem_fraction_static", engine.mem_fraction_static),
            None => ("gpu_memory_utilization", first.cluster.gpu_memory_utilization),
        };
        let Some(now) = now else { return Vec::new() };
        let each = [now + MEMORY_MORE, now - MEMORY_LESS].map(|share| (share * 1e3).round() / 1e3);
        let each = each.into_iter().filter(|share| (0.1..=MEMORY_MAX).contains(share));
        each.map(|then| {
            let settings = match key {
                "mem_fraction_static" => self.everywhere(key, then),
                _ => vec![Override::new(&format!("cluster.{key}"), then)],
            };
            Change::new(format!("{key} {}", steps(now, then)), settings)
        })
        .collect()
    }

    fn routers(&self) -> Vec<Change> {
        if self.scenario.instances().count() < 2 {
            return Vec::new();
        }
        let now = at(&self.table, "cluster.router.type").and_then(Value::as_str);
        let has_adapters = self.scenario.workload.adapters.is_some();
        let others = ROUTERS
            .into_iter()
            .filter(|router| Some(*router) != now && (*router != ADAPTERS || has_adapters));
        others
            .map(|router| {
                let kind = Table::from_iter([("type".to_owned(), Value::from(router))]);
                Change::new(format!("router {router}"), vec![Override::new("cluster.router", kind)])
            })
            .collect()
    }

    fn less_load(&self) -> Option<Change> {
        let rate = "workload.arrivals.rate_per_s";
        let clients = "workload.client.max_concurrency";
        let (name, setting) = if let Some(now) = number_at(&self.table, rate) {
            ("10 % fewer requests per second", Override::new(rate, now * LESS_LOAD))
        } else {
            let now = number_at(&self.table, clients)?;
            let then = (now * LESS_LOAD).round() as i64;
            if then as f64 >= now || then < 1 {
                return None;
            }
            ("10 % fewer requests at a time", Override::new(clients, then))
        };
        Some(Change { is_load: true, ..Change::new(name, vec![setting]) })
    }
}

fn as_vllm(engine: &EngineConfig) -> Option<&crate::scenario::VllmConfig> {
    if let EngineConfig::VllmV1(engine) = engine { Some(engine) } else { None }
}

fn as_vllm_v0(engine: &EngineConfig) -> Option<&crate::scenario::VllmV0Config> {
    if let EngineConfig::VllmV0(engine) = engine { Some(engine) } else { None }
}

fn as_sarathi(engine: &EngineConfig) -> Option<&crate::scenario::SarathiConfig> {
    if let EngineConfig::Sarathi(engine) = engine { Some(engine) } else { None }
}

fn as_sglang(engine: &EngineConfig) -> Option<&crate::scenario::SglangConfig> {
    if let EngineConfig::Sglang(engine) = engine { Some(engine) } else { None }
}

/// The value of a setting as a scenario has it.
fn written(value: impl Serialize) -> Value {
    Value::try_from(value).unwrap_or_else(|_| Value::from(""))
}

/// The usual tokens of a step other than these; twice or half of these where they lie beyond.
fn ladder(now: u32) -> Vec<u32> {
    let [least, .., most] = STEP_TOKENS;
    let mut all = STEP_TOKENS.to_vec();
    if now >= most {
        all.push(now.saturating_mul(2));
    }
    if now <= least {
        all.push(now / 2);
    }
    all.retain(|then| *then != now);
    all
}

/// The two powers of two below, and the two above.
fn powers_of_two(now: u32) -> Vec<u32> {
    let powers = || (0..u32::BITS).map(|bit| 1_u32 << bit);
    let below: Vec<u32> = powers().filter(|power| *power < now).collect();
    let above = powers().filter(|power| *power > now);
    let below = below.into_iter().rev().take(2);
    above.take(2).chain(below).collect()
}

fn twice_and_half(now: u32) -> Vec<u32> {
    vec![now.saturating_mul(2), now / 2]
}

fn whole(path: &str, value: u32) -> Override {
    Override::new(path, i64::from(value))
}

fn steps(now: impl std::fmt::Display, then: impl std::fmt::Display) -> String {
    format!("{now} → {then}")
}
