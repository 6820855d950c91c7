//! `servecast profile`.

use serde_json::Value;

use super::Cli;

#[test]
fn lists_name_models_and_gpus() {
    let cli = Cli::new();
    cli.words("profile list").expect_exit(0).stdout_has("Qwen/Qwen3-32B").stdout_has("H200-SXM");
    let gpus = cli.words("profile list gpus").expect_exit(0).stdout();
    assert!(!gpus.contains("Qwen"), "{gpus}");
    let json = cli.words("profile list models --format json").expect_exit(0).stdout();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert!(json["models"].as_array().unwrap().len() > 20);
}

#[test]
fn a_model_on_a_gpu_has_memory_and_step_times() {
    let cli = Cli::new();
    let show = "profile show qwen2.5-7b --gpu H100";
    cli.words(show).expect_exit(0).stdout_has("decode step of 32").stdout_has("confidence");
    let json = cli.words(&format!("{show} --format json")).expect_exit(0).stdout();
    let json: Value = serde_json::from_str(&json).unwrap();
    // 28 layers · 2 · 4 KV heads · 128 elements · 2 bytes
    assert_eq!(json["on_gpu"]["kv_bytes_per_token_per_gpu"], 57_344);
    let ms = |index: usize| json["on_gpu"]["decode_step"][index]["ms"].as_f64().unwrap();
    // Reading 15.2 GB of weights at 3.35 TB/s takes 4.5 ms at least.
    assert!(ms(0) > 4.5 && ms(0) < ms(1) && ms(1) < ms(2), "{json}");
}

#[test]
fn a_misspelt_name_finds_its_neighbour() {
    let cli = Cli::new();
    cli.words("profile show H10O").expect_exit(2).stderr_has("did you mean `H100`?");
    cli.words("profile show qwen3-32b --gpu H10O").expect_exit(2).stderr_has("did you mean");
    cli.words("profile show H100 --gpu A10").expect_exit(2).stderr_has("is a GPU itself");
    cli.words("profile show deepseek-v3 --gpu A10").expect_exit(2).stderr_has("does not fit");
}
