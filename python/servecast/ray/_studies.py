"""Studies that take one node of a cluster each: what they simulate next hangs on what they have found."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import _studies as local
from .._answers import Calibration, Plan, Validation
from .._errors import ServecastWarning
from .._studies import Source, StrPath
from ._cluster import connected, raise_cause
from ._question import refuse_policies


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
    nic_gb_per_s: float | None = None,
    warm_up: str = "auto",
    address: str | None = None,
) -> Plan:
    """As ``servecast.plan``, on all cores of one node of a Ray cluster; more nodes do not make it faster."""
    named = dict(
        slo=slo,
        gpu=gpu,
        tensor_parallel=tensor_parallel,
        vary=vary,
        layout=layout,
        price=price,
        max_gpus=max_gpus,
        rate=rate,
        resamples=resamples,
        point=point,
        window_s=window_s,
        nic_gb_per_s=nic_gb_per_s,
        warm_up=warm_up,
    )
    answer: Plan = on_a_node("plan", read([scenario]), named, address)
    return answer


def calibrate(
    runs: StrPath | Sequence[StrPath],
    *,
    hold_out: StrPath | Sequence[StrPath] = (),
    server: StrPath | None = None,
    data: StrPath | None = None,
    overrides: Mapping[str, Any] | None = None,
    within_pct: float = 5.0,
    address: str | None = None,
) -> Calibration:
    """As ``servecast.calibrate``, on all cores of one node of a Ray cluster, which must have the files."""
    named = dict(
        hold_out=each_absolute(hold_out),
        server=absolute(server),
        data=absolute(data),
        overrides=overrides,
        within_pct=within_pct,
    )
    answer: Calibration = on_a_node("calibrate", [each_absolute(runs)], named, address)
    return answer


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
    address: str | None = None,
) -> Validation:
    """As ``servecast.validate``, on all cores of one node of a Ray cluster, which must have the files."""
    named = dict(
        runs=absolute(runs),
        calibrate_on=absolute(calibrate_on),
        family=family,
        engine=engine,
        calibration=absolute(calibration),
        data=absolute(data),
        overrides=overrides,
    )
    answer: Validation = on_a_node("validate", [absolute(experiment)], named, address)
    return answer


def read(sources: Sequence[Source]) -> list[Any]:
    """Scenarios, read here: what is wrong with them is told before a cluster is asked for anything."""
    scenarios = [local._scenario(source) for source in sources]
    for scenario in scenarios:
        refuse_policies(scenario)
    return scenarios


def absolute(path: StrPath | None) -> str | None:
    """A path that is the same wherever a task works. A file that this machine lacks is refused here."""
    if path is None:
        return None
    if not Path(path).exists():
        raise FileNotFoundError(f"{os.fspath(path)}: there is no such file")
    return str(Path(path).absolute())


def each_absolute(paths: StrPath | Sequence[StrPath]) -> list[str | None]:
    return [absolute(path) for path in local._each(paths)]


def on_a_node(study: str, given: Sequence[Any], named: dict[str, Any], address: str | None) -> Any:
    """What a study answers as one task, which has all cores of a node."""
    with connected(address) as cluster:
        ray, cores = cluster.ray, cluster.cores_of_largest_node()
        # A cluster that has no node yet gets one for a task of one core, whose threads are then those of the node.
        threads = {"env_vars": {"RAYON_NUM_THREADS": str(cores)}} if cores else {}
        task = ray.remote(do).options(
            num_cpus=max(1, cores), runtime_env=threads, name=f"servecast {study}"
        )
        waits = task.remote(study, list(given), named)
        try:
            answer, told = ray.get(waits)
        except (ray.exceptions.RayTaskError, ray.exceptions.RaySystemError) as error:
            raise_cause(error)
        except BaseException:
            cluster.cancel([waits])
            raise
    for text in told:
        warnings.warn(text, ServecastWarning, stacklevel=3)
    return answer


def do(study: str, given: list[Any], named: dict[str, Any]) -> tuple[Any, list[str]]:
    """Does a study on a worker: its answer, and what should be heard of it."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        answer = getattr(local, study)(*given, **named)
    return answer, [str(one.message) for one in told]
