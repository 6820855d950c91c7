//! Which servers are simulated where a scenario says nothing of them.

use clap::{Args, ValueEnum};

use super::failure::Failure;
use crate::load::Draft;
use crate::resolved::Unstated;

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
        let server = match self.servers {
            None => return Ok(draft),
            Some(Servers::Typical) => Unstated::TYPICAL,
            Some(Servers::Slow) => Unstated::SLOW,
            Some(Servers::Fast) => Unstated::FAST,
        };
        Ok(draft.with_servers(server)?)
    }

    /// Whether the command line names them.
    pub(super) fn is_given(self) -> bool {
        self.servers.is_some()
    }
}
