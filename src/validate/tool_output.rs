//! What a benchmark tool printed or wrote, as runs of a known server.

use std::path::Path;

use super::arrivals;
use crate::io::text;
use crate::load::{Changes, Draft, Drafts, Listener, LoadError, Note, Override, fail};
use crate::metrics::bench::{self, Figure, Measured, MetricKey};

/// More requests of one run are not simulated.
const MOST_REQUESTS: i64 = 10_000_000;

/// One run for every result of the file, on the server and workload of a scenario; what the tool
/// tells of its load (requests, rate, concurrency) overrides the scenario's.
pub(super) fn drafts(
    server: &Path,
    path: &Path,
    overrides: &[Override],
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
    let Drafts { each, fit, .. } = Changes::set(overrides).load(Some(server))?;
    let [server] = each.as_slice() else {
        let server = server.display().to_string();
        return Err(fail(&server, "variants: must be absent with --server"));
    };
    let drafts = found.measured.iter().map(|measured| draft(server, measured, path, listener));
    Ok(Drafts { each: drafts.collect::<Result<_, _>>()?, fit, calibration: None, sweep: None })
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
    draft.put("name", name.clone())?;
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
