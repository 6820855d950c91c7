"""Where a sweep keeps its runs: a folder of this machine, or one behind a URL that fsspec reads.

Behind a URL nothing is appended: object stores cannot. The folder is kept in a cache, and is copied from time to time.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from .._errors import ServecastError, ServecastWarning
from .._studies import StrPath

MANIFEST, JOURNAL = "sweep.json", "runs.jsonl"
FILES = (MANIFEST, JOURNAL, "results.csv", "results.parquet")
"""The files of a folder, in the order in which they are copied: a journal is nothing without its manifest."""

COPY_S = 60.0
"""Between two copies at least."""

COPY_SHARE = 20
"""Copies take at most one part in so many of the time: a journal of 100,000 runs is some 150 MB each time."""


class Place:
    """A folder of this machine."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def copy_now_and_then(self) -> None:
        """What lies elsewhere is brought up to date, if that is long ago."""

    def copy(self) -> None:
        """What lies elsewhere is brought up to date."""


class Copied(Place):
    """A folder in the cache, of which there is a copy behind a URL."""

    def __init__(self, url: str) -> None:
        self._fs, self._root = filesystem(url)
        self._url = url
        super().__init__(cache() / hashlib.sha256(url.encode()).hexdigest()[:16])
        self._next = time.monotonic() + COPY_S
        self._fetch()

    def _fetch(self) -> None:
        """Takes what lies behind the URL. Of the cache only runs count beside it, those that were not copied any more."""
        there = [name for name in FILES if self._fs.exists(self._at(name))]
        if MANIFEST not in there:
            if self._fs.exists(self._root) and self._fs.ls(self._root):
                raise ServecastError(f"{self._url}: is not empty and holds no sweep; give another folder")
            return
        self.path.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            here = self.path / name
            if name == JOURNAL:
                join(here, self._fs.cat_file(self._at(name)) if name in there else b"")
            elif name in there:
                self._fs.get_file(self._at(name), str(here))
            else:
                here.unlink(missing_ok=True)

    def copy_now_and_then(self) -> None:
        began = time.monotonic()
        if began < self._next:
            return
        try:
            self.copy()
        except OSError as error:
            # The runs are in the cache; the last copy is tried all the same.
            warnings.warn(f"{self._url}: {error}", ServecastWarning, stacklevel=2)
        now = time.monotonic()
        self._next = now + max(COPY_S, COPY_SHARE * (now - began))

    def copy(self) -> None:
        here = [name for name in FILES if (self.path / name).exists()]
        if MANIFEST not in here:
            return
        # Where folders are only parts of names, who may write need not be allowed to make one.
        with suppress(PermissionError):
            self._fs.makedirs(self._root, exist_ok=True)
        # Tables of another sweep go before the manifest of this one comes.
        for name in FILES:
            if name not in here and self._fs.exists(self._at(name)):
                self._fs.rm_file(self._at(name))
        for name in here:
            self._fs.put_file(str(self.path / name), self._at(name))

    def _at(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"


def join(journal: Path, other: bytes) -> None:
    """Adds the lines that only another journal has."""
    here = journal.read_bytes() if journal.exists() else b""
    known = set(here.splitlines(keepends=True))
    new = [line for line in other.splitlines(keepends=True) if line.endswith(b"\n") and line not in known]
    if not new:
        return
    with journal.open("ab") as file:
        # What a kill tore is a line of its own, which is left out.
        file.write(b"" if not here or here.endswith(b"\n") else b"\n")
        file.writelines(new)


def filesystem(url: str) -> tuple[Any, str]:
    """The file system of a URL, and the path in it."""
    try:
        fsspec = importlib.import_module("fsspec")
    except ImportError as error:
        scheme = url.split("://", 1)[0]
        raise ImportError(
            f"{url}: folders behind URLs need fsspec and what it reads {scheme}:// with: "
            "pip install fsspec, and s3fs, gcsfs or adlfs"
        ) from error
    fs, root = fsspec.core.url_to_fs(url)
    return fs, root


def cache() -> Path:
    """Where folders that lie elsewhere are kept meanwhile."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "servecast" / "ray"


@contextmanager
def place(folder: StrPath | None) -> Iterator[Place]:
    """The folder of a sweep; without one, a folder that is gone afterwards."""
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="servecast-") as path:
            yield Place(Path(path) / "sweep")
    elif "://" in os.fspath(folder):
        copied = Copied(os.fspath(folder))
        try:
            yield copied
        except BaseException:
            # The cache keeps the runs as well, and what ended the sweep matters more.
            with suppress(OSError):
                copied.copy()
            raise
        try:
            copied.copy()
        except OSError as error:
            raise ServecastError(f"{folder}: {error}; the sweep is in {copied.path}") from error
        shutil.rmtree(copied.path, ignore_errors=True)
    else:
        yield Place(Path(folder))
