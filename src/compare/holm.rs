//! Several differences looked at together (S. Holm, A simple sequentially rejective multiple test
//! procedure, Scandinavian Journal of Statistics, 1979).

/// Which of these p-values stand at a confidence, such that with this confidence none of them is
/// chance: the smallest is held against 1/m of what may go wrong, the next against 1/(m−1), and so on,
/// up to the first that does not stand.
pub fn holm(p_values: &[f64], confidence: f64) -> Vec<bool> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let mut stand = vec![false; p_values.len()];
    for (tested, place) in order.into_iter().enumerate() {
        let left = (p_values.len() - tested) as f64;
        if p_values[place] * left >= 1.0 - confidence {
            break;
        }
        stand[place] = true;
    }
    stand
}
