"""Tables and runs to look at, a page that is served on this machine, and a tab to look at it with."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

from coterie.page.library import Library, library_of
from coterie.page.serve import Where, listening, server
from coterie.storage import locks

TOKEN = "a-token-that-nobody-else-knows-0123456789"
SITES = ("north", "south", "east <b>&", "west")  # names that a page must not take for tags
COLUMNS = ("age", "pulse", "weight <i>")


def write_tables(folder: Path) -> Path:
    """Four hospitals, of which two are ill for another reason, and one weighs in another range."""
    lines = ['target = "ill"', 'scale = "shared"', "[sites]"]
    for i, site in enumerate(SITES):
        draws, file = random.Random(i), f"site{i}.csv"
        rows = [",".join([*(f'"{c}"' for c in COLUMNS), "ill"])]
        for _ in range(90):
            x = [draws.gauss(0, 1), draws.gauss(0, 1), draws.gauss(2.0 * (i == 3), 1)]
            ill = x[0] + (0.8 if i < 3 else -0.8) * x[1] + draws.gauss(0, 0.5) > 0
            rows.append(",".join([*(f"{v:.3f}" for v in x), "yes" if ill else "no"]))
        (folder / file).write_text("\n".join(rows) + "\n")
        lines.append(f"{json.dumps(site)} = {json.dumps(file)}")
    for column in COLUMNS:
        lines += [f"[columns.{json.dumps(column)}]", 'use = "number"']
    lines += ["[columns.ill]", 'use = "flag"', 'values = ["no", "yes"]']
    recipe = folder / "recipe.toml"
    recipe.write_text("\n".join(lines) + "\n")
    return recipe


@contextlib.contextmanager
def served(library: Library, port: int = 0) -> Iterator[str]:
    """The address of a page that is served by a thread of this process."""
    with listening(Where(port=port)) as sock:
        number = sock.getsockname()[1]
        one = server(library, Where(), TOKEN, number)
        thread = threading.Thread(target=one.run, kwargs={"sockets": [sock]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{number}"
        finally:
            one.should_exit = True
            thread.join(10)


@contextlib.contextmanager
def tab(browser, **options):
    context = browser.new_context(locale="en", **options)
    found, troubles = context.new_page(), list[str]()
    found.set_default_timeout(30_000)

    def asked(request) -> None:
        if not request.url.startswith(("http://127.0.0.1:", "data:", "blob:")):
            troubles.append(f"asked {request.url}")

    found.on("console", lambda said: said.type == "error" and troubles.append(said.text))
    found.on("pageerror", lambda error: troubles.append(str(error)))
    found.on("request", asked)
    found.troubles = troubles
    yield found
    context.close()
    assert not troubles


def opened(page, address: str, path: str = "/"):
    """With the token, as the address that was printed has it."""
    mark = "&" if "?" in path else "?"
    page.goto(f"{address}{path}{mark}token={TOKEN}")
    return page


def entry(runs: Path, name: str) -> str:
    return next(e.id for e in library_of([str(runs)]).all() if e.name == name)


class Growing:
    """A run that goes on: its folder gets one round after the other of a run that is over."""

    def __init__(self, whole: Path, folder: Path, rounds: int = 1) -> None:
        shutil.copytree(whole, folder, ignore=shutil.ignore_patterns("*.npz", "models*", "report*", ".lock"))
        self.lines = {n: (whole / n).read_bytes().splitlines(keepends=True) for n in FILES}
        for name in FILES:
            (folder / name).write_bytes(b"")
        (folder / "events.jsonl").unlink(missing_ok=True)
        (folder / "now.json").unlink(missing_ok=True)
        self.folder, self.lock, self.done = folder, locks.locked(folder), 0
        self.more(rounds)

    def more(self, rounds: int = 1) -> None:
        for name, first in FILES.items():
            with (self.folder / name).open("ab") as file:
                begin = self.done + 1 - first if self.done else 0
                file.writelines(self.lines[name][begin : self.done + rounds + 1 - first])
        self.done += rounds

    def end(self) -> None:
        self.lock.close()


FILES = {"timings.jsonl": 0, "collaboration.jsonl": 1, "metrics.jsonl": 0}
"""Of a line a round, and the first round that each has."""
