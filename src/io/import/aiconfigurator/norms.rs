//! Norms that vLLM's collector ran otherwise than a server does.
//!
//! Its modules of latent attention have two norms, which the collector ran as a chain of small kernels, "never in
//! serving", until the tables of the B200 were collected again (`collection_meta.yaml` of `mla/vllm/0.24.0`,
//! ai-dynamo/aiconfigurator#1423). What the chain takes is what B300 and GB200, which have the same kernels and were not
//! measured again, take more than the B200: the mean of both at 16 heads in bf16. On H200 as much is left of the module
//! beside products and kernels: 39 µs at one row, 57 at 64, 82 at 1,024, about 270 at 8,192.

/// The chain beyond a fused kernel, in µs by rows.
const CHAIN: [(f64, f64); 10] = [
    (1.0, 39.0),
    (8.0, 48.0),
    (64.0, 56.0),
    (256.0, 60.0),
    (1024.0, 74.0),
    (2048.0, 95.0),
    (4096.0, 155.0),
    (8192.0, 245.0),
    (16_384.0, 498.0),
    (32_768.0, 947.0),
];
/// What tables say that were collected again.
const MARK: &str = "norm_dispatch:";

/// Whether what is said of a table says that its norms are those of a server.
pub(super) fn are_fused(notes: &str) -> bool {
    notes.contains(MARK)
}

/// µs of the chain at so many rows.
pub(super) fn chain_micros(rows: u64) -> f64 {
    let rows = rows as f64;
    let last = CHAIN.len() - 1;
    let above = CHAIN.partition_point(|(node, _)| *node <= rows).clamp(1, last);
    let [(x0, y0), (x1, y1)] = [CHAIN[above - 1], CHAIN[above]];
    y0 + (rows - x0) / (x1 - x0) * (y1 - y0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_meets_its_nodes_and_goes_on_beyond_them() {
        for (rows, micros) in [(1, 39.0), (64, 56.0), (1024, 74.0), (32_768, 947.0)] {
            assert!((chain_micros(rows) - micros).abs() < 1e-9, "{rows}");
        }
        let beyond = chain_micros(65_536) - chain_micros(32_768);
        assert!((beyond / (2.0 * (947.0 - 498.0)) - 1.0).abs() < 1e-9);
        assert!(are_fused("    norm_dispatch: vllm_c_eager_surrogate") && !are_fused("complete"));
    }
}
