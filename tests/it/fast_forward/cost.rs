//! Every way to price a step.

use std::sync::OnceLock;

use servecast::cost::{
    Linear, OperatorModel, OperatorProfile, Roofline, RooflineOptions, StepTime,
};
use servecast::profiles;
use servecast::units::SimDuration;

#[derive(Debug, Clone, Copy)]
pub(super) enum Cost {
    Linear,
    Roofline,
    Operators,
}

impl Cost {
    pub(super) const ALL: [Self; 3] = [Self::Linear, Self::Roofline, Self::Operators];

    pub(super) fn law(self) -> StepTime {
        static ROOFLINE: OnceLock<StepTime> = OnceLock::new();
        static OPERATORS: OnceLock<StepTime> = OnceLock::new();
        match self {
            Self::Linear => StepTime::Linear(Linear {
                base: SimDuration::from_micros(2000),
                prefill_token: SimDuration::from_micros(20),
                decode_seq: SimDuration::from_nanos(30_001),
                ..Linear::default()
            }),
            Self::Roofline => ROOFLINE.get_or_init(roofline).clone(),
            Self::Operators => OPERATORS.get_or_init(operators).clone(),
        }
    }
}

const MODEL: &str = "meta-llama/Llama-3.1-8B";

fn roofline() -> StepTime {
    let model = profiles::model(MODEL).expect("it is in the catalogue");
    let gpu = profiles::gpu("A10").expect("it is in the catalogue");
    StepTime::Roofline(Roofline::new(&model, &gpu, &RooflineOptions::default()).expect("it fits"))
}

fn operators() -> StepTime {
    let model = profiles::model(MODEL).expect("it is in the catalogue");
    let gpu = profiles::gpu("L40S").expect("it is in the catalogue");
    let table = profiles::operator_table("l40s/vllm-0.24.0").expect("it is in the catalogue");
    let profile = OperatorProfile::parse(table.text).expect("it is a profile");
    let options = RooflineOptions::default();
    let model = OperatorModel::new(&model, &gpu, &profile, &options).expect("it fits");
    StepTime::Operators(model)
}
