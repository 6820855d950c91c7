//! From raw rows to the grids of a profile.

use std::collections::BTreeMap;

use crate::cost::{
    AllReduceTable, Codes, DecodeTable, ExpertTable, PrefillTable, ProductTable, Rates,
};
use crate::io::import::raw::RawTable;

/// Rows kept of matrix products. Other kernels serve one row than two, and so on: without 2 and 4,
/// small batches come out up to 4 % too fast.
const PRODUCT_ROWS: [u64; 23] = [
    1, 2, 4, 8, 16, 32, 48, 64, 80, 96, 128, 160, 192, 256, 384, 512, 768, 1024, 2048, 4096, 8192,
    16384, 32768,
];
/// Rows kept of experts.
const EXPERT_ROWS: [u64; 22] = [
    1, 2, 4, 8, 16, 32, 48, 64, 80, 96, 128, 160, 192, 256, 384, 512, 1024, 2048, 4096, 8192,
    12288, 16384,
];
/// Prompts side by side that are kept of prefill attention. Those between come out 3 to 4 % off in
/// the median, all from one alone 15 to 20 %.
pub(super) const PROMPTS: [u64; 4] = [1, 4, 16, 64];
/// Smaller inputs and outputs occur in no layer that matters.
const PRODUCT_SIDE_MIN: u64 = 256;
/// Shorter contexts take as long as this one.
pub(super) const CONTEXT_MIN: u64 = 60;
/// GPUs that share an expert.
const EXPERT_TP_MAX: u64 = 8;

/// The fastest time of every key, sorted.
pub(super) fn fastest<K: Ord>(rows: impl Iterator<Item = (K, f64)>) -> BTreeMap<K, f64> {
    let mut times = BTreeMap::new();
    for (key, micros) in rows {
        let time = times.entry(key).or_insert(micros);
        *time = micros.min(*time);
    }
    times
}

/// The distinct values of one part of the keys, ascending.
pub(super) fn grid<K>(times: &BTreeMap<K, f64>, part: impl Fn(&K) -> u64) -> Vec<u64> {
    let mut values: Vec<u64> = times.keys().map(part).collect();
    values.sort_unstable();
    values.dedup();
    values
}

pub(super) fn narrow(values: &[u64]) -> Vec<u32> {
    values.iter().map(|value| *value as u32).collect()
}

/// Rows by one of their words.
fn by_word(table: &RawTable, word: usize) -> Vec<String> {
    let mut words: Vec<String> = table.rows.iter().map(|row| row.words[word].clone()).collect();
    words.sort_unstable();
    words.dedup();
    words
}

pub(super) fn products(table: &RawTable, rates: &Rates) -> Vec<ProductTable> {
    let all = by_word(table, 0).into_iter().map(|dtype| product(table, rates, dtype));
    // Of some types only small matrices are measured, which are not kept.
    all.filter(|table| !table.rows.is_empty()).collect()
}

fn product(table: &RawTable, rates: &Rates, dtype: String) -> ProductTable {
    let kept = table.rows.iter().filter(|row| {
        row.words[0] == dtype
            && PRODUCT_ROWS.contains(&row.numbers[0])
            && row.numbers[1..3].iter().all(|side| *side >= PRODUCT_SIDE_MIN)
    });
    let times =
        fastest(kept.map(|row| ([row.numbers[1], row.numbers[2], row.numbers[0]], row.micros)));
    let [outputs, inputs, rows] = [0, 1, 2].map(|part| grid(&times, |key| key[part]));
    let mut codes = Vec::new();
    for n in &outputs {
        for k in &inputs {
            codes.extend(rows.iter().map(|m| {
                let roofline = rates.product_roofline(&dtype, *m as f64, *n as f64, *k as f64);
                Codes::of(times.get(&[*n, *k, *m]).map(|micros| 1e-6 * micros / roofline))
            }));
        }
    }
    ProductTable {
        dtype,
        rows: narrow(&rows),
        outputs: narrow(&outputs),
        inputs: narrow(&inputs),
        times: Codes(codes),
    }
}

/// Head sizes of the models in use.
fn is_common_head(dim: u64) -> bool {
    matches!(dim, 64 | 128 | 256)
}

/// Whether decode attention of this shape is kept. More KV heads weigh as more sequences do, so
/// that up to eight are enough; of rarer head sizes and of 8-bit caches fewer shapes are kept.
fn is_decode_shape(kv_dtype: &str, dim: u64, heads: u64, kv_heads: u64) -> bool {
    const RATIO_MAX: u64 = 16;
    let is_ratio = heads.is_multiple_of(kv_heads) && heads / kv_heads <= RATIO_MAX;
    let kv_kept: &[u64] = match (kv_dtype, dim) {
        ("bfloat16", 128) => &[1, 2, 4, 8],
        ("fp8", 128) | ("bfloat16", 64 | 256) => &[1, 8],
        _ => &[],
    };
    is_ratio && kv_kept.contains(&kv_heads)
}

pub(super) fn decode_attention(table: &RawTable, l2_bytes: f64, rates: &Rates) -> Vec<DecodeTable> {
    let kept = table.rows.iter().filter(|row| {
        let [_, _, heads, kv_heads, dim, window, _] = row.numbers[..] else {
            unreachable!("seven columns were read");
        };
        window == 0 && kv_heads > 0 && is_decode_shape(&row.words[0], dim, heads, kv_heads)
    });
    let times = fastest(kept.map(|row| {
        let [batch, step, heads, kv_heads, dim, _, isl] = row.numbers[..] else {
            unreachable!("seven columns were read");
        };
        ((row.words[0].clone(), dim, [heads, kv_heads], batch, step + isl), row.micros)
    }));
    let mut groups: Vec<(String, u64)> =
        times.keys().map(|(kv_dtype, dim, ..)| (kv_dtype.clone(), *dim)).collect();
    groups.dedup();
    let table = |(kv_dtype, dim): (String, u64)| {
        let own: BTreeMap<([u64; 2], u64, u64), f64> = times
            .iter()
            .filter(|((a, b, ..), _)| (a, b) == (&kv_dtype, &dim))
            .map(|((_, _, heads, batch, context), time)| ((*heads, *batch, *context), *time))
            .collect();
        let kv_bytes = if kv_dtype == "fp8" { 1.0 } else { 2.0 };
        let mut heads: Vec<[u64; 2]> = own.keys().map(|key| key.0).collect();
        heads.dedup();
        let lines = heads.iter().map(|[query, kv]| {
            let token_bytes = 2.0 * kv_bytes * (kv * dim) as f64;
            let shapes = own.iter().filter(|(key, _)| key.0 == [*query, *kv]);
            from_memory(
                shapes.map(|(key, time)| (key.1, key.2, *time)),
                token_bytes,
                l2_bytes,
                rates,
            )
        });
        let (fixed_us, bytes_per_us) = lines.unzip();
        let sequences = grid(&own, |key| key.1);
        let mut contexts = grid(&own, |key| key.2);
        contexts.retain(|context| *context >= CONTEXT_MIN);
        let mut codes = Vec::new();
        for heads in &heads {
            for batch in &sequences {
                codes.extend(
                    contexts
                        .iter()
                        .map(|context| Codes::of(own.get(&(*heads, *batch, *context)).copied())),
                );
            }
        }
        DecodeTable {
            times: Codes(codes),
            kv_dtype,
            head_dim: dim as u32,
            heads: heads.iter().map(|heads| heads.map(|count| count as u32)).collect(),
            sequences: narrow(&sequences),
            contexts: narrow(&contexts),
            fixed_us,
            bytes_per_us,
        }
    };
    groups.into_iter().map(table).collect()
}

/// Fixed time and bytes per µs of shapes whose KV is larger than the L2 cache: the line
/// a + bytes/W that has the least squared relative error.
fn from_memory(
    times: impl Iterator<Item = (u64, u64, f64)>,
    token_bytes: f64,
    l2_bytes: f64,
    rates: &Rates,
) -> (f64, f64) {
    const CONTEXT_FIT_MIN: u64 = 255;
    const BYTES_FIT_MAX: f64 = 2.5e9;
    let (mut w, mut wx, mut wxx, mut wy, mut wxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    let mut count = 0;
    for (batch, context, y) in times {
        let x = (batch * context) as f64 * token_bytes;
        if context < CONTEXT_FIT_MIN || x <= 1.5 * l2_bytes || x >= BYTES_FIT_MAX {
            continue;
        }
        let weight = 1.0 / (y * y);
        count += 1;
        w += weight;
        wx += weight * x;
        wxx += weight * x * x;
        wy += weight * y;
        wxy += weight * x * y;
    }
    // Reading at the full bandwidth is the bound where too little was measured.
    let bound = 1e3 * rates.memory_gb_s;
    let spread = w * wxx - wx * wx;
    let slope = (w * wxy - wx * wy) / spread;
    if count < 3 || spread <= 0.0 || slope <= 0.0 {
        return (0.0, bound);
    }
    let fixed = (wy - slope * wx) / w;
    // Rounded as the file holds them.
    ((1e3 * fixed.max(0.0)).round() / 1e3, (1.0 / slope).round())
}

pub(super) fn prefill_attention(table: &RawTable) -> Vec<PrefillTable> {
    let kept = table.rows.iter().filter(|row| {
        let [batch, tokens, heads, kv_heads, dim, window] = row.numbers[..] else {
            unreachable!("six columns were read");
        };
        PROMPTS.contains(&batch)
            && tokens >= 16
            && is_common_head(dim)
            && window == 0
            && kv_heads <= heads
            && row.words[0] == "bfloat16"
            && row.words[1] == "bfloat16"
    });
    let times = fastest(kept.map(|row| {
        let [batch, tokens, heads, kv_heads, dim, _] = row.numbers[..] else {
            unreachable!("six columns were read");
        };
        ([dim, heads, kv_heads, batch, tokens], row.micros)
    }));
    let table = |dim: u64| {
        let own: BTreeMap<[u64; 5], f64> = times
            .iter()
            .filter(|(key, _)| key[0] == dim)
            .map(|(key, time)| (*key, *time))
            .collect();
        let (prompts, tokens) = (grid(&own, |key| key[3]), grid(&own, |key| key[4]));
        let mut heads: Vec<[u64; 2]> = own.keys().map(|key| [key[1], key[2]]).collect();
        heads.dedup();
        let mut codes = Vec::with_capacity(heads.len() * prompts.len() * tokens.len());
        for [query, kv] in &heads {
            for batch in &prompts {
                let time = |t: &u64| own.get(&[dim, *query, *kv, *batch, *t]).copied();
                codes.extend(tokens.iter().map(|t| Codes::of(time(t))));
            }
        }
        PrefillTable {
            times: Codes(codes),
            head_dim: dim as u32,
            heads: heads.iter().map(|heads| heads.map(|count| count as u32)).collect(),
            prompts: narrow(&prompts),
            tokens: narrow(&tokens),
        }
    };
    grid(&times, |key| key[0]).into_iter().map(table).collect()
}

pub(super) fn experts(table: &RawTable) -> Vec<ExpertTable> {
    let is_kept = |numbers: &[u64]| {
        EXPERT_ROWS.contains(&numbers[0]) && numbers[5] <= EXPERT_TP_MAX && numbers[6] == 1
    };
    let kept = table.rows.iter().filter(|row| is_kept(&row.numbers));
    let times = fastest(kept.map(|row| {
        let [tokens, hidden, width, topk, count, tp, _] = row.numbers[..] else {
            unreachable!("seven columns were read");
        };
        let words = (row.words[0].clone(), row.words[1].clone());
        ((words, [hidden, width, topk, count, tp], tokens), row.micros)
    }));
    // Of one shape the spread is kept that is most like that of servers.
    let is_likely = |words: &(String, String), shape: &[u64; 5]| {
        let others = times.keys().filter(|(w, s, _)| w.0 == words.0 && s == shape);
        let likely = others.min_by_key(|(w, ..)| ExpertTable::unlikeness(&w.1));
        likely.is_some_and(|(w, ..)| w.1 == words.1)
    };
    let mut groups: Vec<(String, String)> = times.keys().map(|(words, ..)| words.clone()).collect();
    groups.dedup();
    let table = |words: (String, String)| {
        let mut shapes: Vec<[u64; 5]> =
            times.keys().filter(|(w, ..)| *w == words).map(|(_, shape, _)| *shape).collect();
        shapes.dedup();
        shapes.retain(|shape| is_likely(&words, shape));
        let own: BTreeMap<([u64; 5], u64), f64> = times
            .iter()
            .filter(|((w, shape, _), _)| *w == words && shapes.contains(shape))
            .map(|((_, shape, tokens), micros)| ((*shape, *tokens), *micros))
            .collect();
        let rows = grid(&own, |key| key.1);
        let codes = shapes.iter().flat_map(|shape| {
            let own = &own;
            rows.iter().map(move |tokens| Codes::of(own.get(&(*shape, *tokens)).copied()))
        });
        ExpertTable {
            times: Codes(codes.collect()),
            dtype: words.0,
            distribution: words.1,
            rows: narrow(&rows),
            shapes: shapes.iter().map(|shape| shape.map(|count| count as u32)).collect(),
        }
    };
    groups.into_iter().map(table).filter(|table| !table.shapes.is_empty()).collect()
}

/// The collector tells messages in elements, all of them of 16 bits (`collect_all_reduce.py` of
/// ai-dynamo/aiconfigurator: a message of `size` is a tensor of `[size / 4096, 4096]` in bfloat16).
const MESSAGE_ELEMENT_BYTES: u64 = 2;

pub(super) fn all_reduce(table: &RawTable) -> Vec<AllReduceTable> {
    let kept = table.rows.iter().filter(|row| row.words[0].ends_with("_graph"));
    let times = fastest(kept.map(|row| ([row.numbers[0], row.numbers[1]], row.micros)));
    let table = |gpus: u64| {
        let own = times.iter().filter(|(key, _)| key[0] == gpus);
        let (bytes, codes) = own
            .map(|(key, micros)| (MESSAGE_ELEMENT_BYTES * key[1], Codes::of(Some(*micros))))
            .unzip();
        AllReduceTable { gpus: gpus as u32, bytes, times: Codes(codes) }
    };
    grid(&times, |key| key[0]).into_iter().map(table).collect()
}
