"""The code that the documentation shows runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", "docs/python.md", "python/README.md"]


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = ROOT / page
    if not path.exists():
        pytest.skip("the tests lie apart from the repository")
    pytest.importorskip("polars")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", path.read_text(encoding="utf-8"), re.M | re.S)
    assert blocks
    names: dict[str, Any] = {"__name__": page}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
