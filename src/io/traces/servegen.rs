//! `ServeGen`: requests drawn from the recorded statistics of clients (Xiang et al., `ServeGen`,
//! alibaba/ServeGen, Apache-2.0; the rule follows `servegen/construct.py`).
//!
//! A folder holds for each client `chunk-<i>-trace.csv`, without header
//! `start_s,rate_per_s,cv,pattern,shape,scale` for every window of 600 s, and
//! `chunk-<i>-dataset.json`, for every 21,600 s histograms `{tokens: probability}` of
//! `input_tokens` and `output_tokens`. A client sends rate × 600 requests in a window; their gaps
//! are Gamma or Weibull variates of the window's shape and scale, stretched so that they fill the
//! window; lengths come from the latest histogram at or before the window's start.
//!
//! Three things differ from `construct.py`. It draws as many gaps as requests, so that the last
//! request falls on the window's end and is dropped; here there is one gap more, and the recorded
//! number of requests arrives. The streams are this project's: one a client and window. And it uses
//! one random number for both lengths, which ties long prompts to long answers; that is
//! [`LengthPairing::Shared`], the default, and [`LengthPairing::Independent`] is there to compare.
//!
//! Left out: the share of reasoning tokens, and image, audio and video tokens (refused). Memory
//! holds the statistics of all clients and the requests of one window.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::vec;

use rand::Rng;
use rand::RngExt;
use rand_distr::Distribution;
use rand_distr::Gamma;
use rand_distr::Weibull;
use serde::{Deserialize, Serialize};

use crate::io::text;
use crate::rng::Seed;

use super::error::TraceError;
use super::field;
use super::format::TimeUnit;
use super::layout::Zero;
use super::reader::RawRow;
use super::reader::Source;
use super::reader::TraceOptions;

const WINDOW_S: u64 = 600;
const NANOS_PER_S: u64 = 1_000_000_000;

/// How a request's two lengths go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LengthPairing {
    /// One random number for both, as `ServeGen` does: the longest prompt has the longest answer.
    #[default]
    Shared,
    /// A random number each.
    Independent,
}

/// The requests of a folder, window by window.
pub(super) struct ServeGenRows {
    clients: Vec<Client>,
    /// Starts of windows still to come, in seconds, with the clients and rates they hold.
    windows: vec::IntoIter<(u64, Vec<(usize, Window)>)>,
    requests: vec::IntoIter<RawRow>,
    seed: Seed,
    pairing: LengthPairing,
    drawn: u64,
}

/// One client's lengths: by start of validity in seconds, prompt and answer.
struct Client {
    number: u64,
    lengths: BTreeMap<u64, (Histogram, Histogram)>,
}

/// One client's arrivals in one window.
#[derive(Clone, Copy)]
struct Window {
    requests: usize,
    gaps: Gaps,
}

#[derive(Clone, Copy)]
enum Gaps {
    Gamma(Gamma<f64>),
    Weibull(Weibull<f64>),
}

impl ServeGenRows {
    pub(super) fn open(folder: &Path, options: &TraceOptions) -> Result<Self, TraceError> {
        let numbers = client_numbers(folder)?;
        let mut clients = Vec::with_capacity(numbers.len());
        let mut windows: BTreeMap<u64, Vec<(usize, Window)>> = BTreeMap::new();
        for (index, number) in numbers.into_iter().enumerate() {
            let lengths = read_lengths(&folder.join(format!("chunk-{number}-dataset.json")))?;
            let trace = folder.join(format!("chunk-{number}-trace.csv"));
            let client_windows = read_windows(&trace)?;
            if lengths.is_empty() && !client_windows.is_empty() {
                let problem = "a client that sends requests must have a histogram of lengths";
                return Err(TraceError::unusable(&trace, problem));
            }
            clients.push(Client { number, lengths });
            for (start_s, window) in client_windows {
                windows.entry(start_s).or_default().push((index, window));
            }
        }
        Ok(Self {
            clients,
            windows: windows.into_iter().collect::<Vec<_>>().into_iter(),
            requests: Vec::new().into_iter(),
            seed: options.seed,
            pairing: options.pairing,
            drawn: 0,
        })
    }

    /// Draws the requests of one window, all clients merged in order of time.
    fn draw(&self, start_s: u64, active: &[(usize, Window)]) -> Vec<RawRow> {
        let mut rows = Vec::with_capacity(active.iter().map(|(_, w)| w.requests).sum());
        for (index, window) in active {
            let client = &self.clients[*index];
            // A stream of its own for each client and window: no draw depends on another client.
            let mut rng = self.seed.stream("servegen", client.number << 32 | start_s);
            let stamps = window.stamps(start_s, &mut rng);
            let (prompt, output) = client.lengths_at(start_s);
            for stamp in stamps {
                let u: f64 = rng.random();
                let v = match self.pairing {
                    LengthPairing::Shared => u,
                    LengthPairing::Independent => rng.random(),
                };
                rows.push(RawRow {
                    stamp: Some(stamp),
                    prompt_tokens: prompt.quantile(u),
                    output_tokens: output.quantile(v),
                    ..RawRow::default()
                });
            }
        }
        rows.sort_by_key(|row| row.stamp);
        rows
    }
}

impl Source for ServeGenRows {
    fn next_row(&mut self) -> Result<Option<RawRow>, TraceError> {
        loop {
            if let Some(mut row) = self.requests.next() {
                self.drawn += 1;
                row.line = self.drawn;
                return Ok(Some(row));
            }
            let Some((start_s, active)) = self.windows.next() else { return Ok(None) };
            self.requests = self.draw(start_s, &active).into_iter();
        }
    }

    fn terms(&self) -> (Option<TimeUnit>, Zero) {
        (Some(TimeUnit::Seconds), Zero::Skipped)
    }
}

impl Client {
    /// The histograms that hold at `start_s`: the latest that have begun, else the first.
    fn lengths_at(&self, start_s: u64) -> &(Histogram, Histogram) {
        let begun = self.lengths.range(..=start_s).next_back();
        let (_, lengths) = begun.or_else(|| self.lengths.first_key_value()).expect("not empty");
        lengths
    }
}

impl Window {
    /// Arrivals in nanoseconds: `requests + 1` gaps, stretched to fill the window.
    fn stamps(&self, start_s: u64, rng: &mut impl Rng) -> Vec<i64> {
        let mut sum = 0.0;
        let mut ends: Vec<f64> = (0..=self.requests)
            .map(|_| {
                sum += match &self.gaps {
                    Gaps::Gamma(gamma) => gamma.sample(rng),
                    Gaps::Weibull(weibull) => weibull.sample(rng),
                };
                sum
            })
            .collect();
        ends.pop();
        let (start, span) =
            ((start_s * NANOS_PER_S).cast_signed(), (WINDOW_S * NANOS_PER_S) as f64);
        // Gaps of a very small shape may all underflow to nothing: then all come at the start.
        let stretch = if sum > 0.0 { span / sum } else { 0.0 };
        ends.into_iter().map(|end| start + (end * stretch) as i64).collect()
    }
}

/// Token counts ascending, each with the probability of it and all below, which end at 1.
struct Histogram(Vec<(u32, f64)>);

impl Histogram {
    fn quantile(&self, u: f64) -> u32 {
        let at = self.0.partition_point(|(_, up_to)| *up_to <= u);
        self.0[at.min(self.0.len() - 1)].0
    }

    /// Parses `{tokens: probability, …}` as Python prints a dictionary.
    /// `None` for an empty one: the client sent nothing in that time.
    fn parse(field: &str, text: &str) -> Result<Option<Self>, String> {
        let inner = text.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        let inner = inner.ok_or_else(|| format!("`{field}` must be {{tokens: probability, …}}"))?;
        if inner.trim().is_empty() {
            return Ok(None);
        }
        let mut entries = Vec::new();
        for entry in inner.split(',').filter(|entry| !entry.trim().is_empty()) {
            let parsed = entry.split_once(':').and_then(|(tokens, share)| {
                let tokens = field::tokens(field, tokens.as_bytes()).ok()?;
                let share: f64 = share.trim().parse().ok()?;
                (share.is_finite() && share >= 0.0).then_some((tokens, share))
            });
            entries.push(parsed.ok_or_else(|| {
                format!("`{field}` must be {{tokens: probability, …}}, got `{}`", entry.trim())
            })?);
        }
        entries.sort_by_key(|(tokens, _)| *tokens);
        let total: f64 = entries.iter().map(|(_, share)| share).sum();
        if total <= 0.0 {
            return Err(format!("`{field}` must have a probability above 0"));
        }
        let mut below = 0.0;
        for (_, share) in &mut entries {
            below += *share;
            *share = below / total;
        }
        Ok(Some(Self(entries)))
    }
}

/// The clients that have both files, by number.
fn client_numbers(folder: &Path) -> Result<Vec<u64>, TraceError> {
    let unreadable = |error: io::Error| TraceError::unreadable(folder, error);
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name();
        let number: Option<u64> = name
            .to_str()
            .and_then(|name| name.strip_prefix("chunk-")?.strip_suffix("-trace.csv")?.parse().ok());
        numbers.extend(number);
    }
    numbers.sort_unstable();
    if numbers.is_empty() {
        return Err(TraceError::unusable(
            folder,
            "a folder must be a servegen trace and hold chunk-<i>-trace.csv and \
             chunk-<i>-dataset.json, found none; name a file for any other format",
        ));
    }
    Ok(numbers)
}

fn read_windows(path: &Path) -> Result<Vec<(u64, Window)>, TraceError> {
    let text = text::whole(path, text::RESULTS_MIB_MAX)
        .map_err(|error| TraceError::unreadable(path, error))?;
    let mut windows = Vec::new();
    for (line, row) in (1..).zip(text.lines()).filter(|(_, row)| !row.trim().is_empty()) {
        let window = parse_window(row).map_err(|problem| TraceError::row(path, line, problem))?;
        windows.extend(window);
    }
    Ok(windows)
}

/// A window, or `None` for one without requests.
fn parse_window(row: &str) -> Result<Option<(u64, Window)>, String> {
    let fields: Vec<&str> = row.split(',').map(str::trim).collect();
    let [start, rate, _cv, pattern, shape, scale] = fields[..] else {
        return Err(format!(
            "a window must be start_s,rate_per_s,cv,pattern,shape,scale, got {} fields",
            fields.len()
        ));
    };
    let start_s: u64 =
        start.parse().ok().filter(|start| *start < u64::from(u32::MAX)).ok_or_else(|| {
            format!("a window's start must be a whole number of seconds, got `{start}`")
        })?;
    let rate: f64 =
        rate.parse().ok().filter(|rate| (0.0..1e6).contains(rate)).ok_or_else(|| {
            format!("a window's rate must be 0 to a million requests per second, got `{rate}`")
        })?;
    if pattern.is_empty() && rate == 0.0 {
        return Ok(None);
    }
    let parameters = shape.parse().ok().zip(scale.parse().ok());
    let gaps = parameters.and_then(|(shape, scale): (f64, f64)| match pattern {
        "Gamma" => Gamma::new(shape, scale).ok().map(Gaps::Gamma),
        "Weibull" => Weibull::new(scale, shape).ok().map(Gaps::Weibull),
        _ => None,
    });
    let gaps = gaps.ok_or_else(|| {
        format!(
            "gaps must be Gamma or Weibull with a positive shape and scale, got \
             `{pattern},{shape},{scale}`"
        )
    })?;
    // Rates are counts over 600: a hair above a whole number is that number.
    let requests = (rate * WINDOW_S as f64 - 1e-6).ceil().max(0.0) as usize;
    Ok((requests > 0).then_some((start_s, Window { requests, gaps })))
}

fn read_lengths(path: &Path) -> Result<BTreeMap<u64, (Histogram, Histogram)>, TraceError> {
    let text = text::whole(path, text::RESULTS_MIB_MAX)
        .map_err(|error| TraceError::unreadable(path, error))?;
    let windows: BTreeMap<String, BTreeMap<String, String>> = serde_json::from_str(&text)
        .map_err(|error| TraceError::row(path, error.line() as u64, error.to_string()))?;
    let mut lengths = BTreeMap::new();
    for (start, fields) in windows {
        let problem =
            |problem: String| TraceError::unusable(path, format!("window `{start}`: {problem}"));
        let start_s = start.parse().map_err(|_| {
            problem("a window must be named by its start in whole seconds".to_owned())
        })?;
        let histogram = |name: &str| {
            let text = fields.get(name).ok_or_else(|| {
                let found: Vec<_> = fields.keys().map(String::as_str).collect();
                format!("`{name}` is missing, found {}; only text is modelled", found.join(", "))
            })?;
            Histogram::parse(name, text)
        };
        let prompt = histogram("input_tokens").map_err(problem)?;
        let output = histogram("output_tokens").map_err(problem)?;
        lengths.extend(prompt.zip(output).map(|pair| (start_s, pair)));
    }
    Ok(lengths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_gives_each_count_its_share() {
        let histogram = Histogram::parse("n", "{30: 0.5, 10: 0.25, 20: 0.25}").unwrap().unwrap();
        // shares up to and including: 10 → 0.25, 20 → 0.5, 30 → 1
        let drawn = [0.0, 0.24, 0.25, 0.49, 0.5, 0.999].map(|u| histogram.quantile(u));
        assert_eq!(drawn, [10, 10, 20, 20, 30, 30]);
    }

    #[test]
    fn a_window_holds_its_count_of_requests_in_order() {
        // 0.1 requests per second for 600 s are 60
        let (start_s, window) = parse_window("1200,0.1,1.2,Gamma,0.7,14.0").unwrap().unwrap();
        let stamps = window.stamps(start_s, &mut Seed(3).stream("test", 0));
        assert_eq!(stamps.len(), 60);
        assert!(stamps.is_sorted());
        let second = NANOS_PER_S.cast_signed();
        assert!(stamps.iter().all(|stamp| (1200 * second..1800 * second).contains(stamp)));
    }

    #[test]
    fn a_window_without_requests_has_no_gaps() {
        assert!(parse_window("0,0,0,,0,0").unwrap().is_none());
        for wrong in ["0,0.1,1,Pareto,1,1", "0,0.1,1,Gamma,-1,1", "0,NaN,1,Gamma,1,1", "0,1"] {
            assert!(parse_window(wrong).is_err(), "{wrong}");
        }
    }
}
