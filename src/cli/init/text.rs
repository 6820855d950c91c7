//! The scenario as it is written: short, with a comment where a newcomer needs one.

use std::fmt::Write as _;

use super::EngineName;
use super::answers::{Answers, Quantization, Traffic, words};
use crate::io::traces::TraceOptions;

/// The scenario of these answers, in TOML.
pub(super) fn scenario(answers: &Answers) -> String {
    let Answers { model, gpu, tp, ttft, tpot, .. } = answers;
    let (engine, format) = match answers.engine {
        EngineName::Vllm => ("vllm_v1", "vllm"),
        EngineName::Sglang => ("sglang", "sglang"),
    };
    let mut text = format!(
        "# A scenario of servecast. `servecast schema` lists every key with its meaning.\n\
         # What this file does not say is derived; `servecast run` reports what was taken.\n\
         name = {}\n\n",
        word(&answers.title())
    );
    text += &workload(&answers.traffic);
    // Writing to a string does not fail.
    let _ = write!(
        text,
        "\n\
         [cluster]\n\
         # Names of `servecast profile list`, or files of your own: a config.json, a GPU in TOML.\n\
         model = {}\n\
         gpu = {}\n{}\
         # GPUs of each replica.\n\
         tensor_parallel_size = {tp}\n\
         {}\
         # How requests are sent to replicas: `servecast schema` lists the types.\n\
         router = {{ type = \"round_robin\" }}\n\n\
         [cluster.engine]\n\
         # Settings have the names of the engine's own flags, such as {}.\n\
         type = \"{engine}\"\n\n\
         [report]\n\
         # The benchmark block that is printed.\n\
         format = \"{format}\"\n\
         # SLOs in ms: time to first token, time per output token. The report says how many requests keep them.\n\
         goodput = {{ ttft = {ttft}, tpot = {tpot} }}\n",
        word(model),
        word(gpu),
        quantization(answers.quantization),
        replicas(answers.replicas),
        match answers.engine {
            EngineName::Vllm => "max_num_seqs",
            EngineName::Sglang => "max_running_requests",
        },
    );
    text
}

/// How many replicas there are. One is left out, as parts of a cluster have numbers of their own.
fn replicas(count: u32) -> String {
    let line = if count == 1 { "# replicas = 2".to_owned() } else { format!("replicas = {count}") };
    format!(
        "# How many replicas there are, 1 if left out. Leave it out where cluster.disaggregation, groups or an autoscaler say \
         how many.\n{line}\n"
    )
}

/// What the matrices are stored in, where that was said.
fn quantization(stored: Quantization) -> String {
    match stored {
        Quantization::Own => String::new(),
        Quantization::Known(format) => {
            format!("# Its matrices are stored as in the checkpoint: {}.\n", words(format))
        }
        Quantization::Other(format) => format!(
            "# What its matrices are stored in: none (16 bits), fp8, nvfp4, mxfp4, int8,\n\
             # int4. As in the checkpoint if left out.\n\
             quantization = \"{}\"\n",
            format.name()
        ),
    }
}

/// Lengths are drawn within this share of their mean.
pub(super) const RANGE_RATIO: f64 = 0.3;

fn workload(traffic: &Traffic) -> String {
    match traffic {
        Traffic::Drawn { rate, input_len, output_len } => format!(
            "[workload]\n\
             num_requests = 500\n\
             # Requests per second of all replicas together. Also: gamma, trace, ...\n\
             arrivals = {{ type = \"poisson\", rate_per_s = {rate} }}\n\
             # Tokens; each length is drawn within 30 % of the mean. Also: fixed, sampled, ...\n\
             lengths = {{ type = \"vllm_random\", input_tokens = {input_len}, output_tokens = {output_len}, \
             range_ratio = {RANGE_RATIO} }}\n"
        ),
        Traffic::Trace { path, options, rate } => {
            let (what, arrivals) = match rate {
                None => ("arrival times, and tokens of prompts and answers", recorded()),
                Some(rate) => ("tokens of prompts and answers", drawn(*rate)),
            };
            format!(
                "# Recorded requests: {what}. `servecast trace describe` says what is in the file.\n\
                 [trace]\n\
                 # Relative to this file.\n\
                 path = {}\n{}\n\
                 [workload]\n\
                 {arrivals}\
                 lengths = {{ type = \"trace\" }}\n",
                word(&path.display().to_string()),
                reading(options),
            )
        }
    }
}

/// Arrivals as the trace has them.
fn recorded() -> String {
    "arrivals = { type = \"trace\" }\n".to_owned()
}

/// Arrivals of a trace that has none.
fn drawn(rate: f64) -> String {
    format!(
        "# The file has no times. Requests per second of all replicas together.\n\
         arrivals = {{ type = \"poisson\", rate_per_s = {rate} }}\n"
    )
}

/// How the trace is read, where that was said.
fn reading(options: &TraceOptions) -> String {
    let mut text = String::new();
    let columns = &options.columns;
    let named = [
        ("arrival", &columns.arrival),
        ("prompt_tokens", &columns.prompt_tokens),
        ("output_tokens", &columns.output_tokens),
        ("session", &columns.session),
        ("hash_ids", &columns.hash_ids),
    ];
    let named: Vec<String> = named
        .iter()
        .filter_map(|(role, name)| Some(format!("{role} = {}", word(name.as_ref()?))))
        .collect();
    if !named.is_empty() {
        let _ = writeln!(text, "# Which column holds what.\ncolumns = {{ {} }}", named.join(", "));
    }
    if let Some(unit) = options.time_unit {
        let _ = writeln!(text, "# Unit of the arrival times.\ntime_unit = \"{}\"", unit.name());
    }
    text
}

/// A text as TOML has it.
fn word(text: &str) -> String {
    toml::Value::from(text).to_string()
}
