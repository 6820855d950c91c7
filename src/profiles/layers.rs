//! The layer profiles compiled in from `profiles/cost/layers/`.

/// A layer profile that is part of the program.
#[derive(Debug, Clone, Copy)]
pub struct LayerTableFile {
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

macro_rules! shipped {
    ($(($gpu:literal, $folder:literal, $model:literal, $file:literal, $tp:literal)),* $(,)?) => {
        &[$(LayerTableFile {
            name: concat!($folder, "/", $file),
            gpu: $gpu,
            model: $model,
            tensor_parallel_size: $tp,
            text: include_str!(concat!("../../profiles/cost/layers/", $folder, "/", $file, ".toml")),
        }),*]
    };
}

/// All shipped layer profiles.
pub fn layer_tables() -> &'static [LayerTableFile] {
    shipped![
        ("RTX-4090", "rtx-4090", "meta-llama/Llama-3.1-8B", "llama-3.1-8b-bfloat16-tp1", 1),
        (
            "RTX-PRO-6000-Blackwell-Server",
            "rtx-pro-6000",
            "meta-llama/Llama-3.1-8B",
            "llama-3.1-8b-bfloat16-tp1",
            1
        ),
        (
            "RTX-PRO-6000-Blackwell-Server",
            "rtx-pro-6000",
            "meta-llama/Llama-3.1-8B",
            "llama-3.1-8b-bfloat16-tp2",
            2
        ),
        (
            "RTX-PRO-6000-Blackwell-Server",
            "rtx-pro-6000",
            "Qwen/Qwen3-30B-A3B",
            "qwen3-30b-a3b-bfloat16-tp1",
            1
        ),
        (
            "RTX-PRO-6000-Blackwell-Server",
            "rtx-pro-6000",
            "Qwen/Qwen3-30B-A3B",
            "qwen3-30b-a3b-bfloat16-tp2",
            2
        ),
        (
            "RTX-PRO-6000-Blackwell-Server",
            "rtx-pro-6000",
            "Qwen/Qwen3-32B",
            "qwen3-32b-bfloat16-tp1",
            1
        ),
        (
            "RTX-PRO-6000-Blackwell-Server",
            "rtx-pro-6000",
            "Qwen/Qwen3-32B",
            "qwen3-32b-bfloat16-tp2",
            2
        ),
    ]
}

/// The shipped layer profile of this name.
pub fn layer_table(name: &str) -> Option<&'static LayerTableFile> {
    layer_tables().iter().find(|table| table.name == name)
}

/// The shipped layer profile of a model on so many of a GPU, by their names in the catalogue.
pub fn layer_table_for(model: &str, gpu: &str, tp: u32) -> Option<&'static LayerTableFile> {
    let fits = |table: &&LayerTableFile| {
        table.model == model && table.gpu == gpu && table.tensor_parallel_size == tp
    };
    layer_tables().iter().find(fits)
}
