//! Layer tables of `LLMServingSim` as a layer profile.

use std::path::Path;

use clap::Args;

use crate::cli::Failure;
use crate::cost::AllReduceHost;
use crate::io::import::{LayerImport, Reduction, import_layers};

#[derive(Debug, Args)]
pub(super) struct LayerArguments {
    /// Layer tables: GPUs that share the model [default: 1]
    #[arg(long, visible_alias = "tensor-parallel-size", value_name = "GPUS",
          value_parser = clap::value_parser!(u32).range(1..))]
    tp: Option<u32>,
    /// Layer tables: mean error, as a share of a layer's time, up to which straight lines replace
    /// points of the attention grid; 0 keeps all [default: 0.01]
    #[arg(long, value_name = "SHARE")]
    tolerance: Option<f64>,
    /// Layer tables: fixed time of an all-reduce on the host of the measurements, in µs
    #[arg(long, value_name = "US", requires = "all_reduce_gb_s")]
    all_reduce_latency_us: Option<f64>,
    /// Layer tables: rate of an all-reduce on that host, in 10⁹ B/s
    #[arg(long, value_name = "RATE", requires = "all_reduce_latency_us")]
    all_reduce_gb_s: Option<f64>,
}

/// Straight lines that miss a layer's time by 1 % on average.
const TOLERANCE: f64 = 0.01;

impl LayerArguments {
    /// A flag that was given, if any was.
    pub(super) fn first_given(&self) -> Option<&'static str> {
        let given = [
            ("--tp", self.tp.is_some()),
            ("--tolerance", self.tolerance.is_some()),
            ("--all-reduce-latency-us", self.all_reduce_latency_us.is_some()),
        ];
        given.iter().find(|(_, is_given)| *is_given).map(|(flag, _)| *flag)
    }
}

/// The profile as a file, and what to say of it.
pub(super) fn import(
    folder: &Path,
    arguments: &LayerArguments,
) -> Result<(String, String), Failure> {
    let tp = arguments.tp.unwrap_or(1);
    let given = arguments.tolerance.unwrap_or(TOLERANCE);
    if !(0.0..1.0).contains(&given) {
        return Err(Failure::input(format!("--tolerance: must be from 0 to 1, got {given}")));
    }
    let all_reduce = arguments.all_reduce_latency_us.zip(arguments.all_reduce_gb_s);
    let what = LayerImport {
        folder: folder.to_path_buf(),
        tensor_parallel_size: tp,
        tolerance: given,
        all_reduce: all_reduce.map(|(latency_us, gb_s)| AllReduceHost { latency_us, gb_s }),
    };
    let (profile, reduction) =
        import_layers(&what).map_err(|error| Failure::Input(error.into()))?;
    let Reduction { points, kept, mean, p99 } = reduction;
    let note = format!(
        "attention: {kept} of {points} points kept; straight lines miss the others by {:.2} % of a \
         layer's time on average, {:.1} % at the 99th percentile",
        mean * 100.0,
        p99 * 100.0
    );
    let text = format!(
        "# Layer profile: servecast profile import --from llmservingsim --tp {tp} --tolerance {given}\n\
         # Times of one layer on one GPU: *_ns in ns, *_tenth_us in 0.1 us.\n# {note}.\n{}",
        profile.to_toml()
    );
    Ok((text, note))
}
