//! Layer tables of `LLMServingSim` and of Vidur as a layer profile.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::cli::failure::Failure;
use crate::cost::AllReduceHost;
use crate::io::import::{
    LayerImport, LayerImportError, Reduction, VidurImport, import_layers, import_vidur,
};

#[derive(Debug, Args)]
pub(super) struct LayerArguments {
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
    /// Layer tables of vidur: measured all-reduces of a host (a table under network)
    #[arg(long, value_name = "FILE", conflicts_with = "all_reduce_latency_us")]
    all_reduce: Option<PathBuf>,
}

/// Straight lines that miss a layer's time by 1 % on average.
const TOLERANCE: f64 = 0.01;

impl LayerArguments {
    /// Whether a table of all-reduces was given.
    pub(super) fn has_all_reduces(&self) -> bool {
        self.all_reduce.is_some()
    }

    fn tolerance(&self) -> Result<f64, Failure> {
        let given = self.tolerance.unwrap_or(TOLERANCE);
        if (0.0..1.0).contains(&given) {
            return Ok(given);
        }
        Err(Failure::input(format!(
            "--tolerance: must be from 0 to 1, got {}",
            crate::plain::shown(given)
        )))
    }

    fn all_reduce_host(&self) -> Option<AllReduceHost> {
        let host = self.all_reduce_latency_us.zip(self.all_reduce_gb_s);
        host.map(|(latency_us, gb_s)| AllReduceHost { latency_us, gb_s })
    }

    /// Flags, and whether they were given.
    pub(super) fn given(&self) -> impl Iterator<Item = (&'static str, bool)> {
        [
            ("--tolerance", self.tolerance.is_some()),
            ("--all-reduce-latency-us", self.all_reduce_latency_us.is_some()),
        ]
        .into_iter()
    }
}

/// The profile as a file, and what to say of it.
pub(super) fn import(
    folder: &Path,
    tp: u32,
    arguments: &LayerArguments,
) -> Result<(String, String), Failure> {
    let what = LayerImport {
        folder: folder.to_path_buf(),
        tensor_parallel_size: tp,
        tolerance: arguments.tolerance()?,
        all_reduce: arguments.all_reduce_host(),
    };
    let (profile, reduction) =
        import_layers(&what).map_err(|error| Failure::Input(error.into()))?;
    let (note, given) = (attention_note(&reduction), what.tolerance);
    let text = format!(
        "# Layer profile: servecast profile import --from llmservingsim --tp {tp} --tolerance {given}\n\
         # Times of one layer on one GPU: *_ns in ns, *_tenth_us in 0.1 us.\n# {note}.\n{}",
        profile.to_toml()
    );
    Ok((text, note))
}

/// The same of Vidur, whose folder may name GPU and model.
pub(super) fn import_of_vidur(
    folder: &Path,
    [gpu, model]: [Option<String>; 2],
    tp: u32,
    arguments: &LayerArguments,
) -> Result<(String, String), Failure> {
    let what = VidurImport {
        folder: folder.to_path_buf(),
        gpu,
        model,
        tensor_parallel_size: tp,
        tolerance: arguments.tolerance()?,
        all_reduce_table: arguments.all_reduce.clone(),
        all_reduce: arguments.all_reduce_host(),
    };
    let made = import_vidur(&what);
    let made = made.map_err(|error: LayerImportError| Failure::Input(error.into()))?;
    let all_reduces = made.all_reduce_error.map_or_else(String::new, |error| {
        format!("\nall-reduces: latency and rate miss them by {:.1} % on average", error * 100.0)
    });
    let note = format!(
        "{}\noutput head: not measured, estimated from the MLP's first product\n\
         sampler: not measured, takes no time{all_reduces}",
        attention_note(&made.reduction)
    );
    let text = format!(
        "# Layer profile: servecast profile import --from vidur --tp {tp} --tolerance {}\n\
         # Times of one layer on one GPU: *_ns in ns, *_tenth_us in 0.1 us.\n# {}.\n{}",
        what.tolerance,
        note.replace('\n', ".\n# "),
        made.profile.to_toml()
    );
    Ok((text, note))
}

fn attention_note(reduction: &Reduction) -> String {
    let Reduction { points, kept, mean, p99 } = reduction;
    format!(
        "attention: {kept} of {points} points kept; straight lines miss the others by {:.2} % of a \
         layer's time on average, {:.1} % at the 99th percentile",
        mean * 100.0,
        p99 * 100.0
    )
}
