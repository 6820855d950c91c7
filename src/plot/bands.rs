//! Replicas over the time of a run as a band: the least, the mean and the most of a quantity over those
//! of a group.

use super::axis::{Axis, significant};
use super::canvas::{Canvas, Ink, TOP};
use super::clock::{Clock, FOOT, HEADING, LEFT, RIGHT};
use super::frame::Panel;
use super::replicas::group_name;
use super::timeline::say_nothing;
use crate::cluster::Role;
use crate::metrics::{Recorder, ReplicaKind, ReplicaLog};

const PANEL_HEIGHT: f64 = 196.0;

/// The height of the figure: one panel for each group.
pub(super) fn height(groups: &[ReplicaKind]) -> f64 {
    TOP + groups.len() as f64 * PANEL_HEIGHT + FOOT
}

/// A quantity of every replica.
struct Bands<'a> {
    heading: fn(&ReplicaKind) -> String,
    /// Which groups have it.
    is_of: fn(&ReplicaKind) -> bool,
    /// What stands beside the axis.
    side: &'static str,
    /// What follows a number in the legend.
    unit: &'static str,
    /// The axis for values up to this one.
    axis: fn(f64) -> Axis,
    /// The means over the spans of a replica.
    of: &'a dyn Fn(&Clock, usize) -> Vec<f64>,
}

pub(super) fn load(canvas: &mut Canvas<'_>, run: &Recorder, groups: &[ReplicaKind]) {
    let end = run.observed();
    let unused = ReplicaLog::default();
    let of = |clock: &Clock, id: usize| {
        clock.resample(&run.replicas.get(id).unwrap_or(&unused).inside(end))
    };
    let bands = Bands {
        heading: |group| format!("Requests inside, {}", group_name(group)),
        is_of: |_| true,
        side: "requests",
        unit: "",
        // requests are whole: four at least, so that ticks are
        axis: |most| Axis::from_zero(most.max(4.0), 4.0),
        of: &of,
    };
    bands.draw(canvas, run, groups);
}

/// The height of the figure of links: one panel for each group that has some.
pub(super) fn nics_height(groups: &[ReplicaKind]) -> f64 {
    let count = groups.iter().filter(|group| has_nics(group)).count();
    TOP + count as f64 * PANEL_HEIGHT + FOOT
}

fn has_nics(group: &ReplicaKind) -> bool {
    group.nic_bytes_per_s.is_some()
}

pub(super) fn nics(canvas: &mut Canvas<'_>, run: &Recorder, groups: &[ReplicaKind]) {
    let rates: Vec<f64> = ReplicaKind::ids(groups)
        .flat_map(|(group, ids)| ids.map(|_| group.nic_bytes_per_s.unwrap_or(1.0)))
        .collect();
    let of = |clock: &Clock, id: usize| {
        let carried = run.carried.over_time(id).map(|carried| clock.resample(carried));
        let mut shares = carried.unwrap_or_else(|| vec![0.0; clock.spans]);
        for share in &mut shares {
            *share *= 100.0 / rates[id];
        }
        shares
    };
    let bands = Bands {
        heading: |group| {
            let direction = if group.role == Role::Decode { "into" } else { "out of" };
            format!("NICs {direction} {}", group_name(group))
        },
        is_of: has_nics,
        side: "in use (%)",
        unit: "%",
        axis: |most| Axis::from_zero(most.max(1.0), 4.0),
        of: &of,
    };
    bands.draw(canvas, run, groups);
}

impl Bands<'_> {
    fn draw(&self, canvas: &mut Canvas<'_>, run: &Recorder, groups: &[ReplicaKind]) {
        let Some(clock) = Clock::of_replicas(run.observed()) else {
            let heading = groups.first().map(self.heading).unwrap_or_default();
            return say_nothing(canvas, height(groups), &heading);
        };
        let shown: Vec<_> =
            ReplicaKind::ids(groups).filter(|(group, _)| (self.is_of)(group)).collect();
        let count = shown.len();
        for (index, (group, ids)) in shown.into_iter().enumerate() {
            let top = TOP + index as f64 * PANEL_HEIGHT;
            let band = Band::of(ids.map(|id| (self.of)(&clock, id)), clock.spans);
            let panel = Panel {
                left: LEFT,
                right: RIGHT,
                top: top + HEADING,
                bottom: top + PANEL_HEIGHT,
                x: clock.axis.clone(),
                y: (self.axis)(band.most.iter().copied().fold(0.0, f64::max)),
            };
            panel.draw(canvas, self.side);
            panel.draw_heading(canvas, &(self.heading)(group));
            let mean = format!("mean {} {}", significant(clock.mean(&band.mean)), self.unit);
            panel.draw_key(canvas, 0, Ink::BLUE, mean.trim_end());
            if group.replicas > 1 {
                panel.draw_patch_key(canvas, 1, (Ink::BLUE, 0.2), "least to most of a replica");
                let mut outline = clock.staircase(&panel, &band.most);
                outline.extend(clock.staircase(&panel, &band.least).into_iter().rev());
                canvas.shade(&outline, Ink::BLUE, 0.2);
            }
            canvas.line(&clock.staircase(&panel, &band.mean), Ink::BLUE, 1.6);
            if index + 1 == count {
                panel.draw_foot(canvas, &clock.title);
            }
        }
    }
}

/// The spans of a group.
struct Band {
    least: Vec<f64>,
    mean: Vec<f64>,
    most: Vec<f64>,
}

impl Band {
    fn of(replicas: impl Iterator<Item = Vec<f64>>, spans: usize) -> Self {
        let (mut least, mut most) = (vec![f64::INFINITY; spans], vec![0.0_f64; spans]);
        let (mut sum, mut count) = (vec![0.0; spans], 0.0);
        for means in replicas {
            count += 1.0;
            for (span, mean) in means.into_iter().enumerate() {
                least[span] = least[span].min(mean);
                most[span] = most[span].max(mean);
                sum[span] += mean;
            }
        }
        Self { least, mean: sum.iter().map(|sum| sum / count).collect(), most }
    }
}
