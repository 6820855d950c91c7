//! GPUs: memory, bandwidth, compute, interconnect.
