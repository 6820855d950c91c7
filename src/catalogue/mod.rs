//! What is known of models, GPUs and measured step times: figures of each, what a model costs on a GPU, and how
//! sources of step times differ.
//!
//! ```
//! use servecast::catalogue::OnGpu;
//!
//! let on_gpu = OnGpu::of("Qwen/Qwen3-32B", "H100", 2)?;
//! let kv_tokens = on_gpu.kv.tokens(on_gpu.block_size);
//! assert!(kv_tokens > 100_000);
//! # Ok::<(), servecast::load::LoadError>(())
//! ```

mod in_memory;
mod list;
mod on_gpu;
mod sheet;
mod show;
mod step_times;

use crate::load::LoadError;
use crate::problem::Problem;

pub use in_memory::{InMemory, LayoutEngine, LayoutQuestion};
pub use list::{Kind, Listing, list};
pub use on_gpu::OnGpu;
#[cfg(feature = "probe")]
pub(crate) use on_gpu::engine_defaults;
pub use sheet::Sheet;
pub use show::show;
#[cfg(feature = "plot")]
pub use step_times::figure;
pub use step_times::{Difference, On, StepTimes, difference};

/// Why something cannot be shown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogueError {
    /// A name is none, or its file is wrong.
    #[error("{0}")]
    Name(Problem),
    /// The model does not go on the GPU, or a source has no times of it.
    #[error(transparent)]
    Load(#[from] LoadError),
}

impl From<Problem> for CatalogueError {
    fn from(problem: Problem) -> Self {
        Self::Name(problem)
    }
}
