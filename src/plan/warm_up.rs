//! The start of a run, in which the engines are emptier than they will be.
//!
//! MSER-5 (White: An effective truncation heuristic for bias reduction in simulation output, Simulation
//! 69(6), 1997): of the means of five values in a row, those are cut from the front without which the
//! standard error of the mean of the rest is least. They are cut only if they are faster than the rest: a burst is
//! no warm-up.

/// How much of the front of a run does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WarmUp {
    /// All requests count: those of a recorded trace, for example.
    Counts,
    /// What MSER-5 cuts from the times to first token, at most half.
    Mser5,
}

/// Values that MSER-5 cuts from the front, at most half.
pub fn mser5(values: &[f64]) -> usize {
    let means: Vec<f64> =
        values.chunks_exact(5).map(|five| five.iter().sum::<f64>() / 5.0).collect();
    let (mut sum, mut squares) = (0.0, 0.0);
    let mut least = (f64::INFINITY, 0);
    // From the back, so that every rest is one addition.
    for (place, mean) in means.iter().enumerate().rev() {
        sum += mean;
        squares += mean * mean;
        let rest = (means.len() - place) as f64;
        let error = (squares - sum * sum / rest).max(0.0) / (rest * rest);
        if 2 * place <= means.len() && error <= least.0 {
            least = (error, place);
        }
    }
    let cut = least.1 * 5;
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len().max(1) as f64;
    // A run that begins empty is too fast at first. What is slower than the rest belongs to it.
    if cut > 0 && mean(&values[..cut]) < mean(&values[cut..]) { cut } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ramp_before_a_plateau_is_cut() {
        let ramp = (0..100).map(f64::from);
        let plateau = (0..900).map(|place| 100.0 + f64::from(place % 7));
        let values: Vec<f64> = ramp.chain(plateau).collect();
        let cut = mser5(&values);
        assert!((90..=110).contains(&cut), "{cut}");
    }

    #[test]
    fn of_what_is_alike_all_through_nothing_much_is_cut() {
        let values: Vec<f64> = (0..1000).map(|place| f64::from(place * 37 % 101)).collect();
        assert!(mser5(&values) <= 100, "{}", mser5(&values));
        assert_eq!(mser5(&[]), 0);
        assert_eq!(mser5(&[3.0; 4]), 0);
    }

    #[test]
    fn a_burst_at_the_start_counts() {
        let values: Vec<f64> =
            (0..1000).map(|place| if place < 200 { 90.0 } else { 10.0 }).collect();
        assert_eq!(mser5(&values), 0);
    }

    #[test]
    fn at_most_half_is_cut() {
        let values: Vec<f64> = (0..1000).map(f64::from).collect();
        assert!(mser5(&values) <= 500);
    }
}
