//! `servecast serve`: a scenario as a server.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::args::{ChangeArguments, Format, OutputArguments};
use super::failure::Failure;
use super::outcome::Outcome;
use super::replay::{TRACE, again};
use super::run::{report, results_dir};
use super::terminal::{listener, say};
use crate::io::rundir::{RunDir, slug};
use crate::load::{Draft, Loaded, state_setting, state_step_times};
use crate::metrics::{self, BenchReport, Recorder};
use crate::resolved::Scenario;
use crate::scenario::ArrivalConfig;
use crate::serve::{self, KvEvents, Limits, ServeError, Settings, Tokens};
use crate::units::SimTime;

/// In the folder of results: a scenario that asks again for what was asked.
const AGAIN: &str = "replay.toml";

/// How many connections or requests there may be at once.
const AT_ONCE: std::ops::RangeInclusive<i64> = 1..=1 << 20;

/// `servecast serve`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    servecast serve\n  \
    servecast serve scenarios/router-test.toml --port 8001 --speed 20\n  \
    servecast serve my.toml --answers workload --output-dir out/served\n\n\
    The workload of the scenario is not sent: requests come over HTTP. Headers name the class of a\n\
    request (`x-servecast-class`) and its conversation (`x-servecast-session`).\n\n\
    `GET /servecast/report` has the figures so far, `POST /servecast/faults` and `/servecast/speed`\n\
    change what happens.")]
pub(super) struct ServeArguments {
    /// Scenario file in TOML, YAML or JSON; a built-in scenario if absent
    scenario: Option<PathBuf>,
    #[command(flatten)]
    changes: ChangeArguments,
    /// The variant to serve, by its name, where the scenario has several; the first if absent
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
    /// Address to listen at
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    host: IpAddr,
    /// Port to listen at; 0 for any that is free
    #[arg(long, default_value_t = 8000)]
    port: u16,
    /// Give every replica its own port, from `--port` on, for a router of your own in front of them
    #[arg(long)]
    port_per_replica: bool,
    /// Simulated seconds per second
    #[arg(long, default_value_t = 1.0, value_parser = speed)]
    speed: f64,
    /// How long answers are
    #[arg(long, value_enum, default_value_t)]
    answers: Answers,
    /// Tokenise texts with this `tokenizer.json`, or the one in this folder
    #[arg(long, value_name = "PATH")]
    tokenizer: Option<PathBuf>,
    /// Turn chats into prompts with this Jinja template; if absent, with the one beside the tokenizer
    /// (`chat_template.jinja`, or in `tokenizer_config.json`)
    #[arg(long, value_name = "FILE")]
    chat_template: Option<PathBuf>,
    /// Bytes of text per token, where no tokenizer is given
    #[arg(long, value_name = "BYTES", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=4))]
    bytes_per_token: u8,
    /// Serve only clients that send `Authorization: Bearer KEY`; `/health` and `/metrics` stay open, and in vLLM's
    /// dialect what vLLM leaves open. `SERVECAST_API_KEY` if absent
    #[arg(long, value_name = "KEY")]
    api_key: Option<String>,
    /// Publish KV-cache events as vLLM and SGLang do with this flag: the first replica at the port of `endpoint`,
    /// the others at the ports after it
    #[arg(long, value_name = "JSON")]
    kv_events_config: Option<String>,
    /// Seconds to let running answers finish after Ctrl-C; a second Ctrl-C ends them at once
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0, value_parser = seconds)]
    grace: f64,
    /// Largest body of a request, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().body_bytes)]
    max_body: usize,
    /// Connections at once
    #[arg(long, value_name = "N", default_value_t = Limits::default().connections as u32,
        value_parser = clap::value_parser!(u32).range(AT_ONCE))]
    max_connections: u32,
    /// Requests at once; more are answered with 503
    #[arg(long, value_name = "N", default_value_t = Limits::default().requests as u32,
        value_parser = clap::value_parser!(u32).range(AT_ONCE))]
    max_requests: u32,
    /// Folder for records, summary and figures of what was served; a new one below `runs/` if absent
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// Replace the results of an earlier run in that folder
    #[arg(long)]
    overwrite: bool,
    /// Write no folder of results
    #[arg(long, conflicts_with = "output_dir")]
    no_files: bool,
    /// How the result is printed at the end
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Answers {
    /// As long as `max_tokens`. Without it, a chat is as long as an answer of the workload, a completion 16 tokens and
    /// `/generate` 128; with `ignore_eos`, an answer fills the context
    #[default]
    Asked,
    /// As long as an answer of the workload, at most `max_tokens`; with `ignore_eos`, as long as that
    Workload,
}

fn speed(text: &str) -> Result<f64, String> {
    let (least, most) = (Settings::SPEEDS.start(), Settings::SPEEDS.end());
    let speed: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    let rule = || format!("must be {least} to {most}");
    Settings::SPEEDS.contains(&speed).then_some(speed).ok_or_else(rule)
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    let holds = (0.0..=1e6).contains(&seconds);
    holds.then_some(seconds).ok_or_else(|| "must be 0 to 1000000".to_owned())
}

pub(super) fn serve(arguments: &ServeArguments) -> Result<(), Failure> {
    let kv_events = arguments.kv_events_config.as_deref().map(KvEvents::parse).transpose();
    let kv_events = kv_events.map_err(|error| {
        Failure::Input(anyhow::Error::from(error).context("--kv-events-config"))
    })?;
    let drafts = arguments.changes.changes()?.load(arguments.scenario.as_deref())?;
    let loaded = arguments.chosen(&drafts.each)?;
    let mut case = loaded.case()?;
    // It was measured under another load.
    case.scenario.measured = None;
    case.scenario.without_client();
    let output = arguments.output();
    let mut dir =
        (!arguments.no_files).then(|| folder(&case.scenario.name, arguments)).transpose()?;
    state_setting(&case.scenario, &listener());
    state_step_times(&case.scenario, case.costs(), &listener());
    if !arguments.host.is_loopback() {
        say(&format!(
            "warning: {} is not a loopback address: everyone who reaches it can send requests{}",
            arguments.host,
            if arguments.api_key().is_some() {
                " that have the key"
            } else {
                " and faults; see --api-key"
            }
        ));
    }
    #[expect(clippy::disallowed_methods, reason = "how long it was served")]
    let started = std::time::Instant::now();
    let name = case.scenario.models.join(", ");
    let trace = dir.as_mut().map(|dir| dir.reserve(TRACE)).transpose();
    let trace = trace.map_err(|error| Failure::Run(error.into()))?;
    let settings = Settings { trace, kv_events: kv_events.flatten(), ..arguments.settings() };
    let served = serve::serve(&case, &settings, |addresses| {
        let all: Vec<String> = addresses.iter().map(|at| format!("http://{at}")).collect();
        say(&format!("serving {name} at {} (Ctrl-C ends it)", all.join(", ")));
    });
    let served = served.map_err(|error| match error {
        ServeError::Study(error) => Failure::Input(error.into()),
        ServeError::Listen(..)
        | ServeError::Tokenizer(..)
        | ServeError::KvEvents(_)
        | ServeError::Template(_)
        | ServeError::Ports(_) => Failure::Input(error.into()),
        error => Failure::Run(error.into()),
    })?;
    let wall_s = started.elapsed().as_secs_f64();
    let late = served.late;
    say(&format!(
        "{} requests in {wall_s:.1} s; tokens were written {:.2} ms late at the median, {:.2} ms at the \
         99th percentile, {:.2} ms at most",
        served.counts.arrived,
        late.median_s * 1e3,
        late.p99_s * 1e3,
        late.most_s * 1e3
    ));
    let traced = served.traced.map_err(|error| {
        let what = "what was asked is not recorded, and there is no replay.toml";
        Failure::Run(anyhow::Error::from(error).context(what))
    });
    if served.counts.arrived == 0 {
        return traced;
    }
    if let Some(dir) = dir.as_mut().filter(|_| traced.is_err()) {
        dir.release(TRACE);
    } else if let (Some(dir), Some(told)) = (&mut dir, &served.told) {
        let first = served.recorder.seen().iter().map(|record| record.arrival).min();
        let began_s = first.map_or(0.0, SimTime::as_secs_f64);
        let again = again(&loaded.text(), &case.scenario, began_s, told);
        let again = again.map_err(Failure::Run)?;
        dir.write(AGAIN, again.as_bytes()).map_err(|error| Failure::Run(error.into()))?;
    }
    let mut scenario = case.scenario.clone();
    let warnings = served.caution.warnings(&scenario, &served.counts);
    let report_of = BenchReport::new(&served.recorder, &as_it_came(&scenario, &served.recorder));
    let comparison = metrics::comparison(&scenario, &report_of);
    scenario.rename_files(loaded.relocated());
    let outcome = Outcome {
        scenario,
        counts: served.counts,
        recorder: served.recorder,
        steps: None,
        report: report_of,
        tails: Vec::new(),
        comparison,
        warnings,
        spread: None,
        wall_s,
    };
    report(dir, &[outcome], &output)?;
    traced
}

/// The scenario with the rate at which requests came, in place of what it would have sent itself.
fn as_it_came(scenario: &Scenario, recorder: &Recorder) -> Scenario {
    let arrivals: Vec<f64> =
        recorder.seen().iter().map(|record| record.arrival.as_secs_f64()).collect();
    let first = arrivals.iter().copied().fold(f64::INFINITY, f64::min);
    let last = arrivals.iter().copied().fold(0.0, f64::max);
    let mut came = scenario.clone();
    came.workload.client.max_concurrency = None;
    came.workload.arrivals = if last > first {
        let rate_per_s = (arrivals.len() as f64 - 1.0) / (last - first);
        ArrivalConfig::Poisson { rate_per_s: (rate_per_s * 100.0).round() / 100.0 }
    } else {
        ArrivalConfig::AllAtOnce {}
    };
    came
}

fn folder(name: &str, arguments: &ServeArguments) -> Result<RunDir, Failure> {
    let target = arguments.output_dir.clone();
    let target = target.unwrap_or_else(|| RunDir::next_free("runs".as_ref(), &slug(name)));
    results_dir(&target, arguments.overwrite)
}

impl ServeArguments {
    fn output(&self) -> OutputArguments {
        OutputArguments {
            format: self.format,
            no_files: self.no_files,
            ..OutputArguments::default()
        }
    }

    /// The variant that is named, or else the first.
    fn chosen(&self, drafts: &[Draft]) -> Result<Loaded, Failure> {
        let loaded = drafts.iter().map(Draft::resolve).collect::<Result<Vec<_>, _>>()?;
        let names: Vec<String> = loaded.iter().map(|one| one.scenario.name.clone()).collect();
        let place = match &self.variant {
            Some(variant) => names.iter().position(|name| name == variant).ok_or_else(|| {
                let known = names.join("`, `");
                Failure::Input(anyhow::anyhow!("--variant: must be `{known}`, got `{variant}`"))
            })?,
            None => 0,
        };
        if loaded.len() > 1 && self.variant.is_none() {
            say(&format!(
                "notice: of {} variants `{}` is served; see --variant",
                names.len(),
                names[0]
            ));
        }
        let chosen = loaded.into_iter().nth(place);
        chosen.ok_or_else(|| Failure::Input(anyhow::anyhow!("there is no scenario")))
    }

    fn tokens(&self) -> Tokens {
        match &self.tokenizer {
            None => Tokens::Bytes(self.bytes_per_token.into()),
            Some(folder) if folder.is_dir() => Tokens::File(folder.join("tokenizer.json")),
            Some(file) => Tokens::File(file.clone()),
        }
    }

    fn api_key(&self) -> Option<String> {
        let of_process = || std::env::var("SERVECAST_API_KEY").ok();
        self.api_key.clone().or_else(of_process).filter(|key| !key.is_empty())
    }

    fn settings(&self) -> Settings {
        Settings {
            address: SocketAddr::new(self.host, self.port),
            port_per_replica: self.port_per_replica,
            speed: self.speed,
            tokens: self.tokens(),
            chat_template: self.chat_template.clone(),
            trace: None,
            keeps_records: !self.no_files,
            kv_events: None,
            draws_lengths: self.answers == Answers::Workload,
            api_key: self.api_key(),
            limits: Limits {
                body_bytes: self.max_body,
                connections: self.max_connections as usize,
                requests: self.max_requests as usize,
                ..Limits::default()
            },
            grace: Duration::from_secs_f64(self.grace),
            hear: say,
        }
    }
}
