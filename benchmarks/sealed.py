"""What sealing costs beside the clear net: python benchmarks/sealed.py [--rounds N] [--repeats N]

Seconds of a round (the median of all but the first) and bytes that passed for its sums and distances, in one
process and over a federation on loopback: a relay, four sites and three helpers, each a process. Clear and
sealed runs take turns, so that a slow minute hits both alike.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro
from federation_parties import Party, federated, parties, run, write_tables

HELPERS = ("ada", "ben", "tom")
SITES = 4
MODELS = {
    "logistic (28 numbers)": ["--model", "logistic"],
    "MLP (25 k)": ["--model", "mlp", "--mlp.hidden", "150", "150"],
    "MLP (2.5 M)": ["--model", "mlp", "--mlp.hidden", "1560", "1560"],
}
METHODS = ("fedavg", "weight-erosion")


@dataclass(frozen=True)
class Asked:
    rounds: int = 8
    """Rounds of a run; the first is not counted."""
    repeats: int = 2
    """How often each run is done."""


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def figures(folder: Path) -> tuple[float, float]:
    """Seconds and bytes of a round."""
    timed = [t["seconds"] for t in lines(folder / "timings.jsonl") if t.get("round", 0) > 1]
    seconds = statistics.median(timed)
    rounds = lines(folder / "metrics.jsonl")[2:]
    passed = [m["transfers"]["bytes"] + m["extras"].get("sealed", {}).get("bytes", 0) for m in rounds]
    return seconds, statistics.median(passed)


def measured(folder: Path, where: Sequence[str], how: Sequence[str], asked: Asked) -> dict[str, list[float]]:
    found: dict[str, list[tuple[float, float]]] = {"clear": [], "sealed": []}
    for _ in range(asked.repeats):
        for kind, wrap in (("clear", []), ("sealed", ["--wrap", "sealed=1"])):
            out = tempfile.mkdtemp(dir=folder)
            words = ["run", *where, *how, *wrap, "--rounds", str(asked.rounds), "--out", f"{out}/run"]
            run(folder, *words, "--evaluate", str(asked.rounds))
            found[kind].append(figures(Path(out) / "run"))
    return {kind: [min(s for s, _ in some), some[0][1]] for kind, some in found.items()}


def main(asked: Asked) -> None:
    import socket

    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as opened:
        folder = Path(place)
        names = write_tables(folder, SITES)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        run(folder, "federation", "init", "ward", "--sites", *names, "--helpers", *HELPERS, "--port", port)
        opened.enter_context(parties(folder, names))
        for name in HELPERS:
            party = Party(folder, ["helper", f"ward/helpers/{name}"])
            opened.callback(party.end)
            party.wait_for("waiting to be asked")
        here = ["--data", "table", "--table.recipe", "r.toml"]
        print("| net | method | model | clear, s | sealed, s | ratio | clear, kB | sealed, kB | ratio |")
        print("| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |", flush=True)
        for net, where in (("one process", here), ("federation", federated(names))):
            for method in METHODS:
                for model, words in MODELS.items():
                    how = ["--method", method, *words, "--sgd.lr", "0.01"]
                    found = measured(folder, where, how, asked)
                    (s, b), (ss, sb) = found["clear"], found["sealed"]
                    cells = (
                        f"{s:.3f} | {ss:.3f} | {ss / s:.1f} | {b / 1e3:,.0f} | {sb / 1e3:,.0f} | {sb / b:.1f}"
                    )
                    print(f"| {net} | `{method}` | {model} | {cells} |", flush=True)


if __name__ == "__main__":
    main(tyro.cli(Asked))
