//! Which class a request is of.

use rand::RngExt;

use crate::ids::{ClassId, ModelId};
use crate::rng::Seed;
use crate::rng::Stream;
use crate::scenario::{ClassConfig, models};
use crate::workload::draft::Draft;
use crate::workload::lengths::TokenSampler;
use crate::workload::trace::WorkloadError;

/// Gives requests their classes in order of arrival: those that a trace names, else drawn by their
/// shares. Lengths of classes are drawn from streams of their own, so that neither changes what else is
/// drawn.
#[derive(Debug)]
pub(super) struct Classes {
    known: Vec<Class>,
    /// Cumulated shares; none where a trace names the classes.
    shares: Vec<f64>,
    stream: Box<Stream>,
}

#[derive(Debug)]
struct Class {
    name: String,
    model: ModelId,
    priority: i32,
    input: Option<TokenSampler>,
    output: Option<TokenSampler>,
    stream: Box<Stream>,
}

impl Classes {
    /// `None` where all requests are alike.
    pub(super) fn open(classes: &[ClassConfig], seed: Seed) -> Result<Option<Self>, WorkloadError> {
        if classes.is_empty() {
            return Ok(None);
        }
        let mut below = 0.0;
        let cumulated = |share: f64| {
            below += share;
            below
        };
        let shares = classes.iter().filter_map(|class| class.share).map(cumulated).collect();
        let (_, model_of) = models(classes);
        let class = |(index, class): (usize, &ClassConfig)| {
            let sampler = |tokens: &Option<_>| tokens.as_ref().map(TokenSampler::new).transpose();
            Ok(Class {
                name: class.name.clone(),
                model: model_of[index],
                priority: class.priority,
                input: sampler(&class.input_tokens)?,
                output: sampler(&class.output_tokens)?,
                stream: Box::new(seed.stream("class lengths", index as u64)),
            })
        };
        let known = classes.iter().enumerate().map(class);
        let known = known.collect::<Result<Vec<_>, WorkloadError>>()?;
        Ok(Some(Self { known, shares, stream: Box::new(seed.stream("classes", 0)) }))
    }

    /// The class, model and priority of the `index`-th request; its lengths where its class has some.
    ///
    /// # Errors
    /// When a trace names a class that is not declared, or none.
    pub(super) fn next(
        &mut self,
        draft: &mut Draft,
        index: u64,
    ) -> Result<(ClassId, ModelId, i32), WorkloadError> {
        let place = if self.shares.is_empty() {
            self.named(draft, index)?
        } else {
            let uniform: f64 = self.stream.random();
            let chosen = self.shares.partition_point(|share| *share <= uniform);
            chosen.min(self.known.len() - 1)
        };
        let class = &mut self.known[place];
        if let Some(input) = &class.input {
            draft.prompt_tokens = input.sample(&mut class.stream);
        }
        if let Some(output) = &class.output {
            draft.output_tokens = output.sample(&mut class.stream);
        }
        Ok((ClassId(place as u16), class.model, class.priority))
    }

    fn named(&self, draft: &Draft, index: u64) -> Result<usize, WorkloadError> {
        let name = draft.class.as_deref().unwrap_or_default();
        let place = self.known.iter().position(|class| class.name == name);
        place.ok_or_else(|| {
            let names: Vec<&str> = self.known.iter().map(|class| class.name.as_str()).collect();
            WorkloadError::Unusable(format!(
                "trace.columns.class: must be a class of workload.classes ({}), got `{name}` for \
                 request {index}",
                names.join(", ")
            ))
        })
    }
}
