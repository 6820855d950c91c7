"""What the Python package takes, from a call to a dataframe, and for a decision of a policy.

    pip install ./python polars
    python benches/python.py

Times are the least of several rounds on this machine; what repeats elsewhere are their ratios.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import polars

import servecast

warnings.simplefilter("ignore", servecast.ServecastWarning)


def scenario(requests: int, rate_per_s: float, replicas: int, router: str) -> dict[str, Any]:
    return {
        "name": "bench",
        "workload": {
            "num_requests": requests,
            "arrivals": {"type": "poisson", "rate_per_s": rate_per_s},
            "lengths": {
                "type": "sampled",
                "input_tokens": {"type": "log_normal", "median_tokens": 512.0, "sigma": 0.6, "max_tokens": 4096},
                "output_tokens": {"type": "uniform", "min_tokens": 32, "max_tokens": 192},
            },
        },
        "cluster": {
            "model": "meta-llama/Llama-3.1-8B",
            "gpu": "H100",
            "replicas": replicas,
            "router": {"type": router},
        },
    }


def least_s(work: Callable[[], object], rounds: int = 5) -> float:
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def to_dataframe(requests: int, rate_per_s: float, replicas: int) -> None:
    def work() -> None:
        run = servecast.load(scenario(requests, rate_per_s, replicas, "round_robin")).run()
        assert polars.DataFrame(run.requests).height == requests

    print(f"{requests:,} requests, {replicas} replica{'s' * (replicas > 1)}, from the call to a DataFrame: {least_s(work) * 1e3:.0f} ms")


class Least:
    def choose(self, request: servecast.Request, replicas: tuple[servecast.Replica, ...]) -> servecast.Replica:
        return min(replicas, key=lambda replica: replica.outstanding_requests)


def decisions(replicas: int) -> None:
    requests = 100_000
    busy = servecast.load(scenario(requests, 10.0 * replicas, replicas, "least_outstanding_requests"))
    assert busy.run().figures == busy.run(router=Least).figures
    rust, python = least_s(lambda: busy.run()), least_s(lambda: busy.run(router=Least))
    per_decision_us = (python - rust) / requests * 1e6
    print(
        f"{requests:,} requests behind a router, {replicas} replicas: {python:.2f} s in Python, {rust:.2f} s in Rust; "
        f"{per_decision_us:.1f} µs a decision"
    )


def main() -> None:
    to_dataframe(10_000, 5.0, 1)
    to_dataframe(50_000, 160.0, 16)
    for replicas in (4, 16):
        decisions(replicas)


if __name__ == "__main__":
    main()
