"""What studies of many runs answer: all of it as the commands print it in JSON, and attributes for what is usually asked."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ._servecast import Table


@dataclass(frozen=True)
class Estimate:
    """A figure over the runs of a point."""

    mean: float
    half_width_95: float | None
    """Half the width of its 95 % interval; ``None`` of a single run."""


@dataclass(frozen=True)
class Point:
    """A point of a sweep."""

    index: int
    variant: str
    settings: dict[str, Any]
    runs: int
    errors: list[str]
    """Why runs failed."""
    figures: dict[str, Estimate]


class Sweep:
    """What a sweep has found."""

    def __init__(self, text: str, runs: Table, reused: int) -> None:
        self.json: dict[str, Any] = json.loads(text)
        """All of it, as ``servecast sweep --format json`` prints it."""
        self.runs = runs
        """A row per run: which point and seed, what was varied, its figures, and why it failed."""
        self.reused = reused
        """Runs that the folder held already."""

    @property
    def points(self) -> list[Point]:
        """Its points, in their order."""
        return [
            Point(
                one["point"],
                one["variant"],
                one["settings"],
                one["runs"],
                one["errors"],
                {
                    name: Estimate(found["mean"], found["within_95_pct"])
                    for name, found in one["figures"].items()
                },
            )
            for one in self.json["points"]
        ]

    def __repr__(self) -> str:
        return f"<servecast.Sweep of {len(self.json['points'])} points, {len(self.runs)} runs>"


@dataclass(frozen=True)
class Layout:
    """A layout of a plan."""

    layout: str
    """Its GPU, its tensor-parallel size and what else was chosen."""
    meets_slos: bool
    """Whether so many replicas meet all SLOs."""
    replicas: Any
    """How many; of prefill and decode apart, both. ``None`` where none was found."""
    gpus: int | None
    usd_per_hour: float | None
    requests_per_s: float | None
    """The highest rate, where that is sought."""
    json: dict[str, Any]
    """All that was found of it."""


class Plan:
    """What a plan says. ``str`` gives it in words."""

    def __init__(self, text: str, words: str) -> None:
        self.json: dict[str, Any] = json.loads(text)
        """All of it, as ``servecast plan --format json`` prints it."""
        self._words = words

    @property
    def layouts(self) -> list[Layout]:
        """The layouts, the best first."""
        return [
            Layout(
                one["layout"],
                bool(one.get("keeps", False)),
                one.get("replicas"),
                one.get("gpus"),
                one.get("usd_per_hour"),
                one.get("requests_per_s"),
                one,
            )
            for one in self.json["layouts"]
        ]

    @property
    def winner(self) -> Layout | None:
        """The cheapest layout that meets all SLOs, if any does."""
        return next((one for one in self.layouts if one.meets_slos), None)

    def __str__(self) -> str:
        return self._words

    def __repr__(self) -> str:
        return self._words


@dataclass(frozen=True)
class Finding:
    """A figure of a scenario beside that of the baseline."""

    scenario: str
    """Its letter: B for the second one."""
    metric: str
    a: float
    """The mean of the baseline."""
    b: float
    """The mean of the scenario."""
    difference: float
    half_width: float
    """Half the width of the interval of the difference."""
    relative: float | None
    """The difference relative to the baseline."""
    relative_half_width: float | None
    """Half the width of its interval."""
    p_value: float
    verdict: str
    """``better``, ``worse``, ``higher``, ``lower``, ``no difference`` or ``identical``, of this figure alone."""
    verdict_of_all_together: str | None
    """The same together with all other judged figures; ``None`` where it is not judged."""
    sentence: str | None
    """In words, where it is judged."""


class Comparison:
    """What a comparison found. ``str`` gives it in words."""

    def __init__(self, text: str, words: str, runs: Table) -> None:
        self.json: dict[str, Any] = json.loads(text)
        """All of it, as ``servecast compare --format json`` prints it."""
        self.runs = runs
        """A row per run: its scenario, the number of its seed, its figures."""
        self._words = words

    @property
    def findings(self) -> list[Finding]:
        """Every figure that all runs have, those that are judged first."""
        return [
            Finding(
                of["scenario"],
                one["metric"],
                one["a"],
                one["b"],
                one["difference"],
                one["difference_half_width"],
                one["relative"],
                one["relative_half_width"],
                one["p_value"],
                one["verdict"],
                one.get("verdict_of_all_together"),
                one.get("sentence"),
            )
            for of in self.json["comparisons"]
            for one in (*of["figures"], *of["other_figures"])
        ]

    def finding(self, metric: str, scenario: str = "B") -> Finding:
        """The finding of a figure. Raises ``KeyError`` where a run lacks it."""
        for one in self.findings:
            if one.metric == metric and one.scenario == scenario:
                return one
        raise KeyError(f"{metric} of {scenario}")

    def __str__(self) -> str:
        return self._words

    def __repr__(self) -> str:
        return self._words


@dataclass(frozen=True)
class Change:
    """A change of one setting, and what came of it."""

    name: str
    """In words, as in ``max_num_seqs 256 → 512``."""
    overrides: list[str]
    """What is set, as ``--set`` takes it."""
    now_ms: float
    """The percentile of the latency without it: the mean over the seeds that it was tried with."""
    then_ms: float
    """The same with it."""
    difference_ms: float
    half_width_ms: float | None
    """Half the width of the interval of the difference; ``None`` of a single seed."""
    gpus: int
    verdict: str
    """``better``, ``worse``, ``no difference`` or ``identical``, together with all other changes; ``seems worse`` of one
    that was given up after the first seeds."""
    json: dict[str, Any]
    """All that was found of it."""


class Explanation:
    """Why a request was slow. ``str`` gives it in words."""

    def __init__(self, text: str, words: str, all_words: str) -> None:
        self.json: dict[str, Any] = json.loads(text)
        """All of it, as ``servecast explain --format json`` prints it."""
        self.full_text = all_words
        """In words, with the changes that make no difference and those that break a rule of the scenario."""
        self._words = words

    @property
    def request(self) -> int:
        """The number of the request."""
        return int(self.json["request"]["request"])

    @property
    def parts_ms(self) -> dict[str, float]:
        """Where its time went, in the order in which it went there; the parts add up to its end-to-end time."""
        return {part["kind"]: float(part["ms"]) for part in self.json["request"]["parts"]}

    @property
    def changes(self) -> list[Change]:
        """Changes of the cluster, the best first; none where no seeds were asked for."""
        ranking = self.json["ranking"] or {"changes": []}
        return [
            Change(
                one["name"],
                one["set"],
                one["now_ms"],
                one["then_ms"],
                one["difference_ms"],
                one["half_width_ms"],
                one["gpus"],
                one["verdict_of_all_together"],
                one,
            )
            for one in ranking["changes"]
        ]

    def __str__(self) -> str:
        return self._words

    def __repr__(self) -> str:
        return self._words


class Calibration:
    """Parameters that were fitted to measured runs."""

    def __init__(self, text: str, toml: str) -> None:
        self.json: dict[str, Any] = json.loads(text)
        """All of it, as ``servecast calibrate --format json`` prints it."""
        self.toml = toml
        """The parameters as scenarios take them (``calibration = "file.toml"``)."""

    @property
    def misses(self) -> int:
        """Durations, means and medians that err by more than was accepted."""
        return int(self.json["misses"])

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the parameters."""
        Path(path).write_text(self.toml, encoding="utf-8")

    def __repr__(self) -> str:
        return f"<servecast.Calibration of {len(self.json['fitted'])} runs, {self.misses} misses>"


class Validation:
    """How near simulated runs are to measured ones. ``str`` gives it as a table."""

    def __init__(self, text: str, words: str) -> None:
        self.json: dict[str, Any] = json.loads(text)
        """All of it, as ``servecast validate --format json`` prints it."""
        self._words = words

    def __str__(self) -> str:
        return self._words

    def __repr__(self) -> str:
        return self._words


@dataclass(frozen=True)
class Deviation:
    """A figure that is not as recorded."""

    figure: str
    recorded: float | None
    now: float | None
    relative: float | None
    standing: str
    """``better``, ``worse``, ``worse, within tolerance``, ``changed``, ``other requests``, ``gone`` or ``new``."""
    fails: bool


@dataclass(frozen=True)
class Outcome:
    """What a check found of a scenario."""

    scenario: str
    passes: bool
    left_out: str | None
    """Why the policies are not for it, if they are not."""
    deviations: list[Deviation]


class Check:
    """What a check found."""

    def __init__(self, text: str) -> None:
        self.json: dict[str, Any] = json.loads(text)
        """All of it, as ``servecast check --format json`` prints it."""

    @property
    def outcomes(self) -> list[Outcome]:
        """Of each scenario."""
        return [
            Outcome(
                one["scenario"],
                one["passes"],
                one["left_out"],
                [
                    Deviation(
                        found["figure"],
                        found["recorded"],
                        found["now"],
                        found["relative"],
                        found["standing"],
                        found["fails"],
                    )
                    for found in one["deviations"]
                ],
            )
            for one in self.json["scenarios"]
        ]

    @property
    def passes(self) -> bool:
        """Whether nothing is worse than its tolerance allows."""
        return all(one.passes for one in self.outcomes) and not self.json["recorded_and_gone"]

    def __repr__(self) -> str:
        failed = [one.scenario for one in self.outcomes if not one.passes]
        return f"<servecast.Check of {len(self.outcomes)} scenarios, failed: {', '.join(failed) or 'none'}>"
