//! Files of published runs, one record a line.

use std::path::Path;

use super::plan::Plan;
use super::record::{Record, RecordError};
use super::report::Validation;
use super::run::{Adjust, validate};
use crate::io::text;
use crate::load::{self, Listener, LoadError, Note, Override, fail};
use crate::plain::matches;
use crate::scenario::ScenarioFile;

/// The runs of a file, and what is otherwise in their scenarios.
#[derive(Debug, Clone)]
pub struct Published {
    /// The file, for messages.
    name: String,
    /// Its runs.
    pub records: Vec<Record>,
    /// Its lines that are no records.
    pub broken: Vec<RecordError>,
    /// Settings of every scenario.
    pub(crate) overrides: Vec<Override>,
}

impl Published {
    /// Reads a file; the listener hears of lines that are no records.
    ///
    /// # Errors
    /// When it cannot be read, or holds no record.
    pub fn read(path: &Path, listener: &Listener) -> Result<Self, LoadError> {
        let name = path.display().to_string();
        let text = text::whole(path, text::RESULTS_MIB_MAX).map_err(|error| fail(&name, error))?;
        let (records, broken) = Record::read_all(&text);
        match broken.first() {
            _ if !records.is_empty() => {
                for line in &broken {
                    listener.tell(&Note::Remark(format!("{name}: {line}")));
                }
                Ok(Self { name, records, broken, overrides: Vec::new() })
            }
            Some(error) => Err(fail(&name, error)),
            None => Err(fail(&name, "holds no run")),
        }
    }

    /// Those of them of a family, by a pattern in which `*` stands for any text and `?` for one letter, and of an
    /// engine, as the records name it, in any capitals.
    ///
    /// # Errors
    /// When there are none.
    pub fn only(mut self, family: Option<&str>, engine: Option<&str>) -> Result<Self, LoadError> {
        self.records.retain(|record| {
            family.is_none_or(|pattern| matches(pattern, &record.family))
                && engine.is_none_or(|name| record.engine().eq_ignore_ascii_case(name))
        });
        if self.records.is_empty() {
            return Err(fail(&self.name, "no run of this family and engine"));
        }
        Ok(self)
    }

    /// The same with settings of every scenario. One that some records have no place for is a reason to leave
    /// those out.
    ///
    /// # Errors
    /// When no record can take them: a path is misspelt, or a file that they name cannot be read.
    pub fn with(mut self, overrides: &[Override]) -> Result<Self, LoadError> {
        self.overrides = overrides.to_vec();
        let mut refused = None;
        for plan in self.records.iter().filter_map(|record| Plan::of(record).ok()) {
            let file = load::overridden(plan.scenario, overrides);
            let own = file
                .and_then(|file| load::own_files((&file.name, overrides), &file, Path::new("")));
            match own {
                Ok(_) => return Ok(self),
                Err(problem) => refused = Some(problem),
            }
        }
        refused.map_or(Ok(self), Err)
    }

    /// Simulates every run that can be, changed by the caller before its overrides, and compares; lines that are
    /// no records count as left out.
    pub fn validate(&self, adjust: &Adjust<'_>) -> Validation {
        let adjusted = |record: &Record, file: ScenarioFile| {
            let file = adjust(record, file)?;
            load::overridden(file, &self.overrides).map_err(|error| error.told())
        };
        let mut validation = validate(&self.records, &adjusted);
        validation.add_broken(&self.broken);
        validation
    }
}
