//! What a plan is asked.

use super::study::Study;
use super::{PlanError, PriceList, WarmUp};
use crate::load::{Draft, Listener};
use crate::scenario::Offer;
use crate::sweep::Axis;

/// Who prefills and who decodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayoutKind {
    /// Every replica does everything.
    Mixed,
    /// Some replicas prefill, others decode.
    Disaggregated,
}

/// What is sought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Seeks {
    /// The fewest replicas of each layout that meet the SLOs.
    #[default]
    FewestReplicas,
    /// The highest rate at which the replicas of the scenario meet them.
    HighestRate,
}

/// A question to a plan: a scenario, SLOs, and what may be chosen.
///
/// ```
/// use servecast::Plan;
///
/// let mut plan = Plan::new(servecast::load::built_in().with("workload.num_requests", 100)?);
/// plan.slos = vec!["p99_ttft_ms<=5000".to_owned()];
/// plan.tensor_parallel = vec![1, 2];
/// plan.resamples = 0;
/// let answer = plan.read()?.answer()?;
/// let (row, cheapest) = answer.winner().expect("some layout meets the SLO");
/// println!("{} x {}: {} GPUs", cheapest.size.name(), answer.layout(row.place), cheapest.gpus);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Plan {
    /// The requests, the model, the engine and the router.
    pub draft: Draft,
    /// SLOs as [`Slo::parse`](super::Slo::parse) reads them; all must hold.
    pub slos: Vec<String>,
    /// GPUs to choose from, by name or by the path of a file; that of the scenario if empty.
    pub gpus: Vec<String>,
    /// Tensor-parallel sizes to choose from; that of the scenario if empty.
    pub tensor_parallel: Vec<u32>,
    /// Other settings to choose: layouts have every combination of their values.
    pub vary: Vec<Axis>,
    /// Kinds of layouts to choose from; that of the scenario if empty.
    pub kinds: Vec<LayoutKind>,
    /// Which offers of the catalogue hold; low ones if absent.
    pub offer: Option<Offer>,
    /// What an hour of a GPU costs in US dollars, by its name. Where neither these, nor `price_list`, nor `offer` say anything,
    /// `report.prices` of the scenario does.
    pub prices: Vec<(String, f64)>,
    /// Prices of a file, which hold where `prices` has none.
    pub price_list: Option<PriceList>,
    /// Whether layouts are searched that cannot be among the two cheapest, and each is told of on its own.
    pub all: bool,
    /// GPUs of a cluster at most.
    pub max_gpus: u32,
    /// What is sought.
    pub seeks: Seeks,
    /// How often the answer is found again for other requests: other draws or, of a trace, stretches
    /// resampled from it.
    pub resamples: u32,
    /// Whether it is planned for typical servers, where nothing is said of them, and not for such as are slower than
    /// 19 of 20 of their class.
    pub point: bool,
    /// Windows, in seconds, in which a perfect autoscaler could change the number of replicas.
    pub window_s: f64,
    /// GB per second of the network for each GPU in each direction, where prefill and decode are apart and
    /// the scenario does not say; 50 if absent.
    pub nic_gb_per_s: Option<f64>,
    /// What of a run counts; if absent, of a trace everything, else all after the warm-up that MSER-5 finds.
    pub warm_up: Option<WarmUp>,
    /// Who hears of notes.
    pub listener: Listener,
}

impl Plan {
    /// A plan for a scenario; SLOs are to be given.
    pub fn new(draft: Draft) -> Self {
        Self {
            draft,
            slos: Vec::new(),
            gpus: Vec::new(),
            tensor_parallel: Vec::new(),
            vary: Vec::new(),
            kinds: Vec::new(),
            offer: None,
            prices: Vec::new(),
            price_list: None,
            all: false,
            max_gpus: 1024,
            seeks: Seeks::default(),
            resamples: 8,
            point: false,
            window_s: 60.0,
            nic_gb_per_s: None,
            warm_up: None,
            listener: Listener::default(),
        }
    }

    /// Reads the question: draws the requests and looks all names up.
    ///
    /// # Errors
    /// When a rule is broken, by the scenario or by the question.
    pub fn read(self) -> Result<Study, PlanError> {
        Study::new(self)
    }
}
