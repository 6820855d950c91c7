//! The step profiles compiled in from `profiles/cost/steps/`.

use super::ModelTable;

const A100: &str = "A100-SXM4-80GB";
const H100: &str = "H100-SXM5-80GB";
const LLAMA: &str = "meta-llama/Llama-2-70b-hf";
const BLOOM: &str = "bigscience/bloom";

macro_rules! shipped {
    ($(($gpu:ident, $model:ident, $name:literal, $tp:literal)),* $(,)?) => {
        &[$(ModelTable {
            name: $name,
            gpu: $gpu,
            model: $model,
            tensor_parallel_size: $tp,
            text: include_str!(concat!("../../profiles/cost/steps/", $name, ".toml")),
        }),*]
    };
}

/// All shipped step profiles.
pub fn step_tables() -> &'static [ModelTable] {
    shipped![
        (A100, BLOOM, "a100-sxm4-80gb/bloom-float16-tp8", 8),
        (A100, LLAMA, "a100-sxm4-80gb/llama-2-70b-hf-float16-tp2", 2),
        (A100, LLAMA, "a100-sxm4-80gb/llama-2-70b-hf-float16-tp4", 4),
        (A100, LLAMA, "a100-sxm4-80gb/llama-2-70b-hf-float16-tp8", 8),
        (H100, BLOOM, "h100-sxm5-80gb/bloom-float16-tp8", 8),
        (H100, LLAMA, "h100-sxm5-80gb/llama-2-70b-hf-float16-tp2", 2),
        (H100, LLAMA, "h100-sxm5-80gb/llama-2-70b-hf-float16-tp4", 4),
        (H100, LLAMA, "h100-sxm5-80gb/llama-2-70b-hf-float16-tp8", 8),
    ]
}

/// The shipped step profile of this name.
pub fn step_table(name: &str) -> Option<&'static ModelTable> {
    ModelTable::named(step_tables(), name)
}
