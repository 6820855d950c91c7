//! Laws on random networks against a slow oracle, and examples worked by hand.

pub(crate) mod oracle;
mod random;

use super::*;

const GB: f64 = 1e9;

fn ns(nanos: u64) -> SimTime {
    SimTime::from_nanos(nanos)
}

/// Links of these capacities, and a route over each list of links.
fn network(capacities: &[f64], routes: &[&[u32]]) -> Network {
    let mut topology = Topology::default();
    for (index, capacity) in capacities.iter().enumerate() {
        topology.add_link(format!("link {index}"), *capacity).unwrap();
    }
    for links in routes {
        let links = links.iter().copied().map(LinkId).collect();
        topology.add_route(&Route { links, ..Route::default() }).unwrap();
    }
    Network::new(&topology)
}

/// The ends that come by themselves.
fn run(network: &mut Network) -> Vec<(u32, u64)> {
    let mut ends = Vec::new();
    while let Some(at) = network.next_change() {
        network.advance(at, |flow, at| ends.push((flow.0, at.as_nanos())));
    }
    ends
}

#[test]
fn a_flow_alone_ends_after_its_latency_and_its_bytes_at_the_rate_of_the_link() {
    for (bytes, rate) in [(1, 1.0), (1_000_003, 3e9), (7 << 40, 12.5e9), (10, 7e12), (0, 1e9)] {
        let mut topology = Topology::default();
        let link = topology.add_link("wire", rate).unwrap();
        let latency = SimDuration::from_micros(5);
        let route = Route { links: vec![link], latency, ..Route::default() };
        let route = topology.add_route(&route).unwrap();
        let mut network = Network::new(&topology);
        network.advance(ns(17), |_, _| unreachable!("nothing was started"));
        network.start(route, bytes, ns(17));
        let nanos = (u128::from(bytes) * 1_000_000_000).div_ceil(rate as u128) as u64;
        assert_eq!(run(&mut network), [(0, 17 + 5_000 + nanos)], "{bytes} bytes at {rate}");
    }
}

#[test]
fn two_flows_share_a_link_and_the_second_speeds_up_when_the_first_has_ended() {
    // 1 GB/s: both run at 0.5 GB/s; 1000 bytes take 2000 ns, in which the other has carried 1000 of
    // its 3000 bytes too; the 2000 left take 2000 ns alone.
    let mut network = network(&[GB], &[&[0]]);
    network.start(RouteId(0), 1000, ns(0));
    network.start(RouteId(0), 3000, ns(0));
    assert_eq!(run(&mut network), [(0, 2000), (1, 4000)]);
    let link = network.link_use(LinkId(0));
    assert_eq!((link.carried_bytes, link.flows), (4000.0, 2));
    assert_eq!(link.busy, SimDuration::from_nanos(4000));
    assert!((link.full_s - 4e-6).abs() < 1e-18);
}

#[test]
fn a_flow_that_is_held_elsewhere_leaves_its_share_to_others() {
    // Link 0 (1 GB/s) holds flows 0 and 1 at 0.5; flow 2 gets the 1.5 GB/s that link 1 has left.
    let mut network = network(&[GB, 2.0 * GB], &[&[0], &[0, 1], &[1]]);
    for route in 0..3 {
        network.start(RouteId(route), 1 << 30, ns(0));
    }
    network.next_change();
    network.advance(ns(1), |_, _| unreachable!("nothing is that fast"));
    let rates = [0, 1, 2].map(|flow| network.rate_bytes_per_s(FlowId(flow)) as u64);
    assert_eq!(rates, [500_000_000, 500_000_000, 1_500_000_000]);
}

#[test]
fn a_link_that_carries_a_share_slows_its_flows_until_it_carries_all_again() {
    // 1000 bytes by 1000 ns; a quarter of the rate for 4000 ns carries 1000 more, then 1000 take 1000 ns.
    let mut network = network(&[GB, 8.0 * GB], &[&[0], &[0, 1]]);
    network.start(RouteId(0), 3000, ns(0));
    network.advance(ns(1000), |_, _| unreachable!("it has 2000 bytes left"));
    network.set_share(LinkId(0), 0.25, ns(1000));
    network.advance(ns(5000), |_, _| unreachable!("it has 1000 bytes left"));
    network.set_share(LinkId(0), 1.0, ns(5000));
    assert_eq!(run(&mut network), [(0, 6000)]);
    assert!((network.link_use(LinkId(0)).full_s - 3e-6).abs() < 1e-18, "of its whole capacity");
}

#[test]
fn links_of_the_largest_rate_are_shared_like_any_other() {
    // 2⁴⁷ bytes take 1 s at 2⁴⁷ bytes/s; the long flow has carried half of that by 1 s, the rest of
    // it takes 1.5 · 2⁴⁷ / 2⁴⁸ s alone, near the largest rate.
    let largest = (1_u64 << 48) as f64 - 0.5;
    let mut network = network(&[largest, largest], &[&[0, 1], &[1]]);
    network.start(RouteId(0), 1 << 47, ns(0));
    network.start(RouteId(1), 5 << 46, ns(0));
    let ends = run(&mut network);
    assert_eq!(ends.iter().map(|(flow, _)| *flow).collect::<Vec<_>>(), [0, 1]);
    assert!(ends[0].1.abs_diff(1_000_000_000) <= 1, "{ends:?}");
    assert!(ends[1].1.abs_diff(1_750_000_000) <= 1, "{ends:?}");
}

#[test]
fn a_fed_flow_does_not_run_ahead_of_what_was_fed() {
    // 1 GB/s. Fed 1000 bytes at 0 (sent by 1000 ns), 500 at 5000 (by 5500), 2000 at 5200 (by 7500).
    let mut network = network(&[GB], &[&[0]]);
    let flow = network.start_fed(RouteId(0), 3500, ns(0));
    assert_eq!(run(&mut network), []);
    let feeds = [(0, 1000), (5000, 500), (5200, 2000)];
    let mut ends = Vec::new();
    for (at, bytes) in feeds {
        while let Some(next) = network.next_change().filter(|next| *next <= ns(at)) {
            network.advance(next, |_, _| unreachable!("more is to be fed"));
        }
        network.feed(flow, bytes, ns(at));
    }
    ends.extend(run(&mut network));
    assert_eq!(ends, [(0, 7500)]);
    // On the link from 0 to 1000 and from 5000 to 7500.
    assert_eq!(network.link_use(LinkId(0)).busy, SimDuration::from_nanos(3500));
}

#[test]
fn a_dry_flow_takes_no_share() {
    let mut network = network(&[GB], &[&[0]]);
    let fed = network.start_fed(RouteId(0), 100, ns(0));
    network.start(RouteId(0), 1000, ns(0));
    assert_eq!(run(&mut network), [(1, 1000)]);
    network.feed(fed, 100, ns(1000));
    assert_eq!(run(&mut network), [(0, 1100)]);
}

#[test]
fn a_layer_by_layer_hand_over_hides_all_but_the_last_layer() {
    // 32 layers of 1 MB, one ready every 2 ms, 1 GB/s: each is sent in 1 ms, the last by 65 ms.
    let mut network = network(&[GB], &[&[0]]);
    let flow = network.start_fed(RouteId(0), 32_000_000, ns(0));
    let mut ends = Vec::new();
    for layer in 1..=32 {
        let ready = ns(layer * 2_000_000);
        network.advance(ready, |flow, at| ends.push((flow, at)));
        network.feed(flow, 1_000_000, ready);
    }
    assert_eq!((ends, run(&mut network)), (vec![], vec![(0, 65_000_000)]));
}

#[test]
fn what_a_protocol_adds_passes_the_links_too() {
    // 1000 bytes in 4 messages of at most 300, each with 50 more, at 80 %: 1250 + 200 bytes.
    let mut topology = Topology::default();
    let link = topology.add_link("wire", GB).unwrap();
    let protocol = Protocol {
        efficiency: 0.8,
        message_bytes: Some(300),
        message_overhead_bytes: 50,
        flow_cap_bytes_per_s: Some(0.5 * GB),
    };
    let route = Route { links: vec![link], protocol, ..Route::default() };
    let route = topology.add_route(&route).unwrap();
    let mut network = Network::new(&topology);
    network.start(route, 1000, ns(0));
    assert_eq!(run(&mut network), [(0, 2900)], "at the cap of one flow");
    for _ in 0..4 {
        network.start(route, 1000, ns(2900));
    }
    let ends: Vec<u64> = run(&mut network).iter().map(|(_, at)| *at).collect();
    assert_eq!(ends, [2900 + 4 * 1450; 4], "at a quarter of the link");
}

#[test]
fn a_cancelled_flow_leaves_its_share_at_once_and_what_it_carried_counted() {
    let mut network = network(&[GB], &[&[0]]);
    let first = network.start(RouteId(0), 10_000, ns(0));
    network.start(RouteId(0), 10_000, ns(0));
    assert_eq!(network.next_change(), Some(ns(20_000)));
    network.cancel(first, ns(2000));
    assert_eq!(run(&mut network), [(1, 11_000)]);
    assert!((network.link_use(LinkId(0)).carried_bytes - 11_000.0).abs() < 1e-9);
    assert_eq!(network.flows_inside(), 0);
}

#[test]
fn ends_of_one_instant_come_in_the_order_of_ids() {
    let mut network = network(&[GB, GB], &[&[0], &[1]]);
    for route in [1, 0, 1, 0] {
        network.start(RouteId(route), 500, ns(0));
    }
    assert_eq!(run(&mut network), [(0, 1000), (1, 1000), (2, 1000), (3, 1000)]);
}

#[test]
#[should_panic(expected = "a change at 1000 ns was passed over, it is 1001 ns")]
fn an_end_cannot_be_passed_over() {
    let mut network = network(&[GB], &[&[0]]);
    network.start(RouteId(0), 1000, ns(0));
    network.start(RouteId(0), 1000, ns(1001));
}

#[test]
fn a_node_of_a_fat_tree_reaches_every_other_over_links_of_its_own_tree() {
    let mut topology = Topology::default();
    let tree = FatTree::add(&mut topology, 8, 64, GB).unwrap();
    for (to, hops) in [(3, 0), (4, 2), (15, 2), (16, 4), (63, 4)] {
        for choice in 0..16 {
            let links = tree.between(2, to, choice);
            assert_eq!(links.len(), hops, "to {to}");
            topology.add_route(&Route { links, ..Route::default() }).map_or_else(
                |error| assert_eq!((hops, error.to_string().contains("at least one")), (0, true)),
                |_| assert!(hops > 0),
            );
        }
    }
    let links = tree.between(2, 63, 6);
    let names: Vec<&str> =
        links.iter().map(|link| topology.links()[link.index()].name.as_str()).collect();
    assert_eq!(
        names,
        [
            "pod 0 edge 0 to aggregation 2",
            "pod 0 aggregation 2 to core 1",
            "pod 3 aggregation 2 from core 1",
            "pod 3 edge 3 from aggregation 2",
        ]
    );
}

#[test]
fn what_cannot_be_built_is_named() {
    let mut topology = Topology::default();
    let mut errors = Vec::new();
    for capacity in [0.0, f64::NAN, f64::INFINITY, -1.0] {
        errors.push(topology.add_link("node 3 NIC out", capacity).unwrap_err().to_string());
    }
    let wire = topology.add_link("wire", GB).unwrap();
    let mut route = |links: &[LinkId], protocol| {
        let route = Route { links: links.into(), protocol, ..Route::default() };
        errors.push(topology.add_route(&route).unwrap_err().to_string());
    };
    let protocol = Protocol::default();
    route(&[], protocol);
    route(&[wire, LinkId(7)], protocol);
    route(&[wire, wire], protocol);
    route(&[wire], Protocol { efficiency: 1.5, ..protocol });
    route(&[wire], Protocol { flow_cap_bytes_per_s: Some(0.0), ..protocol });
    route(&[wire], Protocol { message_bytes: Some(0), ..protocol });
    errors.push(FatTree::add(&mut topology, 4, 17, GB).unwrap_err().to_string());
    insta::assert_snapshot!(errors.join("\n"));
}

#[test]
fn a_node_names_its_links_and_stages_transfers_where_they_rest() {
    let mut topology = Topology::default();
    let rates = NodeRates {
        nic: 50.0 * GB,
        pcie: 64.0 * GB,
        nvlink: Some(450.0 * GB),
        host_memory: 300.0 * GB,
        disk: Some(7.0 * GB),
    };
    let nodes = [0, 1].map(|i| Node::add(&mut topology, &format!("node {i}"), &rates).unwrap());
    let names = |links: Vec<LinkId>| {
        let names = links.iter().map(|link| topology.links()[link.index()].name.as_str());
        names.collect::<Vec<_>>().join(", ")
    };
    let paths = [
        nodes[0].gpu_to_gpu(&nodes[1], &[], Staging::Direct),
        nodes[0].gpu_to_gpu(&nodes[1], &[], Staging::Host),
        nodes[0].gpu_to_host(),
        nodes[0].host_to_gpu(),
        nodes[0].disk_to_gpu().unwrap(),
    ];
    insta::assert_snapshot!(paths.map(names).join("\n"));
}
