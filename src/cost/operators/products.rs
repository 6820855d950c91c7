//! Matrix products, experts and all-reduces as functions of the rows of a step.

use super::grid::{Polyline, neighbours};
use super::profile::{AllReduceTable, Codes, ExpertTable, OperatorProfile, ProductTable, Rates};
use crate::model::{Experts, Matrix, Packing};

/// Bytes of an activation that is written.
const WRITTEN_BYTES: f64 = 2.0;
/// Share of the rates that products reach which were not measured.
const PRODUCT_EFFICIENCY: f64 = 0.8;
/// No product is shorter: the smallest in the tables of H100, H200 and B200 take 2 to 4 µs.
const LAUNCH_SECS: f64 = 3e-6;
/// The choice of experts: a small product and a sort.
const ROUTER_SECS: f64 = 4e-6;

/// The name that tables give to a format of weights; `None` where no table has it.
pub(super) fn dtype(packing: Option<Packing>) -> Option<&'static str> {
    match packing {
        None => Some("bfloat16"),
        Some(Packing::Fp8) => Some("fp8"),
        Some(Packing::Fp8Blocks { .. }) => Some("fp8_block"),
        Some(Packing::Nvfp4) => Some("nvfp4"),
        Some(Packing::IntGroups { bits: 4, .. }) => Some("int4_wo"),
        Some(Packing::Mxfp4) => Some("w4a16_mxfp4"),
        Some(Packing::IntGroups { .. } | Packing::Int8 | Packing::Mxfp8) => None,
    }
}

impl Rates {
    /// The time of a product if nothing but reading its operands or multiplying them took time.
    pub fn product_roofline(&self, dtype: &str, rows: f64, outputs: f64, inputs: f64) -> f64 {
        let (operand_bytes, tflops) = match dtype {
            "fp8" | "fp8_block" => (1.0, self.fp8_tflops),
            "nvfp4" => (0.5, self.fp4_tflops),
            _ => (2.0, None),
        };
        let flops = 1e12 * tflops.unwrap_or(self.bf16_tflops);
        let bytes =
            operand_bytes * (outputs * inputs + rows * inputs) + WRITTEN_BYTES * rows * outputs;
        (2.0 * rows * outputs * inputs / flops).max(bytes / (1e9 * self.memory_gb_s))
    }
}

/// Seconds of a matrix product by rows; `None` where its format was not measured.
pub(super) fn product(profile: &OperatorProfile, dtype: &str, matrix: &Matrix) -> Option<Polyline> {
    measured(profile, dtype, matrix.outputs as f64, matrix.inputs as f64)
}

impl OperatorProfile {
    /// Seconds of a product of so many rows, measured or, where that is far slower than the GPU allows, from
    /// the roofline. This is how modules that were measured whole are told apart from the products in them.
    pub fn product_secs(&self, dtype: &str, [outputs, inputs]: [u64; 2], rows: f64) -> f64 {
        let (outputs, inputs) = (outputs as f64, inputs as f64);
        let bound = |rows: f64| {
            self.rates.product_roofline(dtype, rows, outputs, inputs) / PRODUCT_EFFICIENCY
        };
        let typical = f64::from(super::TYPICAL_ROWS);
        match measured(self, dtype, outputs, inputs) {
            Some(line) if line.at(typical) <= super::SLOWEST * bound(typical).max(LAUNCH_SECS) => {
                line.at(rows)
            }
            _ => bound(rows).max(LAUNCH_SECS),
        }
    }
}

fn measured(profile: &OperatorProfile, dtype: &str, outputs: f64, inputs: f64) -> Option<Polyline> {
    let table = profile.products.iter().find(|table| table.dtype == dtype)?;
    let mut slowest: f64 = 0.0;
    let points: Vec<(f64, f64)> = (0..table.rows.len())
        .filter_map(|index| {
            let rows = f64::from(table.rows[index]);
            let share = share_of_roofline(table, index, outputs, inputs)?;
            let roofline = profile.rates.product_roofline(dtype, rows, outputs, inputs);
            slowest = slowest.max(share * roofline);
            Some((rows, slowest))
        })
        .collect();
    (!points.is_empty()).then(|| Polyline::new(points))
}

/// Time / roofline time, from the measured shapes around it.
fn share_of_roofline(table: &ProductTable, row: usize, outputs: f64, inputs: f64) -> Option<f64> {
    let (mut sum, mut weights) = (0.0, 0.0);
    for (output, across) in neighbours(&table.outputs, outputs) {
        for (input, along) in neighbours(&table.inputs, inputs) {
            let cell = (output * table.inputs.len() + input) * table.rows.len() + row;
            let weight = across * along;
            if let Some(ln) = table.times.ln(cell).filter(|_| weight > 0.0) {
                sum += weight * ln;
                weights += weight;
            }
        }
    }
    (weights > 0.0).then(|| (sum / weights).exp())
}

/// Seconds of the routed experts of a layer by rows, where this shape was measured, with the spread of tokens over
/// experts that is most like that of servers.
pub(super) fn experts(
    profile: &OperatorProfile,
    dtype: &str,
    hidden: u32,
    experts: &Experts,
    tp: u32,
) -> Option<Polyline> {
    let inside = experts.latent.unwrap_or(hidden);
    let shape = [inside, experts.width, experts.per_token, experts.count, tp];
    let measured = |table: &&ExpertTable| table.dtype == dtype && table.shapes.contains(&shape);
    let tables = profile.experts.iter().filter(measured);
    let table = tables.min_by_key(|table| ExpertTable::unlikeness(&table.distribution))?;
    let line = table.shapes.iter().position(|other| *other == shape)?;
    let first = line * table.rows.len();
    let points = by_micros(&table.times, first, table.rows.iter().map(|rows| f64::from(*rows)));
    let mut slowest: f64 = 0.0;
    Some(Polyline::new(points.map(|(rows, secs)| {
        slowest = slowest.max(secs + ROUTER_SECS);
        (rows, slowest)
    })))
}

fn by_micros(
    times: &Codes,
    first: usize,
    grid: impl Iterator<Item = f64>,
) -> impl Iterator<Item = (f64, f64)> {
    grid.enumerate()
        .filter_map(move |(index, node)| Some((node, 1e-6 * times.time(first + index)?)))
}

/// Seconds of an all-reduce of `row_bytes` per row, by rows. Between sizes, which double, the
/// logarithm of the time is linear in that of the size.
pub(super) fn all_reduce(table: &AllReduceTable, row_bytes: f64) -> Polyline {
    const BETWEEN: i32 = 4;
    let measured: Vec<(f64, f64)> =
        by_micros(&table.times, 0, table.bytes.iter().map(|bytes| *bytes as f64)).collect();
    let mut points = Vec::new();
    for pair in measured.windows(2) {
        let [(x0, y0), (x1, y1)] = [pair[0], pair[1]];
        points.extend((0..BETWEEN).map(|step| {
            let share = f64::from(step) / f64::from(BETWEEN);
            let between = |a: f64, b: f64| (a.ln() + share * (b / a).ln()).exp();
            (between(x0, x1) / row_bytes, between(y0, y1))
        }));
    }
    points.extend(measured.last().map(|(x, y)| (x / row_bytes, *y)));
    Polyline::new(points)
}
