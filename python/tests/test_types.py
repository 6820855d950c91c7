"""Types: the package under strict checkers, and its stubs beside the module."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import servecast

PACKAGE = Path(servecast.__file__).parent
TYPED = Path(__file__).with_name("typed.py")


def checked(*line: str) -> None:
    told = subprocess.run([sys.executable, "-m", *line], capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr


def test_mypy_is_content() -> None:
    pytest.importorskip("mypy")
    checked("mypy", "--strict", "-p", "servecast")
    checked("mypy", "--strict", str(TYPED))


def test_pyright_is_content() -> None:
    pytest.importorskip("pyright")
    checked("pyright", "--pythonpath", sys.executable, str(PACKAGE), str(TYPED))


def test_stubs_are_those_of_the_module() -> None:
    pytest.importorskip("mypy")
    checked("mypy.stubtest", "servecast._servecast")


def test_what_is_typed_runs() -> None:
    told = subprocess.run([sys.executable, "-W", "ignore", str(TYPED)], capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr


def test_everything_public_is_documented() -> None:
    for name in servecast.__all__:
        value = getattr(servecast, name)
        if name != "__version__":
            assert value.__doc__, name
