//! A plan as JSON.

use serde_json::{Value, json};

use super::answer::{Answer, Outcome};
use super::layouts::Size;
use super::limits::Windows;
use crate::plan::Trial;

impl Answer {
    /// All of it.
    pub(super) fn json(&self) -> Value {
        let values = |trial: &Trial| {
            let values = trial.values.as_ref()?.iter().zip(&self.slos);
            let values = values.map(|(value, slo)| {
                let finite = Some(value.value).filter(|value| value.is_finite());
                json!({ "promise": slo.to_string(), "limit": slo.limit, "value": finite,
                        "used": Some(value.used).filter(|used| used.is_finite()) })
            });
            Some(values.collect::<Vec<_>>())
        };
        let rows = self.rows.iter().map(|row| {
            let mut one = json!({ "layout": self.layout(row.place) });
            match &row.outcome {
                Outcome::Impossible(reason) => one["impossible"] = json!(reason),
                Outcome::TooDear { broken, cost } => {
                    one["dearer"] =
                        json!({ "replicas_above": broken.replicas(), "usd_per_hour_above": self.usd(*cost) });
                }
                Outcome::TooMany => one["keeps"] = json!(false),
                Outcome::Keeps { found, .. } | Outcome::Carries { found, .. } => {
                    one["keeps"] = json!(true);
                    one["replicas"] = json!(found.size.replicas());
                    one["gpus"] = json!(found.gpus);
                    if found.least > 1 {
                        one["replicas_with_room_for_adapters"] = json!(found.least);
                    }
                    one["usd_per_hour"] = json!(self.usd(found.cost));
                    one["promises"] = json!(values(&found.trial));
                    one["binding"] =
                        json!(found.trial.binding().map(|place| self.slos[place].to_string()));
                    if let Outcome::Carries { factor, .. } = row.outcome {
                        one["requests_per_s"] = json!(factor * self.rate_per_s);
                    }
                    if let Some((size, trial)) = row.misses() {
                        one["misses"] = json!({
                            "replicas": size.replicas(),
                            "promise": trial.binding().map(|place| self.slos[place].to_string()),
                            "promises": values(trial),
                        });
                    }
                }
            }
            one
        });
        let stretches = self.stretches.iter().map(|other| {
            json!({ "replicas": other.size.map(Size::replicas),
                    "usd_per_hour": self.usd(other.cost), "is_enough": other.is_enough })
        });
        let tried = self.tried.iter().map(|tried| {
            json!({
                "layout": self.layout(tried.layout),
                "replicas": tried.size.replicas(),
                "gpus": tried.gpus,
                "usd_per_hour": self.usd(tried.cost),
                "keeps": tried.trial.is_kept,
                "promises": values(&tried.trial),
                "broken_off_for": tried.trial.broken_off.map(|place| self.slos[place].to_string()),
            })
        });
        json!({
            "verdict": self.verdict().lines().map(str::trim).collect::<Vec<_>>(),
            "name": self.name,
            "model": self.model,
            "requests": self.requests,
            "requests_per_s": self.rate_per_s,
            "promises": self.slos.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "layouts": rows.collect::<Vec<_>>(),
            "carries": self.carries,
            "resampled": stretches.collect::<Vec<_>>(),
            "resampled_requests_per_s": self.rates,
            "perfect_autoscaler": self.windows.as_ref().map(Windows::json),
            "tried": tried.collect::<Vec<_>>(),
        })
    }
}
