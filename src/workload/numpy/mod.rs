//! The random numbers of numpy and of Python's `random`, bit for bit.
//!
//! The benchmark tools of SGLang and vLLM draw lengths and arrivals from these generators, so a
//! run with `--seed 1` can be repeated request by request only with the same draws. Everything
//! else in this crate draws from [`crate::rng::Seed::stream`].
//!
//! Written from the published algorithms: MT19937 (Matsumoto and Nishimura, 1998, seeding of
//! 2002), gamma deviates (Marsaglia and Tsang, 2000; Ahrens and Dieter, 1974, below shape 1), the
//! polar method (Marsaglia and Bray, 1964), PCG64 XSL-RR (O'Neill, 2014), seed sequences (O'Neill,
//! 2015), bounded integers (Lemire, 2019). Checked against numpy 2.4.6 and Python 3: integers and
//! uniform numbers are equal exactly, those that pass through a logarithm to one part in 10¹⁴.

mod legacy;
mod mt19937;
mod pcg64;
mod python;

pub use legacy::LegacyRandom;
pub use mt19937::Mt19937;
pub use pcg64::Generator;
pub use python::PythonRandom;

/// The index that `choice(p=...)` picks for a uniform number in [0, 1): the first whose share of
/// the cumulated weights exceeds it (numpy: `searchsorted(cdf, u, side="right")`).
///
/// # Panics
/// When `weights` is empty.
pub fn choose(weights: &[f64], uniform: f64) -> usize {
    let total: f64 = weights.iter().sum();
    let mut below = 0.0;
    for (index, weight) in weights.iter().enumerate() {
        below += weight;
        if below / total > uniform {
            return index;
        }
    }
    assert!(!weights.is_empty(), "there is nothing to choose from");
    weights.len() - 1
}

#[cfg(test)]
mod tests;
