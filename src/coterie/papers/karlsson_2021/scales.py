"""The numbers of karlsson-2021: those of the thesis, and of smaller scales."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from coterie.models.base import Model
from coterie.models.mlp import Mlp
from coterie.models.pens_cnn import PensCnn
from coterie.papers.base import Scale


@dataclass(frozen=True)
class Size:
    """What depends on the number of clients: pictures of each, and whom PENS and greedy ask."""

    train: int
    validation: int
    selected: int
    sampled: int
    others: int


@dataclass(frozen=True)
class Setting:
    """What depends on the scale. `main` is the number of clients with all methods, and of IID data.

    passes      pictures that a client sees in a round of step 1, about
    sgd, adam   rates
    varied      figure 4.1's options and their values, beside the usual ones of iid-N/random; a rate is a
                multiple of the usual one
    """

    sizes: Mapping[int, Size]
    main: int
    rounds: int
    step1: int
    passes: int
    sgd: float
    tested: int
    evaluate: int
    model: Model
    varied: Mapping[str, tuple[float, ...]]
    adam: float = 1e-3
    epochs: int = 3
    patience: int = 0


SETTINGS: dict[Scale, Setting] = {
    "full": Setting(
        sizes={50: Size(875, 125, 1, 5, 20), 200: Size(125, 125, 4, 20, 20), 1000: Size(25, 25, 4, 20, 20)},
        main=200,
        rounds=333,
        step1=20,
        passes=1250,
        sgd=1e-3,
        patience=50,
        model=PensCnn(),
        tested=10_000,
        evaluate=10,
        varied={"selected": (1, 5, 10, 40), "epochs": (1, 5, 10), "rate": (0.1, 0.3, 3.0, 10.0)},
    ),
    "small": Setting(
        sizes={16: Size(150, 30, 1, 5, 4), 32: Size(75, 15, 1, 5, 4)},
        main=16,
        rounds=12,
        step1=5,
        passes=450,
        sgd=0.05,
        tested=1000,
        evaluate=12,
        varied={"selected": (1, 15), "epochs": (1,), "rate": (0.1,)},
        model=PensCnn(width=8),
    ),
    "tiny": Setting(
        sizes={8: Size(80, 20, 1, 3, 3), 16: Size(40, 10, 1, 5, 4)},
        main=16,
        rounds=8,
        step1=4,
        passes=120,
        sgd=0.1,
        adam=1e-2,
        tested=297,
        evaluate=4,
        varied={"selected": (1,), "epochs": (1,), "rate": (0.1,)},
        model=Mlp(),
    ),
}
