#!/usr/bin/env python3
"""Points real benchmark clients at `servecast serve`, and compares what they measure with what `servecast bench` predicts.

    python3 tests/clients/compare.py --servecast target/release/servecast --venvs FOLDER --clients openai sglang-bench

FOLDER is where `install.py` has put the clients. Each client runs against a server of its own with nothing in its caches. The clock of the
server runs `--speed` times as fast as that on the wall: the client sends as many times faster, and what it measures is multiplied by
it. So is every millisecond that machine and client take themselves: at speed 10, one on the wall is ten in the table.

`sglang-bench` and `vllm-bench` send what `servecast bench` draws from the same flags. `openai`, `guidellm` and `aiperf` draw requests of
their own; `servecast bench` is told when each was sent, and how long it and its answer were, so chance has no part in either.

A mean is within where it differs from the prediction by 2 % and what the machine may add: `--overhead-ms` of TTFT and of E2E on the
wall, and of TPOT that divided by the tokens after the first. Exit code 1 where one is beyond after `--tries`, or a client fails.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace

from clients import CLIENTS, Load, Measured, Sent, Target
from simulator import Server, bench, replay
from tokenizer import conversations, make

TOLERANCE = 0.02
# Of one run of a client, in seconds.
TIME_LIMIT_S = 600
ROW = "{:<26} {:>5} {:>5} {:>7} {:>6}  {:<4} {:>9} {:>9} {:>8} {:>9}  {}"
HEADINGS = ROW.format("client", "speed", "done", "in", "out", "mean", "bench ms", "client ms", "diff %", "wall ms", "within")


@dataclass(frozen=True)
class Line:
    """One mean of one client."""

    name: str
    predicted_ms: float
    measured_ms: float
    allowed_wall_ms: float
    speed: float

    @property
    def wall_ms(self):
        return (self.measured_ms - self.predicted_ms) / self.speed

    @property
    def is_within(self):
        allowed_ms = TOLERANCE * self.predicted_ms + self.allowed_wall_ms * self.speed
        return abs(self.measured_ms - self.predicted_ms) <= allowed_ms


@dataclass(frozen=True)
class Outcome:
    """What a run of a client came to."""

    predicted: Measured
    measured: Measured
    lateness: str


def lines(outcome, speed, overhead_ms):
    predicted, measured = outcome.predicted, outcome.measured
    gaps = max(predicted.output_tokens - 1, 1)
    return [
        Line("TTFT", predicted.ttft_ms, measured.ttft_ms * speed, overhead_ms, speed),
        Line("TPOT", predicted.tpot_ms, measured.tpot_ms * speed, overhead_ms / gaps, speed),
        Line("E2E", predicted.e2e_ms, measured.e2e_ms * speed, overhead_ms, speed),
    ]


def run(client, load, target, server):
    """Points the client at the server, and returns what it measured on the wall."""
    target.out.mkdir(parents=True, exist_ok=True)
    command, environment = client.command(load, replace(target, url=server.url))
    log = target.out / "log"
    with log.open("w") as output:
        code = subprocess.run(command, stdout=output, stderr=output, env=environment, timeout=TIME_LIMIT_S, check=False).returncode
    if code != 0:
        raise RuntimeError(f"exit code {code} of {' '.join(command)}\n{log.read_text()[-2000:]}")
    measured = client.read(target.out)
    if measured.completed != load.requests:
        raise RuntimeError(f"{measured.completed} of {load.requests} requests were answered\n{log.read_text()[-2000:]}")
    return measured


def compare(client, load, speed, target, arguments):
    """Serves the scenario that the client's flags make, and predicts what the client then measures."""
    predictions = target.out / "predicted"
    # A client without a twin has sent nothing yet: one request stands for all, as the server needs the cluster alone.
    one = (Sent(0.0, load.prompt_tokens, load.output_tokens),)
    words = client.twin(load) if client.twin else replay(load, one, 1, target.out)
    prediction = bench(arguments.servecast, words, arguments.gpu, predictions)
    on_wall = replace(load, rate_per_s=load.rate_per_s * speed)
    with Server(arguments.servecast, prediction.scenario, target.tokenizer, speed) as server:
        measured = run(client, on_wall, target, server)
    if not client.twin:
        words = replay(load, measured.sent, speed, target.out)
        prediction = bench(arguments.servecast, words, arguments.gpu, predictions)
    return Outcome(prediction.figures, measured, server.lateness)


def show(name, speed, outcome, overhead_ms):
    """Prints the lines of a client, and returns whether all are within."""
    measured = outcome.measured
    means = lines(outcome, speed, overhead_ms)
    of_client = [name, f"{speed:g}", measured.completed, f"{measured.prompt_tokens:.1f}", f"{measured.output_tokens:.1f}"]
    for line in means:
        difference = 100 * (line.measured_ms / line.predicted_ms - 1)
        print(ROW.format(
            *of_client, line.name, f"{line.predicted_ms:.2f}", f"{line.measured_ms:.2f}", f"{difference:+.1f}", f"{line.wall_ms:+.3f}",
            "yes" if line.is_within else "BEYOND",
        ))
        of_client = [""] * len(of_client)
    print(f"    server: {outcome.lateness}", flush=True)
    return all(line.is_within for line in means)


def try_client(client, name, load, speed, target, arguments):
    """Compares until all is within, or tries are over; other work on the machine makes a try late."""
    for attempt in range(1, arguments.tries + 1):
        here = replace(target, out=target.out / str(attempt))
        label = f"{name} {client.backend}" + (f" (try {attempt})" if attempt > 1 else "")
        try:
            if show(label, speed, compare(client, load, speed, here, arguments), arguments.overhead_ms):
                return True
        except (RuntimeError, subprocess.TimeoutExpired, OSError, KeyError) as error:
            print(f"{label} at speed {speed:g} FAILED: {error}", flush=True)
    return False


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servecast", type=pathlib.Path, required=True, help="the program")
    parser.add_argument("--venvs", type=pathlib.Path, required=True, help="the folder of `install.py`")
    names = ", ".join(CLIENTS)
    parser.add_argument("--clients", nargs="+", choices=CLIENTS, default=list(CLIENTS), metavar="NAME", help=f"of {names}; all if absent")
    parser.add_argument("--speed", nargs="+", type=float, default=[1.0, 10.0], help="simulated seconds per second [1 10]")
    parser.add_argument("--requests", type=int, default=50, help="[50]")
    parser.add_argument("--rate", type=float, default=2.0, metavar="REQ_PER_S", help="in simulated time [2]")
    parser.add_argument("--prompt-tokens", type=int, default=512, help="[512]")
    parser.add_argument("--output-tokens", type=int, default=64, help="[64]")
    parser.add_argument("--seed", type=int, default=1, help="[1]")
    parser.add_argument("--model", default="Qwen/Qwen3-14B", help="[Qwen/Qwen3-14B]")
    parser.add_argument("--gpu", default="H100", help="[H100]")
    parser.add_argument("--overhead-ms", type=float, default=8.0, help="what machine and client may add to a request, on the wall [8]")
    parser.add_argument("--tries", type=int, default=1, help="[1]")
    parser.add_argument("--out", type=pathlib.Path, help="keep what clients write in this folder")
    return parser.parse_args()


def main():
    arguments = parse()
    load = Load(arguments.model, arguments.requests, arguments.rate, arguments.prompt_tokens, arguments.output_tokens, arguments.seed)
    with tempfile.TemporaryDirectory() as scratch:
        out = (arguments.out or pathlib.Path(scratch)).resolve()
        make(out / "tokenizer")
        (out / "conversations.json").write_text(json.dumps(conversations()))
        target = Target("", arguments.venvs.resolve(), out / "tokenizer", out / "conversations.json", out)
        print(f"{load}\non {arguments.gpu}; allowed: 2 % and {arguments.overhead_ms:g} ms on the wall\n{HEADINGS}", flush=True)
        held = []
        for name in arguments.clients:
            for client in CLIENTS[name]:
                for speed in arguments.speed:
                    here = replace(target, out=out / f"{name}-{client.backend}-{speed:g}")
                    held.append(try_client(client, name, load, speed, here, arguments))
    print(f"{sum(held)} of {len(held)} within")
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
