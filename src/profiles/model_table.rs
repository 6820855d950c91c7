//! Measured tables of one model on so many of one GPU, compiled in.

/// A layer or step profile that is part of the program.
#[derive(Debug, Clone, Copy)]
pub struct ModelTable {
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

impl ModelTable {
    /// The table of this name.
    pub fn named(tables: &'static [Self], name: &str) -> Option<&'static Self> {
        tables.iter().find(|table| table.name.eq_ignore_ascii_case(name))
    }

    /// The table of a model on so many of a GPU, by their names in the catalogue.
    pub fn of(tables: &'static [Self], model: &str, gpu: &str, tp: u32) -> Option<&'static Self> {
        let fits = |table: &&Self| {
            table.model == model && table.gpu == gpu && table.tensor_parallel_size == tp
        };
        tables.iter().find(fits)
    }
}
