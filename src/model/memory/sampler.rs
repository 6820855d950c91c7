//! What the sampler's warm-up allocates.
//!
//! vLLM's memory profile samples a token for each of `max_num_seqs` sequences with top-k and top-p on
//! (0.8 to 0.33, `vllm/v1/worker/gpu_model_runner.py`, `_dummy_sampler_run`; before, the profile run
//! itself). The peak is a sum of tensors as large as the logits. With L, all logits as 32-bit floats:
//!
//! * logits in 16 bits L/2, in 32 bits L;
//! * a sort (`torch.sort`, `PyTorch` 2.x, `aten/src/ATen/native/cuda/SortStable.cu`) of at least 128 rows: the
//!   sorted values L, their 64-bit places 2 L, the places to start from 2 L, CUB's second copy of both 3 L:
//!   9.5 L together;
//! * of fewer rows: values and places 3 L, two arrays of (row, place) 4 L, sorted keys L, CUB's second copy
//!   of keys and pairs 3 L: 12.5 L together;
//! * without a sort: a masked copy L and probabilities L: 3.5 L together.
//!
//! The sums come from reading the code. Of logged activation peaks 9.5 L was seen within 0.02 GiB in two starts
//! on H100 (1024 sequences), and in five of vLLM before 0.9 with 256; 3.5 L in two.

use serde::{Deserialize, Serialize};

use super::start::EngineVersion;
use crate::units::Bytes;

/// How tokens are chosen from logits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum SamplerKernels {
    /// `PyTorch`'s operators, which sort all logits; from vLLM 0.17 on a Triton kernel in their place.
    Native,
    /// `FlashInfer`'s kernels.
    FlashInfer,
    /// None: the model only embeds, classifies or ranks.
    Absent,
}

/// The first vLLM whose own sampler masks logits without sorting them (pull request 33538).
const WITHOUT_SORT: EngineVersion = EngineVersion::new(0, 17);
/// Rows of logits below which `PyTorch` sorts them all at once.
const SEGMENTED_FROM_ROWS: u32 = 128;

impl SamplerKernels {
    /// Whether they sort all logits.
    pub(crate) fn sorts(self, version: EngineVersion) -> bool {
        self == Self::Native && version < WITHOUT_SORT
    }

    /// The most that it allocates at once for so many rows of logits.
    pub(super) fn bytes(self, version: EngineVersion, rows: u32, vocab: u32) -> Bytes {
        let logits = 4.0 * f64::from(rows) * f64::from(vocab);
        let copies = match (self, self.sorts(version)) {
            (Self::Absent, _) => 0.0,
            (_, false) => 3.5,
            (_, true) if rows >= SEGMENTED_FROM_ROWS => 9.5,
            (_, true) => 12.5,
        };
        Bytes((copies * logits) as u64)
    }
}
