//! A progress bar on a terminal's stderr.

use std::io::IsTerminal;
use std::sync::OnceLock;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

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
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self { bar, left: 0 }
    }

    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// A bar of runs, shown from when it is known how many there are; nothing when stderr is no terminal.
#[derive(Debug, Default)]
pub(super) struct RunBar(OnceLock<ProgressBar>);

impl RunBar {
    /// So many have ended, of this many.
    pub(super) fn show(&self, ended: u32, of: u32) {
        if std::io::stderr().is_terminal() {
            let bar = self.0.get_or_init(|| bar(of.into(), "runs"));
            bar.inc(u64::from(ended > 0));
        }
    }

    pub(super) fn finish(&self) {
        if let Some(bar) = self.0.get() {
            bar.finish_and_clear();
        }
    }
}

/// A bar up to `total` requests of a real server. Hidden when stderr is no terminal.
#[cfg(feature = "probe")]
pub(super) fn of_requests(total: u64) -> ProgressBar {
    bar(total, "requests")
}

/// A bar with the time that is left.
fn bar(total: u64, what: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    let template = format!("{{bar:40}} {{pos}}/{{len}} {what}, {{eta}} left");
    if let Ok(style) = ProgressStyle::with_template(&template) {
        bar.set_style(style);
    }
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

    fn lane(&mut self, _: Lane) -> Self {
        self.clone()
    }

    fn join(&mut self, _: Vec<Self>) {}
}
