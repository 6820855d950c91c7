//! The keys that the file of a GPU must have, with what each says: all that are missing are told at once.

use toml::{Table, Value};

use crate::problem::Problem;

/// A key and what it says, with its unit.
type Key = (&'static str, &'static str);

/// Those of `spec`.
const SPEC: [Key; 12] = [
    ("name", "the name people use, none of the catalogue"),
    ("vendor", "who makes it"),
    ("architecture", "generation and chip, as in Hopper"),
    ("form_factor", "socket or card, as in SXM or PCIe"),
    ("bf16_tflops", "dense products of 16-bit floats, in 10¹² FLOP/s"),
    ("memory_bytes", "memory as the driver reports it, in bytes"),
    ("memory_bandwidth_gb_s", "memory bandwidth, in 10⁹ B/s"),
    ("link", "name of the link between GPUs; PCIe where they have none of their own"),
    ("link_gb_s", "bandwidth of one GPU to its peers in one direction, in 10⁹ B/s"),
    ("gpus_per_domain", "GPUs that the link joins"),
    ("pcie_gb_s", "bandwidth to the memory of the host in one direction, in 10⁹ B/s"),
    (
        "efficiency",
        "the shares that your kernels reach, or instead, at the top of the file, `like`: a GPU of the catalogue \
         whose kernels stand in",
    ),
];

/// Those of `spec.price`, which may be absent.
const PRICE: [Key; 3] = [
    ("usd_per_hour_low", "a low offer, in US dollars per hour"),
    ("usd_per_hour_high", "a high offer, in US dollars per hour"),
    ("source", "who offers or reports it, and when"),
];

/// Those of `spec.efficiency`.
const EFFICIENCY: [Key; 9] = [
    ("measured_on", "the GPU whose kernels were measured"),
    ("source", "where the figures come from"),
    ("gemm_bandwidth", "share of the memory bandwidth that matrix products of few rows reach"),
    ("gemm_compute", "share of the 16-bit compute rate that matrix products of many rows reach"),
    ("gemm_overhead_us", "time of a matrix product beside reading and multiplying, in µs"),
    ("attention_bandwidth", "share of the memory bandwidth that decode attention reaches"),
    ("attention_compute", "share of the 16-bit compute rate that prefill attention reaches"),
    ("attention_overhead_us", "time of attention in a layer beside reading and multiplying, in µs"),
    ("expert_bandwidth", "share of the memory bandwidth that expert kernels reach"),
];

/// Those of each row of `all_reduce` and `all_gather` in `spec.efficiency`.
const EXCHANGE: [Key; 3] = [
    ("gpus", "GPUs that take part"),
    ("latency_us", "time of a small message, in µs"),
    ("bandwidth_gb_s", "bytes of a message over the time beyond the latency, in 10⁹ B/s"),
];

/// What is wrong with a `spec` that lacks keys: each is named with what it says.
pub(super) fn missing(spec: &Table) -> Option<Problem> {
    let keys = missing_keys(spec);
    let problem = match &keys[..] {
        [] => return None,
        [(key, says)] => format!("missing key `{key}`: {says}"),
        _ => {
            let lines = keys.iter().map(|(key, says)| format!("\n         {key}: {says}"));
            format!("{} keys are missing:{}", keys.len(), lines.collect::<String>())
        }
    };
    Some(Problem::new("", problem))
}

/// The paths below `spec` of the keys that it lacks, and what they say.
fn missing_keys(spec: &Table) -> Vec<(String, &'static str)> {
    let mut missing = lacking(spec, "", &SPEC);
    let inner = |key: &str| spec.get(key).and_then(Value::as_table);
    if let Some(price) = inner("price") {
        missing.extend(lacking(price, "price.", &PRICE));
    }
    let Some(efficiency) = inner("efficiency") else { return missing };
    missing.extend(lacking(efficiency, "efficiency.", &EFFICIENCY));
    for list in ["all_reduce", "all_gather"] {
        let rows = efficiency.get(list).and_then(Value::as_array).into_iter().flatten();
        for (index, row) in rows.enumerate() {
            let Some(row) = row.as_table() else { continue };
            missing.extend(lacking(row, &format!("efficiency.{list}[{index}]."), &EXCHANGE));
        }
    }
    missing
}

fn lacking(table: &Table, at: &str, keys: &[Key]) -> Vec<(String, &'static str)> {
    let absent = keys.iter().filter(|(key, _)| !table.contains_key(*key));
    absent.map(|(key, says)| (format!("{at}{key}"), *says)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::erased;
    use crate::hardware::{Exchanged, GpuSpec};

    /// A GPU that has every table a file may have.
    fn full() -> Table {
        let mut gpu = crate::profiles::gpu("H100").expect("in the catalogue");
        assert!(gpu.price.is_some() && !gpu.efficiency.all_reduce.is_empty());
        gpu.efficiency.all_gather =
            vec![Exchanged { gpus: 2, latency_us: 1.0, bandwidth_gb_s: 1.0 }];
        erased::table(&gpu).expect("a GPU is a table")
    }

    /// The table without a key at a time, by the paths of the keys.
    fn without_each(table: &Table) -> Vec<(String, Table)> {
        let mut all = Vec::new();
        for (key, value) in table {
            let mut without = table.clone();
            without.remove(key);
            all.push((key.clone(), without));
            let inner: Vec<(String, Value)> = match value {
                Value::Table(inner) => without_each(inner)
                    .into_iter()
                    .map(|(path, inner)| (format!("{key}.{path}"), Value::Table(inner)))
                    .collect(),
                Value::Array(rows) => {
                    let first = rows[0].as_table().expect("rows are tables");
                    let with_first = |row: Table| {
                        let rest = rows[1..].iter().cloned();
                        Value::Array([Value::Table(row)].into_iter().chain(rest).collect())
                    };
                    without_each(first)
                        .into_iter()
                        .map(|(path, row)| (format!("{key}[0].{path}"), with_first(row)))
                        .collect()
                }
                _ => Vec::new(),
            };
            for (path, value) in inner {
                let mut other = table.clone();
                other.insert(key.clone(), value);
                all.push((path, other));
            }
        }
        all
    }

    #[test]
    fn keys_are_told_missing_where_the_reader_misses_them_and_nowhere_else() {
        assert_eq!(missing_keys(&full()), []);
        let cases = without_each(&full());
        assert!(cases.len() > 30, "{}", cases.len());
        for (path, table) in cases {
            let read = erased::read::<GpuSpec>(table.clone());
            let is_missed = read.is_err_and(|(_, rule)| rule.contains("missing field"));
            let told = missing_keys(&table).into_iter().map(|(path, _)| path).collect::<Vec<_>>();
            let expected = if is_missed { vec![path.clone()] } else { Vec::new() };
            assert_eq!(told, expected, "{path}");
        }
    }

    #[test]
    fn one_missing_key_is_told_in_a_line_and_several_in_lines() {
        let mut spec = full();
        spec.remove("link");
        let told = missing(&spec).expect("it lacks a key").to_string();
        assert!(told.starts_with("missing key `link`: name of the link"), "{told}");
        spec.remove("memory_bytes");
        let told = missing(&spec).expect("it lacks keys").to_string();
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!(lines[0], "2 keys are missing:");
        assert!(lines[1].trim_start().starts_with("memory_bytes: memory as the driver"), "{told}");
        assert_eq!(lines.len(), 3);
    }
}
