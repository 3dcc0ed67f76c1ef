"""Papers as runs: their tables and figures, and their claims as checks.

Each has a package. Its own text holds the paper's facts and, for the preset `as-run`, what the authors'
program did otherwise than their text says; below it are the cells and what they run, and `report.py` has the
pages. What they share is in `base.py`, `pages.py`, `claims.py` and `drawing.py`. None of these parts is
registered: no other command can meet them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from coterie.core.errors import UnknownName

if TYPE_CHECKING:
    from coterie.studies.base import Paper

PAPERS = {
    "benchmark": "one table, a study of our own: thirty methods in eight settings, tuned alike, ranked",
    "flamby": "FLamby's four hospitals and six regions again, and then personal methods on them",
    "gengler-2020": "Weight Erosion on MNIST: distributions A to G, 10 to 100 agents, Table II, figure 2",
    "grimberg-2020": "Weight Erosion on Titanic by age groups and on four hospitals, figures 6 to 9",
    "karlsson-2021": "PENS and its family on CIFAR-10 in two clusters, Tables 4.1 to 4.3, figures 4.1 to 4.3",
    "makni-2022": "FL-SWAG: one exchange of Gaussians, three sets of pictures, calibration; SWAG beside HMC",
    "robustness": "what liars do to rules and to personal methods, a study of our own: thirteen ways to lie",
    "yang-2023": "averages guided by low-rank metrics, three sets of pictures x two alphas, figures 2 and 3",
}


def paper(name: str) -> Paper:
    """The paper of that name; its package is loaded when it is asked for."""
    if name not in PAPERS:
        raise UnknownName("paper", name, PAPERS)
    made: Paper = importlib.import_module(f"coterie.studies.{name.replace('-', '_')}").PAPER
    return made
