"""How far a sweep is, on the terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Union

from .._studies import Progress
from ._cluster import Cluster

Shown = Union[Progress, bool, None]
"""What is called; or whether a line on the terminal tells. If absent, where stderr is one."""


class Line:
    """A line on stderr that is written over."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._first: int | None = None

    def __call__(self, done: int, of: int) -> None:
        if self._first is None:
            self._first = done
        text = f"\r{done:,} of {of:,} runs"
        simulated, took_s = done - self._first, time.monotonic() - self._began
        if simulated and done < of:
            text += f", {(of - done) * took_s / simulated:,.0f} s left"
        sys.stderr.write(text + "\x1b[K" + ("\n" if done == of else ""))
        sys.stderr.flush()


def shown(progress: Shown, cluster: Cluster) -> Callable[[int, int], object]:
    """What is told how far a sweep is."""
    if callable(progress):
        return progress
    if progress is False or (progress is None and not sys.stderr.isatty()):
        return lambda done, of: None
    if cluster.dashboard:
        sys.stderr.write(f"Ray's dashboard: {cluster.dashboard}\n")
    return Line()
