//! What the heading over the figures of a run says of its hardware: a page may tell of one server and have figures of
//! another further down.

use super::gpu_names;
use super::record::Record;
use crate::hardware::GpuSpec;

/// The GPU that the heading ends with, as in `gemma-4-31B-it (MoE, 1x MI300X, TP=1)`, if it is one of the catalogue.
pub(super) fn gpu(record: &Record) -> Option<GpuSpec> {
    let heading = record.others.get("variant")?.as_str()?;
    let (_, ending) = heading.trim_end().strip_suffix(')')?.rsplit_once('(')?;
    ending.split(',').find_map(|part| {
        let (count, name) = part.trim().split_once('x')?;
        count.trim().parse::<u32>().ok()?;
        gpu_names::find(name.trim()).map(|(gpu, _)| gpu)
    })
}
