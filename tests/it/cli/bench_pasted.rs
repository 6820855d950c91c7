//! Commands of both benchmark tools as people paste them: each runs with its own tool's draws, or is
//! refused by the name of the flag.

use super::Cli;

const VLLM: &str = "bench vllm bench serve --gpu H100 --no-files";
const SGLANG: &str = "bench python3 -m sglang.bench_serving --gpu H100 --no-files";

/// Lengths of conversations, and a trace, for data sets that are files.
fn with_data() -> Cli {
    let lengths = "prompt_len,output_len\n".to_owned() + &"100,20\n64,8\n".repeat(20);
    let row = |place: u32| {
        format!(
            "{{\"timestamp\": {}, \"input_length\": 600, \"output_length\": 4, \"hash_ids\": [1, {place}]}}\n",
            place * 100
        )
    };
    let trace: String = (2..8).map(row).collect();
    Cli::new().file("lengths.csv", lengths).file("trace.jsonl", trace)
}

/// Prompts, input and output tokens that the run reports.
fn drawn(command: &str) -> (u64, u64, u64) {
    let stdout = with_data().words(command).expect_exit(0).stdout();
    let value = |label: &str| {
        let line = stdout.lines().find(|line| line.starts_with(label));
        let line = line.unwrap_or_else(|| panic!("{command}: no {label}\n{stdout}"));
        line.rsplit_once(':').unwrap().1.trim().parse().unwrap()
    };
    (value("Successful requests"), value("Total input tokens"), value("Total generated tokens"))
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn pasted_commands_run_with_the_draws_of_their_tool() {
    for (command, expected) in [
        // numpy draws these totals; Llama's tokeniser adds a token to every prompt. vLLM's default backend is
        // openai, and its ratio goes either side of the length.
        (
            format!(
                "{VLLM} --model meta-llama/Llama-3.1-8B --dataset-name random --num-prompts 300 \
                     --random-input-len 1024 --random-output-len 16 --random-range-ratio 0.1"
            ),
            (300, 308_487, 4_811),
        ),
        (
            format!(
                "{SGLANG} --backend sglang --model meta-llama/Llama-3.1-8B --dataset-name random \
                     --num-prompts 300 --random-input-len 1024 --random-output-len 16 \
                     --random-range-ratio 0.1"
            ),
            (300, 170_388, 2_536),
        ),
        // vLLM's server behind SGLang's client: SGLang's meaning of the ratio.
        (
            format!(
                "{SGLANG} --backend vllm --model meta-llama/Llama-3.1-8B --dataset-name random \
                     --num-prompts 300 --random-input-len 1024 --random-output-len 16 \
                     --random-range-ratio 0.1 --host 127.0.0.1 --port 8000"
            ),
            (300, 170_388, 2_536),
        ),
        (
            format!(
                "{SGLANG} --backend sglang --model Qwen/Qwen2.5-7B --dataset-name random-ids \
                     --num-prompts 16 --random-input-len 256 --random-output-len 32 \
                     --random-range-ratio 1.0 --seed 42"
            ),
            (16, 4096, 512),
        ),
        (
            format!(
                "{VLLM} --backend openai-chat --model Qwen/Qwen2.5-7B --endpoint \
                     /v1/chat/completions --dataset-name random --num-prompts 20 --input-len 128 \
                     --output-len 8 --request-rate 10 --burstiness 0.5 --seed 3"
            ),
            (20, 2560, 160),
        ),
        (
            format!(
                "{VLLM} --backend vllm --model Qwen/Qwen2.5-7B --dataset-name random \
                     --num-prompts 20 --random-input-len 128 --random-output-len 8 --goodput \
                     ttft:200 tpot:50 --percentile-metrics ttft,tpot,itl,e2el --metric-percentiles \
                     50,90,99"
            ),
            (20, 2560, 160),
        ),
        (
            format!(
                "{VLLM} --model Qwen/Qwen2.5-7B --dataset-name random --num-prompts 20 \
                     --random-input-len 128 --random-output-len 8 --save-result --result-dir . \
                     --result-filename mine.json --label test --metadata gpu=1 --disable-tqdm \
                     --save-detailed --plot-timeline --plot-dataset-stats --profile"
            ),
            (20, 2560, 160),
        ),
        (
            format!(
                "{VLLM} --model Qwen/Qwen2.5-7B --dataset-name prefix_repetition --num-prompts 20 \
                     --prefix-repetition-prefix-len 64 --prefix-repetition-suffix-len 32 \
                     --prefix-repetition-num-prefixes 5 --prefix-repetition-output-len 8"
            ),
            (20, 1920, 160),
        ),
        (
            format!(
                "{SGLANG} --backend sglang --model Qwen/Qwen2.5-7B --dataset-name \
                     generated-shared-prefix --gsp-num-groups 4 --gsp-prompts-per-group 4 \
                     --gsp-system-prompt-len 128 --gsp-question-len 16 --gsp-output-len 8"
            ),
            (16, 16 * (128 + 1 + 16), 128),
        ),
        (
            format!(
                "{SGLANG} --backend sglang-oai --model Qwen/Qwen2.5-7B --dataset-name sharegpt \
                     --dataset-path lengths.csv --num-prompts 40 --sharegpt-output-len 10 \
                     --max-concurrency 8"
            ),
            (40, 20 * 164, 400),
        ),
        (
            format!(
                "{VLLM} --model Qwen/Qwen2.5-7B --dataset-name sharegpt --dataset-path lengths.csv \
                     --num-prompts 40 --ignore-eos --trust-remote-code"
            ),
            (40, 20 * 164, 20 * 28),
        ),
        (
            format!(
                "{SGLANG} --backend sglang --model Qwen/Qwen2.5-7B --dataset-name mooncake \
                     --dataset-path trace.jsonl --mooncake-slowdown-factor 0.5 --use-trace-timestamps"
            ),
            (6, 3600, 24),
        ),
        (
            format!(
                "{VLLM} --model Qwen/Qwen2.5-7B --dataset-name timed_trace --dataset-path \
                     trace.jsonl --timed-trace-chunk-hash-size 512 --timed-trace-sec-multiplier 0.001"
            ),
            (6, 3600, 24),
        ),
        (
            format!(
                "{VLLM} --model Qwen/Qwen2.5-7B --dataset-name random --num-prompts 20 \
                     --random-input-len 128 --random-output-len 8 --ramp-up-strategy linear \
                     --ramp-up-start-rps 1 --ramp-up-end-rps 10"
            ),
            (20, 2560, 160),
        ),
        // Abbreviated, with equals signs and underscores, as argparse takes them.
        (
            format!(
                "{VLLM} --model=Qwen/Qwen2.5-7B --dataset-n random --num-prompt 20 \
                     --random-input 128 --random_output_len=8 --request-r=inf --max-conc 4 \
                     --num-warmups 2"
            ),
            (20, 2560, 160),
        ),
        (
            format!(
                "{SGLANG} --backend sglang --model Qwen/Qwen2.5-7B --dataset-name random \
                     --num-prompts 20 --random-input-len 128 --random-output-len 8 \
                     --random-range-ratio 1 --output-file out.jsonl --tag a --warmup-requests 3 \
                     --flush-cache --disable-tqdm"
            ),
            (20, 2560, 160),
        ),
        (
            format!(
                "{VLLM} --model Qwen/Qwen2.5-7B -tp 2 --max-num-seqs 64 --dataset-name random \
                     --num-prompts 20 --random-input-len 128 --random-prefix-len 64 \
                     --random-output-len 8 --base-url http://localhost:8000"
            ),
            (20, 20 * 192, 160),
        ),
    ] {
        assert_eq!(drawn(&command), expected, "{command}");
    }
}

#[test]
fn what_is_not_simulated_of_a_pasted_command_is_refused_by_its_name() {
    let cli = with_data();
    for (command, refusal) in [
        (
            format!("{VLLM} --model Qwen/Qwen2.5-7B --dataset-name sonnet"),
            "`sonnet` is not simulated; with vllm bench serve 0.33.0 it is one of random, sharegpt, \
             prefix_repetition, timed_trace: lengths of any requests can be given to sharegpt",
        ),
        (
            format!("{VLLM} --model Qwen/Qwen2.5-7B --dataset-name custom"),
            "`custom` is not simulated",
        ),
        (
            format!("{VLLM} --model Qwen/Qwen2.5-7B --lora-modules a b"),
            "--lora-modules: ranks are needed",
        ),
        (
            format!(
                "{VLLM} --model Qwen/Qwen2.5-7B --dataset-name sonnet --dataset-path sonnet.txt \
                 --sonnet-input-len 550 --sonnet-output-len 150 --sonnet-prefix-len 200"
            ),
            "--sonnet-prefix-len: the sonnets are not sent; `--dataset-name random`",
        ),
        (
            format!(
                "{VLLM} --backend vllm --model Qwen/Qwen2.5-7B --endpoint /v1/completions \
                 --dataset-name custom --dataset-path data.jsonl --custom-skip-chat-template \
                 --num-prompts 80 --max-concurrency 1 --temperature=0.3 --top-p=0.75"
            ),
            "--custom-skip-chat-template: texts are not tokenised; give their lengths as a file",
        ),
        (
            format!(
                "{VLLM} --backend openai-chat --model Qwen/Qwen2.5-7B --endpoint \
                 /v1/chat/completions --dataset-name hf --dataset-path lmarena-ai/VisionArena-Chat \
                 --hf-split train --num-prompts 1000"
            ),
            "--hf-split: texts are not tokenised",
        ),
        (
            format!(
                "{SGLANG} --backend sglang-oai-chat --model Qwen/Qwen2.5-7B --dataset-name image \
                 --image-count 3 --image-resolution 720p --random-input-len 512 \
                 --random-output-len 512"
            ),
            "--image-count: images, videos and sounds are not modelled; `--dataset-name random`",
        ),
        (
            format!("{VLLM} --model Qwen/Qwen2.5-7B --frequency-penalty 0.2 --min-p 0.1"),
            "--frequency-penalty: the work of the sampler",
        ),
        (
            format!("{VLLM} --model Qwen/Qwen2.5-7B --disable-shuffle --no-oversample"),
            "--disable-shuffle: rows are shuffled",
        ),
        (
            format!("{SGLANG} --model Qwen/Qwen2.5-7B --disable-ignore-eos"),
            "--disable-ignore-eos: ",
        ),
        (
            format!("{SGLANG} --model Qwen/Qwen2.5-7B --extra-request-body {{}}"),
            "--extra-request-body: ",
        ),
        (format!("{SGLANG} --model Qwen/Qwen2.5-7B --burstiness 2"), "--burstiness: is a flag of"),
        (format!("{SGLANG} --backend lmdeploy --model Qwen/Qwen2.5-7B"), "'lmdeploy'"),
        (
            format!("{SGLANG} --backend openai --model Qwen/Qwen2.5-7B"),
            "is not a backend of sglang",
        ),
        (
            "bench --model Qwen/Qwen2.5-7B --gpu H100 --backend vllm".to_owned(),
            "--backend vllm: is a backend of both tools",
        ),
        (
            "bench --model Qwen/Qwen2.5-7B --gpu H100 --random-range-ratio 0.1".to_owned(),
            "which benchmark tool is meant?",
        ),
        (
            format!("{SGLANG} --backend sglang --engine vllm --model Qwen/Qwen2.5-7B"),
            "--engine: vllm does not have the endpoint of --backend sglang",
        ),
        ("bench vllm bench serve --model Qwen/Qwen2.5-7B".to_owned(), "--gpu"),
        (
            "bench python benchmark_serving.py --model x --gpu H100".to_owned(),
            "drew other requests",
        ),
    ] {
        let ran = cli.words(&command).expect_exit(2);
        ran.stdout_is_empty().stderr_has(refusal);
    }
}

#[test]
fn the_engine_is_that_behind_the_tool_and_its_backend() {
    let tpot = |command: &str| {
        let flags = "--model Qwen/Qwen2.5-7B --dataset-name random --num-prompts 4 \
                     --random-input-len 64 --random-output-len 8 --random-range-ratio 1";
        let ran = with_data().words(&format!("{command} {flags}")).expect_exit(0);
        let line = ran.stdout();
        line.lines().find(|line| line.starts_with("Mean TPOT")).unwrap().to_owned()
    };
    let sglang = tpot(&format!("{SGLANG} --backend sglang"));
    assert_eq!(sglang, tpot(&format!("{SGLANG} --engine sglang")));
    assert_ne!(sglang, tpot(&format!("{SGLANG} --backend vllm")), "vLLM's engine");
}
