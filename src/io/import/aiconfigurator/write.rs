//! A profile as the text of its file.

use std::fmt::{Display, Write};

use crate::cost::{Codes, MixerTable, OperatorProfile, StateTable};

const PREAMBLE: &str = "\
# Measured times of single operators. Numbers of `times` are 200·ln(time), rounded: half a percent a
# step; `-` is not measured. Products: time / roofline time (the longer of multiplying and of moving
# the operands once, at the rates below), a line for each outputs and inputs, a column for each rows.
# All others: time in µs. Decode attention: a line for each heads and sequences, a column for each
# context; `fixed_us` and `bytes_per_us` are the line of shapes whose KV exceeds the L2 cache, for
# each heads. Heads: query and KV heads. Shapes of experts: hidden size, expert size, experts per token, experts,
# GPUs that share each expert.
";

const MIXERS: &str = "
# What attention that is not grouped takes beside its layer's matrix products. Heads: query heads on a
# GPU. Decode: a line for each heads and sequences, a column for each context. Prefill: a line for each
# heads and prompts, a column for each length. Indexer: heads, elements of each, tokens chosen.
";

const STATES: &str = "
# What layers with states take beside their matrix products. Heads: of keys and values, on a GPU.
# Decode: a line for each heads, a column for each number of sequences.
";

/// The file of a profile.
pub fn to_toml(profile: &OperatorProfile) -> String {
    let mut text = PREAMBLE.to_owned();
    let strings = [
        ("source", &profile.source),
        ("licence", &profile.licence),
        ("date", &profile.date),
        ("gpu", &profile.gpu),
        ("engine", &profile.engine),
        ("version", &profile.version),
    ];
    for (key, value) in strings {
        line(&mut text, key, format_args!("{value:?}"));
    }
    text += "\n[rates]\n";
    let rates = &profile.rates;
    let figures = [
        ("memory_gb_s", Some(rates.memory_gb_s)),
        ("bf16_tflops", Some(rates.bf16_tflops)),
        ("fp8_tflops", rates.fp8_tflops),
        ("fp4_tflops", rates.fp4_tflops),
    ];
    for (key, value) in figures {
        if let Some(value) = value {
            line(&mut text, key, format_args!("{value:?}"));
        }
    }
    for table in &profile.products {
        text += "\n[[products]]\n";
        line(&mut text, "dtype", format_args!("{:?}", table.dtype));
        line(&mut text, "rows", format_args!("{:?}", table.rows));
        line(&mut text, "outputs", format_args!("{:?}", table.outputs));
        line(&mut text, "inputs", format_args!("{:?}", table.inputs));
        times(&mut text, &table.times, table.rows.len());
    }
    for table in &profile.decode_attention {
        text += "\n[[decode_attention]]\n";
        line(&mut text, "kv_dtype", format_args!("{:?}", table.kv_dtype));
        line(&mut text, "head_dim", table.head_dim);
        line(&mut text, "heads", format_args!("{:?}", table.heads));
        line(&mut text, "sequences", format_args!("{:?}", table.sequences));
        line(&mut text, "contexts", format_args!("{:?}", table.contexts));
        line(&mut text, "fixed_us", format_args!("{:?}", table.fixed_us));
        line(&mut text, "bytes_per_us", format_args!("{:?}", table.bytes_per_us));
        times(&mut text, &table.times, table.contexts.len());
    }
    for table in &profile.prefill_attention {
        text += "\n[[prefill_attention]]\n";
        line(&mut text, "head_dim", table.head_dim);
        line(&mut text, "heads", format_args!("{:?}", table.heads));
        line(&mut text, "prompts", format_args!("{:?}", table.prompts));
        line(&mut text, "tokens", format_args!("{:?}", table.tokens));
        times(&mut text, &table.times, table.tokens.len());
    }
    for table in &profile.experts {
        text += "\n[[experts]]\n";
        line(&mut text, "dtype", format_args!("{:?}", table.dtype));
        line(&mut text, "distribution", format_args!("{:?}", table.distribution));
        line(&mut text, "rows", format_args!("{:?}", table.rows));
        line(&mut text, "shapes", format_args!("{:?}", table.shapes));
        times(&mut text, &table.times, table.rows.len());
    }
    for table in &profile.all_reduce {
        text += "\n[[all_reduce]]\n";
        line(&mut text, "gpus", table.gpus);
        line(&mut text, "bytes", format_args!("{:?}", table.bytes));
        times(&mut text, &table.times, table.bytes.len());
    }
    if !profile.mixers.is_empty() {
        text += MIXERS;
    }
    for table in &profile.mixers {
        mixer(&mut text, table);
    }
    if !profile.states.is_empty() {
        text += STATES;
    }
    for table in &profile.states {
        state(&mut text, table);
    }
    text
}

fn mixer(text: &mut String, table: &MixerTable) {
    *text += "\n[[mixers]]\n";
    line(text, "kind", format_args!("{:?}", table.kind.name()));
    line(text, "model", format_args!("{:?}", table.model));
    line(text, "kv_dtype", format_args!("{:?}", table.kv_dtype));
    line(text, "cached", table.cached);
    line(text, "multiplied", table.multiplied);
    if let Some(indexer) = table.indexer {
        line(text, "indexer", format_args!("{indexer:?}"));
    }
    if table.ratio > 0 {
        line(text, "ratio", table.ratio);
    }
    line(text, "heads", format_args!("{:?}", table.heads));
    line(text, "sequences", format_args!("{:?}", table.sequences));
    line(text, "contexts", format_args!("{:?}", table.contexts));
    codes(text, "decode", &table.decode, table.contexts.len());
    if !table.prompts.is_empty() {
        line(text, "prompts", format_args!("{:?}", table.prompts));
        line(text, "tokens", format_args!("{:?}", table.tokens));
        codes(text, "prefill", &table.prefill, table.tokens.len());
    }
}

fn state(text: &mut String, table: &StateTable) {
    *text += "\n[[states]]\n";
    line(text, "kind", format_args!("{:?}", table.kind.name()));
    line(text, "key_dim", table.key_dim);
    line(text, "value_dim", table.value_dim);
    line(text, "heads", format_args!("{:?}", table.heads));
    line(text, "sequences", format_args!("{:?}", table.sequences));
    codes(text, "decode", &table.decode, table.sequences.len());
    line(text, "prompts", format_args!("{:?}", table.prompts));
    line(text, "tokens", format_args!("{:?}", table.tokens));
    codes(text, "prefill", &table.prefill, table.tokens.len());
}

fn line(text: &mut String, key: &str, value: impl Display) {
    // A string can always be written to.
    let _ = writeln!(text, "{key} = {value}");
}

fn times(text: &mut String, times: &Codes, columns: usize) {
    codes(text, "times", times, columns);
}

fn codes(text: &mut String, key: &str, codes: &Codes, columns: usize) {
    line(text, key, format_args!("'''\n{}'''", codes.to_text(columns)));
}
