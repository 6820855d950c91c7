"""What goes wrong, and what should be heard of a run."""

from __future__ import annotations

import ctypes
import logging
import sys
import warnings
from dataclasses import dataclass
from typing import Any

log = logging.getLogger("servecast")


class ServecastError(Exception):
    """Anything that servecast refuses or fails at."""


@dataclass(frozen=True)
class Problem:
    """A setting that breaks a rule."""

    origin: str
    """Where it was given: a file, an override, an argument."""
    path: str
    """The path of the setting, such as ``cluster.groups[0].replicas``; empty where it is the whole file."""
    rule: str
    """The rule, such as ``must be at least 1``, or what is wrong in a sentence."""
    value: str | None
    """What the setting says, where the rule is about that."""
    nearest: str | None
    """The known name that is nearest to one that is not known."""
    hint: str | None
    """What helps."""


class ScenarioError(ServecastError, ValueError):
    """A scenario, or a question about one, that breaks rules.

    ``path``, ``rule`` and ``value`` are those of the first problem; ``problems`` has all of them.
    """

    def __init__(
        self,
        message: str,
        problems: list[tuple[str, str, str, str | None, str | None, str | None]] | None = None,
    ) -> None:
        super().__init__(message)
        self._given = list(problems or [])
        self.problems = [Problem(*one) for one in self._given]

    @property
    def path(self) -> str:
        return self.problems[0].path if self.problems else ""

    @property
    def rule(self) -> str:
        return self.problems[0].rule if self.problems else str(self)

    @property
    def value(self) -> str | None:
        return self.problems[0].value if self.problems else None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self._given)


class SimulationError(ServecastError, RuntimeError):
    """A run or a study that cannot be done, or whose answer says nothing."""


class InternalError(ServecastError, RuntimeError):
    """A simulation that broke one of its own laws: a fault of servecast."""


class ServecastWarning(UserWarning):
    """What a figure hangs on and may not hold."""


def warn(text: str) -> None:
    """Called by the extension; the warning is told of the line outside of the package that led here."""
    level, frame = 1, sys._getframe()
    while frame is not None and str(frame.f_globals.get("__name__", "")).split(".")[0] == "servecast":
        level += 1
        frame = frame.f_back  # type: ignore[assignment]
    warnings.warn(text, ServecastWarning, stacklevel=level)


def inform(text: str) -> None:
    """Called by the extension."""
    log.info(text)


def interrupt(thread: int) -> None:
    """Called by the extension: raises ``KeyboardInterrupt`` in the code of a policy that does not return."""
    raised = ctypes.py_object(KeyboardInterrupt)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), raised)
