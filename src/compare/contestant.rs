//! The scenarios that are compared, and what differs between them.

use toml::Value;

use crate::erased;
use crate::load::{Draft, Listener, LoadError, Note, Origin};
use crate::problem::Problem;
use crate::scenario::{ArrivalConfig, ScenarioFile};

/// Letters name scenarios.
const SCENARIOS_MAX: usize = 26;

/// A scenario that is compared.
#[derive(Debug)]
pub struct Contestant {
    /// A for the baseline, B, …
    pub letter: char,
    /// Its settings.
    pub draft: Draft,
    /// As resolved with the seed of the file.
    pub file: ScenarioFile,
    /// The settings, resolved, in which it differs from the baseline.
    pub changed: Vec<String>,
}

impl Contestant {
    /// Its title.
    pub fn name(&self) -> &str {
        &self.file.name
    }

    /// Those of the changed settings that say which requests there are. How the client sends them is not
    /// among them.
    pub fn other_requests(&self) -> impl Iterator<Item = &str> {
        let changed = self.changed.iter().map(String::as_str);
        changed.filter(|path| {
            path.starts_with("trace") || says_requests(path) && !path.contains("tool_seed")
        })
    }

    /// Whether every run sends the requests of a trace as they were recorded, but for a jitter of their arrivals.
    pub(super) fn is_jittered_trace(&self) -> bool {
        matches!(&self.file.workload.arrivals, ArrivalConfig::Trace(trace) if trace.jitter_s > 0.0)
    }

    /// Whether its steps are priced by other kernels than those of the baseline.
    pub fn has_other_kernels(&self) -> bool {
        let ends = [".model", ".gpu", ".quantization", ".engine.type"];
        self.changed.iter().any(|path| {
            let is_table = path.contains(".step_time") && !path.contains(".calibration");
            path.starts_with("cluster.") && (is_table || ends.iter().any(|end| path.ends_with(end)))
        })
    }

    /// The changed settings in a line.
    pub(super) fn changes(&self) -> String {
        const SHOWN: usize = 6;
        let shown = self.changed.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
        match self.changed.len() {
            0 => "nothing".to_owned(),
            all if all > SHOWN => format!("{shown} and {} more", all - SHOWN),
            _ => shown,
        }
    }
}

fn says_requests(path: &str) -> bool {
    path.starts_with("workload") && !path.starts_with("workload.client")
}

/// Resolves the scenarios; the first is the baseline, whose seed all get.
pub(super) fn read(all: &[Draft], listener: &Listener) -> Result<Vec<Contestant>, LoadError> {
    const FIRST: Origin = Origin::Argument("scenarios");
    let baseline = match all {
        [] => return Err(FIRST.fail(Problem::new("", "there is none to compare"))),
        [one] => {
            return Err(Origin::File(one.name().to_owned()).fail(Problem::new(
                "",
                "has no variants to compare with; give a second scenario, or `[[variants]]` in the file",
            )));
        }
        [baseline, ..] if all.len() <= SCENARIOS_MAX => baseline,
        _ => {
            let problem = format!("at most {SCENARIOS_MAX} are compared, got {}", all.len());
            return Err(FIRST.fail(Problem::new("", problem)));
        }
    };
    let seed = baseline.seed();
    let mut contestants: Vec<Contestant> = Vec::with_capacity(all.len());
    for (mut draft, letter) in all.iter().cloned().zip('A'..) {
        if draft.seed() != seed {
            listener.tell(&Note::Notice(format!(
                "{letter} has seed {}; it is run with that of A, {}",
                draft.seed().0,
                seed.0
            )));
            draft.put("seed", seed.0.cast_signed())?;
        }
        let file = draft.resolve()?.scenario.written();
        let changed = match contestants.first() {
            Some(baseline) => changed(&baseline.file, &file),
            None => Vec::new(),
        };
        contestants.push(Contestant { letter, draft, file, changed });
    }
    Ok(contestants)
}

/// The paths at which two resolved scenarios differ.
fn changed(a: &ScenarioFile, b: &ScenarioFile) -> Vec<String> {
    let table = |file: &ScenarioFile| {
        let mut table = erased::table(file).expect("a scenario can be written");
        for title in ["name", "measured"] {
            table.remove(title);
        }
        Value::Table(table)
    };
    let mut found = Vec::new();
    differ("", &table(a), &table(b), &mut found);
    found
}

fn differ(path: &str, a: &Value, b: &Value, found: &mut Vec<String>) {
    match (a, b) {
        (Value::Table(a), Value::Table(b)) => {
            let own = b.keys().filter(|key| !a.contains_key(*key));
            for key in a.keys().chain(own) {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                match (a.get(key), b.get(key)) {
                    (Some(a), Some(b)) => differ(&path, a, b, found),
                    _ => found.push(path),
                }
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                differ(&format!("{path}[{index}]"), a, b, found);
            }
        }
        (a, b) if a != b => found.push(path.to_owned()),
        _ => {}
    }
}
