//! Every way to price a step.

use std::sync::OnceLock;

use servecast::cost::{Linear, Roofline, RooflineOptions, StepTime};
use servecast::model::KvDtype;
use servecast::profiles;
use servecast::scenario::{Communication, Sampler};
use servecast::units::SimDuration;

#[derive(Debug, Clone, Copy)]
pub(super) enum Cost {
    Linear,
    Roofline,
}

impl Cost {
    pub(super) const ALL: [Self; 2] = [Self::Linear, Self::Roofline];

    pub(super) fn law(self) -> StepTime {
        match self {
            Self::Linear => StepTime::Linear(Linear {
                base: SimDuration::from_micros(2000),
                prefill_token: SimDuration::from_micros(20),
                decode_seq: SimDuration::from_nanos(30_001),
            }),
            Self::Roofline => {
                static LAW: OnceLock<StepTime> = OnceLock::new();
                LAW.get_or_init(roofline).clone()
            }
        }
    }
}

fn roofline() -> StepTime {
    let model = profiles::model("meta-llama/Llama-3.1-8B").expect("it is in the catalogue");
    let gpu = profiles::gpu("A10").expect("it is in the catalogue");
    let options = RooflineOptions {
        tensor_parallel_size: 1,
        kv_cache_dtype: KvDtype::default(),
        sampler: Sampler::default(),
        communication: Communication::default(),
    };
    StepTime::Roofline(Roofline::new(&model, &gpu, &options).expect("it fits"))
}
