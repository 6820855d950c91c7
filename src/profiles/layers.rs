//! The layer profiles compiled in from `profiles/cost/layers/`.

use super::ModelTable;

macro_rules! shipped {
    ($(($gpu:literal, $folder:literal, $model:literal, $file:literal, $tp:literal)),* $(,)?) => {
        &[$(ModelTable {
            name: concat!($folder, "/", $file),
            gpu: $gpu,
            model: $model,
            tensor_parallel_size: $tp,
            text: include_str!(concat!("../../profiles/cost/layers/", $folder, "/", $file, ".toml")),
        }),*]
    };
}

/// All shipped layer profiles.
pub fn layer_tables() -> &'static [ModelTable] {
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
pub fn layer_table(name: &str) -> Option<&'static ModelTable> {
    ModelTable::named(layer_tables(), name)
}
