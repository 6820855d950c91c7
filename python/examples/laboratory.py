"""A laboratory of routers: what a search tries routers on, and what it holds the best one against.

A router is tried on training workloads with several seeds. Its score is the mean of the log ratios of its figures to
those of ``least_outstanding_tokens`` on the same requests, with a 95 % interval over the seeds: below 0 is better.

The best of many is partly the luckiest of many, so its score promises too much. Therefore ``finals`` scores the best few
again with other seeds. What counts is ``judge``: workloads and seeds that no search has seen, with the verdicts of
``servecast.compare``.
"""

from __future__ import annotations

import argparse
import math
import statistics
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar, Union

import servecast
from servecast import Comparison, Finding, Replica, Request, Router, Scenario

REPOSITORY = Path(__file__).resolve().parents[2]

FIGURES = ("mean_ttft_ms", "p99_ttft_ms", "mean_e2el_ms")
"""What a router is scored and judged by. The tail is among them, so that no mean is bought with it."""

BASELINE = {"cluster.router": {"type": "least_outstanding_tokens"}}

AnyRouter = Union[Router, type[Router]]

Candidate = TypeVar("Candidate")


UNSEEN_SEED = 1_000_003
"""The seeds of a comparison are drawn from this one; those of training are below 100."""


@dataclass(frozen=True)
class Workload:
    """Requests and a cluster, with the baseline's router."""

    name: str
    scenario: Scenario


def _workload(name: str, path: str, **settings: Any) -> Workload:
    # Keyword arguments have no dots.
    overrides = {key.replace("__", "."): value for key, value in settings.items()}
    return Workload(name, servecast.load(REPOSITORY / path, {**overrides, **BASELINE}))


HOT = "few hot prompts"
"""Most requests share one prompt: a router that only seeks caches sends them all to one replica."""


def training() -> list[Workload]:
    """Workloads where a router matters: uneven lengths, prompts that many or most share, unequal GPUs, bursts."""
    return [
        _workload("uneven lengths", "checks/router-load.toml"),
        _workload("shared prompts", "checks/router-prefixes.toml"),
        _workload(
            HOT,
            "checks/router-load.toml",
            workload__num_requests=200,
            workload__arrivals__rate_per_s=12.0,
            workload__lengths__input_tokens={
                "type": "log_normal", "median_tokens": 2000, "sigma": 1.0, "max_tokens": 16000,
            },
            workload__content={
                "type": "system_prompt", "groups": 4, "prefix_tokens": 2048,
                "popularity": {"type": "zipf", "exponent": 1.5},
            },
            cluster__engine__num_gpu_blocks=8000,
        ),
        _workload("two kinds of GPU", "checks/groups.toml"),
        _workload(
            "bursts",
            "checks/burst.toml",
            cluster__replicas=4,
            workload__arrivals__rate_per_s=32.0,
            workload__num_requests=300,
        ),
    ]


def unseen(trace: Path | None = None) -> list[Workload]:
    """Workloads to judge by: those of training with other seeds, other ones, and traces.

    ``trace`` adds the first ten minutes of a recorded trace. Traces have one order of arrivals; each seed spreads them
    within some seconds, as otherwise chance could not be told.
    """
    known = [
        Workload(f"{one.name}, other seeds", one.scenario.with_overrides(seed=UNSEEN_SEED))
        for one in training()
    ]
    others = [
        _workload("conversations", "checks/router-sessions.toml", seed=UNSEEN_SEED),
        _workload("conversations with shared prompts", "scenarios/routing.toml", seed=UNSEEN_SEED),
        _workload(
            "shared prompts, 2,048 tokens",
            "scenarios/shared-prefix.toml",
            seed=UNSEEN_SEED,
            cluster__replicas=4,
            workload__arrivals__rate_per_s=24.0,
        ),
        _workload(
            "one long prompt in ten",
            "checks/long-prompts.toml",
            seed=UNSEEN_SEED,
            cluster__replicas=4,
            workload__arrivals__rate_per_s=24.0,
        ),
        _workload(
            "2 H100 and 4 L40S", "scenarios/heterogeneous.toml", seed=UNSEEN_SEED, workload__num_requests=1000
        ),
    ]
    traces = [
        _traced("trace azure-like", REPOSITORY / "traces/azure-like.csv", {"rate_per_s": 60.0, "jitter_s": 1.0}),
        _traced("trace mooncake-like", REPOSITORY / "traces/mooncake-like.jsonl", {"rate_per_s": 12.0, "jitter_s": 1.0}),
    ]
    if trace is not None:
        traces.append(_traced(f"trace {trace.stem}", trace, {"window_end_s": 600.0, "jitter_s": 3.0}))
    return known + others + traces


def _traced(name: str, path: Path, pace: Mapping[str, float]) -> Workload:
    scenario = {
        "name": name,
        "seed": UNSEEN_SEED,
        "trace": {"path": str(path.resolve())},
        "workload": {"arrivals": {"type": "trace", **pace}, "lengths": {"type": "trace"}},
        "cluster": {
            "host": "none",
            "model": "meta-llama/Llama-3.1-8B",
            "gpu": "H100-SXM5-80GB",
            "replicas": 4,
            "engine": {"type": "vllm_v1"},
        },
    }
    return Workload(name, servecast.load(scenario, BASELINE))


# Half the width of a 95 % interval of Student's distribution, in standard errors, by degrees of freedom from 1 on.
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)


@dataclass(frozen=True)
class Score:
    """How a router compares with the baseline."""

    mean: float
    """The mean of log ratios: lower is better, 0 is as good. Infinite where it fails."""
    within_95: float
    """Half the width of its 95 % interval over seeds."""
    reason: str | None = None
    """Why it fails, if it does."""

    @classmethod
    def failed(cls, reason: str) -> Score:
        return cls(math.inf, 0.0, reason)

    def __str__(self) -> str:
        if self.reason is not None:
            return f"failed: {self.reason}"
        low, high = (math.expm1(self.mean + sign * self.within_95) for sign in (-1, 1))
        return f"{100 * math.expm1(self.mean):+.1f} % (95 %: {100 * low:+.1f} % to {100 * high:+.1f} %)"


class Fitness:
    """Scores routers on workloads. Equal routers get equal scores."""

    def __init__(self, workloads: Sequence[Workload], seeds: Sequence[int] = range(1, 7)) -> None:
        if not 2 <= len(seeds) <= len(STUDENT) + 1:
            raise ValueError(f"seeds: must be 2 to {len(STUDENT) + 1}, got {len(seeds)}")
        self._seeds = seeds
        self._workloads = workloads
        self._baseline = {
            (one.name, seed): one.scenario.run(seed=seed).figures for one in workloads for seed in self._seeds
        }

    def __call__(self, router: AnyRouter) -> Score:
        # One value per seed: workloads with the same seed are not independent samples of anything.
        each = [
            statistics.fmean(self._log_ratio(router, one, seed) for one in self._workloads) for seed in self._seeds
        ]
        deviation = statistics.stdev(each) / math.sqrt(len(each))
        return Score(statistics.fmean(each), STUDENT[len(each) - 2] * deviation)

    def _log_ratio(self, router: AnyRouter, workload: Workload, seed: int) -> float:
        base = self._baseline[workload.name, seed]
        figures = workload.scenario.run(seed=seed, router=router).figures
        if figures["finished"] < base["finished"]:
            raise ValueError(
                f"{workload.name}: {figures['finished']:.0f} requests finished, {base['finished']:.0f} with the baseline"
            )
        return statistics.fmean(math.log(figures[name] / base[name]) for name in FIGURES)


def finals(
    tried: Sequence[tuple[Score, Candidate]],
    router: Callable[[Candidate], AnyRouter],
    workloads: Sequence[Workload],
    places: int = 5,
) -> tuple[Score, Candidate]:
    """The best of those that scored best, with its score: from seeds that did not choose them."""
    fitness = Fitness(workloads, seeds=range(51, 63))
    best = sorted((one for one in tried if one[0].reason is None), key=lambda one: one[0].mean)[:places]
    scored = [(fitness(router(candidate)), candidate) for _, candidate in best]
    return min(scored, key=lambda one: one[0].mean)


@dataclass(frozen=True)
class WeightedRouter:
    """Chooses the replica with the lowest score, in prompt tokens: those outstanding there, and what else weighs.

    Engines report queues, KV memory and caches every half second, so that this could be built; what was sent since is
    in what the gateway counts itself.
    """

    reports_every_s: ClassVar[float] = 0.5
    caches_every_s: ClassVar[float] = 0.5

    outstanding: float = 0.0
    """What an outstanding request weighs beside its prompt tokens."""
    waiting: float = 0.0
    """What a request weighs that waits in the engine."""
    kv: float = 0.0
    """What full KV memory weighs."""
    cached: float = 0.0
    """What a token of the prompt that is cached there is worth."""

    def choose(self, request: Request, replicas: tuple[Replica, ...], /) -> Replica:
        return min(replicas, key=self._score)

    def _score(self, replica: Replica) -> float:
        return (
            replica.outstanding_tokens
            + self.outstanding * replica.outstanding_requests
            + self.waiting * replica.waiting
            + self.kv * replica.kv_utilization
            - self.cached * replica.cached_tokens
        )


RANGES: dict[str, tuple[float, float]] = {
    "outstanding": (10.0, 10_000.0),
    "waiting": (10.0, 10_000.0),
    "kv": (100.0, 100_000.0),
    "cached": (0.1, 100.0),
}
"""Where a search looks for each weight, evenly over logarithms. Each may be 0, too."""


CONFIDENCE = 0.95


def judge(router: AnyRouter, workloads: Sequence[Workload], seeds: int = 40) -> list[Comparison]:
    """Compares a router with the baseline on each workload, prints the verdicts, and gives the comparisons.

    A comparison takes ten ``seeds``, and as many as given where these tell too little.

    A comparison says of its own figures at which confidence none of what it names is chance. Each gets its share of the
    5 % that may err, so that this holds of all workloads together.
    """
    share = 1 - (1 - CONFIDENCE) / len(workloads)
    comparisons: list[Comparison] = []
    print(f"{'':36}" + "".join(f"{name:>27}" for name in FIGURES))
    for one in workloads:
        compared = servecast.compare(
            one.scenario,
            one.scenario.with_policies(router=router),
            seeds=(min(10, seeds), seeds),
            confidence=share,
            metrics=FIGURES,
        )
        print(f"{one.name:36}" + "".join(f"{_cell(compared.finding(name)):>27}" for name in FIGURES))
        comparisons.append(compared)
    _conclude([compared.finding(name) for compared in comparisons for name in FIGURES], len(workloads))
    return comparisons


def _cell(finding: Finding) -> str:
    relative = "" if finding.relative is None else f"{100 * finding.relative:+.1f} % "
    return relative + str(finding.verdict_of_all_together)


def _conclude(found: Sequence[Finding], workloads: int) -> None:
    for name in FIGURES:
        of = [finding for finding in found if finding.metric == name]
        told = [finding.verdict_of_all_together for finding in of]
        change = math.expm1(statistics.fmean(math.log(finding.b / finding.a) for finding in of))
        better, worse = told.count("better"), told.count("worse")
        print(
            f"{name}: better on {better} of {workloads} unseen workloads, worse on {worse}, not told apart on "
            f"{workloads - better - worse}; {100 * change:+.1f} % in the geometric mean"
        )
    verdicts = {finding.verdict_of_all_together for finding in found}
    if "better" not in verdicts:
        verdict = "no better than least_outstanding_tokens"
    elif "worse" in verdicts:
        verdict = "better than least_outstanding_tokens on some workloads and worse on others"
    else:
        verdict = "better than least_outstanding_tokens, and worse nowhere that was looked at"
    print(f"Verdict: {verdict} ({100 * CONFIDENCE:.0f} %, all together).")


def options(about: str, trials: int) -> argparse.ArgumentParser:
    """What every search can be told."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--trials", type=int, default=trials, help=f"routers to try ({trials})")
    parser.add_argument("--seed", type=int, default=1, help="of the search (1); equal seeds find the same")
    parser.add_argument("--seeds", type=int, default=40, help="most seeds of a comparison in the end (40)")
    parser.add_argument("--trace", type=Path, help="a recorded trace to judge by, too")
    return parser


def search_and_judge(
    about: str, trials: int, search: Callable[[Fitness, int, int], list[tuple[Score, WeightedRouter]]]
) -> None:
    """Runs a search of weights as it is told on the command line, and judges what it finds."""
    arguments = options(about, trials).parse_args()
    with quiet():
        tried = search(Fitness(training()), arguments.trials, arguments.seed)
        score, router = finals(tried, lambda one: one, training())
        print(f"Best of {arguments.trials}: {router}")
        print(f"In training: {score}")
        judge(router, unseen(arguments.trace), arguments.seeds)


@contextmanager
def quiet() -> Iterator[None]:
    """Cautions about step times concern the baseline as much as the router."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", servecast.ServecastWarning)
        yield
