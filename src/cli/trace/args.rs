//! The arguments of `servecast trace`.

#![expect(clippy::doc_markdown, reason = "these comments are help texts, printed as they are")]

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::writable;
use crate::cli::bench::WorkloadArguments;
use crate::io::traces::{
    ColumnMap, Existing, Origin, TimeUnit, TraceFormat, TraceOptions, parse_wall_clock,
};
use crate::rng::Seed;

/// `servecast trace`.
#[derive(Debug, Args)]
pub(in crate::cli) struct TraceArguments {
    #[command(subcommand)]
    pub(super) command: TraceCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum TraceCommand {
    /// Rate, burstiness, lengths and prefix reuse of a trace
    Describe(DescribeArguments),
    /// Write a trace in another format
    Convert(ConvertArguments),
    /// Write the requests of a workload as a trace
    Generate(Box<GenerateArguments>),
    /// Arrivals of LoRA adapters from calls of Azure Functions
    AdapterCounts(AdapterCountsArguments),
}

/// A trace that is read.
#[derive(Debug, Args)]
pub(super) struct SourceArguments {
    /// File, plain or gzip, or folder of servegen clients
    pub(super) path: PathBuf,
    /// azure, mooncake, bailian, burstgpt, servegen, vidur, llmservingsim, sharegpt-lengths, csv
    /// or jsonl; told by the first line if absent
    #[arg(long, value_parser = writable)]
    pub(super) format: Option<TraceFormat>,
    /// Tokens per hash id; told by the format if absent
    #[arg(long, value_name = "TOKENS")]
    hash_block_tokens: Option<u32>,
    #[command(flatten)]
    columns: ColumnArguments,
    /// Row that is time zero
    #[arg(long, value_enum, default_value_t)]
    origin: OriginName,
    /// Seed of the requests drawn from servegen clients
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum OriginName {
    /// The first
    #[default]
    FirstRow,
    /// The earliest, for files that are not in order of time
    EarliestRow,
}

/// What the columns of a trace hold.
#[derive(Debug, Args)]
pub(in crate::cli) struct ColumnArguments {
    /// Say which column of the trace holds what, as in `prompt_tokens=ctx`: arrival, prompt_tokens, output_tokens,
    /// session or hash_ids; may be repeated. Common names are known
    #[arg(long = "column", value_name = "ROLE=NAME", value_parser = column)]
    columns: Vec<(String, String)>,
    /// Unit of the arrival times: wall-clock, s, ms, us or ns; read from the format or the name of the column if
    /// absent
    #[arg(long, value_name = "UNIT", value_parser = str::parse::<TimeUnit>)]
    time_unit: Option<TimeUnit>,
}

impl ColumnArguments {
    /// The first of these options that is given.
    pub(in crate::cli) fn first_given(&self) -> Option<&'static str> {
        let unit = self.time_unit.map(|_| "--time-unit");
        self.columns.first().map(|_| "--column").or(unit)
    }

    /// How a trace with these columns is read.
    pub(in crate::cli) fn options(&self) -> TraceOptions {
        let mut columns = ColumnMap::default();
        for (role, name) in &self.columns {
            let column = match role.as_str() {
                "arrival" => &mut columns.arrival,
                "prompt_tokens" => &mut columns.prompt_tokens,
                "output_tokens" => &mut columns.output_tokens,
                "session" => &mut columns.session,
                _ => &mut columns.hash_ids,
            };
            *column = Some(name.clone());
        }
        TraceOptions { columns, time_unit: self.time_unit, ..TraceOptions::default() }
    }
}

impl SourceArguments {
    pub(super) fn options(&self) -> TraceOptions {
        TraceOptions {
            hash_block_tokens: self.hash_block_tokens,
            origin: match self.origin {
                OriginName::FirstRow => Origin::FirstRow,
                OriginName::EarliestRow => Origin::EarliestRow,
            },
            seed: Seed(self.seed),
            ..self.columns.options()
        }
    }
}

/// A trace that is written.
#[derive(Debug, Args)]
pub(super) struct TargetArguments {
    /// azure, mooncake, burstgpt, csv, jsonl or sharegpt-lengths
    #[arg(long, value_name = "FORMAT", value_parser = writable)]
    pub(super) to: TraceFormat,
    /// File to write, compressed if it ends in .gz
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: PathBuf,
    /// Replace that file
    #[arg(long)]
    overwrite: bool,
}

impl TargetArguments {
    pub(super) fn existing(&self) -> Existing {
        if self.overwrite { Existing::Replace } else { Existing::Keep }
    }
}

/// `servecast trace describe`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  servecast trace describe conversation_trace.jsonl --json")]
pub(super) struct DescribeArguments {
    #[command(flatten)]
    pub(super) source: SourceArguments,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// `servecast trace convert`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    servecast trace convert AzureLLMInferenceTrace_conv.csv --to jsonl -o conv.jsonl\n  \
    servecast trace convert log.csv --column prompt_tokens=ctx --time-unit ms --to csv -o log2.csv")]
pub(super) struct ConvertArguments {
    #[command(flatten)]
    pub(super) source: SourceArguments,
    #[command(flatten)]
    pub(super) target: TargetArguments,
    /// Time zero of an azure trace, as in `2023-11-16 18:17:03`; the source's own if it has
    /// wall-clock times, else 1970
    #[arg(long, value_name = "DATE_TIME", value_parser = parse_wall_clock)]
    pub(super) epoch: Option<i64>,
}

/// `servecast trace generate`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    servecast trace generate scenarios/my.toml --to jsonl -o my.jsonl\n  \
    servecast trace generate --tool vllm --dataset-name random --request-rate 4 \\\n    \
    --num-prompts 300 --to azure --epoch '2026-01-01 00:00:00' -o random.csv\n  \
    servecast trace generate --set workload.num_requests=300 \\\n    \
    --set 'workload.arrivals={ type = \"gamma\", rate_per_s = 2, cv = 3 }' --to csv -o bursty.csv")]
pub(super) struct GenerateArguments {
    /// Scenario file whose [workload] (and [trace]) is used; the built-in scenario if absent and no
    /// --dataset-name is given
    pub(super) scenario: Option<PathBuf>,
    /// Override a value of the scenario, as in `workload.num_requests=300`; may be repeated
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub(super) overrides: Vec<String>,
    #[command(flatten)]
    pub(super) target: TargetArguments,
    /// Time zero of an azure trace, as in `2026-01-01 00:00:00` [default: 1970-01-01 00:00:00]
    #[arg(long, value_name = "DATE_TIME", value_parser = parse_wall_clock)]
    pub(super) epoch: Option<i64>,
    /// Tokens per hash id, in formats that have them
    #[arg(long, value_name = "TOKENS", default_value_t = 512,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) hash_block_tokens: u32,
    /// Model whose tokeniser the workload flags mean
    #[arg(long, help_heading = "Traffic")]
    pub(super) model: Option<String>,
    #[command(flatten)]
    pub(super) workload: WorkloadArguments,
}

/// `servecast trace adapter-counts`.
#[derive(Debug, Args)]
#[command(
    after_help = "Prints workload.arrivals of type adapter_counts for a scenario. Functions are \
    assigned to adapters as dLoRA's workload generator does.\n\n\
    Examples:\n  \
    servecast trace adapter-counts AzureFunctionsInvocationTraceForTwoWeeksJan2021.txt \\\n    \
    --adapters 4 --rate 4 --streams shared-stream\n  \
    servecast trace adapter-counts invocations_per_function_md.anon.d0[12].csv \\\n    \
    --adapters 128 --rate 40 --by-calls --first-hour 9 --hours 24"
)]
pub(super) struct AdapterCountsArguments {
    /// Trace of 2021, or files of 2019 in order of days; plain or gzip
    #[arg(required = true)]
    pub(super) paths: Vec<PathBuf>,
    /// How many adapters there are
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=65_535))]
    pub(super) adapters: u32,
    /// Requests per second of all adapters together
    #[arg(long, value_name = "REQ_PER_S")]
    pub(super) rate: f64,
    /// Consecutive functions that go to the same adapter
    #[arg(long, value_name = "COUNT", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) map_stride: u32,
    /// Assign the most called functions first, instead of in order of their names
    #[arg(long)]
    pub(super) by_calls: bool,
    /// First hour of the trace that is used
    #[arg(long, value_name = "HOUR", default_value_t = 0,
          value_parser = clap::value_parser!(u32).range(..1_000_000))]
    pub(super) first_hour: u32,
    /// How many hours are used
    #[arg(long, value_name = "COUNT", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) hours: u32,
    /// Standard deviation of the gaps of an adapter / their mean
    #[arg(long, default_value_t = 1.0)]
    pub(super) cv: f64,
    /// How the gaps of different adapters are related
    #[arg(long, value_enum, default_value_t)]
    pub(super) streams: StreamsName,
    /// Print one line, for --set
    #[arg(long)]
    pub(super) inline: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(super) enum StreamsName {
    /// Independent of each other
    #[default]
    Independent,
    /// Equal but for the rate, as dLoRA draws them
    SharedStream,
}

fn column(text: &str) -> Result<(String, String), String> {
    const ROLES: [&str; 5] = ["arrival", "prompt_tokens", "output_tokens", "session", "hash_ids"];
    let (role, name) = text.split_once('=').ok_or("must be ROLE=NAME, as in arrival=ts")?;
    let role = match role {
        "input" | "prompt" => "prompt_tokens",
        "output" => "output_tokens",
        other => other,
    };
    if ROLES.contains(&role) {
        return Ok((role.to_owned(), name.to_owned()));
    }
    Err(format!("a role is one of {}, got `{role}`", ROLES.join(", ")))
}
