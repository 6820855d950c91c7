//! The part of a run that a timeline shows.

use std::str::FromStr;

use crate::units::{SimDuration, SimTime};

/// From an instant of the run to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Its start.
    pub from: SimTime,
    /// Its end.
    pub until: SimTime,
}

impl Window {
    /// The whole run.
    pub const ALL: Self = Self { from: SimTime::ZERO, until: SimTime::MAX };

    /// The part of a span that is inside, if any; spans without length have none.
    pub fn clip(&self, from: SimTime, until: SimTime) -> Option<(SimTime, SimTime)> {
        let (from, until) = (from.max(self.from), until.min(self.until));
        (from < until).then_some((from, until))
    }
}

impl FromStr for Window {
    type Err = String;

    /// Reads `START..END` in seconds; either may be absent.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("must be START..END in seconds, as in 10..12.5, got `{text}`");
        let (start, end) = text.split_once("..").ok_or_else(wrong)?;
        let instant = |side: &str, absent: SimTime| {
            if side.trim().is_empty() {
                return Some(absent);
            }
            let seconds = side.trim().parse().ok()?;
            SimDuration::try_from_secs_f64(seconds).map(|span| SimTime::ZERO + span)
        };
        let from = instant(start, SimTime::ZERO).ok_or_else(wrong)?;
        let until = instant(end, SimTime::MAX).ok_or_else(wrong)?;
        if until <= from {
            return Err(format!("must end after its start, got `{text}`"));
        }
        Ok(Self { from, until })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_a_start_before_its_end_and_either_may_be_absent() {
        let at = |millis| SimTime::ZERO + SimDuration::from_millis(millis);
        assert_eq!("1..2.5".parse(), Ok(Window { from: at(1000), until: at(2500) }));
        assert_eq!("..2".parse(), Ok(Window { from: at(0), until: at(2000) }));
        assert_eq!("1..".parse(), Ok(Window { from: at(1000), until: SimTime::MAX }));
        for wrong in ["1", "a..2", "2..1", "1..1", "-1..2", "1..nan", ""] {
            assert!(wrong.parse::<Window>().is_err(), "{wrong}");
        }
    }
}
