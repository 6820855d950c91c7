//! Layers that draft (multi-token prediction), and what joins them to the model.
//!
//! A module takes the embedding of a token and the state that the model had before it, joins them to the width of the
//! model, and goes on through layers like the model's own. It shares the table of embeddings with the model; some
//! bring an output head of their own. Shapes are those of vLLM 0.33.0 (`model_executor/models/*_mtp.py`,
//! `models/*/nvidia/mtp.py`).

use super::Checkpoint;
use super::quantized::Place;
use super::shape::Layer;
use super::tensors::{Component, Tensor, rows_of};

/// What a checkpoint has to draft with.
#[derive(Debug, Clone, PartialEq)]
pub enum Drafts {
    /// Nothing.
    None,
    /// Modules whose layers no engine is known to build, with the reason.
    Unread {
        /// How many.
        modules: u32,
        /// Why, as a clause.
        why: String,
    },
    /// Modules whose layers are known.
    Read(DraftModules),
}

/// Modules that draft, each one token further ahead.
#[derive(Debug, Clone, PartialEq)]
pub struct DraftModules {
    /// How many.
    pub modules: u32,
    /// The layers of all modules, in order; every module has as many.
    pub layers: Vec<Layer>,
    /// How embedding and state are joined.
    pub join: Join,
    /// Whether one join, with its norms, serves all modules.
    pub is_joined_once: bool,
    /// Whether each module has an output head of its own.
    pub has_head: bool,
    /// What `num_nextn_predict_layers` says, if the config has this key: SGLang sizes its pools by it.
    pub nextn: Option<u32>,
}

/// How a module joins an embedding and a state, two vectors, to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Join {
    /// By a matrix that every GPU has; by its name where it may be packed in fewer bits.
    Whole(Option<&'static str>),
    /// By a matrix, of this name, whose outputs GPUs share.
    Shared(&'static str),
    /// Each by a matrix of its own that every GPU has, and the sum of both.
    Apart(&'static str, &'static str),
}

impl Checkpoint {
    /// The modules that draft, if their layers are known.
    pub const fn draft_modules(&self) -> Option<&DraftModules> {
        match &self.drafts {
            Drafts::Read(modules) => Some(modules),
            Drafts::None | Drafts::Unread { .. } => None,
        }
    }

    /// The weights of all modules that draft on one of `tp` GPUs, each with its place; what they share with the model
    /// is not among them.
    pub fn draft_tensors(&self, tp: u32) -> Vec<(Place, Tensor)> {
        let Some(drafts) = self.draft_modules() else { return Vec::new() };
        let mut all = Vec::new();
        let per_module = drafts.layers.len() / (drafts.modules.max(1) as usize);
        let joins = if drafts.is_joined_once { 1 } else { drafts.modules as usize };
        for module in 0..joins {
            let place = self.draft_place(module * per_module);
            all.extend(self.join_tensors(drafts, tp).into_iter().map(|tensor| (place, tensor)));
        }
        for (index, layer) in drafts.layers.iter().enumerate() {
            let place = self.draft_place(index);
            let tensors = self.layer_tensors(layer, tp).into_iter();
            all.extend(tensors.map(|tensor| (place, self.as_drafted(tensor))));
        }
        all
    }

    pub(in crate::model) fn draft_place(&self, index: usize) -> Place {
        Place::Draft { number: self.layers.len() + index, index }
    }

    /// The join of a module, norms of both its inputs and of the output, and the head.
    pub(in crate::model) fn join_tensors(&self, drafts: &DraftModules, tp: u32) -> Vec<Tensor> {
        let (hidden, tp) = (u64::from(self.hidden), u64::from(tp.max(1)));
        let matrix =
            |name, outputs, inputs| Tensor::matrix(Component::NormOther, name, outputs, inputs);
        let mut all = match drafts.join {
            Join::Whole(name) => vec![matrix(name.unwrap_or_default(), hidden, 2 * hidden)],
            Join::Shared(name) => vec![matrix(name, hidden.div_ceil(tp), 2 * hidden)],
            Join::Apart(embedding, state) => {
                vec![matrix(embedding, hidden, hidden), matrix(state, hidden, hidden)]
            }
        };
        all.push(Tensor::plain(Component::NormOther, 3 * hidden, 1));
        all.extend(self.stream_head());
        if drafts.has_head {
            let rows = rows_of(self.vocab, tp);
            all.push(Tensor::matrix(Component::LmHead, "shared_head.head", rows, hidden));
        }
        all
    }

    /// MiMo-V2 leaves the output projection of a layer that drafts as it is (vLLM 0.33.0, `models/mimo_v2.py`).
    fn as_drafted(&self, tensor: Tensor) -> Tensor {
        if self.family == "mimo_v2_flash" && tensor.name == "self_attn.o_proj" {
            Tensor { name: "", ..tensor }
        } else {
            tensor
        }
    }
}
