//! Predictions beside logs, as a table, JSON and CSV.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::predict::Part;
use super::score::BandScore;
use super::start::Start;
use super::{MemoryStudy, Row};

/// Qualities whose starts are scored apart: those that state everything, and all.
const SCORED: [(Option<&str>, &str); 2] = [(Some("good"), "rated good"), (None, "all starts")];

pub(super) fn gib(bytes: f64) -> f64 {
    bytes / f64::from(1 << 30)
}

fn optional(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

impl MemoryStudy {
    /// Every start with its parts, those that are not predicted with the reason, and the scores.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(
            text,
            "GiB per GPU, predicted (* from the log)\n{:<12} {:<22} {:<34} {:<22} {:>3} {:>8} {:>8} {:>8} {:>8} {:>8} \
             {:>9} {:>9} {:>8}",
            "id",
            "engine",
            "model",
            "GPU",
            "tp",
            "memory",
            "weights",
            "activ.",
            "outside",
            "graphs",
            "KV",
            "logged",
            "error %"
        );
        for row in &self.rows {
            text.push_str(&row.line());
        }
        let _ = writeln!(text, "\n{} not predicted", self.left_out.len() + self.broken.len());
        for (reason, count) in self.reasons() {
            let _ = writeln!(text, "  {count}: {reason}");
        }
        for line in &self.broken {
            let _ = writeln!(text, "  {line}");
        }
        for (quality, name) in SCORED {
            let _ = writeln!(
                text,
                "\n{name:<24} {:>7} {:>7} {:>11} {:>11} {:>9} {:>10}",
                "starts", "scored", "median |%|", "90 % |%|", "mean %", "<= 0.1 GiB"
            );
            for score in self.scores(quality) {
                text.push_str(&score.line());
            }
        }
        text
    }

    /// The same as JSON, on one line.
    pub fn json(&self) -> String {
        let rows: Vec<Value> = self.rows.iter().map(Row::json).collect();
        let left_out: Vec<Value> = self
            .left_out
            .iter()
            .map(|(start, reason)| {
                let mut about = about(start);
                about.insert("reason".to_owned(), json!(reason));
                Value::Object(about)
            })
            .collect();
        let broken: Vec<String> = self.broken.iter().map(ToString::to_string).collect();
        let [good, all] = SCORED.map(|(quality, _)| json!(self.scores(quality)));
        let all = json!({
            "starts": rows, "not_predicted": left_out, "unreadable": broken,
            "scores": { "good": good, "all": all },
        });
        format!("{all}\n")
    }

    /// One line a start that was predicted.
    pub fn csv(&self) -> String {
        let mut text = "id,engine,version,model,gpu,quality,part,predicted,logged\n".to_owned();
        for row in &self.rows {
            let quoted = |cell: &str| format!("\"{}\"", cell.replace('"', "\"\""));
            let start = &row.start;
            let about = [
                start.id(),
                start.engine(),
                start.text("engine_version").unwrap_or_default(),
                start.model(),
                &row.prediction.gpu,
                start.quality(),
            ];
            let about = about.map(quoted).join(",");
            for part in Part::ALL {
                let _ = writeln!(text, "{about},{},{},", part.name(), row.prediction.part(part));
            }
            let logged =
                row.prediction.logged_kv(start).map_or_else(String::new, |it| it.to_string());
            let _ = writeln!(text, "{about},kv,{},{logged}", row.prediction.kv_bytes);
        }
        text
    }
}

impl Row {
    fn line(&self) -> String {
        let (start, prediction) = (&self.start, &self.prediction);
        let part = |part: Part| {
            let star = if prediction.given.contains(&part) { "*" } else { "" };
            format!("{:.2}{star}", gib(prediction.part(part) as f64))
        };
        let [memory, weights, activation, outside, graphs] = Part::ALL.map(part);
        let engine = format!("{} {}", start.engine(), start.text("engine_version").unwrap_or("-"));
        let kv = format!("{:.2}", gib(prediction.kv_bytes as f64));
        let logged = optional(prediction.logged_kv(start).map(gib), 2);
        let error = self.error_pct().map_or_else(|| "-".to_owned(), |error| format!("{error:+.1}"));
        let tp = start.count("tp").unwrap_or(1);
        let (id, gpu) = (start.id(), &prediction.gpu);
        let engine: String = engine.chars().take(22).collect();
        let model: String = start.model().chars().take(34).collect();
        format!(
            "{id:<12} {engine:<22} {model:<34} {gpu:<22} {tp:>3} {memory:>8} {weights:>8} {activation:>8} {outside:>8} \
             {graphs:>8} {kv:>9} {logged:>9} {error:>8}\n"
        )
    }

    fn json(&self) -> Value {
        let (start, prediction) = (&self.start, &self.prediction);
        let mut fields = about(start);
        let parts: Map<String, Value> = Part::ALL
            .iter()
            .map(|part| (part.name().to_owned(), json!(prediction.part(*part))))
            .collect();
        let given: Vec<&str> = prediction.given.iter().map(|part| part.name()).collect();
        let more = [
            ("gpu", json!(prediction.gpu)),
            ("share", json!(prediction.share)),
            ("parts_bytes", Value::Object(parts)),
            ("given", json!(given)),
            ("kv_bytes", json!(prediction.kv_bytes)),
            ("kv_bytes_logged", json!(prediction.logged_kv(start))),
            ("kv_tokens", json!(prediction.kv_tokens)),
            ("kv_tokens_logged", json!(start.logged_bytes("kv_tokens"))),
            ("error_pct", json!(self.error_pct())),
            ("error_gib", json!(self.error_gib())),
        ];
        fields.extend(more.map(|(key, value)| (key.to_owned(), value)));
        Value::Object(fields)
    }
}

/// What a start is known by.
fn about(start: &Start) -> Map<String, Value> {
    let fields = [
        ("id", json!(start.id())),
        ("engine", json!(start.engine())),
        ("engine_version", json!(start.text("engine_version"))),
        ("band", json!(start.band())),
        ("model", json!(start.logged_text("model"))),
        ("tensor_parallel_size", json!(start.count("tp"))),
        ("quality", json!(start.quality())),
    ];
    fields.map(|(key, value)| (key.to_owned(), value)).into_iter().collect()
}

impl BandScore {
    fn line(&self) -> String {
        let Self { band, starts, scored, within_tenth_gib, .. } = self;
        let (median, p90) = (optional(self.median_abs_pct, 1), optional(self.p90_abs_pct, 1));
        let mean = self.mean_pct.map_or_else(|| "-".to_owned(), |mean| format!("{mean:+.1}"));
        format!(
            "{band:<24} {starts:>7} {scored:>7} {median:>11} {p90:>11} {mean:>9} {within_tenth_gib:>10}\n"
        )
    }
}
