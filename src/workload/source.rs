//! A workload: the sorted stream of requests that a configuration and a seed describe.

use std::fmt;

use crate::ids::RequestId;
use crate::ids::SessionId;
use crate::request::Content;
use crate::request::Request;
use crate::rng::Seed;
use crate::scenario::AdapterCountsConfig;
use crate::scenario::AdapterStreams;
use crate::scenario::ArrivalConfig;
use crate::scenario::LengthConfig;
use crate::scenario::WarmUpConfig;
use crate::scenario::WorkloadConfig;
use crate::threads;
use crate::units::SimTime;
use crate::workload::adapters::Adapters;
use crate::workload::arrivals::Arrivals;
use crate::workload::classes::Classes;
use crate::workload::content::Sharing;
use crate::workload::content::explicit;
use crate::workload::draft::AdapterName;
use crate::workload::draft::Draft;
use crate::workload::early_stop::EarlyStop;
use crate::workload::lengths::Lengths;
use crate::workload::replay::Replay;
use crate::workload::rows::NOTHING;
use crate::workload::rows::Rows;
use crate::workload::rows::TraceRows;
use crate::workload::session::Sessions;
use crate::workload::tools::Tools;
use crate::workload::trace::WorkloadError;

/// When the last request may arrive, thirty years after the start: the clock counts on from there.
pub(super) const LATEST_S: f64 = 1e9;

/// Requests in order of arrival. Conversations go on through [`Workload::follow_up`].
#[derive(Debug)]
pub struct Workload {
    source: Source,
    sharing: Sharing,
    /// Whether prompts are sent more than once: then those that share nothing have an identity too.
    repeats: bool,
    adapters: Option<Adapters>,
    early_stop: Option<EarlyStop>,
    classes: Option<Classes>,
    sessions: Option<Sessions>,
    /// How many requests are still to come; `None` until the trace or the time is over.
    left: Option<u64>,
    end: SimTime,
    emitted: u64,
    asked: Option<u32>,
    over: bool,
    /// The file of the trace, where it is known.
    trace: Option<String>,
}

/// Where lengths and arrivals come from.
#[derive(Debug)]
enum Source {
    Generated {
        lengths: Lengths,
        arrivals: Arrivals,
    },
    Replayed(Box<Replay>),
    /// Arrivals of a trace with other lengths.
    Timed {
        lengths: Lengths,
        replay: Box<Replay>,
    },
}

/// Something that was noticed in a trace, counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// Rows earlier than one before them, which were put in order.
    RowsOutOfOrder(u64),
    /// Rows outside the window, which were left out.
    RowsOutsideWindow(u64),
    /// Rows without prompt or answer tokens, which were left out.
    RowsEmpty(u64),
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, what, fate) = match self {
            Self::RowsOutOfOrder(rows) => (rows, "of the trace", "put in order of time"),
            Self::RowsOutsideWindow(rows) => (rows, "outside the window", "left out"),
            Self::RowsEmpty(rows) => (rows, "without prompt or answer tokens", "left out"),
        };
        let (rows, were) = if *count == 1 { ("row", "was") } else { ("rows", "were") };
        write!(f, "{count} {rows} {what} {were} {fate}")
    }
}

impl Workload {
    /// Opens the workload of a configuration. `rows` are those of the trace where the
    /// configuration reads one ([`WorkloadConfig::reads_trace`]).
    ///
    /// # Errors
    /// When the configuration breaks a rule, or there is no trace, or it is empty.
    pub fn open(
        config: &WorkloadConfig,
        seed: Seed,
        rows: Option<TraceRows>,
    ) -> Result<Self, WorkloadError> {
        let problems = config.validate();
        if !problems.is_empty() {
            let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
            return Err(WorkloadError::Unusable(lines.join("\n")));
        }
        let mut tools = Tools::new(tool_seed(config, seed)?);
        let asked = config.num_requests.map_or(0, |count| count as usize);
        let (mut lengths_rows, mut arrival_rows) = (rows, None);
        if let ArrivalConfig::Trace(_) = config.arrivals {
            arrival_rows = lengths_rows.take();
        }
        let source = match (&config.arrivals, &config.lengths) {
            (ArrivalConfig::Trace(trace), LengthConfig::Trace { .. }) => {
                Source::Replayed(Box::new(Replay::new(Rows::open(arrival_rows)?, trace, seed)))
            }
            (ArrivalConfig::Trace(trace), lengths) => Source::Timed {
                lengths: Lengths::open(lengths, asked, seed, &mut tools, None)?,
                replay: Box::new(Replay::new(Rows::open(arrival_rows)?, trace, seed)),
            },
            (arrivals, lengths) => {
                let lengths = Lengths::open(lengths, asked, seed, &mut tools, lengths_rows)?;
                let count = lengths.left().map_or(asked, |left| match config.num_requests {
                    Some(_) => left.min(asked),
                    None => left,
                });
                let arrivals = Arrivals::open(arrivals, count, seed, tools)?;
                let arrivals = arrivals.ok_or_else(|| {
                    WorkloadError::Unusable("arrivals: a trace is played by its rows".into())
                })?;
                Source::Generated { lengths, arrivals }
            }
        };
        let sessions = config.sessions.as_ref().map(|s| Sessions::new(s, seed)).transpose()?;
        let end = config.duration_s.map_or(SimTime::MAX, SimTime::from_secs_f64);
        let left = match config.lengths {
            // The tool itself rounds down to a whole number per prefix.
            LengthConfig::PrefixRepetition(_) => None,
            _ => config.num_requests.map(u64::from),
        };
        Ok(Self {
            source,
            sharing: Sharing::new(&config.content, seed)?,
            repeats: config.warm_up.is_some_and(WarmUpConfig::is_any),
            adapters: config.adapters.as_ref().map(|mix| Adapters::new(mix, seed)),
            early_stop: EarlyStop::open(&config.early_stop, seed),
            classes: Classes::open(&config.classes, seed)?,
            sessions,
            left,
            end,
            emitted: 0,
            asked: config.num_requests,
            over: false,
            trace: None,
        })
    }

    /// The same with the file of the trace that it reads, for messages.
    #[must_use]
    pub fn of_trace(self, file: Option<String>) -> Self {
        Self { trace: file, ..self }
    }

    /// Whether requests may belong to conversations that go on.
    pub fn has_follow_ups(&self) -> bool {
        self.sessions.is_some()
    }

    /// The next turn of the conversation of `answered`, whose answer is complete at `now`; `None`
    /// when the request belongs to none or the conversation is over. It may arrive before requests
    /// that this iterator has yet to give.
    pub fn follow_up(
        &mut self,
        id: RequestId,
        answered: &Request,
        now: SimTime,
    ) -> Option<Request> {
        self.sessions.as_mut()?.follow_up(id, answered, now)
    }

    /// What was noticed in the trace so far; complete after the last request.
    pub fn notices(&self) -> Vec<Notice> {
        let (rows, replay) = match &self.source {
            Source::Generated { lengths: Lengths::Recorded(rows), .. } => (Some(rows), None),
            Source::Generated { .. } => (None, None),
            Source::Replayed(replay) | Source::Timed { replay, .. } => {
                (Some(&replay.rows), Some(replay))
            }
        };
        let counts = [
            replay.map(|replay| (replay.out_of_order, Notice::RowsOutOfOrder as fn(u64) -> Notice)),
            replay.map(|replay| (replay.outside_window, Notice::RowsOutsideWindow as _)),
            rows.map(|rows| (rows.empty, Notice::RowsEmpty as _)),
        ];
        let seen = counts.into_iter().flatten().filter(|(count, _)| *count > 0);
        seen.map(|(count, notice)| notice(count)).collect()
    }

    /// A request of a draft; the `index`-th of the workload.
    fn request(&mut self, mut draft: Draft) -> Result<Request, WorkloadError> {
        let index = self.emitted;
        let class = self.classes.as_mut().map(|classes| classes.next(&mut draft, index));
        let (class, model, priority) = class.transpose()?.unwrap_or_default();
        self.sharing.settle(&mut draft, index);
        if self.repeats {
            draft.segments = Some(explicit(&draft, index));
        }
        if let Some(sessions) = &mut self.sessions {
            let session = SessionId(index as u32);
            sessions.begin(session);
            draft.segments = Some(explicit(&draft, index));
            draft.session = Some(session);
        }
        let limit = draft.output_tokens;
        let ended = self.early_stop.as_mut().map(|stops| stops.next(limit));
        let adapter = match &mut self.adapters {
            Some(adapters) => Some(adapters.next(&draft, index)?),
            None => None,
        };
        Ok(Request {
            content: Content { segments: draft.segments, ..Content::default() },
            session: draft.session,
            class,
            model,
            priority,
            adapter,
            max_tokens: limit,
            ignore_eos: ended.is_none(),
            ..Request::new(draft.arrival, draft.prompt_tokens, ended.unwrap_or(limit))
        })
    }

    /// What to say when the source has run out: nothing if that was to be expected.
    fn run_out(&self) -> Option<WorkloadError> {
        let given = self.emitted;
        let replay = match &self.source {
            Source::Generated { .. } => None,
            Source::Replayed(replay) | Source::Timed { replay, .. } => Some(replay),
        };
        if given == 0 {
            let nothing = replay.map_or_else(|| NOTHING.to_owned(), |replay| replay.nothing());
            return Some(WorkloadError::trace(nothing));
        }
        let asked = self.asked.filter(|_| self.left.is_some_and(|left| left > 0))?;
        let given = if given == 1 { "1 request".to_owned() } else { format!("{given} requests") };
        let asks =
            format!("workload.num_requests asks for {asked}; ask for fewer, or leave it out");
        Some(match (&self.source, replay) {
            (Source::Generated { lengths, .. }, _) => {
                let again = "or draw them anew (`workload.lengths.order = \"with_replacement\"`)";
                let problem = format!("has {given} to give, {asks}, {again}");
                let is_of_trace = matches!(lengths, Lengths::Recorded(_)) || self.trace.is_some();
                if is_of_trace {
                    WorkloadError::trace(problem)
                } else {
                    WorkloadError::Unusable(format!("workload.lengths: {problem}"))
                }
            }
            (_, replay) => {
                let played = replay.map(|replay| replay.played()).unwrap_or_default();
                WorkloadError::trace(format!("has {given} to give{played}, {asks}"))
            }
        })
    }
}

impl Iterator for Workload {
    type Item = Result<Request, WorkloadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over || self.left == Some(0) {
            return None;
        }
        if self.emitted.is_multiple_of(1 << 10) {
            threads::end_if_stopped();
        }
        let draft = match self.source.next() {
            Some(Ok(draft)) if draft.arrival <= self.end && !is_too_late(draft.arrival) => draft,
            Some(Ok(draft)) if draft.arrival <= self.end => {
                self.over = true;
                let remedy = match self.trace {
                    Some(_) => "the unit of its times may be another (`trace.time_unit`)",
                    None => "take a higher rate, or fewer requests",
                };
                return Some(Err(WorkloadError::Unusable(format!(
                    "workload.arrivals: request {} comes more than 10⁹ seconds after the first; {remedy}",
                    self.emitted
                ))));
            }
            Some(Ok(_)) => {
                self.over = true;
                return None;
            }
            Some(Err(error)) => {
                self.over = true;
                return Some(Err(error.in_file(self.trace.as_deref())));
            }
            None => {
                self.over = true;
                return self.run_out().map(|error| Err(error.in_file(self.trace.as_deref())));
            }
        };
        let request = self.request(draft);
        self.over = request.is_err();
        self.emitted += 1;
        self.left = self.left.map(|left| left - 1);
        Some(request)
    }
}

fn is_too_late(arrival: SimTime) -> bool {
    arrival.as_secs_f64() > LATEST_S
}

impl Source {
    fn next(&mut self) -> Option<Result<Draft, WorkloadError>> {
        match self {
            Self::Generated { lengths, arrivals } => {
                let draft = lengths.next()?;
                let arrival = arrivals.next()?;
                let adapter = arrivals.adapter().map(AdapterName::Number);
                let named = |draft: Draft| Draft { adapter: adapter.or(draft.adapter), ..draft };
                Some(draft.map(|draft| Draft { arrival, ..named(draft) }))
            }
            Self::Replayed(replay) => replay.next(),
            Self::Timed { lengths, replay } => {
                let timed = match replay.next()? {
                    Ok(timed) => timed,
                    Err(error) => return Some(Err(error)),
                };
                let draft = lengths.next()?;
                let Draft { arrival, adapter, .. } = timed;
                Some(draft.map(|draft| Draft { arrival, adapter, ..draft }))
            }
        }
    }
}

/// numpy takes 32 bits of seed.
fn tool_seed(config: &WorkloadConfig, seed: Seed) -> Result<u32, WorkloadError> {
    let named_after_a_tool = matches!(
        config.arrivals,
        ArrivalConfig::Sglang { .. }
            | ArrivalConfig::Vllm { .. }
            | ArrivalConfig::Vllm2024 { .. }
            | ArrivalConfig::AdapterCounts(AdapterCountsConfig {
                streams: AdapterStreams::SharedStream,
                ..
            })
    ) || matches!(
        config.lengths,
        LengthConfig::SglangRandom(_)
            | LengthConfig::VllmRandom(_)
            | LengthConfig::Vllm2024Random(_)
            | LengthConfig::GeneratedSharedPrefix(_)
            | LengthConfig::PrefixRepetition(_)
    );
    match (config.tool_seed, u32::try_from(seed.0)) {
        (Some(tool_seed), _) | (None, Ok(tool_seed)) => Ok(tool_seed),
        (None, Err(_)) if named_after_a_tool => Err(WorkloadError::Unusable(format!(
            "tool_seed: must be given where the seed is above {}, got seed {}",
            u32::MAX,
            seed.0
        ))),
        (None, Err(_)) => Ok(0),
    }
}

#[cfg(test)]
mod tests;
