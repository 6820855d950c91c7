//! When replicas were slow: their steps, or their NICs.

use crate::cluster::Stage;
use crate::ids::InstanceId;
use crate::sim::{Occurrence, Slowness};
use crate::units::SimTime;

/// When replicas were slow over a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlownessLog {
    /// What was slow, and from when to when, in the order in which that began; without an end where it lasts.
    spans: Vec<(InstanceId, Slowness, SimTime, Option<SimTime>)>,
}

impl SlownessLog {
    /// A replica becomes slow, or is no longer.
    pub(super) fn hear(&mut self, at: SimTime, what: &Occurrence<'_>) {
        match *what {
            Occurrence::Slowed(instance, slowness, is_slow) => {
                let lasting = self.lasting(instance).find(|(of, _)| *of == slowness);
                match lasting {
                    Some((_, until)) if !is_slow => *until = Some(at),
                    None if is_slow => self.spans.push((instance, slowness, at, None)),
                    _ => {}
                }
            }
            // What takes its place later is another machine.
            Occurrence::Scaled(instance, Stage::Off) => {
                self.lasting(instance).for_each(|(_, until)| *until = Some(at));
            }
            _ => {}
        }
    }

    /// What of a replica is slow, and the end of it, which is not known yet.
    fn lasting(
        &mut self,
        instance: InstanceId,
    ) -> impl Iterator<Item = (Slowness, &mut Option<SimTime>)> {
        let of_it = self.spans.iter_mut().filter(move |(other, ..)| *other == instance);
        of_it.filter(|(.., until)| until.is_none()).map(|(_, of, _, until)| (*of, until))
    }

    /// From when to when a replica was slow, in order, until `end`.
    pub fn spans(&self, id: usize, slowness: Slowness, end: SimTime) -> Vec<(SimTime, SimTime)> {
        let of_it = self
            .spans
            .iter()
            .filter(|(instance, of, ..)| instance.index() == id && *of == slowness);
        let spans = of_it.map(|(.., from, until)| (*from, until.unwrap_or(end).min(end)));
        spans.filter(|(from, until)| from < until).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_slow_at_the_end_was_slow_until_then_and_what_comes_later_is_left_out() {
        let at = SimTime::from_secs_f64;
        let mut log = SlownessLog::default();
        for (second, instance, slowness, is_slow) in [
            (1.0, 0, Slowness::Steps, true),
            (2.0, 0, Slowness::Nics, true),
            (3.0, 0, Slowness::Steps, false),
            (4.0, 0, Slowness::Steps, true),
            (5.0, 1, Slowness::Steps, true),
            (30.0, 1, Slowness::Nics, true),
        ] {
            log.hear(at(second), &Occurrence::Slowed(InstanceId(instance), slowness, is_slow));
        }
        log.hear(at(7.0), &Occurrence::Slowed(InstanceId(2), Slowness::Steps, true));
        log.hear(at(7.5), &Occurrence::Slowed(InstanceId(2), Slowness::Nics, true));
        log.hear(at(8.0), &Occurrence::Scaled(InstanceId(2), Stage::Off));
        let spans = |id, slowness| log.spans(id, slowness, at(20.0));
        assert_eq!(spans(2, Slowness::Steps), [(at(7.0), at(8.0))], "its machine was given back");
        assert_eq!(spans(2, Slowness::Nics), [(at(7.5), at(8.0))], "its machine was given back");
        assert_eq!(spans(0, Slowness::Steps), [(at(1.0), at(3.0)), (at(4.0), at(20.0))]);
        assert_eq!(spans(0, Slowness::Nics), [(at(2.0), at(20.0))]);
        assert_eq!(spans(1, Slowness::Steps), [(at(5.0), at(20.0))]);
        assert!(spans(1, Slowness::Nics).is_empty(), "the run had ended");
    }
}
