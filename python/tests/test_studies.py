"""Studies of many runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import servecast
from conftest import CHAT
from servecast import _servecast
from test_run import TOML, command


def test_a_sweep_is_that_of_the_command(tmp_path: Path) -> None:
    path = tmp_path / "two.toml"
    path.write_text(TOML)
    folder = tmp_path / "swept"
    told = command(
        "sweep", str(path), "--vary", "cluster.replicas=1..3", "--seeds", "2", "--output-dir", str(folder),
        "--format", "json",
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    swept = servecast.sweep(path, {"cluster.replicas": "1..3"}, seeds=2)
    assert swept.json == json.loads(told.stdout)
    assert [point.settings["cluster.replicas"] for point in swept.points] == [1, 2, 3]
    assert swept.points[0].figures["p99_ttft_ms"].half_width_95 is not None
    assert len(swept.runs) == 6 and swept.reused == 0
    again = servecast.sweep(path, {"cluster.replicas": [1, 2, 3]}, seeds=2, folder=tmp_path / "kept")
    more = servecast.sweep(path, {"cluster.replicas": [1, 2, 3]}, seeds=3, folder=tmp_path / "other")
    assert again.json == swept.json and len(more.runs) == 9
    known = servecast.sweep(path, {"cluster.replicas": [1, 2, 3]}, seeds=2, folder=tmp_path / "kept")
    assert known.reused == 6 and known.runs.to_dict() == swept.runs.to_dict()


def test_parts_of_a_sweep_are_joined(tmp_path: Path) -> None:
    vary = {"cluster.replicas": [1, 2], "workload.num_requests": [10, 20]}
    whole = servecast.sweep(CHAT, vary)
    for part in (1, 2):
        servecast.sweep(CHAT, vary, folder=tmp_path / f"part-{part}", shard=(part, 2))
    joined = servecast.merge([tmp_path / "part-1", tmp_path / "part-2"], tmp_path / "whole")
    assert joined.runs.to_dict() == whole.runs.to_dict()
    alone = servecast.merge(tmp_path / "part-1", tmp_path / "partial", partial=True)
    assert 0 < len(alone.runs) < len(whole.runs)
    with pytest.raises(TypeError, match="at least one"):
        servecast.calibrate([])
    with pytest.raises(ValueError, match="I from 1 to N"):
        servecast.sweep(CHAT, vary, folder=tmp_path / "x", shard=(3, 2))


def test_designs_and_what_is_none() -> None:
    drawn = servecast.sweep(CHAT, {"workload.num_requests": "10..40"}, design="latin_hypercube", points=3)
    assert len(drawn.points) == 3
    with pytest.raises(ValueError, match="latin_hypercube"):
        servecast.sweep(CHAT, {"workload.num_requests": [1]}, design="hexagons")
    with pytest.raises(servecast.ServecastError, match="nothing varies"):
        servecast.sweep(CHAT)
    with pytest.raises(servecast.ScenarioError, match="9..3 is empty") as error:
        servecast.sweep(CHAT, {"workload.num_requests": "9..3"})
    assert error.value.path == "workload.num_requests"
    told: list[tuple[int, int]] = []
    servecast.sweep(CHAT, {"cluster.replicas": [1, 2]}, progress=lambda done, of: told.append((done, of)))
    assert told[-1] == (2, 2)


def test_a_plan_finds_a_layout() -> None:
    plan = servecast.plan(
        CHAT,
        slo=["p99_ttft_ms<=500", "p99_tpot_ms<=40"],
        gpu=["H100", "L40S"],
        price={"H100": 3.0, "L40S": 0.8},
        resamples=0,
    )
    assert plan.winner is not None
    assert plan.winner.gpus and plan.winner.usd_per_hour
    assert plan.winner.layout in str(plan)
    assert len(plan.layouts) == 2
    impossible = servecast.plan(CHAT, slo="p99_ttft_ms<=0.001", max_gpus=4, resamples=0)
    assert impossible.winner is None
    with pytest.raises(servecast.ScenarioError, match="ttft"):
        servecast.plan(CHAT, slo="p99_ttfd_ms<=500")
    with pytest.raises(ValueError, match="low, high"):
        servecast.plan(CHAT, slo="p99_ttft_ms<=500", price="cheap")


def test_a_comparison_tells_chance_from_difference() -> None:
    one = servecast.load(CHAT)
    compared = servecast.compare(one, one.with_overrides({"cluster.replicas": 4}), seeds=(4, 4))
    found = compared.finding("mean_ttft_ms")
    assert found.verdict == "better" and found.difference < 0
    assert found.sentence is not None and found.sentence in str(compared)
    assert len(compared.runs) == 8
    assert found.relative_half_width is not None
    built_in = servecast.compare(servecast.load(None, {"workload.num_requests": 20}), seeds=(3, 3))
    assert built_in.finding("mean_ttft_ms", "B").verdict
    same = servecast.compare(one, one, seeds=(3, 3))
    assert {finding.verdict for finding in same.findings} == {"identical"}
    with pytest.raises(servecast.ScenarioError, match="at least 3 seeds"):
        servecast.compare(one, one, seeds=(2, 2))
    with pytest.raises(KeyError):
        compared.finding("mean_nothing")


def test_prices_come_from_a_file_too(tmp_path: Path) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text("H100 = 3.0\nL40S = 0.8\n")
    asked: dict[str, Any] = {"slo": "p99_ttft_ms<=500", "gpu": ["H100", "L40S"], "resamples": 0}
    listed = servecast.plan(CHAT, **asked, price_file=prices)
    given = servecast.plan(CHAT, **asked, price={"H100": 3.0, "L40S": 0.8})
    assert [one.usd_per_hour for one in listed.layouts] == [one.usd_per_hour for one in given.layouts]
    over = servecast.plan(CHAT, **asked, price={"H100": 9.0}, price_file=prices)
    usd = {one["gpu"]: one["usd_per_hour"] for one in over.json["prices"]}
    assert usd == {"H100-SXM5-80GB": 9.0, "L40S": 0.8}
    whole = servecast.plan(CHAT, **asked, price_file=prices, all=True)
    assert all("dearer" not in one.json for one in whole.layouts)
    prices.write_text("H100 = -1")
    with pytest.raises(servecast.ScenarioError, match=r"prices\.toml: H100: must be US dollars per hour, above 0"):
        servecast.plan(CHAT, **asked, price_file=prices)


def test_an_explanation_is_that_of_the_command(tmp_path: Path) -> None:
    path = tmp_path / "two.toml"
    path.write_text(TOML)
    told = command("explain", str(path), "--metric", "ttft", "--seeds", "3", "--format", "json")
    assert told.returncode == 0, told.stderr
    found = servecast.explain(path, metric="ttft", seeds=3)
    assert found.json == json.loads(told.stdout)
    total = found.json["request"]["e2e_ms"]
    assert sum(found.parts_ms.values()) == pytest.approx(total)
    assert found.changes and found.changes[0].overrides[0].startswith("cluster.")
    assert f"Request {found.request} was sent" in str(found) and len(found.full_text) > len(str(found))
    one = servecast.explain(path, 3, seeds=0)
    assert one.request == 3 and one.changes == []
    with pytest.raises(servecast.ServecastError, match="numbered from 0"):
        servecast.explain(path, 100_000, seeds=0)
    with pytest.raises(ValueError, match="ttft, tpot, e2e"):
        servecast.explain(path, metric="itl")


def test_servers_are_those_that_are_asked_for() -> None:
    one = servecast.load(CHAT)
    words = ("fast", "typical", "slow")
    runs = [one.run(servers=servers).figures["mean_tpot_ms"] for servers in words]
    assert runs == sorted(runs) and runs[0] < runs[1] < runs[2]
    assert one.run().figures["mean_tpot_ms"] == runs[1]
    assert one.with_servers("slow").run().figures["mean_tpot_ms"] == runs[2]
    compared = [servecast.compare(one, one, seeds=(3, 3), servers=servers) for servers in words]
    means = [found.finding("mean_tpot_ms").a for found in compared]
    assert means[0] < means[1] < means[2]
    explained = [servecast.explain(one, seeds=0, servers=servers) for servers in words]
    slowest = [found.json["request"]["e2e_ms"] for found in explained]
    assert slowest[0] < slowest[1] < slowest[2]
    with pytest.raises(ValueError, match="typical, slow, fast"):
        one.run(servers="quick")
    with pytest.raises(servecast.ScenarioError, match="nothing is assumed of the servers"):
        servecast.load(CHAT, {"cluster.host": "none"}).run(servers="slow")


def test_a_calibration_predicts_a_run_that_was_held_out(tmp_path: Path) -> None:
    truth: dict[str, Any] = {"cluster.host": "none", "cluster.api_delay_ms": 12.0}
    names = ("mean_ttft_ms", "median_ttft_ms", "mean_tpot_ms", "median_tpot_ms")
    for rate in (4.0, 6.0, 8.0):
        figures = servecast.load(TOML, {**truth, "workload.arrivals.rate_per_s": rate}).run().figures
        text = TOML.replace("rate_per_s = 8.0", f"rate_per_s = {rate}")
        text = text.replace("[cluster]", '[cluster]\nhost = "none"')
        text += '\n[measured]\nsource = "a run"\n[measured.metrics]\n'
        text += "".join(f"{name} = {figures[name]}\n" for name in names)
        (tmp_path / f"{rate:.0f}.toml").write_text(text)
    before = servecast.load(tmp_path / "6.toml").run().summary.json["comparison"]
    fitted = servecast.calibrate(
        [tmp_path / "4.toml", tmp_path / "8.toml"], hold_out=tmp_path / "6.toml", within_pct=3.0
    )
    assert fitted.misses == 0
    fitted.write(tmp_path / "fitted.toml")
    held_out = servecast.load(tmp_path / "6.toml", calibration=tmp_path / "fitted.toml")
    after = held_out.run().summary.json["comparison"]
    errors = [max(abs(one["error_pct"]) for one in rows) for rows in (before, after)]
    assert errors[1] < 3.0 < errors[0]


def test_a_validation_refuses_what_is_no_question(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="not both"):
        servecast.validate("a.toml", runs="b.jsonl")
    with pytest.raises(TypeError, match="family is for runs"):
        servecast.validate(family="x")
    with pytest.raises(servecast.ScenarioError, match=r"none\.jsonl"):
        servecast.validate(runs=tmp_path / "none.jsonl")


def test_runs_of_a_comparison_may_be_done_elsewhere() -> None:
    one = servecast.load(CHAT)
    asked = ([one, one.with_overrides({"cluster.replicas": 4})], (3, 6), 0.95, 1e-9, [], True, False)
    driver, worker = _servecast.CompareJob(*asked), _servecast.CompareJob(*asked)
    told = driver.run(lambda wanted: [worker.compute([one])[0] for one in wanted])
    here = servecast.compare(*asked[0], seeds=(3, 6), within=1e-9)
    assert json.loads(told[0]) == here.json and told[1] == str(here)
    assert told[2].to_dict() == here.runs.to_dict()
    with pytest.raises(ValueError, match="not as many"):
        driver.run(lambda wanted: [])
    with pytest.raises(ZeroDivisionError):
        driver.run(lambda wanted: [str(1 // 0)])
