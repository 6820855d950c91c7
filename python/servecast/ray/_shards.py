"""How the runs of a sweep are cut into shards.

Ray begins some hundred tasks a second however many cores there are: its own benchmarks begin 350 to 600, with 250 and 2,500
cores (``many_nodes`` and ``many_tasks`` of Ray 2.8 to 2.20). So the more cores, the longer the shards.
"""

from __future__ import annotations

from collections import deque

TASKS_PER_S = 100
"""Tasks that begin per second while there is plenty to do."""

TASKS_PER_S_MAX = 300
"""The same at the end, when shards get shorter so that all cores end at nearly the same time."""

TASKS_PER_CORE = 2
"""Tasks in flight: one that runs, and one that waits so that its core need not."""

SHORTEST_S = 0.1
"""A task costs some 2 ms."""

GROWTH_MAX = 4
"""A shard is at most so many times as long as the longest before: the runs that come may take longer."""

PROBES = 64
"""Tasks in flight while shards grow. More of them would keep Ray busy with tasks that are too short."""

PROBES_S = 2.0
"""How long shards are waited for to grow. Where single runs take longer, all cores get some."""

RUNS_MAX = 2000
"""Lines of runs are some 1.5 kB each: results that the driver has not fetched fill no object store."""

SHARE = 2
"""Shards that each core still gets of what is left."""


class Shards:
    """Runs that no worker has yet."""

    def __init__(self, runs: list[int], seconds: float) -> None:
        self._runs = deque(runs)
        self._seconds = seconds
        self._back: deque[list[int]] = deque()
        self._run_s: float | None = None
        self._longest = 1

    def __bool__(self) -> bool:
        return bool(self._runs or self._back)

    def take(self, cores: int) -> list[int]:
        """The runs of the next task."""
        if self._back:
            return self._back.popleft()
        share = len(self._runs) // (SHARE * max(1, cores))
        shortest = max(SHORTEST_S, cores / TASKS_PER_S_MAX)
        wanted = min(self._within(self._longest_s(cores)), max(share, self._within(shortest)))
        count = min(wanted, self._grown(), len(self._runs))
        return [self._runs.popleft() for _ in range(count)]

    def in_flight(self, cores: int, since_s: float) -> int:
        """How many tasks there may be at once, so long after the first one."""
        all_cores = TASKS_PER_CORE * max(1, cores)
        grows = self._within(self._longest_s(cores)) > self._grown()
        return min(all_cores, PROBES) if grows and since_s < PROBES_S else all_cores

    def _longest_s(self, cores: int) -> float:
        return max(self._seconds, cores / TASKS_PER_S)

    def _within(self, seconds: float) -> int:
        """How many runs take so long, at least 1. Nothing is known of runs before one has ended."""
        if self._run_s is None:
            return RUNS_MAX
        return max(1, min(int(seconds / self._run_s), RUNS_MAX))

    def _grown(self) -> int:
        return 1 if self._run_s is None else self._longest * GROWTH_MAX

    def took(self, runs: int, seconds: float) -> None:
        """A shard has ended. Later ones count more: points differ in length, and neighbours are alike."""
        of_these = max(seconds / runs, 1e-9)
        self._run_s = of_these if self._run_s is None else (self._run_s + of_these) / 2
        self._longest = max(self._longest, runs)

    def give_back(self, runs: list[int]) -> None:
        """A shard was lost. Its halves come next, so that a run that kills its worker is found."""
        half = (len(runs) + 1) // 2
        self._back.extend(part for part in (runs[:half], runs[half:]) if part)
