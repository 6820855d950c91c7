//! SLOs of a whole run.
//!
//! A request that is not answered meets no SLO: it counts as one whose latencies are infinite.

use std::fmt;

use crate::ids::ClassId;
use crate::metrics::bench::{BenchSummary, Latency, MetricKey, Slos, Statistic, Tool};
use crate::metrics::{RequestRecord, Status};
use crate::plain::{rounded, shown};
use crate::units::SimDuration;

/// The figure and its bound.
#[derive(Debug, Clone, PartialEq)]
pub enum Objective {
    /// A mean or percentile of a latency is at most the limit, in ms.
    Latency(Latency, Statistic),
    /// At least this share of the requests keeps these latencies, in ms each.
    Attainment(Slos),
}

/// An SLO, to all requests or to a class.
#[derive(Debug, Clone, PartialEq)]
pub struct Slo {
    /// The figure and its bound.
    pub objective: Objective,
    /// The limit, in ms; of a share from 0 to 1.
    pub limit: f64,
    /// To whom, with the name of the class; all requests if absent.
    pub class: Option<(ClassId, String)>,
}

/// What is wrong with an SLO.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SloProblem {
    /// Neither `<=` nor `>=`.
    #[error("`{0}` has no `<=` or `>=`; write for example p99_ttft_ms<=2000 or attainment>=0.95")]
    NoRelation(String),
    /// An unknown figure.
    #[error(
        "`{0}` is no latency; write mean_, median_ or a percentile such as p99_ before ttft_ms, tpot_ms, \
         itl_ms or e2el_ms, or attainment"
    )]
    Figure(String),
    /// A latency above or a share below.
    #[error("`{0}`: the bound of a latency is given with `<=`, that of attainment with `>=`")]
    Direction(String),
    /// No usable limit.
    #[error("`{figure}`: the limit must be {rule}, got `{given}`")]
    Limit {
        /// Of what.
        figure: String,
        /// What it must be.
        rule: &'static str,
        /// What was given.
        given: String,
    },
    /// An unknown class.
    #[error("`{0}` is no class of the workload")]
    Class(String),
    /// Gaps are not kept by class.
    #[error("`{0}`: gaps between tokens are not kept by class; give tpot_ms")]
    GapsOfClass(String),
    /// No latencies to attain.
    #[error("attainment needs the limits of each request: `report.goodput`")]
    NothingToAttain,
}

impl Slo {
    /// Reads `p99_ttft_ms<=2000`, `CLASS:p99_ttft_ms<=500` or `attainment>=0.95`, which asks of each
    /// request what `each` says.
    ///
    /// # Errors
    /// When it is no SLO, or one to a class that `classes` does not name.
    pub fn parse(text: &str, classes: &[String], each: Option<&Slos>) -> Result<Self, SloProblem> {
        let (left, right, is_at_most) = match (text.split_once("<="), text.split_once(">=")) {
            (Some((left, right)), None) => (left.trim(), right.trim(), true),
            (None, Some((left, right))) => (left.trim(), right.trim(), false),
            _ => return Err(SloProblem::NoRelation(text.to_owned())),
        };
        let (class, figure) = match left.rsplit_once(':') {
            Some((class, figure)) => (Some(class_of(class.trim(), classes)?), figure.trim()),
            None => (None, left),
        };
        let limit = |rule, is_good: fn(f64) -> bool| {
            let value = right.parse().ok().filter(|value| is_good(*value));
            value.ok_or_else(|| SloProblem::Limit {
                figure: figure.to_owned(),
                rule,
                given: right.to_owned(),
            })
        };
        let (objective, limit) = if figure == "attainment" || figure == "slo_attainment" {
            let slos = each.cloned().ok_or(SloProblem::NothingToAttain)?;
            let share = limit("a share from 0 to 1", |share| (0.0..=1.0).contains(&share))?;
            (Objective::Attainment(slos), share)
        } else {
            let unknown = || SloProblem::Figure(figure.to_owned());
            let Some(MetricKey::Latency(latency, statistic)) = MetricKey::parse(figure) else {
                return Err(unknown());
            };
            if statistic == Statistic::StdDev {
                return Err(unknown());
            }
            if latency == Latency::Itl && class.is_some() {
                return Err(SloProblem::GapsOfClass(left.to_owned()));
            }
            let limit = limit("a number of milliseconds above 0", |limit| {
                limit > 0.0 && limit.is_finite()
            })?;
            (Objective::Latency(latency, statistic), limit)
        };
        if is_at_most != matches!(objective, Objective::Latency(..)) {
            return Err(SloProblem::Direction(text.to_owned()));
        }
        Ok(Self { objective, limit, class })
    }

    /// The name of the SLO, as a title.
    pub fn title(&self) -> String {
        let figure = match &self.objective {
            Objective::Latency(latency, statistic) => {
                MetricKey::Latency(*latency, *statistic).title(Tool::Vllm).replace(" (ms)", "")
            }
            Objective::Attainment(_) => "Attainment".to_owned(),
        };
        match &self.class {
            Some((_, class)) => format!("{class}: {figure}"),
            None => figure,
        }
    }

    /// A value of it, with its unit.
    pub fn print(&self, value: f64) -> String {
        match self.objective {
            Objective::Latency(..) if value.is_infinite() => "never".to_owned(),
            Objective::Latency(..) if value < 0.1 => format!("{} ms", rounded(value)),
            Objective::Latency(..) if value < 100.0 => format!("{value:.1} ms"),
            Objective::Latency(..) => format!("{value:.0} ms"),
            Objective::Attainment(_) => format!("{:.2} %", 100.0 * value),
        }
    }

    /// Whether a value keeps it.
    pub fn is_kept(&self, value: f64) -> bool {
        match self.objective {
            Objective::Latency(..) => value <= self.limit,
            Objective::Attainment(_) => value >= self.limit,
        }
    }

    /// How much of what is allowed a value takes: above 1 the SLO is missed. Of a share, that of
    /// requests which may miss.
    pub fn use_of(&self, value: f64) -> f64 {
        match self.objective {
            Objective::Latency(..) => value / self.limit,
            Objective::Attainment(_) if value >= 1.0 => 0.0,
            Objective::Attainment(_) => (1.0 - value) / (1.0 - self.limit),
        }
    }

    /// Whether it concerns a request.
    pub fn concerns(&self, record: &RequestRecord) -> bool {
        self.class.as_ref().is_none_or(|(class, _)| *class == record.class)
    }

    /// The value of a run, of which these requests count.
    pub(super) fn value(&self, records: &[RequestRecord], summary: &BenchSummary) -> f64 {
        let concerned = records.iter().filter(|record| self.concerns(record));
        match &self.objective {
            Objective::Latency(Latency::Itl, statistic) => {
                let unanswered =
                    concerned.filter(|record| record.status != Status::Finished).count();
                let allowed = match statistic {
                    Statistic::Percentile(p) => (1.0 - p / 100.0) * records.len() as f64,
                    Statistic::Median => 0.5 * records.len() as f64,
                    _ => 0.0,
                };
                if unanswered as f64 > allowed {
                    return f64::INFINITY;
                }
                summary.latency(Latency::Itl).statistic_ms(*statistic)
            }
            Objective::Latency(latency, statistic) => {
                let mut values: Vec<f64> =
                    concerned.filter_map(|r| of_request(*latency, r)).collect();
                values.sort_unstable_by(f64::total_cmp);
                of_sorted(&values, *statistic)
            }
            Objective::Attainment(slos) => {
                let (mut kept, mut all) = (0_u64, 0_u64);
                for record in concerned {
                    all += 1;
                    kept += u64::from(keeps(slos, record));
                }
                if all == 0 { 1.0 } else { kept as f64 / all as f64 }
            }
        }
    }

    /// Whether a request alone speaks against the SLO, and how many of `count` may do so.
    pub(super) fn allowed(&self, count: usize) -> Option<usize> {
        let share = match &self.objective {
            Objective::Latency(Latency::Itl, _) => return None,
            Objective::Latency(_, Statistic::Max) => 1.0,
            Objective::Latency(_, Statistic::Median) => 0.5,
            Objective::Latency(_, Statistic::Percentile(p)) => p / 100.0,
            Objective::Latency(..) => return None,
            Objective::Attainment(_) => {
                let keeps =
                    |missed: usize| self.is_kept((count - missed) as f64 / count.max(1) as f64);
                // Shares are rounded, so that their product with a count may lie beside it.
                let near = ((1.0 - self.limit) * count as f64).round() as usize;
                let near = near.saturating_add(1).min(count);
                return Some((0..=near).rev().find(|missed| keeps(*missed)).unwrap_or(0));
            }
        };
        // The value at the rank below the percentile's; with one more request above the limit that is above it.
        let rank = (share * (count.max(1) - 1) as f64).floor() as usize;
        Some(count - rank - usize::from(count > 0))
    }

    /// Whether a request that has left speaks against it.
    pub(super) fn is_broken_by(&self, record: &RequestRecord) -> bool {
        self.concerns(record)
            && match &self.objective {
                Objective::Latency(latency, _) => {
                    of_request(*latency, record).is_some_and(|value| value > self.limit)
                }
                Objective::Attainment(slos) => !keeps(slos, record),
            }
    }
}

impl Slo {
    /// Whether none of these requests speaks against it. Gaps between tokens are not kept by request.
    pub(super) fn is_kept_by_all(&self, records: &[RequestRecord]) -> bool {
        let is_of_gaps = matches!(self.objective, Objective::Latency(Latency::Itl, _));
        !is_of_gaps && records.iter().all(|record| !self.is_broken_by(record))
    }
}

impl fmt::Display for Slo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let relation = if matches!(self.objective, Objective::Latency(..)) { '≤' } else { '≥' };
        let limit = match self.objective {
            Objective::Latency(..) => format!("{} ms", shown(self.limit)),
            Objective::Attainment(_) => self.print(self.limit),
        };
        write!(f, "{} {relation} {limit}", self.title())
    }
}

fn class_of(name: &str, classes: &[String]) -> Result<(ClassId, String), SloProblem> {
    let place = classes.iter().position(|class| class == name);
    let place = place.ok_or_else(|| SloProblem::Class(name.to_owned()))?;
    Ok((ClassId(place as u16), name.to_owned()))
}

/// A latency of a request in ms: infinite where it was not answered, nothing where it has none.
fn of_request(latency: Latency, record: &RequestRecord) -> Option<f64> {
    if record.status != Status::Finished {
        return Some(f64::INFINITY);
    }
    let value = match latency {
        Latency::Ttft => record.ttft(),
        Latency::Tpot | Latency::Itl => record.tpot()?,
        Latency::E2e => record.e2e(),
    };
    Some(value.as_millis_f64())
}

fn keeps(slos: &Slos, record: &RequestRecord) -> bool {
    record.status == Status::Finished
        && slos.limits_ms().all(|(metric, limit_ms)| {
            let value = match metric.name() {
                "ttft" => record.ttft(),
                "tpot" => record.tpot().unwrap_or(SimDuration::ZERO),
                _ => record.e2e(),
            };
            value.as_millis_f64() <= limit_ms
        })
}

/// A statistic of sorted values of which some may be infinite; percentiles as numpy interpolates them.
fn of_sorted(values: &[f64], statistic: Statistic) -> f64 {
    let Some(last) = values.len().checked_sub(1) else { return 0.0 };
    let share = match statistic {
        Statistic::Mean | Statistic::StdDev => {
            return values.iter().sum::<f64>() / values.len() as f64;
        }
        Statistic::Max => 1.0,
        Statistic::Median => 0.5,
        Statistic::Percentile(p) => p / 100.0,
    };
    let rank = share * last as f64;
    let (low, part) = (values[rank.floor() as usize], rank.fract());
    if part == 0.0 || low.is_infinite() {
        low
    } else {
        low + part * (values[rank.ceil() as usize] - low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Slo, SloProblem> {
        let classes = ["chat".to_owned(), "batch".to_owned()];
        let each = Slos::parse(["ttft:500"]).expect("it is one");
        Slo::parse(text, &classes, Some(&each))
    }

    #[test]
    fn slos_are_read_as_they_are_written() {
        let slo = parse("p99_ttft_ms <= 2000").unwrap();
        assert_eq!(slo.to_string(), "P99 TTFT ≤ 2000 ms");
        assert!(slo.is_kept(2000.0) && !slo.is_kept(2000.1));
        let slo = parse("batch:mean_e2el_ms<=9e4").unwrap();
        assert_eq!(slo.class, Some((ClassId(1), "batch".to_owned())));
        let slo = parse("attainment>=0.95").unwrap();
        assert_eq!(slo.to_string(), "Attainment ≥ 95.00 %");
        assert!((slo.use_of(0.975) - 0.5).abs() < 1e-9, "half of those that may miss do");
    }

    #[test]
    fn what_is_no_slo_is_refused_by_name() {
        for (text, word) in [
            ("p99_ttft_ms", "no `<=`"),
            ("p99_ttft<=3", "is no latency"),
            ("std_ttft_ms<=3", "is no latency"),
            ("output_throughput<=3", "is no latency"),
            ("p99_ttft_ms>=3", "is given with"),
            ("attainment<=0.5", "is given with"),
            ("attainment>=95", "share from 0 to 1"),
            ("p99_ttft_ms<=-1", "a number of milliseconds above 0"),
            ("p99_ttft_ms<=inf", "a number of milliseconds above 0"),
            ("p99_ttft_ms<=nan", "a number of milliseconds above 0"),
            ("other:p99_ttft_ms<=3", "no class"),
            ("chat:p99_itl_ms<=3", "not kept by class"),
        ] {
            let problem = parse(text).expect_err(text).to_string();
            assert!(problem.contains(word), "{text}: {problem}");
        }
    }

    #[test]
    fn a_percentile_breaks_with_one_request_more_than_may() {
        // Of 101 values, P99 is the 100th in order: one may be above the limit, two may not.
        let slo = parse("p99_ttft_ms<=10").unwrap();
        assert_eq!(slo.allowed(101), Some(1));
        let values = |above: usize| {
            let mut values = vec![1.0; 101 - above];
            values.resize(101, 11.0);
            of_sorted(&values, Statistic::Percentile(99.0))
        };
        assert!(slo.is_kept(values(1)) && !slo.is_kept(values(2)));
        // Of 100, it lies between the 99th and the 100th: with two above it is above for certain.
        assert_eq!(slo.allowed(100), Some(1));
    }

    #[test]
    fn what_was_not_answered_took_for_ever() {
        let mut values = vec![1.0; 98];
        values.resize(100, f64::INFINITY);
        assert!(of_sorted(&values, Statistic::Percentile(99.0)).is_infinite());
        assert!((of_sorted(&values, Statistic::Percentile(50.0)) - 1.0).abs() < 1e-12);
        assert!(of_sorted(&values, Statistic::Mean).is_infinite());
    }
}
