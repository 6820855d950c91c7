"""A run, its figures and its tables."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import servecast
from conftest import CHAT

TOML = """
name = "two"

[workload]
num_requests = 40
arrivals = { type = "poisson", rate_per_s = 8.0 }
lengths = { type = "sampled", input_tokens = { type = "fixed", tokens = 500 }, output_tokens = { type = "fixed", tokens = 40 } }

[cluster]
model = "Qwen/Qwen3-8B"
gpu = "H100"
"""


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "servecast._command", *arguments]
    return subprocess.run(line, capture_output=True, text=True, check=False)


def test_a_run_says_what_the_command_says(tmp_path: Path) -> None:
    path = tmp_path / "two.toml"
    path.write_text(TOML)
    settings = ("--no-files", "--set", "cluster.replicas=2", "--seed", "11", "--format", "json")
    told = command("run", str(path), *settings)
    assert told.returncode == 0, told.stderr
    run = servecast.load(path, {"cluster.replicas": 2}).run(seed=11)
    assert run.summary.json == json.loads(told.stdout)
    assert run.summary.ttft.p99_ms == json.loads(told.stdout)["benchmark"]["p99_ttft_ms"]
    assert run.report in command("run", str(path), *settings[:-2]).stdout


def test_the_command_refuses_with_its_exit_code() -> None:
    told = command("run", "--set", "cluster.gpu=H10")
    assert (told.returncode, "H10" in told.stderr) == (2, True)
    assert command("--version").stdout.split()[1] == servecast.__version__


def test_a_file_a_text_and_a_dict_are_one_scenario(tmp_path: Path) -> None:
    path = tmp_path / "two.toml"
    path.write_text(TOML)
    lengths = {
        "type": "sampled",
        "input_tokens": {"type": "fixed", "tokens": 500},
        "output_tokens": {"type": "fixed", "tokens": 40},
    }
    arrivals = {"type": "poisson", "rate_per_s": 8.0}
    workload = {"num_requests": 40, "arrivals": arrivals, "lengths": lengths}
    cluster = {"model": "Qwen/Qwen3-8B", "gpu": "H100"}
    as_dict = {"name": "two", "workload": workload, "cluster": cluster}
    figures = [servecast.load(one).run().figures for one in (path, str(path), TOML, as_dict)]
    assert all(one == figures[0] for one in figures)
    assert figures[0]["finished"] == 40


def test_overrides_come_before_the_scenario(chat: servecast.Scenario) -> None:
    again = servecast.load(CHAT, {"cluster.replicas": 1}, seed=9)
    other = chat.with_overrides({"cluster.replicas": 1}, seed=9)
    assert again.run().figures == other.run().figures == chat.with_overrides({"cluster.replicas": 1}).run(seed=9).figures
    assert (again.seed, chat.seed, chat.name) == (9, 7, "chat")
    assert "replicas = 1" in other.resolved_toml


def test_variants_are_scenarios() -> None:
    built_in = servecast.load()
    assert len(built_in.variants) == 1
    assert built_in.variants[0].name != built_in.name
    assert "with a variant" in repr(built_in)


def test_what_is_resolved_runs_again_to_the_same_figures(chat: servecast.Scenario) -> None:
    run = chat.run()
    again = servecast.load(run.resolved_toml).run()
    assert again.figures == run.figures
    assert chat.resolved_toml == run.resolved_toml


def test_a_summary_has_attributes(chat: servecast.Scenario) -> None:
    summary = chat.run().summary
    assert summary.requests.arrived == summary.requests.finished == 300
    for latency in (summary.ttft, summary.tpot, summary.itl, summary.e2e):
        assert latency.median_ms is not None and latency.p99_ms is not None
        assert latency.median_ms <= latency.p99_ms
    assert summary.output_throughput * summary.duration_s == pytest.approx(
        summary.json["benchmark"]["total_output_tokens"]
    )
    assert summary.gpu_hours is not None and summary.slo_attainment is None
    assert "TTFT" in repr(summary) and "<table>" in summary._repr_html_()


def test_tables_are_arrow(chat: servecast.Scenario) -> None:
    run = chat.run(steps=True)
    polars: Any = pytest.importorskip("polars")
    requests = polars.DataFrame(run.requests)
    assert requests.height == len(run.requests) == 300
    assert requests["ttft_ms"].mean() == pytest.approx(run.summary.ttft.mean_ms)
    assert requests.columns == run.requests.column_names
    assert requests.to_dict(as_series=False) == run.requests.to_dict()
    assert requests["finish_ns"].dtype == polars.UInt64
    assert run.steps is not None
    steps = polars.DataFrame(run.steps)
    assert steps.height == run.figures["steps"]
    series = polars.DataFrame(run.series)
    assert set(series["series"]) >= {"running", "waiting", "kv_blocks", "inside"}
    assert series.filter(polars.col("series") == "running")["replica"].null_count() > 0
    assert chat.run().steps is None
    with pytest.raises(KeyError):
        run.requests["nothing"]
    assert "ttft_ms" in run.requests and "nothing" not in run.requests and 3 not in run.requests
    assert list(run.requests) == run.requests.column_names


def test_other_libraries_take_tables_too(chat: servecast.Scenario) -> None:
    table = requests = chat.run().requests
    pyarrow: Any = pytest.importorskip("pyarrow")
    taken = pyarrow.table(table)
    assert taken.num_rows == 300
    pandas: Any = pytest.importorskip("pandas")
    frame = pandas.DataFrame.from_arrow(table) if hasattr(pandas.DataFrame, "from_arrow") else taken.to_pandas()
    assert frame["prompt_tokens"].tolist() == table["prompt_tokens"]
    duckdb: Any = pytest.importorskip("duckdb")
    found = duckdb.sql("select count(*) from requests where status = 'finished'")
    assert found.fetchall() == [(300,)]


def test_scenarios_and_runs_are_pickled(chat: servecast.Scenario) -> None:
    again = pickle.loads(pickle.dumps(chat))
    run = again.run(steps=True)
    assert run.figures == chat.run().figures
    kept = pickle.loads(pickle.dumps(run))
    assert kept.summary.json == run.summary.json
    assert (kept.figures, kept.report) == (run.figures, run.report)
    assert kept.resolved_toml == run.resolved_toml
    for name in ("requests", "steps", "series"):
        assert getattr(kept, name).to_dict() == getattr(run, name).to_dict()
    assert kept.plots == run.plots and "<svg" in next(iter(kept.plots.values()))
    assert pickle.loads(pickle.dumps(kept)).figures == run.figures
    assert pickle.loads(pickle.dumps(run.summary)).ttft == run.summary.ttft


def test_a_notebook_shows_a_run(chat: servecast.Scenario) -> None:
    page = chat.run()._repr_html_()
    assert "<table>" in page and "<svg" in page


def test_progress_is_told_to_the_end(chat: servecast.Scenario) -> None:
    told: list[tuple[int, int]] = []
    chat.run(progress=lambda done, of: told.append((done, of)))
    assert told[-1] == (300, 300)
    assert told == sorted(told)


def test_what_should_be_heard_is_a_warning() -> None:
    import warnings

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        servecast.load(CHAT).run()
    texts = [str(one.message) for one in heard]
    assert any("KV capacity" in text for text in texts), texts
    assert all(one.category is servecast.ServecastWarning for one in heard)
    assert all(one.filename == __file__ for one in heard)


def test_a_pasted_command_is_simulated() -> None:
    words = "--model Qwen/Qwen3-8B --gpu H100 --dataset-name random --num-prompts 50 --request-rate 8"
    told = command("bench", "vllm", "bench", "serve", *words.split(), "--no-files")
    assert told.returncode == 0, told.stderr
    run = servecast.bench(f"vllm bench serve {words}")
    assert run.report.strip() in told.stdout
    assert servecast.bench(["vllm", "bench", "serve", *words.split()]).figures == run.figures
    in_sglang = f"python -m sglang.bench_serving --backend sglang {words}"
    told = command("bench", *in_sglang.split(), "--no-files")
    assert servecast.bench(in_sglang).report.strip() in told.stdout
    first = servecast.bench(f"vllm bench serve {words} --replicas 2", router=lambda _, replicas: replicas[0])
    assert set(first.requests["instance"]) == {0}
    for wrong, text in [("--gpu H10", "H10"), ("--num-promts 3", "num-promts"), ("--save-result", "--save-result"), ("--model x/y", "x/y")]:
        with pytest.raises(servecast.ScenarioError, match=text):
            servecast.bench(f"vllm bench serve {words} {wrong}")
