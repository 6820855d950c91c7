//! Which of many answers nobody would want to do without.

/// The places of those points that no other beats or equals in both coordinates and beats in one: the first
/// coordinate is better the smaller it is, the second the larger. In order of the first.
pub fn pareto(points: &[(f64, f64)]) -> Vec<usize> {
    let mut places: Vec<usize> = (0..points.len()).collect();
    let order = |a: &usize, b: &usize| {
        let ((x_a, y_a), (x_b, y_b)) = (points[*a], points[*b]);
        x_a.total_cmp(&x_b).then(y_b.total_cmp(&y_a)).then(a.cmp(b))
    };
    places.sort_by(order);
    let mut best = f64::NEG_INFINITY;
    places.retain(|place| {
        let is_on_it = points[*place].1 > best;
        best = best.max(points[*place].1);
        is_on_it
    });
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beaten_in_both_is_left_out() {
        let points = [(3.0, 5.0), (1.0, 1.0), (2.0, 4.0), (2.0, 3.0), (4.0, 5.0), (1.0, 0.5)];
        assert_eq!(pareto(&points), [1, 2, 0]);
        assert_eq!(pareto(&[]), [0_usize; 0]);
    }
}
