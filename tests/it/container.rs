//! The container is built from files that are there: no Docker is needed to know that.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn lines(name: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    text.lines().map(str::to_owned).collect()
}

/// What `.dockerignore` lets in.
fn let_in() -> Vec<PathBuf> {
    let lines = lines(".dockerignore");
    assert!(lines.contains(&"*".to_owned()), "everything else is left out");
    lines.iter().filter_map(|line| line.strip_prefix('!')).map(PathBuf::from).collect()
}

/// Copies a file, or a folder with all that is in it.
fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        fs::create_dir_all(to).expect("a scratch folder");
        for entry in fs::read_dir(from).expect("a folder of the project") {
            let name = entry.expect("an entry").file_name();
            copy(&from.join(&name), &to.join(&name));
        }
    } else {
        fs::create_dir_all(to.parent().expect("a file lies in a folder"))
            .expect("a scratch folder");
        fs::copy(from, to).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
    }
}

#[test]
fn cargo_reads_the_package_from_what_the_container_gets() {
    let context = tempfile::tempdir().expect("a scratch folder");
    for path in let_in() {
        copy(&root().join(&path), &context.path().join(&path));
    }
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--locked", "--no-deps", "--format-version", "1"]);
    let read = cargo.current_dir(context.path()).output().expect("cargo runs");
    let said = String::from_utf8_lossy(&read.stderr);
    assert!(read.status.success(), "{said}");
    let read: serde_json::Value = serde_json::from_slice(&read.stdout).expect("cargo writes JSON");
    // Each file that is compiled in lies in a folder that is copied whole.
    let mut sources = Vec::new();
    rust_files(&context.path().join("src"), &mut sources);
    let text: String = sources.iter().map(|path| fs::read_to_string(path).expect("text")).collect();
    let above = text.split("include_str!").skip(1).filter_map(|rest| rest.split('"').nth(1));
    let folders: Vec<&str> = above
        .filter_map(|path| path.trim_start_matches("../").split_once('/'))
        .map(|(folder, _)| folder)
        .collect();
    assert!(folders.contains(&"profiles") && folders.contains(&"scenarios"), "{folders:?}");
    for folder in folders {
        assert!(context.path().join(folder).is_dir(), "{folder} is compiled in and not let in");
    }
    let mut packages = read["packages"].as_array().into_iter().flatten();
    let package = packages.find(|package| package["name"] == "servecast").expect("it is read");
    let targets = package["targets"].as_array().map_or(0, Vec::len);
    assert!(targets > 10, "{targets}");
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn the_container_is_built_by_the_rust_that_the_package_asks_for() {
    let manifest = lines("Cargo.toml");
    let asked = manifest.iter().find_map(|line| line.strip_prefix("rust-version = \""));
    let asked = asked.expect("the package names its Rust").trim_end_matches('"');
    let file = lines("Dockerfile");
    let images: Vec<&str> = file.iter().filter_map(|line| line.strip_prefix("FROM ")).collect();
    assert_eq!(images.len(), 2, "{images:?}");
    assert!(images[0].starts_with(&format!("rust:{asked}-")), "{images:?}");
    // Debian 12 is bookworm.
    assert!(images[0].contains("bookworm") && images[1].contains("debian12"), "{images:?}");
    let entry = lines("Dockerfile").into_iter().find(|line| line.starts_with("ENTRYPOINT"));
    let copied = "COPY --from=build /servecast /usr/local/bin/servecast";
    assert!(file.iter().any(|line| line == copied));
    assert_eq!(entry.as_deref(), Some("ENTRYPOINT [\"/usr/local/bin/servecast\"]"));
}

#[test]
fn what_the_container_copies_is_there() {
    let let_in = let_in();
    let mut copied = 0;
    for line in lines("Dockerfile").iter().filter_map(|line| line.strip_prefix("COPY ")) {
        if line.starts_with("--from") {
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        for source in &words[..words.len() - 1] {
            assert!(root().join(source).exists(), "COPY {source}: it is not there");
            assert!(*source == "." || let_in.iter().any(|path| path == Path::new(source)));
            copied += 1;
        }
    }
    assert!(copied >= 3, "{copied}");
    for path in let_in {
        assert!(root().join(&path).exists(), ".dockerignore: {} is not there", path.display());
    }
}
