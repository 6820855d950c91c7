//! Flows of KV caches between nodes on a fat tree: how many starts and ends a second.
//!
//! `network [--nodes N] [--arity K] [--flows N] [--events N] [--latency-us N]`: N flows between random
//! nodes, from NIC to NIC over up to four links more, each with 1 to 1000 MB; when one ends another starts. With a latency
//! rates change twice for that, once when the latency is over; without one they change once.

use std::time::Instant;

use rand::RngExt;

use servecast::ids::{LinkId, RouteId};
use servecast::network::{FatTree, Network, Route, Topology};
use servecast::rng::{Seed, Stream};
use servecast::units::{SimDuration, SimTime};

/// 400 Gb/s, as one NIC of a node and every cable.
const CABLE: f64 = 50e9;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let value = |flag: &str, default: u64| {
        let at = arguments.iter().position(|argument| argument == flag);
        let given = at.and_then(|at| arguments.get(at + 1));
        given.map_or(default, |given| given.parse().expect("a number"))
    };
    let (nodes, flows) = (value("--nodes", 64) as usize, value("--flows", 1000));
    let (events, latency) = (value("--events", 200_000), value("--latency-us", 10));
    let arity = value("--arity", 8) as usize;
    let topology = topology(nodes, arity, SimDuration::from_micros(latency));
    let mut network = Network::new(&topology);
    let mut stream = Seed(1).stream("flows", 0);
    let routes = (nodes * (nodes - 1)) as u32;
    for _ in 0..flows {
        start(&mut network, routes, &mut stream, SimTime::ZERO);
    }
    // Until sizes and ends are mixed.
    run(&mut network, routes, &mut stream, 2 * flows);

    #[expect(clippy::disallowed_methods, reason = "how long the events take is the result")]
    let started = Instant::now();
    let instants = run(&mut network, routes, &mut stream, events);
    let seconds = started.elapsed().as_secs_f64();
    #[expect(clippy::print_stdout, reason = "the result")]
    {
        println!(
            "{nodes} nodes, {flows} flows, latency {latency} us: {:.0} flow events/s, \
             {:.2} us per event, {events} events at {instants} instants",
            events as f64 / seconds,
            seconds * 1e6 / events as f64,
        );
    }
}

fn topology(nodes: usize, arity: usize, latency: SimDuration) -> Topology {
    let mut topology = Topology::default();
    let mut nic = |index, way| {
        topology.add_link(format!("node {index} NIC {way}"), CABLE).expect("a capacity")
    };
    let nics: Vec<[LinkId; 2]> =
        (0..nodes).map(|index| ["out", "in"].map(|way| nic(index, way))).collect();
    let tree = FatTree::add(&mut topology, arity, nodes, CABLE).expect("the nodes fit");
    let mut stream = Seed(1).stream("paths", 0);
    for (from, [out, _]) in nics.iter().enumerate() {
        for (to, [_, into]) in nics.iter().enumerate().filter(|(to, _)| *to != from) {
            let between = tree.between(from, to, stream.random_range(0..arity * arity));
            let links = [&[*out], between.as_slice(), &[*into]].concat();
            let route = Route { links, latency, ..Route::default() };
            topology.add_route(&route).expect("the links are known");
        }
    }
    topology
}

fn start(network: &mut Network, routes: u32, stream: &mut Stream, now: SimTime) {
    let route = RouteId(stream.random_range(0..routes));
    network.start(route, stream.random_range(1_000_000..1_000_000_000), now);
}

/// Lets that many flows start or end; the instants at which something happened.
fn run(network: &mut Network, routes: u32, stream: &mut Stream, events: u64) -> u64 {
    let (mut done, mut instants) = (0, 0);
    while done < events {
        let now = network.next_change().expect("flows are inside");
        let mut ended = 0;
        network.advance(now, |_, _| ended += 1);
        for _ in 0..ended {
            start(network, routes, stream, now);
        }
        done += 2 * ended;
        instants += 1;
    }
    instants
}
