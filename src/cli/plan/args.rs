//! The arguments of `servecast plan`.

#![expect(clippy::doc_markdown, reason = "these comments are help texts, printed as they are")]

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::cli::args::{ChangeArguments, Format};
use crate::cli::failure::Failure;
use crate::cli::vary;
use crate::load::Listener;
use crate::plan::{LayoutKind, Plan, PriceList, Seeks, WarmUp};
use crate::scenario::Offer;

/// A plan finds replicas itself.
const SET: &str =
    "Override a value of the scenario, as in `cluster.router.type=random`; may be repeated";

/// `servecast plan`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    servecast plan --slo 'p99_ttft_ms<=500' --slo 'p99_tpot_ms<=30'\n  \
    servecast plan my.toml --slo 'p99_ttft_ms<=2000' --gpu H100,H200,L40S --tp 1,2,4,8 \
    --layout mixed,disaggregated --price low\n  \
    servecast plan my.toml --slo 'p99_ttft_ms<=2000' --gpu H100,L4,MI300X --price-file prices.toml --all\n  \
    servecast plan my.toml --slo 'mean_e2el_ms<=9000' --rate\n\n\
    Exit codes: 0 a layout meets all SLOs, 1 none does, 2 bad arguments or input, 130 interrupted.")]
#[command(mut_arg("overrides", |set| set.help(SET)))]
pub(in crate::cli) struct PlanArguments {
    /// Scenario file with the requests, the model, the engine and the router; a built-in scenario if absent
    pub(super) scenario: Option<PathBuf>,
    /// An SLO: mean_, median_ or a percentile such as p99_ of ttft_ms, tpot_ms, itl_ms or e2el_ms at
    /// most so much, for one class as in `CLASS:p99_ttft_ms<=500`; or `attainment>=0.95`, the share of requests
    /// that keep `report.goodput`. May be repeated; all must hold
    #[arg(long = "slo", value_name = "FIGURE<=LIMIT", required = true)]
    pub(super) slos: Vec<String>,
    /// GPUs to choose from; the scenario's if absent
    #[arg(long = "gpu", value_name = "NAME", value_delimiter = ',')]
    pub(super) gpus: Vec<String>,
    /// Tensor-parallel sizes to choose from; the scenario's if absent
    #[arg(long = "tensor-parallel-size", visible_alias = "tp", alias = "tensor-parallel", value_name = "GPUS", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(super) tensor_parallel: Vec<u32>,
    /// Another setting to choose, as in `cluster.engine.max_num_batched_tokens=2048,8192`; may be repeated
    #[arg(long = "vary", value_name = "PATH=VALUE,VALUE")]
    pub(super) vary: Vec<String>,
    /// Replicas that do everything, or that prefill and decode apart; as the scenario has it if absent
    #[arg(long = "layout", value_enum, value_name = "LAYOUT", value_delimiter = ',')]
    pub(super) layouts: Vec<KindArgument>,
    /// What an hour of a GPU costs: `low` or `high`, the offers of the catalogue, or GPU=USD with a name
    /// or the file of a GPU, which may be repeated. `report.prices` of the scenario if absent, else the low offers
    #[arg(long = "price", value_name = "PRICE")]
    pub(super) prices: Vec<String>,
    /// Prices of many GPUs, in US dollars per hour: lines `gpu = 2.5` (.toml), or the columns gpu and usd_per_hour
    /// (.csv). `--price` holds before it
    #[arg(long, value_name = "FILE")]
    pub(super) price_file: Option<PathBuf>,
    /// Search every layout to its end, also those that cannot be among the two cheapest, and show each that cannot be
    #[arg(long)]
    pub(super) all: bool,
    /// GPUs of a cluster at most
    #[arg(long, value_name = "GPUS", default_value_t = 1024,
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) max_gpus: u32,
    /// Find the highest rate at which the scenario's replicas meet the SLOs, instead of how many replicas
    #[arg(long)]
    pub(super) rate: bool,
    /// How often the answer is found again for other requests: other draws, or, of a trace, stretches
    /// resampled from it
    #[arg(long, value_name = "N", default_value_t = 8,
          value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub(super) resamples: u32,
    /// Plan for typical servers instead of slow ones (slower than 19 of 20), where the scenario says nothing of them
    #[arg(long)]
    pub(super) point: bool,
    /// Windows, in seconds, in which a perfect autoscaler could change the number of replicas
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    pub(super) window: f64,
    /// Bandwidth of the network per GPU, in GB/s each way, where prefill and decode are apart and the scenario
    /// has no `cluster.disaggregation.transfer`; 50 if absent
    #[arg(long, value_name = "GB_PER_S")]
    pub(super) nic_gb_per_s: Option<f64>,
    /// Whether the start of a run counts
    #[arg(long, value_enum, value_name = "WHICH", default_value_t)]
    pub(super) warm_up: WarmUpArgument,
    #[command(flatten)]
    pub(super) changes: ChangeArguments,
    #[command(flatten)]
    pub(super) output: PlanOutput,
}

/// Where a plan goes.
#[derive(Debug, Args)]
pub(super) struct PlanOutput {
    /// Folder for the plan as JSON and figures; nothing is written if absent
    #[arg(long, value_name = "DIR")]
    pub(super) output_dir: Option<PathBuf>,
    /// Replace the results of an earlier plan in that folder
    #[arg(long, requires = "output_dir")]
    pub(super) overwrite: bool,
    /// Show no progress
    #[arg(long, short)]
    pub(super) quiet: bool,
    /// How the plan is printed
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: Format,
}

/// Who prefills and who decodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum KindArgument {
    /// Every replica does everything
    Mixed,
    /// Some replicas prefill, others decode
    Disaggregated,
}

/// What of a run counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(super) enum WarmUpArgument {
    /// Of drawn arrivals all after the warm-up that MSER-5 finds; of a trace everything
    #[default]
    Auto,
    /// Everything
    Counts,
    /// All after the warm-up that MSER-5 finds
    Cut,
}

impl PlanArguments {
    /// What they ask.
    pub(super) fn question(&self, listener: Listener) -> Result<Plan, Failure> {
        let mut drafts = self.changes.changes()?.load(self.scenario.as_deref())?.each;
        let draft = drafts.swap_remove(0);
        // Of the built-in scenario variants are other loads, each measured.
        if !drafts.is_empty() && self.scenario.is_some() {
            return Err(Failure::input(format!(
                "{}: variants: a plan takes one scenario; remove them, or give what varies with --vary",
                draft.name()
            )));
        }
        let mut plan = Plan::new(draft);
        plan.slos.clone_from(&self.slos);
        plan.gpus.clone_from(&self.gpus);
        plan.tensor_parallel.clone_from(&self.tensor_parallel);
        plan.vary = self.vary.iter().map(|text| vary::axis(text)).collect::<Result<_, _>>()?;
        plan.kinds = self.layouts.iter().map(|kind| kind.kind()).collect();
        self.put_prices(&mut plan)?;
        plan.price_list = self.price_file.as_deref().map(PriceList::read).transpose()?;
        plan.all = self.all;
        plan.max_gpus = self.max_gpus;
        plan.seeks = if self.rate { Seeks::HighestRate } else { Seeks::FewestReplicas };
        plan.resamples = self.resamples;
        plan.point = self.point;
        plan.window_s = self.window;
        plan.nic_gb_per_s = self.nic_gb_per_s;
        plan.warm_up = match self.warm_up {
            WarmUpArgument::Auto => None,
            WarmUpArgument::Counts => Some(WarmUp::Counts),
            WarmUpArgument::Cut => Some(WarmUp::Mser5),
        };
        plan.listener = listener;
        Ok(plan)
    }

    fn put_prices(&self, plan: &mut Plan) -> Result<(), Failure> {
        for given in &self.prices {
            // The path of a GPU's file may have the sign too.
            match (given.as_str(), given.rsplit_once('=')) {
                ("low", _) => plan.offer = Some(Offer::Low),
                ("high", _) => plan.offer = Some(Offer::High),
                (_, Some((gpu, usd))) => {
                    let usd = usd.trim().parse().map_err(|_| {
                        Failure::input(format!(
                            "--price {given}: give US dollars per hour, above 0 and at most 10⁶"
                        ))
                    })?;
                    plan.prices.push((gpu.trim().to_owned(), usd));
                }
                _ => {
                    let problem = format!("--price {given}: give low, high or GPU=USD");
                    return Err(Failure::input(problem));
                }
            }
        }
        Ok(())
    }
}

impl KindArgument {
    fn kind(self) -> LayoutKind {
        match self {
            Self::Mixed => LayoutKind::Mixed,
            Self::Disaggregated => LayoutKind::Disaggregated,
        }
    }
}
