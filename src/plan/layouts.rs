//! The layouts that a plan chooses from, as scenarios of any size.

use std::path::Path;

use toml::{Table, Value};

use super::error::{asked, stated};
use super::nic::Nic;
use super::question::{LayoutKind, Plan};
use super::{Pair, PlanError};
use crate::hardware::RentalPrice;
use crate::load::{self, Draft};
use crate::problem::Problem;
use crate::profiles;
use crate::sweep::Axis;

/// A kind of GPU.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Gpu {
    pub(super) name: String,
    /// What scenarios call it: its name, or the path of its file.
    setting: String,
    /// What it is offered for, if somebody offers it.
    pub(super) offers: Option<RentalPrice>,
}

/// A kind of GPU, and how many share a matrix.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Part {
    pub(super) gpu: Gpu,
    pub(super) tensor_parallel: i64,
}

impl Part {
    fn name(&self) -> String {
        format!("{} TP{}", self.gpu.name, self.tensor_parallel)
    }
}

/// Who does what.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    Mixed(Part),
    Disaggregated { prefill: Part, decode: Part },
}

/// A layout whose size is open.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    pub(super) kind: Kind,
    /// Other settings.
    settings: Vec<Setting>,
    nic: Nic,
}

/// How many replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Replicas that do everything.
    Mixed(u32),
    /// Replicas that prefill, and replicas that decode.
    Disaggregated(Pair),
}

impl Layout {
    /// All that may be chosen, in the order of the question.
    pub(super) fn all(question: &Plan) -> Result<Vec<Self>, PlanError> {
        let parts = parts(question)?;
        let kinds = kinds(question)?;
        let nic = Nic::of(question)?;
        let mut all = Vec::new();
        for settings in settings(&question.vary)? {
            for kind in &kinds {
                let of_kind: Vec<Kind> = match kind {
                    LayoutKind::Mixed => parts.iter().cloned().map(Kind::Mixed).collect(),
                    LayoutKind::Disaggregated => pairs(&parts),
                };
                let layout = |kind| Self { kind, settings: settings.clone(), nic };
                all.extend(of_kind.into_iter().map(layout));
            }
        }
        Ok(all)
    }

    /// The GPU of its replicas: all have one kind.
    pub(super) fn gpu(&self) -> &Gpu {
        match &self.kind {
            Kind::Mixed(part) => &part.gpu,
            Kind::Disaggregated { prefill, .. } => &prefill.gpu,
        }
    }

    /// What NICs carry, where prefill and decode are apart.
    pub(super) fn nic(&self) -> Option<Nic> {
        matches!(self.kind, Kind::Disaggregated { .. }).then_some(self.nic)
    }

    /// As people write it: `H100 TP4`, `H100 TP2 + TP4`.
    pub(super) fn name(&self) -> String {
        self.with_settings(match &self.kind {
            Kind::Mixed(one) => one.name(),
            Kind::Disaggregated { prefill, decode } => {
                format!("{} prefill, {} decode", prefill.name(), decode.name())
            }
        })
    }

    /// A cluster of it, as in `4 x H100 TP2` or `2 x H100 TP1 prefill and 3 x H100 TP1 decode (2P3D)`.
    pub(super) fn cluster(&self, size: Size) -> String {
        match (&self.kind, size) {
            (Kind::Disaggregated { prefill, decode }, Size::Disaggregated(pair)) => {
                let (of_prefill, of_decode) = (pair.prefill, pair.decode);
                let name = self.with_settings(format!(
                    "{of_prefill} x {} prefill and {of_decode} x {} decode",
                    prefill.name(),
                    decode.name()
                ));
                format!("{name} ({})", size.name())
            }
            _ => format!("{} x {}", size.name(), self.name()),
        }
    }

    /// What its replicas of each kind are, as in `H100 TP4`.
    pub(super) fn part_names(&self) -> Vec<String> {
        let parts = match &self.kind {
            Kind::Mixed(one) => vec![one],
            Kind::Disaggregated { prefill, decode } => vec![prefill, decode],
        };
        parts.into_iter().map(|part| self.with_settings(part.name())).collect()
    }

    fn with_settings(&self, name: String) -> String {
        self.settings.iter().fold(name, |name, (path, value)| {
            let short = path.rsplit('.').next().unwrap_or(path);
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            format!("{name}, {short}={value}")
        })
    }

    /// The same without its GPU, as in `TP4`.
    pub(super) fn name_on_gpu(&self) -> String {
        self.name().replace(&format!("{} TP", self.gpu().name), "TP")
    }

    /// The smallest size.
    pub(super) fn one(&self) -> Size {
        match self.kind {
            Kind::Mixed(_) => Size::Mixed(1),
            Kind::Disaggregated { .. } => Size::Disaggregated(Pair { prefill: 1, decode: 1 }),
        }
    }

    /// The scenario of one replica of each kind, which serves adapters wherever they are placed: what does not
    /// hang on the size can be told from it.
    pub(super) fn alone(&self, base: &Draft) -> Result<Draft, PlanError> {
        let mut draft = self.draft(base, self.one())?;
        draft.clear(&["cluster", "lora", "placement"]);
        draft.clear(&["cluster", "lora", "migration"]);
        Ok(draft)
    }

    /// The size that the scenario has.
    pub(super) fn told(&self, base: &Draft) -> Size {
        let count = |keys: &[&str]| {
            let count = base.get(keys).and_then(Value::as_integer);
            count.and_then(|count| u32::try_from(count).ok()).unwrap_or(1)
        };
        let of_role = |role| count(&["cluster", "disaggregation", role]);
        match self.kind {
            Kind::Mixed(_) => Size::Mixed(count(&["cluster", "replicas"])),
            Kind::Disaggregated { .. } => Size::Disaggregated(Pair {
                prefill: of_role("prefill_replicas"),
                decode: of_role("decode_replicas"),
            }),
        }
    }

    /// The scenario of so many replicas.
    pub(super) fn draft(&self, base: &Draft, size: Size) -> Result<Draft, PlanError> {
        let mut draft = base.clone();
        for (path, value) in &self.settings {
            draft.put(path, value.clone())?;
        }
        // They are of the GPUs of the scenario; a plan has prices of its own.
        draft.clear(&["report", "prices"]);
        draft.clear(&["report", "power"]);
        match (&self.kind, size) {
            (Kind::Mixed(part), Size::Mixed(replicas)) => {
                draft.clear(&["cluster", "disaggregation"]);
                draft.put("cluster.gpu", part.gpu.setting.clone())?;
                draft.put("cluster.tensor_parallel_size", part.tensor_parallel)?;
                draft.put("cluster.replicas", i64::from(replicas))?;
            }
            (Kind::Disaggregated { prefill, decode }, Size::Disaggregated(pair)) => {
                draft.put("cluster.gpu", prefill.gpu.setting.clone())?;
                draft.clear(&["cluster", "replicas"]);
                // Its replicas have NICs of their own, over which a pool is reached too.
                draft.clear(&["cluster", "kv_tiers", "pool", "nic_gb_per_s"]);
                self.put_transfer(&mut draft)?;
                let groups = [("prefill", prefill, pair.prefill), ("decode", decode, pair.decode)];
                let groups = groups.map(|(role, part, replicas)| self.group(role, part, replicas));
                draft.put("cluster.groups", Value::Array(groups.to_vec()))?;
            }
            _ => unreachable!("a layout has sizes of its kind"),
        }
        Ok(draft)
    }

    fn put_transfer(&self, draft: &mut Draft) -> Result<(), PlanError> {
        let mut told = draft.get(&["cluster", "disaggregation"]).and_then(Value::as_table).cloned();
        let told = told.get_or_insert_with(Table::new);
        for roles in ["prefill_replicas", "decode_replicas"] {
            told.remove(roles);
        }
        if !told.contains_key("transfer") {
            let mut transfer = Table::new();
            transfer.insert("nic_gb_per_s".to_owned(), Value::Float(self.nic.gb_per_s));
            told.insert("transfer".to_owned(), Value::Table(transfer));
        }
        Ok(draft.put("cluster.disaggregation", Value::Table(told.clone()))?)
    }

    fn group(&self, role: &str, part: &Part, replicas: u32) -> Value {
        let mut group = Table::new();
        group.insert("role".to_owned(), role.into());
        group.insert("replicas".to_owned(), i64::from(replicas).into());
        group.insert("gpu".to_owned(), part.gpu.setting.clone().into());
        group.insert("tensor_parallel_size".to_owned(), part.tensor_parallel.into());
        if let Some(nic) = self.nic.of_replica(part.tensor_parallel) {
            group.insert("nic_gb_per_s".to_owned(), nic.into());
        }
        Value::Table(group)
    }
}

impl Size {
    /// Replicas of each kind.
    pub fn replicas(self) -> Vec<u32> {
        match self {
            Self::Mixed(replicas) => vec![replicas],
            Self::Disaggregated(pair) => vec![pair.prefill, pair.decode],
        }
    }

    /// As people write it: `12`, `4P8D`.
    pub fn name(self) -> String {
        match self {
            Self::Mixed(replicas) => replicas.to_string(),
            Self::Disaggregated(pair) => format!("{}P{}D", pair.prefill, pair.decode),
        }
    }
}

fn parts(question: &Plan) -> Result<Vec<Part>, PlanError> {
    let base = &question.draft;
    let of_base = |key: &str| base.get(&["cluster", key]);
    let mut gpus = Vec::new();
    if question.gpus.is_empty() {
        let wrong = |problem: &str| stated(base, "cluster.gpu", problem);
        let gpu = of_base("gpu").and_then(Value::as_str);
        let gpu = gpu.ok_or_else(|| wrong("must name a GPU; give one there or with --gpu"))?;
        gpus.push(any_gpu(gpu, base.folder()).map_err(|problem| wrong(&problem))?);
    }
    for gpu in &question.gpus {
        gpus.push(any_gpu(gpu, Path::new("")).map_err(|problem| asked("--gpu", problem))?);
    }
    let sizes: Vec<i64> = if question.tensor_parallel.is_empty() {
        vec![of_base("tensor_parallel_size").and_then(Value::as_integer).unwrap_or(1)]
    } else {
        question.tensor_parallel.iter().copied().map(i64::from).collect()
    };
    let mut parts = Vec::new();
    for gpu in &gpus {
        for size in &sizes {
            let part = Part { gpu: gpu.clone(), tensor_parallel: *size };
            if parts.contains(&part) {
                let problem = format!("{} TP{size} twice", gpu.name);
                return Err(asked("--gpu, --tensor-parallel-size", problem));
            }
            parts.push(part);
        }
    }
    Ok(parts)
}

/// A GPU of the catalogue, or of a file whose path is relative to a folder.
fn any_gpu(gpu: &str, folder: &Path) -> Result<Gpu, String> {
    let found = load::gpu("", gpu, folder).map_err(|problem| problem.to_string())?;
    let spec = found.ok_or_else(|| unknown_gpu(gpu, []))?;
    let setting = if load::is_gpu_file(gpu) {
        let path = folder.join(gpu);
        std::path::absolute(&path).unwrap_or(path).display().to_string()
    } else {
        spec.name.clone()
    };
    Ok(Gpu { name: spec.name, setting, offers: spec.price })
}

/// What is wrong with the name of a GPU that is nowhere; with other names that it may be meant to be.
pub(super) fn unknown_gpu<'a>(gpu: &str, own: impl IntoIterator<Item = &'a str>) -> String {
    let names = profiles::gpu_names().map(|name| -> &str { name });
    let problem = Problem::new("", format_args!("`{gpu}` is not in the catalogue of GPUs"));
    problem.or_near(profiles::closest(gpu, names.chain(own))).to_string()
}

/// The kinds of layouts that are asked for; that of the scenario if none is.
pub(super) fn kinds(question: &Plan) -> Result<Vec<LayoutKind>, PlanError> {
    let is_apart = question.draft.get(&["cluster", "disaggregation"]).is_some();
    Ok(match &question.kinds[..] {
        [] if is_apart => vec![LayoutKind::Disaggregated],
        [] => vec![LayoutKind::Mixed],
        [one] => vec![*one],
        [one, other] if one != other => vec![*one, *other],
        _ => return Err(asked("--layout", "name each layout once")),
    })
}

/// Prefill and decode on GPUs of one kind, with the parallelism of each of its own.
fn pairs(parts: &[Part]) -> Vec<Kind> {
    let mut all = Vec::new();
    for prefill in parts {
        for decode in parts.iter().filter(|decode| decode.gpu == prefill.gpu) {
            all.push(Kind::Disaggregated { prefill: prefill.clone(), decode: decode.clone() });
        }
    }
    all
}

/// A setting that is chosen: its path and a value.
type Setting = (String, Value);

/// What a plan decides itself, or what is planned for.
const NOT_VARIED: [(&str, &str); 9] = [
    ("cluster.replicas", "the plan finds it"),
    ("cluster.gpu", "give --gpu"),
    ("cluster.tensor_parallel_size", "give --tensor-parallel-size"),
    ("cluster.groups", "give --layout"),
    ("cluster.disaggregation", "give --layout"),
    ("workload", "all layouts serve the same requests"),
    ("trace", "all layouts serve the same requests"),
    ("report", "the plan has SLOs and prices of its own"),
    ("faults", "a plan is of replicas that do not fail"),
];

/// Every combination of the values that are varied.
fn settings(vary: &[Axis]) -> Result<Vec<Vec<Setting>>, PlanError> {
    let mut all: Vec<Vec<Setting>> = vec![Vec::new()];
    let mut paths: Vec<&String> = Vec::new();
    for axis in vary {
        let wrong = |problem: String| asked("--vary", format_args!("{}: {problem}", axis.path));
        let is_below = |path: &str| {
            axis.path
                .strip_prefix(path)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        if let Some((_, why)) = NOT_VARIED.iter().find(|(path, _)| is_below(path)) {
            return Err(wrong(format!("is not varied: {why}")));
        }
        if ["seed", "name"].contains(&axis.path.as_str()) {
            return Err(wrong("is not varied: all layouts serve the same requests".to_owned()));
        }
        if paths.contains(&&axis.path) {
            return Err(wrong("is varied twice".to_owned()));
        }
        if let Some(problem) = axis.levels.problem() {
            return Err(wrong(problem));
        }
        let values = axis.levels.of_grid();
        if values.is_empty() {
            return Err(wrong("say how many values: LOW..HIGH:COUNT".to_owned()));
        }
        if values.len() * all.len() > LAYOUTS_MAX {
            return Err(wrong(format!("at most {LAYOUTS_MAX} combinations are planned")));
        }
        all = all
            .iter()
            .flat_map(|before| {
                values.iter().map(|value| {
                    let mut settings = before.clone();
                    settings.push((axis.path.clone(), value.clone()));
                    settings
                })
            })
            .collect();
        paths.push(&axis.path);
    }
    Ok(all)
}

/// Combinations of settings at most.
const LAYOUTS_MAX: usize = 1000;
