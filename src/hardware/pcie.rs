//! All-reduces between GPUs that only the host bus joins. They hang on the host (its sockets, switches and
//! whether GPUs reach each other directly) far more than on the GPU, so that hosts with the same GPUs differ
//! several times.
//!
//! Measured, in 10⁹ message bytes per second of large messages over 2, 4 and 8 GPUs:
//! * `PCIe` 4, two hosts of L40S: 19.2, 2.5, 1.1 (`AIConfigurator`, vllm 0.14.0; NCCL 2.27.3 on it 20.0, 3.4,
//!   0.8) and 17.4, 14.0, 11.8 (`AIConfigurator`, sglang 0.5.12). Three A100 PCIe move 20 on every link
//!   (NVIDIA/nccl-tests#178), which is 20, 13.3 and 11.4 here.
//! * `PCIe` 5, two hosts of RTX PRO 6000: 37.8, 17.6, 12.4 (`AIConfigurator`, vllm 0.24.0; NCCL 2.29.2 on it
//!   37.0, 16.8, 13.8) and 15.2 over two (`AIConfigurator`, vllm 0.19.0), which is 10.1 and 8.7 over four and
//!   eight on every link. RTX 5090 move 35 over four and 28 over eight (NVIDIA/nccl#1639), which is 35, 23.3
//!   and 16.0 here.
//!
//! Of each three hosts the one in the middle is assumed. A slower bus than `PCIe` 4 moves less in proportion.
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
    [(2, 5.3, 19.2, [17.4, 20.0]), (4, 18.0, 13.3, [2.5, 14.0]), (8, 28.0, 11.4, [1.1, 11.8])];
const PCIE_5: [Row; 3] =
    [(2, 4.2, 35.0, [15.2, 37.8]), (4, 12.7, 17.6, [10.1, 23.3]), (8, 24.7, 12.4, [8.7, 16.0])];
/// Between the 32 GB/s of `PCIe` 4 and the 64 GB/s of `PCIe` 5.
const PCIE_5_GB_S: f64 = 48.0;
const PCIE_4_BUS_GB_S: f64 = 32.0;

/// Between so many GPUs of one node on a bus of this rate.
pub(super) fn all_reduce(gpus: u32, bus_gb_s: f64) -> PcieAllReduce {
    let rows = if bus_gb_s < PCIE_5_GB_S { &PCIE_4 } else { &PCIE_5 };
    let row = rows.iter().find(|(most, ..)| *most >= gpus).unwrap_or(&rows[rows.len() - 1]);
    let share = (bus_gb_s / PCIE_4_BUS_GB_S).min(1.0);
    let (most, latency_us, bandwidth_gb_s, [slowest_gb_s, fastest_gb_s]) = *row;
    let assumed = AllReduce { gpus: most, latency_us, bandwidth_gb_s: share * bandwidth_gb_s };
    PcieAllReduce {
        assumed,
        slowest_gb_s: share * slowest_gb_s,
        fastest_gb_s: share * fastest_gb_s,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What every link moves of a message, in 10⁹ B/s.
    fn moved(gpus: u32, bandwidth_gb_s: f64) -> f64 {
        bandwidth_gb_s * 2.0 * f64::from(gpus - 1) / f64::from(gpus)
    }

    #[test]
    fn half_the_bus_of_pcie_4_moves_half() {
        let [slow, whole] = [16.0, 32.0].map(|bus| all_reduce(4, bus));
        assert_eq!(
            whole.assumed.bandwidth_gb_s.to_bits(),
            (2.0 * slow.assumed.bandwidth_gb_s).to_bits()
        );
        assert_eq!(whole.fastest_gb_s.to_bits(), (2.0 * slow.fastest_gb_s).to_bits());
        assert_eq!(all_reduce(4, 48.0).assumed.bandwidth_gb_s.to_bits(), PCIE_5[1].2.to_bits());
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
