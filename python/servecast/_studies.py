"""Studies of many runs: the questions."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Union

from . import _servecast
from ._answers import Calibration, Check, Comparison, Explanation, Plan, Sweep, Validation
from ._policies import AdmissionPolicy, AutoscalerPolicy, RouterPolicy, SchedulerPolicy
from ._servecast import Run, Scenario, load

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


def plan(
    scenario: Source,
    *,
    slo: str | Sequence[str],
    gpu: str | Sequence[str] = (),
    tensor_parallel: int | Sequence[int] = (),
    vary: Mapping[str, Any] | None = None,
    layout: str | Sequence[str] = (),
    price: str | Mapping[str, float] | None = None,
    price_file: StrPath | None = None,
    all: bool = False,
    max_gpus: int = 1024,
    rate: bool = False,
    resamples: int = 8,
    point: bool = False,
    window_s: float = 60.0,
    nic_gb_per_s: float | None = None,
    warm_up: str = "auto",
) -> Plan:
    """Finds how many replicas of which layout meet SLOs, at what price, and how sure that is.

    ``slo`` is as ``"p99_ttft_ms<=500"``; all must hold. ``gpu``, ``tensor_parallel``, ``layout`` (``mixed``,
    ``disaggregated``) and ``vary`` say what may be chosen; what is not given is as the scenario has it. ``price`` is
    ``"low"`` or ``"high"``, the offers of the catalogue, or US dollars per hour by GPU; it holds before the prices of
    ``price_file``. ``all`` searches every layout to its end. ``rate`` seeks the highest rate of the scenario's replicas
    instead. ``point`` plans for typical servers, not for those slower than 19 of 20.
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
        price_file,
        all,
        max_gpus,
        rate,
        resamples,
        point,
        window_s,
        nic_gb_per_s,
        warm_up,
    )
    return Plan(*told)


def _contestants(scenarios: Sequence[Source]) -> list[Scenario]:
    read = [_scenario(one) for one in scenarios]
    return [*read, *read[0].variants] if len(read) == 1 else read


def _like(scenarios: Sequence[Scenario], servers: str | None) -> list[Scenario]:
    return [one if servers is None else one.with_servers(servers) for one in scenarios]


def compare(
    *scenarios: Source,
    seeds: tuple[int, int] = (10, 100),
    confidence: float = 0.95,
    within: float = 0.02,
    metrics: str | Sequence[str] = (),
    paired: bool = True,
    point: bool = False,
    servers: str | None = None,
) -> Comparison:
    """Says whether scenarios differ from the first one, or whether chance explains it. A scenario alone is compared
    with its variants.

    Seeds are added, from ``seeds[0]`` up to ``seeds[1]``, until half the width of every interval is at most the share
    ``within`` of the baseline's mean. Each seed sends a stretch resampled from a trace; ``point`` replays the trace as it
    was recorded. ``servers`` are ``typical``, ``slow`` or ``fast``, of every scenario (``Scenario.with_servers``).
    """
    told = _servecast.compare(
        _like(_contestants(scenarios), servers), seeds, confidence, within, _each(metrics), paired, point
    )
    return Comparison(*told)


def explain(
    scenario: Source,
    request: int | None = None,
    *,
    metric: str | None = None,
    percentile: float = 99.0,
    seeds: int = 8,
    confidence: float = 0.95,
    point: bool = False,
    servers: str | None = None,
) -> Explanation:
    """Says where the time of a request went, and which setting would change its latency most.

    The request is the one of this number, or the one at the ``percentile`` of ``metric``: ``ttft``, ``tpot`` or ``e2e``;
    if absent, the latency whose SLO most requests miss. Changes are judged by that percentile, under so many ``seeds``;
    with 0 none is tried. Each seed sends a stretch resampled from a trace; ``point`` replays the trace as it was
    recorded. ``servers`` are ``typical``, ``slow`` or ``fast`` (``Scenario.with_servers``).
    """
    (one,) = _like([_scenario(scenario)], servers)
    told = _servecast.explain(one, request, metric, percentile, seeds, confidence, point)
    return Explanation(*told)


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
