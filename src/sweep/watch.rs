//! Who follows a sweep while it runs.

use std::fmt;

use crate::load::{Listener, LoadError};

/// Who follows a sweep while it runs; nobody by default.
#[derive(Default)]
pub struct Watch<'a> {
    /// Hears what a user should know.
    pub listener: Listener,
    /// Is told how many runs have ended, of how many: before the first, and whenever one has, on its thread.
    pub progress: Option<&'a (dyn Fn(u32, u32) + Sync)>,
    /// The words in which results say why the scenario of a run could not be loaded; the error's own if absent.
    pub words: Option<fn(LoadError) -> String>,
}

impl Watch<'_> {
    pub(super) fn tell_progress(&self, ended: u32, of: u32) {
        if let Some(progress) = self.progress {
            progress(ended, of);
        }
    }

    /// An error in a line.
    pub(super) fn line(&self, error: LoadError) -> String {
        let text = match self.words {
            Some(words) => words(error),
            None => error.to_string(),
        };
        text.lines().map(str::trim).collect::<Vec<_>>().join("; ")
    }
}

impl fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("listener", &self.listener).finish_non_exhaustive()
    }
}
