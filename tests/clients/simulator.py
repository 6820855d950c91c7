"""What servecast predicts, and servecast as a server."""

import json
import pathlib
import re
import signal
import subprocess
import threading
from dataclasses import dataclass

from clients import Measured

SERVING = re.compile(r"^serving .* at (http://[^ ,]+)")
LATENESS = re.compile(r"tokens (?:were written|came) .*")
# How long the program may take to load a scenario and listen, and to end, in seconds.
PATIENCE_S = 60


@dataclass(frozen=True)
class Prediction:
    """A run of `servecast bench`: its figures, and the scenario that its flags made."""

    figures: Measured
    scenario: pathlib.Path


def bench(program, words, gpu, folder):
    """Answers a command of a benchmark tool, given as its words."""
    command = [str(program), "bench", *words, "--gpu", gpu, "--output-dir", str(folder), "--overwrite", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
    report = json.loads(done.stdout)["benchmark"]
    count = max(report["completed"], 1)
    figures = Measured(
        completed=report["completed"], prompt_tokens=report["total_input_tokens"] / count,
        output_tokens=report["total_output_tokens"] / count, ttft_ms=report["mean_ttft_ms"], tpot_ms=report["mean_tpot_ms"],
        e2e_ms=report.get("mean_e2el_ms", report.get("mean_e2e_latency_ms")),
    )
    return Prediction(figures, folder / "scenario.resolved.toml")


def replay(load, sent, speed, folder):
    """The words of a `vllm bench serve` that sends chats as they were sent: `speed` seconds of it are one on the wall.

    Their prompts share nothing, so that caches find none of them again.
    """
    longest = max(each.prompt_tokens for each in sent)
    folder.mkdir(parents=True, exist_ok=True)
    trace = folder / "sent.jsonl"
    rows = [
        {"timestamp": (each.start_s - sent[0].start_s) * speed, "input_length": each.prompt_tokens, "output_length": each.output_tokens,
         "hash_ids": [index]}
        for index, each in enumerate(sent)
    ]
    trace.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return [
        "vllm", "bench", "serve", "--backend", "openai-chat", "--model", load.model, "--dataset-name", "timed_trace",
        "--dataset-path", str(trace), "--timed-trace-chunk-hash-size", str(longest), "--num-prompts", str(len(sent)),
        "--percentile-metrics", "ttft,tpot,itl,e2el",
    ]


class Server:
    """`servecast serve` on a free port, while the block runs. `lateness` is its own word on it, once it has ended."""

    def __init__(self, program, scenario, tokenizer, speed):
        self.command = [
            str(program), "serve", str(scenario), "--tokenizer", str(tokenizer), "--port", "0", "--speed", str(speed), "--no-files"
        ]
        self.said, self.url, self.lateness = [], None, "unknown"
        self.listens = threading.Event()

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.ear = threading.Thread(target=self.hear, daemon=True)
        self.ear.start()
        if not self.listens.wait(PATIENCE_S) or self.url is None:
            self.process.kill()
            raise RuntimeError(f"{' '.join(self.command)}\n{''.join(self.said)}")
        return self

    def hear(self):
        for line in self.process.stderr:
            self.said.append(line)
            if at := SERVING.search(line):
                self.url = at.group(1)
                self.listens.set()
            if late := LATENESS.search(line):
                self.lateness = late.group(0)
        self.listens.set()

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.ear.join(PATIENCE_S)
