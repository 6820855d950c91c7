//! Requests that wait for something beside memory: a grammar, or the embeddings of images.

use servecast::engine::Instance;
use servecast::engine::scheduler::{EncoderSettings, Scheduler};
use servecast::ids::RequestId;
use servecast::request::{Image, Inputs, Request};
use servecast::scenario::VllmConfig;
use servecast::sim::{Observer, Occurrence};
use servecast::units::SimTime;

use crate::support::{drive, instance, law, micros, small_engine};

/// When each request left, and the tokens of every step.
#[derive(Debug, Default)]
struct Seen {
    left: Vec<(RequestId, SimTime)>,
    shares: Vec<Vec<(u32, u32)>>,
}

impl Observer for Seen {
    fn on(&mut self, at: SimTime, what: Occurrence<'_>) {
        match what {
            Occurrence::Left(_, life, _) => self.left.push((life.id, at)),
            Occurrence::Planned(_, batch, _) => {
                let share = |entry: &servecast::engine::Entry| (entry.request.0, entry.tokens);
                self.shares.push(batch.plan.entries.iter().map(share).collect());
            }
            _ => {}
        }
    }
}

fn engine() -> VllmConfig {
    VllmConfig { async_scheduling: false, ..small_engine() }
}

fn seen(instance: Instance, requests: &[Request]) -> Seen {
    let mut seen = Seen::default();
    drive(instance, requests, &[], &mut seen, |_, _| {});
    seen
}

fn at(us: u64) -> SimTime {
    SimTime::ZERO + micros(us)
}

#[test]
fn a_grammar_that_is_compiled_holds_up_nobody_else() {
    let inputs = Inputs { grammar: Some(micros(5000)), images: Vec::new() };
    let first = Request { inputs: Some(inputs.into()), ..Request::new(at(0), 8, 1) };
    let second = Request::new(at(0), 8, 1);
    let seen = seen(instance(&engine(), law(1000, 0, 0)), &[first, second]);
    // The second one runs at once; the idle engine looks again when the grammar is ready.
    assert_eq!(seen.left, [(RequestId(1), at(1000)), (RequestId(0), at(6000))]);
}

#[test]
fn a_share_ends_before_an_image_that_finds_no_place() {
    let settings = EncoderSettings { compute_budget: 8, cache_size: 12, whole_images: false };
    let with_encoder =
        instance(&engine(), law(1000, 0, 0)).with_scheduler(|scheduler| match scheduler {
            Scheduler::VllmV1(vllm) => Scheduler::VllmV1(Box::new(vllm.with_encoder(settings))),
            other => other,
        });
    let image = |identifier, offset| Image { identifier, offset, tokens: 8 };
    let inputs = Inputs { grammar: None, images: vec![image(1, 2), image(2, 12)] };
    let request = Request { inputs: Some(inputs.into()), ..Request::new(at(0), 24, 1) };
    let seen = seen(with_encoder, &[request]);
    // Eight embeddings a step: up to the second image, then the rest, once the first has made way.
    assert_eq!(seen.shares, [[(0, 12)], [(0, 12)]]);
}
