"""Sweeps whose runs are spread over a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from .._answers import Sweep
from .._servecast import KeptSweep
from .._studies import Source, StrPath, _scenario
from ._cluster import connected
from ._driver import Driver
from ._place import Place, place
from ._progress import Shown, shown
from ._question import Question, asked

SHARD_S = 5.0
"""What a kill loses of each core at most, and a thousand times what a task costs."""


def sweep(
    scenario: Source,
    vary: Mapping[str, Any] | None = None,
    *,
    design: str | None = None,
    points: int | None = None,
    seeds: int | None = None,
    folder: StrPath | None = None,
    address: str | None = None,
    shard_s: float = SHARD_S,
    progress: Shown = None,
) -> Sweep:
    """Runs a scenario at many points, on all cores of a Ray cluster.

    The question and the answer are those of ``servecast.sweep``, byte for byte. ``folder`` may also be a URL that fsspec
    reads, such as ``s3://bucket/rates``: it keeps runs as they end, and what it holds is not simulated again.

    ``address`` is that of a cluster, as ``ray.init`` takes it; if absent, the one that this process is connected to, the
    one that Ray finds, or else a new one on this machine. Workers get runs for some ``shard_s`` seconds at a time.
    ``progress`` is called with how many runs are done, and of how many; if absent, a line on the terminal tells.
    Files that the scenario names must lie at the same paths on all nodes.
    """
    question = asked(_scenario(scenario), vary or {}, design, points, seeds)
    with place(folder) as where, completed(question, where, address, shard_s, progress) as kept:
        told = kept.finish()
    return Sweep(*told)


@contextmanager
def completed(
    question: Question,
    where: Place,
    address: str | None,
    shard_s: float = SHARD_S,
    progress: Shown = None,
) -> Iterator[KeptSweep]:
    """The folder of a sweep when no run of it is missing."""
    if not shard_s > 0:
        raise ValueError(f"shard_s: must be more than 0, got {shard_s}")
    job = question.job()
    kept = job.open(where.path)
    try:
        reused = job.runs - len(kept.missing())
        if reused < job.runs:
            with connected(address) as cluster:
                tell = shown(progress, cluster)

                def each(ended: int) -> None:
                    tell(reused + ended, job.runs)
                    where.copy_now_and_then()

                Driver(cluster, question, shard_s).complete(kept, each)
        yield kept
    finally:
        kept.close()
