"""The driver: hands shards out and keeps what comes back."""

from __future__ import annotations

import hashlib
import pickle
import time
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

from .._errors import ServecastWarning, SimulationError
from .._servecast import KeptSweep
from . import _worker
from ._cluster import Cluster, raise_cause
from ._question import Question
from ._shards import Shards

LOSSES_MAX = 5
"""How often a run may be lost alone before it is the run's own fault."""

LOOK_S = 2.0
"""Between two looks at what the cluster has."""


class Driver:
    """A sweep whose runs are simulated by the workers of a cluster."""

    def __init__(self, cluster: Cluster, question: Question, shard_s: float) -> None:
        self._cluster, self._ray = cluster, cluster.ray
        written = pickle.dumps(question)
        self._name = hashlib.sha256(written).hexdigest()
        self._question = [self._ray.put(written)]
        # The driver hands lost shards out again itself: it halves them, and says which run was lost.
        self._task = self._ray.remote(_worker.simulate).options(
            num_cpus=1, max_retries=0, name=f"servecast {question.scenario.name}"
        )
        self._shard_s = shard_s
        self._in_flight: dict[Any, list[int]] = {}
        self._losses: Counter[int] = Counter()
        self._warned: set[str] = set()
        self._cores, self._looked = 0, float("-inf")
        self._began = time.monotonic()

    def complete(self, kept: KeptSweep, each: Callable[[int], object]) -> None:
        """Simulates the runs that are missing, and calls ``each`` with how many of them have ended."""
        shards = Shards(kept.missing(), self._shard_s)
        ended = 0
        try:
            each(ended)
            while shards or self._in_flight:
                self._submit(shards)
                before = ended
                for task in self._ended():
                    ended += self._keep(task, kept, shards)
                if ended > before:
                    each(ended)
        finally:
            self._cluster.cancel(self._in_flight)

    def _submit(self, shards: Shards) -> None:
        self._look()
        since_s = time.monotonic() - self._began
        while shards and len(self._in_flight) < shards.in_flight(self._cores, since_s):
            runs = shards.take(self._cores)
            self._in_flight[self._task.remote(self._name, self._question, runs)] = runs

    def _look(self) -> None:
        if time.monotonic() - self._looked < LOOK_S:
            return
        self._cores, self._looked = self._cluster.cores(), time.monotonic()
        if self._cores == 0:
            self._warn("the cluster has no cores; the sweep waits until its autoscaler adds some")

    def _ended(self) -> list[Any]:
        """The tasks that have ended, of which one is waited for."""
        tasks = list(self._in_flight)
        ended, _ = self._ray.wait(tasks, num_returns=1, timeout=LOOK_S)
        if ended:
            ended, _ = self._ray.wait(tasks, num_returns=len(tasks), timeout=0)
        return list(ended)

    def _keep(self, task: Any, kept: KeptSweep, shards: Shards) -> int:
        """Keeps what came of a task; how many runs those are."""
        runs = self._in_flight.pop(task)
        errors = self._ray.exceptions
        try:
            done: _worker.Done = self._ray.get(task)
        except errors.RayTaskError as error:
            raise_cause(error)
        except (errors.TaskCancelledError, errors.RuntimeEnvSetupError):
            raise
        except errors.RayError as error:
            self._lost(runs, error)
            shards.give_back(runs)
            return 0
        kept.keep(done.lines)
        shards.took(len(runs), done.took_s)
        for text in done.warnings:
            self._warn(text)
        return len(runs)

    def _lost(self, runs: list[int], error: Exception) -> None:
        if len(runs) > 1:
            return
        self._losses[runs[0]] += 1
        if self._losses[runs[0]] == LOSSES_MAX:
            raise SimulationError(
                f"run {runs[0]} was lost {LOSSES_MAX} times with its worker, which may have too little memory: {error}"
            ) from error

    def _warn(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            warnings.warn(text, ServecastWarning, stacklevel=2)
