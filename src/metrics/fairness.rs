//! How evenly tenants were served.
//!
//! Service is what the Virtual Token Counter counts: weighted tokens of prompts and answers. A request
//! counts whole at the moment at which it was sent to a replica.

use serde::Serialize;

use super::record::RequestRecord;
use super::recorder::Recorder;
use crate::ids::RequestId;
use crate::resolved::Scenario;
use crate::scenario::{GatewayOrder, tenants};
use crate::units::{SimDuration, SimTime};

/// What tenants were served.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fairness {
    /// What a prompt token counts.
    pub input_weight: f64,
    /// What a token of an answer counts.
    pub output_weight: f64,
    /// By tenant.
    pub tenants: Vec<TenantService>,
    /// Jain's index of that: 1 where all got the same, 1 / tenants where one got everything. In a run
    /// that answers every request this is the index of what was asked for. Nothing where nothing was
    /// served.
    pub jain_index: Option<f64>,
    /// The most by which what two tenants were served differed over a time in which both had requests
    /// waiting at the gateway.
    pub largest_difference: f64,
}

/// What a tenant was served.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TenantService {
    /// Its name.
    pub tenant: String,
    /// Weighted tokens of its prompts whose answers began, and of those answers.
    pub service: f64,
}

impl Fairness {
    /// Of a recorded run; nothing with one tenant.
    pub(super) fn new(recorder: &Recorder, scenario: &Scenario) -> Option<Self> {
        let (names, of_class) = tenants(&scenario.workload.classes);
        if names.len() < 2 {
            return None;
        }
        let order = scenario.gateway().map(|gateway| gateway.order);
        let weights = match order {
            Some(GatewayOrder::Vtc { input_weight, output_weight }) => {
                (input_weight, output_weight)
            }
            _ => GatewayOrder::VTC_WEIGHTS,
        };
        let tenant = |record: &RequestRecord| of_class[usize::from(record.class.0)] as usize;
        let mut service = vec![0.0; names.len()];
        for record in &recorder.requests {
            service[tenant(record)] += served(record, weights);
        }
        let named = names.iter().zip(&service);
        let named = named
            .map(|(name, service)| TenantService { tenant: (*name).into(), service: *service });
        Some(Self {
            input_weight: weights.0,
            output_weight: weights.1,
            tenants: named.collect(),
            jain_index: jain(&service),
            largest_difference: differences(recorder, names.len(), tenant, weights),
        })
    }

    pub(super) fn text(&self) -> String {
        let Some(index) = self.jain_index else { return String::new() };
        let sum: f64 = self.tenants.iter().map(|tenant| tenant.service).sum();
        let part = |tenant: &TenantService| {
            format!("{} {:.1} %", tenant.tenant, 100.0 * tenant.service / sum)
        };
        let parts: Vec<String> = self.tenants.iter().map(part).collect();
        let waited = if self.largest_difference > 0.0 {
            format!(
                "; differed by {:.0} weighted tokens at most while both waited",
                self.largest_difference
            )
        } else {
            String::new()
        };
        format!("Served: {} (Jain's index {index:.3}){waited}\n", parts.join(", "))
    }
}

/// Nothing where no answer began.
fn served(record: &RequestRecord, (input_weight, output_weight): (f64, f64)) -> f64 {
    let output = f64::from(record.output_tokens);
    let input = if record.output_tokens > 0 { f64::from(record.prompt_tokens) } else { 0.0 };
    input_weight * input + output_weight * output
}

/// Jain's fairness index: (Σx)² / (n·Σx²). Nothing where all is 0.
fn jain(values: &[f64]) -> Option<f64> {
    let squares: f64 = values.iter().map(|value| value * value).sum();
    let sum: f64 = values.iter().sum();
    (squares > 0.0).then(|| sum * sum / (values.len() as f64 * squares))
}

/// The largest difference of service between two tenants over any time in which both wait.
fn differences(
    recorder: &Recorder,
    tenants: usize,
    tenant: impl Fn(&RequestRecord) -> usize,
    weights: (f64, f64),
) -> f64 {
    // At one instant requests come before others leave.
    let mut changes: Vec<(SimTime, bool, usize)> = Vec::new();
    let records = &recorder.requests;
    for (place, record) in records.iter().enumerate() {
        let wait = recorder.gateway_wait_of(place);
        let waits_on = recorder.gateway.is_here(RequestId::from_index(place));
        if waits_on || wait > SimDuration::ZERO {
            changes.push((record.sent, false, place));
        }
        if !waits_on {
            changes.push((record.sent + wait, true, place));
        }
    }
    changes.sort_unstable();
    let mut waiting = vec![0_u32; tenants];
    let mut service = vec![0.0; tenants];
    // For each pair the least and the most of the first's service less the second's, since both wait.
    let mut range = vec![(0.0_f64, 0.0_f64); tenants * tenants];
    let mut largest = 0.0_f64;
    for (_, leaves, place) in changes {
        let own = tenant(&records[place]);
        if !leaves {
            waiting[own] += 1;
            if waiting[own] == 1 {
                for other in (0..tenants).filter(|other| waiting[*other] > 0) {
                    let difference = service[own] - service[other];
                    range[own * tenants + other] = (difference, difference);
                    range[other * tenants + own] = (-difference, -difference);
                }
            }
            continue;
        }
        service[own] += served(&records[place], weights);
        let waited = recorder.gateway_wait_of(place) > SimDuration::ZERO;
        if !waited && waiting[own] == 0 {
            continue;
        }
        for other in (0..tenants).filter(|other| waiting[*other] > 0 && *other != own) {
            let difference = service[own] - service[other];
            for (pair, difference) in
                [(own * tenants + other, difference), (other * tenants + own, -difference)]
            {
                let (least, most) = &mut range[pair];
                (*least, *most) = (least.min(difference), most.max(difference));
                largest = largest.max(*most - *least);
            }
        }
        waiting[own] -= u32::from(waited);
    }
    largest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{ClassId, InstanceId};
    use crate::request::Request;

    #[test]
    fn the_index_is_one_for_equals_and_a_share_for_one_who_gets_all() {
        assert_eq!(jain(&[3.0, 3.0, 3.0]), Some(1.0));
        assert_eq!(jain(&[0.0, 8.0, 0.0, 0.0]), Some(0.25));
        // (1 + 3)² / (2 · (1 + 9))
        assert_eq!(jain(&[1.0, 3.0]), Some(0.8));
        assert_eq!(jain(&[0.0, 0.0]), None);
    }

    #[test]
    fn differences_count_only_while_both_wait() {
        let at = |ms: u64| SimTime::from_nanos(ms * 1_000_000);
        let mut recorder = Recorder::default();
        let mut came = |id: u32, class: u16, at_ms: u64, output_tokens: u32| {
            let request = Request { class: ClassId(class), ..Request::new(at(at_ms), 10, 5) };
            let mut record = RequestRecord::arrived(at(at_ms), &request);
            record.output_tokens = output_tokens;
            recorder.requests.push(record);
            recorder.reach(at(at_ms), RequestId(id));
        };
        // Tenant 0 sends 10 + 5 at 2 ms and at 3 ms while tenant 1 waits, and once when it no longer does.
        came(0, 0, 0, 5);
        came(1, 0, 0, 5);
        came(2, 1, 1, 5);
        came(3, 0, 5, 500);
        for (id, at_ms) in [(0, 2), (1, 3), (2, 4), (3, 9)] {
            recorder.send(at(at_ms), RequestId(id), InstanceId(0));
        }
        let tenant = |record: &RequestRecord| usize::from(record.class.0);
        let largest = differences(&recorder, 2, tenant, (1.0, 1.0));
        assert!((largest - 30.0).abs() < 1e-9, "{largest}");
    }
}
