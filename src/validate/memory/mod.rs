//! Memory lines of real server starts, against what the derivation of KV memory predicts for the same model, GPU
//! and flags.
//!
//! A record is a start: its flags, and what its log said of memory ([`start`]). From a record comes a cluster as a
//! scenario would have it ([`subject`]), whose memory is derived by the very function that runs, plans and
//! benchmarks use ([`predict`]). Nothing of the log goes into it but what `given` names. What cannot be predicted is
//! listed with the reason.

mod predict;
mod report;
mod score;
mod start;
mod subject;

use std::collections::BTreeMap;
use std::path::Path;

use self::predict::Prediction;
use self::start::Start;
use self::subject::Models;
use super::record::RecordError;
use crate::io::text;
use crate::load::{Listener, LoadError, Note, fail};

pub use self::predict::Part;

/// A start whose memory was predicted.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    start: Start,
    prediction: Prediction,
}

/// Starts, predicted or not.
#[derive(Debug, Clone)]
pub struct MemoryStudy {
    rows: Vec<Row>,
    /// Those that were not, with the reason.
    left_out: Vec<(Start, String)>,
    broken: Vec<RecordError>,
}

impl MemoryStudy {
    /// Reads starts, one JSON object a line, and predicts them. Models that are not in the catalogue are looked for
    /// in `models`, a folder of files `owner--name.config.json`; parts in `given` are taken from the log where it
    /// has them.
    ///
    /// # Errors
    /// When a file cannot be read, or holds no start.
    pub fn read(
        path: &Path,
        models: Option<&Path>,
        given: &[Part],
        listener: &Listener,
    ) -> Result<Self, LoadError> {
        let name = path.display().to_string();
        let text = text::whole(path, text::RESULTS_MIB_MAX).map_err(|error| fail(&name, error))?;
        let models = Models::read(models)?;
        let (starts, broken) = Start::read_all(&text);
        for line in &broken {
            listener.tell(&Note::Remark(format!("{name}: {line}")));
        }
        if starts.is_empty() {
            return Err(fail(&name, "holds no start of a server"));
        }
        let mut study = Self { rows: Vec::new(), left_out: Vec::new(), broken };
        for start in starts {
            match predict::predict(&start, &models, given) {
                Ok(prediction) => study.rows.push(Row { start, prediction }),
                Err(reason) => study.left_out.push((start, reason)),
            }
        }
        Ok(study)
    }

    /// How many were predicted, of how many.
    pub fn counts(&self) -> (usize, usize) {
        let predicted = self.rows.len();
        (predicted, predicted + self.left_out.len() + self.broken.len())
    }

    /// Reasons why starts are not predicted, with how many there are for each.
    fn reasons(&self) -> BTreeMap<&str, usize> {
        let mut reasons = BTreeMap::new();
        for (_, reason) in &self.left_out {
            *reasons.entry(reason.as_str()).or_insert(0) += 1;
        }
        reasons
    }
}
