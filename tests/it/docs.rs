//! The documentation is true: scenarios that it shows can be run, and every key is explained.

use std::fs;
use std::path::{Path, PathBuf};

use servecast::resolved::Scenario;
use servecast::scenario::ScenarioFile;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn resolve(name: &str, text: &str) -> Scenario {
    let mut table: toml::Table = toml::from_str(text).unwrap_or_else(|e| panic!("{name}: {e}"));
    // The command line takes these out before it reads the rest.
    table.remove("variants");
    table.remove("sweep");
    let file: ScenarioFile = table.try_into().unwrap_or_else(|e| panic!("{name}: {e}"));
    Scenario::resolve(file, None).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// The first scenario that a page shows.
fn shown(page: &str) -> String {
    let text = read(&root().join(page));
    let (_, rest) = text.split_once("```toml\n").unwrap_or_else(|| panic!("{page} shows none"));
    let (text, _) = rest.split_once("```").expect("the block ends");
    text.to_owned()
}

#[test]
fn every_scenario_of_the_project_resolves() {
    let folder = fs::read_dir(root().join("scenarios")).expect("the scenarios are there");
    let paths: Vec<PathBuf> = folder.map(|entry| entry.expect("an entry").path()).collect();
    assert!(paths.len() > 1);
    for path in paths {
        let name = path.file_name().expect("a file has a name").to_string_lossy().into_owned();
        let text = read(&path);
        assert!(text.starts_with('#'), "{name} begins with no comment that says what it asks");
        resolve(&name, &text);
        let listed = read(&root().join("docs/ready-scenarios.md"));
        assert!(listed.contains(&name), "docs/ready-scenarios.md does not name {name}");
    }
}

#[test]
fn the_scenarios_that_pages_show_resolve() {
    for page in ["docs/tour.md", "docs/commands.md", "docs/tutorial.md"] {
        resolve(page, &shown(page));
    }
}

#[test]
fn the_tutorial_shows_its_server() {
    let server = read(&root().join("docs/tutorial/server.toml"));
    let (comment, rest) = server.split_once('\n').expect("it begins with a line");
    assert!(comment.starts_with('#'), "{comment}");
    assert_eq!(rest, shown("docs/tutorial.md"));
}

#[test]
fn the_experiment_of_the_validation_page_is_one() {
    let page = read(&root().join("docs/validation.md"));
    let (_, rest) = page.split_once("```toml\n").expect("the page shows an experiment");
    let (text, _) = rest.split_once("```").expect("the block ends");
    let experiment: servecast::validate::Experiment =
        toml::from_str(text).unwrap_or_else(|e| panic!("docs/validation.md: {e}"));
    assert!(experiment.limits.check().is_ok());
}

#[cfg(feature = "cli")]
#[test]
fn every_key_of_a_scenario_is_in_the_reference() {
    fn keys(schema: &serde_json::Value, found: &mut Vec<String>) {
        if let Some(properties) = schema.get("properties").and_then(|p| p.as_object()) {
            found.extend(properties.keys().cloned());
        }
        let inner = schema.as_object().into_iter().flat_map(|object| object.values());
        inner.chain(schema.as_array().into_iter().flatten()).for_each(|part| keys(part, found));
    }
    fn words(schema: &serde_json::Value, found: &mut Vec<String>) {
        let one = schema.get("const").into_iter();
        let listed = schema.get("enum").and_then(|e| e.as_array()).into_iter().flatten();
        found.extend(one.chain(listed).filter_map(|word| word.as_str().map(str::to_owned)));
        let inner = schema.as_object().into_iter().flat_map(|object| object.values());
        inner.chain(schema.as_array().into_iter().flatten()).for_each(|part| words(part, found));
    }
    let schema = schemars::schema_for!(ScenarioFile).to_value();
    let mut names = Vec::new();
    keys(&schema, &mut names);
    words(&schema, &mut names);
    assert!(names.len() > 100, "the schema has keys");
    let reference = read(&root().join("docs/scenarios.md"));
    let absent: Vec<String> = names
        .into_iter()
        .filter(|name| {
            !reference.contains(&format!("`{name}`")) && !reference.contains(&format!("{name} ="))
        })
        .collect();
    assert!(absent.is_empty(), "docs/scenarios.md does not explain {absent:?}");
}

/// All pages of the project, in folders of its own.
fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the project") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_made = name.starts_with("target") || name.starts_with('.') || name == "runs";
        if path.is_dir() && !is_made {
            pages(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "md") {
            found.push(path);
        }
    }
}

/// The anchors of a page: its headings as GitHub and mdBook name them.
fn anchors(text: &str) -> Vec<String> {
    let mut is_code = false;
    let mut found = Vec::new();
    for line in text.lines() {
        is_code ^= line.starts_with("```");
        if let Some(heading) = line.strip_prefix('#').filter(|_| !is_code) {
            let words = heading.trim_start_matches('#').trim().to_lowercase();
            let kept = words.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            found.push(kept.map(|c| if c == ' ' { '-' } else { c }).collect());
        }
    }
    found
}

#[test]
fn links_between_the_pages_lead_somewhere() {
    let mut all = Vec::new();
    pages(root(), &mut all);
    assert!(all.len() > 25, "{all:?}");
    let mut links = 0;
    for path in &all {
        let (text, page) = (read(path), path.display());
        let folder = path.parent().expect("a page lies in a folder");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            if file.contains("://") {
                continue;
            }
            let target = if file.is_empty() { path.clone() } else { folder.join(file) };
            assert!(target.exists(), "{page}: {link} leads nowhere");
            let is_page = target.extension().is_some_and(|kind| kind == "md");
            if is_page && !anchor.is_empty() {
                let known = anchors(&read(&target));
                assert!(known.iter().any(|one| one == anchor), "{page}: {link}: no such heading");
            }
            links += 1;
        }
    }
    assert!(links > 50, "{links}");
}

#[test]
fn every_page_is_in_the_book() {
    let summary = read(&root().join("docs/SUMMARY.md"));
    for entry in fs::read_dir(root().join("docs")).expect("docs is a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.extension().is_some_and(|kind| kind == "md") && name != "SUMMARY.md" {
            assert!(summary.contains(&format!("({name})")), "docs/SUMMARY.md does not list {name}");
        }
    }
    for link in summary.split("](").skip(1) {
        let name = link.split(')').next().unwrap_or_default();
        assert!(root().join("docs").join(name).is_file(), "docs/SUMMARY.md: {name} is not there");
    }
}
