"""A policy's keys for people: the table of the documentation, and a file to start from.

python -m coterie.federation.policy.pages     writes both again, below the folder that it is called in
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

from coterie.core.options import options_of
from coterie.federation.policy.keys import ENTRIES, Policy

_EXAMPLE = (
    "What this site takes part in. Copy this file to where the site runs, take the # away from a line and",
    "change it; what is left as it is here is as if it were not written. The site reads it once, when it",
    "starts. A mistake in this file is refused with all others at once, and the site does not start.",
)


def _value_in_words(value: Any) -> str:
    """As TOML has it."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value_in_words, value))}]"
    if isinstance(value, str):
        return f'"{value}"'
    return "0.00001" if value == 1e-5 else str(value).lower() if isinstance(value, bool) else str(value)


def _page_table() -> str:
    """All keys, as docs/federation.md shows them."""
    lines = ["| key | usual | what it says |", "| --- | --- | --- |"]
    for name, _, default, text in options_of(Policy):
        said = f"`{_value_in_words(default)}`" if isinstance(default, str) else _value_in_words(default)
        words = " ".join(text.split("\n\n")[0].split())
        lines.append(f"| `{name}` | {ENTRIES[name].usual or said} | {words} |")
    return "\n".join(lines)


def _example_file() -> str:
    """All keys with their usual values, as a site may copy them (deploy/policy.toml)."""
    parts = ["\n".join(f"# {line}" for line in _EXAMPLE)]
    for name, _, default, text in options_of(Policy):
        entry, (words, *more) = ENTRIES[name], text.split("\n\n")
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", words).replace("`", "").strip()
        said = [words[0].upper() + words[1:] + ("" if words.endswith("?") else "."), *more]
        said += [f"Without this line: {entry.usual}."] if default is None else []
        comment = textwrap.indent(textwrap.fill(" ".join(said), 106), "# ")
        value, off = (entry.example, "#") if default is None else (default, "")
        parts.append(f"{comment}\n{off}{name} = {_value_in_words(value)}")
    return "\n\n".join(parts) + "\n"


def write_again(root: Path) -> None:
    """The table and the file."""
    page = root / "docs" / "federation.md"
    text = page.read_text(encoding="utf-8")
    start, rest = text.split("| key | usual |", 1)
    page.write_text(start + _page_table() + rest[rest.index("\n\n") :], encoding="utf-8")
    (root / "deploy" / "policy.toml").write_text(_example_file(), encoding="utf-8")


if __name__ == "__main__":
    write_again(Path.cwd())
