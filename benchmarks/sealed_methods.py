"""What becomes of every method under --wrap sealed: python benchmarks/sealed_methods.py

Three rounds of digits on eight clients with each method's usual options, sealed with leverage=1, which lets
all sums pass: how much of a single reply the sums of a receiver gave away at the most, and how many single
models sites were shown to try them. Methods that cannot be sealed say why.
"""

from __future__ import annotations

import warnings

from coterie.core.errors import CoterieError
from coterie.methods import METHODS
from coterie.runs.builder import prepare
from coterie.runs.loop import run
from coterie.runs.settings import Settings

OPTIONS = {"finetune": {"tune": 1}, "random-weighted": {"own": "train"}}


def main() -> None:
    print("| method | largest leverage | single models shown | at the usual bound of 0.75 |")
    print("| --- | ---: | ---: | --- |")
    for method in METHODS:
        split = {"split": "clusters"} if method == "oracle" else {}
        used = {method: OPTIONS[method]} if method in OPTIONS else {}
        base = {"data": "digits", "clients": 8, "method": method, "rounds": 3, "options": used, **split}
        try:
            experiment = prepare(Settings(**base, wrap=("sealed=1",)), None)
            record = run(experiment, None, method).record
        except CoterieError as error:
            print(f"| `{method}` | | | refused: {str(error).split(', which')[0]} |", flush=True)
            continue
        told = [m["extras"]["sealed"] for m in record.metrics[1:]]
        most, shown = max(t["leverage"] for t in told), sum(t["shown"] for t in told)
        passes = "runs" if most <= 0.75 else "refused: a sum would give a reply away"
        print(f"| `{method}` | {most:.2f} | {shown} | {passes} |", flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
