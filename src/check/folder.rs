//! Suites of one's own: a folder of scenario files with the figures recorded of them.

use std::fs;
use std::path::Path;

use super::golden::Golden;
use super::suite::{Member, Suite};
use crate::io::text;
use crate::load::{Cases, Listener, LoadError, fail, load_all};

/// The file of recorded figures in the folder of a suite.
pub const GOLDEN_FILE: &str = "golden.toml";
const SCENARIOS: [&str; 4] = ["toml", "yaml", "yml", "json"];

/// What a suite is read for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Figures are compared with those recorded.
    Check,
    /// Figures are about to be recorded: there need not be any.
    Record,
}

/// Reads the scenarios of a folder with their variants, and the figures recorded of them.
///
/// # Errors
/// When a file cannot be read or breaks a rule, two scenarios have one name, or nothing is there to compare with.
pub fn folder(path: &Path, purpose: Purpose, listener: &Listener) -> Result<Suite, LoadError> {
    let broken =
        |path: &Path, error: &dyn std::fmt::Display| fail(&path.display().to_string(), error);
    if path.is_file() {
        return Err(broken(path, &"is a file; give the folder of the scenarios"));
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(|error| broken(path, &error))? {
        let file = entry.map_err(|error| broken(path, &error))?.path();
        let is_scenario =
            file.extension().is_some_and(|ext| SCENARIOS.iter().any(|one| ext == *one));
        if is_scenario && file.file_name().is_some_and(|name| name != GOLDEN_FILE) {
            files.push(file);
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(broken(path, &"holds no scenario files"));
    }
    let recorded = path.join(GOLDEN_FILE);
    let golden = if recorded.exists() {
        let text = text::whole(&recorded, text::RESULTS_MIB_MAX);
        let text = text.map_err(|error| broken(&recorded, &error))?;
        let golden = Golden::parse(&text).map_err(|error| broken(&recorded, &error))?;
        if purpose == Purpose::Check {
            golden.check_names().map_err(|error| broken(&recorded, &error))?;
        }
        golden
    } else if purpose == Purpose::Record {
        Golden::empty()
    } else {
        let what = format!("is missing; `servecast check {} --update` records it", path.display());
        return Err(broken(&recorded, &what));
    };
    let cases = Cases::told(listener);
    let mut members: Vec<Member> = Vec::new();
    for file in &files {
        members.extend(of_file(file, &cases)?);
    }
    for (place, member) in members.iter().enumerate() {
        if members[..place].iter().any(|before| before.name == member.name) {
            return Err(broken(path, &format!("two scenarios are called {}", member.name)));
        }
    }
    Ok(Suite::new(members, golden))
}

/// The scenario of a file, by the file's name, and its variants, by that and their own.
fn of_file(path: &Path, cases: &Cases) -> Result<Vec<Member>, LoadError> {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let mut members = Vec::new();
    for (place, draft) in load_all(path)?.each.iter().enumerate() {
        let case = cases.of_draft(draft)?;
        let name = match place {
            0 => stem.clone(),
            _ => format!("{stem}: {}", case.scenario.name),
        };
        members.push(Member { name, case });
    }
    Ok(members)
}
