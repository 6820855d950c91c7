"""The benchmark clients: the command of each, and what it measured.

There are two kinds. What those with a `twin` send, `servecast bench` draws from the same flags: these are its words. The others
draw in their own way, and tell when they sent each request (`Sent`).

Times are those of the wall here, in ms.
"""

import json
import os
import pathlib
from dataclasses import dataclass

HERE = pathlib.Path(__file__).resolve().parent


@dataclass(frozen=True)
class Load:
    """What is sent: requests with exponential gaps, of fixed lengths."""

    model: str
    requests: int
    rate_per_s: float
    prompt_tokens: int
    output_tokens: int
    seed: int


@dataclass(frozen=True)
class Sent:
    """A request as its client sent it."""

    start_s: float
    prompt_tokens: int
    output_tokens: int


@dataclass(frozen=True)
class Measured:
    """What a client says of its run, each time the mean of its requests. `sent` where the client tells it."""

    completed: int
    prompt_tokens: float
    output_tokens: float
    ttft_ms: float
    tpot_ms: float
    e2e_ms: float
    sent: tuple[Sent, ...] = ()


def of_requests(rows):
    """From rows of (start in s, TTFT and E2E in ms, prompt and output tokens)."""
    count = len(rows)

    def mean(value):
        return sum(map(value, rows)) / max(count, 1)

    return Measured(
        completed=count, prompt_tokens=mean(lambda row: row[3]), output_tokens=mean(lambda row: row[4]), ttft_ms=mean(lambda row: row[1]),
        tpot_ms=mean(lambda row: (row[2] - row[1]) / (row[4] - 1)), e2e_ms=mean(lambda row: row[2]),
        sent=tuple(Sent(row[0], row[3], row[4]) for row in sorted(rows)),
    )


def of_report(report, e2e):
    """From the report of vLLM's or SGLang's tool, which hold the same but for the name of E2E."""
    count = max(report["completed"], 1)
    return Measured(
        completed=report["completed"], prompt_tokens=report["total_input_tokens"] / count,
        output_tokens=report["total_output_tokens"] / count, ttft_ms=report["mean_ttft_ms"], tpot_ms=report["mean_tpot_ms"],
        e2e_ms=report[e2e],
    )


def last_line(path):
    return json.loads(path.read_text().splitlines()[-1])


def environment(**more):
    # Nothing is to be looked up on Hugging Face, and no key of the caller's to be sent.
    kept = {name: value for name, value in os.environ.items() if name not in ("OPENAI_API_KEY", "API_KEY", "PYTHONPATH")}
    return kept | {"TOKENIZERS_PARALLELISM": "false"} | more


OFFLINE = {"HF_HUB_OFFLINE": "1"}


@dataclass(frozen=True)
class Target:
    """Where a client is pointed at, with what, and where it writes."""

    url: str
    venvs: pathlib.Path
    tokenizer: pathlib.Path
    conversations: pathlib.Path
    out: pathlib.Path

    def bin(self, venv, name="python"):
        return str(self.venvs / venv / "bin" / name)


@dataclass(frozen=True)
class SglangBench:
    """`sglang.bench_serving`, which sends one request before its clock starts."""

    backend: str
    venv = "sglang"

    def flags(self, load):
        return [
            "--backend", self.backend, "--model", load.model, "--dataset-name", "random", "--random-input-len", str(load.prompt_tokens),
            "--random-output-len", str(load.output_tokens), "--random-range-ratio", "1.0", "--num-prompts", str(load.requests),
            "--request-rate", str(load.rate_per_s), "--seed", str(load.seed),
        ]

    def twin(self, load):
        return ["python", "-m", "sglang.bench_serving", *self.flags(load)]

    def command(self, load, target):
        return [
            target.bin(self.venv), "-W", "ignore", "-m", "sglang.bench_serving", *self.flags(load), "--base-url", target.url, "--tokenizer",
            str(target.tokenizer), "--dataset-path", str(target.conversations), "--disable-tqdm", "--output-file",
            str(target.out / "report.jsonl"),
        ], environment(PYTHONPATH=str(HERE / "without_torch"), **OFFLINE)

    def read(self, out):
        return of_report(last_line(out / "report.jsonl"), "mean_e2e_latency_ms")


@dataclass(frozen=True)
class VllmBench:
    """`vllm bench serve`."""

    backend: str
    venv = "vllm"

    def flags(self, load):
        return [
            "--backend", self.backend, "--model", load.model, "--dataset-name", "random", "--random-input-len", str(load.prompt_tokens),
            "--random-output-len", str(load.output_tokens), "--random-range-ratio", "0", "--num-prompts", str(load.requests),
            "--request-rate", str(load.rate_per_s), "--seed", str(load.seed), "--ignore-eos", "--temperature", "0",
            "--percentile-metrics", "ttft,tpot,itl,e2el",
        ]

    def twin(self, load):
        return ["vllm", "bench", "serve", *self.flags(load)]

    def command(self, load, target):
        endpoint = "/v1/chat/completions" if self.backend == "openai-chat" else "/v1/completions"
        return [
            target.bin(self.venv), str(HERE / "vllm_bench.py"), *self.flags(load), "--base-url", target.url, "--endpoint", endpoint,
            "--tokenizer", str(target.tokenizer), "--disable-tqdm", "--save-result", "--result-dir", str(target.out),
            "--result-filename", "report.json",
        ], environment(VLLM_LOGGING_LEVEL="ERROR", **OFFLINE)

    def read(self, out):
        return of_report(json.loads((out / "report.json").read_text()), "mean_e2el_ms")


@dataclass(frozen=True)
class OpenAi:
    """Chats with the openai package, by `openai_load.py`."""

    backend: str = "chat"
    venv = "openai"
    twin = None

    def command(self, load, target):
        numbers = [load.requests, load.rate_per_s, load.prompt_tokens, load.output_tokens, load.seed]
        program = [target.bin(self.venv), str(HERE / "openai_load.py"), target.url]
        return [*program, *map(str, numbers), str(target.out / "report.json")], environment()

    def read(self, out):
        rows = json.loads((out / "report.json").read_text())
        return of_requests([
            (row["start_s"], row["ttft_s"] * 1e3, row["e2e_s"] * 1e3, row["prompt_tokens"], row["output_tokens"]) for row in rows
        ])


@dataclass(frozen=True)
class Guidellm:
    """`guidellm run` with chats. Its E2E ends with the stream, a little after the last token."""

    backend: str = "chat"
    venv = "guidellm"
    twin = None

    def command(self, load, target):
        return [
            target.bin(self.venv, "guidellm"), "run", "--backend",
            f"kind=openai_http,target={target.url},model={load.model},request_format=/v1/chat/completions",
            "--profile", f"kind=poisson,rate={load.rate_per_s}", "--constraint", f"kind=max_requests,count={load.requests}",
            "--tokenizer", f"kind=huggingface_auto,model={target.tokenizer}",
            "--data", f"kind=synthetic_text,prompt_tokens={load.prompt_tokens},output_tokens={load.output_tokens}",
            "--seed", f"kind=static,value={load.seed}", "--output", f"kind=json,path={target.out / 'report.json'}",
            "--disable-console-interactive",
        ], environment(**OFFLINE)

    def read(self, out):
        rows = json.loads((out / "report.json").read_text())["benchmarks"][0]["requests"]["successful"]
        return of_requests([
            (row["request_start_time"], row["time_to_first_token_ms"], row["request_latency"] * 1e3, row["prompt_tokens"],
             row["output_tokens"])
            for row in rows
        ])


@dataclass(frozen=True)
class Aiperf:
    """`aiperf profile` with chats."""

    backend: str = "chat"
    venv = "aiperf"
    twin = None

    def command(self, load, target):
        return [
            target.bin(self.venv, "aiperf"), "profile", "--model", load.model, "--url", target.url, "--endpoint-type", "chat",
            "--streaming", "--tokenizer", str(target.tokenizer), "--isl", str(load.prompt_tokens), "--isl-stddev", "0",
            "--osl", str(load.output_tokens), "--osl-stddev", "0", "--extra-inputs", "ignore_eos:true",
            "--request-rate", str(load.rate_per_s), "--arrival-pattern", "poisson", "--request-count", str(load.requests),
            "--random-seed", str(load.seed), "--no-gpu-telemetry", "--ui-type", "none", "--output-artifact-dir", str(target.out),
        ], environment()

    def read(self, out):
        rows = [json.loads(line) for line in (out / "profile_export.jsonl").read_text().splitlines()]

        def value(row, name):
            return row["metrics"][name]["value"]

        return of_requests([
            (row["metadata"]["request_start_ns"] * 1e-9, value(row, "time_to_first_token"), value(row, "request_latency"),
             value(row, "usage_prompt_tokens"), value(row, "usage_completion_tokens"))
            for row in rows
        ])


CLIENTS = {
    "openai": [OpenAi()],
    "sglang-bench": [SglangBench("sglang"), SglangBench("sglang-oai"), SglangBench("vllm")],
    "vllm-bench": [VllmBench("vllm"), VllmBench("openai-chat")],
    "guidellm": [Guidellm()],
    "aiperf": [Aiperf()],
}
