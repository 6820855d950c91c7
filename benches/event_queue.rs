//! The event queue under the hold model: take the earliest event, add one a random time later.
//! What a run does at a steady number of pending events.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rand::RngExt;

use servecast::des::{Class, EventQueue};
use servecast::rng::{Seed, Stream};
use servecast::units::{SimDuration, SimTime};

/// An event as large as those of a run.
type Event = [u32; 3];

/// Up to 50 ms, as steps last.
fn later(stream: &mut Stream) -> SimDuration {
    SimDuration::from_nanos(stream.random_range(0..50_000_000))
}

fn hold(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("event_queue");
    group.throughput(Throughput::Elements(1));
    for pending in [8_u32, 64, 512, 4096, 65_536] {
        let mut stream = Seed(1).stream("hold", 0);
        let mut queue = EventQueue::<Event>::default();
        for id in 0..pending {
            queue.push(SimTime::ZERO + later(&mut stream), Class::Step, [id; 3]);
        }
        group.bench_function(BenchmarkId::new("hold", pending), |bencher| {
            bencher.iter(|| {
                let (now, event) = queue.pop().expect("events are pending");
                queue.push(now + later(&mut stream), Class::Step, black_box(event));
            });
        });
    }
    group.finish();
}

criterion_group!(benches, hold);
criterion_main!(benches);
