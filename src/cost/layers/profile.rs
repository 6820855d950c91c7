//! A layer profile: the file form of [`LayerTable`](super::LayerTable).

use std::fmt::Write as _;

use serde::Deserialize;

use super::numbers::Numbers;

/// Measured times of the operators of one model on one kind of GPU, for one tensor parallel size.
/// Times are those of one layer on one GPU.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerProfile {
    /// Where the measurements come from.
    pub source: String,
    /// Their licence.
    pub licence: String,
    /// The day they were made.
    pub measured: String,
    /// The GPU, by its name in the catalogue.
    pub gpu: String,
    /// The model, by its name in the catalogue.
    pub model: String,
    /// Type of weights and activations.
    pub dtype: String,
    /// GPUs that share every matrix.
    pub tensor_parallel_size: u32,
    /// The engine whose kernels were measured.
    pub engine: String,
    /// Its version.
    pub engine_version: String,
    /// Operators over all new tokens of a step.
    pub rows: RowsProfile,
    /// Operators over the sequences of a step.
    pub sequences: SequencesProfile,
    /// Attention.
    pub attention: AttentionProfile,
    /// Routed experts.
    #[serde(default)]
    pub experts: Option<ExpertsProfile>,
    /// What unequal contexts add to decode attention.
    #[serde(default)]
    pub skew: Option<SkewProfile>,
    /// All-reduces on the host on which the profile was validated.
    #[serde(default)]
    pub all_reduce: Option<AllReduceHost>,
}

/// Times by new tokens of the step, in ns.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "operators as vLLM's layers name them")]
pub struct RowsProfile {
    /// The grid.
    pub tokens: Numbers,
    pub embedding_ns: Numbers,
    pub layernorm_ns: Numbers,
    pub qkv_proj_ns: Numbers,
    #[serde(default)]
    pub qk_norm_ns: Option<Numbers>,
    pub rotary_emb_ns: Numbers,
    pub o_proj_ns: Numbers,
    #[serde(default)]
    pub gate_up_proj_ns: Option<Numbers>,
    #[serde(default)]
    pub act_fn_ns: Option<Numbers>,
    #[serde(default)]
    pub down_proj_ns: Option<Numbers>,
    pub final_layernorm_ns: Numbers,
}

/// Times by sequences of the step, in ns.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "operators as vLLM's layers name them")]
pub struct SequencesProfile {
    /// The grid.
    pub sequences: Numbers,
    pub lm_head_ns: Numbers,
    pub sampler_ns: Numbers,
}

/// Times of a layer's attention in 0.1 µs, on a grid of four dimensions.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttentionProfile {
    /// Σ tokens that prefill, from 1.
    pub prefill_tokens: Numbers,
    /// Σ tokens in context before them.
    pub prefill_context: Numbers,
    /// Sequences that decode, from 1.
    pub decode_seqs: Numbers,
    /// Tokens in context of each of them.
    pub decode_context: Numbers,
    /// Prefill alone: by tokens, then context.
    pub prefill_tenth_us: Numbers,
    /// Decode alone: by sequences, then context.
    pub decode_tenth_us: Numbers,
    /// Both: by prefill tokens, then sequences that decode (as many of the first as were measured),
    /// then prefill context, then decode context.
    pub mixed_tenth_us: Numbers,
}

/// Times of a layer's routed experts in ns, by tokens and then by experts that these reach.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpertsProfile {
    /// Tokens.
    pub tokens: Numbers,
    /// Experts that get at least one token.
    pub activated: Numbers,
    /// Times. Where so few tokens cannot reach so many experts, the row goes on in a straight line.
    pub experts_ns: Numbers,
}

/// What a longest context adds to decode attention: the time is
/// A(mean) + alpha · (A(longest) − A(mean)). Alpha is given for decode-only batches by the upper
/// bounds of: sequences; (mean − shortest)/(longest − shortest); longest context. There is one more
/// class than bounds.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SkewProfile {
    /// Alpha of batches that also prefill.
    pub mixed_alpha: f64,
    /// Upper bounds of the number of sequences.
    pub decode_seqs: Numbers,
    /// Upper bounds of the mean's place between shortest and longest, in percent.
    pub mean_percent: Numbers,
    /// Upper bounds of the longest context.
    pub context: Numbers,
    /// Alpha, by sequences, then mean, then context.
    pub alpha: Vec<f64>,
}

/// How long an all-reduce takes on a host: latency and bytes over rate. A matter of the host's
/// links and switches, not of the GPU.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllReduceHost {
    /// Fixed time in µs.
    pub latency_us: f64,
    /// Rate in 10⁹ B/s.
    pub gb_s: f64,
}

/// Why a layer profile cannot be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LayerProfileError {
    /// It is no profile.
    #[error("{0}")]
    Syntax(String),
    /// An axis goes further than any step does.
    #[error("{axis}: must be at most {most}, got {last}")]
    Beyond {
        /// The axis.
        axis: &'static str,
        /// The largest number that may be.
        most: u64,
        /// The largest number there is.
        last: u64,
    },
    /// A table has another size than its axes say.
    #[error("{table}: must hold {expected} numbers, got {found}")]
    Size {
        /// The table.
        table: &'static str,
        /// Numbers by its axes.
        expected: usize,
        /// Numbers there are.
        found: usize,
    },
    /// An operator takes longer than any does: its unit is another.
    #[error("{table}: must hold times up to {LONGEST} ns, got {longest}")]
    TooLong {
        /// The table.
        table: &'static str,
        /// The longest time there is.
        longest: u64,
    },
    /// An axis does not increase, or is too short.
    #[error("{axis}: must be at least {least} increasing numbers")]
    Axis {
        /// The axis.
        axis: &'static str,
        /// How many it needs.
        least: usize,
    },
}

impl LayerProfile {
    /// Reads a profile.
    ///
    /// # Errors
    /// When it is no TOML of this shape, or a table has another size than its axes say.
    pub fn parse(text: &str) -> Result<Self, LayerProfileError> {
        let profile: Self =
            toml::from_str(text).map_err(|error| LayerProfileError::Syntax(error.to_string()))?;
        profile.check()?;
        Ok(profile)
    }

    /// Whether every table has the size of its axes.
    pub(super) fn check(&self) -> Result<(), LayerProfileError> {
        check_axis("rows.tokens", &self.rows.tokens, 2)?;
        for (table, numbers) in self.rows.operators() {
            check_size(table, numbers, self.rows.tokens.len())?;
        }
        check_axis("sequences.sequences", &self.sequences.sequences, 2)?;
        let count = self.sequences.sequences.len();
        check_size("sequences.lm_head_ns", &self.sequences.lm_head_ns, count)?;
        check_size("sequences.sampler_ns", &self.sequences.sampler_ns, count)?;
        self.attention.check()?;
        if let Some(experts) = &self.experts {
            check_axis("experts.tokens", &experts.tokens, 2)?;
            check_axis("experts.activated", &experts.activated, 2)?;
            let size = experts.tokens.len() * experts.activated.len();
            check_size("experts.experts_ns", &experts.experts_ns, size)?;
        }
        let Some(skew) = &self.skew else { return Ok(()) };
        check_axis("skew.decode_seqs", &skew.decode_seqs, 1)?;
        check_axis("skew.mean_percent", &skew.mean_percent, 1)?;
        check_axis("skew.context", &skew.context, 1)?;
        let expected =
            (skew.decode_seqs.len() + 1) * (skew.mean_percent.len() + 1) * (skew.context.len() + 1);
        if skew.alpha.len() != expected {
            let found = skew.alpha.len();
            return Err(LayerProfileError::Size { table: "skew.alpha", expected, found });
        }
        Ok(())
    }

    /// The profile as a file.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        for (key, value) in [
            ("source", &self.source),
            ("licence", &self.licence),
            ("measured", &self.measured),
            ("gpu", &self.gpu),
            ("model", &self.model),
            ("dtype", &self.dtype),
        ] {
            put(&mut text, key, value.as_str());
        }
        put(&mut text, "tensor_parallel_size", i64::from(self.tensor_parallel_size));
        put(&mut text, "engine", self.engine.as_str());
        put(&mut text, "engine_version", self.engine_version.as_str());
        if let Some(host) = self.all_reduce {
            text.push_str("\n[all_reduce]\n");
            put(&mut text, "latency_us", host.latency_us);
            put(&mut text, "gb_s", host.gb_s);
        }
        text.push_str("\n[rows]\n");
        put_numbers(&mut text, "tokens", &self.rows.tokens, 16);
        for (table, numbers) in self.rows.operators() {
            put_numbers(&mut text, behind_dot(table), numbers, 16);
        }
        text.push_str("\n[sequences]\n");
        put_numbers(&mut text, "sequences", &self.sequences.sequences, 16);
        put_numbers(&mut text, "lm_head_ns", &self.sequences.lm_head_ns, 16);
        put_numbers(&mut text, "sampler_ns", &self.sequences.sampler_ns, 16);
        self.attention.write(&mut text);
        if let Some(experts) = &self.experts {
            text.push_str("\n[experts]\n");
            put_numbers(&mut text, "tokens", &experts.tokens, 16);
            put_numbers(&mut text, "activated", &experts.activated, 16);
            put_numbers(&mut text, "experts_ns", &experts.experts_ns, experts.activated.len());
        }
        if let Some(skew) = &self.skew {
            text.push_str("\n[skew]\n");
            put(&mut text, "mixed_alpha", skew.mixed_alpha);
            put_numbers(&mut text, "decode_seqs", &skew.decode_seqs, 16);
            put_numbers(&mut text, "mean_percent", &skew.mean_percent, 16);
            put_numbers(&mut text, "context", &skew.context, 16);
            text.push_str("alpha = [\n");
            for line in skew.alpha.chunks(skew.context.len() + 1) {
                let words: Vec<String> = line.iter().map(|alpha| format!("{alpha:?}")).collect();
                // A string can always be written to.
                let _ = writeln!(text, "  {},", words.join(", "));
            }
            text.push_str("]\n");
        }
        text
    }
}

impl RowsProfile {
    /// The operators there are, in the order of a layer.
    pub(super) fn operators(&self) -> impl Iterator<Item = (&'static str, &Numbers)> {
        fn maybe<'a>(
            name: &'static str,
            numbers: Option<&'a Numbers>,
        ) -> Option<(&'static str, &'a Numbers)> {
            numbers.map(|numbers| (name, numbers))
        }
        let always = |name, numbers| Some((name, numbers));
        [
            always("rows.embedding_ns", &self.embedding_ns),
            always("rows.layernorm_ns", &self.layernorm_ns),
            always("rows.qkv_proj_ns", &self.qkv_proj_ns),
            maybe("rows.qk_norm_ns", self.qk_norm_ns.as_ref()),
            always("rows.rotary_emb_ns", &self.rotary_emb_ns),
            always("rows.o_proj_ns", &self.o_proj_ns),
            maybe("rows.gate_up_proj_ns", self.gate_up_proj_ns.as_ref()),
            maybe("rows.act_fn_ns", self.act_fn_ns.as_ref()),
            maybe("rows.down_proj_ns", self.down_proj_ns.as_ref()),
            always("rows.final_layernorm_ns", &self.final_layernorm_ns),
        ]
        .into_iter()
        .flatten()
    }
}

impl AttentionProfile {
    fn check(&self) -> Result<(), LayerProfileError> {
        check_axis("attention.prefill_tokens", &self.prefill_tokens, 1)?;
        check_axis("attention.prefill_context", &self.prefill_context, 2)?;
        check_axis("attention.decode_seqs", &self.decode_seqs, 1)?;
        check_axis("attention.decode_context", &self.decode_context, 2)?;
        for (axis, points) in [
            ("attention.prefill_tokens", &self.prefill_tokens),
            ("attention.decode_seqs", &self.decode_seqs),
        ] {
            if points[0] == 0 {
                return Err(LayerProfileError::Axis { axis, least: 1 });
            }
        }
        let (tokens, cached) = (self.prefill_tokens.len(), self.prefill_context.len());
        let contexts = self.decode_context.len();
        check_size("attention.prefill_tenth_us", &self.prefill_tenth_us, tokens * cached)?;
        let decodes = self.decode_seqs.len() * contexts;
        check_size("attention.decode_tenth_us", &self.decode_tenth_us, decodes)?;
        let per_seqs = tokens * cached * contexts;
        let measured = (self.mixed_tenth_us.len() / per_seqs).clamp(1, self.decode_seqs.len());
        check_size("attention.mixed_tenth_us", &self.mixed_tenth_us, measured * per_seqs)
    }

    fn write(&self, text: &mut String) {
        let (cached, contexts) = (self.prefill_context.len(), self.decode_context.len());
        text.push_str("\n[attention]\n");
        put_numbers(text, "prefill_tokens", &self.prefill_tokens, 32);
        put_numbers(text, "prefill_context", &self.prefill_context, 32);
        put_numbers(text, "decode_seqs", &self.decode_seqs, 32);
        put_numbers(text, "decode_context", &self.decode_context, 32);
        put_numbers(text, "prefill_tenth_us", &self.prefill_tenth_us, cached);
        put_numbers(text, "decode_tenth_us", &self.decode_tenth_us, contexts);
        put_numbers(text, "mixed_tenth_us", &self.mixed_tenth_us, cached * contexts);
    }
}

fn behind_dot(table: &str) -> &str {
    table.rsplit('.').next().unwrap_or(table)
}

fn put(text: &mut String, key: &str, value: impl Into<toml::Value>) {
    let value = value.into();
    // A string can always be written to.
    let _ = writeln!(text, "{key} = {value}");
}

fn put_numbers(text: &mut String, key: &str, numbers: &Numbers, per_line: usize) {
    // A string can always be written to.
    let _ = write!(text, "{key} = ");
    numbers.write(per_line, text);
}

fn check_axis(axis: &'static str, points: &[u64], least: usize) -> Result<(), LayerProfileError> {
    if points.len() < least || !points.is_sorted_by(|a, b| a < b) {
        return Err(LayerProfileError::Axis { axis, least });
    }
    // Sequences have a place each in memory.
    let most = if axis.ends_with("seqs") { 1_000_000 } else { u64::from(u32::MAX) };
    match points.last() {
        Some(&last) if last > most => Err(LayerProfileError::Beyond { axis, most, last }),
        _ => Ok(()),
    }
}

/// The longest time of an operator in nanoseconds, 10 s.
const LONGEST: u64 = 10_000_000_000;

fn check_size(
    table: &'static str,
    numbers: &[u64],
    expected: usize,
) -> Result<(), LayerProfileError> {
    if numbers.len() != expected {
        return Err(LayerProfileError::Size { table, expected, found: numbers.len() });
    }
    match numbers.iter().max() {
        Some(&longest) if longest > LONGEST => Err(LayerProfileError::TooLong { table, longest }),
        _ => Ok(()),
    }
}
