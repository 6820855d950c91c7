//! The layers whose attention was measured, by their shapes (`config.json` of each model).

use crate::cost::MixerKind;

/// A layer of a model.
#[derive(Debug)]
pub(super) struct Layer {
    pub(super) kind: MixerKind,
    /// The model, as files name it.
    pub(super) model: &'static str,
    /// Its names in the tables.
    pub(super) names: &'static [&'static str],
    /// The folder of its tables, and those of decode and prefill.
    pub(super) family: &'static str,
    pub(super) stems: [&'static str; 2],
    /// Whether an earlier layer has chosen its tokens.
    pub(super) skips_indexer: bool,
    /// Elements that are cached of a token.
    pub(super) cached: u32,
    /// Elements of a key and a value head.
    pub(super) multiplied: u32,
    /// Heads of the indexer, elements of each, and tokens that it chooses.
    pub(super) indexer: Option<[u32; 3]>,
    /// Tokens of a compressed entry.
    pub(super) ratio: u32,
    widths: Widths,
}

/// What the matrices follow from.
#[derive(Debug)]
enum Widths {
    /// Hidden size, width of compressed queries, elements of heads without position, of values.
    Latent { hidden: u64, queries: u64, nope: u64, value: u64 },
    /// Hidden size and query heads that share a KV head and an index head.
    Grouped { hidden: u64, shared: u64 },
    /// Hidden size and width of compressed queries.
    Compressed { hidden: u64, queries: u64 },
}

/// Width of compressed keys and values, and elements with position beside it.
const LATENT: u64 = 512;
const ROPE: u64 = 64;
/// Elements of a head of MiniMax-M3 and of its index heads.
const GROUPED_DIM: u64 = 128;
/// Elements of a head of DeepSeek-V4, of an index head, heads of a group, and width of compressed outputs.
const COMPRESSED_DIM: u64 = 512;
const INDEX_DIM: u64 = 128;
const GROUP_HEADS: u64 = 8;
const OUTPUTS: u64 = 1024;

const MLA: [&str; 2] = ["mla_generation_module_perf", "mla_context_module_perf"];
const DSA: [&str; 2] = ["dsa_generation_module_perf", "dsa_context_module_perf"];
const MSA: [&str; 2] = ["msa_generation_module_perf", "msa_context_module_perf"];
const CSA: [&str; 2] = ["dsv4_csa_generation_module_perf", "dsv4_csa_context_module_perf"];
const HCA: [&str; 2] = ["dsv4_hca_generation_module_perf", "dsv4_hca_context_module_perf"];

const DEEPSEEK_V3: Widths = Widths::Latent { hidden: 7168, queries: 1536, nope: 128, value: 128 };
const GLM_5: Widths = Widths::Latent { hidden: 6144, queries: 2048, nope: 192, value: 256 };
const V4_FLASH: Widths = Widths::Compressed { hidden: 4096, queries: 1024 };
const V4_PRO: Widths = Widths::Compressed { hidden: 7168, queries: 1536 };

const FLASH: &[&str] = &["sgl-project/DeepSeek-V4-Flash-FP8", "deepseek-ai/DeepSeek-V4-Flash"];
const PRO: &[&str] = &["sgl-project/DeepSeek-V4-Pro-FP8", "deepseek-ai/DeepSeek-V4-Pro"];
const GLM: &[&str] = &["zai-org/GLM-5", "zai-org/GLM-5-FP8"];
const GLM_5_2: &[&str] = &["zai-org/GLM-5.2", "zai-org/GLM-5.2-FP8", "nvidia/GLM-5.2-NVFP4"];

/// All layers.
pub(super) const LAYERS: [Layer; 9] = [
    Layer::latent("deepseek-ai/DeepSeek-V3", &["deepseek-ai/DeepSeek-V3"], DEEPSEEK_V3),
    Layer {
        kind: MixerKind::SparseLatent,
        family: "sparse_attention",
        stems: DSA,
        indexer: Some([64, 128, 2048]),
        ..Layer::latent("deepseek-ai/DeepSeek-V3.2", &["deepseek-ai/DeepSeek-V3.2"], DEEPSEEK_V3)
    },
    Layer {
        kind: MixerKind::SparseLatent,
        family: "sparse_attention",
        stems: DSA,
        multiplied: 512,
        indexer: Some([32, 128, 2048]),
        ..Layer::latent("zai-org/GLM-5", GLM, GLM_5)
    },
    Layer {
        kind: MixerKind::SparseLatent,
        family: "sparse_attention",
        stems: DSA,
        skips_indexer: true,
        multiplied: 512,
        indexer: Some([0, 128, 2048]),
        ..Layer::latent("zai-org/GLM-5.2", GLM_5_2, GLM_5)
    },
    Layer {
        kind: MixerKind::SparseGrouped,
        family: "msa",
        stems: MSA,
        cached: 256,
        multiplied: 256,
        indexer: Some([4, 128, 2048]),
        ..Layer::latent(
            "MiniMaxAI/MiniMax-M3",
            &["MiniMaxAI/MiniMax-M3"],
            Widths::Grouped { hidden: 6144, shared: 16 },
        )
    },
    Layer::compressed("deepseek-ai/DeepSeek-V4-Flash", FLASH, V4_FLASH, Some([64, 128, 512])),
    Layer::compressed("deepseek-ai/DeepSeek-V4-Flash", FLASH, V4_FLASH, None),
    Layer::compressed("deepseek-ai/DeepSeek-V4-Pro", PRO, V4_PRO, Some([64, 128, 1024])),
    Layer::compressed("deepseek-ai/DeepSeek-V4-Pro", PRO, V4_PRO, None),
];

impl Layer {
    const fn latent(model: &'static str, names: &'static [&'static str], widths: Widths) -> Self {
        Self {
            kind: MixerKind::Latent,
            model,
            names,
            family: "mla",
            stems: MLA,
            skips_indexer: false,
            cached: 576,
            multiplied: 320,
            indexer: None,
            ratio: 0,
            widths,
        }
    }

    /// With an indexer an entry stands for 4 tokens, without one for 128.
    const fn compressed(
        model: &'static str,
        names: &'static [&'static str],
        widths: Widths,
        indexer: Option<[u32; 3]>,
    ) -> Self {
        let (stems, ratio) = if indexer.is_some() { (CSA, 4) } else { (HCA, 128) };
        Self {
            kind: MixerKind::Compressed,
            family: "sparse_attention",
            stems,
            cached: 512,
            multiplied: 1024,
            indexer,
            ratio,
            ..Self::latent(model, names, widths)
        }
    }

    /// Outputs and inputs of the matrices of one layer on a GPU with so many heads. Matrices that multiply the same
    /// inputs and are one product in the engines are one here.
    pub(super) fn matrices(&self, heads: u64) -> Vec<[u64; 2]> {
        let indexer = self.indexer.map(|indexer| indexer.map(u64::from));
        let indexer = indexer.filter(|[heads, ..]| *heads > 0);
        match self.widths {
            Widths::Latent { hidden, queries, nope, value } => {
                let mut all = vec![
                    [queries + LATENT + ROPE, hidden],
                    [heads * (nope + ROPE), queries],
                    [heads * (nope + value), LATENT],
                    [hidden, heads * value],
                ];
                if let Some([index_heads, dim, _]) = indexer {
                    all.extend([[index_heads * dim, queries], [dim + index_heads, hidden]]);
                }
                all
            }
            Widths::Grouped { hidden, shared } => {
                let groups = heads.div_ceil(shared);
                // One index key for all heads.
                let index = (groups + 1) * GROUPED_DIM;
                let outputs = (heads + 2 * groups) * GROUPED_DIM + index;
                vec![[outputs, hidden], [hidden, heads * GROUPED_DIM]]
            }
            Widths::Compressed { hidden, queries } => {
                let groups = heads.div_ceil(GROUP_HEADS);
                // Values and weights of entries; neighbouring ones overlap where they stand for 4 tokens.
                let overlap = if self.ratio == 4 { 2 } else { 1 };
                let mut all = vec![
                    [queries + COMPRESSED_DIM, hidden],
                    [heads * COMPRESSED_DIM, queries],
                    [groups * OUTPUTS, GROUP_HEADS * COMPRESSED_DIM],
                    [hidden, groups * OUTPUTS],
                    [2 * overlap * COMPRESSED_DIM, hidden],
                ];
                if let Some([index_heads, dim, _]) = indexer {
                    let entries = 2 * overlap * INDEX_DIM;
                    all.extend([[index_heads * dim, queries], [index_heads + entries, hidden]]);
                }
                all
            }
        }
    }

    /// The projection of keys and values up, whose work the absorbed products do in decode.
    pub(super) fn keys_up(&self, heads: u64) -> Option<[u64; 2]> {
        match self.widths {
            Widths::Latent { nope, value, .. } => Some([heads * (nope + value), LATENT]),
            Widths::Grouped { .. } | Widths::Compressed { .. } => None,
        }
    }
}
