//! Which replicas were there over a run: up, starting, draining, down after a crash, or off.

use crate::cluster::Stage;
use crate::ids::InstanceId;
use crate::sim::Occurrence;
use crate::units::{SimDuration, SimTime};

/// What a replica is at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It gets requests.
    Up,
    /// Its machine is being made ready.
    Provisioning,
    /// It loads weights.
    Loading,
    /// It gets no requests and ends with those that it has.
    Draining,
    /// It has crashed.
    Down,
    /// It is not there, and costs nothing.
    Off,
}

impl Presence {
    /// Whether it can compute.
    pub const fn is_up(self) -> bool {
        matches!(self, Self::Up | Self::Draining)
    }

    /// Whether its GPUs are taken.
    pub const fn is_on(self) -> bool {
        !matches!(self, Self::Off)
    }
}

/// One replica.
#[derive(Debug, Clone, PartialEq, Eq)]
struct History {
    stage: Stage,
    is_down: bool,
    /// What it is from a moment on; up from the start of the run if there is none.
    changes: Vec<(SimTime, Presence)>,
}

impl Default for History {
    fn default() -> Self {
        Self { stage: Stage::Serving, is_down: false, changes: Vec::new() }
    }
}

impl History {
    fn presence(&self) -> Presence {
        match self.stage {
            Stage::Off => Presence::Off,
            Stage::Provisioning => Presence::Provisioning,
            Stage::Loading => Presence::Loading,
            Stage::Serving | Stage::Draining if self.is_down => Presence::Down,
            Stage::Serving => Presence::Up,
            Stage::Draining => Presence::Draining,
        }
    }
}

/// What every replica was over a run, by id; those of which nothing was told were up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PresenceLog {
    replicas: Vec<History>,
    is_scaled: bool,
}

impl PresenceLog {
    /// A replica crashed, serves again, is started or drained.
    pub(super) fn hear(&mut self, at: SimTime, what: &Occurrence<'_>) {
        let (instance, stage, is_down) = match *what {
            Occurrence::Crashed(instance, _) => (instance, None, Some(true)),
            Occurrence::Recovered(instance) => (instance, None, Some(false)),
            // Whatever had become of a machine, it is given back.
            Occurrence::Scaled(instance, Stage::Off) => (instance, Some(Stage::Off), Some(false)),
            Occurrence::Scaled(instance, stage) => (instance, Some(stage), None),
            _ => return,
        };
        self.is_scaled |= stage.is_some();
        let history = self.history(instance);
        history.stage = stage.unwrap_or(history.stage);
        history.is_down = is_down.unwrap_or(history.is_down);
        let presence = history.presence();
        history.changes.push((at, presence));
    }

    /// Whether replicas are started and drained in the run.
    pub fn is_scaled(&self) -> bool {
        self.is_scaled
    }

    fn history(&mut self, instance: InstanceId) -> &mut History {
        if self.replicas.len() <= instance.index() {
            self.replicas.resize(instance.index() + 1, History::default());
        }
        &mut self.replicas[instance.index()]
    }

    /// What a replica was from when to when, in order, until `end`; spans without a length are left out.
    pub fn spans(&self, id: usize, end: SimTime) -> Vec<(SimTime, SimTime, Presence)> {
        let changes = self.replicas.get(id).map_or(&[][..], |history| &history.changes);
        let mut spans: Vec<(SimTime, SimTime, Presence)> = Vec::new();
        let mut now = (SimTime::ZERO, Presence::Up);
        for change in changes.iter().copied().chain([(end, Presence::Off)]) {
            let until = change.0.min(end);
            match spans.last_mut() {
                _ if until <= now.0 => {}
                Some(last) if last.2 == now.1 => last.1 = until,
                _ => spans.push((now.0, until, now.1)),
            }
            now = (until, change.1);
        }
        spans
    }

    /// How long a replica was such.
    pub fn time(&self, id: usize, end: SimTime, such: impl Fn(Presence) -> bool) -> SimDuration {
        let spans = self.spans(id, end).into_iter().filter(|(_, _, presence)| such(*presence));
        spans.fold(SimDuration::ZERO, |sum, (from, until, _)| sum + (until - from))
    }

    /// Every change of a replica, in order of time.
    pub fn changes(&self) -> Vec<(SimTime, usize, Presence)> {
        let of = |(id, history): (usize, &History)| {
            let changes = history.changes.clone().into_iter();
            changes.map(move |(at, presence)| (at, id, presence))
        };
        let mut changes: Vec<_> = self.replicas.iter().enumerate().flat_map(of).collect();
        // Stable: of one moment, the last change of a replica stays last.
        changes.sort_by_key(|(at, ..)| *at);
        changes
    }

    /// What a replica is from a moment on.
    pub fn at(&self, id: usize, moment: SimTime) -> Presence {
        let changes = self.replicas.get(id).map_or(&[][..], |history| &history.changes);
        let until = changes.partition_point(|(at, _)| *at <= moment);
        until.checked_sub(1).map_or(Presence::Up, |last| changes[last].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SimTime {
        SimTime::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn spans_follow_each_other_from_the_start_to_the_end() {
        let id = InstanceId(1);
        let mut log = PresenceLog::default();
        for (seconds, what) in [
            (0, Occurrence::Scaled(id, Stage::Off)),
            (2, Occurrence::Scaled(id, Stage::Provisioning)),
            (3, Occurrence::Scaled(id, Stage::Loading)),
            (3, Occurrence::Scaled(id, Stage::Serving)),
            (5, Occurrence::Crashed(id, crate::engine::scheduler::Load::default())),
            (6, Occurrence::Scaled(id, Stage::Draining)),
            (7, Occurrence::Scaled(id, Stage::Off)),
        ] {
            log.hear(at(seconds), &what);
        }
        let expected = [
            (at(0), at(2), Presence::Off),
            (at(2), at(3), Presence::Provisioning),
            (at(3), at(5), Presence::Up),
            (at(5), at(7), Presence::Down),
            (at(7), at(9), Presence::Off),
        ];
        assert_eq!(log.spans(1, at(9)), expected);
        assert_eq!(log.spans(1, at(4)), [expected[0], expected[1], (at(3), at(4), Presence::Up)]);
        assert_eq!(log.spans(0, at(9)), [(at(0), at(9), Presence::Up)], "nothing is told of it");
        assert_eq!(log.time(1, at(9), Presence::is_on), SimDuration::from_millis(5_000));
        assert_eq!((log.at(1, at(3)), log.at(1, at(8))), (Presence::Up, Presence::Off));
        assert_eq!(log.spans(0, at(0)), []);
    }
}
