"""TOML files that people write."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from coterie.core.errors import BadInput


def read_given(path: str | Path) -> dict[str, Any]:
    """The file's table; one that cannot be read is refused in a line."""
    try:
        return tomllib.loads(Path(path).read_text("utf-8-sig"))
    except OSError as error:
        raise BadInput(f"cannot read {str(path)!r}: {error.strerror}: check the path") from None
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path} is not valid TOML: {' '.join(str(error).split())[:200]}") from None
