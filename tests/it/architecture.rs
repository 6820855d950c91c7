//! The house stands: modules import only from floors below, and no file grows past its limit.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The floors, lowest first. `Ordered`: a module may also import those named before it on its floor.
enum Floor {
    Ordered(&'static [&'static str]),
    Apart(&'static [&'static str]),
}
use Floor::{Apart, Ordered};

const FLOORS: &[Floor] = &[
    Ordered(&[
        "units", "ids", "json", "erased", "plain", "problem", "rng", "des", "threads", "stats",
    ]),
    Ordered(&["model", "hardware", "host", "request", "profiles", "scenario"]),
    Apart(&["cost", "frontend", "kv", "network", "workload"]),
    Apart(&["engine"]),
    Apart(&["cluster"]),
    Ordered(&["resolved", "sim"]),
    Apart(&["metrics"]),
    Ordered(&["study", "calibration", "conformance"]),
    Ordered(&["io", "load", "plot"]),
    Ordered(&[
        "sweep",
        "compare",
        "explain",
        "check",
        "plan",
        "validate",
        "catalogue",
        "calibrate",
        "report",
        "serve",
    ]),
    Ordered(&["cli", "lib", "main"]),
];

const LINES_MAX: usize = 700;

/// The floor of a module and its place on it.
fn place(module: &str) -> Option<(usize, usize)> {
    FLOORS.iter().enumerate().find_map(|(floor, modules)| {
        let (Ordered(names) | Apart(names)) = modules;
        names.iter().position(|name| *name == module).map(|index| (floor, index))
    })
}

fn may_import(here: (usize, usize), there: (usize, usize)) -> bool {
    let same_floor = here.0 == there.0 && matches!(FLOORS[here.0], Ordered(_)) && there.1 < here.1;
    here == there || there.0 < here.0 || same_floor
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the source folder is readable") {
        let path = entry.expect("a folder entry is readable").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            found.push(path);
        }
    }
}

/// Every source file with the name of its module, its path below `src`, and its text.
fn modules() -> Vec<(String, String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    files.sort();
    assert!(files.len() > 10, "the sources are found");
    files
        .into_iter()
        .map(|path| {
            let below = path.strip_prefix(&root).expect("below src").to_path_buf();
            let first = below.components().next().expect("a file has a name").as_os_str();
            let module = first.to_string_lossy().trim_end_matches(".rs").to_owned();
            let text = fs::read_to_string(&path).expect("a source file is text");
            (module, below.to_string_lossy().into_owned(), text)
        })
        .collect()
}

/// The modules that a line of code names after `crate::` (or `servecast::` in the binary).
fn imports(line: &str) -> impl Iterator<Item = String> {
    let code = line.split("//").next().unwrap_or_default().to_owned();
    let groups: Vec<String> = code
        .match_indices("crate::")
        .map(|(at, found)| code[at + found.len()..].to_owned())
        .collect();
    groups
        .into_iter()
        .map(|rest| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect())
}

#[test]
fn modules_import_only_from_floors_below() {
    let mut broken = Vec::new();
    for (module, path, text) in modules() {
        let Some(here) = place(&module) else {
            broken.push(format!("{path}: module `{module}` has no floor"));
            continue;
        };
        for (number, line) in text.lines().enumerate() {
            for import in imports(line) {
                let place_of = format!("{path}:{}", number + 1);
                if line.contains("use crate::{") {
                    broken.push(format!("{place_of}: write one `use crate::x` a line"));
                    continue;
                }
                match place(&import) {
                    Some(there) if may_import(here, there) => {}
                    Some(_) => broken.push(format!("{place_of}: {module} may not import {import}")),
                    None => broken.push(format!("{place_of}: `{import}` has no floor")),
                }
            }
        }
    }
    assert!(broken.is_empty(), "the house leans:\n{}", broken.join("\n"));
}

#[test]
fn no_file_grows_past_its_limit() {
    for (_, path, text) in modules() {
        let code = text.lines().take_while(|line| *line != "#[cfg(test)]").count();
        assert!(code <= LINES_MAX, "{path} has {code} lines of code, at most {LINES_MAX}");
    }
}

#[test]
fn every_module_says_what_it_is() {
    for (_, path, text) in modules() {
        assert!(text.starts_with("//!"), "{path} begins with no module doc");
    }
}

#[test]
fn the_core_touches_no_file_and_no_clock() {
    let floors_below_io = 8;
    for (module, path, text) in modules() {
        if place(&module).is_none_or(|(floor, _)| floor >= floors_below_io) {
            continue;
        }
        for forbidden in ["std::fs", "std::env", "println!", "Instant::now", "SystemTime"] {
            assert!(!text.contains(forbidden), "{path} uses {forbidden}");
        }
    }
}

/// What resolution fills in is in the types of what it makes: nobody unwraps it, and what runs knows no scenario as
/// typed.
#[test]
fn what_is_resolved_is_decided_by_types() {
    let simulates = ["cost", "kv", "network", "workload", "engine", "cluster", "sim", "metrics"];
    for (module, path, text) in modules() {
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for told in code.split("expect(\"").skip(1) {
            let told = told.split('"').next().unwrap_or_default();
            assert!(!told.contains("resolved"), "{path} unwraps what types can say: {told}");
        }
        let is_typed = simulates.contains(&module.as_str()) && code.contains("ScenarioFile");
        assert!(!is_typed, "{path} reads a scenario as typed");
    }
}

/// What a test needs and may lack is told by `#[ignore = "needs …"]`, so that nothing is green that checked
/// nothing.
#[test]
fn no_test_returns_early_and_green_without_reference_data() {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests"), &mut files);
    files.retain(|path| !path.ends_with("architecture.rs"));
    assert!(files.len() > 50, "{files:?}");
    let mut using = 0;
    for path in files {
        let text = fs::read_to_string(&path).expect("a source is readable");
        let place = path.display();
        assert!(!text.contains("SERVECAST_DATA is not set"), "{place}");
        for body in text.split("#[test]\n").skip(1) {
            let body = body.split("\n}\n").next().unwrap_or_default();
            if body.contains(" data()") || body.contains("(data()") {
                assert!(
                    body.contains(NEEDS_DATA),
                    "{place}: {}",
                    body.lines().next().unwrap_or_default()
                );
            }
            using += usize::from(body.contains(NEEDS_DATA));
        }
    }
    assert!(using >= 24, "{using}");
}

const NEEDS_DATA: &str = "#[ignore = \"needs SERVECAST_DATA\"]";

#[test]
fn the_floors_name_all_modules_and_no_others() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let map = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("ARCHITECTURE.md"));
    let map = map.expect("the map is there");
    for module in FLOORS.iter().flat_map(|(Ordered(names) | Apart(names))| *names) {
        let is_there = source.join(format!("{module}.rs")).is_file()
            || source.join(module).join("mod.rs").is_file();
        assert!(is_there, "the floors name `{module}`, which is no module");
        let is_on_map = map.contains(&format!("`{module}`"));
        assert!(is_on_map || ["lib", "main"].contains(module), "ARCHITECTURE.md lacks `{module}`");
    }
    for entry in fs::read_dir(&source).expect("the source folder is readable") {
        let path = entry.expect("a folder entry is readable").path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        assert!(place(&name).is_some(), "no floor names `{name}`");
    }
}

/// The part of the command line that a file belongs to: a file or folder directly below `src/cli`.
fn part_of_cli(path: &str) -> Option<&str> {
    let below = path.strip_prefix("cli/")?;
    Some(below.split('/').next()?.trim_end_matches(".rs")).filter(|part| *part != "mod")
}

/// Commands take what they share from files beside them and not from each other in a circle, and nothing from
/// the file that calls them.
#[test]
fn parts_of_the_command_line_import_in_no_circle() {
    let modules = modules();
    let parts: BTreeSet<&str> =
        modules.iter().filter_map(|(_, path, _)| part_of_cli(path)).collect();
    let mut imports: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (_, path, text) in &modules {
        let Some(part) = part_of_cli(path) else { continue };
        let inner = path.matches('/').count() - 1;
        let is_mod = path.ends_with("/mod.rs");
        for line in text.lines().take_while(|line| *line != "#[cfg(test)]") {
            let code = line.split("//").next().unwrap_or_default();
            let at_top = (inner == 0 || (inner == 1 && is_mod)).then_some("use super::");
            for start in at_top.into_iter().chain(["crate::cli::"]) {
                for (at, found) in code.match_indices(start) {
                    let rest = &code[at + found.len()..];
                    let name: String =
                        rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                    assert!(
                        parts.contains(name.as_str()),
                        "{path}: `{}` takes from cli/mod.rs what no part has",
                        line.trim()
                    );
                    if name != part {
                        imports.entry(part).or_default().insert(name);
                    }
                }
            }
        }
    }
    let mut left = imports;
    while !left.is_empty() {
        let before = left.len();
        let there: BTreeSet<String> = left.keys().map(|part| (*part).to_owned()).collect();
        left.retain(|_, needs| needs.iter().any(|need| there.contains(need)));
        assert!(left.len() < before, "a circle: {left:?}");
    }
}
