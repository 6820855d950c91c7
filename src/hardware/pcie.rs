//! All-reduces between GPUs that only the host bus joins. They hang on the host (its sockets, switches and
//! whether GPUs reach each other directly) far more than on the GPU, so that hosts with the same GPUs differ
//! several times.
//!
//! Measured, in 10⁹ message bytes per second of large messages over 2, 4 and 8 GPUs:
//! * `PCIe` 4, two hosts of L40S: 9.6, 1.25, 0.56 (`AIConfigurator`, vllm 0.14.0; NCCL 2.27.3 on it 10.0, 1.7,
//!   0.4) and 8.7, 7.0, 5.9 (`AIConfigurator`, sglang 0.5.12). Three A100 PCIe move 20 on every link
//!   (NVIDIA/nccl-tests#178), which is 20, 13.3 and 11.4 here.
//! * `PCIe` 5, two hosts of RTX PRO 6000: 18.9, 8.8, 6.2 (`AIConfigurator`, vllm 0.24.0; NCCL 2.29.2 on it
//!   18.5, 8.4, 6.9) and 7.6 over two (`AIConfigurator`, vllm 0.19.0), which is 5.1 and 4.3 over four and
//!   eight on every link. RTX 5090 move 35 over four and 28 over eight (NVIDIA/nccl#1639), which is 35, 23.3
//!   and 16.0 here.
//!
//! `AIConfigurator`: ai-dynamo/aiconfigurator, systems/data, Apache-2.0, read 2026-11. What every link moves
//! is 2·(n - 1)/n of the message.

use super::AllReduce;

/// What is assumed of a host, and what others were measured to reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PcieAllReduce {
    /// What is assumed.
    pub assumed: AllReduce,
    /// The slowest host, in 10⁹ B/s of message.
    pub slowest_gb_s: f64,
    /// The fastest host.
    pub fastest_gb_s: f64,
}

/// GPUs, µs, and 10⁹ B/s: assumed, of the slowest host, of the fastest.
type Row = (u32, f64, f64, [f64; 2]);

const PCIE_4: [Row; 3] =
    [(2, 5.3, 9.6, [8.7, 20.0]), (4, 18.0, 6.8, [1.25, 13.3]), (8, 28.0, 5.6, [0.56, 11.4])];
const PCIE_5: [Row; 3] =
    [(2, 4.2, 18.9, [7.6, 35.0]), (4, 12.7, 8.8, [5.1, 23.3]), (8, 24.7, 6.2, [4.3, 16.0])];
/// Between the 32 GB/s of `PCIe` 4 and the 64 GB/s of `PCIe` 5.
const PCIE_5_GB_S: f64 = 48.0;

/// Between so many GPUs of one node on a bus of this rate.
pub(super) fn all_reduce(gpus: u32, bus_gb_s: f64) -> PcieAllReduce {
    let rows = if bus_gb_s < PCIE_5_GB_S { &PCIE_4 } else { &PCIE_5 };
    let row = rows.iter().find(|(most, ..)| *most >= gpus).unwrap_or(&rows[rows.len() - 1]);
    let (most, latency_us, bandwidth_gb_s, [slowest_gb_s, fastest_gb_s]) = *row;
    let assumed = AllReduce { gpus: most, latency_us, bandwidth_gb_s };
    PcieAllReduce { assumed, slowest_gb_s, fastest_gb_s }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What every link moves of a message, in 10⁹ B/s.
    fn moved(gpus: u32, bandwidth_gb_s: f64) -> f64 {
        bandwidth_gb_s * 2.0 * f64::from(gpus - 1) / f64::from(gpus)
    }

    #[test]
    fn no_host_moves_more_than_its_bus_and_none_is_assumed_to_be_an_extreme() {
        for (bus, rows) in [(32.0, PCIE_4), (64.0, PCIE_5)] {
            for (gpus, _, assumed, [slowest, fastest]) in rows {
                assert!(slowest < assumed && assumed < fastest, "{gpus} GPUs at {bus} GB/s");
                assert!(moved(gpus, fastest) < bus, "{gpus} GPUs at {bus} GB/s");
            }
        }
    }
}
