//! The requests of a workload as a trace, drawn without any engine.

use std::path::{Path, PathBuf};

use super::error::{Broken, BrokenSettings, LoadError, Origin, fail};
use super::notes::{Listener, Note};
use super::trace::open_rows;
use super::workload::WorkloadFile;
use crate::io::traces::{self, Identity, Ids, TraceError, TraceFormat, WriteOptions, Written};
use crate::workload::Workload;

/// A workload whose requests all have a time before any of them is served.
#[derive(Debug)]
pub struct Draw {
    name: String,
    file: WorkloadFile,
    folder: PathBuf,
    listener: Listener,
}

impl Draw {
    /// A workload by its name in messages, whose paths are relative to a folder. The listener hears of what a trace
    /// has no place for.
    ///
    /// # Errors
    /// Every rule that it breaks, and what of it takes an engine or cannot be written.
    pub fn of(
        name: &str,
        (mut file, folder): (WorkloadFile, PathBuf),
        listener: &Listener,
    ) -> Result<Self, LoadError> {
        let notice = |text: &str| listener.tell(&Note::Notice(text.to_owned()));
        if file.workload.warm_up.take().is_some() {
            notice("workload.warm_up is left out: a trace has the requests that count");
        }
        check(name, &file)?;
        if file.workload.client.max_concurrency.is_some() {
            notice("the trace has arrivals, --max-concurrency holds requests back after them");
        }
        Ok(Self { name: name.to_owned(), file, folder, listener: listener.clone() })
    }

    /// Writes the requests as a trace, with hash ids for blocks of so many tokens in formats that have them.
    ///
    /// # Errors
    /// When the trace that they come from cannot be read, they cannot be drawn, or the file cannot be written.
    pub fn write(
        &self,
        path: &Path,
        format: TraceFormat,
        hash_block_tokens: u32,
        options: &WriteOptions,
    ) -> Result<Written, LoadError> {
        let WorkloadFile { seed, trace, workload } = &self.file;
        let rows = match trace {
            None => None,
            Some(trace) => {
                let (summary, rows) = open_rows(trace, &self.folder, *seed)?;
                Note::of_trace(&summary).for_each(|note| self.listener.tell(&note));
                Some(rows)
            }
        };
        let file = trace.as_ref().map(|trace| self.folder.join(&trace.path).display().to_string());
        let mut workload = Workload::open(workload, *seed, rows)
            .map_err(|error| fail(&self.name, format_args!("workload.{error}")))?
            .of_trace(file);
        let mut identity = Identity::new(hash_block_tokens, Ids::of(format));
        let rows = std::iter::from_fn(|| {
            let request = workload.next()?;
            Some(request.map(|request| identity.row(&request)).map_err(TraceError::from))
        });
        let written = traces::write(path, format, rows, options)?;
        for notice in workload.notices() {
            self.listener.tell(&Note::Notice(notice.to_string()));
        }
        Ok(written)
    }
}

/// Refuses what has no times before it is served.
fn check(name: &str, file: &WorkloadFile) -> Result<(), LoadError> {
    let WorkloadFile { trace, workload, .. } = file;
    let problems = workload.validate();
    if !problems.is_empty() {
        let broken = problems.into_iter().map(|problem| Broken {
            origin: Origin::File(name.to_owned()),
            problem: problem.below("workload"),
        });
        return Err(BrokenSettings(broken.collect()).into());
    }
    let refused = if workload.sessions.is_some() {
        "workload.sessions: later turns are sent when answers are complete, which takes an engine; leave sessions out"
    } else if !workload.classes.is_empty() {
        "workload.classes: no format of traces that are written has a place for classes; leave them out"
    } else if workload.reads_trace() && trace.is_none() {
        "trace: the workload reads a trace, none is given"
    } else {
        return Ok(());
    };
    Err(fail(name, refused))
}
