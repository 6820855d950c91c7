//! Which of the clusters that were simulated nobody would want to do without.

use super::Answer;
use crate::plain::table;
use crate::plan::hunt::Tried;
use crate::plan::pareto;

/// Trials that were simulated to their end, as points.
#[derive(Debug)]
pub struct Front {
    /// With their places among all trials.
    pub points: Vec<(usize, (f64, f64))>,
    /// Of these points, those that no other beats in both coordinates.
    pub best: Vec<usize>,
}

impl Answer {
    /// Tokens per second per user, and tokens per second per GPU: the more the better.
    pub fn speeds(&self) -> Front {
        let points = self.ended(|tried| {
            let per_gpu = tried.trial.output_tokens_per_s / f64::from(tried.gpus);
            (tried.trial.tokens_per_s_per_user, per_gpu)
        });
        Front::new(points, |(user, gpu)| (-user, gpu))
    }

    /// USD per hour, and the 99th percentile of TTFT in ms: the less the better.
    pub fn costs(&self) -> Front {
        let points = self.ended(|tried| (tried.cost, tried.trial.p99_ttft_ms));
        Front::new(points, |(usd, ttft)| (usd, -ttft))
    }

    fn ended(&self, point: impl Fn(&Tried) -> (f64, f64)) -> Vec<(usize, (f64, f64))> {
        let all = self.tried.iter().enumerate();
        let ended = all.filter(|(_, (_, tried))| tried.trial.values.is_some());
        let points = ended.map(|(place, (_, tried))| (place, point(tried)));
        points.filter(|(_, (x, y))| x.is_finite() && y.is_finite()).collect()
    }

    pub(super) fn fronts_text(&self) -> String {
        let speeds = self.speeds();
        if speeds.points.is_empty() {
            return String::new();
        }
        let head = match speeds.points.len() {
            1 => "\nOne cluster was simulated to its end\n".to_owned(),
            count => {
                format!(
                    "\nOf {count} clusters that were simulated to their end, none is faster both for a user and per GPU than\n"
                )
            }
        };
        let titles = ["tokens/s per user", "tokens/s per GPU", "by"];
        let by_speed = self.front_table(titles, &speeds, [1, 1]);
        if !self.has_prices() {
            return head + &by_speed;
        }
        let and = if speeds.points.len() == 1 {
            ""
        } else {
            "None is both cheaper and quicker to answer than\n"
        };
        let costs = self.front_table(["USD/h", "P99 TTFT (ms)", "by"], &self.costs(), [2, 0]);
        format!("{head}{by_speed}\n{and}{costs}")
    }

    fn front_table(&self, titles: [&str; 3], front: &Front, decimals: [usize; 2]) -> String {
        let [of_x, of_y] = decimals;
        let mut rows = vec![titles.map(str::to_owned).to_vec()];
        rows.extend(front.best.iter().map(|place| {
            let (tried, (x, y)) = front.points[*place];
            vec![format!("{x:.of_x$}"), format!("{y:.of_y$}"), self.tried_name(tried)]
        }));
        table(&rows, &[2])
    }
}

impl Front {
    /// `mirrored` makes the first coordinate better the smaller, and the second the larger it is.
    fn new(points: Vec<(usize, (f64, f64))>, mirrored: impl Fn((f64, f64)) -> (f64, f64)) -> Self {
        let all: Vec<(f64, f64)> = points.iter().map(|(_, at)| mirrored(*at)).collect();
        Self { best: pareto(&all), points }
    }
}
