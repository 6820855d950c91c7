//! Sweeps that are stopped, and whose runs are done elsewhere.

use servecast::load::{Changes, Listener};
use servecast::sweep::{Entry, Sweep, Vary, Watch, Worker};
use servecast::threads::{self, Stop, Stopped};

#[test]
fn a_sweep_ends_when_it_is_asked_to_and_goes_on_from_what_it_kept() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("sweep");
    let vary = Vary::over(["workload.num_requests=20..60:5"]).unwrap().with_seeds(2);
    let sweep = Sweep::built_in(&Changes::default(), &vary).unwrap();
    let stop = Stop::default();
    let at_third = |ended, _| {
        if ended == 3 {
            stop.stop();
        }
        threads::end_if_stopped();
    };
    let watch = Watch { progress: Some(&at_third), ..Watch::default() };
    let done = stop.run(|| sweep.run_in(&folder, None, &watch).map(drop).is_ok());
    assert_eq!(done, Err(Stopped));

    let rest = sweep.run_in(&folder, None, &Watch::default()).unwrap();
    assert!(rest.reused() >= 2, "{} were kept", rest.reused());
    let whole = sweep.run(&Watch::default()).unwrap();
    assert_eq!(rest.columns(), whole.columns());
}

#[test]
fn a_sweep_that_was_done_elsewhere_has_the_bytes_of_one_done_here() {
    let scratch = tempfile::tempdir().unwrap();
    let vary = Vary::over(["workload.num_requests=20,30", "cluster.replicas=1,2,0"]).unwrap();
    let sweep = Sweep::built_in(&Changes::default(), &vary.with_seeds(2)).unwrap();
    let here = scratch.path().join("here");
    sweep.run_in(&here, None, &Watch::default()).unwrap();
    let there = scratch.path().join("there");
    let read = |folder: &std::path::Path| std::fs::read(folder.join("results.csv")).unwrap();

    // Two thirds come, from the last to the first and some twice; then the driver is gone.
    let worker = Worker::new(sweep.clone(), &Listener::default()).unwrap();
    let lines = |runs: &[u32]| -> Vec<String> {
        worker.simulate(runs).unwrap().iter().map(Entry::line).collect()
    };
    let mut kept = sweep.kept_in(&there, &Listener::default()).unwrap();
    let all = kept.missing();
    assert_eq!(all, (0..sweep.runs()).collect::<Vec<u32>>());
    let first: Vec<u32> = all.iter().rev().copied().filter(|run| run % 3 > 0).collect();
    for line in lines(&first).iter().chain(&lines(&first[..2])) {
        kept.keep(&Entry::parse(line.trim_end().as_bytes()).unwrap()).unwrap();
    }
    assert!(sweep.kept_in(&there, &Listener::default()).is_err(), "it is being written");
    drop(kept);

    let mut kept = sweep.kept_in(&there, &Listener::default()).unwrap();
    // Those that failed are tried again, and told again where they fail anew.
    let missing = kept.missing();
    assert!(all.iter().filter(|run| *run % 3 == 0).all(|run| missing.contains(run)));
    for line in lines(&missing) {
        kept.keep(&Entry::parse(line.trim_end().as_bytes()).unwrap()).unwrap();
    }
    kept.finish().unwrap();
    assert_eq!(read(&there), read(&here));

    // What is of another sweep, or torn, is not taken.
    let other =
        Sweep::built_in(&Changes::default(), &Vary::over(["cluster.replicas=1,2"]).unwrap());
    let other = Worker::new(other.unwrap(), &Listener::default()).unwrap();
    let entry = other.simulate(&[0]).unwrap().remove(0);
    let mut kept = sweep.kept_in(&scratch.path().join("third"), &Listener::default()).unwrap();
    assert!(kept.keep(&entry).unwrap_err().to_string().contains("another sweep"));
    assert!(kept.finish().unwrap_err().to_string().contains("missing"));
    let line = entry.line();
    assert!(Entry::parse(&line.as_bytes()[..line.len() - 5]).is_none());
}
