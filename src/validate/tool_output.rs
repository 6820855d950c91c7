//! What a benchmark tool printed or wrote, as runs of a known server.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use super::arrivals;
use super::case::{Case, Limits};
use crate::io::text;
use crate::load::{Cases, Changes, Draft, Drafts, Listener, LoadError, Note, fail};
use crate::metrics;
use crate::metrics::bench::{self, Figure, Measured, MetricKey};
use crate::profiles;
use crate::request::Request;

/// More requests of one run are not simulated.
const MOST_REQUESTS: i64 = 10_000_000;

/// One run for every result of the file, on the server and workload of a scenario; what the tool
/// tells of its load (requests, rate, concurrency) overrides the scenario's.
pub(crate) fn drafts(
    server: &Path,
    path: &Path,
    changes: &Changes,
    listener: &Listener,
) -> Result<Drafts, LoadError> {
    let place = path.display().to_string();
    let text = text::whole(path, text::RESULTS_MIB_MAX).map_err(|error| fail(&place, error))?;
    let found = bench::read(&text);
    if let Some(problem) = found.problems.first() {
        return Err(fail(&format!("{place}:line {}", problem.line), &problem.problem));
    }
    if found.measured.is_empty() {
        return Err(fail(&place, "holds no benchmark block, result table or result JSON"));
    }
    let Drafts { each, fit, .. } = changes.load(Some(server))?;
    let [server] = each.as_slice() else {
        let server = server.display().to_string();
        return Err(fail(&server, "variants: must be absent with --server"));
    };
    let drafts = found.measured.iter().map(|measured| draft(server, measured, path, listener));
    Ok(Drafts { each: drafts.collect::<Result<_, _>>()?, fit, calibration: None, sweep: None })
}

/// What benchmark tools printed or wrote of a server, beside what is simulated of it.
///
/// # Errors
/// When a file cannot be read or holds no result, or the scenario of the server breaks a rule.
pub fn results(
    server: &Path,
    files: &[PathBuf],
    changes: &Changes,
    listener: &Listener,
) -> Result<Vec<Case>, LoadError> {
    // A trace that several results replay is read once.
    let read = Cases::told(listener);
    let mut cases = Vec::new();
    for file in files {
        for draft in drafts(server, file, changes, listener)?.each {
            cases.push(case(&draft, server, &read)?);
        }
    }
    Ok(cases)
}

fn case(draft: &Draft, server: &Path, read: &Cases) -> Result<Case, LoadError> {
    let run = read.of_draft(draft)?;
    let scenario = &run.scenario;
    let place = |error: &dyn Display| fail(&scenario.name, error);
    // Requests of a trace are drawn here; conversations go on as their answers come.
    let requests = if run.rows().is_some() {
        let workload = run.workload().map_err(|error| place(&error))?;
        if workload.has_follow_ups() {
            return Err(place(&"conversations of a trace are not compared with results"));
        }
        let requests = workload.collect::<Result<Vec<Request>, _>>();
        Some(requests.map_err(|error| place(&error))?)
    } else {
        None
    };
    Ok(Case {
        id: scenario.name.clone(),
        family: server.display().to_string(),
        measured: metrics::measured(scenario).map(|(_, figures)| figures).unwrap_or_default(),
        requests,
        limits: Limits::default(),
        assumed: Vec::new(),
        scenario: run.scenario,
    })
}

fn draft(
    server: &Draft,
    measured: &Measured,
    path: &Path,
    listener: &Listener,
) -> Result<Draft, LoadError> {
    let mut draft = server.clone();
    let name = format!("{}:{}", path.display(), measured.line);
    let wrong = |problem: String| fail(&name, problem);
    let impossible =
        measured.named_metrics().find(|(_, value)| !(*value >= 0.0 && value.is_finite()));
    if let Some((metric, value)) = impossible {
        return Err(wrong(format!("{metric}: must be a finite number of at least 0, got {value}")));
    }
    if let Some([told, own]) = other_model(measured, server) {
        let text = format!("{name}: names the model `{told}`, and the server has `{own}`");
        listener.tell(&Note::Warning(text));
    }
    draft.rename(&name)?;
    let completed = count(measured, Figure::Completed);
    match completed {
        None => {}
        Some(requests @ 1..=MOST_REQUESTS) => draft.put("workload.num_requests", requests)?,
        Some(0) => return Err(wrong("no request succeeded".to_owned())),
        Some(other) => {
            return Err(wrong(format!("{other} requests: must be 1 to {MOST_REQUESTS}")));
        }
    }
    if let Some(failed) = count(measured, Figure::Failed).filter(|failed| *failed > 0) {
        let text = format!("{name}: {failed} requests failed: only those that succeeded are sent");
        listener.tell(&Note::Remark(text));
    }
    if let Some((_, text)) = measured.facts.iter().find(|(key, _)| key == "max_concurrency") {
        return Err(wrong(format!("max_concurrency: must be a whole number from 1, got {text}")));
    }
    if let Some(most) = measured.max_concurrency {
        draft.put("workload.client.max_concurrency", i64::try_from(most).unwrap_or(i64::MAX))?;
    } else if measured.is_unlimited {
        draft.clear(&["workload", "client", "max_concurrency"]);
    }
    let own = arrivals::of(server)?;
    if let Some(told) = arrivals::told(measured, &own, completed.unwrap_or(0)).map_err(wrong)? {
        draft.put("workload.arrivals", told)?;
    }
    draft.put("measured", table(measured, path))?;
    Ok(draft)
}

/// The models that a result and the server name, if both are of the catalogue or called otherwise: folders, owners and
/// what is said of formats behind the name may differ. Nothing is said of models of the user's own.
fn other_model<'a>(measured: &'a Measured, server: &'a Draft) -> Option<[&'a str; 2]> {
    let name = |path: &str| {
        let last = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        last.to_lowercase().replace(['_', ' '], "-")
    };
    let (_, told) = measured.facts.iter().find(|(key, _)| key == "model_id")?;
    let own = server.get(&["cluster", "model"])?.as_str()?;
    let known = profiles::model(own)?;
    let is_same = name(told).starts_with(&name(own))
        || profiles::model(told).is_some_and(|model| model.name == known.name);
    (!is_same).then_some([told, own])
}

fn count(measured: &Measured, figure: Figure) -> Option<i64> {
    measured.get(MetricKey::Figure(figure)).map(|count| count as i64)
}

fn table(measured: &Measured, path: &Path) -> toml::Table {
    let metrics = measured.named_metrics();
    let metrics: toml::Table = metrics.map(|(name, value)| (name, value.into())).collect();
    let mut table = toml::Table::new();
    table.insert("source".to_owned(), format!("{}:{}", path.display(), measured.line).into());
    table.insert("metrics".to_owned(), metrics.into());
    table
}
