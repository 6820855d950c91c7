"""What is refused, and how it is told."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest

import servecast
from conftest import CHAT


def changed(path: str, value: Any) -> dict[str, Any]:
    scenario = copy.deepcopy(CHAT)
    *sections, key = path.split(".")
    at = scenario
    for section in sections:
        at = at[section]
    at[key] = value
    return scenario


@pytest.mark.parametrize(
    ("path", "value", "rule"),
    [
        ("cluster.gpu", "H10", "did you mean"),
        ("cluster.replicas", 0, "must be"),
        ("cluster.replicas", "many", "whole number"),
        ("cluster.replica", 3, "did you mean `replicas`"),
        ("workload.arrivals.rate_per_s", -1.0, "must be"),
        ("workload.arrivals.rate_per_s", float("nan"), "must be"),
        ("workload.arrivals.type", "poison", "did you mean `poisson`"),
    ],
)
def test_a_broken_rule_is_told_of_a_dict_and_of_an_override(path: str, value: Any, rule: str) -> None:
    with pytest.raises(servecast.ScenarioError, match=rule) as of_dict:
        servecast.load(changed(path, value))
    with pytest.raises(servecast.ScenarioError, match=rule) as of_override:
        servecast.load(CHAT, {path: value})
    for error in (of_dict.value, of_override.value):
        assert error.path.startswith(path.rsplit(".", 1)[0])
        assert error.rule and error.problems[0].rule == error.rule
        assert isinstance(error, ValueError) and isinstance(error, servecast.ServecastError)
    assert of_override.value.problems[0].origin.startswith(f"override {path}=")
    assert of_dict.value.problems[0].origin == "scenario"
    again = pickle.loads(pickle.dumps(of_dict.value))
    assert (str(again), again.problems) == (str(of_dict.value), of_dict.value.problems)


def test_every_problem_is_told() -> None:
    with pytest.raises(servecast.ScenarioError) as error:
        servecast.load(CHAT, {"cluster.replicas": 0, "cluster.tensor_parallel_size": 0})
    assert {one.path for one in error.value.problems} >= {"cluster.replicas"}


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ({"x": None}, "is None"),
        ({"cluster": {"replicas": object()}}, "cluster.replicas: must be a text"),
        ({"cluster": {3: 4}}, "keys must be texts"),
        ({"cluster": [1, {"a": {2}}]}, r"cluster\[1\].a: must be a text"),
    ],
)
def test_what_is_no_setting_is_refused(given: dict[str, Any], rule: str) -> None:
    with pytest.raises(TypeError, match=rule):
        servecast.load(given)


def test_what_is_no_scenario_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="a scenario is"):
        servecast.load(3)  # type: ignore[arg-type]
    with pytest.raises(servecast.ScenarioError, match=r"none\.toml"):
        servecast.load(tmp_path / "none.toml")
    with pytest.raises(servecast.ScenarioError, match="scenario"):
        servecast.load("name = \n")
    with pytest.raises(ValueError, match=r"2\^63"):
        servecast.load(CHAT, {"seed": 2**70})
    with pytest.raises(OverflowError):
        servecast.load(CHAT, seed=-1)


def test_scalars_of_numpy_and_paths_are_settings(tmp_path: Path) -> None:
    numpy: Any = pytest.importorskip("numpy")
    plain = servecast.load(CHAT, {"cluster.replicas": 2, "workload.arrivals.rate_per_s": 3.5})
    arrays = servecast.load(
        CHAT, {"cluster.replicas": numpy.int64(2), "workload.arrivals.rate_per_s": numpy.float32(3.5)}
    )
    assert arrays.resolved_toml == plain.resolved_toml
    missing = tmp_path / "own.toml"
    with pytest.raises(servecast.ScenarioError, match=r"own\.toml"):
        servecast.load(CHAT, {"cluster.gpu": missing})


def test_a_trace_that_is_not_there_is_told() -> None:
    scenario = copy.deepcopy(CHAT)
    scenario["trace"] = {"path": "no-such-trace.csv"}
    scenario["workload"] = {"arrivals": {"type": "trace"}, "lengths": {"type": "trace"}}
    with pytest.raises(servecast.ServecastError, match="no-such-trace.csv"):
        servecast.load(scenario).run()


def test_what_lies_in_itself_is_refused() -> None:
    inside: dict[str, Any] = {}
    inside["a"] = inside
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for given in (inside, {"x": deep}):
        with pytest.raises(ValueError, match="in themselves"):
            servecast.load(given)
    with pytest.raises(ValueError, match="in themselves"):
        servecast.load(CHAT, {"cluster": inside})


def test_mappings_ranges_and_arrays_are_settings() -> None:
    import types

    one = servecast.load(types.MappingProxyType(CHAT), types.MappingProxyType({"cluster.replicas": 2}))
    assert one.resolved_toml == servecast.load(CHAT, {"cluster.replicas": 2}).resolved_toml
    numpy: Any = pytest.importorskip("numpy")
    for values in (range(1, 3), numpy.array([1, 2])):
        assert len(servecast.sweep(CHAT, {"cluster.replicas": values}).points) == 2
