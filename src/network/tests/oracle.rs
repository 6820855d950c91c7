//! Progressive filling as textbooks have it, over all flows from nothing, in floats.

/// A flow: its links and its cap, in bytes per second.
pub(crate) type Demand = (Vec<usize>, f64);

/// The max-min fair rates of these flows.
pub(crate) fn rates(capacities: &[f64], flows: &[Demand]) -> Vec<f64> {
    let mut rates: Vec<Option<f64>> = vec![None; flows.len()];
    while rates.contains(&None) {
        let level = |link: usize| {
            let on_link = || (0..flows.len()).filter(|flow| flows[*flow].0.contains(&link));
            let taken: f64 = on_link().filter_map(|flow| rates[flow]).sum();
            let rising = on_link().filter(|flow| rates[*flow].is_none()).count();
            (capacities[link] - taken) / rising as f64 // infinite where none rises
        };
        let levels: Vec<f64> = (0..capacities.len()).map(level).collect();
        let rising = (0..flows.len()).filter(|flow| rates[*flow].is_none());
        let limit =
            |flow: usize| flows[flow].0.iter().map(|l| levels[*l]).fold(flows[flow].1, f64::min);
        let limits: Vec<(usize, f64)> = rising.map(|flow| (flow, limit(flow))).collect();
        let lowest = limits.iter().map(|(_, limit)| *limit).fold(f64::INFINITY, f64::min);
        // One at a time: others at this level find it again.
        let (flow, _) = limits.iter().find(|(_, limit)| *limit <= lowest).expect("one is lowest");
        rates[*flow] = Some(lowest);
    }
    rates.into_iter().flatten().collect()
}
