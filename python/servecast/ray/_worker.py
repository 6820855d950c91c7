"""What a worker does: it simulates shards, runs of a sweep by their numbers."""

from __future__ import annotations

import os
import pickle
import time
import warnings
from dataclasses import dataclass
from typing import Any

from .._servecast import SweepJob
from ._cluster import require
from ._question import Question


@dataclass(frozen=True)
class Done:
    """A shard that was simulated."""

    lines: list[str]
    """What came of each run, with a hash of itself."""
    took_s: float
    warnings: list[str]


_known: dict[str, SweepJob] = {}
"""The job of the question that this process worked on last, by its name."""


def simulate(name: str, question: list[Any], runs: list[int]) -> Done:
    """Simulates runs. The question is in a list so that Ray fetches it only where it is not known."""
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        lines = job(name, question).compute(runs)
    return Done(lines, time.perf_counter() - began, [str(one.message) for one in told])


def job(name: str, question: list[Any]) -> SweepJob:
    if name not in _known:
        ray = require()
        # Ray gives a task one core. Threads are counted when the first job begins; a `runtime_env` would say the same,
        # but not to the workers that Ray has started in advance, and new ones take a second or two.
        os.environ["RAYON_NUM_THREADS"] = "1"
        asked: Question = pickle.loads(ray.get(question[0]))
        made = asked.checked(ray.util.get_node_ip_address())
        _known.clear()
        _known[name] = made
    return _known[name]
