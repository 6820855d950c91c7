//! Every command that the documents show runs, in a folder as its reader has it.

use std::fs;
use std::path::{Path, PathBuf};

use super::Cli;

/// Commands that are not run here, and why.
const ELSEWHERE: [(&str, &str); 8] = [
    ("servecast sweep scenarios/rate-sweep.toml --seeds 100 --ray", "is of the Python package"),
    ("servecast compare scenarios/routing.toml", "minutes without optimisation: cli::compare"),
    ("servecast compare scenarios/which-router", "minutes without optimisation: cli::which_router"),
    ("servecast sweep scenarios/which-router", "minutes without optimisation: cli::which_router"),
    ("servecast profile probe", "needs a server: cli::probe has one"),
    ("servecast serve", "serves until it is told to end: serve"),
    ("servecast validate", "minutes without optimisation: cli::validate and cli::goals"),
    ("servecast calibrate", "minutes without optimisation: cli::calibrate"),
];

/// Ten requests that any engine serves, with a variant.
const SMALL: &str = "name = 'small'\n[workload]\nnum_requests = 10\n\
    arrivals = { type = 'poisson', rate_per_s = 2.0 }\n\
    lengths = { type = 'fixed', input_tokens = 64, output_tokens = 8 }\n\
    [cluster]\nmodel = 'Qwen/Qwen3-8B'\ngpu = 'H100'\n";

/// Calls of four functions in an hour.
const CALLS: &str = "app,func,end_timestamp,duration\n\
    a,f,0.5,0.1\na,f,3599.0,0.1\na,g,7.0,2.5\nb,f,60.0,0.3\nb,h,90.0,0.2\n";

/// A small dense model.
const MODEL: &str = r#"{
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": true,
    "torch_dtype": "bfloat16"
}"#;

pub(super) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The pages for users.
fn pages() -> Vec<PathBuf> {
    let docs = fs::read_dir(root().join("docs")).expect("docs is a folder");
    let docs = docs.map(|entry| entry.expect("an entry").path());
    let mut pages: Vec<PathBuf> =
        docs.filter(|path| path.extension().is_some_and(|e| e == "md")).collect();
    pages.sort();
    pages.insert(0, root().join("README.md"));
    pages
}

/// The commands of the shell blocks of a page, lines that go on joined.
pub(super) fn commands(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(page).expect("a page is text");
    let mut found = Vec::new();
    for block in text.split("```sh\n").skip(1) {
        let block = block.split("```").next().unwrap_or_default().replace("\\\n", " ");
        let lines = block.lines().map(|line| line.split(" #").next().unwrap_or_default().trim());
        found.extend(lines.filter(|line| line.starts_with("servecast")).map(str::to_owned));
    }
    found
}

/// The first scenario that a page shows, which its commands call `my.toml`.
fn mine(page: &Path) -> Option<String> {
    let text = fs::read_to_string(page).expect("a page is text");
    let (_, rest) = text.split_once("```toml\n")?;
    let (mine, _) = rest.split_once("```").expect("the block ends");
    Some(mine.to_owned())
}

/// The words of a command; quotes hold a word together.
pub(super) fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (place, part) in command.split('\'').enumerate() {
        if place % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

#[test]
fn every_command_of_the_documents_runs() {
    let mut ran = 0;
    for page in pages() {
        let cli = Cli::new()
            .file("now.toml", SMALL)
            .file("then.toml", SMALL.replace("'small'", "'smaller'").replace("H100", "A100"))
            .file("my-checks/small.toml", SMALL)
            .file("prices.toml", "H100 = 2.4\nA100 = 1.3\n")
            .file("functions.txt", CALLS)
            .file("my-gpu.toml", include_str!("../../../examples/my-gpu.toml"))
            .file("my-model/config.json", MODEL)
            .file("found.toml", include_str!("../../../docs/tutorial/found.toml"));
        let cli = match mine(&page) {
            Some(mine) => cli.file("my.toml", mine),
            None => cli,
        };
        for folder in ["scenarios", "docs", "profiles", "traces"] {
            std::os::unix::fs::symlink(root().join(folder), cli.path(folder)).expect("a link");
        }
        for command in commands(&page) {
            if ELSEWHERE.iter().any(|(start, _)| command.starts_with(start)) {
                continue;
            }
            let words = words(&command);
            let done = cli.run(words[1..].iter().map(String::as_str));
            let (stderr, ok) = (done.stderr(), done.succeeded());
            assert!(ok, "{}: {command}\n{stderr}", page.display());
            ran += 1;
        }
    }
    assert!(ran > 10, "only {ran} commands were found");
}

#[test]
fn what_is_run_elsewhere_is_in_the_documents() {
    let all: Vec<String> = pages().iter().flat_map(|page| commands(page)).collect();
    for (start, why) in ELSEWHERE {
        assert!(all.iter().any(|command| command.starts_with(start)), "{start}: {why}");
    }
}
