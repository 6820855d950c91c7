"""What is asked of a sweep, as it travels to the workers."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import __version__
from .._errors import ServecastError
from .._servecast import Scenario, SweepJob
from .._toml import tables

PATH_KEYS = {"path", "profile", "gpu", "model", "speculative_draft_model_path"}
"""Keys of a scenario whose values may be files."""


@dataclass(frozen=True)
class Question:
    """A sweep, and what its workers must have so that they find what the driver would find."""

    scenario: Scenario
    vary: dict[str, Any]
    design: str | None
    points: int | None
    seeds: int | None
    files: dict[str, str]
    """Hashes of the files that it names, by their absolute paths."""
    version: str = __version__

    def job(self) -> SweepJob:
        return SweepJob(self.scenario, self.vary, self.design, self.points, self.seeds)

    def checked(self, node: str) -> SweepJob:
        """The job on a worker, which must have the same servecast and the same files."""
        self.check(node)
        return self.job()

    def check(self, node: str) -> None:
        """Refuses a worker that lacks something of the driver."""
        if self.version != __version__:
            raise ServecastError(
                f"node {node} has servecast {__version__}, the driver {self.version}: install one version on all nodes"
            )
        for path, expected in self.files.items():
            if not Path(path).is_file():
                raise ServecastError(
                    f"node {node} has no {path}, which the scenario names: put it at the same path on every node, "
                    "or on a volume that all of them mount"
                )
            if content(Path(path)) != expected:
                raise ServecastError(f"{path} on node {node} is another one than that of the driver")


def asked(
    scenario: Scenario,
    vary: Mapping[str, Any],
    design: str | None = None,
    points: int | None = None,
    seeds: int | None = None,
) -> Question:
    """A question of this machine, which its workers can be sent."""
    refuse_policies(scenario)
    files = {str(path): content(path) for path in named_files(scenario, vary)}
    return Question(scenario, dict(vary), design, points, seeds, files)


def refuse_policies(scenario: Scenario) -> None:
    """Policies in Python are objects of this process."""
    try:
        pickle.dumps(scenario)
    except TypeError as error:
        raise ServecastError(
            "a scenario with policies in Python runs on this machine alone: they do not travel to the workers of Ray. "
            "Use servecast.sweep, or a policy that the scenario names"
        ) from error


def named_files(scenario: Scenario, vary: Mapping[str, Any]) -> list[Path]:
    """The files that a scenario names, or that it takes in turn; their absolute paths.

    Python 3.10 does not read TOML, and names none: there only the first runs of each variant tell whether a worker has
    the files of the driver, by the hash that names the sweep.
    """
    drafts, of_file = written(scenario)
    axes: dict[str, Any] = dict(vary)
    for axis in (tables(of_file or "") or {}).get("axes", []):
        axes.setdefault(axis["path"], axis["values"])
    varied = [name for path, values in axes.items() for name in varied_names(path, values)]
    found: set[Path] = set()
    for draft in filter(None, map(tables, drafts)):
        folder = Path(draft["folder"])
        for name in (*names(draft["root"]), *varied):
            path = folder / name
            # A model may be the folder of its config.
            path = path / "config.json" if path.is_dir() else path
            if path.is_file():
                found.add(path)
    return sorted(found)


def written(scenario: Scenario) -> tuple[list[str], str | None]:
    """A scenario and its variants in TOML, as they are pickled, and what the file varies."""
    pickled: Any = scenario.__reduce__()
    drafts, of_file = pickled[1]
    return drafts, of_file


def names(table: Any, key: str = "") -> Iterator[str]:
    """What stands at keys that may name files."""
    if isinstance(table, dict):
        for key, value in table.items():
            yield from names(value, key)
    elif isinstance(table, list):
        for value in table:
            yield from names(value, key)
    elif isinstance(table, str) and key in PATH_KEYS:
        yield table


def varied_names(path: str, values: Any) -> Iterator[str]:
    """What an axis says at keys that may name files."""
    key = path.rsplit(".", 1)[-1]
    texts = values.split(",") if isinstance(values, str) else values
    for value in texts if isinstance(texts, (list, tuple)) else [texts]:
        yield from names(value.strip() if isinstance(value, str) else value, key)


def content(path: Path) -> str:
    """A hash of a file."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            found.update(block)
    return found.hexdigest()
