"""How the runs of a sweep are cut into shards."""

from __future__ import annotations

from collections import deque

GROWTH_MAX = 4
"""A shard is at most so many times as long as the longest before: the runs that come may take longer."""

TASKS_PER_S = 100
"""Ray's own benchmarks of 250 and 2,500 cores start 350 to 600 a second; where cores are many, shards are longer."""

RUNS_MAX = 2000
"""Lines of runs are some 1.5 KB each: results that the driver has not fetched fill no object store."""

SHARE = 2
"""Shards that each core still gets of what is left, so that all of them end at nearly the same time."""

SHORTEST_S = 0.1
"""Of these shards: some twenty times what a task costs."""


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
        """The runs of the next task: as many as take so many seconds."""
        if self._back:
            return self._back.popleft()
        share = len(self._runs) // (SHARE * max(1, cores))
        seconds = max(self._seconds, cores / TASKS_PER_S)
        count = min(self._within(seconds), max(share, self._within(SHORTEST_S)))
        return [self._runs.popleft() for _ in range(min(count, len(self._runs)))]

    def _within(self, seconds: float) -> int:
        """How many runs take so long; at least 1, and 1 until one has ended."""
        if self._run_s is None:
            return 1
        longest = min(self._longest * GROWTH_MAX, RUNS_MAX)
        return max(1, min(int(seconds / self._run_s), longest))

    def took(self, runs: int, seconds: float) -> None:
        """A shard has ended. Later ones count more: points differ in length, and neighbours are alike."""
        of_these = max(seconds / runs, 1e-9)
        self._run_s = of_these if self._run_s is None else (self._run_s + of_these) / 2
        self._longest = max(self._longest, runs)

    def give_back(self, runs: list[int]) -> None:
        """A shard was lost. Its halves come next, so that a run that kills its worker is found."""
        half = (len(runs) + 1) // 2
        self._back.extend(part for part in (runs[:half], runs[half:]) if part)
