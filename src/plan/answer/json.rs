//! A plan as JSON.

use serde_json::{Value, json};

use super::text::Hints;
use super::{Answer, HOURS_PER_MONTH};
use crate::plan::Trial;
use crate::plan::assumptions::Assumed;
use crate::plan::hunt::Tried;
use crate::plan::layouts::Size;
use crate::plan::limits::{Faster, Need, Windows};
use crate::plan::outcome::{LimitedBy, Obstacle, Outcome, Row};

impl Answer {
    /// All of it: the content of `plan.json`.
    pub fn json(&self) -> Value {
        let (study, limits) = (&self.study, &self.limits);
        let stretches = limits.stretches.iter().map(|other| {
            json!({ "replicas": other.size.map(Size::replicas),
                    "usd_per_hour": self.usd(other.cost), "is_enough": other.is_enough })
        });
        let tried = self.tried.iter().map(|(layout, tried)| self.tried_json(*layout, tried));
        let mut typical = self.faster_json(|faster| faster.typical, |rates| rates.typical);
        if let Some(trial) = &limits.on_typical {
            typical["slos"] = self.values(trial);
        }
        if let Some((place, need)) = limits.cheapest_typical {
            typical["cheapest"] = self.need_json(need);
            typical["cheapest"]["layout"] = json!(self.layout(place));
        } else if self.typical_were_tried() {
            typical["cheapest"] = Value::Null;
        }
        json!({
            "verdict": self.verdict(Hints::LeftOut).lines().map(str::trim).collect::<Vec<_>>(),
            "name": study.name,
            "model": study.model,
            "requests": study.traffic.len(),
            "requests_per_s": study.traffic.rate_per_s(),
            "slos": study.slos.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "layouts": self.rows.iter().map(|row| self.row_json(row)).collect::<Vec<_>>(),
            "assumptions": self.assumptions.iter().map(Assumed::json).collect::<Vec<_>>(),
            "carries": limits.carries,
            "resampled": stretches.collect::<Vec<_>>(),
            "resampled_requests_per_s": limits.rates,
            "planned_for": if self.is_for_slow() { "slow" } else { "typical" },
            "typical_servers": typical,
            "fast_servers": self.faster_json(|faster| faster.fast, |rates| rates.fast),
            "perfect_autoscaler": limits.windows.as_ref().map(Windows::json),
            "prices": self.prices(),
            "hours_per_month": HOURS_PER_MONTH,
            "tried": tried.collect::<Vec<_>>(),
        })
    }

    /// What faster servers need than those that are planned for, or the rate that they carry.
    fn faster_json(
        &self,
        need: impl Fn(&Faster<Option<Need>>) -> Option<Need>,
        rate: impl Fn(&Faster<f64>) -> f64,
    ) -> Value {
        let limits = &self.limits;
        if let Some(rates) = &limits.rates_of_faster {
            return json!({ "requests_per_s": rate(rates) });
        }
        let Some(sizes) = &limits.sizes_of_faster else { return Value::Null };
        let none = || json!({ "replicas": null, "gpus": null, "usd_per_hour": null, "usd_per_month": null });
        need(sizes).map_or_else(none, |need| self.need_json(need))
    }

    fn need_json(&self, need: Need) -> Value {
        json!({
            "replicas": need.size.replicas(),
            "gpus": need.gpus,
            "usd_per_hour": self.usd(need.cost),
            "usd_per_month": self.usd_per_month(need.cost),
        })
    }

    fn row_json(&self, row: &Row) -> Value {
        let mut one = json!({ "layout": self.layout(row.place) });
        match &row.outcome {
            Outcome::Impossible(reason) => {
                one["impossible"] = json!(reason.to_string());
                one["lacks"] = json!(match reason {
                    Obstacle::NoPrice(_) => "price",
                    Obstacle::Memory(_) => "memory",
                    Obstacle::Size { .. } | Obstacle::Room { .. } | Obstacle::Other(_) => {
                        "other"
                    }
                });
            }
            Outcome::TooDear { broken, cost } => {
                one["dearer"] = json!({ "replicas_above": broken.replicas(),
                                        "usd_per_hour_above": self.usd(*cost) });
            }
            Outcome::TooMany { largest } => {
                one["keeps"] = json!(false);
                if let Some((size, trial)) = largest.as_deref() {
                    one["largest_tried"] = json!({ "replicas": size.replicas(),
                                                   "misses": self.missed(trial) });
                }
            }
            Outcome::Keeps { found, misses, factor } => {
                one["keeps"] = json!(true);
                one["replicas"] = json!(found.size.replicas());
                one["gpus"] = json!(found.gpus);
                if found.least > 1 {
                    one["replicas_with_room_for_adapters"] = json!(found.least);
                }
                one["usd_per_hour"] = json!(self.usd(found.cost));
                one["usd_per_month"] = json!(self.usd_per_month(found.cost));
                one["slos"] = self.values(&found.trial);
                one["cut"] = cut_json(&found.trial);
                one["binding"] = self.slo(found.trial.binding());
                one["limited_by"] = match self.limited_by(row) {
                    Some(LimitedBy::Slo(place)) => self.slo(Some(place)),
                    Some(LimitedBy::Throughput) => json!("throughput"),
                    Some(LimitedBy::Room) => json!("room for all adapters"),
                    Some(LimitedBy::Least) => json!("there cannot be fewer replicas"),
                    None => Value::Null,
                };
                if self.seeks_rate() {
                    one["requests_per_s"] = json!(factor * self.study.traffic.rate_per_s());
                }
                if let Some((size, trial)) = misses {
                    one["misses"] = json!({
                        "replicas": size.replicas(),
                        "slo": self.slo(trial.binding()),
                        "slos": self.values(trial),
                        "requests_pile_up": trial.is_overloaded,
                    });
                }
            }
        }
        one
    }

    fn tried_json(&self, layout: usize, tried: &Tried) -> Value {
        json!({
            "layout": self.layout(layout),
            "replicas": tried.size.replicas(),
            "gpus": tried.gpus,
            "usd_per_hour": self.usd(tried.cost),
            "keeps": tried.trial.is_kept,
            "slos": self.values(&tried.trial),
            "requests_pile_up": tried.trial.is_overloaded,
            "broken_off_for": self.slo(tried.trial.broken_off),
            "cut": cut_json(&tried.trial),
        })
    }

    /// The SLO at this place.
    fn slo(&self, place: Option<usize>) -> Value {
        json!(place.map(|place| self.study.slos[place].to_string()))
    }

    /// What a trial keeps of each SLO, if it came to its end.
    fn values(&self, trial: &Trial) -> Value {
        let Some(values) = &trial.values else { return Value::Null };
        let finite = |value: f64| Some(value).filter(|value| value.is_finite());
        let values = values.iter().zip(&self.study.slos).map(|(value, slo)| {
            json!({ "slo": slo.to_string(), "limit": slo.limit,
                    "value": finite(value.value), "used": finite(value.used),
                    "is_kept_by_all": value.is_kept_by_all })
        });
        values.collect()
    }
}

/// Answers that an engine ended before they were over, if there are some.
fn cut_json(trial: &Trial) -> Value {
    if trial.cut.is_none() { Value::Null } else { json!(trial.cut) }
}
