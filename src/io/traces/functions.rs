//! How often serverless functions were called, hour by hour: the Azure Functions traces of 2019 and 2021.
//!
//! * 2019 (`invocations_per_function_md.anon.d01.csv` to `d14.csv`; Shahrad et al., ATC 2020): a file a day,
//!   a row a function with its calls in each minute, `HashOwner,HashApp,HashFunction,Trigger,1,…,1440`.
//! * 2021 (`AzureFunctionsInvocationTraceForTwoWeeksJan2021.txt`; Zhang et al., SOSP 2021): a row a call,
//!   `app,func,end_timestamp,duration`, in seconds. A call is of the hour in which it ends.
//!
//! Functions become adapters as in dLoRA's workload generator (LLMServe/dLoRA-artifact 72ba0ba,
//! `vllm/workload_generator/trace.py`): in order of their names, `stride` of them go to an adapter before the
//! next one has its turn, and after the last adapter the first. Of 2019 only functions that are called in the
//! window take part, of 2021 all of the file. By calls, those of the window take part, most called first;
//! where two are called equally often, the order is that of names, which there is left open.
//!
//! Left out: when in an hour calls come, how long they take, and what triggers them.

use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::path::{Path, PathBuf};

use csv::ByteRecord;
use rustc_hash::{FxBuildHasher, FxHashSet};

use crate::io::text::Input;

use super::csv_rows;
use super::error::TraceError;
use super::field;
use super::format::TimeUnit;

/// Whole hours of a trace, from its first file or second on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FunctionWindow {
    /// The first, counted from 0.
    pub first_hour: u32,
    /// How many.
    pub hours: u32,
}

/// In which order functions are dealt out to adapters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FunctionOrder {
    /// Of owner, app and function.
    Name,
    /// Most calls in the window first, those without calls left out.
    Calls,
}

/// Which function becomes which adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FunctionMapping {
    /// How many adapters there are, at least 1.
    pub adapters: u32,
    /// How many functions go to an adapter in a row, at least 1.
    pub stride: u32,
    /// In which order.
    pub order: FunctionOrder,
}

/// The calls of functions in a window.
#[derive(Debug, Clone)]
pub struct FunctionCalls {
    window: FunctionWindow,
    /// What messages name.
    path: PathBuf,
    /// By name, the parts of which a zero byte parts: calls in each hour of the window.
    functions: BTreeMap<Vec<u8>, Vec<u64>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Year {
    Of2019,
    Of2021,
}

const MINUTES_OF_DAY: usize = 1440;
const NAMES_2019: [&str; 4] = ["HashOwner", "HashApp", "HashFunction", "Trigger"];
const NAMES_2021: [&str; 4] = ["app", "func", "end_timestamp", "duration"];
const SECOND_NANOS: i64 = 1_000_000_000;

impl FunctionCalls {
    /// Reads the files of one trace: of 2019 one for each day, in order of days; of 2021 one.
    ///
    /// # Errors
    /// [`TraceError`] when a file is unreadable, neither of the two, empty, or has a row that is cut off or
    /// holds no count or time; when a day is there twice; when an hour of the window is not in the files or
    /// has no calls.
    ///
    /// # Panics
    /// Without a file.
    pub fn read(paths: &[PathBuf], window: FunctionWindow) -> Result<Self, TraceError> {
        let path = paths.first().expect("there is a file").clone();
        let mut calls = Self { window, path, functions: BTreeMap::new() };
        let mut days: Vec<(u64, &PathBuf)> = Vec::new();
        for path in paths {
            let mut file = FunctionFile::open(path)?;
            match file.year {
                Year::Of2021 if paths.len() > 1 => {
                    let problem = "the trace of 2021 is one file, and not read beside others";
                    return Err(TraceError::unusable(path, problem));
                }
                Year::Of2021 => file.each_row(|file| calls.add_call(file))?,
                Year::Of2019 => {
                    let mut rows = FxHashSet::default();
                    let mut content = 0;
                    file.each_row(|file| {
                        content = FxBuildHasher.hash_one((content, file.once(&mut rows)?));
                        calls.add_day(file, days.len())
                    })?;
                    if let Some((_, same)) = days.iter().find(|(other, _)| *other == content) {
                        let same = same.display();
                        let problem = format!("is the day of {same} again; give each day once");
                        return Err(TraceError::unusable(path, problem));
                    }
                    days.push((content, path));
                }
            }
        }
        if !days.is_empty() {
            calls.end_days(days.len())?;
        }
        calls.check_hours()?;
        Ok(calls)
    }

    /// Days that were read are all there are, and who is not called in the window takes no part.
    fn end_days(&mut self, days: usize) -> Result<(), TraceError> {
        let (first, there) = (u64::from(self.window.first_hour), 24 * days as u64);
        let end = first + u64::from(self.window.hours);
        if end > there {
            let last = end - 1;
            let problem = format!(
                "the window must lie in hours 0 to {} of what was read, got hours {first} to {last}",
                there - 1
            );
            return Err(TraceError::unusable(&self.path, problem));
        }
        self.functions.retain(|_, hours| hours.iter().any(|calls| *calls > 0));
        Ok(())
    }

    fn check_hours(&self) -> Result<(), TraceError> {
        let is_empty = |hour: &usize| self.functions.values().all(|hours| hours[*hour] == 0);
        let Some(hour) = (0..self.window.hours as usize).find(is_empty) else { return Ok(()) };
        let hour = u64::from(self.window.first_hour) + hour as u64;
        let problem = format!("hour {hour} must have at least one call, got none");
        Err(TraceError::unusable(&self.path, problem))
    }

    /// How many functions take part where they are dealt out in this order.
    pub fn functions(&self, order: FunctionOrder) -> usize {
        self.in_order(order).len()
    }

    /// Hour by hour, the calls of each adapter.
    ///
    /// # Errors
    /// [`TraceError`] when there are too few functions for each adapter to have one, or too many calls to count.
    pub fn per_adapter(&self, mapping: FunctionMapping) -> Result<Vec<Vec<u32>>, TraceError> {
        let functions = self.in_order(mapping.order);
        let (adapters, stride) = (mapping.adapters as usize, mapping.stride as usize);
        // The last adapter has its first function after `stride` of each before it.
        let least = (adapters - 1).saturating_mul(stride).saturating_add(1);
        if functions.len() < least {
            let problem = format!(
                "{adapters} adapters at a stride of {stride} must have {least} functions at least, got {}",
                functions.len()
            );
            return Err(TraceError::unusable(&self.path, problem));
        }
        let mut counts = vec![vec![0_u64; adapters]; self.window.hours as usize];
        for (place, hours) in functions.into_iter().enumerate() {
            for (of_hour, calls) in counts.iter_mut().zip(hours) {
                of_hour[place / stride % adapters] += calls;
            }
        }
        let small = |count: u64| {
            u32::try_from(count).map_err(|_| {
                let rule = format!("an adapter must have at most {} calls an hour", u32::MAX);
                TraceError::unusable(&self.path, format!("{rule}, got {count}"))
            })
        };
        counts.into_iter().map(|hour| hour.into_iter().map(small).collect()).collect()
    }

    fn in_order(&self, order: FunctionOrder) -> Vec<&Vec<u64>> {
        let mut all: Vec<&Vec<u64>> = self.functions.values().collect();
        if order == FunctionOrder::Calls {
            let total = |hours: &Vec<u64>| hours.iter().sum::<u64>();
            all.retain(|hours| total(hours) > 0);
            all.sort_by_key(|hours| std::cmp::Reverse(total(hours)));
        }
        all
    }

    /// The hours of a function.
    fn of(&mut self, name: &[u8]) -> &mut Vec<u64> {
        if !self.functions.contains_key(name) {
            self.functions.insert(name.to_vec(), vec![0; self.window.hours as usize]);
        }
        self.functions.get_mut(name).expect("it is there")
    }

    /// The place in the window of an hour of the trace.
    fn place(&self, hour: u64) -> Option<usize> {
        let place = hour.checked_sub(u64::from(self.window.first_hour))?;
        (place < u64::from(self.window.hours)).then_some(place as usize)
    }

    /// A function and its calls on a day.
    fn add_day(&mut self, file: &FunctionFile, day: usize) -> Result<(), TraceError> {
        let mut sums = [0_u64; 24];
        for (minute, text) in file.record.iter().skip(NAMES_2019.len()).enumerate() {
            sums[minute / 60] += file.count(minute + 1, text)?;
        }
        let name = file.name(3);
        for (hour, sum) in sums.into_iter().enumerate() {
            if let Some(place) = self.place((day * 24 + hour) as u64) {
                self.of(&name)[place] += sum;
            }
        }
        Ok(())
    }

    fn add_call(&mut self, file: &FunctionFile) -> Result<(), TraceError> {
        let ends = file.seconds(2)?;
        file.seconds(3)?;
        let hours = (ends / SECOND_NANOS / 3600) as u64;
        let (name, place) = (file.name(2), self.place(hours));
        let of = self.of(&name);
        if let Some(place) = place {
            of[place] += 1;
        }
        Ok(())
    }
}

/// A file of either year, row by row.
struct FunctionFile {
    path: PathBuf,
    year: Year,
    reader: csv::Reader<Input>,
    record: ByteRecord,
}

impl FunctionFile {
    fn open(path: &Path) -> Result<Self, TraceError> {
        let input = Input::open(path).map_err(|error| TraceError::unreadable(path, error))?;
        let mut reader = csv::ReaderBuilder::new().from_reader(input);
        let header = reader.byte_headers().map_err(|error| csv_rows::problem(path, error))?;
        let names: Vec<String> = header
            .iter()
            .map(|name| String::from_utf8_lossy(name.trim_ascii()).into_owned())
            .collect();
        let minutes = (1..=MINUTES_OF_DAY).map(|minute| minute.to_string());
        let of_2019 = NAMES_2019.iter().map(|name| (*name).to_owned()).chain(minutes);
        let year = if names.is_empty() {
            return Err(TraceError::unusable(path, "the trace is empty; it must have a header"));
        } else if names == NAMES_2021 {
            Year::Of2021
        } else if names.iter().cloned().eq(of_2019) {
            Year::Of2019
        } else {
            return Err(unknown_header(path, &names));
        };
        Ok(Self { path: path.to_owned(), year, reader, record: ByteRecord::new() })
    }

    /// Reads all rows, of which there is at least one.
    fn each_row(
        &mut self,
        mut add: impl FnMut(&Self) -> Result<(), TraceError>,
    ) -> Result<(), TraceError> {
        let mut is_empty = true;
        loop {
            self.reader.get_mut().begin_row();
            let more = self.reader.read_byte_record(&mut self.record);
            if !more.map_err(|error| csv_rows::problem(&self.path, error))? {
                break;
            }
            is_empty = false;
            add(self)?;
        }
        if is_empty {
            let problem = "the trace has a header and no row";
            return Err(TraceError::unusable(&self.path, problem));
        }
        Ok(())
    }

    fn wrong(&self, problem: String) -> TraceError {
        let line = self.record.position().map_or(0, csv::Position::line);
        TraceError::row(&self.path, line, problem)
    }

    /// A hash of a row of a day, which stands there once.
    fn once(&self, rows: &mut FxHashSet<u64>) -> Result<u64, TraceError> {
        if self.record.iter().take(NAMES_2019.len()).eq(NAMES_2019.map(str::as_bytes)) {
            let problem = "names the columns again; give each day as a file of its own, once";
            return Err(self.wrong(problem.to_owned()));
        }
        let row = FxBuildHasher.hash_one(self.record.iter().collect::<Vec<_>>());
        if !rows.insert(row) {
            let problem = "is the same row as one before it: the day stands there twice";
            return Err(self.wrong(problem.to_owned()));
        }
        Ok(row)
    }

    /// The first columns, which name a function. A zero byte sorts before all that names hold, so that the order
    /// is that of the first part, then of the second.
    fn name(&self, parts: usize) -> Vec<u8> {
        let parts: Vec<&[u8]> = self.record.iter().take(parts).collect();
        parts.join(&0)
    }

    fn count(&self, minute: usize, text: &[u8]) -> Result<u64, TraceError> {
        let read = str::from_utf8(text.trim_ascii()).ok().and_then(|text| text.parse::<u32>().ok());
        read.map(u64::from).ok_or_else(|| {
            let rule = format!("minute {minute} must be a whole number of calls, at least 0");
            self.wrong(format!("{rule}, got `{}`", String::from_utf8_lossy(text)))
        })
    }

    /// Nanoseconds from a column in seconds.
    fn seconds(&self, column: usize) -> Result<i64, TraceError> {
        let (name, text) = (NAMES_2021[column], &self.record[column]);
        let stamp = field::stamp(TimeUnit::Seconds, name, text);
        let stamp = stamp.map_err(|problem| self.wrong(problem))?;
        if stamp < 0 {
            let text = String::from_utf8_lossy(text);
            return Err(self.wrong(format!("`{name}` must be at least 0 seconds, got `{text}`")));
        }
        Ok(stamp)
    }
}

fn unknown_header(path: &Path, names: &[String]) -> TraceError {
    const TOLD: usize = 5;
    let told: Vec<&str> = names.iter().take(TOLD).map(String::as_str).collect();
    let more = if names.len() > TOLD { ",…" } else { "" };
    TraceError::unusable(
        path,
        format!(
            "the header must be {},1,…,1440 (Azure Functions 2019) or {} (2021), got {}{more} of {} columns",
            NAMES_2019.join(","),
            NAMES_2021.join(","),
            told.join(","),
            names.len()
        ),
    )
}

/// Whether a first line is that of such a trace.
pub(super) fn speaks_of_functions(line: &[u8]) -> bool {
    let of_2019 = NAMES_2019.join(",");
    line.starts_with(of_2019.as_bytes()) || line == NAMES_2021.join(",").as_bytes()
}
