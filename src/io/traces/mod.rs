//! Trace files in and out: recorded or generated requests as other projects publish them.
//!
//! [`open`] names or detects the format and gives a [`TraceReader`], a stream of
//! [`TraceRow`](crate::workload::TraceRow)s in file order whose memory does not grow with the file;
//! [`describe`] summarises one in a single pass; [`write()`] puts rows into a format.
//!
//! A format is a layout: the columns it has, the unit of its clock, what a zero means. Each format
//! has a file for that; two engines, for CSV and for JSON lines, do the reading.
//! `ServeGen` is no list of requests but statistics of clients, from which requests are drawn.
//! Traces of serverless functions have no lengths: [`FunctionCalls`] counts who was called how often.
//!
//! Times are integers throughout: a stamp is parsed digit by digit to nanoseconds, and the first
//! row becomes time zero ([`Origin`]). Plain and gzip-compressed files are told apart by content.

mod azure;
mod bailian;
mod burstgpt;
mod clock;
mod csv_rows;
mod describe;
mod doubt;
mod error;
mod field;
mod format;
mod functions;
mod generic;
mod identity;
mod json_rows;
mod layout;
mod llmservingsim;
mod mooncake;
mod names;
mod reader;
mod reuse;
mod servegen;
mod sharegpt_lengths;
mod vidur;
mod write;

pub use clock::{GapSummary, TimeSummary};
pub use describe::{LengthSummary, TraceSummary, describe, describe_and_open};
pub use error::{MissingColumn, MissingRole, TraceError};
pub use field::parse_wall_clock;
pub use format::{TimeUnit, TraceFormat};
pub use functions::{FunctionCalls, FunctionMapping, FunctionOrder, FunctionWindow};
pub(crate) use identity::{Identity, Ids};
pub use layout::ColumnMap;
pub use reader::{Origin, Skipped, TraceOptions, TraceReader, open};
pub use reuse::{CapacityHits, PrefixReuse};
pub use servegen::LengthPairing;
pub use write::{Existing, WriteOptions, Written, write, write_to};
