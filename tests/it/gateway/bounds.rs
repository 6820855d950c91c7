//! The laws of the orders: no place is left free while somebody waits, first come is first sent, and what
//! tenants that wait are served differs by no more than the bound of their order.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;

use servecast::cluster::{Next, Queue, Ranks, Room};
use servecast::ids::{ClassId, InstanceId, ModelId, RequestId};
use servecast::request::Request;
use servecast::scenario::{ClassConfig, GatewayConfig, GatewayOrder};
use servecast::units::SimTime;

use super::{Doing, Told, run_with, scenario};

const ORDERS: [&str; 4] = ["fcfs", "priority", "vtc", "drr"];

const CLASSES: &str = "[[workload.classes]]\nname = 'a'\nshare = 0.7\npriority = 2\n\
                       [[workload.classes]]\nname = 'b'\nshare = 0.3\npriority = 1\n\
                       input_tokens = { type = 'uniform', min_tokens = 1, max_tokens = 3000 }\n";

/// A workload beyond what two replicas serve, with clients that give up.
fn busy(seed: u64, order: &str, limit: u32) -> String {
    let classes = match order {
        "priority" => CLASSES.to_owned(),
        _ => CLASSES.replace("priority = 2\n", "").replace("priority = 1\n", ""),
    };
    let workload = format!(
        "num_requests = 120\narrivals = {{ type = 'poisson', rate_per_s = 30.0 }}\nlengths = {{ type = \
         'sampled', input_tokens = {{ type = 'uniform', min_tokens = 1, max_tokens = 900 }}, \
         output_tokens = {{ type = 'uniform', min_tokens = 1, max_tokens = 60 }} }}\n\
         client = {{ first_token_timeout_s = 6.0, cancellations = {{ share = 0.2, mean_s = 2.0 }} }}\n\
         {classes}"
    );
    let gateway = format!(
        "[cluster.gateway]\nmax_outstanding_per_replica = {limit}\nmax_waiting = 60\n\
         order = {{ type = '{order}' }}\n"
    );
    scenario(&workload, &gateway)
        .replace("name = 'gateway'", &format!("name = 'busy'\nseed = {seed}"))
}

#[test]
fn no_place_is_free_while_a_request_waits() {
    let mut waited = 0;
    for seed in 0..24 {
        let limit = 1 + seed as u32 % 5;
        let text = busy(seed, ORDERS[seed as usize % 4], limit);
        let mut told = Told::default();
        run_with(&text, &mut told);
        let mut waiting = BTreeSet::new();
        let mut at_replica: BTreeMap<RequestId, InstanceId> = BTreeMap::new();
        for (place, (at, doing)) in told.0.iter().enumerate() {
            match *doing {
                Doing::Came(id) => assert!(waiting.insert(id)),
                Doing::Sent(id, instance) => {
                    assert!(waiting.remove(&id));
                    at_replica.insert(id, instance);
                }
                Doing::Left(id) => {
                    waiting.remove(&id);
                    at_replica.remove(&id);
                }
            }
            let loads = [InstanceId(0), InstanceId(1)]
                .map(|instance| at_replica.values().filter(|at| **at == instance).count());
            assert!(loads.iter().all(|load| *load <= limit as usize), "seed {seed}: {loads:?}");
            // Between two instants the gateway has looked.
            if told.0.get(place + 1).is_some_and(|(next, _)| next > at) {
                let has_place = loads.iter().any(|load| *load < limit as usize);
                assert!(waiting.is_empty() || !has_place, "seed {seed}, {at}: {loads:?}\n{text}");
                waited += u32::from(!waiting.is_empty());
            }
        }
        assert!(waiting.is_empty());
    }
    assert!(waited > 1000, "requests wait often: {waited}");
}

#[test]
fn first_come_is_first_sent() {
    for seed in 0..8 {
        let mut told = Told::default();
        run_with(&busy(seed, "fcfs", 2), &mut told);
        let sent = told.0.iter().filter_map(|(_, doing)| match doing {
            Doing::Sent(id, _) => Some(*id),
            _ => None,
        });
        assert!(sent.is_sorted(), "seed {seed}");
    }
}

/// A request of a tenant, some time after the one before.
#[derive(Debug, Clone, Copy)]
struct Asked {
    after: u32,
    tenant: u16,
    prompt_tokens: u32,
    output_tokens: u32,
}

const TENANTS: u16 = 3;
const PROMPT: u32 = 400;
const OUTPUT: u32 = 30;

fn asked() -> impl Strategy<Value = Vec<Asked>> {
    let one = (prop_oneof![Just(0_u32), 0_u32..12], 0..TENANTS, 1..=PROMPT, 1..=OUTPUT);
    let one = one.prop_map(|(after, tenant, prompt_tokens, output_tokens)| Asked {
        after,
        tenant,
        prompt_tokens,
        output_tokens,
    });
    vec(one, 20..160)
}

/// Lets so many requests at a time have a token each in every unit of time. Returns the largest difference
/// between what two tenants were served over a time in which both waited.
fn play(order: GatewayOrder, asked: &[Asked], slots: usize, weights: (f64, f64)) -> f64 {
    let class = |tenant: u16| -> ClassConfig {
        toml::from_str(&format!("name = 'tenant {tenant}'\nshare = 0.1")).expect("a class")
    };
    let classes: Vec<ClassConfig> = (0..TENANTS).map(class).collect();
    let config = GatewayConfig {
        max_outstanding_per_replica: Some(slots as u32),
        order,
        ..GatewayConfig::default()
    };
    let mut room = Room::new(&config, &classes, Ranks::SmallerFirst);
    let mut coming = asked.iter().enumerate().scan(0, |time, (index, asked)| {
        *time += asked.after;
        Some((*time, RequestId::from_index(index), *asked))
    });
    let mut next_to_come = coming.next();
    let mut waiting = [0_u32; TENANTS as usize];
    let mut service = [0.0_f64; TENANTS as usize];
    let mut seen = Seen::default();
    let mut running: Vec<(RequestId, Asked, u32)> = Vec::new();
    for now in 0.. {
        if next_to_come.is_none() && room.is_empty() && running.is_empty() {
            break;
        }
        while let Some((_, id, asked)) = next_to_come.filter(|(time, ..)| *time <= now) {
            let request = Request {
                class: ClassId(asked.tenant),
                ..Request::new(SimTime::ZERO, asked.prompt_tokens, asked.output_tokens)
            };
            room.enter(id, &request, id.0);
            waiting[usize::from(asked.tenant)] += 1;
            next_to_come = coming.next();
        }
        seen.look(&waiting, &service);
        if let Queue::Vtc(vtc) = room.queue() {
            let generated = |id, _| running.iter().find(|(of, ..)| *of == id).map(|(.., out)| *out);
            vtc.count(generated);
        }
        room.sort();
        while running.len() < slots {
            let Next::Send(id) = room.next(SimTime::ZERO, ModelId::default()) else { break };
            room.sent(SimTime::ZERO, id, InstanceId(0));
            let asked = asked[id.index()];
            running.push((id, asked, 0));
            service[usize::from(asked.tenant)] += weights.0 * f64::from(asked.prompt_tokens);
            seen.look(&waiting, &service);
            waiting[usize::from(asked.tenant)] -= 1;
        }
        assert_eq!(room.overflow(), None);
        for (_, asked, out) in &mut running {
            *out += 1;
            service[usize::from(asked.tenant)] += weights.1;
        }
        seen.look(&waiting, &service);
        let queue = room.queue();
        running.retain(|(id, asked, out)| {
            let goes_on = *out < asked.output_tokens;
            if !goes_on {
                queue.left(*id, *out);
            }
            goes_on
        });
    }
    seen.largest
}

/// The least and the most of the difference of each pair since both wait.
#[derive(Debug, Default)]
struct Seen {
    range: BTreeMap<(usize, usize), (f64, f64)>,
    largest: f64,
}

impl Seen {
    fn look(&mut self, waiting: &[u32], service: &[f64]) {
        for one in 0..waiting.len() {
            for other in 0..one {
                if waiting[one] == 0 || waiting[other] == 0 {
                    self.range.remove(&(one, other));
                    continue;
                }
                let difference = service[one] - service[other];
                let range = self.range.entry((one, other)).or_insert((difference, difference));
                *range = (range.0.min(difference), range.1.max(difference));
                self.largest = self.largest.max(range.1 - range.0);
            }
        }
    }
}

/// The bound of the paper (theorem 4.4), where what a request in flight may yet add is what comes out of
/// all places, and of the prompt that was sent last.
fn vtc_bound(slots: usize) -> f64 {
    2.0 * (f64::from(PROMPT) + 2.0 * slots as f64 * f64::from(OUTPUT))
}

const QUANTUM: u32 = 64;

proptest! {
    #![proptest_config(crate::support::random_cases(200))]

    #[test]
    fn counters_keep_tenants_that_wait_within_their_bound(asked in asked(), slots in 1_usize..6) {
        let vtc = GatewayOrder::Vtc { input_weight: 1.0, output_weight: 2.0 };
        let largest = play(vtc, &asked, slots, (1.0, 2.0));
        prop_assert!(largest <= vtc_bound(slots), "{largest} of {}", vtc_bound(slots));
    }

    #[test]
    fn turns_keep_prompts_of_tenants_that_wait_within_their_bound(
        asked in asked(), slots in 1_usize..6, quantum in prop_oneof![Just(1_u32), Just(QUANTUM), Just(1000)],
    ) {
        let drr = GatewayOrder::Drr { quantum_tokens: quantum };
        let largest = play(drr, &asked, slots, (1.0, 0.0));
        let bound = f64::from(quantum + 2 * PROMPT);
        prop_assert!(largest <= bound, "{largest} of {bound}");
    }
}

#[test]
fn first_come_first_sent_keeps_no_bound() {
    let of = |tenant| Asked { after: 0, tenant, prompt_tokens: PROMPT, output_tokens: OUTPUT };
    let greedy: Vec<Asked> = (0..60).map(|index| of(u16::from(index >= 50))).collect();
    let fcfs = play(GatewayOrder::Fcfs {}, &greedy, 2, (1.0, 2.0));
    assert!(fcfs > 4.0 * vtc_bound(2), "{fcfs}");
    let vtc = GatewayOrder::Vtc { input_weight: 1.0, output_weight: 2.0 };
    assert!(play(vtc, &greedy, 2, (1.0, 2.0)) <= vtc_bound(2));
}

#[test]
fn a_tenant_that_comes_back_does_not_catch_up_on_what_it_did_not_ask_for() {
    let of = |after, tenant| Asked { after, tenant, prompt_tokens: 100, output_tokens: 1 };
    // Tenant 0 alone for a long time, then both: they take turns from then on.
    let mut requests: Vec<Asked> = (0..50).map(|_| of(1, 0)).collect();
    requests.extend((0..20).map(|index| of(0, index % 2)));
    let vtc = GatewayOrder::Vtc { input_weight: 1.0, output_weight: 2.0 };
    let largest = play(vtc, &requests, 1, (1.0, 2.0));
    assert!(largest <= 2.0 * 102.0, "{largest}");
}
