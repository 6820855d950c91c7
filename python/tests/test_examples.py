"""The examples: each finds something, judges it, and finds the same again."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import servecast

EXAMPLES = Path(os.environ.get("SERVECAST_REPOSITORY", Path(__file__).parents[2])) / "python" / "examples"
SEARCHES = ["random_search", "evolve_optuna", "evolve_source"]


def found(example: str, *arguments: str, path: str = "") -> str:
    """What an example prints."""
    package = str(Path(servecast.__file__).parents[1])
    told = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{example}.py"), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([package, path])},
    )
    assert told.returncode == 0, told.stderr
    return told.stdout


@pytest.mark.parametrize("example", SEARCHES)
def test_a_search_ends_with_a_verdict_and_repeats_itself(example: str) -> None:
    if example == "evolve_optuna":
        pytest.importorskip("optuna")
    once = found(example, "--trials", "3", "--seeds", "3", "--seed", "5")
    assert "Best of 3:" in once
    assert "In training: " in once
    assert "mean_ttft_ms: better on " in once
    assert "Verdict: " in once
    assert found(example, "--trials", "3", "--seeds", "3", "--seed", "5") == once


PROPOSE = '''
asked = []

def propose(parents, scores):
    asked.append([score.reason for score in scores])
    if len(asked) == 1:
        return "this is no Python"
    if len(asked) == 2:
        assert asked[1][2].startswith("SyntaxError"), asked
        return "class Router:\\n    def choose(self, request, replicas):\\n        return request.patience"
    assert asked[2][2].startswith("AttributeError") and "patience" in asked[2][2], asked
    better = parents[0].replace("return replica", "return 1000 * replica.outstanding_requests + replica")
    assert scores[0].mean <= scores[1].mean
    return better
'''


def test_another_may_write_the_sources_and_hears_why_they_fail(tmp_path: Path) -> None:
    (tmp_path / "author.py").write_text(PROPOSE)
    told = found("evolve_source", "--trials", "3", "--seeds", "3", "--propose", "author:propose", path=str(tmp_path))
    assert "2 of 3 failed, the last one: AttributeError" in told
    assert "Verdict: " in told


def test_mypy_is_content_with_the_examples() -> None:
    pytest.importorskip("mypy")
    sources = [one for one in sorted(EXAMPLES.glob("*.py")) if importlib.util.find_spec("optuna") or "optuna" not in one.name]
    told = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", *map(str, sources)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stdout
