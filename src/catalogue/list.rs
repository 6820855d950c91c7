//! Names and main figures of all that is in the catalogue.

use std::fmt::{self, Write as _};

use serde_json::{Value, json};

use crate::hardware::RentalPrice;
use crate::profiles;

/// What is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Models.
    Models,
    /// GPUs.
    Gpus,
    /// Measured step times.
    Cost,
}

/// Tables for people, and the same as JSON.
#[derive(Debug, Clone, PartialEq)]
pub struct Listing {
    tables: Vec<String>,
    json: Value,
}

/// All of a kind; all there is where none is given.
pub fn list(kind: Option<Kind>) -> Listing {
    let shows = |one: Kind| kind.is_none_or(|asked| asked == one);
    let mut tables = Vec::new();
    let mut object = serde_json::Map::new();
    if shows(Kind::Models) {
        tables.push(models_table());
        object.insert("models".to_owned(), models_json());
    }
    if shows(Kind::Gpus) {
        tables.push(gpus_table());
        object.insert("gpus".to_owned(), gpus_json());
    }
    if shows(Kind::Cost) {
        tables.push(cost_table());
        object.insert("cost".to_owned(), cost_json());
    }
    Listing { tables, json: Value::Object(object) }
}

impl Listing {
    /// As JSON, by kind.
    pub fn json(&self) -> &Value {
        &self.json
    }
}

impl fmt::Display for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.tables.join("\n"))
    }
}

fn models_table() -> String {
    let mut text = format!(
        "{:<54}{:>10}{:>10}{:>12}{:>11}\n",
        "model", "10^9 par.", "active", "weights", "context"
    );
    for profile in profiles::models() {
        let spec = &profile.spec;
        // A string can always be written to.
        let _ = writeln!(
            text,
            "{:<54}{:>10.1}{:>10.1}{:>12}{:>11}",
            spec.name,
            spec.params_total() as f64 / 1e9,
            spec.params_active() as f64 / 1e9,
            spec.weight_bytes(1).to_string(),
            spec.max_position
        );
    }
    text
}

fn models_json() -> Value {
    let one = |profile: &profiles::Profile<crate::model::ModelSpec>| {
        json!({
            "name": profile.spec.name,
            "aliases": profile.aliases,
            "params_total": profile.spec.params_total(),
            "params_active": profile.spec.params_active(),
            "weights_bytes": profile.spec.weight_bytes(1),
            "max_position": profile.spec.max_position,
        })
    };
    profiles::models().map(one).collect()
}

fn gpus_table() -> String {
    let mut text = format!(
        "{:<34}{:>11}{:>10}{:>13}{:>9}{:>13}  {}\n",
        "gpu", "memory", "GB/s", "bf16 TFLOP/s", "link", "USD/h", "short names"
    );
    for profile in profiles::gpus() {
        let spec = &profile.spec;
        // A string can always be written to.
        let _ = writeln!(
            text,
            "{:<34}{:>11}{:>10.0}{:>13.0}{:>9.0}{:>13}  {}",
            spec.name,
            spec.memory().to_string(),
            spec.memory_bandwidth_gb_s,
            spec.bf16_tflops,
            spec.link_gb_s,
            offers(spec.price.as_ref()),
            profile.aliases.join(", ")
        );
    }
    text
}

/// What an hour of a GPU is offered for, from a low to a high offer.
fn offers(price: Option<&RentalPrice>) -> String {
    price.map_or_else(
        || "-".to_owned(),
        |price| {
            let [low, high] = [price.usd_per_hour_low, price.usd_per_hour_high];
            let [low, high] = [low, high].map(|usd| format!("{usd:.2}"));
            if low == high { low } else { format!("{low} to {high}") }
        },
    )
}

fn gpus_json() -> Value {
    let one = |profile: &profiles::Profile<crate::hardware::GpuSpec>| {
        json!({
            "name": profile.spec.name,
            "aliases": profile.aliases,
            "memory_bytes": profile.spec.memory_bytes,
            "memory_bandwidth_gb_s": profile.spec.memory_bandwidth_gb_s,
            "bf16_tflops": profile.spec.bf16_tflops,
            "link_gb_s": profile.spec.link_gb_s,
            "price": profile.spec.price,
        })
    };
    profiles::gpus().map(one).collect()
}

fn cost_table() -> String {
    let mut text = format!("{:<52}{:<9}{:<9}\n", "step times", "engine", "version");
    for table in profiles::operator_tables() {
        // A string can always be written to.
        let _ = writeln!(text, "{:<52}{:<9}{}", table.name, table.engine(), table.version());
    }
    for table in profiles::step_tables() {
        let _ = writeln!(text, "{:<52}whole steps of {}", table.name, table.model);
    }
    text
}

fn cost_json() -> Value {
    let one = |table: &profiles::CostProfile| json!({ "name": table.name, "engine": table.engine(), "version": table.version() });
    let steps = |table: &profiles::ModelTable| {
        json!({
            "name": table.name,
            "model": table.model,
            "gpu": table.gpu,
            "tensor_parallel_size": table.tensor_parallel_size,
        })
    };
    let operators = profiles::operator_tables().iter().map(one);
    operators.chain(profiles::step_tables().iter().map(steps)).collect()
}
