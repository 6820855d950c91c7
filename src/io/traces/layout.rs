//! What a format's rows hold: the accepted names of each column, the clock's unit, and what zero
//! tokens mean.

use std::path::Path;

pub use crate::scenario::TraceColumns as ColumnMap;

use super::azure;
use super::bailian;
use super::burstgpt;
use super::error::TraceError;
use super::error::{MissingColumn, MissingRole};
use super::format::TimeUnit;
use super::format::TraceFormat;
use super::generic;
use super::llmservingsim;
use super::mooncake;
use super::names::{closest, for_role, letters};
use super::reader::TraceOptions;
use super::sharegpt_lengths;
use super::vidur;

/// What a row says of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Arrival,
    Prompt,
    Output,
    Session,
    HashIds,
    BlockTokens,
    Class,
    Adapter,
}

impl Role {
    pub(super) const ALL: [Self; 8] = [
        Self::Arrival,
        Self::Prompt,
        Self::Output,
        Self::Session,
        Self::HashIds,
        Self::BlockTokens,
        Self::Class,
        Self::Adapter,
    ];

    /// Its name in `trace.columns` and `--column`.
    const fn key(self) -> &'static str {
        match self {
            Self::Arrival => "arrival",
            Self::Prompt => "prompt_tokens",
            Self::Output => "output_tokens",
            Self::Session => "session",
            Self::HashIds | Self::BlockTokens => "hash_ids",
            Self::Class => "class",
            Self::Adapter => "adapter",
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Arrival => "the arrival time",
            Self::Prompt => "the prompt tokens",
            Self::Output => "the output tokens",
            Self::Session => "the session",
            Self::HashIds => "the hash ids",
            Self::BlockTokens => "the tokens of a block",
            Self::Class => "the class",
            Self::Adapter => "the adapter",
        }
    }
}

/// A column that is not there.
struct Missing {
    role: Role,
    accepted: Vec<String>,
    closest: Option<String>,
}

impl From<Missing> for MissingRole {
    fn from(missing: Missing) -> Self {
        let Missing { role, accepted, closest } = missing;
        Self { role: role.title(), key: role.key(), accepted, closest }
    }
}

/// Whether a format's rows have a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Timing {
    /// Always.
    Required,
    /// Some files of the format hold lengths only.
    Optional,
    /// Never.
    Absent,
}

/// What a row with zero tokens is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Zero {
    /// A request that failed or held nothing, as production logs have: passed over and counted.
    Skipped,
    /// A mistake.
    Refused,
}

/// A format of rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub(super) timing: Timing,
    /// The clock's unit; `None` when the column's name or the first stamp must tell.
    pub(super) unit: Option<TimeUnit>,
    pub(super) zero: Zero,
    /// Tokens of a block of `hash_ids`.
    pub(super) block_tokens: u32,
    pub(super) arrival: &'static [&'static str],
    pub(super) prompt: &'static [&'static str],
    pub(super) output: &'static [&'static str],
    pub(super) session: &'static [&'static str],
    pub(super) hash_ids: &'static [&'static str],
    pub(super) block: &'static [&'static str],
}

impl Layout {
    /// A format with no columns yet; the base that formats are stated on.
    pub(super) const EMPTY: Self = Self {
        timing: Timing::Required,
        unit: None,
        zero: Zero::Skipped,
        block_tokens: 512,
        arrival: &[],
        prompt: &[],
        output: &[],
        session: &[],
        hash_ids: &[],
        block: &[],
    };

    /// The layout of a format.
    ///
    /// # Panics
    /// For `ServeGen`, which has no rows.
    pub(super) fn of(format: TraceFormat) -> &'static Self {
        match format {
            TraceFormat::Azure => &azure::LAYOUT,
            TraceFormat::Mooncake => &mooncake::LAYOUT,
            TraceFormat::Bailian => &bailian::LAYOUT,
            TraceFormat::BurstGpt => &burstgpt::LAYOUT,
            TraceFormat::Vidur => &vidur::LAYOUT,
            TraceFormat::LlmServingSim => &llmservingsim::LAYOUT,
            TraceFormat::ShareGptLengths => &sharegpt_lengths::LAYOUT,
            TraceFormat::Csv | TraceFormat::Jsonl => &generic::LAYOUT,
            TraceFormat::ServeGen => panic!("a ServeGen folder has no rows"),
        }
    }

    /// Whether it is of no particular project, so that names may be written in any way.
    fn is_generic(&self) -> bool {
        self.arrival == generic::LAYOUT.arrival
    }

    fn names(&self, role: Role) -> &'static [&'static str] {
        match role {
            Role::Arrival => self.arrival,
            Role::Prompt => self.prompt,
            Role::Output => self.output,
            Role::Session => self.session,
            Role::HashIds => self.hash_ids,
            Role::BlockTokens => self.block,
            Role::Class | Role::Adapter => &[],
        }
    }
}

/// A layout matched to the columns of one file.
#[derive(Debug, Clone)]
pub(super) struct Columns {
    /// For each role, the name of its column in this file and its place among the columns.
    found: [Option<(String, usize)>; Role::ALL.len()],
    /// The clock's unit, unless the first stamp must tell.
    pub(super) unit: Option<TimeUnit>,
    pub(super) zero: Zero,
    pub(super) block_tokens: u32,
    /// Whether nobody said which column has the arrivals, and the name of the one that was found suits durations too.
    pub(super) arrival_may_be_duration: bool,
}

impl Columns {
    /// Finds the columns of `format` among those `present`.
    ///
    /// # Errors
    /// [`TraceError::MissingColumn`]; a stated column must be there even if the format could do
    /// without.
    pub(super) fn resolve(
        path: &Path,
        line: u64,
        format: TraceFormat,
        options: &TraceOptions,
        present: &[String],
    ) -> Result<Self, TraceError> {
        let layout = Layout::of(format);
        let mut found: [Option<(String, usize)>; Role::ALL.len()] = Default::default();
        let mut missing: Vec<Missing> = Vec::new();
        for role in Role::ALL {
            let stated = stated(&options.columns, role);
            let accepted: Vec<String> = match stated {
                Some(name) => vec![name.clone()],
                None => layout.names(role).iter().map(|name| (*name).to_owned()).collect(),
            };
            let required = match role {
                Role::Prompt | Role::Output => true,
                Role::Arrival => layout.timing == Timing::Required,
                _ => false,
            };
            let position = position(&accepted, present).or_else(|| {
                let is_free = stated.is_none() && layout.is_generic();
                is_free.then(|| position_by_letters(&accepted, present)).flatten()
            });
            if position.is_none() && (required || stated.is_some()) {
                missing.push(Missing { role, accepted, closest: None });
            }
            let twice = position.filter(|at| present[at + 1..].contains(&present[*at]));
            if let Some(at) = twice {
                let problem = format!("two columns are called `{}`", present[at]);
                return Err(TraceError::row(path, line, problem));
            }
            found[role as usize] = position.map(|at| (present[at].clone(), at));
        }
        if !missing.is_empty() {
            let taken: Vec<usize> = found.iter().flatten().map(|(_, at)| *at).collect();
            let is_free = |at: &usize| !taken.contains(at);
            let free: Vec<String> =
                (0..present.len()).filter(is_free).map(|at| present[at].clone()).collect();
            for one in &mut missing {
                let near = closest(&one.accepted, &free);
                one.closest = near.or_else(|| for_role(one.role, &free));
            }
            return Err(TraceError::MissingColumn(Box::new(MissingColumn {
                file: path.display().to_string(),
                line,
                format,
                missing: missing.into_iter().map(Into::into).collect(),
                found: present.to_vec(),
            })));
        }
        let arrival = found[Role::Arrival as usize].as_ref().map(|(name, _)| name.as_str());
        if let (Some(stated), Some(name)) = (options.time_unit, arrival)
            && let Some(named) = TimeUnit::from_suffix(name).filter(|named| *named != stated)
        {
            let problem = format!(
                "the name of column `{name}` says {named}, and `--time-unit` or `trace.time_unit` says {stated}; leave \
                 that out, or rename the column"
            );
            return Err(TraceError::row(path, line, problem));
        }
        let is_free = options.columns.arrival.is_none() && layout.is_generic();
        let arrival_may_be_duration = is_free && arrival.is_some_and(is_bare_time);
        Ok(Self {
            // A unit in a name holds before what is usual in a format.
            unit: options.time_unit.or(arrival.and_then(unit_of_name)).or(layout.unit),
            found,
            zero: layout.zero,
            arrival_may_be_duration,
            block_tokens: options.hash_block_tokens.unwrap_or(layout.block_tokens),
        })
    }

    /// The name of a role's column, if the file has it.
    pub(super) fn name(&self, role: Role) -> Option<&str> {
        self.found[role as usize].as_ref().map(|(name, _)| name.as_str())
    }

    /// The place of a role's column, if the file has it.
    pub(super) fn index(&self, role: Role) -> Option<usize> {
        self.found[role as usize].as_ref().map(|(_, index)| *index)
    }

    /// Lets keys that the first row does without appear in later rows.
    pub(super) fn expect_optional(&mut self, format: TraceFormat) {
        for role in [Role::Session, Role::HashIds, Role::BlockTokens] {
            let found = &mut self.found[role as usize];
            if let (None, Some(name)) = (&found, Layout::of(format).names(role).first()) {
                *found = Some(((*name).to_owned(), usize::MAX));
            }
        }
    }

    /// Settles the clock's unit by the first stamp where neither the format nor the column's name
    /// did: date and time speak for themselves, a bare number does not.
    ///
    /// # Errors
    /// What to state, when the stamp is a bare number.
    pub(super) fn settle_unit(&mut self, first_stamp: Option<&[u8]>) -> Result<(), String> {
        let (None, Some(stamp)) = (self.unit, first_stamp) else { return Ok(()) };
        if stamp.contains(&b':') {
            self.unit = Some(TimeUnit::WallClock);
            return Ok(());
        }
        Err(format!(
            "the name of column `{}` does not say the unit of its times (first value `{}`); state it, as in \
             `--time-unit ms` or `trace.time_unit = \"ms\"`: s, ms, us or ns",
            self.name(Role::Arrival).unwrap_or_default(),
            String::from_utf8_lossy(stamp)
        ))
    }
}

fn stated(columns: &ColumnMap, role: Role) -> Option<&String> {
    match role {
        Role::Arrival => columns.arrival.as_ref(),
        Role::Prompt => columns.prompt_tokens.as_ref(),
        Role::Output => columns.output_tokens.as_ref(),
        Role::Session => columns.session.as_ref(),
        Role::HashIds => columns.hash_ids.as_ref(),
        Role::BlockTokens => None,
        Role::Class => columns.class.as_ref(),
        Role::Adapter => columns.adapter.as_ref(),
    }
}

/// The first accepted name that is present: written the same, or else but for case.
fn position(accepted: &[String], present: &[String]) -> Option<usize> {
    let exact = |name: &String| present.iter().position(|column| column == name);
    let folded =
        |name: &String| present.iter().position(|column| column.eq_ignore_ascii_case(name));
    accepted.iter().find_map(exact).or_else(|| accepted.iter().find_map(folded))
}

/// The first accepted name of which the letters are present, in any case and with anything between the words.
fn position_by_letters(accepted: &[String], present: &[String]) -> Option<usize> {
    accepted.iter().find_map(|name| {
        let wanted = letters(name);
        present.iter().position(|column| letters(column) == wanted)
    })
}

/// Whether a name says "time" and its unit, and not of what.
fn is_bare_time(column: &str) -> bool {
    let names = ["time", "times", "timems", "timeus", "timens", "timeseconds"];
    names.contains(&letters(column).as_str())
}

fn unit_of_name(column: &str) -> Option<TimeUnit> {
    TimeUnit::from_suffix(column)
        .or_else(|| generic::SECONDS_BY_CUSTOM.contains(&column).then_some(TimeUnit::Seconds))
}
