//! A plan in words.

use std::fmt;

use super::Answer;
use crate::plan::Merit;
use crate::plan::assumptions::Assumed;
use crate::plan::hunt::{MOST_OF_A_TRACE, Tried};
use crate::plan::layouts::Size;
use crate::plan::limits::{Faster, Need, Windows};
use crate::plan::outcome::Row;

/// Whether a text says which flags help: readers of a page have no command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hints {
    /// It does.
    Given,
    /// It does not.
    LeftOut,
}

/// How to plan for what a server is like.
const POINT: &str = "--calibration plans for servers that were measured, --point for typical ones";

/// What is said of a server that is planned for.
const SLOW: &str = "servers slower than 19 of 20 like them";

/// Replicas in words.
pub(super) fn replicas(size: Size) -> String {
    match size {
        Size::Mixed(1) => "1 replica".to_owned(),
        size => format!("{} replicas", size.name()),
    }
}

/// The sizes, from the cheapest on, each with how many it is enough for, or of pairs with how many it is the cheapest
/// for; of many the first ones and the last.
fn enough_of(sizes: &[(f64, String)], are_nested: bool) -> Vec<String> {
    /// Sizes that are named.
    const NAMED: usize = 6;
    let mut each: Vec<(&str, usize)> = Vec::new();
    for (_, name) in sizes {
        match each.iter_mut().find(|(known, _)| known == name) {
            Some((_, count)) => *count += 1,
            None => each.push((name, 1)),
        }
    }
    if are_nested {
        let mut before = 0;
        for (_, count) in &mut each {
            *count += before;
            before = *count;
        }
    }
    let mut told: Vec<String> =
        each.into_iter().map(|(name, count)| format!("{name} in {count}")).collect();
    if told.len() > NAMED {
        let last = told.len() - 1;
        told.splice(NAMED - 2..last, ["…".to_owned()]);
    }
    told
}

/// Sizes with how many they are enough for, the first with the verb.
fn would_do(each: &[String]) -> String {
    each.join(", ").replacen(" in ", " would do in ", 1)
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let study = &self.study;
        let traffic = format!(
            "{}: {}, {} requests, {:.2} requests/s\nSLOs: {}\n\n",
            study.name,
            study.model,
            study.traffic.len(),
            study.traffic.rate_per_s(),
            study.slos.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        );
        let answer = self.verdict(Hints::Given);
        let fronts = if self.tried.is_empty() { String::new() } else { self.fronts_text() };
        let (table, prices) = (self.table(), self.prices_table());
        let assumed = self.assumptions_text();
        write!(f, "{traffic}{answer}\n{table}\n{prices}{assumed}{fronts}")
    }
}

impl Answer {
    fn assumptions_text(&self) -> String {
        let lines: String = self.assumptions.iter().map(Assumed::text).collect();
        if lines.is_empty() { lines } else { format!("\nAssumptions\n{lines}") }
    }

    /// What was asked for, and how sure that is.
    pub(super) fn verdict(&self, hints: Hints) -> String {
        match self.winner() {
            None => self.nothing_text(hints),
            Some((row, found)) => self.winner_text(row, found, hints),
        }
    }

    /// That no layout is the answer, in a few words.
    pub fn nothing(&self) -> &'static str {
        match self.unpriced() {
            0 => "no layout meets all SLOs",
            all if all == self.rows.len() => "no layout was tried: no price of their GPUs is known",
            _ => "no layout that has a price meets all SLOs",
        }
    }

    /// Layouts that took no part because no price is known.
    fn unpriced(&self) -> usize {
        self.rows.iter().filter(|row| row.lacks_a_price()).count()
    }

    /// That no layout is the answer, and what may be done about it.
    fn nothing_text(&self, hints: Hints) -> String {
        const PRICES: &str = "Give prices with --price or --price-file";
        let (nothing, unpriced) = (self.nothing().replacen("no", "No", 1), self.unpriced());
        let is_hinted = hints == Hints::Given;
        let slow = match self.is_for_slow() {
            true if is_hinted => format!(" on {SLOW}; {POINT}"),
            true => format!(" on {SLOW}."),
            false => ".".to_owned(),
        };
        let left_out = match unpriced {
            0 => String::new(),
            all if all == self.rows.len() && is_hinted => {
                format!("{PRICES}, or plan for one kind of GPU at a time.\n")
            }
            all if all == self.rows.len() => String::new(),
            some => {
                let s = if some == 1 { "" } else { "s" };
                let prices = if is_hinted { format!(" {PRICES}.") } else { String::new() };
                format!("{some} layout{s} without a price took no part.{prices}\n")
            }
        };
        let typical = match self.limits.cheapest_typical {
            Some(cheapest) => self.cheapest_typical_text(cheapest),
            None if self.typical_were_tried() => {
                "None does on typical servers either.\n".to_owned()
            }
            None => String::new(),
        };
        format!("{nothing}{slow}\n{typical}{left_out}")
    }

    fn winner_text(&self, row: &Row, found: &Tried, hints: Hints) -> String {
        let name = self.layout(row.place);
        let mut text = if self.seeks_rate() {
            let rate = row.factor() * self.study.traffic.rate_per_s();
            format!(
                "Highest rate per price: {rate:.2} requests/s on {}, {:.3} requests/s per GPU, {}{}",
                self.cluster(row.place, found.size),
                rate / f64::from(found.gpus),
                self.paid(found.cost),
                self.paid_monthly(found.cost)
            )
        } else {
            let Tried { size, gpus, cost, .. } = *found;
            let sized = self.sized(row.place, Need { size, gpus, cost });
            format!("Cheapest: {sized}{}", self.paid_monthly(cost))
        };
        if row.is_for_slow {
            text.extend([", on ", SLOW]);
        }
        text += "\n";
        text += &self.typical_text(row);
        text += &self.slos_text(row, &found.trial);
        text += &self.ties_text(row, found);
        if !found.trial.cut.is_none() {
            text.extend(["  ", &found.trial.cut.to_string(), "\n"]);
        }
        text += &self.misses_text(row);
        text += self.least_text(row);
        text += &self.carries_text(row);
        text += &self.faster_text(&name, hints);
        text += &self.stretches_text();
        text += &self.rates_text();
        text += &self.limits.windows.as_ref().map(Windows::text).unwrap_or_default();
        text
    }

    /// Replicas of a layout, with their GPUs and their price.
    fn sized(&self, place: usize, need: Need) -> String {
        let Need { size, gpus, cost } = need;
        let s = if gpus == 1 { "" } else { "s" };
        format!("{} = {gpus} GPU{s}, {}", self.cluster(place, size), self.paid(cost))
    }

    /// What would do if servers were typical ones, where some are planned for slow ones.
    fn typical_text(&self, row: &Row) -> String {
        let limits = &self.limits;
        // Of several layouts, which is meant.
        let of = if self.rows.len() == 1 { "" } else { " of this layout" };
        if let Some(rates) = &limits.rates_of_faster {
            return format!("Typical servers{of} would carry {:.2} requests/s\n", rates.typical);
        }
        let own = limits.sizes_of_faster.and_then(|faster| faster.typical);
        let other = limits.cheapest_typical.filter(|(place, _)| *place != row.place);
        let own = own.map_or_else(String::new, |need| {
            let of = if other.is_some() { of } else { "" };
            format!("Typical servers{of} would need {}\n", self.sized(row.place, need))
        });
        let other = other.map_or_else(String::new, |other| self.cheapest_typical_text(other));
        own + &other
    }

    fn cheapest_typical_text(&self, (place, need): (usize, Need)) -> String {
        format!("If all servers were typical, the cheapest would be {}\n", self.sized(place, need))
    }

    /// Layouts that are as cheap as the answer, and what decides between them.
    fn ties_text(&self, row: &Row, found: &Tried) -> String {
        let merit = row.merit();
        let others = self.rows.iter().filter(|other| other.place != row.place);
        let ties: Vec<&Row> = others
            .filter(|other| other.found().is_some() && merit.costs_as(&other.merit()))
            .collect();
        let Some((first, more)) = ties.split_first() else { return String::new() };
        let Some(other) = first.found() else { return String::new() };
        let tightest = |merit: &Merit| 100.0 * merit.tightest();
        let why = if other.gpus > found.gpus {
            format!("takes {} GPUs", other.gpus)
        } else {
            format!(
                "takes {:.0} % of what its tightest SLO allows, the answer {:.0} %",
                tightest(&first.merit()),
                tightest(&merit)
            )
        };
        let more = match more.len() {
            0 => String::new(),
            1 => ". One more layout costs as much".to_owned(),
            count => format!(". {count} more layouts cost as much"),
        };
        format!("  {} costs as much and {why}{more}\n", self.cluster(first.place, other.size))
    }

    fn carries_text(&self, row: &Row) -> String {
        let factor = if self.seeks_rate() { Some(row.factor()) } else { self.limits.carries };
        match factor {
            Some(factor) if self.study.is_trace && factor >= MOST_OF_A_TRACE => {
                "  it carries this traffic at any speed: it is too short to say how much\n"
                    .to_owned()
            }
            Some(factor) if !self.seeks_rate() => {
                let rate = factor * self.study.traffic.rate_per_s();
                format!("  it carries up to {factor:.2} times this traffic, {rate:.2} requests/s\n")
            }
            _ => String::new(),
        }
    }

    /// Why it is planned for slow servers, and what the fastest need.
    fn faster_text(&self, layout: &str, hints: Hints) -> String {
        let fast = match (&self.limits.sizes_of_faster, &self.limits.rates_of_faster) {
            (Some(Faster { fast: Some(need), .. }), _) => format!("need {}", replicas(need.size)),
            (Some(_), _) => "need more than there may be".to_owned(),
            (None, Some(rates)) => format!("carry {:.2} requests/s", rates.fast),
            (None, None) => return String::new(),
        };
        let why = format!(
            "  none of your {layout} servers was measured, so the plan is for slow ones; the fastest 5 % {fast}\n"
        );
        match hints {
            Hints::LeftOut => why,
            Hints::Given => format!(
                "{why}  {POINT}\n  `servecast run` simulates typical servers, and slow ones with --servers slow\n"
            ),
        }
    }

    /// The other requests that the search was repeated for.
    fn others(&self, count: usize) -> String {
        let (one, many) = if self.study.is_trace {
            ("resampled trace", "resampled traces")
        } else {
            ("other draw of the requests", "other draws of the requests")
        };
        let what = if count == 1 { one } else { many };
        let drawn = match (self.is_for_slow(), self.study.base().is_calibrated()) {
            (_, true) => "calibrated parameters",
            (true, false) => "servers",
            (false, false) => return format!("{count} {what}"),
        };
        if self.study.is_trace {
            format!("{count} {what}, each with {drawn} drawn anew")
        } else {
            format!("{count} {what} and the {drawn}")
        }
    }

    fn stretches_text(&self) -> String {
        let stretches = &self.limits.stretches;
        let Some((_, found)) = self.winner().filter(|_| !stretches.is_empty()) else {
            return String::new();
        };
        let count = stretches.len();
        let enough = stretches.iter().filter(|other| other.is_enough).count();
        let mut sizes: Vec<(f64, String)> =
            stretches.iter().filter_map(|other| Some((other.cost, other.size?.name()))).collect();
        sizes.sort_by(|a, b| a.0.total_cmp(&b.0));
        let are_nested = matches!(found.size, Size::Mixed(_));
        let are_all_this = sizes.iter().all(|(_, name)| *name == found.size.name());
        let fewest = match &enough_of(&sizes, are_nested)[..] {
            _ if are_all_this => String::new(),
            each if are_nested => format!("; {} of {count}", would_do(each)),
            each => format!("; the cheapest are {} of {count}", each.join(", ")),
        };
        let never = match count - sizes.len() {
            0 => String::new(),
            never => format!("; in {never} of them no number does"),
        };
        let meet = if found.size == Size::Mixed(1) { "meets" } else { "meet" };
        format!(
            "  {}: {} {meet} the SLOs in {enough} of {count}{fewest}{never}\n",
            self.others(count),
            replicas(found.size)
        )
    }

    fn rates_text(&self) -> String {
        let rates = &self.limits.rates;
        if rates.is_empty() {
            return String::new();
        }
        let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let most = rates.iter().copied().fold(0.0, f64::max);
        format!("  {}: {least:.2} to {most:.2} requests/s\n", self.others(rates.len()))
    }
}
