"""What the ledger adds to a run's whole command: python benchmarks/ledger.py [federation]

For some runs, processor seconds of the whole command in this process and those spent on the ledger, and the
bytes of its file. With `federation`, the medians of a round of four sites on loopback, from where it begins
to where the next does, and of its ledger, which all of them sign.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import statistics
import sys
import tempfile
import time
from pathlib import Path

from federation_parties import federated, found, parties, train, write_tables

from coterie.cli.main import main
from coterie.features.ledger import hook as ledgered

RUNS = {
    "fedavg, digits, 20 clients": ["--clients", "20"],
    "fedavg, digits, 300 clients": ["--clients", "300", "--split", "iid"],
    "pens, digits, 20 clients": ["--clients", "20", "--method", "pens", "--validation", "0.2"],
    "weight-erosion, digits, 20 clients": ["--clients", "20", "--method", "weight-erosion"],
}
spent = 0.0


def timed(name: str) -> None:
    inner = getattr(ledgered.HOOK, name)

    def outer(self, *told):  # type: ignore[no-untyped-def]
        global spent
        begun = time.process_time()
        try:
            return inner(self, *told)
        finally:
            spent += time.process_time() - begun

    setattr(ledgered.HOOK, name, outer)


def signed() -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        names = write_tables(folder, 4)
        found(folder, names)
        with parties(folder, names):
            spans = train(folder, federated(names), 40)["spans"]
    rounds = [b - a for (a, _), (b, _) in itertools.pairwise(spans["round"][1:])]
    ledger = [end - begin for begin, end in spans["ledger"][1:]]
    print(f"a round {statistics.median(rounds):.4f} s, of that its ledger {statistics.median(ledger):.4f} s")


def plain() -> None:
    global spent
    for name in ("begin", "written", "over"):
        timed(name)
    print(f"{'run of 30 rounds':<36}{'whole, s':>10}{'ledger, s':>11}{'share':>8}{'bytes':>9}")
    for called, words in RUNS.items():
        with tempfile.TemporaryDirectory() as folder:
            out, spent, begun = Path(folder) / "run", 0.0, time.process_time()
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                assert main(["run", "--data", "digits", *words, "--out", str(out)]) == 0
            whole, size = time.process_time() - begun, (out / "ledger.jsonl").stat().st_size
        print(f"{called:<36}{whole:>10.2f}{spent:>11.4f}{spent / whole:>8.2%}{size:>9,}")


if __name__ == "__main__":
    (signed if sys.argv[1:] == ["federation"] else plain)()
