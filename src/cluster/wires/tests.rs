//! Laws on random mixes of all that moves, against the links each of them takes by hand and a slow filling;
//! and examples worked by hand.

use proptest::prelude::*;

use super::*;
use crate::cluster::autoscaler::weights::Weights;
use crate::cluster::{
    Disaggregation, Messages, Order, Roles, Router, TierLinks, TierRates, TransferEnd, Way,
};
use crate::engine::tiers::{TierMove, TierWay};
use crate::ids::RequestId;
use crate::network::Protocol;
use crate::network::tests::oracle::{self, Demand};
use crate::request::Request;
use crate::rng::Seed;
use crate::scenario::RouterConfig;
use crate::units::{Bytes, SimDuration};

const GB: f64 = 1e9;
const GIB: f64 = 1_073_741_824.0;
const CHUNK: u64 = 1_000_000;
const PREFILLS: u32 = 2;
const DECODES: u32 = 2;

/// What links carry, in bytes per second.
#[derive(Debug, Clone)]
struct Rates {
    /// Of each replica in each direction.
    nics: Vec<f64>,
    bus: f64,
    disk: [f64; 2],
    servers: Option<f64>,
    /// What the place of weights gives, and the link of each replica to it.
    weights: [Option<f64>; 2],
}

#[derive(Debug, Clone, Copy)]
enum What {
    /// KV of so many bytes, from one replica to another.
    Transfer(u32, u32, u32),
    /// So many chunks of a replica.
    Move(u32, TierWay, u32),
    /// Weights of a replica.
    Weights(u32),
}

/// Something that begins, and is cancelled a while later if it is still on its way.
#[derive(Debug, Clone, Copy)]
struct Flow {
    begins: u64,
    what: What,
    cancelled_after: Option<u64>,
}

/// Two replicas that prefill, with a disk and a pool, and two that decode; all may load weights.
struct Driven {
    wires: Wires,
    parts: Disaggregation,
    tiers: TierLinks,
    weights: Weights,
}

const WEIGHT_BYTES: u64 = 3_000_000;

impl Driven {
    fn new(rates: &Rates) -> Self {
        let mut wires = Wires::default();
        let kind = |replica: usize| {
            let rates = TierRates {
                pcie: rates.bus,
                disk: Some(rates.disk),
                nic: Some(rates.nics[replica]),
                servers: rates.servers,
            };
            (1, rates, Bytes(CHUNK))
        };
        let kinds = [kind(0), kind(1)];
        let tiers = TierLinks::of_kinds(&mut wires, &kinds, SimDuration::ZERO).unwrap();
        let end = |nic_bytes_per_s: &f64| TransferEnd {
            nic_bytes_per_s: *nic_bytes_per_s,
            kv_bytes_per_token: 1,
            gpus: 1,
            head_shards: 1,
        };
        let ends: Vec<_> = rates.nics.iter().map(end).collect();
        let way = Way {
            latency: SimDuration::ZERO,
            protocol: Protocol::default(),
            messages: Messages { of_block: 1, seconds: 0.0, overhead_bytes: 0 },
        };
        let roles = Roles { whole: 0, prefills: PREFILLS, decodes: DECODES };
        let router = Router::new(&RouterConfig::RoundRobin {}, Seed::default());
        let order = (roles, Order::SourceFirst);
        let parts = Disaggregation::new(&mut wires, order, router, 1, &ends, way).unwrap();
        let config = format!(
            "max_replicas = {}\nsignal = {{ type = 'outstanding_per_replica', target = 1.0 }}",
            PREFILLS + DECODES
        );
        let mut config: crate::scenario::AutoscalerConfig = toml::from_str(&config).unwrap();
        let [source, own] = rates.weights.map(|rate| rate.map(|rate| rate / GIB));
        (config.weights_source_gib_per_s, config.weights_gib_per_s) = (source, own);
        let weights = Weights::new(&mut wires, &config, (InstanceId(0), WEIGHT_BYTES));
        Self { wires, parts, tiers, weights }
    }

    /// Begins something with this number; what it carries.
    fn begin(&mut self, number: u32, what: What, now: SimTime) -> Option<Cargo> {
        let Self { wires, parts, tiers, weights } = self;
        match what {
            What::Transfer(from, to, bytes) => {
                let (request, prefill) = (RequestId(number), InstanceId(from));
                let decode = InstanceId(PREFILLS + to);
                parts.taken(request, Request::new(now, 1, 1), prefill);
                parts.start(wires, request, decode, bytes, now);
                Some(Cargo::Kv(Transfer { request, prefill, decode }))
            }
            What::Move(replica, way, chunks) => {
                let what = TierMove { id: number, way, chunks };
                tiers.start(wires, InstanceId(replica), &what, now);
                Some(Cargo::Chunks(InstanceId(replica), number))
            }
            What::Weights(replica) => {
                let instance = InstanceId(replica);
                weights.load(wires, now, instance).then_some(Cargo::Weights(instance))
            }
        }
    }

    /// When each ends, or is cancelled.
    fn ends(&mut self, flows: &[Flow]) -> Vec<Option<u64>> {
        let mut ends = vec![None; flows.len()];
        let mut inside: Vec<(usize, Cargo)> = Vec::new();
        let mut changes: Vec<(u64, bool, usize)> = Vec::new();
        for (index, flow) in flows.iter().enumerate() {
            changes.push((flow.begins, true, index));
            changes.extend(flow.cancelled_after.map(|after| (flow.begins + after, false, index)));
        }
        changes.sort_unstable();
        let mut changes = changes.into_iter().peekable();
        loop {
            let given = changes.peek().map(|(at, ..)| *at);
            let own = self.wires.next_change().map(SimTime::as_nanos);
            let Some(now) = given.into_iter().chain(own).min() else { return ends };
            let mut arrived = Vec::new();
            self.wires.advance(SimTime::from_nanos(now), &mut arrived);
            for cargo in arrived {
                let place = inside.iter().position(|(_, inside)| *inside == cargo);
                ends[inside.remove(place.expect("it was on its way")).0] = Some(now);
            }
            while let Some((_, begins, index)) = changes.next_if(|(at, ..)| *at == now) {
                let at = SimTime::from_nanos(now);
                let place = inside.iter().position(|(inside, _)| *inside == index);
                if begins {
                    match self.begin(index as u32, flows[index].what, at) {
                        Some(cargo) => inside.push((index, cargo)),
                        None => ends[index] = Some(now),
                    }
                } else if let Some(place) = place {
                    let (_, cargo) = inside.remove(place);
                    assert!(self.wires.cancel(at, |other| other == cargo), "{cargo:?}");
                    ends[index] = Some(now);
                }
            }
        }
    }
}

/// The same with links that are written down by hand, where all rates are filled from nothing at every change.
struct Slow {
    capacities: Vec<f64>,
}

impl Slow {
    const REPLICAS: usize = (PREFILLS + DECODES) as usize;
    // Eight of each replica, then those of all.
    const NIC_IN: usize = 0;
    const NIC_OUT: usize = 1;
    const BUS_UP: usize = 2;
    const BUS_DOWN: usize = 3;
    const DISK_READ: usize = 4;
    const DISK_WRITE: usize = 5;
    const WEIGHTS: usize = 6;
    const SERVERS_UP: usize = 8 * Self::REPLICAS;
    const SERVERS_DOWN: usize = Self::SERVERS_UP + 1;
    const SOURCE: usize = Self::SERVERS_UP + 2;

    fn new(rates: &Rates) -> Self {
        let unlimited = f64::INFINITY;
        let [source, own] = rates.weights.map(|rate| rate.unwrap_or(unlimited));
        let [read, write] = rates.disk;
        let servers = rates.servers.unwrap_or(unlimited);
        let of_replica = |nic: &f64| [*nic, *nic, rates.bus, rates.bus, read, write, own, 0.0];
        let capacities = rates.nics.iter().flat_map(of_replica);
        Self { capacities: capacities.chain([servers, servers, source]).collect() }
    }

    fn demand(&self, what: What) -> (Demand, f64) {
        let of = |replica: u32, link: usize| 8 * replica as usize + link;
        let (links, bytes) = match what {
            What::Transfer(from, to, bytes) => {
                let links = vec![of(from, Self::NIC_OUT), of(PREFILLS + to, Self::NIC_IN)];
                (links, u64::from(bytes))
            }
            What::Move(replica, way, chunks) => {
                let of = |link| of(replica, link);
                let links = match way {
                    TierWay::HostToGpu => vec![of(Self::BUS_UP)],
                    TierWay::DiskToGpu => vec![of(Self::DISK_READ), of(Self::BUS_UP)],
                    TierWay::PoolToGpu => {
                        vec![Self::SERVERS_UP, of(Self::NIC_IN), of(Self::BUS_UP)]
                    }
                    TierWay::GpuToHost => vec![of(Self::BUS_DOWN)],
                    TierWay::HostToDisk => vec![of(Self::DISK_WRITE)],
                    TierWay::HostToPool => vec![of(Self::NIC_OUT), Self::SERVERS_DOWN],
                    TierWay::DiskToPool => {
                        vec![of(Self::DISK_READ), of(Self::NIC_OUT), Self::SERVERS_DOWN]
                    }
                };
                (links, u64::from(chunks) * CHUNK)
            }
            What::Weights(replica) => {
                let mut links = vec![Self::SOURCE, of(replica, Self::WEIGHTS)];
                if self.capacities[Self::SOURCE].is_finite() {
                    links.push(of(replica, Self::NIC_IN));
                }
                (links, WEIGHT_BYTES)
            }
        };
        ((links, f64::INFINITY), bytes as f64)
    }

    fn ends(&self, flows: &[Flow]) -> Vec<f64> {
        let mut ends = vec![f64::NAN; flows.len()];
        let mut left: Vec<f64> = flows.iter().map(|flow| self.demand(flow.what).1).collect();
        let mut now = 0.0;
        while ends.iter().any(|end| end.is_nan()) {
            let is_inside = |i: &usize| ends[*i].is_nan() && flows[*i].begins as f64 <= now;
            let inside: Vec<usize> = (0..flows.len()).filter(is_inside).collect();
            let demands: Vec<Demand> =
                inside.iter().map(|i| self.demand(flows[*i].what).0).collect();
            let rates = oracle::rates(&self.capacities, &demands);
            let begins = flows.iter().map(|flow| flow.begins as f64).filter(|at| *at > now);
            let cancels = inside.iter().filter_map(|i| Self::cancelled(&flows[*i]));
            let over = inside.iter().zip(&rates).map(|(i, rate)| now + left[*i] / rate * 1e9);
            let next = begins.chain(cancels).chain(over).fold(f64::INFINITY, f64::min);
            for (i, rate) in inside.into_iter().zip(rates) {
                left[i] -= rate * (next - now) / 1e9;
                // A thousandth of a byte is rounding; what takes no time is over at once.
                let is_over = left[i] < 1e-3 || rate.is_infinite();
                if is_over || Self::cancelled(&flows[i]).is_some_and(|at| at <= next) {
                    ends[i] = next;
                }
            }
            now = next;
        }
        ends
    }

    fn cancelled(flow: &Flow) -> Option<f64> {
        flow.cancelled_after.map(|after| (flow.begins + after) as f64)
    }
}

fn rates() -> impl Strategy<Value = Rates> {
    // Often equal, so that several links have one level.
    let rate = || prop_oneof![Just(50.0 * GB), Just(25.0 * GB), 1e9..1e11_f64];
    let maybe = move || prop::option::weighted(0.7, rate());
    (prop::collection::vec(rate(), 4), rate(), [rate(), rate()], maybe(), [maybe(), maybe()])
        .prop_map(|(nics, bus, disk, servers, weights)| Rates { nics, bus, disk, servers, weights })
}

fn flow() -> impl Strategy<Value = Flow> {
    let chunks = (0..PREFILLS, prop::sample::select(TierWay::ALL.to_vec()), 1..20_u32);
    let what = prop_oneof![
        4 => (0..PREFILLS, 0..DECODES, 1_000..10_000_000_u32)
            .prop_map(|(from, to, bytes)| What::Transfer(from, to, bytes)),
        4 => chunks.prop_map(|(replica, way, chunks)| What::Move(replica, way, chunks)),
    ];
    let cancelled = prop::option::weighted(0.2, 1..500_000_u64);
    (0..2_000_000_u64, what, cancelled).prop_map(|(begins, what, cancelled_after)| Flow {
        begins,
        what,
        cancelled_after,
    })
}

/// A replica loads once.
fn loads() -> impl Strategy<Value = Vec<Flow>> {
    let begins = prop::collection::vec(prop::option::of(0..2_000_000_u64), 4);
    begins.prop_map(|begins| {
        let load = |(replica, begins): (u32, Option<u64>)| {
            Some(Flow { begins: begins?, what: What::Weights(replica), cancelled_after: None })
        };
        (0..).zip(begins).filter_map(load).collect()
    })
}

proptest! {
    #[test]
    fn transfers_moves_and_weights_end_as_max_min_fair_shares_of_common_links_say(
        rates in rates(), flows in prop::collection::vec(flow(), 1..25), loads in loads(),
    ) {
        let flows = [flows, loads].concat();
        let ends = Driven::new(&rates).ends(&flows);
        let expected = Slow::new(&rates).ends(&flows);
        for ((end, expected), flow) in ends.iter().zip(&expected).zip(&flows) {
            let end = end.expect("all comes to an end") as f64;
            // Every end is rounded up to a nanosecond, and others follow from it.
            prop_assert!((end - expected).abs() <= 100.0, "{end} and not {expected}: {flow:?}");
        }
    }
}

/// NICs of 400 Gb/s, and all else no slower than they are.
fn fast() -> Rates {
    Rates {
        nics: vec![50.0 * GB; 4],
        bus: 64.0 * GB,
        disk: [60.0 * GB; 2],
        servers: None,
        weights: [Some(50.0 * GB), None],
    }
}

fn at(millis: u64, what: What) -> Flow {
    Flow { begins: millis * 1_000_000, what, cancelled_after: None }
}

#[test]
fn one_nic_carries_what_is_handed_over_and_what_goes_to_the_pool() {
    // From 0 ms on 100 MB to the pool and 50 MB to the decode side have 25 GB/s each. The transfer ends at 2 ms;
    // the 50 MB that are left for the pool take 1 ms at 50 GB/s. What comes from the pool meets neither: 2 ms.
    let flows = [
        at(0, What::Move(0, TierWay::HostToPool, 100)),
        at(0, What::Transfer(0, 0, 50_000_000)),
        at(0, What::Move(0, TierWay::PoolToGpu, 100)),
    ];
    let ends = Driven::new(&fast()).ends(&flows);
    assert_eq!(ends, [Some(3_000_000), Some(2_000_000), Some(2_000_000)]);
}

#[test]
fn weights_from_one_place_share_the_nic_with_what_is_handed_over() {
    // 3 MB of weights and 6 MB of KV come to one NIC at 25 GB/s each: the weights are there after 0.12 ms, when
    // 3 MB of the KV are left, which take 0.06 ms.
    let flows = [at(0, What::Weights(2)), at(0, What::Transfer(0, 0, 6_000_000))];
    assert_eq!(Driven::new(&fast()).ends(&flows), [Some(120_000), Some(180_000)]);
    // Weights that come over links of their own are on no NIC.
    let own = Rates { weights: [None, Some(50.0 * GB)], ..fast() };
    assert_eq!(Driven::new(&own).ends(&flows), [Some(60_000), Some(120_000)]);
}

#[test]
fn what_ends_at_one_instant_is_told_by_kind_and_then_in_the_order_of_its_kind() {
    let mut driven = Driven::new(&Rates { weights: [None, Some(3.0 * GB)], ..fast() });
    let all = [
        What::Weights(3),
        What::Move(0, TierWay::HostToGpu, 64),
        What::Transfer(1, 1, 50_000_000),
        What::Move(1, TierWay::GpuToHost, 64),
        What::Weights(0),
        What::Transfer(0, 0, 50_000_000),
    ];
    let begun = (0..).zip(all).map(|(number, what)| driven.begin(number, what, SimTime::ZERO));
    let begun: Vec<Cargo> = begun.map(|cargo| cargo.expect("it takes time")).collect();
    let mut arrived = Vec::new();
    driven.wires.advance(SimTime::from_nanos(1_000_000), &mut arrived);
    assert_eq!(arrived, [2, 5, 1, 3, 0, 4].map(|number| begun[number]));
    assert_eq!(driven.wires.next_change(), None);
}

#[test]
fn a_replica_has_nics_of_one_rate() {
    let mut wires = Wires::default();
    wires.give_nic(InstanceId(3), 50.0 * GB).unwrap();
    wires.give_nic(InstanceId(3), 50.0 * GB).unwrap();
    let out = wires.nic(InstanceId(3), Direction::Out).unwrap();
    assert_eq!(wires.nic(InstanceId(3), Direction::Out).unwrap(), out);
    assert_ne!(wires.nic(InstanceId(3), Direction::In).unwrap(), out);
    assert_eq!(wires.nic(InstanceId(2), Direction::In).unwrap(), None);
    let error = wires.give_nic(InstanceId(3), 25.0 * GB).unwrap_err().to_string();
    assert_eq!(
        error,
        "link \"NIC of instance 3\": capacity is 50000000000 bytes/s, and is to be 25000000000"
    );
}
