"""TOML, where this Python reads it."""

from __future__ import annotations

import sys
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib

    def tables(text: str) -> dict[str, Any] | None:
        """What a text in TOML says; nothing where it is none, or where this Python does not read TOML."""
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError:
            return None

else:

    def tables(text: str) -> dict[str, Any] | None:
        """Python 3.10 does not read TOML."""
        return None
