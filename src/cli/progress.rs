//! A progress bar on a terminal's stderr.

use std::fmt;
use std::io::IsTerminal;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use super::terminal::hear;
use crate::load::{self, Listener, Note};
use crate::sim::{Lane, Observer, Occurrence, Separable};
use crate::units::SimTime;

/// Counts requests that left; draws now and then.
#[derive(Debug, Clone)]
pub(super) struct Progress {
    bar: ProgressBar,
    left: u64,
}

/// Requests between two drawings.
const STRIDE: u64 = 1024;

impl Progress {
    /// A bar up to `total` requests, or a counter if that is not known. Hidden when stderr is no
    /// terminal.
    pub(super) fn new(total: Option<u64>) -> Self {
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
        let template = match total {
            Some(_) => "{bar:40} {pos}/{len} requests, {msg} simulated, {eta} left",
            None => "{spinner} {pos} requests, {msg} simulated",
        };
        styled(&bar, template);
        Self { bar, left: 0 }
    }

    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// After how long a study that still runs shows how far it is.
const SHOWN_AFTER: Duration = Duration::from_secs(1);
/// Between two drawings of a bar that nothing moves.
const TICK: Duration = Duration::from_millis(200);

/// A bar of runs, or a count of them where it is not known how many there are; nothing when stderr is no
/// terminal, and nothing in the first second.
#[derive(Debug, Default)]
pub(super) struct RunBar {
    bar: OnceLock<ProgressBar>,
    is_quiet: bool,
}

impl RunBar {
    /// One that shows nothing where that is asked for.
    pub(super) fn unless(is_quiet: bool) -> Self {
        Self { bar: OnceLock::new(), is_quiet }
    }

    /// So many have ended, of this many.
    pub(super) fn show(&self, ended: u32, of: u32) {
        if let Some(bar) = self.get(Some(of.into())) {
            bar.inc(u64::from(ended > 0));
        }
    }

    /// How far a study is.
    fn tell(&self, progress: &load::Progress) {
        let of = progress.of.map(|of| of as u64);
        if let Some(bar) = self.get(of) {
            if let Some(of) = of {
                bar.set_length(of);
            }
            // Runs end on many threads, and are told of in any order.
            if bar.position() < progress.ended as u64 {
                bar.set_position(progress.ended as u64);
            }
            bar.set_message(progress.now.clone());
        }
    }

    fn get(&self, of: Option<u64>) -> Option<&ProgressBar> {
        let is_shown = !self.is_quiet && std::io::stderr().is_terminal();
        is_shown.then(|| {
            self.bar.get_or_init(|| {
                let bar = ProgressBar::with_draw_target(of, ProgressDrawTarget::hidden());
                let template = match of {
                    Some(_) => "{bar:40} {pos}/{len} runs in {elapsed}{left}",
                    None => "{spinner} {pos} runs in {elapsed}, now {wide_msg}",
                };
                styled(&bar, template);
                show_later(&bar);
                bar
            })
        })
    }

    pub(super) fn finish(&self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }

    /// Has the notes of studies said, those of progress by a bar.
    pub(super) fn listener(self: &Arc<Self>) -> Listener {
        let bar = self.clone();
        Listener::new(move |note| match (note, bar.bar.get()) {
            (Note::Progress(progress), _) => bar.tell(progress),
            (_, Some(shown)) => shown.suspend(|| hear(note)),
            (_, None) => hear(note),
        })
    }
}

/// Draws a bar from some time on, if it is not finished by then.
fn show_later(bar: &ProgressBar) {
    let bar = bar.downgrade();
    std::thread::spawn(move || {
        std::thread::sleep(SHOWN_AFTER);
        if let Some(bar) = bar.upgrade().filter(|bar| !bar.is_finished()) {
            bar.set_draw_target(ProgressDrawTarget::stderr());
            bar.enable_steady_tick(TICK);
        }
    });
}

fn styled(bar: &ProgressBar, template: &str) {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.with_key("left", left));
    }
}

/// The time that is left, once something has ended that tells.
fn left(state: &ProgressState, into: &mut dyn fmt::Write) {
    if state.pos() > 0 {
        // A bar that cannot be written is not drawn.
        let _ = write!(into, ", {:#} left", HumanDuration(state.eta()));
    }
}

/// A bar up to `total` requests of a real server. Hidden when stderr is no terminal.
#[cfg(feature = "probe")]
pub(super) fn of_requests(total: u64) -> ProgressBar {
    bar(total, "requests")
}

/// A bar with the time that is left.
#[cfg(feature = "probe")]
fn bar(total: u64, what: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    styled(&bar, &format!("{{bar:40}} {{pos}}/{{len}} {what}, {{eta}} left"));
    bar
}

impl Observer for Progress {
    fn on(&mut self, at: SimTime, what: Occurrence<'_>) {
        let is_last = match what {
            Occurrence::Left(..) | Occurrence::Refused(..) => true,
            Occurrence::GaveUp { tries_again, .. } => !tries_again,
            _ => false,
        };
        if !is_last {
            return;
        }
        self.left += 1;
        if self.left.is_multiple_of(STRIDE) {
            self.bar.set_message(format!("{:.0} s", at.as_secs_f64()));
            self.bar.inc(STRIDE);
        }
    }
}

impl Separable for Progress {
    type Lane = Self;
    type Aside = ();

    fn lane(&mut self, _: Lane) -> Self {
        self.clone()
    }

    fn join(&mut self, _: Vec<Self>) {}
}
