//! Which servers are simulated where a scenario says nothing of them.

use clap::{Args, ValueEnum};
use toml::Value;

use super::failure::Failure;
use crate::load::Draft;
use crate::resolved::{Scenario, Unstated};

/// The servers that a command simulates.
#[derive(Debug, Default, Clone, Copy, Args)]
pub(super) struct ServersArgument {
    /// Which servers to simulate where the scenario does not say how long their steps take; typical ones if absent.
    /// `servecast plan` buys for slow ones
    #[arg(long, value_enum, value_name = "WHICH")]
    servers: Option<Servers>,
}

/// Servers among those like them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Servers {
    /// The median of servers like them
    Typical,
    /// Slower than 19 of 20 like them
    Slow,
    /// Faster than 19 of 20 like them
    Fast,
}

impl ServersArgument {
    /// The draft with these servers, which no seed changes.
    pub(super) fn of(self, draft: Draft) -> Result<Draft, Failure> {
        let Some(servers) = self.servers else { return Ok(draft) };
        let server = match servers {
            Servers::Typical => Unstated::TYPICAL,
            Servers::Slow => Unstated::SLOW,
            Servers::Fast => Unstated::FAST,
        };
        let draft = draft.of_server(server).pinned();
        if assumes_servers(&draft.resolve()?.scenario) {
            return Ok(draft);
        }
        let (word, name) = (server.word().unwrap_or_default(), draft.title());
        Err(Failure::input(format!(
            "--servers {word}: nothing is assumed of the servers of `{name}`: {}",
            reason(&draft)
        )))
    }

    /// Whether the command line names them.
    pub(super) fn is_given(self) -> bool {
        self.servers.is_some()
    }
}

/// Whether some servers are what is expected of their class.
pub(super) fn assumes_servers(scenario: &Scenario) -> bool {
    scenario.groups.iter().any(|group| group.class.is_some())
}

/// Why nothing is assumed of servers.
fn reason(draft: &Draft) -> &'static str {
    if draft.is_calibrated() {
        "their parameters come from a calibration. Leave it or this option out"
    } else if draft.get(&["cluster", "host"]).and_then(Value::as_str) == Some("none") {
        "`cluster.host = \"none\"` turns that off. Leave it or this option out"
    } else if draft.get(&["cluster", "step_time"]).is_some() {
        "`cluster.step_time` says how long steps take, as in the folder of a run. Leave it out and name the \
         scenario file, or leave this option out"
    } else if draft.get(&["cluster", "groups"]).is_some() {
        "each of `cluster.groups` says how long steps take, or how far its servers differ is not known. Leave this \
         option out"
    } else {
        "how far servers like them differ is not known. Leave this option out"
    }
}
