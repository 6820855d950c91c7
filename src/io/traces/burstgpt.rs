//! `BurstGPT`: CSV with `Timestamp` in whole seconds, `Model`, `Request tokens`, `Response tokens`,
//! `Total tokens`, `Log Type`, newer files also `Session ID` and `Elapsed time`. A row with no
//! response tokens is a failed request: passed over and counted.

use super::format::TimeUnit;
use super::layout::Layout;

pub(super) const LAYOUT: Layout = Layout {
    unit: Some(TimeUnit::Seconds),
    arrival: &["Timestamp"],
    prompt: &["Request tokens"],
    output: &["Response tokens"],
    session: &["Session ID"],
    ..Layout::EMPTY
};
