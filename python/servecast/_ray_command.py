"""``servecast sweep .. --ray ADDRESS``: the runs are simulated on a Ray cluster, the rest is the command's own."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from ._errors import ScenarioError, ServecastError
from ._servecast import command, load
from ._toml import tables


class Refused(Exception):
    """A command line that is none."""


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Refused(message)


def is_asked(arguments: Sequence[str]) -> bool:
    """Whether a command line is for Ray."""
    return arguments[:1] == ["sweep"] and any(
        one == "--ray" or one.startswith("--ray=") for one in arguments
    )


def parser() -> Parser:
    """The flags of ``servecast sweep`` that say what is varied, where results go, and what is printed."""
    read = Parser(prog="servecast sweep --ray", allow_abbrev=False, add_help=False)
    read.add_argument("scenario")
    read.add_argument("--ray", required=True)
    read.add_argument("--vary", action="append", default=[])
    read.add_argument("--design")
    read.add_argument("--points", type=int)
    read.add_argument("--seeds", type=int)
    read.add_argument("--set", action="append", default=[])
    read.add_argument("--seed", type=int)
    read.add_argument("--calibration")
    read.add_argument("--output-dir", required=True)
    read.add_argument("--metric", action="append", default=[])
    read.add_argument("--format")
    return read


def sweep(arguments: Sequence[str]) -> int:
    """Does it; the exit code."""
    try:
        given, others = parser().parse_known_args(list(arguments[1:]))
        if others:
            raise Refused(f"{others[0].split('=')[0]} does not go with --ray")
        return spread(given, native(arguments))
    except KeyboardInterrupt:
        return 130
    except (Refused, ScenarioError, ImportError, ValueError, TypeError) as error:
        return told(error, 2)
    except (ServecastError, OSError) as error:
        return told(error, 1)


def told(error: Exception, code: int) -> int:
    sys.stderr.write(f"error: {error}\n")
    return code


def native(arguments: Sequence[str]) -> list[str]:
    """The same command line without Ray and without a folder."""
    kept: list[str] = []
    rest = iter(arguments)
    for one in rest:
        if one in ("--ray", "--output-dir"):
            next(rest, None)
        elif not one.startswith(("--ray=", "--output-dir=")):
            kept.append(one)
    return kept


def spread(given: argparse.Namespace, line: list[str]) -> int:
    """Simulates the runs that the folder lacks on the cluster, and lets the command tell of them."""
    from .ray._place import place
    from .ray._question import asked
    from .ray._sweep import completed

    scenario = load(
        given.scenario, settings("--set", given.set), seed=given.seed, calibration=given.calibration
    )
    vary = dict(pair("--vary", one) for one in given.vary)
    question = asked(scenario, vary, given.design, given.points, given.seeds)
    with place(given.output_dir) as where:
        with stdout_as_stderr(), completed(question, where, given.ray):
            pass
        # The command finds all runs in the folder: it simulates none, and prints what it always prints.
        code = command(["servecast", *line, "--output-dir", str(where.path)])
    if "://" in given.output_dir:
        sys.stderr.write(f"copied to {given.output_dir}\n")
    return code


@contextmanager
def stdout_as_stderr() -> Iterator[None]:
    """Ray prints what becomes of nodes on stdout, which is for the result."""
    sys.stdout.flush()
    before = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(before, 1)
        os.close(before)


def pair(flag: str, text: str) -> tuple[str, str]:
    path, equals, value = text.partition("=")
    if not equals:
        raise Refused(f"{flag}: `{text}` has no `=`; write path=value")
    return path.strip(), value


def settings(flag: str, texts: Sequence[str]) -> dict[str, Any]:
    return {path: value_of(text) for path, text in (pair(flag, one) for one in texts)}


def value_of(text: str) -> Any:
    """A value as TOML, or as text where it is none. Python 3.10 does not read TOML: values are JSON there."""
    read = tables(f"value = {text}")
    if read is not None:
        return read["value"]
    try:
        return json.loads(text)
    except ValueError:
        return text
