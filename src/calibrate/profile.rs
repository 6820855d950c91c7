//! How far a parameter can be moved, the others following, before the fit is clearly worse.

use nalgebra::{DMatrix, DVector};

use super::surface::Residuals;

/// 90 % quantile of χ² with one degree of freedom.
const CHI_SQUARE_90: f64 = 2.705_543;
/// Corrections of the other parameters after one was moved.
const FOLLOWING_STEPS: usize = 2;

/// The bottom of a sum of squares.
pub(super) struct Bottom<'a> {
    pub(super) residuals: Residuals<'a>,
    pub(super) at: DVector<f64>,
    pub(super) sum: f64,
    /// Slopes there: one row a residual, one column a parameter.
    pub(super) slopes: DMatrix<f64>,
    /// Covariance of the positions, before any widening.
    pub(super) covariance: DMatrix<f64>,
    /// Variance of the residuals, at least 1.
    pub(super) variance: f64,
}

impl Bottom<'_> {
    /// The positions of a parameter between which the 90 % interval lies.
    pub(super) fn interval(&self, parameter: usize) -> (f64, f64) {
        let reach =
            (self.variance * CHI_SQUARE_90 * self.covariance[(parameter, parameter)]).sqrt();
        let centre = self.at[parameter];
        let side = |sign: f64| centre + sign * self.distance(parameter, sign, reach);
        (side(-1.0), side(1.0))
    }

    /// The distance at which the sum has risen by the quantile: two parabolas, the first as wide
    /// as the covariance says.
    fn distance(&self, parameter: usize, sign: f64, reach: f64) -> f64 {
        let target = self.variance * CHI_SQUARE_90;
        let mut distance = reach;
        for _ in 0..2 {
            let Some(sum) = self.profile(parameter, sign * distance) else { return distance };
            let rise = (sum - self.sum).max(target / 16.0);
            distance *= (target / rise).sqrt();
        }
        distance
    }

    /// The least sum with a parameter moved `by` from the bottom.
    fn profile(&self, parameter: usize, by: f64) -> Option<f64> {
        let column = self.covariance.column(parameter);
        let mut at = &self.at + column * (by / column[parameter]);
        let others = self.slopes.clone().remove_column(parameter);
        let mut least: Option<f64> = None;
        for _ in 0..=FOLLOWING_STEPS {
            let residuals = DVector::from_vec((self.residuals)(at.as_slice())?);
            let sum = residuals.norm_squared();
            if least.is_some_and(|least| sum >= least) {
                break;
            }
            least = Some(sum);
            if others.ncols() == 0 {
                break;
            }
            let normal = others.transpose() * &others;
            let step = normal.cholesky()?.solve(&(others.transpose() * residuals));
            at -= step.insert_row(parameter, 0.0);
        }
        least
    }
}
