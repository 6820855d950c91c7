"""The code that the documentation shows runs."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

# Where the tests lie apart from the repository, its place is told.
ROOT = Path(os.environ.get("SERVECAST_REPOSITORY", Path(__file__).parents[2]))
PAGES = ["docs/python.md", "docs/howto-router.md", "python/README.md"]


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = ROOT / page
    pytest.importorskip("polars")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", path.read_text(encoding="utf-8"), re.M | re.S)
    assert blocks
    names: dict[str, Any] = {"__name__": page}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
