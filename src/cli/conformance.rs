//! `servecast conformance`: recorded schedules and decisions, replayed.

use std::fmt::Write;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::args::ConformanceArguments;
use super::failure::Failure;
use super::terminal::{print, print_text};
use crate::conformance::routing::{self, Tally};
use crate::conformance::{Recording, Verdict, check};
use crate::io::text;
use crate::load;
use crate::plain::table;

pub(super) fn conformance(arguments: &ConformanceArguments) -> Result<(), Failure> {
    let mut paths = Vec::new();
    recordings(&arguments.folder, &mut paths).map_err(Failure::Input)?;
    paths.sort();
    if paths.is_empty() {
        let folder = arguments.folder.display();
        return Err(Failure::input(format!("{folder}: no recording (*.jsonl, *.jsonl.gz) in it")));
    }
    let (mut exact, mut unreadable) = (0, 0);
    let mut tallies: Vec<Tally> = Vec::new();
    for path in &paths {
        let name = path.strip_prefix(&arguments.folder).unwrap_or(path).display();
        let line = match read(path).and_then(|text| replay(&text)) {
            Ok(Replayed::Schedule(Verdict::Exact { steps })) => {
                exact += 1;
                format!("{name}: exact, {steps} steps\n")
            }
            Ok(Replayed::Schedule(Verdict::Differs { place, fields, recorded, replayed })) => {
                format!(
                    "{name}: {place} differs in {}\n  recorded {recorded}\n  replayed {replayed}\n",
                    fields.join(", ")
                )
            }
            Ok(Replayed::Decisions(tally)) => {
                exact += usize::from(tally.wrong == 0);
                let line = format!("{name}: {}", decisions(&tally));
                tallies.push(tally);
                line
            }
            Err(error) => {
                unreadable += 1;
                format!("{name}: {}\n", load::plain(&format!("{error:#}")))
            }
        };
        print_text(&line)?;
    }
    if !tallies.is_empty() {
        print_text(&by_policy(tallies))?;
    }
    print(&format!("{exact} scenarios exact of {}\n", paths.len()))?;
    if unreadable > 0 {
        let recordings = if unreadable == 1 { "recording" } else { "recordings" };
        return Err(Failure::input(format!("{unreadable} {recordings} cannot be replayed")));
    }
    if exact < paths.len() {
        let differing = paths.len() - exact;
        return Err(Failure::Run(anyhow::anyhow!("{differing} scenarios differ")));
    }
    Ok(())
}

/// What a replay says.
enum Replayed {
    Schedule(Verdict),
    Decisions(Tally),
}

fn replay(text: &str) -> anyhow::Result<Replayed> {
    if routing::is_recorded(text) {
        return Ok(Replayed::Decisions(routing::check(text)?));
    }
    Ok(Replayed::Schedule(check(&Recording::parse(text)?)?))
}

/// The decisions of a recording, and the first that is wrong.
fn decisions(tally: &Tally) -> String {
    let Tally { exact, drawn, checks, wrong, first, .. } = tally;
    let mut line = format!("{exact} exact, {drawn} drawn, {checks} read-outs, {wrong} wrong\n");
    if let Some(first) = first {
        let (recorded, replayed) = (&first.recorded, &first.replayed);
        let _ = write!(line, "  {}\n  recorded {recorded}\n  replayed {replayed}\n", first.place);
    }
    line
}

/// A table of the decisions of each policy.
fn by_policy(mut tallies: Vec<Tally>) -> String {
    tallies.sort_by(|a, b| a.policy.cmp(&b.policy));
    let heads = ["policy", "recordings", "exact", "drawn", "read-outs", "wrong"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    for of_policy in tallies.chunk_by(|a, b| a.policy == b.policy) {
        let sum = |of: fn(&Tally) -> usize| of_policy.iter().map(of).sum::<usize>().to_string();
        rows.push(vec![
            of_policy[0].policy.clone(),
            of_policy.len().to_string(),
            sum(|tally| tally.exact),
            sum(|tally| tally.drawn),
            sum(|tally| tally.checks),
            sum(|tally| tally.wrong),
        ]);
    }
    format!("\n{}\n", table(&rows, &[]))
}

fn recordings(folder: &Path, found: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    for entry in entries {
        let path = entry.with_context(|| folder.display().to_string())?.path();
        let name = path.to_string_lossy();
        if path.is_dir() {
            recordings(&path, found)?;
        } else if name.ends_with(".jsonl") || name.ends_with(".jsonl.gz") {
            found.push(path);
        }
    }
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<String> {
    let mut bytes = text::bytes(fs::File::open(path)?, text::RESULTS_MIB_MAX)?;
    let is_named_so = path.extension().is_some_and(|extension| extension == "gz");
    let is_gzip = bytes.starts_with(&[0x1f, 0x8b]);
    if is_gzip && !is_named_so {
        anyhow::bail!("line 1: compressed with gzip, but not named `.gz`");
    }
    if is_named_so && !bytes.is_empty() {
        let mut plain = Vec::new();
        let unpacked = flate2::read::MultiGzDecoder::new(bytes.as_slice());
        let most = (text::RESULTS_MIB_MAX as u64) << 20;
        let read = unpacked.take(most + 1).read_to_end(&mut plain);
        let problem = if is_gzip { "damaged or cut off" } else { "not compressed" };
        read.with_context(|| format!("line {}: gzip: {problem}", line_after(&plain)))?;
        if plain.len() as u64 > most {
            anyhow::bail!("is longer than {} MiB", text::RESULTS_MIB_MAX);
        }
        bytes = plain;
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        anyhow::anyhow!("line {}: not UTF-8", line_after(valid))
    })
}

/// The line on which these bytes end, counted from 1.
fn line_after(bytes: &[u8]) -> usize {
    bytes.split(|&byte| byte == b'\n').count()
}
