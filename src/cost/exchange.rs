//! The way of tokens to the GPUs that hold their experts, and back.
//!
//! A message takes a latency, and the bytes that a GPU gets over its rate (α-β). With an all-gather every
//! GPU gets all tokens and a reduce-scatter sums up what comes back (vLLM's `allgather_reducescatter`, the
//! default of 0.33.0, `vllm/distributed/device_communicators/all2all.py`; `SGLang` gathers likewise); with
//! an all-to-all a token goes only to the GPUs that have experts for it (`DeepEP`).

use crate::model::{ComputeRate, Experts, ModelSpec, Module, Packing};
use crate::scenario::{ExchangeConfig, ExchangeKind};

/// Bytes of an element on the way back, and of one that is not quantised before it is sent.
const ACTIVATION_BYTES: f64 = 2.0;
/// Bytes of one visit beside the hidden state: number and weight of the expert.
const VISIT_BYTES: f64 = 8.0;

/// Both ways in all layers with experts, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Exchange {
    latency: f64,
    /// Per row of all ranks.
    gathered_row: f64,
    /// Per row of the rank with the most.
    sent_row: f64,
}

impl Exchange {
    /// No time.
    pub const NONE: Self = Self { latency: 0.0, gathered_row: 0.0, sent_row: 0.0 };

    /// Between `ranks` ranks of `tp` GPUs that share the experts of a model, whose hidden states are
    /// quantised before they are sent, or on arrival.
    pub fn new(
        model: &ModelSpec,
        (tp, ranks): (u32, u32),
        way: &ExchangeConfig,
        quantises_first: bool,
    ) -> Self {
        let Some(experts) = model.experts() else { return Self::NONE };
        let gpus = f64::from(tp * ranks);
        let layers = f64::from(model.sparse_layers());
        let hidden = f64::from(model.hidden);
        let there = match model
            .packing_of_module(Module::Experts)
            .map_or(ComputeRate::Half, Packing::compute)
        {
            ComputeRate::Half => ACTIVATION_BYTES,
            _ if !quantises_first => ACTIVATION_BYTES,
            _ => 1.0,
        };
        let visits = VISIT_BYTES * f64::from(experts.per_token);
        let row = there * hidden + visits + ACTIVATION_BYTES * hidden;
        let row_secs = layers * row / (way.gb_per_s * 1e9);
        let latency = 2.0 * layers * way.latency_us * 1e-6;
        match way.kind {
            ExchangeKind::AllGather => {
                Self { latency, gathered_row: row_secs * (gpus - 1.0) / gpus, sent_row: 0.0 }
            }
            ExchangeKind::AllToAll => {
                let copies = others_visited(experts, tp * ranks);
                Self { latency, gathered_row: 0.0, sent_row: row_secs * copies / f64::from(tp) }
            }
        }
    }

    /// For so many rows of all ranks, and of the rank with the most.
    pub(super) fn secs(&self, all: u32, most: u32) -> f64 {
        if all == 0 {
            return 0.0;
        }
        self.latency + self.gathered_row * f64::from(all) + self.sent_row * f64::from(most)
    }
}

/// Other GPUs than its own that a token visits on average, where its experts are drawn evenly.
fn others_visited(shape: &Experts, gpus: u32) -> f64 {
    let (experts, gpus) = (f64::from(shape.count), f64::from(gpus));
    let elsewhere = experts - experts / gpus;
    let draws = (0..shape.per_token).map(f64::from);
    let missed: f64 =
        draws.map(|drawn| ((elsewhere - drawn) / (experts - drawn)).max(0.0)).product();
    (gpus - 1.0) * (1.0 - missed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profiles;

    fn way(kind: ExchangeKind) -> ExchangeConfig {
        ExchangeConfig { kind, latency_us: 10.0, gb_per_s: 100.0 }
    }

    #[test]
    fn gathering_brings_every_gpu_the_tokens_of_all_others() {
        // 48 layers, 2048 elements of 2 bytes both ways, 8 visits of 8 bytes.
        let model = profiles::model("Qwen3-30B-A3B").unwrap();
        let exchange = Exchange::new(&model, (1, 4), &way(ExchangeKind::AllGather), true);
        let bytes = 48.0 * 0.75 * 1000.0 * f64::from(2048 * 2 + 8 * 8 + 2048 * 2);
        let expected = 48.0 * 2.0 * 10e-6 + bytes / 100e9;
        assert!((exchange.secs(1000, 700) / expected - 1.0).abs() < 1e-12);
        assert_eq!(exchange.secs(1000, 700).to_bits(), exchange.secs(1000, 300).to_bits());
        let split = Exchange::new(&model, (2, 2), &way(ExchangeKind::AllGather), true);
        assert_eq!(split, exchange, "GPUs of one rank gather shares of its tokens");
    }

    #[test]
    fn what_is_quantised_first_takes_half_of_the_way_there() {
        let model = profiles::model("DeepSeek-V3").unwrap();
        let [early, late] = [true, false].map(|first| {
            Exchange::new(&model, (1, 8), &way(ExchangeKind::AllGather), first).gathered_row
        });
        let visits = 8.0 * 8.0;
        let expected = (3.0 * 7168.0 + visits) / (4.0 * 7168.0 + visits);
        assert!((early / late - expected).abs() < 1e-12, "{early} {late}");
    }

    #[test]
    fn tokens_that_go_only_where_their_experts_are_visit_fewer_gpus() {
        let model = profiles::model("Qwen3-30B-A3B").unwrap();
        let moe = *model.experts().unwrap();
        // 8 of 128 experts on two GPUs: the other has one of them unless all 8 are among 64.
        let all_here: f64 = (0..8).map(|i| f64::from(64 - i) / f64::from(128 - i)).product();
        assert!((others_visited(&moe, 2) - (1.0 - all_here)).abs() < 1e-12);
        assert!(others_visited(&moe, 128) < 8.0 && others_visited(&moe, 128) > 7.9);
        let sent = Exchange::new(&model, (1, 64), &way(ExchangeKind::AllToAll), true);
        let gathered = Exchange::new(&model, (1, 64), &way(ExchangeKind::AllGather), true);
        assert!(sent.secs(6400, 100) < gathered.secs(6400, 100));
        assert!(sent.secs(6400, 200) > sent.secs(6400, 100), "the fullest rank sends the most");
    }
}
