//! `servecast trace adapter-counts`: how often each adapter is asked for, from calls of serverless functions.

use super::args::{AdapterCountsArguments, StreamsName};
use super::input;
use crate::cli::failure::Failure;
use crate::cli::terminal::{print, say};
use crate::io::traces::{FunctionCalls, FunctionMapping, FunctionOrder, FunctionWindow};

pub(super) fn adapter_counts(arguments: &AdapterCountsArguments) -> Result<(), Failure> {
    let (rate, cv) = (arguments.rate, arguments.cv);
    let is_rate = rate >= 1e-6 && rate.is_finite();
    check(is_rate, "--rate", "finite and at least 10⁻⁶ requests per second", rate)?;
    check((1e-3..=1e3).contains(&cv), "--cv", "from 0.001 to 1000", cv)?;
    let window = FunctionWindow { first_hour: arguments.first_hour, hours: arguments.hours };
    let order = if arguments.by_calls { FunctionOrder::Calls } else { FunctionOrder::Name };
    let calls = FunctionCalls::read(&arguments.paths, window).map_err(input)?;
    let (adapters, stride) = (arguments.adapters, arguments.map_stride);
    let counts = calls.per_adapter(FunctionMapping { adapters, stride, order }).map_err(input)?;
    let total: u64 = counts.iter().flatten().map(|count| u64::from(*count)).sum();
    let functions = calls.functions(order);
    say(&format!("notice: {total} calls of {functions} functions for {adapters} adapters"));
    let idle = (0..adapters as usize).filter(|id| counts.iter().all(|hour| hour[*id] == 0)).count();
    if idle > 0 {
        say(&format!("notice: {idle} adapters are not called in these hours"));
    }
    print(&arrivals(arguments, &counts))
}

fn check(holds: bool, flag: &str, rule: &str, value: f64) -> Result<(), Failure> {
    if holds {
        return Ok(());
    }
    Err(Failure::input(format!("{flag}: must be {rule}, got {}", crate::plain::shown(value))))
}

/// The arrivals of a scenario, as a table of TOML or as one line.
fn arrivals(arguments: &AdapterCountsArguments, counts: &[Vec<u32>]) -> String {
    let streams = match arguments.streams {
        StreamsName::Independent => "independent",
        StreamsName::SharedStream => "shared_stream",
    };
    let keys = [
        "type = \"adapter_counts\"".to_owned(),
        format!("rate_per_s = {:?}", arguments.rate),
        format!("cv = {:?}", arguments.cv),
        format!("streams = \"{streams}\""),
    ];
    if arguments.inline {
        return format!(
            "workload.arrivals={{ {}, hourly_counts = {counts:?} }}\n",
            keys.join(", ")
        );
    }
    let hours: Vec<String> = counts.iter().map(|hour| format!("  {hour:?},\n")).collect();
    let (keys, hours) = (keys.join("\n"), hours.concat());
    format!("[workload.arrivals]\n{keys}\nhourly_counts = [\n{hours}]\n")
}
