//! Shares of a GPU's rates that measured layers reach, for GPUs of which there is no table.
//!
//! All from `AIConfigurator` (ai-dynamo/aiconfigurator, `systems/data`, the tables of vLLM 0.24.0 and SGLang 0.5.14,
//! Kimi delta attention of SGLang 0.5.16 and a vLLM of July 2026), as rises between two shapes, so that fixed times are
//! not in them. Rates are those of the catalogue.

/// Share of the memory bandwidth at which decode of latent attention reads its cache, with 16 heads on a GPU and 64
/// sequences of 8,192 to 32,768 tokens: 0.91 on H100, 0.94 on H200, 0.70 to 0.74 on B200, B300 and GB200, 0.75 on
/// L40S, 0.81 on RTX PRO 6000.
pub(super) const LATENT_DECODE_BANDWIDTH: f64 = 0.8;
/// Share of the multiplications in 16 bits that the same reaches with 128 heads, where they bound it: 0.62 to 0.74 on
/// H100 and H200, 0.48 to 0.62 on B200, B300 and GB200; 0.13 to 0.15 on L40S and RTX PRO 6000, which have no
/// kernel of their own.
pub(super) const LATENT_DECODE_COMPUTE: f64 = 0.6;
/// Share of the multiplications in 16 bits of a whole prompt of 16,384 tokens: 0.72 on H200 with 128 heads, 0.8 on
/// B200, 0.6 on L40S and RTX PRO 6000.
pub(super) const LATENT_PREFILL_COMPUTE: f64 = 0.7;
/// Seconds of a layer's latent attention for one sequence of a short context, beside its products: 16 to 23 µs.
pub(super) const LATENT_DECODE_SECS: f64 = 20e-6;
/// Share of the memory bandwidth at which the indexer of DeepSeek-V3.2 and GLM-5 reads its keys in decode, of 132 bytes
/// a token: 0.71 on H100, 0.66 on H200, 0.56 on B200.
pub(super) const INDEXER_BANDWIDTH: f64 = 0.6;
/// Seconds of a layer's latent attention of chosen tokens for one sequence of a short context, beside its products: 37 to
/// 61 µs in SGLang, 14 to 32 µs of them without the indexer.
pub(super) const SPARSE_LATENT_DECODE_SECS: f64 = 45e-6;
/// Seconds of the same of a layer of DeepSeek-V4: 23 to 68 µs with an indexer, 17 to 52 µs without.
pub(super) const COMPRESSED_DECODE_SECS: f64 = 40e-6;
/// Seconds of the same of a layer of MiniMax-M3: 14 to 40 µs.
pub(super) const SPARSE_GROUPED_DECODE_SECS: f64 = 25e-6;
/// Share of the memory bandwidth at which gated delta nets read and write their states in 32 bits, convolution
/// included, from 128 to 512 sequences: 0.87 on H100, 0.83 on H200, 0.77 to 0.79 on B200, 0.77 on L40S, 0.90 on
/// RTX PRO 6000.
pub(super) const DELTA_DECODE_BANDWIDTH: f64 = 0.8;
/// The same of Kimi delta attention: 0.64 to 0.76 on H200, 0.65 on B200.
pub(super) const KIMI_DECODE_BANDWIDTH: f64 = 0.65;
