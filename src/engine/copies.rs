//! Copies out of an instance's memory, made by a thread of the engine's process on the engine's own
//! stream (vLLM 0.6: the thread that answers `drop_select`, and its pipe).
//!
//! The device does what is launched in the order in which it is launched. A copy that is asked for while the
//! host launches a step comes after the kernels launched by then, and while it is made the host
//! launches nothing more: the step stands still. One that is asked for when all of the step is launched comes
//! after it, and before the next. Kernels are launched evenly over the time that the host takes to launch
//! the step, and take the device evenly the time that the step lasts.

use super::flight::Flight;
use super::instance::Batch;
use crate::units::{SimDuration, SimTime};

/// When a copy that is asked for can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyStart {
    /// At this moment, now or in the middle of the step in flight.
    At(SimTime),
    /// Once the step in flight has ended.
    AfterStep,
}

/// The copies of an instance, one at a time.
#[derive(Debug, Clone, Default)]
pub(super) struct Copies {
    state: State,
    /// How long the step in flight has stood still.
    still: SimDuration,
    /// How long it went on while nothing more of it was launched.
    behind: SimDuration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    None,
    /// One is asked for, and waits for the device: until then, or the end of the step.
    Asked(SimTime),
    /// One has been made since then.
    Since(SimTime),
}

impl Copies {
    /// Whether one is being made: the engine stands still.
    pub(super) fn is_underway(&self) -> bool {
        matches!(self.state, State::Since(_))
    }

    /// Whether one is waiting: no further step is decided.
    pub(super) fn is_asked(&self) -> bool {
        matches!(self.state, State::Asked(_))
    }

    /// A step is decided.
    pub(super) fn begin_step(&mut self) {
        (self.still, self.behind) = (SimDuration::ZERO, SimDuration::ZERO);
    }

    /// A copy is asked for beside the step in flight, which takes the host `launch` to launch.
    pub(super) fn ask(
        &mut self,
        now: SimTime,
        step: Option<&Batch>,
        launch: SimDuration,
    ) -> CopyStart {
        assert_eq!(self.state, State::None, "one copy at a time");
        self.state = State::Asked(now);
        let Some(step) = step else { return CopyStart::At(now) };
        let since = now.as_nanos().saturating_sub(step.starts_at.as_nanos());
        let done = since.saturating_sub(self.still.as_nanos());
        let launched = done.saturating_sub(self.behind.as_nanos());
        if launched >= launch.as_nanos() {
            return CopyStart::AfterStep;
        }
        let work = step.duration.as_nanos() - self.still.as_nanos();
        let share = u128::from(work) * u128::from(launched) / u128::from(launch.as_nanos());
        let wait = SimDuration::from_nanos((share as u64).saturating_sub(done));
        self.behind += wait;
        self.state = State::Asked(now + wait);
        CopyStart::At(now + wait)
    }

    /// A copy is made from now on.
    pub(super) fn begin(&mut self, now: SimTime) {
        assert!(self.is_asked(), "a copy is asked for");
        self.state = State::Since(now);
    }

    /// The copy that is asked for is not needed: the host launches more of the step again.
    pub(super) fn cancel(&mut self, now: SimTime) {
        let State::Asked(until) = std::mem::take(&mut self.state) else {
            panic!("a copy is asked for")
        };
        let left = until.as_nanos().saturating_sub(now.as_nanos());
        self.behind = SimDuration::from_nanos(self.behind.as_nanos() - left);
    }

    /// It is made; the step in flight goes on.
    pub(super) fn end(&mut self, now: SimTime, flight: &mut Flight) {
        let State::Since(since) = std::mem::take(&mut self.state) else {
            panic!("a copy is being made")
        };
        let Some(step) = flight.front_mut() else { return };
        // A step that has not begun is put off.
        if step.starts_at > since {
            step.starts_at += now - since;
        } else {
            step.duration += now - since;
            self.still += now - since;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> SimTime {
        SimTime::from_nanos(nanos)
    }

    fn nanos(nanos: u64) -> SimDuration {
        SimDuration::from_nanos(nanos)
    }

    /// A step of 1000 ns that starts at 100.
    fn flight() -> Flight {
        let mut flight = Flight::default();
        let step = flight.next_mut();
        (step.starts_at, step.duration) = (at(100), nanos(1000));
        flight.launch();
        flight
    }

    fn end(flight: &Flight) -> SimTime {
        flight.front().expect("a step is in flight").ends_at()
    }

    #[test]
    fn a_copy_comes_after_what_is_launched_and_the_step_stands_still() {
        let (mut copies, mut flight) = (Copies::default(), flight());
        // A tenth of 200 ns is launched, so a tenth of the step comes first.
        let start = copies.ask(at(120), flight.front(), nanos(200));
        assert_eq!(start, CopyStart::At(at(200)));
        copies.begin(at(200));
        copies.end(at(500), &mut flight);
        assert_eq!(end(&flight), at(1400));
        // 20 ns later another tenth is launched: 200 ns of the step come first, 120 are done.
        let start = copies.ask(at(520), flight.front(), nanos(200));
        assert_eq!(start, CopyStart::At(at(600)));
        copies.begin(at(600));
        copies.end(at(650), &mut flight);
        assert_eq!(end(&flight), at(1450));
    }

    #[test]
    fn a_copy_that_is_not_needed_holds_the_host_up_no_longer() {
        let (mut copies, flight) = (Copies::default(), flight());
        // 20 of 200 ns are launched, which take the device 100 ns.
        assert_eq!(copies.ask(at(120), flight.front(), nanos(200)), CopyStart::At(at(200)));
        copies.cancel(at(130));
        // The host stood still for 10 of the 30 ns since then.
        assert_eq!(copies.ask(at(130), flight.front(), nanos(200)), CopyStart::At(at(200)));
        copies.cancel(at(300));
        // It stood still for 80 ns in all: 120 are launched, which take 600 ns.
        assert_eq!(copies.ask(at(300), flight.front(), nanos(200)), CopyStart::At(at(700)));
    }

    #[test]
    fn a_copy_after_the_launch_waits_for_the_step() {
        let (mut copies, flight) = (Copies::default(), flight());
        assert_eq!(copies.ask(at(300), flight.front(), nanos(200)), CopyStart::AfterStep);
        assert!(copies.is_asked());
    }

    #[test]
    fn a_launch_that_takes_no_time_is_never_overtaken() {
        let (mut copies, flight) = (Copies::default(), flight());
        assert_eq!(copies.ask(at(100), flight.front(), nanos(0)), CopyStart::AfterStep);
    }

    #[test]
    fn a_step_that_has_not_begun_is_put_off() {
        let (mut copies, mut flight) = (Copies::default(), flight());
        assert_eq!(copies.ask(at(40), flight.front(), nanos(200)), CopyStart::At(at(40)));
        copies.begin(at(40));
        copies.end(at(70), &mut flight);
        assert_eq!(end(&flight), at(1130));
    }
}
