//! A scenario as a server: the simulated cluster behind OpenAI's API, in step with the clock on the wall.
//!
//! What serves is the cluster of a run ([`Live`](crate::sim::Live)): the same schedulers, caches, cost models, networks and
//! faults. Three things are added to it: a thread that keeps time, connections, and the words that requests and
//! answers are made of.
//!
//! * `http.rs`: connections and paths; `stalled.rs`: responses that nobody reads; `app.rs`: what connections share, and
//!   its bounds; `access.rs`: who may come in; `fields.rs`, `prompts.rs`, `context.rs`, `error.rs`: bodies and refusals
//! * `openai/`, `vllm.rs`, `tokenize.rs`, `sglang.rs`, `generate.rs`: what each vendor's clients say and expect;
//!   `rids.rs`: names of requests; `salts.rs`: what keeps prompts apart; `control.rs`: what only a simulator has
//! * `handover.rs`: prefill and decode as servers of their own
//! * `ports.rs`: one port for the cluster, or one for each replica; `kv_events/`: what caches hold, told to routers
//! * `whose.rs`: what headers say of a request
//! * `build.rs`: a scenario made into what serves it
//! * `driver.rs`: the thread that owns the cluster; `clock.rs`: its time; `relay.rs`: what is told to whom, and when;
//!   `counters.rs`, `exposition.rs`: what watchers see;
//!   `lateness.rs`: how well it keeps time
//! * `answer.rs`: an answer between the two; `words.rs`: text as tokens; `prefixes.rs`, `remembered.rs`: which tokens caches take for
//!   equal, and for how long; `lengths.rs`: how long answers are;
//!   `trace.rs`: what was asked; `windows.rs`: which faults may be told

mod access;
mod answer;
mod app;
mod build;
mod clock;
mod context;
mod control;
mod counters;
mod driver;
mod error;
mod exposition;
mod fields;
mod generate;
mod handover;
mod http;
mod kv_events;
mod lateness;
mod lengths;
mod openai;
mod ports;
mod prefixes;
mod prompts;
mod relay;
mod remembered;
mod rids;
mod salts;
mod sglang;
mod stalled;
mod tokenize;
mod trace;
mod vllm;
mod whose;
mod windows;
mod words;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use self::app::App;
use self::build::{app, driver};
use self::clock::Clock;
use self::driver::{Command, Ended, Handle};
use self::http::Listening;
use self::lateness::Lateness;
use self::openai::ChatTemplate;
use self::whose::Classes;
use self::words::Words;
use crate::io::traces::TraceError;
use crate::metrics::{Caution, Recorder};
use crate::scenario::FaultConfig;
use crate::sim::Counts;
use crate::study::{Case, StudyError};

pub use self::app::Limits;
pub use self::kv_events::{KvEvents, KvEventsError};
pub use self::lateness::Late;
pub use self::openai::TemplateError;
pub use self::words::TokenizerError;

/// How texts are cut into tokens.
#[derive(Debug, Clone)]
pub enum Tokens {
    /// So many bytes are one, 1 to 4.
    Bytes(usize),
    /// As this `tokenizer.json` does.
    File(PathBuf),
}

/// How a scenario is served.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where it listens.
    pub address: SocketAddr,
    /// Whether every replica has a port of its own, from that one on, where it is asked past the router.
    pub port_per_replica: bool,
    /// Simulated seconds per second.
    pub speed: f64,
    /// What texts are cut into tokens by.
    pub tokens: Tokens,
    /// What makes prompts of chats, where it does not stand beside the tokenizer.
    pub chat_template: Option<PathBuf>,
    /// Whether all answers are as long as those of the scenario's workload, up to their limit; if not, those with a
    /// limit are as long as that.
    pub draws_lengths: bool,
    /// Where what was asked is written to, as a trace in JSON lines.
    pub trace: Option<PathBuf>,
    /// Whether the records of all requests are kept, or figures of them.
    pub keeps_records: bool,
    /// How caches are told of, if they are.
    pub kv_events: Option<KvEvents>,
    /// What clients have to show, if anything.
    pub api_key: Option<String>,
    /// Bounds on what clients may ask for.
    pub limits: Limits,
    /// How long answers may take to end when the server is told to.
    pub grace: Duration,
    /// Hears what a person should know.
    pub hear: fn(&str),
}

impl Settings {
    /// The lowest and the highest speed.
    pub const SPEEDS: std::ops::RangeInclusive<f64> = Clock::SPEEDS;
}

/// Why a scenario is not served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The scenario cannot be simulated.
    #[error(transparent)]
    Study(#[from] StudyError),
    /// The tokenizer is of no use.
    #[error("{}: {}", .0.display(), .1)]
    Tokenizer(PathBuf, TokenizerError),
    /// The template of chats is of no use.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// Its replicas cannot have a port each.
    #[error("replicas cannot have a port each: {0}")]
    Ports(&'static str),
    /// Caches cannot be told of.
    #[error("KV-cache events: {0}")]
    KvEvents(#[from] KvEventsError),
    /// The address is taken, or not this machine's.
    #[error("cannot listen at {0}: {1}")]
    Listen(SocketAddr, io::Error),
    /// The system gives no threads or signals.
    #[error(transparent)]
    System(#[from] io::Error),
    /// The simulation broke a law: its message is on stderr.
    #[error("the simulation stopped")]
    Broken,
}

/// What is left of a server that has ended.
#[derive(Debug)]
pub struct Serviced {
    /// What became of all requests.
    pub counts: Counts,
    /// All records.
    pub recorder: Recorder,
    /// What figures hang on.
    pub caution: Caution,
    /// Faults that it was told of over HTTP, in simulated time; nothing if there were too many to be replayed, or there is
    /// no trace.
    pub told: Option<Vec<FaultConfig>>,
    /// How long after their simulated instants tokens were written.
    pub late: Late,
    /// Whether the trace was written, where there is to be one.
    pub traced: Result<(), TraceError>,
}

/// Serves a scenario until it is told to end by Ctrl-C or a SIGTERM. `ready` hears where it listens. What a simulated
/// client would take is left to the real ones.
///
/// # Errors
/// When the scenario cannot be simulated, or the address is not to be had.
pub fn serve(
    case: &Case,
    settings: &Settings,
    ready: impl FnOnce(&[SocketAddr]),
) -> Result<Serviced, ServeError> {
    let mut case = case.clone();
    case.scenario.without_client();
    let case = &case;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let scenario = &case.scenario;
    let words = match &settings.tokens {
        Tokens::Bytes(bytes) => Words::of_bytes(*bytes),
        Tokens::File(path) => {
            Words::of_file(path).map_err(|error| ServeError::Tokenizer(path.clone(), error))?
        }
    };
    let words = Arc::new(words);
    let tokenizer = match &settings.tokens {
        Tokens::Bytes(_) => None,
        Tokens::File(path) => Some(path.as_path()),
    };
    let template = match (&settings.chat_template, tokenizer) {
        (Some(path), tokenizer) => Some(ChatTemplate::of_file(path, tokenizer)?),
        (None, Some(tokenizer)) => ChatTemplate::beside(tokenizer)?,
        (None, None) => None,
    };
    let template = template.map(Arc::new);
    let mut ports = vec![None];
    if settings.port_per_replica {
        if let Some(why) = ports::refused(scenario) {
            return Err(ServeError::Ports(why));
        }
        ports = scenario.instances().map(Some).collect();
    }
    let (driver, handle) = driver(case, settings, &words, &runtime)?;
    if let Some(notice) = Classes::of(scenario).notice() {
        (settings.hear)(&notice);
    }
    let lateness = Arc::new(Lateness::default());
    let is_closing = Arc::new(AtomicBool::new(false));
    let mut servers: Vec<(Arc<App>, Listening)> = Vec::with_capacity(ports.len());
    for (offset, replica) in (0..).zip(ports) {
        let mut address = settings.address;
        if address.port() != 0 {
            let port = address.port().checked_add(offset);
            address.set_port(port.ok_or(ServeError::Ports("there are not so many ports"))?);
        }
        let listening = runtime.block_on(Listening::at(address));
        let listening = listening.map_err(|error| ServeError::Listen(address, error))?;
        let app = App {
            replica,
            template: template.clone(),
            led: ports::led(driver.live(), replica),
            lateness: lateness.clone(),
            is_closing: is_closing.clone(),
            ..app(scenario, settings, (handle.clone(), words.clone()), &driver)
        };
        let app = match servers.first() {
            Some((first, _)) => app.beside(first),
            None => app,
        };
        servers.push((Arc::new(app), listening));
    }
    let addresses: Vec<SocketAddr> = servers.iter().map(|(_, at)| at.address).collect();
    let (closing, closed) = watch::channel(false);
    let driving = std::thread::Builder::new().name("driver".to_owned());
    let driving = driving.spawn({
        let closing = closing.clone();
        move || {
            // However the driver ends, the server does.
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| driver.run()));
            closing.send_replace(true);
            ended
        }
    })?;
    ready(&addresses);
    runtime.block_on(async {
        tokio::spawn(stop_on_signal(handle, is_closing, settings.grace));
        let mut all = tokio::task::JoinSet::new();
        for (app, listening) in servers {
            let mut closed = closed.clone();
            all.spawn(listening.serve(app, async move {
                drop(closed.wait_for(|is_closed| *is_closed).await);
            }));
        }
        while all.join_next().await.is_some() {}
    });
    runtime.shutdown_timeout(Duration::from_secs(1));
    let ended = driving.join().map_err(|_| ServeError::Broken)?;
    let Ended { counts, recorder, caution, told, traced } =
        ended.map_err(|_| ServeError::Broken)?;
    Ok(Serviced { counts, recorder, caution, told, late: lateness.figures(), traced })
}

/// Waits for a signal to end, and then for answers that are under way, for a while.
async fn stop_on_signal(handle: Handle, is_closing: Arc<AtomicBool>, grace: Duration) {
    signalled().await;
    is_closing.store(true, Ordering::Relaxed);
    let all_over = async {
        while let Some(look) = handle.ask(Command::Look).await {
            if look.open == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        () = all_over => {}
        () = tokio::time::sleep(grace) => {}
        () = signalled() => {}
    }
    handle.tell(Command::Stop);
}

/// Ctrl-C, or a SIGTERM.
async fn signalled() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    drop(tokio::signal::ctrl_c().await);
}
