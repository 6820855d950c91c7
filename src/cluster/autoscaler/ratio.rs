//! The replicas that bring a signal to its target.
//!
//! Kubernetes' rule is ⌈replicas × value / target⌉, unless value / target is within the tolerance of 1
//! (`replica_calculator.go`, 1.33). For a total over all of them, an external metric with a target per
//! replica (`AverageValue`), that is ⌈total / target⌉. Metrics of single pods are corrected for pods that
//! are not ready, which is not done here.

/// Off a whole number by less than this, a quotient is that number: 3 × 0.6 / 0.6 are 3 replicas.
const ROUNDING: f64 = 1e-9;

/// The replicas for a `total` over all of them of what should be `target` in each, where there are
/// `replicas`, those that start included.
pub(super) fn recommend(total: f64, target: f64, tolerance: f64, replicas: u32) -> u32 {
    let asked = total / target;
    let ratio = asked / f64::from(replicas.max(1));
    if (ratio - 1.0).abs() <= tolerance + ROUNDING {
        return replicas;
    }
    // More than any cluster has stays more than that.
    (asked - ROUNDING).ceil().clamp(0.0, f64::from(u32::MAX)) as u32
}

#[cfg(test)]
mod tests {
    use super::recommend;

    #[test]
    fn as_many_as_bring_each_to_the_target() {
        // 50 requests at 8 each ask for 6.25.
        assert_eq!(recommend(50.0, 8.0, 0.1, 4), 7);
        assert_eq!(recommend(50.0, 8.0, 0.1, 20), 7);
        assert_eq!(recommend(0.0, 8.0, 0.1, 20), 0);
        assert_eq!(recommend(1e300, 1e-300, 0.1, 2), u32::MAX);
    }

    #[test]
    fn within_the_tolerance_nothing_changes() {
        // 4 replicas at 8 each: 32, and up to a tenth more or less.
        for total in [28.8, 30.0, 35.2] {
            assert_eq!(recommend(total, 8.0, 0.1, 4), 4, "{total}");
        }
        assert_eq!(recommend(35.3, 8.0, 0.1, 4), 5);
        assert_eq!(recommend(28.7, 8.0, 0.1, 4), 4, "less than a replica too many");
        assert_eq!(recommend(24.0, 8.0, 0.1, 4), 3);
    }

    #[test]
    fn a_load_that_stays_comes_to_rest_at_once() {
        for total in 0..400 {
            for target in [0.7, 1.0, 3.0, 8.0] {
                let first = recommend(f64::from(total), target, 0.1, 5).max(1);
                let again = recommend(f64::from(total), target, 0.1, first).max(1);
                assert_eq!(first, again, "{total} at {target} each");
            }
        }
    }
}
