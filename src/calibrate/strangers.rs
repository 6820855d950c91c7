//! Runs of other servers than the one that is asked about.
//!
//! What kernels take differs between models. A model that is about as far from what is expected as servers are among
//! themselves tells of others; of one that is several times as far, something is its own, and that must not be taken for
//! theirs. The squares of the residuals of such a server count as a bounded function of their mean s, in standard
//! deviations: s / (1 + s / 2²) (S. Geman and D. E. `McClure`, Statistical methods for tomographic image reconstruction,
//! Bulletin of the ISI 52(4), 1987).

use std::collections::BTreeMap;

/// From how many standard deviations on a server says more of itself than of others.
const UNLIKE: f64 = 2.0;

/// Makes the residuals of other servers less, by how far each is off in all its runs: `servers` has the name of the
/// server of each run, if it is another one. All runs of a server were given the weight of one.
pub(super) fn doubt(servers: &[Option<&str>], residuals: &mut [Vec<f64>]) {
    let mut known: BTreeMap<&str, Distance> = BTreeMap::new();
    for (server, of_run) in servers.iter().zip(residuals.iter()) {
        let Some(server) = server else { continue };
        let distance = known.entry(server).or_default();
        distance.squares += of_run.iter().map(|one| one * one).sum::<f64>();
        distance.figures += of_run.len();
        distance.runs += 1;
    }
    for (server, of_run) in servers.iter().zip(residuals) {
        let Some(server) = server else { continue };
        let share = known[server].weight().sqrt();
        for one in of_run {
            *one *= share;
        }
    }
}

/// How far a server is off.
#[derive(Debug, Default)]
struct Distance {
    squares: f64,
    figures: usize,
    runs: usize,
}

impl Distance {
    /// What is left of the squares of its residuals, as a share.
    fn weight(&self) -> f64 {
        let per_run = self.figures.max(1) as f64 / self.runs.max(1) as f64;
        (1.0 + self.squares / per_run / (UNLIKE * UNLIKE)).recip()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left of the squares of one server with so many runs, each so far off and with the weight of one in all.
    fn left(runs: usize, off: f64) -> f64 {
        let mut residuals = vec![vec![off / (runs as f64).sqrt(); 3]; runs];
        doubt(&vec![Some("other"); runs], &mut residuals);
        residuals.iter().flatten().map(|one| one * one).sum()
    }

    #[test]
    fn one_that_is_off_by_chance_counts_and_one_that_is_far_off_does_not_count_for_more() {
        // 3 · 0.2² / (1 + 0.2² / 2²)
        assert!((left(1, 0.2) - 0.12 / 1.01).abs() < 1e-12);
        // Never more than 3 · 2².
        assert!(left(1, 10.0) < left(1, 100.0) && left(1, 100.0) < 12.0);
    }

    #[test]
    fn many_runs_of_one_are_doubted_as_one() {
        assert!((left(8, 3.0) - left(1, 3.0)).abs() < 1e-12);
    }

    #[test]
    fn each_is_doubted_by_itself_and_the_runs_of_the_server_itself_are_not() {
        let mut residuals = vec![vec![4.0], vec![4.0], vec![0.0]];
        doubt(&[None, Some("far"), Some("near")], &mut residuals);
        // 4 · √(1 / (1 + 4² / 2²))
        let expected = [4.0, 4.0 / 5.0_f64.sqrt(), 0.0];
        for (of_run, expected) in residuals.iter().zip(expected) {
            assert!((of_run[0] - expected).abs() < 1e-12, "{of_run:?}");
        }
    }
}
