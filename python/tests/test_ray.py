"""Studies on a Ray cluster: the same bytes whatever is killed."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import servecast
from conftest import CHAT

ray: Any = pytest.importorskip("ray")

import servecast.ray  # noqa: E402
from servecast.ray import _driver, _place, _question, _worker  # noqa: E402
from servecast.ray._shards import Shards  # noqa: E402

# Ray's own warnings are not servecast's.
pytestmark = [pytest.mark.filterwarnings("ignore")]

VARY = {"cluster.replicas": [1, 2, 3], "workload.arrivals.rate_per_s": [16.0, 24.0]}
SEEDS = 20
RUNS = 6 * SEEDS
SLOW = {**CHAT, "workload": {**CHAT["workload"], "num_requests": 3000}}
"""Of which a run takes some 13 ms."""

LONG = {**CHAT, "workload": {**CHAT["workload"], "num_requests": 12_000}}
"""Of which a run takes some 50 ms: new workers come to work before the sweep ends."""

KILLS = 20 if os.environ.get("SERVECAST_RAY_SLOW") else 1

TRIES = 8
"""Sweeps at most until a kill has lost something."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A node with the driver and two others, with a core each."""
    cluster_utils: Any = importlib.import_module("ray.cluster_utils")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        raylets = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
        for _ in range(2):
            raylets.add_node(num_cpus=1)
        ray.init(address=raylets.address, log_to_driver=False)
        yield raylets
        ray.shutdown()
        raylets.shutdown()


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the local sweep."""
    folder = tmp_path_factory.mktemp("local") / "swept"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        servecast.sweep(SLOW, VARY, seeds=SEEDS, folder=folder)
    return folder


def assert_same(folder: Path, local: Path) -> None:
    """The tables are those of the local sweep, and the journal has each run once."""
    tables = [path.name for path in local.iterdir() if path.name != "runs.jsonl"]
    assert "results.csv" in tables
    for name in tables:
        assert (folder / name).read_bytes() == (local / name).read_bytes(), name
    ours, theirs = (sorted((one / "runs.jsonl").read_text().splitlines()) for one in (folder, local))
    assert ours == theirs


def swept(folder: Path | str | None = None, **named: Any) -> servecast.Sweep:
    return servecast.ray.sweep(SLOW, VARY, seeds=SEEDS, folder=folder, **named)


def test_a_sweep_is_that_of_this_machine(cluster: Any, local: Path, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    ours = swept(tmp_path / "swept", shard_s=0.3, progress=lambda done, of: told.append((done, of)))
    theirs = servecast.sweep(SLOW, VARY, seeds=SEEDS, folder=local)
    assert ours.json == theirs.json and ours.runs.to_dict() == theirs.runs.to_dict()
    assert (ours.reused, theirs.reused) == (0, RUNS)
    assert told[0] == (0, RUNS) and told[-1] == (RUNS, RUNS) and told == sorted(told)
    assert_same(tmp_path / "swept", local)
    # What is kept needs no cluster, and a Ray that was there before stays.
    assert swept(tmp_path / "swept", address="auto").reused == RUNS
    assert ray.is_initialized()
    assert swept().json == theirs.json


def test_a_worker_that_dies_loses_its_shard_only(
    cluster: Any, local: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulate, died = _worker.simulate, tmp_path / "died"

    def dies_once(name: str, question: list[Any], runs: list[int]) -> _worker.Done:
        if RUNS // 2 in runs and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return simulate(name, question, runs)

    monkeypatch.setattr(_worker, "simulate", dies_once)
    swept(tmp_path / "swept", shard_s=0.3)
    assert died.exists()
    assert_same(tmp_path / "swept", local)


def test_a_run_that_kills_its_workers_is_named(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulate = _worker.simulate

    def dies(name: str, question: list[Any], runs: list[int]) -> _worker.Done:
        if 7 in runs:
            os.kill(os.getpid(), signal.SIGKILL)
        return simulate(name, question, runs)

    monkeypatch.setattr(_worker, "simulate", dies)
    monkeypatch.setattr(_driver, "LOSSES_MAX", 2)
    with pytest.raises(servecast.SimulationError, match="run 7 was lost 2 times"):
        swept(tmp_path / "swept")
    monkeypatch.undo()
    # The folder is one that goes on.
    assert 0 < swept(tmp_path / "swept").reused < RUNS


DRIVER = f"""
import json, sys, warnings
warnings.simplefilter("ignore")
import servecast.ray
from servecast.ray import _shards
give_back = _shards.Shards.give_back
def lost(shards, runs):
    with open(sys.argv[3], "a") as file:
        print(len(runs), file=file)
    give_back(shards, runs)
_shards.Shards.give_back = lost
if __name__ == "__main__":
    address, folder = sys.argv[1:3]
    told = servecast.ray.sweep({LONG!r}, {VARY!r}, seeds={SEEDS}, folder=folder, address=address, shard_s=0.2)
    print("reused", told.reused)
"""


def driver(cluster: Any, folder: Path) -> subprocess.Popen[str]:
    line = [sys.executable, "-c", DRIVER, cluster.address, str(folder), str(folder.with_suffix(".lost"))]
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def lines(folder: Path) -> list[str]:
    """The whole lines of the journal."""
    try:
        return (folder / "runs.jsonl").read_text().splitlines(keepends=True)
    except FileNotFoundError:
        return []


def wait_for(count: int, folder: Path, process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + 60
    while len(lines(folder)) < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until, f"{len(lines(folder))} of {count} runs"
        time.sleep(0.005)


def workers(raylet: int) -> list[tuple[int, str]]:
    """The processes of a raylet, and what they do."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            if parent == raylet:
                name = stat.with_name("cmdline").read_text().split("\0")[0]
                found.append((int(stat.parent.name), name))
        except (FileNotFoundError, ProcessLookupError):
            # It has ended meanwhile.
            continue
    return found


def kill_while_it_works(node: Any, process: subprocess.Popen[str]) -> None:
    """Kills a node as a machine dies: all of it at once, while it simulates a shard."""
    [raylet] = node.all_processes["raylet"]
    while True:
        assert process.poll() is None, process.communicate()
        processes = workers(raylet.process.pid)
        if any(name.startswith("ray::servecast") for _, name in processes):
            break
        time.sleep(0.002)
    raylet.process.send_signal(signal.SIGKILL)
    for one, name in processes:
        if name.startswith("ray::"):
            os.kill(one, signal.SIGKILL)


@pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc")
def test_a_node_and_the_driver_are_killed(cluster: Any, tmp_path: Path) -> None:
    local = tmp_path / "local"
    servecast.sweep(LONG, VARY, seeds=SEEDS, folder=local)
    nodes = [node for node in cluster.list_all_nodes() if node is not cluster.head_node]
    lost = []
    for kill in range(max(KILLS, TRIES)):
        folder = tmp_path / f"swept-{kill}"
        first = driver(cluster, folder)
        wait_for(1 + kill % 20, folder, first)
        victim = nodes.pop(0)
        kill_while_it_works(victim, first)
        # Some runs later, and so before or after what was lost has been done again.
        wait_for(len(lines(folder)) + 1 + kill % 20, folder, first)
        first.kill()
        first.communicate()
        kept = lines(folder)
        assert len(kept) < RUNS
        second = driver(cluster, folder)
        out, err = second.communicate(timeout=120)
        assert second.returncode == 0, err
        # Ray prints on stdout too, what became of the node.
        [reused] = [int(line.split()[1]) for line in out.splitlines() if line.startswith("reused ")]
        assert reused == sum(one.endswith("\n") for one in kept)
        assert lines(folder)[:reused] == kept[:reused]
        assert_same(folder, local)
        told = folder.with_suffix(".lost")
        lost.append(told.read_text().split() if told.exists() else [])
        cluster.remove_node(victim, allow_graceful=False)
        nodes.append(cluster.add_node(num_cpus=1))
        # A shard may have come back at the very moment of the kill, which then lost none.
        if kill + 1 >= KILLS and sum(map(bool, lost)) > KILLS // 2:
            break
    print("runs of lost shards, of each sweep:", lost)
    assert sum(map(bool, lost)) > KILLS // 2


def test_an_interrupt_leaves_a_folder_that_goes_on(
    cluster: Any, local: Path, tmp_path: Path
) -> None:
    def interrupts(done: int, of: int) -> None:
        if done > of // 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        swept(tmp_path / "swept", shard_s=0.1, progress=interrupts)
    again = swept(tmp_path / "swept")
    assert RUNS // 3 < again.reused < RUNS
    assert_same(tmp_path / "swept", local)


def test_a_folder_behind_a_url_goes_on_elsewhere(
    cluster: Any, local: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsspec: Any = pytest.importorskip("fsspec")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "one"))
    monkeypatch.setattr(_place, "COPY_S", 0.0)
    memory = fsspec.filesystem("memory")
    copied: list[int] = []

    def stops(done: int, of: int) -> None:
        if memory.exists("/rates/swept/runs.jsonl"):
            copied.append(memory.cat_file("/rates/swept/runs.jsonl").count(b"\n"))
        if done > of // 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        swept("memory://rates/swept", shard_s=0.1, progress=stops)
    assert 0 < copied[-1] < RUNS
    # The cache of another machine.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "two"))
    assert RUNS // 3 < swept("memory://rates/swept").reused < RUNS
    memory.get("/rates/swept/", str(tmp_path / "swept"), recursive=True)
    assert_same(tmp_path / "swept", local)
    assert not list((tmp_path / "two" / "servecast" / "ray").iterdir())
    # A question that is none leaves what is there.
    with pytest.raises(servecast.ScenarioError, match="empty"):
        servecast.ray.sweep(SLOW, {"cluster.replicas": "9..3"}, folder="memory://rates/swept")
    assert memory.cat_file("/rates/swept/results.csv") == (local / "results.csv").read_bytes()
    # Another sweep in the same place takes the tables away at once, and keeps the runs.
    with pytest.raises(KeyboardInterrupt):
        servecast.ray.sweep(
            SLOW, VARY, seeds=SEEDS + 10, folder="memory://rates/swept", shard_s=0.1, progress=stops
        )
    assert not memory.exists("/rates/swept/results.csv")
    assert memory.cat_file("/rates/swept/runs.jsonl").count(b"\n") > RUNS
    memory.pipe_file("/other/file", b"")
    with pytest.raises(servecast.ServecastError, match="holds no sweep"):
        swept("memory://other")


def test_journals_are_joined_line_by_line(tmp_path: Path) -> None:
    here = tmp_path / "runs.jsonl"
    _place.join(here, b"a\nb\ntorn")
    assert here.read_bytes() == b"a\nb\n"
    here.write_bytes(b"a\nc\nto")
    _place.join(here, b"a\nb\n")
    assert here.read_bytes() == b"a\nc\nto\nb\n"


def test_without_fsspec_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(ImportError, match="pip install fsspec"):
        swept("s3://bucket/swept")


def test_what_is_refused_is_refused_before_anything_runs(cluster: Any, tmp_path: Path) -> None:
    own = servecast.load(SLOW).with_policies(router=lambda request, replicas: 0)
    with pytest.raises(servecast.ServecastError, match="do not travel"):
        servecast.ray.sweep(own, VARY)
    with pytest.raises(servecast.ServecastError, match="do not travel"):
        servecast.ray.plan(own, slo="p99_ttft_ms<=500")
    with pytest.raises(servecast.ScenarioError, match="empty"):
        servecast.ray.sweep(SLOW, {"cluster.replicas": "9..3"})
    with pytest.raises(ValueError, match="connected to a Ray cluster already"):
        swept(address="10.0.0.1:6379")
    with pytest.raises(ValueError, match="shard_s"):
        swept(shard_s=0)
    (tmp_path / "file").write_text("")
    with pytest.raises(servecast.ServecastError, match="no sweep"):
        swept(tmp_path)
    with pytest.raises(servecast.ServecastError, match="all 1 runs failed"):
        servecast.ray.sweep(SLOW, {"cluster.model": ["Qwen/Qwen3-235B-A22B"]})


def test_files_are_those_of_the_driver(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("timestamp,input_length,output_length\n0,10,10\n")
    # Read from a file: paths are relative to its folder.
    path = tmp_path / "traced.toml"
    path.write_text(textwrap.dedent("""
        name = "a.csv"
        trace = { path = "a.csv" }
        workload = { arrivals = { type = "trace" }, lengths = { type = "trace" } }
        cluster = { model = "Qwen/Qwen3-8B", gpu = "H100" }
        sweep = { axes = [{ path = "trace.path", values = ["a.csv", "b.csv"] }] }
    """))
    question = _question.asked(servecast.load(path), {})
    assert set(question.files) == {str(tmp_path / "a.csv"), str(tmp_path / "b.csv")}
    assert question.checked("here").runs == 2
    (tmp_path / "b.csv").write_text("")
    with pytest.raises(servecast.ServecastError, match="b.csv on node n1 is another one"):
        question.checked("n1")
    (tmp_path / "b.csv").unlink()
    with pytest.raises(servecast.ServecastError, match="node n1 has no .*b.csv"):
        question.checked("n1")


def test_the_other_studies_take_a_node(cluster: Any, chat: servecast.Scenario) -> None:
    slo = "p99_ttft_ms<=500"
    ours = servecast.ray.plan(chat, slo=slo, resamples=0)
    assert ours.json == servecast.plan(chat, slo=slo, resamples=0).json
    more = chat.with_overrides({"cluster.replicas": 4})
    compared = servecast.ray.compare(chat, more, seeds=(3, 3))
    assert compared.json == servecast.compare(chat, more, seeds=(3, 3)).json
    assert len(compared.runs) == 6
    with pytest.raises(servecast.ScenarioError, match="ttf"):
        servecast.ray.plan(chat, slo="p99_ttf_ms<=500")
    with pytest.raises(FileNotFoundError, match="none.toml"):
        servecast.ray.validate("none.toml")
    with pytest.raises(FileNotFoundError, match="none.toml"):
        servecast.ray.calibrate("none.toml")


def test_the_command_prints_what_it_prints_without(cluster: Any, tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(CHAT))
    line = [sys.executable, "-m", "servecast._command", "sweep", str(path), "--vary", "cluster.replicas=1..3"]
    line += ["--set", "workload.num_requests=50", "--seed", "3", "--seeds", "2"]

    def told(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*line, *more], capture_output=True, text=True, check=False)

    for form in ("table", "json"):
        ours = told("--format", form, "--output-dir", str(tmp_path / "ray"), f"--ray={cluster.address}")
        theirs = told("--format", form, "--output-dir", str(tmp_path / "local"))
        assert (ours.returncode, ours.stdout) == (0, theirs.stdout), ours.stderr
        assert "6 of them known before" in ours.stderr
    assert (tmp_path / "ray" / "results.csv").read_bytes() == (tmp_path / "local" / "results.csv").read_bytes()
    refused = told("--ray", "auto", "--shard", "1/2", "--output-dir", str(tmp_path / "x"))
    assert (refused.returncode, refused.stderr) == (2, "error: --shard does not go with --ray\n")


def test_a_node_without_servecast_is_told() -> None:
    # A worker outside of the checkout has no servecast.
    code = f"""
    import os, sys, warnings
    warnings.simplefilter("ignore")
    sys.path.insert(0, {str(Path(servecast.__file__).parent.parent)!r})
    import servecast.ray
    servecast.ray.sweep(servecast.load(), {{"cluster.replicas": [1, 2]}}, address="local")
    """
    outside = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "RAY_ADDRESS")}
    told = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True, text=True, check=False, cwd="/", env=outside,
    )  # fmt: skip
    if told.returncode == 0:
        pytest.skip("servecast is installed")
    assert "SimulationError: a node of the Ray cluster has no servecast" in told.stderr


def lengths(runs: int, run_s: float, cores: int) -> list[int]:
    """The lengths of shards that are simulated one after the other."""
    shards = Shards(list(range(runs)), seconds=2.0)
    taken: list[int] = []
    while shards:
        taken.append(len(shards.take(cores)))
        shards.took(taken[-1], taken[-1] * run_s)
    return taken


def test_shards_take_the_time_that_they_should() -> None:
    # 2 s are 20 runs of 0.1 s; shards grow to that by no more than 4 times each.
    of_two = lengths(1000, run_s=0.1, cores=2)
    assert of_two[:4] == [1, 4, 16, 20]
    # Of the last 80 runs each core gets two shares, of what is left then.
    assert of_two[-1] == 1 and max(of_two) == 20 and sum(of_two) == 1000
    # 1,000 cores would begin 500 tasks of 2 s in a second: they get 10 s, and 3.3 s in the end, not 0.1 s.
    of_many = lengths(1_000_000, run_s=0.1, cores=1000)
    assert max(of_many) == 100 and min(of_many[4:-1]) == 33
    assert max(lengths(10_000, run_s=1e-6, cores=1)) == 2000


def test_shards_grow_before_all_cores_have_some() -> None:
    shards = Shards(list(range(10_000)), seconds=2.0)
    assert shards.in_flight(8, since_s=0.0) == 16
    assert shards.in_flight(1000, since_s=0.0) == 64
    # Single runs that take longer are not waited for.
    assert shards.in_flight(1000, since_s=3.0) == 2000
    shards.took(1, 4.0)
    assert shards.in_flight(1000, since_s=0.0) == 2000


def test_a_shard_that_was_lost_comes_back_in_halves() -> None:
    shards = Shards([], seconds=2.0)
    shards.give_back([1, 2, 3])
    assert [shards.take(2), shards.take(2), bool(shards)] == [[1, 2], [3], False]


def test_without_ray_it_is_said_what_to_install() -> None:
    code = "import sys; sys.modules['ray'] = None; import servecast; import servecast.ray"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ImportError: servecast.ray needs Ray: pip install servecast[ray]" in told.stderr
    code = "import sys, servecast; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
