//! Which matrices of a checkpoint are stored in fewer bits, and how.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;

use super::tensors::{Component, Tensor};
use crate::model::precision::{ComputeRate, Module, Scheme};

/// How a matrix is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// 8-bit floats with a scale for each block of outputs and inputs.
    Fp8Blocks {
        /// Outputs and inputs of a block.
        block: [u32; 2],
        /// Bytes of a scale: 4, or 1 where it is a power of two.
        scale: u32,
    },
    /// 8-bit floats with one scale.
    Fp8,
    /// 8-bit floats, an 8-bit scale for 32 weights.
    Mxfp8,
    /// 4-bit floats, an 8-bit scale for 16 weights.
    Nvfp4,
    /// 4-bit floats, an 8-bit scale for 32 weights.
    Mxfp4,
    /// 8-bit integers with a scale for each output.
    Int8,
    /// Integers with a 16-bit scale for a group of inputs.
    IntGroups {
        /// Bits of a weight.
        bits: u32,
        /// Inputs that share a scale.
        group: u32,
        /// Whether each group has a zero point too.
        zeros: bool,
    },
}

impl Packing {
    /// Bytes of a matrix, scales included.
    pub fn bytes(self, tensor: &Tensor) -> u64 {
        let (outputs, inputs) = (tensor.outputs, tensor.inputs);
        let weights = outputs * inputs;
        let packed = match self {
            Self::Fp8Blocks { block: [rows, columns], scale } => {
                let scales =
                    outputs.div_ceil(u64::from(rows)) * inputs.div_ceil(u64::from(columns));
                weights + u64::from(scale) * scales
            }
            Self::Fp8 => weights + 4 * (tensor.parts + 1),
            Self::Mxfp8 => weights + weights.div_ceil(32),
            // Scales of whole groups only.
            Self::Nvfp4 => weights.div_ceil(2) + outputs * (inputs / 16) + 4 * (tensor.parts + 1),
            Self::Mxfp4 => weights.div_ceil(2) + weights.div_ceil(32),
            Self::Int8 => weights + 4 * outputs,
            Self::IntGroups { bits, group, zeros } => {
                let groups = outputs * inputs.div_ceil(u64::from(group.max(1)));
                let points = if zeros { (groups * u64::from(bits)).div_ceil(8) } else { 0 };
                (weights * u64::from(bits)).div_ceil(8) + 2 * groups + points
            }
        };
        tensor.copies * (packed + 2 * tensor.biases)
    }
}

impl Packing {
    /// The rate at which products with these weights run, if the GPU has it.
    pub const fn compute(self) -> ComputeRate {
        match self {
            Self::IntGroups { .. } | Self::Mxfp4 => ComputeRate::Half,
            Self::Fp8Blocks { .. } | Self::Fp8 | Self::Mxfp8 => ComputeRate::Fp8,
            Self::Int8 => ComputeRate::Int8,
            Self::Nvfp4 => ComputeRate::Fp4,
        }
    }

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fp8Blocks { .. } => "fp8_blocks",
            Self::Fp8 => "fp8",
            Self::Mxfp8 => "mxfp8",
            Self::Nvfp4 => "nvfp4",
            Self::Mxfp4 => "mxfp4",
            Self::Int8 => "int8",
            Self::IntGroups { .. } => "int_groups",
        }
    }
}

impl From<Scheme> for Packing {
    fn from(scheme: Scheme) -> Self {
        match scheme {
            Scheme::IntGroups { bits, group } => Self::IntGroups { bits, group, zeros: true },
            Scheme::Fp8 { block: Some(block) } => Self::Fp8Blocks { block, scale: 4 },
            Scheme::Fp8 { block: None } => Self::Fp8,
            Scheme::Int8 => Self::Int8,
            Scheme::Mxfp4 => Self::Mxfp4,
            Scheme::Nvfp4 => Self::Nvfp4,
        }
    }
}

/// Where a matrix stands in a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Around the layers.
    Outside,
    /// In a layer, by its number.
    Layer(usize),
    /// In a layer that drafts, by the number it has as one more of the model's, and by its own: checkpoints call it
    /// one or the other (`model.layers.61`, `mtp.layers.0`).
    Draft {
        /// Its number behind the layers of the model.
        number: usize,
        /// Its number among those that draft.
        index: usize,
    },
}

/// Which matrices are packed.
#[derive(Debug, Clone, PartialEq)]
pub struct QuantizedWeights {
    /// What packed matrices are in, if not told one by one.
    pub rest: Option<Packing>,
    /// What routed experts are in, if in something else.
    pub experts: Option<Packing>,
    /// What routed experts of layers that draft are in, if in something else.
    pub draft_experts: Option<Packing>,
    /// Whether the output head is packed like other matrices.
    pub includes_head: bool,
    /// What single matrices are in, by layer and name.
    pub(super) single: BTreeMap<String, Packing>,
    /// The same of layers that draft.
    pub(super) single_drafts: BTreeMap<String, Packing>,
    /// Matrices that are left as they are.
    pub(super) kept: Kept,
    /// Parts that are left as they are.
    pub(super) left: Vec<Component>,
    /// The place in the list of all layers of the first of these.
    pub(super) first_layer: usize,
    /// Entries of the list that one layer of the checkpoint is.
    pub(super) entries: usize,
    /// Numbers of the kinds of packing of each entry, where they differ.
    pub(super) alike: Vec<u32>,
    /// Whether these layers draft.
    pub(super) are_drafts: bool,
    pub(super) parents: Parents,
}

impl QuantizedWeights {
    /// These modules in one scheme.
    pub(in crate::model) fn of_modules(scheme: Scheme, modules: &[Module]) -> Self {
        let converts = |component: &Component| modules.contains(&component.module());
        Self {
            rest: Some(scheme.into()),
            experts: None,
            includes_head: modules.contains(&Module::LmHead),
            draft_experts: None,
            single: BTreeMap::new(),
            single_drafts: BTreeMap::new(),
            kept: Kept::default(),
            left: Component::ALL.into_iter().filter(|part| !converts(part)).collect(),
            first_layer: 0,
            entries: 1,
            alike: Vec::new(),
            are_drafts: false,
            parents: Parents { mlp: "mlp", moe: "mlp" },
        }
    }

    /// The same, of layers from this one on.
    pub(in crate::model) fn beginning_at(&self, first: usize) -> Self {
        Self { first_layer: self.first_layer + first, ..self.clone() }
    }

    /// The same, of the layers behind those of the model, which draft.
    pub(in crate::model) fn of_drafts(&self, first: usize) -> Self {
        Self { are_drafts: true, ..self.beginning_at(first) }
    }

    /// The number of the kind of packing of a layer: those of one kind are packed alike.
    pub(in crate::model) fn kind_of(&self, layer: usize) -> u32 {
        self.alike.get(self.first_layer + layer).copied().unwrap_or(0)
    }

    /// Whether single matrices of some layers are packed in another way.
    pub(super) fn names_layers(&self) -> bool {
        !self.single.is_empty() || self.kept != Kept::default()
    }

    /// What a matrix is packed in.
    pub fn packing(&self, place: Place, tensor: &Tensor) -> Option<Packing> {
        let is_fixed = tensor.name.is_empty()
            || tensor.component == Component::Router
            || tensor.name.ends_with("gate");
        let is_left = self.left.contains(&tensor.component);
        if is_fixed || is_left || (tensor.component == Component::LmHead && !self.includes_head) {
            return None;
        }
        let (number, index) = match place {
            Place::Outside => (0, None),
            Place::Layer(number) => {
                let own = self.are_drafts.then_some(number);
                ((self.first_layer + number) / self.entries, own)
            }
            Place::Draft { number, index } => (number, Some(index)),
        };
        let names = self.names_of(number, tensor.name);
        let among_drafts = index.map_or(Vec::new(), |index| self.names_of(index, tensor.name));
        let single = names.iter().find_map(|name| self.single.get(name));
        let single =
            single.or_else(|| among_drafts.iter().find_map(|name| self.single_drafts.get(name)));
        if let Some(packing) = single {
            return Some(*packing);
        }
        let packing = match (tensor.component, index) {
            (Component::RoutedExperts, Some(_)) => {
                self.draft_experts.or(self.experts).or(self.rest)
            }
            (Component::RoutedExperts, None) => self.experts.or(self.rest),
            // NVFP4 checkpoints of Qwen keep it in 16 bits without saying so (vLLM 0.33.0, `qwen3_5_mtp.py`).
            _ if tensor.name == "fc" => self.rest.filter(|rest| *rest != Packing::Nvfp4),
            _ => self.rest,
        };
        let is_kept = |name: &String| self.kept.matches(name);
        let is_kept_draft = |name: &String| self.kept.matches_draft(name);
        packing.filter(|_| !names.iter().any(is_kept) && !among_drafts.iter().any(is_kept_draft))
    }

    /// What a matrix may be called in checkpoints, from the number of its layer on.
    fn names_of(&self, layer: usize, name: &str) -> Vec<String> {
        let plain =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let under = |parent: &str, names: &[&str]| {
            names.iter().map(|name| format!("{parent}.{name}")).collect()
        };
        let (mlp, moe) = (self.parents.mlp, self.parents.moe);
        let names: Vec<String> = match name {
            "lm_head" => return plain(&["lm_head", "head", "output"]),
            "self_attn.q_proj" => plain(&[
                "self_attn.q_proj",
                "self_attn.k_proj",
                "self_attn.v_proj",
                "self_attn.qkv_proj",
                "mixer.q_proj",
                "mixer.k_proj",
                "mixer.v_proj",
            ]),
            "self_attn.o_proj" => plain(&["self_attn.o_proj", "mixer.o_proj"]),
            "linear_attn.in_proj_qkv" => {
                plain(&["linear_attn.in_proj_qkv", "linear_attn.in_proj_qkvz"])
            }
            "experts.gate_up_proj" => {
                under(moe, &["experts.0.gate_proj", "experts.0.w1", "experts.0.up_proj", "experts"])
            }
            "experts.down_proj" => under(moe, &["experts.0.down_proj", "experts.0.w2", "experts"]),
            "shared_experts.up_proj" => under(
                moe,
                &[
                    "shared_experts.gate_proj",
                    "shared_experts.up_proj",
                    "shared_expert.gate_proj",
                    "shared_experts.w1",
                ],
            ),
            "shared_experts.down_proj" => under(
                moe,
                &["shared_experts.down_proj", "shared_expert.down_proj", "shared_experts.w2"],
            ),
            "mlp.up_proj" => under(mlp, &["gate_proj", "up_proj"]),
            "mlp.down_proj" => under(mlp, &["down_proj"]),
            "fc1_latent_proj" | "fc2_latent_proj" => under(moe, &[name]),
            other => plain(&[other]),
        };
        names.into_iter().map(|name| format!("layers.{layer}.{name}")).collect()
    }
}

/// What the modules are called that hold MLPs and experts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parents {
    pub(super) mlp: &'static str,
    pub(super) moe: &'static str,
}

/// Patterns of names.
#[derive(Debug, Clone, Default)]
pub(super) struct Kept {
    /// Names, from `layers` on: of themselves and of all below them.
    names: BTreeSet<String>,
    /// Beginnings of names of one layer, by what stands before and with its number.
    beginnings: BTreeMap<String, Vec<String>>,
    /// All others.
    expressions: Vec<Regex>,
    /// Those of layers that draft and have numbers of their own, from `mtp` on.
    drafts: Vec<Regex>,
    written: Vec<String>,
}

impl PartialEq for Kept {
    fn eq(&self, other: &Self) -> bool {
        self.written == other.written
    }
}

impl Kept {
    /// Of patterns as checkpoints write them: names, names with `*`, and expressions after `re:`.
    ///
    /// # Errors
    /// The pattern that is no expression.
    pub(super) fn of<'a>(patterns: impl Iterator<Item = &'a str>) -> Result<Self, &'a str> {
        let mut kept = Self::default();
        for pattern in patterns {
            kept.written.push(pattern.to_owned());
            if is_elsewhere(pattern) {
                if let Some(at) = pattern.find(DRAFTS) {
                    kept.drafts.push(
                        Regex::new(&expression_of_draft(&pattern[at..])).map_err(|_| pattern)?,
                    );
                }
                continue;
            }
            if let Some(expression) = pattern.strip_prefix("re:") {
                let expression = Regex::new(&format!("^(?:{expression})")).map_err(|_| pattern)?;
                if pattern.contains(DRAFTS) {
                    kept.drafts.push(expression.clone());
                }
                kept.expressions.push(expression);
                continue;
            }
            let rest = pattern.find("layers.").map_or(pattern, |at| &pattern[at..]);
            let beginning = rest.strip_suffix('*');
            let is_plain = !beginning.unwrap_or(rest).contains(['*', '?']);
            match (layer_of(rest), beginning) {
                (_, None) if is_plain && rest.starts_with("layers.") => {
                    kept.names.insert(rest.to_owned());
                }
                (Some(layer), Some(beginning)) if is_plain => {
                    kept.beginnings.entry(layer.to_owned()).or_default().push(beginning.to_owned());
                }
                _ => {
                    kept.expressions
                        .push(Regex::new(&expression_of(pattern)).map_err(|_| pattern)?);
                }
            }
        }
        Ok(kept)
    }

    /// Whether a name, from `layers` on, is one of them or lies below one.
    fn matches(&self, name: &str) -> bool {
        let ends = name.match_indices('.').map(|(at, _)| at).chain([name.len()]);
        if ends.into_iter().any(|end| self.names.contains(&name[..end])) {
            return true;
        }
        let beginnings = layer_of(name).and_then(|layer| self.beginnings.get(layer));
        if beginnings.is_some_and(|all| all.iter().any(|one| name.starts_with(one.as_str()))) {
            return true;
        }
        let whole = format!("model.{name}");
        self.expressions.iter().any(|one| one.is_match(&whole))
    }

    /// Whether a name of a layer that drafts, from `layers` on, is one of those that are told by such names.
    fn matches_draft(&self, name: &str) -> bool {
        // The join stands in the first layer, or above all.
        let below = name.strip_prefix("layers.").and_then(|rest| rest.split_once('.'));
        let names = [Some(name), below.map(|(_, below)| below)].into_iter().flatten();
        let mut names = names.map(|name| format!("{DRAFTS}.{name}"));
        names.any(|name| self.drafts.iter().any(|one| one.is_match(&name)))
    }
}

/// What modules that draft are called where their layers have numbers of their own.
const DRAFTS: &str = "mtp";

/// `layers` and the number, if something follows.
fn layer_of(name: &str) -> Option<&str> {
    let rest = name.strip_prefix("layers.")?;
    let end = rest.find('.')?;
    Some(&name[.."layers.".len() + end])
}

/// Whether a name is of layers that draft or of a tower, whose layers have numbers of their own.
fn is_elsewhere(name: &str) -> bool {
    let before = name.find("layers.").map_or(name, |at| &name[..at]);
    let elsewhere = ["mtp", "vision", "visual", "audio", "encoder", "eagle"];
    !name.starts_with("re:") && elsewhere.iter().any(|part| before.contains(part))
}

/// A name of layers that draft, with wildcards, as an expression.
fn expression_of_draft(pattern: &str) -> String {
    let escaped = regex::escape(pattern).replace("\\*", ".*").replace("\\?", ".");
    format!("^{escaped}(?:$|\\.)")
}

/// A name with wildcards as an expression. What stands before `layers` is another in every engine.
fn expression_of(pattern: &str) -> String {
    let rest = pattern.find("layers.").map(|at| &pattern[at..]);
    let pattern = ["language_model.", "model."]
        .iter()
        .fold(pattern, |rest, prefix| rest.strip_prefix(prefix).unwrap_or(rest));
    let escaped = regex::escape(rest.unwrap_or(pattern)).replace("\\*", ".*").replace("\\?", ".");
    let start = if rest.is_none() && pattern.starts_with('*') { "^" } else { "(?:^|\\.)" };
    format!("{start}{escaped}(?:$|\\.)")
}

/// The name of a matrix of a layer that drafts in a list of single ones.
pub(super) fn single_draft_name(name: &str) -> Option<String> {
    let rest = &name[name.find(DRAFTS)?..];
    single_name(&rest[rest.find("layers.")?..])
}

/// The name of a matrix in a list of single ones, as [`QuantizedWeights`] looks for it: experts by the first of them.
pub(super) fn single_name(name: &str) -> Option<String> {
    let Some(at) = name.find("layers.") else {
        return (name.ends_with("lm_head") || name == "head").then(|| "lm_head".to_owned());
    };
    if is_elsewhere(name) {
        return None;
    }
    let name = &name[at..];
    let Some((before, after)) = name.split_once(".experts.") else { return Some(name.to_owned()) };
    let (number, rest) = after.split_once('.')?;
    (number == "0").then(|| format!("{before}.experts.0.{rest}"))
}
