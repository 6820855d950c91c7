//! The one integration binary: laws, conformance, goldens and the command line.

#![allow(clippy::print_stdout, reason = "tests say what they skip and what they compared")]

mod all_reduce;
mod architecture;
mod autoscaler;
mod baselines;
mod bench_report;
mod blocking;
mod breakdown;
mod check;
#[cfg(feature = "cli")]
mod cli;
mod cluster_report;
mod conditional_disagg;
mod conformance;
mod container;
mod content;
mod data_parallel;
mod disaggregation;
mod docs;
mod engine_settings;
mod expected;
mod explain;
mod fast_forward;
mod faults;
mod front_door;
mod frontend;
mod function_traces;
mod gateway;
mod gpus;
mod groups;
mod handover;
mod host;
mod kv_tiers;
mod laid_out;
mod laws;
mod layer_table;
mod live;
mod lora;
mod lora_merged;
mod lora_migration;
mod lora_strides;
mod lora_study;
mod makers_faults;
mod makers_limit;
mod makers_pairs;
mod makers_routers;
mod model_truth;
mod models;
mod pipeline;
#[cfg(feature = "cli")]
mod plan;
mod planner_replay;
mod router_time;
mod routers;
mod routing;
mod routing_dynamo;
#[cfg(feature = "serve")]
mod serve;
mod several_models;
mod sglang_pools;
mod sglang_speculation;
mod speculation;
mod states;
mod step_table;
mod step_times;
mod support;
mod sweep;
mod timeline;
mod traces;
mod validate;
mod waiting_inputs;
mod warm_up;
mod windows;
mod workload;
