//! Prices of GPUs from a file.

use std::path::Path;

use toml::{Table, Value};

use crate::io::{columns, text};
use crate::load::{LoadError, Origin, toml_problem};
use crate::problem::Problem;

/// The columns of a table of prices.
const COLUMNS: [&str; 2] = ["gpu", "usd_per_hour"];

/// What an hour of each of some GPUs costs, as a file says.
#[derive(Debug, Clone, PartialEq)]
pub struct PriceList {
    /// The file, for messages.
    pub name: String,
    /// GPUs as the file calls them, and US dollars per hour of one.
    pub prices: Vec<(String, f64)>,
}

impl PriceList {
    /// Reads `gpu = dollars` in TOML, or a table with the columns `gpu` and `usd_per_hour` (`.csv` and what else
    /// [`columns::read`] reads).
    ///
    /// # Errors
    /// When the file cannot be read, or holds something else.
    pub fn read(path: &Path) -> Result<Self, LoadError> {
        let is_toml = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("toml"));
        let name = path.display().to_string();
        let prices = if is_toml { of_toml(path) } else { of_table(path) };
        let failed = |problem| Origin::File(name.clone()).fail(problem);
        let prices = prices.map_err(failed)?;
        if prices.is_empty() {
            return Err(failed(Problem::new("", "has no prices")));
        }
        Ok(Self { name, prices })
    }

    /// What is wrong with the price of a GPU.
    pub(super) fn wrong(&self, gpu: &str, problem: &str) -> LoadError {
        Origin::File(self.name.clone()).fail(Problem::new(gpu, problem))
    }
}

fn of_toml(path: &Path) -> Result<Vec<(String, f64)>, Problem> {
    let whole = |problem: &dyn std::fmt::Display| Problem::new("", problem);
    let text = text::whole(path, text::SETTINGS_MIB_MAX).map_err(|error| whole(&error))?;
    let table: Table =
        toml::from_str(&text).map_err(|error| whole(&toml_problem(&text, &error)))?;
    let price = |(gpu, value): (String, Value)| {
        let usd = match &value {
            Value::Float(usd) => *usd,
            Value::Integer(usd) => *usd as f64,
            other => return Err(Problem::must_be(gpu, "US dollars per hour", other)),
        };
        Ok((gpu, usd))
    };
    table.into_iter().map(price).collect()
}

fn of_table(path: &Path) -> Result<Vec<(String, f64)>, Problem> {
    let table = columns::read(path).map_err(|error| Problem::new("", error.problem))?;
    let column = |name: &str| {
        let place = table.columns.iter().position(|column| column.eq_ignore_ascii_case(name));
        let rule = || format!("must have the columns {}", COLUMNS.join(" and "));
        place.ok_or_else(|| Problem::new("", rule()))
    };
    let [of_gpu, of_price] = COLUMNS.map(column);
    let (of_gpu, of_price) = (of_gpu?, of_price?);
    let row = |row: &Vec<String>| {
        let gpu = row[of_gpu].trim().to_owned();
        let text = row[of_price].trim();
        let usd = text.parse::<f64>();
        let usd = usd.map_err(|_| {
            Problem::must_be(gpu.as_str(), "US dollars per hour", format_args!("`{text}`"))
        })?;
        Ok((gpu, usd))
    };
    table.rows.iter().map(row).collect()
}
