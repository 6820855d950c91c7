"""Comparisons whose runs are spread over a cluster."""

from __future__ import annotations

import hashlib
import os
import pickle
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .._answers import Comparison
from .._errors import ServecastWarning
from .._servecast import CompareJob, Scenario
from .._studies import Source, _contestants, _each, _like
from ._cluster import connected, raise_cause, require
from ._question import Question, asked

SHARDS_PER_CORE = 4
"""Tasks of a round for each core: with fewer, cores wait for the last one."""

LOOK_S = 0.2
"""Between two moments at which the driver can be interrupted."""


@dataclass(frozen=True)
class Asked:
    """A comparison, as it travels to the workers."""

    questions: list[Question]
    """Its scenarios, each with the files that it names."""
    seeds: tuple[int, int]
    confidence: float
    within: float
    metrics: list[str]
    paired: bool
    point: bool

    def job(self) -> CompareJob:
        scenarios: list[Scenario] = [one.scenario for one in self.questions]
        return CompareJob(
            scenarios,
            self.seeds,
            self.confidence,
            self.within,
            self.metrics,
            self.paired,
            self.point,
        )


def compare(
    *scenarios: Source,
    seeds: tuple[int, int] = (10, 100),
    confidence: float = 0.95,
    within: float = 0.02,
    metrics: str | Sequence[str] = (),
    paired: bool = True,
    point: bool = False,
    servers: str | None = None,
    address: str | None = None,
) -> Comparison:
    """As ``servecast.compare``, with the runs of each round spread over the cores of a Ray cluster."""
    questions = [asked(one, {}) for one in _like(_contestants(scenarios), servers)]
    comparison = Asked(questions, seeds, confidence, within, _each(metrics), paired, point)
    job = comparison.job()
    with connected(address) as cluster:
        ray = cluster.ray
        written = pickle.dumps(comparison)
        name, question = hashlib.sha256(written).hexdigest(), [ray.put(written)]
        # A run that is done twice is the same, so Ray may do lost ones again.
        task = ray.remote(simulate).options(
            num_cpus=1, max_retries=5, name=f"servecast compare {questions[0].scenario.name}"
        )

        def does(wanted: list[str]) -> list[str]:
            size = max(1, -(-len(wanted) // (SHARDS_PER_CORE * max(1, cluster.cores()))))
            shards = [wanted[at : at + size] for at in range(0, len(wanted), size)]
            tasks = [task.remote(name, question, shard) for shard in shards]
            waits = list(tasks)
            try:
                while waits:
                    _, waits = ray.wait(waits, num_returns=len(waits), timeout=LOOK_S)
                done: list[tuple[list[str], list[str]]] = ray.get(tasks)
            except (ray.exceptions.RayTaskError, ray.exceptions.RaySystemError) as error:
                raise_cause(error)
            except BaseException:
                cluster.cancel(waits)
                raise
            for text in dict.fromkeys(text for _, told in done for text in told):
                warnings.warn(text, ServecastWarning, stacklevel=2)
            return [line for lines, _ in done for line in lines]

        return Comparison(*job.run(does))


_known: dict[str, CompareJob] = {}
"""The job of the comparison that this process worked on last, by its name."""


def simulate(name: str, question: list[Any], wanted: list[str]) -> tuple[list[str], list[str]]:
    """Simulates runs on a worker: what came of each, and what should be heard of them."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        if name not in _known:
            ray = require()
            os.environ["RAYON_NUM_THREADS"] = "1"
            comparison: Asked = pickle.loads(ray.get(question[0]))
            for one in comparison.questions:
                one.check(ray.util.get_node_ip_address())
            _known.clear()
            _known[name] = comparison.job()
        lines = _known[name].compute(wanted)
    return lines, [str(one.message) for one in told]
