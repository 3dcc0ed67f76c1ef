"""Coterie's rules beside those of byzfl 0.0.11, on random replies: the largest difference of each.

byzfl (https://byzfl.epfl.ch) wants packages of its own, so it gets an environment of its own. Only its
aggregators are loaded, which need numpy, scipy and torch alone:

    python -m venv byzfl-env
    byzfl-env/bin/pip install -c constraints.txt .
    byzfl-env/bin/pip install --no-deps byzfl==0.0.11
    byzfl-env/bin/python benchmarks/byzfl_agreement.py

Rules from distances give weights, byzfl a vector: what is compared is Σ_j w_j x_j. byzfl's Krum and
Multi-Krum sum over n - f neighbours of which each reply is one itself, where Blanchard et al. have n - f - 2
others: our `krum_scores` is called with n - f - 1 others for the comparison. Its geometric median starts from
zero, ours from the mean, and its smoothing is absolute: it gets replies less their mean, and our `weiszfeld`
is called with as many steps and that smoothing. Norm bounding is its clipping, then the mean. byzfl has
neither FLTrust nor Bulyan.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import importlib.util
import sys
import types
from collections.abc import Callable, Mapping

import numpy as np
import torch

from coterie.rules import chained
from coterie.rules.geometric_median import weiszfeld
from coterie.rules.krum import krum_scores, shares_of_lowest

Found = Callable[[torch.Tensor, int], torch.Tensor]
SIZES = ((5, 1), (7, 2), (10, 3), (11, 2), (15, 4))  # (n, f)
TAU, NU, STEPS, PIVOT = 1.5, 0.1, 8, 2


def byzfl_parts() -> tuple[types.ModuleType, types.ModuleType]:
    """Its aggregators without the package's benchmark, which wants torchvision and more."""
    spec = importlib.util.find_spec("byzfl")
    if spec is None or spec.submodule_search_locations is None:
        sys.exit("byzfl is not installed here: see the top of this file")
    shell = types.ModuleType("byzfl")
    shell.__path__ = list(spec.submodule_search_locations)
    sys.modules["byzfl"] = shell
    return tuple(importlib.import_module(f"byzfl.aggregators.{n}") for n in ("aggregators", "preaggregators"))


def squares(x: torch.Tensor) -> torch.Tensor:
    return (x.unsqueeze(0) - x.unsqueeze(1)).square().sum(dim=2)


def by_weights(text: str) -> Found:
    """Of replies and, last, what went out: at 0, where byzfl's clipping starts."""

    def found(x: torch.Tensor, f: int) -> torch.Tensor:
        points = torch.cat([x, torch.zeros_like(x[:1])])
        return chained(text).weights(squares(points), f, PIVOT) @ points

    return found


def by_numbers(text: str) -> Found:
    def found(x: torch.Tensor, f: int) -> torch.Tensor:
        points = torch.cat([x, torch.zeros_like(x[:1])])
        return chained(text).summed({"x": x}, squares(points), f)[0]["x"]

    return found


def krum_with(best: Callable[[int, int], int]) -> Found:
    """With byzfl's n - f - 1 others."""

    def found(x: torch.Tensor, f: int) -> torch.Tensor:
        n = len(x)
        return shares_of_lowest(krum_scores(squares(x), n - f - 1), best(n, f)) @ x

    return found


def mixed(x: torch.Tensor, f: int) -> torch.Tensor:
    points = torch.cat([x, torch.zeros_like(x[:1])])
    (step,) = chained("nnm+mean").steps
    return (step.mixing(squares(points), f) @ points)[:-1]


def pairs(agg: types.ModuleType, pre: types.ModuleType) -> Mapping[str, tuple[Found, Found]]:
    """(ours, byzfl's) by the name of the rule."""

    def theirs(make: Callable[[int], Callable[[np.ndarray], np.ndarray]]) -> Found:
        return lambda x, f: torch.from_numpy(np.asarray(make(f)(x.numpy())))

    nnm_krum = lambda f: lambda x: agg.MultiKrum(f)(pre.NNM(f)(x))  # noqa: E731
    clip_mean = lambda f: lambda x: agg.Average()(pre.Clipping(TAU)(x))  # noqa: E731
    return {
        "mean": (by_weights("mean"), theirs(lambda f: agg.Average())),
        "krum, best alone": (krum_with(lambda n, f: 1), theirs(agg.Krum)),
        "krum": (krum_with(lambda n, f: n - f), theirs(agg.MultiKrum)),
        "nnm": (mixed, theirs(pre.NNM)),
        "nnm+krum": (lambda x, f: krum_with(lambda n, f: n - f)(mixed(x, f), f), theirs(nnm_krum)),
        "monna": (by_weights("monna"), theirs(lambda f: agg.MoNNA(f, idx=PIVOT))),
        "geometric-median": (
            lambda x, f: weiszfeld(squares(x), STEPS, NU) @ x,
            theirs(lambda f: lambda x: agg.GeometricMedian(NU, STEPS)(x - x.mean(axis=0)) + x.mean(axis=0)),
        ),
        "centred-clipping": (
            by_weights(f"centred-clipping:radius={TAU},steps=3"),
            theirs(lambda f: agg.CenteredClipping(L=3, tau=TAU)),
        ),
        "norm-bound": (by_weights(f"norm-bound:radius={TAU}"), theirs(clip_mean)),
        "minimum-diameter": (by_weights("minimum-diameter"), theirs(agg.MDA)),
        "median": (by_numbers("median"), theirs(lambda f: agg.Median())),
        "trimmed-mean": (by_numbers("trimmed-mean"), theirs(agg.TrMean)),
        "meamed": (by_numbers("meamed"), theirs(agg.Meamed)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Largest differences between our rules and byzfl's.")
    parser.add_argument("--draws", type=int, default=200, help="Random sets of replies for each size.")
    parser.add_argument("--axes", type=int, default=20, help="Numbers in a reply.")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    found = pairs(*byzfl_parts())
    worst, draws = dict.fromkeys(found, 0.0), torch.Generator().manual_seed(asked.seed)
    for n, f in SIZES:
        for _ in range(asked.draws):
            x = torch.randn(n, asked.axes, generator=draws, dtype=torch.float64)
            x[:f] = 3 * x[:f] + 1
            for rule, (ours, theirs) in found.items():
                apart = float((ours(x, f) - theirs(x, f)).abs().max())
                worst[rule] = max(worst[rule], apart)
    print(
        f"byzfl {importlib.metadata.version('byzfl')}, torch {torch.__version__}, {asked.draws} draws of each"
    )
    print(f"(n, f) in {', '.join(map(str, SIZES))}, {asked.axes} numbers in a reply, seed {asked.seed}\n")
    print("| rule | largest difference |\n| --- | ---: |")
    for rule, apart in worst.items():
        print(f"| `{rule}` | {apart:.1e} |")


if __name__ == "__main__":
    main()
