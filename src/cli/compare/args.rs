//! What `servecast compare` is asked.

use std::path::PathBuf;

use clap::Args;

use crate::cli::args::Format;
use crate::cli::failure::{Failure, overrides};
use crate::cli::servers::ServersArgument;
use crate::compare::{Compare, Pairing};
use crate::load::{Changes, Draft, Listener, only};

/// `servecast compare`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    servecast compare scenarios/routing.toml\n  \
    servecast compare scenarios/routing.toml --only 'sticky sessions' --only prefix-aware\n  \
    servecast compare now.toml then.toml --seeds 10..100 --within 1% --output-dir out/then\n  \
    servecast compare now.toml then.toml --metric p99_ttft_ms,slo_attainment --format json")]
#[expect(clippy::struct_excessive_bools, reason = "flags that are given or not")]
pub(in crate::cli) struct CompareArguments {
    /// Scenario files; the first is the baseline, as is the base of a file with variants
    #[arg(required = true)]
    pub(in crate::cli) scenarios: Vec<PathBuf>,
    /// Compare only scenarios of this name, in which `*` stands for any text; may be repeated, and the first is the
    /// baseline
    #[arg(long, value_name = "NAME")]
    pub(super) only: Vec<String>,
    /// Override a value of every scenario, as in `cluster.replicas=4`; may be repeated
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub(super) overrides: Vec<String>,
    /// Parameters that `servecast calibrate --output` wrote, for every scenario
    #[arg(long, value_name = "FILE")]
    pub(super) calibration: Option<PathBuf>,
    #[command(flatten)]
    pub(super) servers: ServersArgument,
    /// Seed from which the seeds of all runs are drawn; that of the baseline if absent
    #[arg(long)]
    pub(super) seed: Option<u64>,
    /// Seeds of the first round, and the most; one number for exactly that many
    #[arg(long, value_name = "MIN..MAX", default_value = "10..100", value_parser = seeds)]
    pub(super) seeds: Seeds,
    /// Confidence level of the intervals
    #[arg(long, default_value = "0.95", value_parser = share)]
    pub(super) confidence: f64,
    /// Add seeds until every interval is within this share of the baseline's mean, on either side
    #[arg(long, default_value = "2%", value_parser = share)]
    pub(super) within: f64,
    /// Figures to judge, by their names in compare.json; those of latency and throughput if absent
    #[arg(long = "metric", value_name = "NAME", value_delimiter = ',')]
    pub(super) metrics: Vec<String>,
    /// Give every scenario its own seeds instead of the same requests
    #[arg(long)]
    pub(super) independent: bool,
    /// Under every seed, replay a trace as it was recorded, instead of stretches resampled from it
    #[arg(long)]
    pub(super) point: bool,
    /// Folder for compare.json, figures of every seed (CSV), and figures (SVG); none if absent
    #[arg(long, value_name = "DIR")]
    pub(super) output_dir: Option<PathBuf>,
    /// Replace the results of an earlier comparison in that folder
    #[arg(long, requires = "output_dir")]
    pub(super) overwrite: bool,
    /// Show no progress
    #[arg(long, short)]
    pub(super) quiet: bool,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: Format,
}

/// How many seeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seeds {
    pub(super) first: u32,
    pub(super) most: u32,
}

fn seeds(text: &str) -> Result<Seeds, String> {
    let number = |text: &str| {
        let number = text.trim().parse::<u32>();
        number.map_err(|_| {
            format!("`{text}` is not a number of seeds; write MIN..MAX, as in 10..100")
        })
    };
    let (first, most) = match text.split_once("..") {
        Some((first, most)) => (number(first)?, number(most)?),
        None => (number(text)?, number(text)?),
    };
    Ok(Seeds { first, most })
}

/// A share: `0.02` or `2%`.
fn share(text: &str) -> Result<f64, String> {
    let (digits, unit) = match text.trim().strip_suffix('%') {
        Some(digits) => (digits.trim(), 0.01),
        None => (text.trim(), 1.0),
    };
    let number: f64 =
        digits.parse().map_err(|_| format!("`{text}` is not a share; write one such as 2%"))?;
    Ok(number * unit)
}

impl CompareArguments {
    /// What they ask.
    pub(super) fn question(&self, listener: Listener) -> Result<Compare, Failure> {
        let (overrides, seed) = (overrides(&self.overrides)?, self.seed);
        let changes = Changes { overrides, seed, calibration: self.calibration.clone() };
        let mut drafts: Vec<Draft> = Vec::new();
        for path in &self.scenarios {
            drafts.extend(changes.load(Some(path))?.each);
        }
        let drafts = only(drafts, &self.only)?.into_iter().map(|draft| self.servers.of(draft));
        let mut compare = Compare::new(drafts.collect::<Result<_, _>>()?);
        compare.seeds = [self.seeds.first, self.seeds.most];
        compare.confidence = self.confidence;
        compare.within = self.within;
        compare.metrics.clone_from(&self.metrics);
        if self.independent {
            compare.pairing = Pairing::Independent;
        }
        compare.point = self.point;
        compare.listener = listener;
        Ok(compare)
    }
}
