//! Events of the Trace Event Format, one a line.

use std::fmt::{Arguments, Display, Formatter};
use std::io::{self, Write};

use crate::ids::InstanceId;
use crate::units::{SimDuration, SimTime};

/// Nanoseconds, printed as microseconds to the last digit.
struct Micros(u64);

impl Display for Micros {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

/// Writes events; the first failure is kept and ends the writing.
#[derive(Debug)]
pub(super) struct Events<W> {
    out: W,
    bytes: u64,
    failure: Option<io::Error>,
}

impl<W: Write> Events<W> {
    pub(super) fn new(out: W) -> Self {
        let mut events = Self { out, bytes: 0, failure: None };
        events.put(format_args!("{{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"));
        events
    }

    /// Names an instance and the track of its steps. Process 0 belongs to the viewer.
    pub(super) fn instance(&mut self, instance: InstanceId, label: &str) {
        let (pid, label) = (pid(instance), serde_json::Value::from(label));
        for (index, (name, args)) in [
            ("process_name", format!("\"name\":\"instance {instance}\"")),
            ("process_labels", format!("\"labels\":{label}")),
            ("process_sort_index", format!("\"sort_index\":{pid}")),
            ("thread_name", "\"name\":\"steps\"".to_owned()),
        ]
        .into_iter()
        .enumerate()
        {
            let separator = if pid == 1 && index == 0 { "" } else { ",\n" };
            self.put(format_args!(
                "{separator}{{\"ph\":\"M\",\"pid\":{pid},\"tid\":{STEPS},\"name\":\"{name}\",\
                 \"args\":{{{args}}}}}"
            ));
        }
    }

    pub(super) fn step(
        &mut self,
        instance: InstanceId,
        name: &str,
        start: SimTime,
        duration: SimDuration,
        args: Arguments<'_>,
    ) {
        self.complete(pid(instance), STEPS, start, duration, format_args!("{name}"), args);
    }

    /// Names a row of requests.
    pub(super) fn lane(&mut self, instance: InstanceId, lane: u32) {
        let (pid, tid) = (pid(instance), tid(lane));
        for (name, args) in [
            ("thread_name", format_args!("\"name\":\"requests\"")),
            ("thread_sort_index", format_args!("\"sort_index\":{tid}")),
        ] {
            self.put(format_args!(
                ",\n{{\"ph\":\"M\",\"pid\":{pid},\"tid\":{tid},\"name\":\"{name}\",\
                 \"args\":{{{args}}}}}"
            ));
        }
    }

    /// A span in the life of a request, in its row. Spans of a request nest.
    pub(super) fn span(
        &mut self,
        (instance, lane): (InstanceId, u32),
        (from, until): (SimTime, SimTime),
        name: Arguments<'_>,
        args: Arguments<'_>,
    ) {
        self.complete(pid(instance), tid(lane), from, until - from, name, args);
    }

    fn complete(
        &mut self,
        pid: u32,
        tid: u32,
        start: SimTime,
        duration: SimDuration,
        name: Arguments<'_>,
        args: Arguments<'_>,
    ) {
        let (ts, dur) = (Micros(start.as_nanos()), Micros(duration.as_nanos()));
        self.put(format_args!(
            ",\n{{\"ph\":\"X\",\"pid\":{pid},\"tid\":{tid},\"ts\":{ts},\"dur\":{dur},\
             \"name\":\"{name}\",\"args\":{{{args}}}}}"
        ));
    }

    pub(super) fn counter(&mut self, instance: InstanceId, name: &str, at: SimTime, value: u32) {
        let (pid, ts) = (pid(instance), Micros(at.as_nanos()));
        self.put(format_args!(
            ",\n{{\"ph\":\"C\",\"pid\":{pid},\"ts\":{ts},\"name\":\"{name}\",\
             \"args\":{{\"value\":{value}}}}}"
        ));
    }

    /// Ends the file; what was written to, and how many bytes.
    ///
    /// # Errors
    /// The first failure of all.
    pub(super) fn finish(mut self) -> io::Result<(W, u64)> {
        self.put(format_args!("\n]}}\n"));
        match self.failure {
            Some(failure) => Err(failure),
            None => Ok((self.out, self.bytes)),
        }
    }

    fn put(&mut self, event: Arguments<'_>) {
        if self.failure.is_some() {
            return;
        }
        let text = event.to_string();
        self.bytes += text.len() as u64;
        self.failure = self.out.write_all(text.as_bytes()).err();
    }
}

/// The row of an instance's steps.
const STEPS: u32 = 1;

fn tid(lane: u32) -> u32 {
    STEPS + 1 + lane
}

fn pid(instance: InstanceId) -> u32 {
    instance.0 + 1
}
