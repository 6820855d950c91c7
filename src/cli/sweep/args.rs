//! The command lines of `servecast sweep` and `servecast merge` as clap reads them.

use std::path::PathBuf;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};

use crate::cli::args::{ChangeArguments, Format};
use crate::cli::failure::Failure;
use crate::cli::vary;
use crate::sweep::{DesignName, Shard, Vary};

const SET: &str = "Override a value of the scenario at all points; may be repeated";
const SEED: &str = "Seed of the first run of every point, of which the others are drawn, and of designs that draw points";

/// `servecast sweep`.
#[derive(Debug, Args)]
#[command(after_help = "VALUES of --vary:\n  \
    1,2,4               these values, of any kind: numbers, words, tables\n  \
    1..16               all whole numbers from 1 to 16\n  \
    0.5..8.0:linear:16  16 numbers from 0.5 to 8, evenly spaced\n  \
    0.1..10:log:8       8 numbers from 0.1 to 10, each the same multiple of the one before\n  \
    0.1..10, 0.1..10:log  the range, for designs that draw points\n\n\
    Examples:\n  \
    servecast sweep my.toml --vary cluster.replicas=1..4 \\\n    \
    --vary workload.arrivals.rate_per_s=2,4,8 --seeds 5 --output-dir out/rates\n  \
    servecast sweep my.toml --vary workload.arrivals.rate_per_s=1.0..20.0 \\\n    \
    --vary cluster.engine.max_num_seqs=8..512:log --design latin-hypercube --points 100 \\\n    \
    --output-dir out/lhs")]
#[command(mut_arg("overrides", |set| set.help(SET)), mut_arg("seed", |seed| seed.help(SEED)))]
pub(in crate::cli) struct SweepArguments {
    /// Scenario file in TOML, YAML or JSON; its variants are points too, and its table `sweep` says what
    /// else is varied
    pub(super) scenario: PathBuf,
    /// Take only variants of this name, in which `*` stands for any text; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(super) only: Vec<String>,
    /// Vary a setting over values, as in `cluster.replicas=1..4`; may be repeated
    #[arg(long, value_name = "PATH=VALUES")]
    pub(super) vary: Vec<String>,
    /// Which combinations of values are points [default: grid]
    #[arg(long, value_enum)]
    pub(super) design: Option<DesignName>,
    /// How many points are drawn, in the designs `random` and `latin-hypercube`
    #[arg(long, value_name = "N")]
    pub(super) points: Option<u32>,
    /// Runs of each point, with different seeds; run r of every point has the same requests [default: 1]
    #[arg(long, value_name = "N")]
    pub(super) seeds: Option<u32>,
    #[command(flatten)]
    pub(super) changes: ChangeArguments,
    /// Compute only part I of N of the runs, to be joined with `servecast merge`
    #[arg(long, value_name = "I/N", value_parser = shard)]
    pub(super) shard: Option<Shard>,
    /// Folder for results; runs that it holds are not simulated again
    #[arg(long, value_name = "DIR")]
    pub(super) output_dir: PathBuf,
    #[command(flatten)]
    pub(super) report: ReportArguments,
}

/// `servecast merge`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  servecast merge out/part-* --output-dir out/whole")]
pub(in crate::cli) struct MergeArguments {
    /// Folders of the parts, as `servecast sweep --shard` wrote them
    #[arg(required = true, value_name = "DIR")]
    pub(super) parts: Vec<PathBuf>,
    /// Folder for the whole
    #[arg(long, value_name = "DIR")]
    pub(super) output_dir: PathBuf,
    /// Join what there is, also where runs are missing
    #[arg(long)]
    pub(super) partial: bool,
    #[command(flatten)]
    pub(super) report: ReportArguments,
}

/// What is printed of a sweep.
#[derive(Debug, Args)]
pub(super) struct ReportArguments {
    /// Figures to print, by their columns in the table of results
    #[arg(long = "metric", value_name = "NAME", value_delimiter = ',')]
    pub(super) metrics: Vec<String>,
    /// How the result is printed: `table` or `json`
    #[arg(long, value_enum, default_value_t, hide_possible_values = true)]
    pub(super) format: Format,
}

impl SweepArguments {
    /// What they vary.
    pub(super) fn vary(&self) -> Result<Vary, Failure> {
        let axes = self.vary.iter().map(|text| vary::axis(text)).collect::<Result<_, _>>()?;
        Ok(Vary { axes, design: self.design, points: self.points, seeds: self.seeds })
    }
}

impl ValueEnum for DesignName {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Grid, Self::Zip, Self::Random, Self::LatinHypercube]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, help) = match self {
            Self::Grid => ("grid", "Every value of each setting with every value of the others"),
            Self::Zip => (
                "zip",
                "The first values of all settings together, then the second ones, and so on",
            ),
            Self::Random => ("random", "Values drawn independently"),
            Self::LatinHypercube => (
                "latin-hypercube",
                "Values drawn so that every setting is spread evenly over its range",
            ),
        };
        Some(PossibleValue::new(name).help(help))
    }
}

fn shard(text: &str) -> Result<Shard, String> {
    let numbers = text.split_once('/').and_then(|(index, count)| {
        Some(Shard { index: index.parse().ok()?, count: count.parse().ok()? })
    });
    match numbers {
        Some(shard) if (1..=shard.count).contains(&shard.index) => Ok(shard),
        _ => Err("write I/N with I from 1 to N, as in 1/4".to_owned()),
    }
}
