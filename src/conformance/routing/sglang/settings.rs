//! The first line of a recording: the command line of the router, and its workers.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::cluster::sglang::backoff::Backoff;
use crate::cluster::sglang::build::{self, Site};
use crate::cluster::sglang::policy::Worker;
use crate::cluster::sglang::{breaker, health};
use crate::conformance::RecordingError;
use crate::conformance::routing::problem;
use crate::scenario::{SglangRouterConfig, SglangRouterPolicy, VllmRouterConfig, VllmRouterPolicy};

/// The routers that were recorded.
#[derive(Debug)]
pub(super) enum Router {
    Sglang(SglangRouterConfig),
    Vllm(VllmRouterConfig),
}

/// What a recording says first.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) router: Router,
    /// The names of all workers there may be.
    pub(super) names: Vec<String>,
    /// Where they are.
    pub(super) urls: Vec<String>,
    /// The workers at the start, in the router's order.
    pub(super) order: Vec<Worker>,
    /// Whether workers report the name of their model.
    pub(super) has_names: bool,
    /// The workers that decode, where others prefill.
    decodes: Option<Vec<Worker>>,
}

#[derive(Deserialize)]
struct FirstLine {
    args: Vec<String>,
    #[serde(default)]
    policy_override: Option<String>,
    order: Vec<String>,
    urls: std::collections::BTreeMap<String, String>,
    #[serde(default)]
    nameless: bool,
    router: String,
}

/// Attempts of a request that are replayed.
const ATTEMPTS_MAX: u32 = 1000;

/// A day, in ms.
const BACKOFF_MS_MAX: u64 = 86_400_000;

/// Settings of no consequence for decisions.
const IGNORED: [&str; 1] = ["log_level"];

impl Settings {
    /// Reads the first line.
    pub(super) fn read(lines: &[Value]) -> Result<Self, RecordingError> {
        let fail = |text: String| problem(0, &text);
        let first = lines.first().cloned().unwrap_or_default();
        let line: FirstLine =
            serde_json::from_value(first).map_err(|error| fail(error.to_string()))?;
        let arguments = arguments(&line).map_err(not_modelled)?;
        let router = match line.router.as_str() {
            "sglang-router 0.3.2" => Router::Sglang(config(arguments)?),
            "vllm-router 0.1.17" => Router::Vllm(config(arguments)?),
            other => {
                return Err(not_modelled(format!(
                    "router: sglang-router 0.3.2 and vllm-router 0.1.17 are modelled, got `{other}`"
                )));
            }
        };
        let (names, urls): (Vec<_>, Vec<_>) = line.urls.into_iter().unzip();
        let mut settings = Self {
            router,
            names,
            urls,
            order: Vec::new(),
            has_names: !line.nameless,
            decodes: None,
        };
        settings.order = settings.order(&line.order).map_err(fail)?;
        if settings.order.is_empty() {
            return Err(fail("order: must have at least one worker".to_owned()));
        }
        let (mut decodes, prefills): (Vec<_>, Vec<_>) =
            settings.order.iter().copied().partition(|worker| settings.decodes_at(*worker));
        let is_apart = settings.order.iter().all(|worker| {
            settings.decodes_at(*worker) || settings.names[worker.index()].starts_with('p')
        });
        decodes.sort_unstable();
        if is_apart && !decodes.is_empty() && !prefills.is_empty() {
            settings.decodes = Some(decodes);
        }
        settings.supported().map_err(not_modelled)?;
        Ok(settings)
    }

    fn decodes_at(&self, worker: Worker) -> bool {
        self.names[worker.index()].starts_with('d')
    }

    /// A worker by its name.
    pub(super) fn worker(&self, name: &str) -> Result<Worker, String> {
        let place = self.names.iter().position(|known| known == name);
        place.map(Worker::from_index).ok_or_else(|| {
            format!("`{name}` is none of the workers in `urls`: {}", self.names.join(", "))
        })
    }

    /// Workers by name, none of them twice.
    pub(super) fn order(&self, names: &[String]) -> Result<Vec<Worker>, String> {
        let workers: Vec<_> =
            names.iter().map(|name| self.worker(name)).collect::<Result<_, _>>()?;
        let is_twice = |place: usize| workers[..place].contains(&workers[place]);
        match (0..workers.len()).find(|place| is_twice(*place)) {
            Some(place) => Err(format!("order: worker `{}` comes twice", names[place])),
            None => Ok(workers),
        }
    }

    /// The workers that decode, where others prefill.
    pub(super) fn decodes(&self) -> Option<&[Worker]> {
        self.decodes.as_deref()
    }

    /// The policies: of workers that do all of a request or prefill, and of those that decode.
    fn supported(&self) -> Result<(), String> {
        let Backoff { attempts, max_ms, .. } = self.backoff();
        if attempts > ATTEMPTS_MAX {
            return Err(format!(
                "retry_max_retries: must be at most {ATTEMPTS_MAX}, got {attempts}"
            ));
        }
        if max_ms > BACKOFF_MS_MAX {
            return Err(format!(
                "retry_max_backoff_ms: must be at most {BACKOFF_MS_MAX}, got {max_ms}"
            ));
        }
        let config = match &self.router {
            Router::Sglang(config) => config,
            Router::Vllm(_) if self.decodes.is_some() => {
                return Err("vllm-router with prefill and decode apart is not modelled".into());
            }
            Router::Vllm(config) if config.limits_requests() => {
                return Err("max_concurrent_requests: not modelled of vllm-router".into());
            }
            Router::Vllm(_) => return Ok(()),
        };
        if self.decodes.is_none() {
            return match config.policy {
                SglangRouterPolicy::Bucket => {
                    Err("policy: `bucket` chooses workers that prefill".into())
                }
                _ => Ok(()),
            };
        }
        if config.of_decodes() == SglangRouterPolicy::Bucket {
            return Err("decode_policy: `bucket` chooses workers that prefill".into());
        }
        let is_limited = config.max_concurrent_requests > 0;
        if is_limited {
            return Err(
                "max_concurrent_requests: not modelled with prefill and decode apart".into()
            );
        }
        Ok(())
    }

    /// Whether prompts are remembered.
    pub(super) fn is_tree(&self) -> bool {
        match &self.router {
            Router::Sglang(config) => {
                self.decodes.is_none() && config.policy == SglangRouterPolicy::CacheAware
            }
            Router::Vllm(config) => config.policy == VllmRouterPolicy::CacheAware,
        }
    }

    /// Whether requests in flight are counted.
    pub(super) fn counts_loads(&self) -> bool {
        match &self.router {
            Router::Sglang(config) => build::counts_loads(config.policy, self.decodes.is_some()),
            Router::Vllm(config) => build::vllm_counts_loads(config.policy),
        }
    }

    /// The name of the policy, or of both.
    pub(super) fn policy(&self) -> String {
        fn name(policy: impl serde::Serialize) -> String {
            serde_json::to_value(policy)
                .map_or_else(|_| String::new(), |name| name.as_str().unwrap_or_default().to_owned())
        }
        match &self.router {
            Router::Vllm(config) => format!("vllm-router {}", name(config.policy)),
            Router::Sglang(config) if self.decodes.is_none() => {
                format!("sglang {}", name(config.policy))
            }
            Router::Sglang(config) => {
                let (prefills, decodes) = (name(config.of_prefills()), name(config.of_decodes()));
                format!("sglang {prefills} + {decodes}")
            }
        }
    }

    /// The settings of the limit, where there is one.
    pub(super) fn limit(&self) -> Option<&SglangRouterConfig> {
        match &self.router {
            Router::Sglang(config) if config.max_concurrent_requests > 0 => Some(config),
            _ => None,
        }
    }

    /// How requests are tried again.
    pub(super) fn backoff(&self) -> Backoff {
        match &self.router {
            Router::Sglang(config) => build::backoff(config),
            Router::Vllm(config) => build::vllm_backoff(config),
        }
    }

    /// When breakers open and close.
    pub(super) fn breaker(&self) -> breaker::Rules {
        match &self.router {
            Router::Sglang(config) => build::breaker(config),
            Router::Vllm(config) => build::vllm_breaker(config),
        }
    }

    /// How many checks make a worker healthy or not.
    pub(super) fn health(&self) -> health::Rules {
        match &self.router {
            Router::Sglang(config) => build::health(config),
            Router::Vllm(config) => build::vllm_health(config),
        }
    }

    /// What policies have to know; the counter of uses stands at `uses`.
    pub(super) fn site(&self, uses: u64) -> Site {
        Site {
            urls: self.urls.clone(),
            has_names: self.has_names,
            is_apart: self.decodes.is_some(),
            label: 1,
            uses,
        }
    }
}

/// The command line as a table: `--cache-threshold 0.5` is `cache_threshold = 0.5`.
fn arguments(line: &FirstLine) -> Result<Map<String, Value>, String> {
    let mut table = Map::new();
    let mut words = line.args.iter();
    while let Some(flag) = words.next() {
        let name = flag.strip_prefix("--").ok_or_else(|| format!("args: `{flag}` is no flag"))?;
        let name = name.replace('-', "_");
        let value = words.next().filter(|value| !value.starts_with("--"));
        let value = value.ok_or_else(|| format!("args: {flag} has no value"))?;
        if IGNORED.contains(&name.as_str()) {
            continue;
        }
        let number = serde_json::from_str(value).ok().filter(Value::is_number);
        table.insert(name, number.unwrap_or_else(|| Value::from(value.as_str())));
    }
    if let Some(policy) = &line.policy_override {
        table.insert("policy".to_owned(), Value::from(policy.as_str()));
    }
    Ok(table)
}

fn config<T: DeserializeOwned>(arguments: Map<String, Value>) -> Result<T, RecordingError> {
    serde_json::from_value(Value::Object(arguments))
        .map_err(|error| not_modelled(format!("args: {error}")))
}

fn not_modelled(problem: String) -> RecordingError {
    RecordingError::NotModelled { line: 1, problem }
}
