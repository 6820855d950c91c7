"""Studies of many runs: the questions, and their answers with attributes."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

from . import _servecast
from ._policies import AdmissionPolicy, AutoscalerPolicy, RouterPolicy, SchedulerPolicy
from ._servecast import Run, Scenario, Table, load

Source = Union[Scenario, str, "os.PathLike[str]", Mapping[str, Any]]
"""A scenario, or what ``servecast.load`` makes one of."""

StrPath = Union[str, "os.PathLike[str]"]

Progress = Callable[[int, int], object]
"""``progress(done, total)``."""


def _scenario(source: Source) -> Scenario:
    return source if isinstance(source, Scenario) else load(source)


def _each(given: Any) -> list[Any]:
    if given is None:
        return []
    return [given] if isinstance(given, (str, int, os.PathLike)) else list(given)


def bench(
    command: str | Sequence[str],
    *,
    steps: bool = False,
    router: RouterPolicy | None = None,
    admission: AdmissionPolicy | None = None,
    autoscaler: AutoscalerPolicy | None = None,
    scheduler: SchedulerPolicy | None = None,
    progress: Progress | None = None,
) -> Run:
    """Simulates what a command of ``vllm bench serve`` or ``sglang.bench_serving`` would measure.

    ``command`` is the command, as a text or as its words, with the GPU and flags of the server added:
    ``"vllm bench serve --model Qwen/Qwen3-8B --gpu H100 --dataset-name random --num-prompts 200"``. The block that the
    tool would print is ``run.report``.
    """
    words = shlex.split(command) if isinstance(command, str) else list(command)
    return _servecast.bench(words, steps, router, admission, autoscaler, scheduler, progress)


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


def sweep(
    scenario: Source,
    vary: Mapping[str, Any] | None = None,
    *,
    design: str | None = None,
    points: int | None = None,
    seeds: int | None = None,
    folder: StrPath | None = None,
    shard: tuple[int, int] | None = None,
    progress: Progress | None = None,
) -> Sweep:
    """Runs a scenario at many points, on all processors.

    ``vary`` has the values of each setting by its path: a list, or text such as ``"1..16"`` or ``"0.1..10:log:8"``.
    ``design`` is ``grid``, ``zip``, ``random`` or ``latin_hypercube``; the last two draw ``points``. Each point is run
    with so many ``seeds``. A ``folder`` keeps runs as they end: those that it holds are not simulated again. ``shard``
    computes part I of N, to be joined by ``merge``.
    """
    told = _servecast.sweep(
        _scenario(scenario), dict(vary or {}), design, points, seeds, folder, shard, progress
    )
    return Sweep(*told)


def merge(parts: StrPath | Sequence[StrPath], folder: StrPath, *, partial: bool = False) -> Sweep:
    """Joins the folders of the parts of a sweep in another one; with ``partial`` also where runs are missing."""
    return Sweep(*_servecast.merge(_each(parts), folder, partial))


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


def plan(
    scenario: Source,
    *,
    slo: str | Sequence[str],
    gpu: str | Sequence[str] = (),
    tensor_parallel: int | Sequence[int] = (),
    vary: Mapping[str, Any] | None = None,
    layout: str | Sequence[str] = (),
    price: str | Mapping[str, float] | None = None,
    max_gpus: int = 1024,
    rate: bool = False,
    resamples: int = 8,
    point: bool = False,
    window_s: float = 60.0,
    nic_gb_per_s: float = 50.0,
    warm_up: str = "auto",
) -> Plan:
    """Finds how many replicas of which layout meet SLOs, at what price, and how sure that is.

    ``slo`` is as ``"p99_ttft_ms<=500"``; all must hold. ``gpu``, ``tensor_parallel``, ``layout`` (``mixed``,
    ``disaggregated``) and ``vary`` say what may be chosen; what is not given is as the scenario has it. ``price`` is
    ``"low"`` or ``"high"``, the offers of the catalogue, or US dollars per hour by GPU. ``rate`` seeks the highest rate
    of the scenario's replicas instead. ``point`` plans for typical servers, not for those slower than 19 of 20.
    """
    offer, prices = (price, {}) if isinstance(price, str) or price is None else (None, price)
    told = _servecast.plan(
        _scenario(scenario),
        _each(slo),
        _each(gpu),
        _each(tensor_parallel),
        dict(vary or {}),
        _each(layout),
        offer,
        list(prices.items()),
        max_gpus,
        rate,
        resamples,
        point,
        window_s,
        nic_gb_per_s,
        warm_up,
    )
    return Plan(*told)


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


def _contestants(scenarios: Sequence[Source]) -> list[Scenario]:
    read = [_scenario(one) for one in scenarios]
    return [*read, *read[0].variants] if len(read) == 1 else read


def compare(
    *scenarios: Source,
    seeds: tuple[int, int] = (10, 100),
    confidence: float = 0.95,
    within: float = 0.02,
    metrics: str | Sequence[str] = (),
    paired: bool = True,
) -> Comparison:
    """Says whether scenarios differ from the first one, or whether chance explains it. A scenario alone is compared
    with its variants.

    Seeds are added, from ``seeds[0]`` up to ``seeds[1]``, until half the width of every interval is at most the share
    ``within`` of the baseline's mean.
    """
    told = _servecast.compare(
        _contestants(scenarios), seeds, confidence, within, _each(metrics), paired
    )
    return Comparison(*told)


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

    def write(self, path: StrPath) -> None:
        """Writes the parameters."""
        Path(path).write_text(self.toml, encoding="utf-8")

    def __repr__(self) -> str:
        return f"<servecast.Calibration of {len(self.json['fitted'])} runs, {self.misses} misses>"


def calibrate(
    runs: StrPath | Sequence[StrPath],
    *,
    hold_out: StrPath | Sequence[StrPath] = (),
    server: StrPath | None = None,
    data: StrPath | None = None,
    overrides: Mapping[str, Any] | None = None,
    within_pct: float = 5.0,
) -> Calibration:
    """Fits parameters to measured runs, and scores those that are held out.

    Runs are scenarios with measured figures, experiments, or, with the scenario ``server``, what a benchmark tool
    printed or wrote.
    """
    if not _each(runs):
        raise TypeError("runs: give at least one measured run")
    told = _servecast.calibrate(
        _each(runs), _each(hold_out), server, data, dict(overrides or {}), within_pct
    )
    return Calibration(*told)


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


def validate(
    experiment: StrPath | None = None,
    *,
    runs: StrPath | None = None,
    calibrate_on: StrPath | None = None,
    family: str | None = None,
    engine: str | None = None,
    calibration: StrPath | None = None,
    data: StrPath | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Validation:
    """Simulates measured runs again: an experiment, published ``runs``, or the built-in reference runs."""
    if experiment is not None and runs is not None:
        raise TypeError("give an experiment or runs, not both")
    for name, value in {"calibrate_on": calibrate_on, "family": family, "engine": engine}.items():
        if value is not None and runs is None:
            raise TypeError(f"{name} is for runs")
    if calibration is not None and (experiment is None or Path(experiment).is_dir()):
        raise TypeError("calibration is for the file of an experiment")
    told = _servecast.validate(
        experiment, runs, calibrate_on, family, engine, calibration, data, dict(overrides or {})
    )
    return Validation(*told)


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


def check(
    folder: StrPath | None = None,
    *,
    pattern: str | None = None,
    router: RouterPolicy | None = None,
    admission: AdmissionPolicy | None = None,
    autoscaler: AutoscalerPolicy | None = None,
    scheduler: SchedulerPolicy | None = None,
) -> Check:
    """Simulates the scenarios of a suite and compares their figures with those that are recorded.

    The suite is the built-in one, or a ``folder`` of scenarios with its ``golden.toml``; ``pattern`` selects scenarios
    by name, as in ``"router-*"``. Policies replace those of every scenario; a scenario that a policy cannot serve is left
    out, with the reason.
    """
    return Check(_servecast.check(folder, pattern, router, admission, autoscaler, scheduler))
