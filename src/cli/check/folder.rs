//! Suites of one's own: a folder of scenario files with the figures recorded of them.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::check::{Golden, Member, Suite};
use crate::cli::Failure;
use crate::cli::replace;
use crate::io::text;
use crate::load::Cases;
use crate::load::load_all;

/// The file of recorded figures in a folder.
const GOLDEN: &str = "golden.toml";
const SCENARIOS: [&str; 4] = ["toml", "yaml", "yml", "json"];

/// Reads a suite. Where figures are about to be recorded there need not be any.
pub(super) fn read(folder: &Path, is_update: bool) -> Result<Suite, Failure> {
    let broken = |path: &Path, error: &dyn std::fmt::Display| {
        Failure::input(format!("{}: {error}", path.display()))
    };
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| broken(folder, &error))? {
        let path = entry.map_err(|error| broken(folder, &error))?.path();
        let is_scenario =
            path.extension().is_some_and(|ext| SCENARIOS.iter().any(|one| ext == *one));
        if is_scenario && path.file_name().is_some_and(|name| name != GOLDEN) {
            paths.push(path);
        }
    }
    paths.sort();
    if paths.is_empty() {
        return Err(Failure::input(format!("{}: holds no scenario files", folder.display())));
    }
    let path = folder.join(GOLDEN);
    let golden = if path.exists() {
        let text =
            text::whole(&path, text::RESULTS_MIB_MAX).map_err(|error| broken(&path, &error))?;
        let golden = Golden::parse(&text).map_err(|error| broken(&path, &error))?;
        if !is_update {
            golden.check_names().map_err(|error| broken(&path, &error))?;
        }
        golden
    } else if is_update {
        Golden::empty()
    } else {
        return Err(Failure::input(format!(
            "{}: is missing; `servecast check {} --update` records it",
            path.display(),
            folder.display()
        )));
    };
    let cases = Cases::told(&crate::cli::listener());
    let mut members: Vec<Member> = Vec::new();
    for path in &paths {
        members.extend(of_file(path, &cases)?);
    }
    for (place, member) in members.iter().enumerate() {
        if members[..place].iter().any(|before| before.name == member.name) {
            let name = &member.name;
            return Err(Failure::input(format!(
                "{}: two scenarios are called {name}",
                folder.display()
            )));
        }
    }
    Ok(Suite { members, golden })
}

/// The scenario of a file, by the file's name, and its variants, by that and their own.
fn of_file(path: &Path, cases: &Cases) -> Result<Vec<Member>, Failure> {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let mut members = Vec::new();
    for (place, draft) in load_all(path)?.each.iter().enumerate() {
        let case = cases.of_draft(draft)?;
        let name = match place {
            0 => stem.clone(),
            _ => format!("{stem}: {}", case.scenario.file.name),
        };
        members.push(Member { name, case });
    }
    Ok(members)
}

/// Finds before any scenario is run why figures could not be recorded.
pub(super) fn check(folder: &Path) -> Result<(), Failure> {
    replace::check(&folder.join(GOLDEN))
}

/// Writes recorded figures, complete or not at all.
pub(super) fn write(folder: &Path, golden: &Golden) -> Result<PathBuf, Failure> {
    let path = folder.join(GOLDEN);
    replace::replace(&path, |file| Ok(file.write_all(golden.text().as_bytes())?))?;
    Ok(path)
}
