//! Random networks under random sequences of starts, feeds, cancellations, ends and links that lose and
//! regain capacity.

use rand::RngExt;

use super::oracle::{self, Demand};
use super::*;
use crate::rng::{Seed, Stream};

/// Rates differ from the oracle's by less than this share: rounding down to units.
const RELATIVE: f64 = 1e-9;
/// By how many units rates differ with what came before.
const UNITS: u64 = 16;
const SETS: u64 = 10_000;

/// What is known of a flow outside the network.
#[derive(Clone)]
struct Known {
    id: FlowId,
    route: usize,
    unfed: u64,
    bytes: u64,
    /// Rate × time so far, in bytes.
    flown: f64,
}

struct World {
    network: Network,
    /// What links carry while nothing is wrong with them.
    whole: Vec<f64>,
    capacities: Vec<f64>,
    routes: Vec<Demand>,
    flows: Vec<Known>,
    now: u64,
    carried: Vec<f64>,
    seed: u64,
}

/// Flows between random nodes of a fat tree, where nearly all share links with all others.
fn fat_tree(seed: u64, random: &mut Stream) -> World {
    const NODES: usize = 16;
    let mut topology = Topology::default();
    let mut nic = |node, way| topology.add_link(format!("node {node} NIC {way}"), 50e9).unwrap();
    let nics: Vec<_> = (0..NODES).map(|node| [nic(node, "out"), nic(node, "in")]).collect();
    let tree = FatTree::add(&mut topology, 4, NODES, 50e9).unwrap();
    let mut routes = Vec::new();
    for (from, to) in (0..NODES).flat_map(|from| (0..NODES).map(move |to| (from, to))) {
        let between = tree.between(from, to, random.random_range(0..4));
        let links = [&[nics[from][0]], between.as_slice(), &[nics[to][1]]].concat();
        routes.push((links.iter().map(|link| link.index()).collect(), f64::INFINITY));
        topology.add_route(&Route { links, ..Route::default() }).unwrap();
    }
    let capacities = vec![50e9; topology.links().len()];
    let (network, carried) = (Network::new(&topology), vec![0.0; capacities.len()]);
    let whole = capacities.clone();
    World { network, whole, capacities, routes, flows: Vec::new(), now: 0, carried, seed }
}

fn world(seed: u64, random: &mut Stream) -> World {
    let mut topology = Topology::default();
    let links = random.random_range(1..=12);
    // Half of the networks are of equal links, where levels are often equal.
    let is_even = random.random_bool(0.5);
    let capacities: Vec<f64> = (0..links)
        .map(|_| if is_even { 12.5e9 } else { 1e8 * 10_f64.powf(random.random_range(0.0..4.0)) })
        .map(f64::round)
        .collect();
    for (index, capacity) in capacities.iter().enumerate() {
        topology.add_link(index.to_string(), *capacity).unwrap();
    }
    let mut routes = Vec::new();
    for _ in 0..random.random_range(1..=15) {
        let mut ids: Vec<usize> =
            (0..random.random_range(1..=5)).map(|_| random.random_range(0..links)).collect();
        ids.sort_unstable();
        ids.dedup();
        let cap = random
            .random_bool(0.2)
            .then(|| (10.0_f64.powf(random.random_range(8.0..10.5))).round());
        let route = Route {
            links: ids.iter().map(|id| LinkId::from_index(*id)).collect(),
            latency: SimDuration::from_nanos(random.random_range(0..3) * 1000),
            protocol: Protocol { flow_cap_bytes_per_s: cap, ..Protocol::default() },
        };
        topology.add_route(&route).unwrap();
        routes.push((ids, cap.unwrap_or(f64::INFINITY)));
    }
    let network = Network::new(&topology);
    let carried = vec![0.0; capacities.len()];
    let whole = capacities.clone();
    World { network, whole, capacities, routes, flows: Vec::new(), now: 0, carried, seed }
}

impl World {
    /// Lets time go on to the next change or some way before it.
    fn go_on(&mut self, random: &mut Stream) {
        let next = self.network.next_change().map_or(self.now + 500, SimTime::as_nanos);
        let now = if random.random_bool(0.6) { next } else { next.min(self.now + 700) };
        for flow in &mut self.flows {
            let rate = self.network.rate_bytes_per_s(flow.id);
            let flown = rate * (now - self.now) as f64 / 1e9;
            flow.flown += flown;
            for link in &self.routes[flow.route].0 {
                self.carried[*link] += flown;
            }
        }
        self.now = now;
        let mut ended = Vec::new();
        self.network.advance(ns(now), |id, at| {
            assert_eq!(at, ns(now));
            ended.push(id);
        });
        for id in ended {
            let place = self.flows.iter().position(|flow| flow.id == id).expect("it was inside");
            let flow = self.flows.swap_remove(place);
            assert_eq!(flow.unfed, 0, "seed {}", self.seed);
            self.check_bytes(&flow);
        }
    }

    /// What flew until a flow's end are its bytes, but for the fraction of the last nanosecond of each
    /// chunk.
    fn check_bytes(&self, flow: &Known) {
        let bytes = flow.bytes as f64;
        let nanosecond = 10.0 * 1e12 / 1e9;
        let is_all = flow.flown >= bytes * (1.0 - RELATIVE)
            && flow.flown <= bytes * (1.0 + RELATIVE) + nanosecond;
        assert!(is_all, "seed {}: {} of {bytes} bytes flew", self.seed, flow.flown);
    }

    fn change(&mut self, random: &mut Stream) {
        let now = ns(self.now);
        match random.random_range(0..11) {
            0..5 => {
                let route = random.random_range(0..self.routes.len());
                let bytes = random.random_range(0..100_000);
                let id = RouteId::from_index(route);
                let unfed = if random.random_bool(0.4) { bytes } else { 0 };
                let id = match unfed {
                    0 => self.network.start(id, bytes, now),
                    _ => self.network.start_fed(id, bytes, now),
                };
                self.flows.push(Known { id, route, unfed, bytes, flown: 0.0 });
            }
            5..9 => {
                let Some(flow) = self.flows.iter_mut().find(|flow| flow.unfed > 0) else { return };
                let bytes = random.random_range(0..=flow.unfed);
                flow.unfed -= bytes;
                self.network.feed(flow.id, bytes, now);
            }
            9 => {
                let link = random.random_range(0..self.whole.len());
                // Powers of two, so that whole rates have exact shares.
                let share = 0.5_f64.powi(random.random_range(0..4));
                self.capacities[link] = self.whole[link] * share;
                self.network.set_share(LinkId::from_index(link), share, now);
            }
            _ if self.flows.is_empty() => {}
            _ => {
                let flow = self.flows.swap_remove(random.random_range(0..self.flows.len()));
                self.network.cancel(flow.id, now);
            }
        }
    }

    /// Flows on their links, with the rates they have.
    fn flowing(&mut self) -> (Vec<Demand>, Vec<f64>) {
        self.network.refresh();
        let is_flowing =
            |flow: &&Known| self.network.flows[flow.id.index()].stage == Stage::Flowing;
        let flowing: Vec<&Known> = self.flows.iter().filter(is_flowing).collect();
        let rate = |flow: &&Known| quantity::bytes_per_s(self.network.rate(flow.id.0));
        let rates = flowing.iter().map(rate).collect();
        (flowing.iter().map(|flow| self.routes[flow.route].clone()).collect(), rates)
    }

    fn check_rates(&mut self) {
        let (demands, rates) = self.flowing();
        let expected = oracle::rates(&self.capacities, &demands);
        for (rate, expected) in rates.iter().zip(&expected) {
            assert!(
                (rate - expected).abs() <= RELATIVE * expected,
                "seed {}: {rate} and not {expected} of {demands:?}",
                self.seed
            );
        }
        self.check_max_min(&demands, &rates);
        self.check_against_nothing_before();
    }

    /// L8: no link carries more than its capacity, and every flow has a bottleneck.
    fn check_max_min(&self, demands: &[Demand], rates: &[f64]) {
        let seed = self.seed;
        let on = |link: usize| {
            demands.iter().zip(rates).filter(move |((links, _), _)| links.contains(&link))
        };
        let sum = |link: usize| on(link).map(|(_, rate)| rate).sum::<f64>();
        for (link, capacity) in self.capacities.iter().enumerate() {
            assert!(sum(link) <= capacity * (1.0 + 1e-15), "seed {seed}: link {link} is overfull");
        }
        for ((links, cap), rate) in demands.iter().zip(rates) {
            let is_bottleneck = |link: &usize| {
                sum(*link) >= self.capacities[*link] * (1.0 - RELATIVE)
                    && on(*link).all(|(_, other)| *other <= rate * (1.0 + RELATIVE))
            };
            let is_at_cap = *rate >= cap * (1.0 - RELATIVE);
            assert!(
                is_at_cap || links.iter().any(is_bottleneck),
                "seed {seed}: {rate} on {links:?}"
            );
        }
    }

    /// The rates are those of a network where all flows come at once, but for what rounding
    /// leaves of links that fill at one level.
    fn check_against_nothing_before(&self) {
        let capacities = self.network.shares.capacities();
        let mut fresh = Shares::new(capacities, 6);
        let mut expected = vec![0; self.network.flows.len()];
        let flowing = |slot: &usize| self.network.flows[*slot].stage == Stage::Flowing;
        for _ in &expected {
            fresh.push();
        }
        for slot in (0..expected.len()).filter(flowing) {
            let path = &self.network.paths[self.network.flows[slot].route.index()];
            fresh.join(slot as u32, &path.links, path.cap);
        }
        fresh.repair();
        for slot in (0..expected.len()).filter(flowing) {
            expected[slot] = fresh.rate(slot as u32);
        }
        let rates: Vec<u64> =
            (0..expected.len()).map(|slot| self.network.rate(slot as u32)).collect();
        for (rate, expected) in rates.iter().zip(&expected) {
            assert!(
                rate.abs_diff(*expected) <= UNITS,
                "seed {}: {rates:?}, {expected:?}",
                self.seed
            );
        }
    }
}

#[test]
fn rates_are_those_of_filling_all_links_from_nothing_whatever_came_before() {
    for seed in 0..SETS {
        let mut random = Seed(seed).stream("network", 0);
        let mut world = world(seed, &mut random);
        for _ in 0..random.random_range(3..25) {
            for _ in 0..random.random_range(1..=4) {
                world.change(&mut random);
            }
            world.check_rates();
            world.go_on(&mut random);
        }
        world.check_rates();
        world.check_links();
    }
}

#[test]
fn rates_on_a_fat_tree_are_those_of_filling_all_links_from_nothing() {
    for seed in 0..10 {
        let mut random = Seed(seed).stream("fat tree", 0);
        let mut world = fat_tree(seed, &mut random);
        for _ in 0..120 {
            world.change(&mut random);
        }
        for _ in 0..40 {
            world.check_rates();
            world.go_on(&mut random);
            for _ in 0..random.random_range(0..3) {
                world.change(&mut random);
            }
        }
        world.check_links();
    }
}

impl World {
    /// What links have carried is what flew over them.
    fn check_links(&self) {
        for (link, carried) in self.carried.iter().enumerate() {
            let counted = self.network.link_use(LinkId::from_index(link));
            // Every chunk may lose the fraction of its last nanosecond.
            let slack = 100.0 * 1e12 / 1e9;
            assert!(
                (counted.carried_bytes - carried).abs() <= slack,
                "seed {}: link {link} counts {counted:?}, {carried} bytes flew",
                self.seed
            );
            assert!(counted.full_s <= counted.busy.as_secs_f64() * (1.0 + 1e-12), "{counted:?}");
        }
    }
}
