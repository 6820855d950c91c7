//! Linear least squares where columns may depend on each other, or be more than rows.

use super::dot;

/// Columns of a matrix.
pub(crate) type Columns = Vec<Vec<f64>>;

/// Singular values below this share of the largest one count as 0 (`rcond` of `numpy.linalg.pinv`).
const RELATIVE_ZERO: f64 = 1e-15;
/// Rounds over all pairs of columns; some ten are needed.
const MAX_ROUNDS: u32 = 60;

/// The shortest of the vectors x for which |columns · x − values| is least: what the pseudo-inverse gives. By one-sided
/// Jacobi rotations (M. Hestenes, Inversion of matrices by biorthogonalization and related results, 1958).
pub(crate) fn shortest_solution(columns: &Columns, values: &[f64]) -> Vec<f64> {
    let n = columns.len();
    let mut turned = columns.clone();
    // How the columns were turned: columns · turns = turned.
    let mut turns: Columns = (0..n).map(|i| (0..n).map(|j| f64::from(i == j)).collect()).collect();
    for _ in 0..MAX_ROUNDS {
        let mut is_orthogonal = true;
        for i in 0..n {
            for j in i + 1..n {
                let (a, b) = (dot(&turned[i], &turned[i]), dot(&turned[j], &turned[j]));
                let common = dot(&turned[i], &turned[j]);
                if common.abs() <= f64::EPSILON * (a * b).sqrt() || common == 0.0 {
                    continue;
                }
                is_orthogonal = false;
                let zeta = (b - a) / (2.0 * common);
                let tangent = zeta.signum() / (zeta.abs() + zeta.hypot(1.0));
                let cosine = 1.0 / tangent.hypot(1.0);
                turn(&mut turned, (i, j), cosine, cosine * tangent);
                turn(&mut turns, (i, j), cosine, cosine * tangent);
            }
        }
        if is_orthogonal {
            break;
        }
    }
    let squares: Vec<f64> = turned.iter().map(|column| dot(column, column)).collect();
    let largest = squares.iter().copied().fold(0.0, f64::max).sqrt();
    let mut solution = vec![0.0; n];
    for ((column, square), turn) in turned.iter().zip(squares).zip(&turns) {
        if square.sqrt() > RELATIVE_ZERO * largest {
            let share = dot(column, values) / square;
            solution.iter_mut().zip(turn).for_each(|(x, turn)| *x += share * turn);
        }
    }
    solution
}

fn turn(columns: &mut Columns, (i, j): (usize, usize), cosine: f64, sine: f64) {
    for row in 0..columns[i].len() {
        let (a, b) = (columns[i][row], columns[j][row]);
        columns[i][row] = cosine * a - sine * b;
        columns[j][row] = sine * a + cosine * b;
    }
}

#[cfg(test)]
mod tests {
    use super::shortest_solution;

    fn is_near(found: &[f64], expected: &[f64]) {
        let is_near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-9;
        assert!(found.iter().zip(expected).all(is_near), "{found:?} {expected:?}");
    }

    #[test]
    fn lines_are_found_and_of_many_solutions_the_shortest() {
        let line =
            shortest_solution(&vec![vec![1.0; 4], vec![0.0, 1.0, 2.0, 3.0]], &[1.0, 3.0, 5.0, 7.0]);
        is_near(&line, &[1.0, 2.0]);
        // x + 2y = 5 has (1, 2) nearest to the origin.
        is_near(&shortest_solution(&vec![vec![1.0], vec![2.0]], &[5.0]), &[1.0, 2.0]);
        // Two columns that are one.
        is_near(
            &shortest_solution(&vec![vec![1.0, 1.0], vec![1.0, 1.0]], &[2.0, 2.0]),
            &[1.0, 1.0],
        );
        is_near(&shortest_solution(&vec![vec![], vec![]], &[]), &[0.0, 0.0]);
    }
}
