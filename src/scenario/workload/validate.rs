//! The rules of a workload's configuration, checked before anything is drawn.

use std::fmt;

use super::{
    ArrivalConfig, ClientConfig, ContentConfig, GroupDistribution, LengthConfig, Popularity,
    RowOrder, SessionConfig, ThinkTime, TokenDistribution, TraceArrivalConfig, WorkloadConfig,
    adapter_counts, classes,
};
use crate::problem::Problem;

impl WorkloadConfig {
    /// Every rule this configuration breaks; empty when it can be run.
    pub fn validate(&self) -> Vec<Problem> {
        let mut rules = Rules::default();
        rules.count("num_requests", self.num_requests.unwrap_or(1));
        if let Some(duration_s) = self.duration_s {
            rules.lasting("duration_s", duration_s);
        }
        self.check_length_of_run(&mut rules);
        check_arrivals(&self.arrivals, &mut rules);
        check_lengths(&self.lengths, &mut rules);
        if let (ArrivalConfig::Trace(_), LengthConfig::Trace { order }) =
            (&self.arrivals, &self.lengths)
        {
            let recorded = *order == RowOrder::Recorded;
            let rule = "recorded where the arrivals are the trace's too";
            rules.check(recorded, "lengths.order", rule, format!("{order:?}"));
        }
        check_content(&self.content, &mut rules);
        adapter_counts::check(self, &mut rules);
        classes::check(self, &mut rules);
        if let Some(sessions) = &self.sessions {
            check_sessions(sessions, &mut rules);
        }
        check_client(&self.client, &mut rules);
        rules.problems
    }

    /// Whether rows of a trace are needed.
    pub fn reads_trace(&self) -> bool {
        matches!(self.arrivals, ArrivalConfig::Trace(_))
            || matches!(self.lengths, LengthConfig::Trace { .. })
    }

    /// Whether a tool draws something of all requests before it sends the first.
    pub(crate) fn draws_first(&self) -> bool {
        self.draws_lengths_first() || matches!(self.arrivals, ArrivalConfig::Vllm { .. })
    }

    fn draws_lengths_first(&self) -> bool {
        matches!(
            self.lengths,
            LengthConfig::SglangRandom(_)
                | LengthConfig::VllmRandom(_)
                | LengthConfig::Vllm2024Random(_)
                | LengthConfig::PrefixRepetition(_)
        )
    }

    /// A workload ends by a count, by the clock, or with its trace or data set.
    fn check_length_of_run(&self, rules: &mut Rules) {
        let once = |order: &RowOrder| *order != RowOrder::WithReplacement;
        let (all_at_hand, recorded) = match &self.lengths {
            LengthConfig::GeneratedSharedPrefix(_) => (true, false),
            LengthConfig::Trace { order: RowOrder::Recorded } => (false, true),
            LengthConfig::List { order, .. } | LengthConfig::Trace { order } => {
                (once(order), false)
            }
            _ => (false, false),
        };
        let ends = all_at_hand || recorded || matches!(self.arrivals, ArrivalConfig::Trace(_));
        let needs_count = match self.arrivals {
            ArrivalConfig::Vllm { .. } => !all_at_hand,
            ArrivalConfig::AllAtOnce {} => !ends,
            _ => false,
        };
        if self.num_requests.is_some() {
            return;
        }
        if self.draws_lengths_first() || needs_count {
            rules.broken("num_requests", "must be given for these arrivals and lengths".into());
        } else if !ends && self.duration_s.is_none() {
            rules.broken("num_requests", "must be given, or duration_s".into());
        }
    }
}

#[derive(Default)]
pub(super) struct Rules {
    problems: Vec<Problem>,
}

impl Rules {
    pub(super) fn broken(&mut self, path: &str, message: String) {
        self.problems.push(Problem::new(path, message));
    }

    pub(super) fn check(&mut self, holds: bool, path: &str, rule: &str, value: impl fmt::Display) {
        if !holds {
            self.problems.push(Problem::must_be(path, rule, value));
        }
    }

    pub(super) fn positive(&mut self, path: &str, value: f64) {
        self.check(value > 0.0 && value.is_finite(), path, "finite and above 0", value);
    }

    fn not_negative(&mut self, path: &str, value: f64) {
        self.check(value >= 0.0 && value.is_finite(), path, "finite and at least 0", value);
    }

    /// Thirty years at most: what the clock can count on.
    pub(super) fn lasting(&mut self, path: &str, seconds: f64) {
        let holds = seconds > 0.0 && seconds <= 1e9;
        self.check(holds, path, "a time above 0 and up to 10⁹ seconds", seconds);
    }

    /// What comes again and again in a run.
    fn pause(&mut self, path: &str, seconds: f64) {
        self.check((0.0..=1e6).contains(&seconds), path, "a time from 0 to 10⁶ seconds", seconds);
    }

    fn count(&mut self, path: &str, value: u32) {
        self.check(value >= 1, path, "at least 1", value);
    }

    pub(super) fn share(&mut self, path: &str, value: f64) {
        self.check((0.0..=1.0).contains(&value), path, "between 0 and 1", value);
    }

    /// Tokens are below 2³¹, so that sums of two lengths fit 32 bits.
    fn tokens(&mut self, path: &str, value: u32) {
        self.check((1..1 << 31).contains(&value), path, "between 1 and 2^31 - 1 tokens", value);
    }

    fn prefix(&mut self, tokens: u32) {
        self.check(tokens < 1 << 30, "lengths.prefix_tokens", "below 2^30 tokens", tokens);
    }

    fn range(&mut self, path: &str, min: u32, max: u32) {
        self.tokens(&format!("{path}.min_tokens"), min);
        self.tokens(&format!("{path}.max_tokens"), max);
        let rule = format!("at least min_tokens, {min}");
        self.check(min <= max, &format!("{path}.max_tokens"), &rule, max);
    }

    pub(super) fn distribution(&mut self, path: &str, distribution: &TokenDistribution) {
        match *distribution {
            TokenDistribution::Fixed { tokens } => self.tokens(&format!("{path}.tokens"), tokens),
            TokenDistribution::Uniform { min_tokens, max_tokens } => {
                self.range(path, min_tokens, max_tokens);
            }
            TokenDistribution::LogNormal { median_tokens, sigma, min_tokens, max_tokens } => {
                self.positive(&format!("{path}.median_tokens"), median_tokens);
                self.not_negative(&format!("{path}.sigma"), sigma);
                self.range(path, min_tokens, max_tokens);
            }
            TokenDistribution::Zipf { exponent, min_tokens, max_tokens } => {
                self.not_negative(&format!("{path}.exponent"), exponent);
                self.range(path, min_tokens, max_tokens);
            }
        }
    }
}

fn check_arrivals(arrivals: &ArrivalConfig, rules: &mut Rules) {
    let rate = "arrivals.rate_per_s";
    match arrivals {
        ArrivalConfig::AllAtOnce {} => {}
        ArrivalConfig::Constant { rate_per_s }
        | ArrivalConfig::Poisson { rate_per_s }
        | ArrivalConfig::Sglang { rate_per_s }
        | ArrivalConfig::Vllm2024 { rate_per_s } => rules.rate(rate, *rate_per_s),
        ArrivalConfig::Gamma { rate_per_s, cv } => {
            rules.rate(rate, *rate_per_s);
            rules.check((1e-3..=1e3).contains(cv), "arrivals.cv", "from 0.001 to 1000", cv);
        }
        ArrivalConfig::Weibull { rate_per_s, shape } => {
            rules.rate(rate, *rate_per_s);
            let enough = *shape >= 0.1 && shape.is_finite();
            rules.check(enough, "arrivals.shape", "finite and at least 0.1", shape);
        }
        ArrivalConfig::Sine { rate_per_s, amplitude, period_s } => {
            rules.rate(rate, *rate_per_s);
            // At its lowest the rate still is a rate.
            let holds = (0.0..=0.99).contains(amplitude);
            rules.check(holds, "arrivals.amplitude", "from 0 to 0.99", amplitude);
            let holds = (1e-3..=1e9).contains(period_s);
            rules.check(holds, "arrivals.period_s", "from 0.001 to 10⁹ seconds", period_s);
        }
        ArrivalConfig::Vllm { rate_per_s, burstiness, ramp_up } => {
            match (rate_per_s, ramp_up) {
                (Some(rate_per_s), None) => rules.rate(rate, *rate_per_s),
                (None, Some(ramp)) => {
                    rules.rate("arrivals.ramp_up.start_rate_per_s", ramp.start_rate_per_s);
                    rules.rate("arrivals.ramp_up.end_rate_per_s", ramp.end_rate_per_s);
                }
                (None, None) => rules.broken(rate, "must be given, or ramp_up".into()),
                (Some(_), Some(_)) => {
                    rules.broken(rate, "give either rate_per_s or ramp_up, not both".into());
                }
            }
            // Infinity is vLLM's own way to ask for constant gaps.
            let path = "arrivals.burstiness";
            rules.check(*burstiness > 0.0, path, "above 0 (infinity: constant)", burstiness);
        }
        ArrivalConfig::AdapterCounts(counts) => {
            rules.rate(rate, counts.rate_per_s);
            adapter_counts::check_counts(counts, rules);
        }
        ArrivalConfig::Trace(trace) => check_trace(trace, rules),
    }
}

impl Rules {
    fn rate(&mut self, path: &str, value: f64) {
        let holds = value >= 1e-6 && value.is_finite();
        let rule = "finite and at least 10⁻⁶ per second (for all at once: type all_at_once)";
        self.check(holds, path, rule, value);
    }
}

fn check_trace(trace: &TraceArrivalConfig, rules: &mut Rules) {
    let scale = trace.rate_scale;
    let holds = scale >= 1e-6 && scale.is_finite();
    rules.check(holds, "arrivals.rate_scale", "finite and at least 10⁻⁶", scale);
    if let Some(rate_per_s) = trace.rate_per_s {
        rules.rate("arrivals.rate_per_s", rate_per_s);
        #[expect(clippy::float_cmp, reason = "the default, not a computed value")]
        rules.check(
            trace.rate_scale == 1.0,
            "arrivals.rate_scale",
            "left out where rate_per_s is given",
            trace.rate_scale,
        );
    }
    rules.not_negative("arrivals.jitter_s", trace.jitter_s);
    let rule = "from 1 to 100000";
    rules.check((1..=100_000).contains(&trace.copies), "arrivals.copies", rule, trace.copies);
    let start = trace.window_start_s.unwrap_or(0.0);
    rules.not_negative("arrivals.window_start_s", start);
    if let Some(end) = trace.window_end_s {
        let later = end > start && end.is_finite();
        let rule = format!("later than the window's start, {start} s");
        rules.check(later, "arrivals.window_end_s", &rule, end);
    }
}

fn check_lengths(lengths: &LengthConfig, rules: &mut Rules) {
    let (input, output) = ("lengths.input_tokens", "lengths.output_tokens");
    let ratio = "lengths.range_ratio";
    match lengths {
        LengthConfig::Fixed { input_tokens, output_tokens } => {
            rules.tokens(input, *input_tokens);
            rules.tokens(output, *output_tokens);
        }
        LengthConfig::Sampled { input_tokens, output_tokens } => {
            rules.distribution(input, input_tokens);
            rules.distribution(output, output_tokens);
        }
        LengthConfig::SglangRandom(random) => {
            rules.tokens(input, random.input_tokens);
            rules.tokens(output, random.output_tokens);
            rules.share(ratio, random.range_ratio);
            rules.count("lengths.vocabulary_size", random.vocabulary_size.unwrap_or(1));
        }
        LengthConfig::VllmRandom(random) => {
            rules.tokens(output, random.output_tokens);
            rules.check(random.input_tokens < 1 << 30, input, "below 2^30", random.input_tokens);
            rules.prefix(random.prefix_tokens);
            let outputs = random.output_range_ratio.unwrap_or(random.range_ratio);
            for (path, value) in
                [(ratio, random.range_ratio), ("lengths.output_range_ratio", outputs)]
            {
                rules.check((0.0..1.0).contains(&value), path, "at least 0 and below 1", value);
            }
            let own = f64::from(random.input_tokens.saturating_sub(random.special_tokens));
            let smallest =
                f64::from(random.prefix_tokens) + (own * (1.0 - random.range_ratio)).floor();
            rules.check(
                smallest >= 1.0,
                input,
                "long enough that the shortest prompt has 1 token after special tokens",
                random.input_tokens,
            );
        }
        LengthConfig::Vllm2024Random(random) => {
            rules.tokens(input, random.input_tokens);
            rules.tokens(output, random.output_tokens);
            rules.share(ratio, random.range_ratio);
            rules.prefix(random.prefix_tokens);
            rules.count("lengths.vocabulary_size", random.vocabulary_size);
        }
        LengthConfig::GeneratedSharedPrefix(shared) => {
            rules.count("lengths.groups", shared.groups);
            rules.count("lengths.prompts_per_group", shared.prompts_per_group);
            let prompts = u64::from(shared.groups) * u64::from(shared.prompts_per_group);
            // The tool draws them all before it sends the first.
            let rule = "10⁸ prompts in all groups together at most";
            rules.check(prompts <= 100_000_000, "lengths.prompts_per_group", rule, prompts);
            rules.tokens("lengths.system_prompt_tokens", shared.system_prompt_tokens);
            rules.tokens("lengths.question_tokens", shared.question_tokens);
            rules.tokens(output, shared.output_tokens);
            rules.share(ratio, shared.range_ratio);
            if let GroupDistribution::Zipf { exponent } = shared.group_distribution {
                rules.positive("lengths.group_distribution.exponent", exponent);
            }
            let known = shared.order != RowOrder::WithReplacement;
            rules.check(known, "lengths.order", "recorded or shuffled", "with_replacement");
        }
        LengthConfig::PrefixRepetition(repetition) => {
            rules.count("lengths.prefixes", repetition.prefixes);
            rules.prefix(repetition.prefix_tokens);
            rules.tokens("lengths.suffix_tokens", repetition.suffix_tokens);
            rules.tokens(output, repetition.output_tokens);
            rules.count("lengths.vocabulary_size", repetition.vocabulary_size);
        }
        LengthConfig::Sonnet(sonnet) => {
            let base = sonnet.question_tokens.saturating_add(sonnet.template_tokens);
            let rule = format!("above the tokens of question and template, {base}");
            rules.check(sonnet.input_tokens > base, input, &rule, sonnet.input_tokens);
            rules.check(sonnet.input_tokens < 1 << 30, input, "below 2^30", sonnet.input_tokens);
            let rule = format!("at most input_tokens, {}", sonnet.input_tokens);
            let fits = sonnet.prefix_tokens <= sonnet.input_tokens;
            rules.check(fits, "lengths.prefix_tokens", &rule, sonnet.prefix_tokens);
            rules.tokens(output, sonnet.output_tokens);
            rules.positive("lengths.line_tokens_mean", sonnet.line_tokens_mean);
            let (path, std) = ("lengths.line_tokens_std", sonnet.line_tokens_std);
            rules.check((0.0..=1e6).contains(&std), path, "from 0 to 10⁶", std);
        }
        LengthConfig::List { pairs, .. } => {
            rules.check(!pairs.is_empty(), "lengths.pairs", "at least one pair", "none");
            for (index, (input, output)) in pairs.iter().enumerate() {
                rules.tokens(&format!("lengths.pairs[{index}][0]"), *input);
                rules.tokens(&format!("lengths.pairs[{index}][1]"), *output);
            }
        }
        LengthConfig::Trace { .. } => {}
    }
}

fn check_content(content: &ContentConfig, rules: &mut Rules) {
    if let ContentConfig::SystemPrompt { groups, prefix_tokens, share, popularity } = content {
        rules.count("content.groups", *groups);
        rules.tokens("content.prefix_tokens", *prefix_tokens);
        rules.share("content.share", *share);
        if let Popularity::Zipf { exponent } = popularity {
            rules.positive("content.popularity.exponent", *exponent);
        }
    }
}

fn check_client(client: &ClientConfig, rules: &mut Rules) {
    rules.count("client.max_concurrency", client.max_concurrency.unwrap_or(1));
    if let Some(seconds) = client.stop_after_s {
        rules.lasting("client.stop_after_s", seconds);
    }
    rules.pause("client.think_time_s", client.think_time_s);
    if client.think_time_s > 0.0 && client.max_concurrency.is_none() {
        rules.broken(
            "client.think_time_s",
            "needs client.max_concurrency, the number of users who think".into(),
        );
    }
    let Some(ports) = &client.ports else { return };
    rules.count("client.ports.count", ports.count);
    rules.pause("client.ports.time_wait_s", ports.time_wait_s);
    for (key, is_given) in [
        ("max_concurrency", client.max_concurrency.is_some()),
        ("retries", client.retries.is_some()),
    ] {
        if is_given {
            rules.broken("client.ports", format!("not beside client.{key}"));
        }
    }
}

fn check_sessions(sessions: &SessionConfig, rules: &mut Rules) {
    rules.count("sessions.turns_min", sessions.turns_min);
    let rule = format!("at least turns_min, {}", sessions.turns_min);
    let ordered = sessions.turns_max >= sessions.turns_min;
    rules.check(ordered, "sessions.turns_max", &rule, sessions.turns_max);
    rules.distribution("sessions.message_tokens", &sessions.message_tokens);
    rules.distribution("sessions.output_tokens", &sessions.output_tokens);
    match sessions.think_time {
        ThinkTime::Constant { time_s } => rules.pause("sessions.think_time.time_s", time_s),
        ThinkTime::Exponential { mean_s } => {
            rules.positive("sessions.think_time.mean_s", mean_s);
            rules.pause("sessions.think_time.mean_s", mean_s);
        }
    }
}
