//! Decisions recorded from real routers come out one by one.

use std::collections::BTreeMap;
use std::path::Path;

use servecast::conformance::routing::{Tally, check};

use crate::conformance::{read, recordings};
use crate::support::data;

#[test]
#[ignore = "needs SERVECAST_DATA"]
fn recorded_decisions_of_sglangs_and_vllms_routers_come_out() {
    let by_policy = come_out(&data().join("routing/sglang"));
    assert!(by_policy.values().map(|tally| tally.exact).sum::<usize>() > 10_000);
}

/// By policy, what all recordings under a folder say; none of them is wrong.
fn come_out(folder: &Path) -> BTreeMap<String, Tally> {
    let mut paths = Vec::new();
    recordings(folder, &mut paths);
    paths.sort();
    assert!(!paths.is_empty(), "no recording under {}", folder.display());
    let mut by_policy: BTreeMap<String, Tally> = BTreeMap::new();
    let mut wrong = Vec::new();
    for path in &paths {
        let name = path.file_name().expect("a file has a name").to_string_lossy().into_owned();
        let tally = check(&read(path)).unwrap_or_else(|error| panic!("{name}: {error}"));
        println!("{name}: {tally:?}");
        if tally.wrong > 0 {
            wrong.push(name);
        }
        let sum = by_policy.entry(tally.policy.clone()).or_default();
        sum.exact += tally.exact;
        sum.drawn += tally.drawn;
        sum.checks += tally.checks;
        sum.wrong += tally.wrong;
    }
    for (policy, Tally { exact, drawn, checks, wrong, .. }) in &by_policy {
        println!("{policy}: {exact} exact, {drawn} drawn, {checks} checked, {wrong} wrong");
    }
    assert_eq!(wrong, [""; 0]);
    by_policy
}
