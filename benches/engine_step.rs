//! One engine step, planned, priced and taken in: a batch that decodes, and one where a prompt is
//! prefilled beside it in every step.
//!
//! Measured by the step over a fixed number of steps, with the engine filled anew each time.

use std::time::Duration;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

use servecast::cost::{Roofline, RooflineOptions, StepTime};
use servecast::engine::Instance;
use servecast::engine::scheduler::{Acceptance, Handoff, Scheduler, VllmV1, VllmV1Settings};
use servecast::ids::RequestId;
use servecast::profiles;
use servecast::request::Request;
use servecast::scenario::VllmConfig;
use servecast::units::SimTime;

const STEPS: u32 = 200;

/// Whether a long prompt is prefilled, a chunk in every step, beside the decodes.
#[derive(Clone, Copy)]
enum Work {
    Decode,
    Mixed,
}

/// An engine in which `batch` requests decode and go on for more than all the steps.
fn filled(step_time: &StepTime, batch: u32, work: Work) -> (Instance, SimTime) {
    let config = VllmConfig {
        num_gpu_blocks: Some(60_000),
        max_num_batched_tokens: Some(8192),
        max_num_seqs: Some(1024),
        max_model_len: Some(131_072),
        async_scheduling: false,
        long_prefill_token_threshold: 512,
        ..VllmConfig::default()
    };
    let scheduler =
        VllmV1::new(VllmV1Settings::of(&config).expect("all sizes are given"), Acceptance::NONE);
    let scheduler = Scheduler::VllmV1(Box::new(scheduler));
    // Steps are measured one by one; a run walks decodes in a loop of its own.
    let mut engine = Instance::new(scheduler, step_time.clone()).step_by_step();
    let mut enqueue = |id: u32, prompt| {
        let request = Request::new(SimTime::ZERO, prompt, 2 * STEPS);
        engine.enqueue(RequestId(id), &request, Handoff::None).expect("it fits the model");
    };
    for id in 0..batch {
        enqueue(id, 512);
    }
    if matches!(work, Work::Mixed) {
        enqueue(batch, 512 * (STEPS + 50));
    }
    let mut now = SimTime::ZERO;
    // 8192 tokens a step: all prompts of 512 are in after batch / 16 steps.
    for _ in 0..=batch / 16 + 1 {
        now = engine.advance(now, |_, _| {}).expect("requests are inside");
    }
    (engine, now)
}

fn steps(criterion: &mut Criterion) {
    let model = profiles::model("meta-llama/Llama-3.1-8B").expect("in the catalogue");
    let gpu = profiles::gpu("H100-SXM5-80GB").expect("in the catalogue");
    let roofline = Roofline::new(&model, &gpu, &RooflineOptions::default());
    let step_time = StepTime::Roofline(roofline.expect("it fits"));
    let mut group = criterion.benchmark_group("engine_step");
    group.throughput(Throughput::Elements(STEPS.into()));
    group.measurement_time(Duration::from_secs(3));
    for (name, work) in [("decode", Work::Decode), ("mixed", Work::Mixed)] {
        for batch in [1, 32, 256] {
            group.bench_function(BenchmarkId::new(name, batch), |bencher| {
                bencher.iter_batched(
                    || filled(&step_time, batch, work),
                    |(mut engine, mut now)| {
                        for _ in 0..STEPS {
                            now = engine.advance(now, |_, _| {}).expect("requests are inside");
                        }
                        engine
                    },
                    BatchSize::LargeInput,
                );
            });
        }
    }
    group.finish();
}

criterion_group!(benches, steps);
criterion_main!(benches);
