//! The residuals over the positions of the parameters, as Levenberg–Marquardt wants them.

use levenberg_marquardt::LeastSquaresProblem;
use nalgebra::{DMatrix, DVector, Dyn, Owned};
use rayon::prelude::*;

/// Residuals at a position; nothing where nothing can be simulated.
pub(super) type Residuals<'a> = &'a (dyn Fn(&[f64]) -> Option<Vec<f64>> + Sync);

/// The residuals of a position at which nothing can be simulated, as the solver sees them: it takes no step
/// there and tries a shorter one, where without residuals it would end.
const NEVER: f64 = 1e9;

/// Residuals and slopes at one position.
pub(super) struct Surface<'a> {
    residuals: Residuals<'a>,
    /// Half the distance over which slopes are taken. Schedules jump: a short one sees the jumps.
    reach: f64,
    at: DVector<f64>,
    /// `None` where nothing can be simulated.
    here: Option<DVector<f64>>,
    count: usize,
}

impl<'a> Surface<'a> {
    pub(super) fn new(residuals: Residuals<'a>, at: &[f64], reach: f64) -> Self {
        let at = DVector::from_column_slice(at);
        let here = residuals(at.as_slice()).map(DVector::from_vec);
        let count = here.as_ref().map_or(0, DVector::len);
        Self { residuals, reach, at, here, count }
    }

    pub(super) fn position(&self) -> &[f64] {
        self.at.as_slice()
    }

    /// Σ residual².
    pub(super) fn sum(&self) -> f64 {
        self.here.as_ref().map_or(f64::INFINITY, DVector::norm_squared)
    }

    /// The residuals at the position with one coordinate moved.
    fn moved(&self, coordinate: usize, by: f64) -> Option<DVector<f64>> {
        let mut at = self.at.clone();
        at[coordinate] += by;
        (self.residuals)(at.as_slice()).map(DVector::from_vec)
    }

    /// Goes one coordinate at a time by shrinking steps while that helps: slopes mislead where
    /// schedules jump.
    pub(super) fn polish(&mut self, steps: &[f64]) {
        for &step in steps {
            for coordinate in 0..self.at.len() {
                for by in [step, -step] {
                    let Some(there) = self.moved(coordinate, by) else { continue };
                    if there.norm_squared() < self.sum() {
                        self.at[coordinate] += by;
                        self.here = Some(there);
                        break;
                    }
                }
            }
        }
    }
}

impl LeastSquaresProblem<f64, Dyn, Dyn> for Surface<'_> {
    type ResidualStorage = Owned<f64, Dyn>;
    type JacobianStorage = Owned<f64, Dyn, Dyn>;
    type ParameterStorage = Owned<f64, Dyn>;

    fn set_params(&mut self, at: &DVector<f64>) {
        self.at.clone_from(at);
        self.here = (self.residuals)(at.as_slice()).map(DVector::from_vec);
    }

    fn params(&self) -> DVector<f64> {
        self.at.clone()
    }

    fn residuals(&self) -> Option<DVector<f64>> {
        Some(self.here.clone().unwrap_or_else(|| DVector::repeat(self.count, NEVER)))
    }

    /// Central differences, one side where the other cannot be simulated.
    fn jacobian(&self) -> Option<DMatrix<f64>> {
        let here = self.here.as_ref()?;
        let columns: Vec<DVector<f64>> = (0..self.at.len())
            .into_par_iter()
            .map(|coordinate| {
                let reach = self.reach;
                match (self.moved(coordinate, reach), self.moved(coordinate, -reach)) {
                    (Some(up), Some(down)) => (up - down) / (2.0 * reach),
                    (Some(up), None) => (up - here) / reach,
                    (None, Some(down)) => (here - down) / reach,
                    (None, None) => DVector::zeros(here.len()),
                }
            })
            .collect();
        Some(DMatrix::from_columns(&columns))
    }
}
