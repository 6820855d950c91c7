//! What a run costs: GPU-hours, money, energy.
//!
//! Every GPU counts from the start of the run to its end, whether its replica has something to do or
//! not; one that an autoscaler starts and drains, from the order of its replica until that is off. In steps
//! that prefill it draws the power of prefills, also where others decode in them.

use serde::{Deserialize, Serialize};

use super::activity::StepKind;
use super::cluster::ReplicaKind;
use super::presence::Presence;
use super::recorder::Recorder;
use super::replica::ReplicaLog;
use crate::profiles;
use crate::scenario::{GpuPrice, ReportConfig};
use crate::units::SimTime;

/// What a run costs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bill {
    /// Hours of all GPUs together.
    pub gpu_hours: f64,
    /// In money, where the scenario has prices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// In energy, where the scenario says what GPUs draw.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy: Option<Energy>,
}

/// Money, in US dollars.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Of the run.
    pub usd: f64,
    /// For 10⁶ output tokens of finished requests; nothing where there are none.
    pub usd_per_million_output_tokens: Option<f64>,
    /// For 1000 finished requests; nothing where there are none.
    pub usd_per_1000_requests: Option<f64>,
    /// What an hour of each kind of GPU costs.
    pub prices: Vec<Price>,
}

/// What an hour of a GPU costs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Price {
    /// The GPU.
    pub gpu: String,
    /// US dollars.
    pub usd_per_hour: f64,
    /// Who says so.
    pub source: String,
}

/// Energy, in J.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Energy {
    /// Of the run.
    pub joules: f64,
    /// Of that, while devices computed nothing.
    pub idle_joules: f64,
    /// In steps that prefill.
    pub prefill_joules: f64,
    /// In steps that only decode.
    pub decode_joules: f64,
    /// What all GPUs together draw on average, in W.
    pub mean_watts: f64,
    /// For each output token of finished requests; nothing where there are none.
    pub joules_per_output_token: Option<f64>,
}

impl Bill {
    /// Of a recorded run on these replicas. Prices and power are those of a resolved scenario.
    pub fn new(recorder: &Recorder, groups: &[ReplicaKind], report: &ReportConfig) -> Self {
        let end = recorder.observed();
        let all_on = end.as_secs_f64() / 3600.0;
        let off = ReplicaKind::ids(groups).map(|(group, ids)| {
            let off = |id| off_s(recorder, id, end) / 3600.0 * f64::from(group.gpus);
            ids.map(off).sum::<f64>()
        });
        let off: Vec<f64> = off.collect();
        let hours = |place: usize| {
            all_on * f64::from(groups[place].replicas * groups[place].gpus) - off[place]
        };
        let (requests, tokens) = recorder.answered();
        Self {
            gpu_hours: (0..groups.len()).map(hours).sum(),
            cost: Cost::new(groups, hours, report, (requests, tokens)),
            energy: Energy::new(recorder, groups, report, tokens),
        }
    }

    /// In words, a line for each of money and energy that is known.
    pub fn text(&self) -> String {
        let or_dash =
            |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.4}"));
        let cost = self.cost.as_ref().map(|cost| {
            format!(
                "{:.4} GPU-hours cost {:.4} USD: {} per million output tokens, {} per 1000 requests\n",
                self.gpu_hours,
                cost.usd,
                or_dash(cost.usd_per_million_output_tokens),
                or_dash(cost.usd_per_1000_requests)
            )
        });
        let energy = self.energy.as_ref().map(|energy| {
            let share = |part: f64| 100.0 * part / energy.joules.max(f64::MIN_POSITIVE);
            format!(
                "Energy {:.4} kWh, {:.0} W on average: {:.0} % prefill, {:.0} % decode, {:.0} % idle; {} J \
                 per output token\n",
                energy.joules / 3.6e6,
                energy.mean_watts,
                share(energy.prefill_joules),
                share(energy.decode_joules),
                share(energy.idle_joules),
                or_dash(energy.joules_per_output_token)
            )
        });
        cost.unwrap_or_default() + &energy.unwrap_or_default()
    }
}

/// Seconds of a run until `end` in which a replica was off.
fn off_s(recorder: &Recorder, id: usize, end: SimTime) -> f64 {
    let off = |presence: Presence| !presence.is_on();
    recorder.presence.time(id, end, off).as_secs_f64()
}

fn for_each(whole: f64, count: u64, of: f64) -> Option<f64> {
    (count > 0).then(|| whole / (count as f64 / of))
}

impl Cost {
    fn new(
        groups: &[ReplicaKind],
        hours: impl Fn(usize) -> f64,
        report: &ReportConfig,
        (requests, tokens): (u64, u64),
    ) -> Option<Self> {
        let mut prices: Vec<Price> = Vec::new();
        let mut usd = 0.0;
        for (place, group) in groups.iter().enumerate() {
            let price = Price::of(&group.gpu, *report.prices.get(&group.gpu)?)?;
            usd += hours(place) * price.usd_per_hour;
            if prices.iter().all(|known| known.gpu != price.gpu) {
                prices.push(price);
            }
        }
        Some(Self {
            usd,
            usd_per_million_output_tokens: for_each(usd, tokens, 1e6),
            usd_per_1000_requests: for_each(usd, requests, 1e3),
            prices,
        })
    }
}

impl Price {
    fn of(gpu: &str, price: GpuPrice) -> Option<Self> {
        let offers = profiles::gpu(gpu).and_then(|spec| spec.price);
        let usd_per_hour = price.usd_per_hour(offers.as_ref())?;
        let source = match (price, offers) {
            (GpuPrice::Offer(_), Some(offers)) => offers.source,
            _ => "scenario".to_owned(),
        };
        Some(Self { gpu: gpu.to_owned(), usd_per_hour, source })
    }
}

impl Energy {
    fn new(
        recorder: &Recorder,
        groups: &[ReplicaKind],
        report: &ReportConfig,
        tokens: u64,
    ) -> Option<Self> {
        let end = recorder.observed();
        let whole = end.as_secs_f64();
        let unused = ReplicaLog::default();
        let (mut idle, mut prefill, mut decode) = (0.0, 0.0, 0.0);
        for (group, ids) in ReplicaKind::ids(groups) {
            let power = report.power.get(&group.gpu)?;
            let gpus = f64::from(group.gpus);
            for id in ids {
                let activity = &recorder.replicas.get(id).unwrap_or(&unused).activity;
                let spent = |kind| activity.spent(kind).as_secs_f64();
                let prefills = spent(StepKind::Prefill) + spent(StepKind::Mixed);
                let decodes = spent(StepKind::Decode);
                prefill += gpus * power.prefill_w * prefills;
                decode += gpus * power.decode_w * decodes;
                let on = whole - off_s(recorder, id, end);
                idle += gpus * power.idle_w * (on - prefills - decodes);
            }
        }
        let joules = idle + prefill + decode;
        Some(Self {
            joules,
            idle_joules: idle,
            prefill_joules: prefill,
            decode_joules: decode,
            mean_watts: joules / whole.max(1e-9),
            joules_per_output_token: for_each(joules, tokens, 1.0),
        })
    }
}
