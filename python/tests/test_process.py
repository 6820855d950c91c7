"""Signals, threads, forks, memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

import servecast
from conftest import CHAT

LONG = {"workload.num_requests": 3_000_000, "workload.arrivals.rate_per_s": 1000.0}


def python(code: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.run(line, capture_output=True, text=True, check=False, cwd=cwd, timeout=300)


def test_two_threads_run_at_once(chat: servecast.Scenario) -> None:
    figures: list[dict[str, float]] = []

    def run() -> None:
        for _ in range(3):
            figures.append(chat.run(router=lambda _, replicas: min(replicas, key=lambda one: one.outstanding_requests)).figures)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(figures) == 6 and all(one == chat.run().figures for one in figures)


def test_an_error_in_one_thread_is_not_that_of_another(chat: servecast.Scenario) -> None:
    raised: list[str] = []

    def run(name: str) -> None:
        def fails(request: object, replicas: object) -> int:
            raise ValueError(name)

        scenario = chat.with_policies(router=fails)
        for _ in range(5):
            with pytest.raises(ValueError) as error:
                scenario.run()
            raised.append(f"{name}={error.value}")

    threads = [threading.Thread(target=run, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(raised) == {"a=a", "b=b"} and len(raised) == 10


@pytest.mark.parametrize("what", ["run", "router", "sweep"])
def test_an_interrupt_ends_a_run(what: str, tmp_path: Path) -> None:
    scenario = servecast.load(CHAT, LONG)
    interrupt = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    interrupt.start()
    with pytest.raises(KeyboardInterrupt):
        if what == "run":
            scenario.run()
        elif what == "router":
            scenario.run(router=lambda _, replicas: replicas[0])
        else:
            servecast.sweep(scenario, {"cluster.replicas": [1, 2, 3]}, folder=tmp_path / "swept")
    interrupt.join()
    # Nothing is half-written, and what comes next runs.
    half = [path for path in tmp_path.rglob("*") if ".tmp" in path.name or "unfinished" in path.name]
    assert not half
    assert servecast.load(CHAT).run().figures["finished"] == 300


def test_an_interrupt_ends_a_policy_that_loops() -> None:
    told = python("""
        import os, signal, threading, servecast

        def loops(request, replicas):
            while True:
                pass

        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            servecast.load(None, {"cluster.replicas": 2}).run(router=loops)
        except KeyboardInterrupt:
            print("interrupted")
        print(servecast.load(None, {"workload.num_requests": 5}).run().figures["finished"])
    """)
    assert told.stdout.split() == ["interrupted", "5.0"], told.stderr


def test_an_interrupt_is_not_that_of_another_thread() -> None:
    told = python("""
        import os, signal, threading, time, servecast
        small = servecast.load(None, {"workload.num_requests": 3, "cluster.replicas": 2})

        def loops(request, replicas):
            while True:
                pass

        def slow(request, replicas):
            until = time.monotonic() + 0.6
            while time.monotonic() < until:
                pass
            return replicas[0]

        def other():
            print(small.run(router=slow).figures["finished"])

        thread = threading.Thread(target=other)
        thread.start()
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            small.run(router=loops)
        except KeyboardInterrupt:
            print("interrupted")
        thread.join()
    """)
    assert told.stdout.split() == ["interrupted", "3.0"], told.stderr


def test_a_policy_may_wait_for_a_thread_that_runs() -> None:
    told = python("""
        import os, threading
        os.environ["RAYON_NUM_THREADS"] = "1"
        import servecast
        small = servecast.load(None, {"workload.num_requests": 20, "cluster.replicas": 2})

        class Waits:
            def __init__(self):
                thread = threading.Thread(target=small.run)
                thread.start()
                thread.join()

            def choose(self, request, replicas):
                return replicas[0]

        print(small.run(router=Waits).figures["finished"])
    """)
    assert told.stdout.split() == ["20.0"], told.stderr


def test_the_gil_is_free_while_a_run_goes_on() -> None:
    scenario = servecast.load(CHAT, {**LONG, "workload.num_requests": 200_000})
    ticks = 0
    done = threading.Event()

    def count() -> None:
        nonlocal ticks
        while not done.is_set():
            ticks += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    began = time.monotonic()
    scenario.run()
    took = time.monotonic() - began
    done.set()
    thread.join()
    assert ticks > took / 0.001 / 20


def test_what_should_be_heard_of_a_study_is_told_of_its_caller() -> None:
    told = python("""
        import servecast
        scenario = servecast.load(None, {"workload.num_requests": 20})
        servecast.compare(scenario, scenario.with_overrides({"workload.num_requests": 30}), seeds=(3, 3))
    """)
    assert "_studies.py" not in told.stderr and "ServecastWarning" in told.stderr, told.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_runs_too() -> None:
    told = python("""
        import os, sys, warnings
        warnings.simplefilter("ignore")
        import servecast
        scenario = servecast.load(None, {"workload.num_requests": 100, "cluster.replicas": 2})
        before = scenario.run().figures
        child = os.fork()
        if child == 0:
            same = scenario.run().figures == before
            swept = len(servecast.sweep(scenario, {"cluster.replicas": [1, 2]}).points) == 4
            os._exit(0 if same and swept else 1)
        _, status = os.waitpid(child, 0)
        sys.exit(os.waitstatus_to_exitcode(status))
    """)
    assert told.returncode == 0, told.stderr


def test_a_subinterpreter_is_refused_clearly() -> None:
    told = python("""
        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters
        import servecast
        one = interpreters.create()
        code = '''
        try:
            import servecast
            print("imported")
        except ImportError as error:
            print("refused:", error)
        '''
        import textwrap
        interpreters.run_string(one, textwrap.dedent(code))
    """)
    if "ModuleNotFoundError" in told.stderr:
        pytest.skip("no subinterpreters")
    assert "refused:" in told.stdout, told.stdout + told.stderr
    assert "subinterpreter" in told.stdout


def test_many_runs_in_one_process_do_not_grow() -> None:
    resource = pytest.importorskip("resource")
    scenario = servecast.load(CHAT, {"workload.num_requests": 200})

    def now_kib() -> int:
        status = Path("/proc/self/status")
        if not status.exists():
            return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1])

    def least(request: servecast.Request, replicas: tuple[servecast.Replica, ...]) -> servecast.Replica:
        return min(replicas, key=lambda one: one.outstanding_requests)

    def one(seed: int) -> None:
        run = scenario.run(seed=seed, router=least)
        assert len(run.requests) == 200 and run.summary.requests.finished == 200
        with pytest.raises(servecast.ScenarioError):
            servecast.load(CHAT, {"cluster.gpu": "H10"})

    for seed in range(100):
        one(seed)
    before = now_kib()
    for seed in range(1000):
        one(seed)
    assert now_kib() - before < 20 * 1024
