//! Made-up tables, imported: what is subtracted, left out and written.

use std::fmt::Write;
use std::fs;

use tempfile::TempDir;

use super::*;
use crate::cost::{MixerKind, StateKind};

/// Products of 5 µs whatever their shape, and little attention of other kinds.
fn folder(engine: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let mut gemm = "gemm_dtype,m,n,k,latency\n".to_owned();
    for n in [2112, 3072, 4096, 7168, 24_576, 32_768] {
        for k in [512, 1536, 2048, 7168, 16_384] {
            for m in [1, 64, 4096] {
                writeln!(gemm, "bfloat16,{m},{n},{k},0.005").expect("a string");
            }
        }
    }
    put(&folder, engine, "gemm", "gemm_perf.csv", &gemm);
    let heads = "num_heads,num_key_value_heads,head_dim,kv_cache_dtype,attn_dtype,window_size";
    let of = "32,8,128,bfloat16,bfloat16,0";
    let decode = format!("batch_size,isl,step,{heads},latency\n1,1,1023,{of},0.01\n");
    put(&folder, engine, "attention", "generation_attention_perf.csv", &decode);
    let prefill = format!("batch_size,isl,{heads},latency\n1,128,{of},0.01\n");
    put(&folder, engine, "attention", "context_attention_perf.csv", &prefill);
    folder
}

fn put(folder: &TempDir, engine: &str, family: &str, file: &str, text: &str) {
    let path = folder.path().join("h100_sxm").join(family).join(engine).join("1.0");
    fs::create_dir_all(&path).expect("a folder");
    fs::write(path.join(file), text).expect("a file");
}

fn imported(folder: &TempDir, engine: &str) -> OperatorProfile {
    let selection = Selection { system: "h100_sxm", engine, version: "1.0" };
    import(folder.path(), &selection).expect("tables are there")
}

/// Modules of four products, and 30 µs and one for each thousand heads, sequences and tokens.
fn put_latent(folder: &TempDir) {
    let columns = "kv_cache_dtype,gemm_type,model,op_name,mla_dtype,kernel_source";
    let of = "bfloat16,bfloat16,deepseek-ai/DeepSeek-V3,mla,bfloat16,FLASHMLA";
    let mut decode = format!("batch_size,isl,step,num_heads,{columns},latency\n");
    let mut prefill = decode.clone();
    for heads in [16_u32, 128] {
        for batch in [1_u32, 16, 256] {
            for step in [63_u32, 127, 1023, 8191] {
                let micros = 20.0 + 30.0 + 1e-3 * f64::from(heads * batch) * f64::from(step + 1);
                writeln!(decode, "{batch},1,{step},{heads},{of},{}", 1e-3 * micros)
                    .expect("a string");
            }
        }
        for (tokens, micros) in
            [(64, 400.0), (128, 410.0), (1024, 450.0), (4096, 1520.0), (8192, 5520.0)]
        {
            writeln!(prefill, "1,{tokens},0,{heads},{of},{}", 1e-3 * micros).expect("a string");
        }
    }
    put(folder, "vllm", "mla", "mla_generation_module_perf.csv", &decode);
    put(folder, "vllm", "mla", "mla_context_module_perf.csv", &prefill);
}

fn is_near(found: Option<f64>, wanted: f64) -> bool {
    found.is_some_and(|found| (found / wanted - 1.0).abs() < 0.01)
}

#[test]
fn messages_of_all_reduces_are_told_in_elements_and_kept_in_bytes() {
    let folder = folder("vllm");
    let mut comm = "allreduce_dtype,num_gpus,message_size,backend,latency\n".to_owned();
    for (elements, ms) in [(4096, 0.005), (8192, 0.006)] {
        writeln!(comm, "bfloat16,2,{elements},vllm_graph,{ms}").expect("a string");
        writeln!(comm, "bfloat16,2,{elements},vllm_eager,0.1").expect("a string");
    }
    put(&folder, "vllm", "comm", "custom_allreduce_perf.csv", &comm);
    let profile = imported(&folder, "vllm");
    let [table] = &profile.all_reduce[..] else { panic!("{:?}", profile.all_reduce) };
    assert_eq!((table.gpus, &table.bytes[..]), (2, &[8192, 16_384][..]));
    assert!(is_near(table.times.time(0), 5.0) && is_near(table.times.time(1), 6.0));
}

#[test]
fn what_is_left_of_a_module_without_its_products_is_kept_and_thinned() {
    let folder = folder("vllm");
    put_latent(&folder);
    put(&folder, "vllm", "mla", "collection_meta.yaml", "norm_dispatch: vllm_c");
    let profile = imported(&folder, "vllm");
    let [table] = &*profile.mixers else { panic!("one table, got {:?}", profile.mixers) };
    assert_eq!((table.kind, &*table.kv_dtype), (MixerKind::Latent, "bfloat16"));
    assert_eq!(table.heads, [16, 128]);
    assert_eq!((&*table.sequences, &*table.contexts), (&[1, 256][..], &[64, 8192][..]));
    assert!(is_near(table.decode.time(0), 30.0 + 1.024), "{:?}", table.decode.time(0));
    let last = 30.0 + 1e-3 * 128.0 * 256.0 * 8192.0;
    assert!(is_near(table.decode.time(7), last), "{:?}", table.decode.time(7));
    // 450 µs are no more than 1.25 times those of the launch.
    let prefill: Vec<_> = (0..table.tokens.len()).map(|place| table.prefill.time(place)).collect();
    let of = |tokens: u32| table.tokens.iter().position(|node| *node == tokens);
    assert!(is_near(of(4096).and_then(|place| prefill[place]), 1500.0), "{table:?}");
    assert!(is_near(of(8192).and_then(|place| prefill[place]), 5500.0), "{table:?}");
    assert!(of(1024).is_none_or(|place| prefill[place].is_none()), "{table:?}");
}

#[test]
fn norms_that_no_server_runs_are_subtracted_where_nothing_says_otherwise() {
    let folder = folder("vllm");
    put_latent(&folder);
    let chained = imported(&folder, "vllm");
    let decode = &chained.mixers[0].decode;
    let last = decode.time(decode.len() - 1);
    let chain = norms::chain_micros(256);
    assert!(is_near(last, 30.0 + 1e-3 * 128.0 * 256.0 * 8192.0 - chain), "{last:?}");
    // Of 31 µs nothing would be left: a kernel takes ten.
    assert!(is_near(chained.mixers[0].decode.time(0), 10.0));
}

#[test]
fn kernels_of_states_are_added_up_and_what_is_written_is_read() {
    let folder = folder("sglang");
    let head =
        "num_k_heads,num_v_heads,head_k_dim,head_v_dim,batch_size,seq_len,phase,kernel_source";
    let mut rows = format!("{head},latency\n");
    for (kernel, micros) in [("causal_conv1d_update", 2.0), ("fused_recurrent", 5.0)] {
        for batch in [1, 64] {
            let ms = 1e-3 * micros * f64::from(batch);
            writeln!(rows, "4,8,128,128,{batch},1,generation,{kernel},{ms}").expect("a string");
        }
    }
    for (kernel, micros) in [("causal_conv1d_fn", 0.01), ("chunk", 0.03)] {
        for tokens in [64, 1024] {
            let ms = 1e-3 * micros * f64::from(tokens);
            writeln!(rows, "4,8,128,128,1,{tokens},context,{kernel},{ms}").expect("a string");
        }
    }
    put(&folder, "sglang", "linear_attention", "gdn_perf.csv", &rows);
    let profile = imported(&folder, "sglang");
    let [table] = &*profile.states else { panic!("one table, got {:?}", profile.states) };
    assert_eq!((table.kind, &*table.heads), (StateKind::GatedDelta, &[[4, 8]][..]));
    assert!(is_near(table.decode.time(0), 7.0) && is_near(table.decode.time(1), 448.0));
    assert!(is_near(table.prefill.time(0), 2.56) && is_near(table.prefill.time(1), 40.96));
    let text = to_toml(&profile);
    assert_eq!(OperatorProfile::parse(&text), Ok(profile.clone()));
    let fewer = text.replacen("sequences = [1, 64]", "sequences = [64, 1]", 1);
    let error = OperatorProfile::parse(&fewer).expect_err("it descends").to_string();
    assert!(error.contains("states[0].sequences"), "{error}");
}

#[test]
fn mixers_are_read_as_they_are_written() {
    let folder = folder("vllm");
    put_latent(&folder);
    put(&folder, "vllm", "mla", "collection_meta.yaml", "norm_dispatch: vllm_c");
    let profile = imported(&folder, "vllm");
    let text = to_toml(&profile);
    assert_eq!(OperatorProfile::parse(&text), Ok(profile));
    let odd = text.replacen("kind = \"latent\"", "kind = \"other\"", 1);
    assert!(OperatorProfile::parse(&odd).is_err());
    let short = text.replacen("contexts = [64, 8192]", "contexts = [64]", 1);
    let error = OperatorProfile::parse(&short).expect_err("a number too many").to_string();
    assert!(error.contains("mixers[0].decode"), "{error}");
}
