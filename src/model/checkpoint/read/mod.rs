//! Reading a model from the `config.json` of a Hugging Face checkpoint, and from `hf_quant_config.json` beside it.
//!
//! Keys and their aliases follow the `transformers` configuration classes (4.5x, 5.x) and the classes that
//! checkpoints bring. Every key is read, known to describe, or refused by name.

mod defaults;
mod drafts;
mod families;
mod hybrids;
mod known;
mod layers;
mod mixers;
mod mlps;
mod older;
mod outer;
mod quantization;
mod states;

use serde_json::Value;

use self::families::{ALIASES, FAMILIES, Family};
use super::{Checkpoint, Layer, Mixer, Packing, Place, Tensor};
use crate::model::error::ModelError;
use crate::model::hf::keys::{self, Keys, Rule};
use crate::model::hf::{known as known_of_all, read_dtype};
use crate::model::precision::{Dtype, KvDtype};

impl Checkpoint {
    /// Reads a model called `name` from the text of its `config.json`, and of its `hf_quant_config.json` if it has one.
    ///
    /// # Errors
    /// When a key is missing or out of range, describes layers that are not modelled, or is not known.
    pub fn from_hf_config(
        json: &str,
        quantization: Option<&str>,
        name: &str,
    ) -> Result<Self, ModelError> {
        let problem = |problem: String| ModelError::Json { model: name.to_owned(), problem };
        let parse = |text: &str| {
            crate::json::parse(&keys::without_infinities(text))
                .map_err(|error| problem(format!("is no JSON: {error}")))
        };
        let mut value = parse(json)?;
        defaults::fill(&mut value);
        let root = value.as_object().ok_or_else(|| problem("must be an object".to_owned()))?;
        let outer = Keys::new(name, root, "").with_sizes_up_to(SIZE_MAX);
        let text = outer.object("text_config")?;
        let beside = quantization.map(parse).transpose()?;
        let text_or_all = text.as_ref().unwrap_or(&outer);
        let mut model = read(text_or_all, &outer, text.is_some(), beside.as_ref())?;
        let descriptions = known::descriptions();
        if let Some(text) = &text {
            text.refuse_the_rest(&descriptions)?;
        }
        outer.refuse_the_rest(&descriptions)?;
        let params = model.parameters_roughly();
        if params > PARAMS_MAX {
            let sizes =
                format!("its sizes make {params:.0e} parameters, more than {PARAMS_MAX:.0e}");
            return Err(problem(sizes));
        }
        let keeps = |layer: &Layer| {
            matches!(layer.mixer, Some(Mixer::Grouped(_) | Mixer::Latent(_) | Mixer::Compressed(_)))
        };
        // What Granite's class means without a word is states alone.
        let has_states_alone = model.family == "granitemoehybrid";
        if !has_states_alone && !model.layers.iter().any(keeps) {
            return Err(problem("has no layer with keys and values".to_owned()));
        }
        if let Some(what) = model.empty_part() {
            return Err(problem(format!("a layer has {what}")));
        }
        if model.layers.len() > LAYERS_MAX {
            return Err(problem(format!("has more than {LAYERS_MAX} layers")));
        }
        model.number_packings();
        Ok(model)
    }
}

impl Checkpoint {
    /// What a layer has none of, though it cannot be without.
    fn empty_part(&self) -> Option<&'static str> {
        let of_mixer = |mixer: &Mixer| match mixer {
            Mixer::Grouped(grouped) if grouped.heads == 0 || grouped.kv_heads == 0 => {
                Some("no heads")
            }
            Mixer::Grouped(grouped) if grouped.head_dim == 0 || grouped.value_dim == 0 => {
                Some("heads without elements")
            }
            Mixer::Latent(latent) if latent.heads == 0 => Some("no heads"),
            Mixer::Latent(latent) if latent.kv_lora_rank + latent.qk_rope_head_dim == 0 => {
                Some("latent vectors without elements")
            }
            Mixer::Compressed(compressed) if compressed.heads == 0 || compressed.o_groups == 0 => {
                Some("no heads")
            }
            Mixer::StateSpace(state) if state.heads == 0 || state.head_dim == 0 => {
                Some("no heads with a state")
            }
            _ => None,
        };
        let of_experts = |layer: &Layer| {
            let experts = layer.experts?;
            (experts.count == 0 || experts.per_token > experts.count + experts.router.idle)
                .then_some("fewer experts than a token visits")
        };
        let parts = self.layers.iter();
        let mixers = parts.clone().filter_map(|layer| layer.mixer.as_ref());
        mixers.filter_map(of_mixer).chain(parts.filter_map(of_experts)).next()
    }

    /// Notes which layers are packed alike, so that names are compared once.
    fn number_packings(&mut self) {
        let Some(weights) = self.quantization.as_ref().filter(|weights| weights.names_layers())
        else {
            return;
        };
        let mut kinds: Vec<Vec<Option<Packing>>> = Vec::new();
        let mut alike = Vec::with_capacity(self.layers.len());
        for (index, layer) in self.layers.iter().enumerate() {
            let tensors = self.layer_tensors(layer, 1);
            let packed = |tensor: &Tensor| weights.packing(Place::Layer(index), tensor);
            let packings: Vec<_> = tensors.iter().map(packed).collect();
            let kind = kinds.iter().position(|kind| *kind == packings).unwrap_or_else(|| {
                kinds.push(packings);
                kinds.len() - 1
            });
            alike.push(kind as u32);
        }
        if let Some(weights) = &mut self.quantization {
            weights.alike = alike;
        }
    }

    /// What the family of a class is known by; nothing where it is not read.
    pub(in crate::model) fn family_of(architecture: &str) -> &'static str {
        let alias = ALIASES.iter().find(|(alias, _)| *alias == architecture);
        let class = alias.map_or(architecture, |(_, family)| family);
        let family = FAMILIES.iter().find(|family| family.architecture == class);
        family.map_or("", |family| family.types[0])
    }
}

/// Whether a key of `config.json` only describes, so that it may have any value.
pub fn describes(key: &str) -> bool {
    let lists = [
        known::OF_FAMILIES,
        known_of_all::DESCRIPTIONS,
        known_of_all::VISION,
        known_of_all::ROPE,
        known_of_all::SPARSE_BLOCKS,
        known_of_all::LINEAR_ATTENTION,
    ];
    lists.iter().any(|list| matches!(keys::rule_of(list, key), Some(Rule::Any)))
}

/// Layers that no model has.
const LAYERS_MAX: usize = 20_000;
/// Sizes and counts that no model has.
const SIZE_MAX: u32 = 1 << 18;
/// Parameters that no model has: a thousand times those of the largest there are.
const PARAMS_MAX: f64 = 1e15;

fn read(
    keys: &Keys<'_>,
    outer: &Keys<'_>,
    is_nested: bool,
    beside: Option<&Value>,
) -> Result<Checkpoint, ModelError> {
    let (family, architecture) = family_of(keys, outer, is_nested)?;
    let hidden = keys.required(&["hidden_size", "n_embd", "n_embed"])?;
    let layers = layers::read(keys, family, hidden)?;
    let drafts = drafts::read(keys, family, &architecture, &layers)?;
    let vocab = keys.required(&["vocab_size"])?;
    if family.is(&["phimoe"]) {
        // Its class in vLLM has it whatever the config says.
        keys.pass("lm_head_bias");
    }
    if family.is(&["phimoe_native"]) && keys.flag(&["lm_head_bias"])? == Some(true) {
        return Err(keys.error("lm_head_bias", "must be false for this class"));
    }
    let tied = keys.flag(&["tie_word_embeddings"])?;
    let outside = if is_nested { outer.flag(&["tie_word_embeddings"])? } else { None };
    // vLLM makes the language model of Mistral 3 from the part within, whatever is said outside.
    let outside = outside.filter(|_| !(family.is(&["mistral"]) && tied.is_some()));
    if let (Some(inside), Some(outside)) = (tied, outside)
        && inside != outside
    {
        return Err(
            outer.error("tie_word_embeddings", format!("must be {inside}, as in text_config"))
        );
    }
    let tied = tied.or(outside);
    let tower = outer::tower(outer, hidden, family, is_nested)?;
    let reach = outer::reach(keys, family)?;
    let formats = quantization::read(keys, outer, family, beside)?;
    let (quantization, kv_cache_dtype) =
        formats.map_or((None, KvDtype::Auto), |(all, kv)| (all, kv));
    let dtype = match read_dtype(keys)? {
        Some(dtype) => dtype,
        None if is_nested => read_dtype(outer)?.unwrap_or_default(),
        None => Dtype::default(),
    };
    if is_nested {
        outer.find(&["torch_dtype", "dtype"]);
    }
    Ok(Checkpoint {
        name: keys.model().to_owned(),
        architecture,
        family: family.types[0].to_owned(),
        hidden,
        streams: keys.optional(&["hc_mult"])?.unwrap_or(1),
        vocab,
        tied_embeddings: tied.unwrap_or_else(|| family.ties_by_default()),
        layers,
        max_position: reach.vllm,
        max_position_sglang: reach.sglang,
        dtype,
        quantization,
        kv_cache_dtype,
        kv_cache_dtype_sglang: quantization::kv_of_sglang(outer, keys, beside),
        tower,
        drafts,
    })
}

/// The family, and what the class of the whole model is called.
fn family_of(
    keys: &Keys<'_>,
    outer: &Keys<'_>,
    is_nested: bool,
) -> Result<(&'static Family, String), ModelError> {
    let class_of = |keys: &Keys<'_>| -> Result<Option<String>, ModelError> {
        let list = keys.list("architectures")?;
        Ok(list.and_then(|list| list.first()).and_then(Value::as_str).map(str::to_owned))
    };
    let own = class_of(keys)?;
    let whole = if is_nested { class_of(outer)? } else { None };
    if is_nested {
        outer.pass("model_type");
    }
    let kind = keys.text(&["model_type"])?;
    let by_class = |class: &str| {
        let alias = ALIASES.iter().find(|(alias, _)| *alias == class);
        let class = alias.map_or(class, |(_, family)| family);
        FAMILIES.iter().find(|family| family.architecture == class)
    };
    let by_kind = kind.and_then(|kind| FAMILIES.iter().find(|family| family.types.contains(&kind)));
    let found = own
        .as_deref()
        .and_then(by_class)
        .or(by_kind)
        .or_else(|| whole.as_deref().and_then(by_class));
    let Some(family) = found else {
        let known: Vec<&str> = FAMILIES.iter().map(|one| one.architecture).collect();
        return Err(match (&own, kind) {
            (Some(class), _) => keys.error(
                "architectures",
                format!("{class} is not read; known are {}", known.join(", ")),
            ),
            (None, kind) => {
                let known: Vec<&str> = FAMILIES.iter().flat_map(|one| one.types).copied().collect();
                let what =
                    kind.map_or("is missing".to_owned(), |kind| format!("{kind} is not read"));
                keys.error("model_type", format!("{what}; known are {}", known.join(", ")))
            }
        });
    };
    let names_other = own.as_deref().is_some_and(|class| by_class(class).is_none());
    if let Some(class) = own.as_ref().filter(|_| names_other) {
        let known: Vec<&str> = FAMILIES.iter().map(|one| one.architecture).collect();
        return Err(keys.error(
            "architectures",
            format!("{class} is not read; known are {}", known.join(", ")),
        ));
    }
    if let Some(kind) = kind.filter(|kind| !family.types.contains(kind)) {
        let right = family.types.join(" or ");
        let problem = format!("must be {right} for {}, got {kind}", family.architecture);
        return Err(keys.error("model_type", problem));
    }
    let class = whole.or(own).unwrap_or_else(|| family.architecture.to_owned());
    Ok((family, class))
}

#[cfg(test)]
mod refusals;
#[cfg(test)]
mod tests;
