"""Coterie's side, by its Python interface: the same prepared rows, everything else as it comes."""

from __future__ import annotations

import numpy as np

import coterie
from coterie.methods import METHODS
from coterie.methods.advised import ALONE, SOLVED

from .splitting import Part, Split

METHODS_TRIED = (
    "nothing",
    "local",
    "fedavg",
    "finetune",
    "weight-erosion",
    "pens",
    "ditto",
    "fedper:home=*bias",
    "pooled",
    "partial",
    "recalibrated",
)
"""By their names; those that this Coterie does not have are left out, and said to be."""
OFFERED = (ALONE, *SOLVED)
"""What `advised` may choose."""
CONTENDERS = (*METHODS_TRIED, *(c for c in SOLVED if c not in METHODS_TRIED), "advised")
TOGETHER = ("partial",)
"""Methods of which it is asked whether they beat training alone."""
MODELS = {"classification": "logistic", "regression": "linear", "survival": "linear"}


def missing(contender: str) -> bool:
    return contender.partition(":")[0] not in METHODS


def figures(contender: str, split: Split, seed: int) -> list[dict[str, float]]:
    """Of each site, in their order: what Coterie says of the model on the site's test rows."""
    clients = [client_of(site.name, site.train, site.test, split) for site in split.sites]
    compared = coterie.compare(
        MODELS[split.task], clients, [contender], seeds=1, seed=seed, progress=False, one_class="allow"
    )
    frame = compared.frame()
    by_client = frame[frame["label"] == contender].set_index("client")
    return by_client.loc[[site.name for site in split.sites]].to_dict("records")


def client_of(name: str, train: Part, test: Part, split: Split) -> coterie.Client:
    if split.task == "survival":
        pairs = [np.stack([part.y, part.event], axis=1) for part in (train, test)]
        return coterie.Client.from_arrays(
            train.x, pairs[0], name=name, test=(test.x, pairs[1]), features=split.columns, task="survival"
        )
    classes = list(range(len(split.classes))) if split.classes else None
    return coterie.Client.from_arrays(
        train.x,
        train.y,
        name=name,
        test=(test.x, test.y),
        features=split.columns,
        classes=classes,
        task=split.task,
    )
