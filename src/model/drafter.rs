//! What makes the drafts of speculative decoding on the GPUs that serve a model: layers that the model brings for it, a
//! head of one layer, or a small model of its own.
//!
//! All GPUs of the model share the layers in the same way (vLLM 0.33.0, `vllm/config/speculative.py`,
//! `draft_tensor_parallel_size`), and share the table of embeddings with the model. What a pass takes beside the layers
//! is the join in front of them, and the output head behind them.

use super::checkpoint::{Checkpoint, Component, Gate, Layer, Mixer, Reach, Tensor};
use super::layout::{Machine, check_drafts};
use super::memory::Loading;
use super::weights::Matrix;
use crate::units::Bytes;

/// What drafts.
#[derive(Debug, Clone, PartialEq)]
pub struct Drafter {
    /// What each pass goes through, as a model of its own: its layers, and the output head behind them.
    pub model: Checkpoint,
    /// Matrices in front of the layers that each pass meets, as every GPU holds them.
    pub joins: Vec<Matrix>,
    /// Those that only the pass over what was just verified meets.
    pub fuses: Vec<Matrix>,
    /// Bytes of weights that come to those of the model, on each GPU.
    pub weights: Bytes,
    /// Bytes of tables that it shares with the model, on each GPU: those of embeddings and of the output head.
    pub shared: Bytes,
    /// Whether the model brings it.
    pub is_own: bool,
    /// The layers with a KV cache beside that of the model.
    cached: Vec<Layer>,
}

/// A head of one layer that drafts from states of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DraftHead {
    /// From the last states, with the output head of the model (Li et al. 2024).
    Eagle,
    /// From states of three layers, with an output head of its own for so many tokens, all if absent (Li et al. 2025).
    Eagle3 {
        /// Tokens that it knows.
        vocab: Option<u32>,
    },
}

/// States of how many layers `eagle3` fuses.
const FUSED: u64 = 3;

impl Drafter {
    /// The layers that a model brings to draft with. Passes take its modules in turn.
    ///
    /// # Errors
    /// When it has none, or none whose layers are known and alike; why, as a clause.
    pub fn of_modules(model: &Checkpoint, machine: Machine) -> Result<Self, String> {
        check_drafts(model, machine).map_err(|refusal| refusal.why)?;
        let Some(drafts) = model.draft_modules() else {
            return Err(format!("{} has no layers that draft", model.name));
        };
        let each = drafts.layers.len() / drafts.modules.max(1) as usize;
        let (first, _) = drafts.layers.split_at(each);
        if drafts.layers.chunks(each.max(1)).any(|module| module != first) {
            return Err(format!("the modules of {} that draft are not alike", model.name));
        }
        let before = model.layers.len();
        let mut drafting = model.with_other_layers(first.to_vec(), " (layers that draft)");
        let weights = model.quantization.as_ref();
        drafting.quantization = weights.map(|weights| weights.of_drafts(before));
        let joins = model.join_tensors(drafts, machine.tp).into_iter();
        let place = model.draft_place(0);
        let joins = joins
            .filter(|tensor| tensor.inputs > 1 && tensor.component != Component::LmHead)
            .map(|tensor| Matrix::of(&tensor, model.packing_of(place, &tensor)));
        Ok(Self {
            joins: joins.collect(),
            fuses: Vec::new(),
            weights: model.draft_bytes(machine),
            shared: model.tables(machine.tp, !drafts.has_head),
            is_own: true,
            cached: drafts.layers.clone(),
            model: drafting,
        })
    }

    /// A head that drafts for a model: of layers like those of `own`, or of one like the model's last.
    ///
    /// # Errors
    /// When the model has no layer that heads are made like, or `own` has another width; why, as a clause.
    pub fn of_head(
        model: &Checkpoint,
        head: DraftHead,
        own: Option<&Checkpoint>,
        machine: Machine,
    ) -> Result<Self, String> {
        let mut drafting = match own {
            Some(own) if own.hidden != model.hidden => {
                let (width, needed) = (own.hidden, model.hidden);
                return Err(format!("is {width} wide, the states that it reads are {needed}"));
            }
            Some(own) => own.clone(),
            None => {
                let mut like =
                    model.with_other_layers(vec![plain_layer(model)?], " (head that drafts)");
                like.quantization = None;
                like
            }
        };
        let hidden = u64::from(model.hidden);
        let whole = |times: u64| {
            let tensor = Tensor::matrix(Component::NormOther, "", hidden, times * hidden);
            Matrix::of(&tensor, None)
        };
        let layers = drafting.layer_bytes_of_rank(machine.tp, 1);
        let (joins, fuses, own_head) = match head {
            DraftHead::Eagle => (vec![whole(2)], Vec::new(), 0),
            DraftHead::Eagle3 { vocab } => {
                drafting.vocab = vocab.unwrap_or(model.vocab);
                drafting.tied_embeddings = false;
                let head = drafting.lm_head(machine.tp).weight_bytes;
                (drafting.second_inputs(machine.tp), vec![whole(FUSED)], head)
            }
        };
        let beside: u64 = joins.iter().chain(&fuses).map(|matrix| matrix.weight_bytes).sum();
        Ok(Self {
            weights: Bytes(layers + beside + own_head),
            shared: model.tables(machine.tp, own_head == 0),
            is_own: false,
            cached: drafting.layers.clone(),
            model: drafting,
            joins,
            fuses,
        })
    }

    /// A model of its own.
    ///
    /// # Errors
    /// When it has another vocabulary; why, as a clause.
    pub fn of_model(model: &Checkpoint, own: Checkpoint, machine: Machine) -> Result<Self, String> {
        if own.vocab != model.vocab {
            let (has, needed) = (own.vocab, model.vocab);
            return Err(format!(
                "has {has} tokens in its vocabulary, not the {needed} of {}",
                model.name
            ));
        }
        let loading = Loading::Served(machine.generation);
        let loaded = own.stages(1).first().map(|whole| whole.loaded_bytes(machine.tp, 1, loading));
        Ok(Self {
            joins: Vec::new(),
            fuses: Vec::new(),
            weights: loaded.unwrap_or_default(),
            shared: Bytes(0),
            is_own: false,
            cached: own.layers.clone(),
            model: own,
        })
    }

    /// How many layers have a KV cache beside that of the model.
    pub fn cached_layers(&self) -> u32 {
        self.cached.len() as u32
    }

    /// The model with the layers that have a KV cache beside its own.
    pub fn beside(&self, model: &Checkpoint) -> Checkpoint {
        let mut all = model.clone();
        all.layers.extend_from_slice(&self.cached);
        all
    }
}

impl Checkpoint {
    /// The table of embeddings on one of `tp` GPUs, and the output head where that is asked for and apart.
    fn tables(&self, tp: u32, with_head: bool) -> Bytes {
        // The table of the vocabulary comes first.
        let table = self.outer_bytes(tp).first().map_or(0, |(_, bytes)| *bytes);
        let head =
            if with_head && !self.tied_embeddings { self.lm_head(tp).weight_bytes } else { 0 };
        Bytes(table + head)
    }

    /// What has these layers and the same head.
    fn with_other_layers(&self, layers: Vec<Layer>, suffix: &str) -> Self {
        let mut other = self.clone();
        other.layers = layers;
        other.drafts = super::checkpoint::Drafts::None;
        other.tower = None;
        other.name.push_str(suffix);
        other
    }

    /// The projections that take the token beside the state: a second half of the inputs of queries, keys and values.
    fn second_inputs(&self, tp: u32) -> Vec<Matrix> {
        let tensors = self.layers.iter().flat_map(|layer| self.layer_tensors(layer, tp));
        let projections = tensors.filter(|tensor| {
            let is_in_front =
                tensor.inputs == u64::from(self.hidden) && !tensor.name.ends_with("o_proj");
            tensor.component == Component::Attention && is_in_front
        });
        projections.map(|tensor| Matrix::of(&tensor, None)).collect()
    }
}

/// The layer of a head for a model: attention to everything and a dense MLP, like its last that has both.
fn plain_layer(model: &Checkpoint) -> Result<Layer, String> {
    let plain =
        |layer: &&Layer| layer.dense.is_some() && matches!(layer.mixer, Some(Mixer::Grouped(_)));
    let Some(layer) = model.layers.iter().rev().find(plain) else {
        return Err(format!(
            "{} has no layer with grouped attention and a dense MLP that its head could be like: name the head's own \
             config.json",
            model.name
        ));
    };
    let mixer = layer.mixer.map(|mixer| match mixer {
        Mixer::Grouped(grouped) => Mixer::Grouped(super::checkpoint::GroupedAttention {
            reach: Reach::Full,
            sinks: false,
            gate: Gate::None,
            indexer: None,
            ..grouped
        }),
        other => other,
    });
    Ok(Layer { mixer, ..*layer })
}
