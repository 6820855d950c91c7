//! The measured operator times of one GPU, engine and engine version, as a file holds them.
//!
//! Times are written as whole numbers, `200·ln(time)`, so that every number is within a quarter of
//! a percent of the measured one whatever its size; `-` stands for what was not measured. Times of
//! matrix products are relative to their roofline, all others are in µs.

use serde::Deserialize;

use super::tables::{MixerTable, StateTable};

/// Logarithms are kept in steps of 1/200: half a percent.
const STEPS_PER_E: f64 = 200.0;

/// The operator times of one GPU, engine and engine version.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperatorProfile {
    /// Who measured.
    pub source: String,
    /// The licence of the measurements.
    pub licence: String,
    /// When they were published, and what is known about when they were taken.
    pub date: String,
    /// The GPU, by its name in the catalogue.
    pub gpu: String,
    /// The engine whose kernels were measured: `vllm` or `sglang`.
    pub engine: String,
    /// Its version.
    pub version: String,
    /// The rates that rooflines of matrix products were computed with.
    pub rates: Rates,
    /// Matrix products.
    #[serde(default)]
    pub products: Vec<ProductTable>,
    /// Decode attention.
    #[serde(default)]
    pub decode_attention: Vec<DecodeTable>,
    /// Prefill attention.
    #[serde(default)]
    pub prefill_attention: Vec<PrefillTable>,
    /// Experts.
    #[serde(default)]
    pub experts: Vec<ExpertTable>,
    /// All-reduces inside a node.
    #[serde(default)]
    pub all_reduce: Vec<AllReduceTable>,
    /// Attention that is not grouped, or not of all keys.
    #[serde(default)]
    pub mixers: Vec<MixerTable>,
    /// Layers with states.
    #[serde(default)]
    pub states: Vec<StateTable>,
}

/// The rates of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    /// Memory bandwidth in 10⁹ B/s.
    pub memory_gb_s: f64,
    /// Products of 16-bit floats in 10¹² FLOP/s.
    pub bf16_tflops: f64,
    /// Products of 8-bit floats in 10¹² FLOP/s.
    #[serde(default)]
    pub fp8_tflops: Option<f64>,
    /// Products of 4-bit floats in 10¹² FLOP/s.
    #[serde(default)]
    pub fp4_tflops: Option<f64>,
}

/// Matrix products of one number format: rows × (`outputs` × `inputs`).
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProductTable {
    /// The format: `bfloat16`, `fp8`, `fp8_block`, `nvfp4`.
    pub dtype: String,
    /// Rows of the grid.
    pub rows: Vec<u32>,
    /// Outputs of the grid.
    pub outputs: Vec<u32>,
    /// Inputs of the grid.
    pub inputs: Vec<u32>,
    /// Time / roofline time, by outputs, then inputs, then rows; a line for each outputs and inputs.
    pub times: Codes,
}

/// Decode attention of one layer.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecodeTable {
    /// The type of the KV cache: `bfloat16` or `fp8`.
    pub kv_dtype: String,
    /// Elements per head.
    pub head_dim: u32,
    /// Query and KV heads that were measured.
    pub heads: Vec<[u32; 2]>,
    /// Sequences of the grid.
    pub sequences: Vec<u32>,
    /// Contexts of the grid, in tokens.
    pub contexts: Vec<u32>,
    /// For each heads, the fixed time of a layer whose KV is not in the L2 cache, in µs.
    pub fixed_us: Vec<f64>,
    /// For each heads, KV bytes read per µs beyond it.
    pub bytes_per_us: Vec<f64>,
    /// Time in µs, by heads, then sequences, then contexts; a line for each heads and sequences.
    pub times: Codes,
}

/// Prefill attention of one layer: whole prompts of one length, side by side.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrefillTable {
    /// Elements per head.
    pub head_dim: u32,
    /// Query and KV heads that were measured.
    pub heads: Vec<[u32; 2]>,
    /// Prompts of the grid.
    pub prompts: Vec<u32>,
    /// Prompt lengths of the grid, in tokens.
    pub tokens: Vec<u32>,
    /// Time in µs, by heads, then prompts, then tokens; a line for each heads and prompts.
    pub times: Codes,
}

/// Routed experts of one layer.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpertTable {
    /// The number format of the weights.
    pub dtype: String,
    /// How tokens were spread over experts.
    pub distribution: String,
    /// Rows of the grid.
    pub rows: Vec<u32>,
    /// Hidden size, expert size, experts per token, experts, and GPUs that share each expert, of
    /// each line.
    pub shapes: Vec<[u32; 5]>,
    /// Time in µs, a line for each shape.
    pub times: Codes,
}

impl ExpertTable {
    /// How unlike that of servers a spread of tokens over experts is, the less the better. Some experts are asked for
    /// far more often than others: `AIConfigurator` prices models with a power law of 1.2.
    pub fn unlikeness(distribution: &str) -> u8 {
        match distribution {
            "power_law_1.2" => 0,
            "balanced" => 2,
            _ => 1,
        }
    }
}

/// All-reduces inside a node, captured in a CUDA graph.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllReduceTable {
    /// GPUs that take part.
    pub gpus: u32,
    /// Message sizes of the grid.
    pub bytes: Vec<u64>,
    /// Time in µs.
    pub times: Codes,
}

/// Logarithms of times, as whole numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(try_from = "String")]
pub struct Codes(pub Vec<Option<i16>>);

impl Codes {
    /// The code of a time.
    pub fn of(time: Option<f64>) -> Option<i16> {
        time.filter(|time| *time > 0.0).map(|time| (STEPS_PER_E * time.ln()).round() as i16)
    }

    /// The natural logarithm of a time.
    pub fn ln(&self, index: usize) -> Option<f64> {
        self.0.get(index).copied().flatten().map(|code| f64::from(code) / STEPS_PER_E)
    }

    /// A time.
    pub fn time(&self, index: usize) -> Option<f64> {
        self.ln(index).map(f64::exp)
    }

    /// How many there are, measured or not.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As text, `columns` to a line.
    pub fn to_text(&self, columns: usize) -> String {
        let word =
            |code: &Option<i16>| code.map_or_else(|| "-".to_owned(), |code| code.to_string());
        let line =
            |line: &[Option<i16>]| line.iter().map(word).collect::<Vec<_>>().join(" ") + "\n";
        self.0.chunks(columns.max(1)).map(line).collect()
    }
}

impl TryFrom<String> for Codes {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let text = text.trim_ascii();
        let mut codes = Vec::with_capacity(text.len() / 4);
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let (code, after) = first_code(rest).ok_or_else(|| {
                let word = text[text.len() - rest.len()..].split_ascii_whitespace().next();
                let word = word.unwrap_or_default();
                format!("must be `-` or a whole number from -32768 to 32767 of at most five digits, got `{word}`")
            })?;
            codes.push(code);
            rest = after;
        }
        Ok(Self(codes))
    }
}

/// The first word, and what comes after it and the blanks behind. Tables have tens of thousands of words,
/// which are read before anything else can begin.
#[inline]
fn first_code(text: &[u8]) -> Option<(Option<i16>, &[u8])> {
    let (is_negative, mut rest) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let (mut number, mut digits) = (0_i32, 0);
    while let [digit @ b'0'..=b'9', after @ ..] = rest {
        number = 10 * number + i32::from(digit - b'0');
        digits += 1;
        rest = after;
        if digits > 5 {
            return None;
        }
    }
    let number = if is_negative { -number } else { number };
    let code = match digits {
        0 if is_negative => None,
        0 => return None,
        _ => Some(i16::try_from(number).ok()?),
    };
    match rest {
        [] => Some((code, rest)),
        [blank, ..] if blank.is_ascii_whitespace() => Some((code, rest.trim_ascii_start())),
        _ => None,
    }
}

/// Why a profile cannot be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct ProfileError(String);

impl ProfileError {
    pub(super) fn new(problem: String) -> Self {
        Self(problem)
    }
}

impl OperatorProfile {
    /// Reads a profile.
    ///
    /// # Errors
    /// When it is no valid profile: a missing or unknown key, a grid that does not ascend, a table
    /// with more or fewer numbers than its grid.
    pub fn parse(text: &str) -> Result<Self, ProfileError> {
        let profile: Self =
            toml::from_str(text).map_err(|error| ProfileError(error.to_string()))?;
        profile.check()?;
        Ok(profile)
    }

    fn check(&self) -> Result<(), ProfileError> {
        for (index, table) in self.products.iter().enumerate() {
            let place = format!("products[{index}]");
            ascends(&place, "rows", &table.rows)?;
            ascends(&place, "outputs", &table.outputs)?;
            ascends(&place, "inputs", &table.inputs)?;
            let cells = table.rows.len() * table.outputs.len() * table.inputs.len();
            holds(&place, &table.times, cells)?;
        }
        for (index, table) in self.decode_attention.iter().enumerate() {
            let place = format!("decode_attention[{index}]");
            ascends(&place, "sequences", &table.sequences)?;
            ascends(&place, "contexts", &table.contexts)?;
            let shapes = table.heads.len();
            holds(&place, &table.times, shapes * table.sequences.len() * table.contexts.len())?;
            let is_line = |(fixed, rate): (&f64, &f64)| *fixed >= 0.0 && *rate > 0.0;
            if (table.fixed_us.len(), table.bytes_per_us.len()) != (shapes, shapes)
                || !table.fixed_us.iter().zip(&table.bytes_per_us).all(is_line)
            {
                return Err(ProfileError(format!(
                    "{place}: fixed_us must be {shapes} numbers of at least 0, bytes_per_us as \
                     many above 0"
                )));
            }
        }
        for (index, table) in self.prefill_attention.iter().enumerate() {
            let place = format!("prefill_attention[{index}]");
            ascends(&place, "prompts", &table.prompts)?;
            ascends(&place, "tokens", &table.tokens)?;
            let shapes = table.heads.len();
            holds(&place, &table.times, shapes * table.prompts.len() * table.tokens.len())?;
        }
        for (index, table) in self.experts.iter().enumerate() {
            let place = format!("experts[{index}]");
            ascends(&place, "rows", &table.rows)?;
            holds(&place, &table.times, table.shapes.len() * table.rows.len())?;
        }
        for (index, table) in self.all_reduce.iter().enumerate() {
            let place = format!("all_reduce[{index}]");
            ascends(&place, "bytes", &table.bytes)?;
            holds(&place, &table.times, table.bytes.len())?;
        }
        self.mixers.iter().enumerate().try_for_each(|(index, table)| table.check(index))?;
        self.states.iter().enumerate().try_for_each(|(index, table)| table.check(index))
    }
}

pub(super) fn ascends<T: PartialOrd + Default>(
    place: &str,
    key: &str,
    grid: &[T],
) -> Result<(), ProfileError> {
    let is_positive = grid.first().is_some_and(|first| *first > T::default());
    if is_positive && grid.is_sorted_by(|a, b| a < b) {
        return Ok(());
    }
    Err(ProfileError(format!("{place}.{key}: must be numbers above 0 in ascending order")))
}

pub(super) fn holds(place: &str, times: &Codes, cells: usize) -> Result<(), ProfileError> {
    if times.len() == cells {
        return Ok(());
    }
    let got = times.len();
    Err(ProfileError(format!("{place}.times: must be {cells} numbers, as the grid has, got {got}")))
}
