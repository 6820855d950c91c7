//! The arrivals of a run: those of its server's scenario at the rate that the tool tells.

use serde::Deserialize;
use toml::{Table, Value};

use crate::load::{Draft, LoadError};
use crate::metrics::bench::{Generation, Measured, RequestRate, Tool, VllmGeneration};

/// A longer load is no measurement; three years.
const LONGEST_S: f64 = 1e8;

#[derive(Deserialize)]
struct Server {
    #[serde(default)]
    workload: Workload,
}

#[derive(Default, Deserialize)]
struct Workload {
    arrivals: Option<Table>,
}

/// The arrivals of the server's scenario.
pub(super) fn of(server: &Draft) -> Result<Table, LoadError> {
    let read: Server = server.read()?;
    Ok(read.workload.arrivals.unwrap_or_else(|| kind("all_at_once")))
}

/// What a tool tells of its arrivals, put into those of the server; nothing where it tells nothing.
///
/// # Errors
/// What it tells that these arrivals do not have.
pub(super) fn told(
    measured: &Measured,
    server: &Table,
    requests: i64,
) -> Result<Option<Table>, String> {
    if let Some(ramp) = ramp_up(measured)? {
        return bursty(measured, ramp).map(Some);
    }
    let Some(RequestRate::PerSecond(rate)) = measured.request_rate else { return Ok(None) };
    let type_of = |table: &Table| table.get("type").and_then(Value::as_str).map(str::to_owned);
    let server_type = type_of(server).unwrap_or_default();
    if rate == f64::INFINITY {
        // A trace is replayed at no rate.
        return Ok((server_type != "trace").then(|| kind("all_at_once")));
    }
    if !(rate > 0.0 && requests as f64 / rate <= LONGEST_S) {
        return Err(format!(
            "the request rate must be above 0 and end some day, got {}",
            crate::plain::shown(rate)
        ));
    }
    let mut arrivals = match server_type.as_str() {
        "all_at_once" => kind(by_tool(measured)),
        _ if server.contains_key("rate_per_s") => server.clone(),
        _ => {
            return Err(format!(
                "tells a request rate of {rate}, but arrivals of type `{server_type}` have none"
            ));
        }
    };
    arrivals.insert("rate_per_s".to_owned(), rate.into());
    bursty(measured, arrivals).map(Some)
}

fn kind(name: &str) -> Table {
    [("type".to_owned(), Value::from(name))].into_iter().collect()
}

/// The arrivals that a tool makes of a rate.
fn by_tool(measured: &Measured) -> &'static str {
    match (measured.tool, measured.generation) {
        (_, Some(Generation::Vllm(VllmGeneration::Late2024))) => "vllm_2024",
        (Some(Tool::Sglang), _) => "sglang",
        (Some(Tool::Vllm), _) => "vllm",
        (None, _) => "poisson",
    }
}

fn fact<'a>(measured: &'a Measured, name: &str) -> Option<&'a str> {
    let told = measured.facts.iter().find(|(key, _)| key == name)?;
    Some(told.1.as_str()).filter(|text| !["", "None", "null"].contains(text))
}

fn number(measured: &Measured, name: &str) -> Result<Option<f64>, String> {
    let Some(text) = fact(measured, name) else { return Ok(None) };
    let number: Option<f64> = text.parse().ok();
    number.map(Some).ok_or_else(|| format!("{name}: must be a number, got {text}"))
}

fn ramp_up(measured: &Measured) -> Result<Option<Table>, String> {
    let Some(strategy) = fact(measured, "ramp_up_strategy") else { return Ok(None) };
    let mut ramp = Table::new();
    ramp.insert("strategy".to_owned(), strategy.into());
    for (key, name) in
        [("start_rate_per_s", "ramp_up_start_rps"), ("end_rate_per_s", "ramp_up_end_rps")]
    {
        let rate = number(measured, name)?.ok_or_else(|| format!("{name}: is missing"))?;
        ramp.insert(key.to_owned(), rate.into());
    }
    let mut arrivals = kind("vllm");
    arrivals.insert("ramp_up".to_owned(), ramp.into());
    Ok(Some(arrivals))
}

fn bursty(measured: &Measured, mut arrivals: Table) -> Result<Table, String> {
    let Some(burstiness) = number(measured, "burstiness")? else { return Ok(arrivals) };
    let kind = arrivals.get("type").and_then(Value::as_str).unwrap_or_default();
    if kind == "vllm" {
        arrivals.insert("burstiness".to_owned(), burstiness.into());
    } else if (burstiness - 1.0).abs() > f64::EPSILON {
        return Err(format!(
            "burstiness: arrivals of type `{kind}` have none, got {}",
            crate::plain::shown(burstiness)
        ));
    }
    Ok(arrivals)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::bench;

    fn from_json(more: &str) -> Measured {
        let text = format!("{{\"mean_ttft_ms\": 1.0, \"total_token_throughput\": 2.0, {more}}}");
        bench::read(&text).measured.remove(0)
    }

    fn table(text: &str) -> Table {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn the_arrivals_of_the_server_stay_and_take_what_the_tool_tells() {
        let vllm = "type = 'vllm'\nburstiness = 0.5\nrate_per_s = 3.0";
        for (server, told_by_tool, expected) in [
            (vllm, "'request_rate': 8", "type = 'vllm'\nburstiness = 0.5\nrate_per_s = 8.0"),
            (
                vllm,
                "'request_rate': 8, 'burstiness': 2.0",
                "type = 'vllm'\nburstiness = 2.0\nrate_per_s = 8.0",
            ),
            (
                "type = 'vllm_2024'\nrate_per_s = 3.0",
                "'request_rate': 8, 'burstiness': 1.0",
                "type = 'vllm_2024'\nrate_per_s = 8.0",
            ),
            (
                "type = 'all_at_once'",
                "'request_rate': 8, 'failed': 0",
                "type = 'vllm'\nrate_per_s = 8.0",
            ),
            ("type = 'all_at_once'", "'request_rate': 8", "type = 'vllm_2024'\nrate_per_s = 8.0"),
            (vllm, "'request_rate': 'inf'", "type = 'all_at_once'"),
            (
                vllm,
                "'request_rate': 'inf', 'ramp_up_strategy': 'linear', 'ramp_up_start_rps': 1, \
                 'ramp_up_end_rps': 9",
                "type = 'vllm'\nramp_up = { strategy = 'linear', start_rate_per_s = 1.0, \
                 end_rate_per_s = 9.0 }",
            ),
        ] {
            let measured = from_json(&told_by_tool.replace('\'', "\""));
            let found = told(&measured, &table(server), 100).unwrap();
            assert_eq!(found, Some(table(expected)), "{server} with {told_by_tool}");
        }
        let log = "Burstiness factor: 2.0 (Gamma distribution)\nTraffic request rate: 8.0\n\
                   ============ Serving Benchmark Result ============\n\
                   Mean TTFT (ms): 12.0\n";
        let printed = bench::read(&format!("{log}{}\n", "=".repeat(50))).measured.remove(0);
        let found = told(&printed, &table(vllm), 100).unwrap();
        let expected = "type = 'vllm'\nburstiness = 2.0\nrate_per_s = 8.0";
        assert_eq!(found, Some(table(expected)));
        let nothing = told(&from_json("\"failed\": 0"), &table(vllm), 100).unwrap();
        assert_eq!(nothing, None);
    }

    #[test]
    fn what_the_arrivals_of_the_server_do_not_have_is_refused() {
        for (server, told_by_tool, problem) in [
            (
                "type = 'sglang'\nrate_per_s = 3.0",
                "'request_rate': 8, 'burstiness': 2.0",
                "burstiness: arrivals of type `sglang`",
            ),
            ("type = 'trace'", "'request_rate': 8", "tells a request rate of 8"),
            ("type = 'all_at_once'", "'request_rate': 0", "the request rate must be above 0"),
            ("type = 'all_at_once'", "'request_rate': 1e-12", "the request rate must be above 0"),
            (
                "type = 'all_at_once'",
                "'ramp_up_strategy': 'linear'",
                "ramp_up_start_rps: is missing",
            ),
        ] {
            let measured = from_json(&told_by_tool.replace('\'', "\""));
            let error = told(&measured, &table(server), 100).unwrap_err();
            assert!(error.starts_with(problem), "{error}");
        }
    }
}
