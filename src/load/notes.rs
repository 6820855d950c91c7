//! What the user of a scenario or a study should hear of while it is loaded and simulated.

use std::fmt;
use std::sync::Arc;

use crate::io::traces::TraceSummary;

/// Something that is no result and no error.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// A figure hangs on something that may not hold.
    Warning(String),
    /// Something was decided that nobody stated.
    Notice(String),
    /// What was read.
    Fact(String),
    /// How far a study is.
    Progress(Progress),
    /// What else happened on the way.
    Remark(String),
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Warning(text) => write!(f, "warning: {text}"),
            Self::Notice(text) => write!(f, "notice: {text}"),
            Self::Fact(text) => write!(f, "  {text}"),
            Self::Progress(progress) => progress.fmt(f),
            Self::Remark(text) => f.write_str(text),
        }
    }
}

/// How far a study is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Runs that have ended.
    pub ended: usize,
    /// Of so many, where that is known; a study may find out that it needs more.
    pub of: Option<usize>,
    /// What runs now, if it is told.
    pub now: String,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.ended)?;
        self.of.iter().try_for_each(|of| write!(f, " of {of}"))?;
        f.write_str(" runs")?;
        if self.now.is_empty() { Ok(()) } else { write!(f, ", now {}", self.now) }
    }
}

impl Note {
    /// What a trace holds.
    pub fn of_trace(summary: &TraceSummary) -> impl Iterator<Item = Self> {
        let notices = summary.notices().into_iter().map(Self::Notice);
        std::iter::once(Self::Fact(summary.statement())).chain(notices)
    }
}

/// Hears of a note, on any thread.
type Hear = dyn Fn(&Note) + Send + Sync;

/// Who hears of notes; nobody by default. A study tells a warning as often as it comes across it.
#[derive(Clone, Default)]
pub struct Listener(Option<Arc<Hear>>);

impl Listener {
    /// Hears of every note, on any thread of a study.
    pub fn new(hear: impl Fn(&Note) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(hear)))
    }

    /// Tells of a note.
    pub fn tell(&self, note: &Note) {
        if let Some(hear) = &self.0 {
            hear(note);
        }
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Listener").field(&self.0.is_some()).finish()
    }
}
