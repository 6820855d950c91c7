//! The step profiles compiled in from `profiles/cost/steps/`.

/// A step profile that is part of the program.
#[derive(Debug, Clone, Copy)]
pub struct StepTableFile {
    /// Its name: `gpu/model-dtype-tpN`.
    pub name: &'static str,
    /// The GPU, by its name in the catalogue.
    pub gpu: &'static str,
    /// The model, by its name in the catalogue.
    pub model: &'static str,
    /// GPUs that share every matrix.
    pub tensor_parallel_size: u32,
    /// The file.
    pub text: &'static str,
}

const A100: &str = "A100-SXM4-80GB";
const H100: &str = "H100-SXM5-80GB";
const LLAMA: &str = "meta-llama/Llama-2-70b-hf";
const BLOOM: &str = "bigscience/bloom";

macro_rules! shipped {
    ($(($gpu:ident, $model:ident, $name:literal, $tp:literal)),* $(,)?) => {
        &[$(StepTableFile {
            name: $name,
            gpu: $gpu,
            model: $model,
            tensor_parallel_size: $tp,
            text: include_str!(concat!("../../profiles/cost/steps/", $name, ".toml")),
        }),*]
    };
}

/// All shipped step profiles.
pub fn step_tables() -> &'static [StepTableFile] {
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
pub fn step_table(name: &str) -> Option<&'static StepTableFile> {
    step_tables().iter().find(|table| table.name.eq_ignore_ascii_case(name))
}

/// The shipped step profile of a model on so many of a GPU, by their names in the catalogue.
pub fn step_table_for(model: &str, gpu: &str, tp: u32) -> Option<&'static StepTableFile> {
    let fits = |table: &&StepTableFile| {
        table.model == model && table.gpu == gpu && table.tensor_parallel_size == tp
    };
    step_tables().iter().find(fits)
}
