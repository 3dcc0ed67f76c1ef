"""Eight settings: four tables or small pictures whose test rows are set aside, four with published tests."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from coterie.api.tuning import Settings
from coterie.papers.base import Scale


@dataclass(frozen=True)
class Setting:
    """`run` is what all methods share; `published` says that test rows come with the data."""

    about: str
    run: Settings
    published: bool = False

    @property
    def overlap(self) -> float:
        """Test rows over those trained on, where every seed sets some aside anew."""
        return 0.0 if self.published else self.run.test / (1 - self.run.test)

    def scaled(self, scale: Scale) -> Setting:
        if scale == "full":
            return self
        return replace(self, run=replace(self.run, rounds=9))


def shared(data: str, rounds: int, **more: Any) -> Settings:
    """A run of batches of 16, one pass a round, scored in the end."""
    options = {"sgd": {"batch": 16}, **more.pop("options", {})}
    return Settings(data=data, rounds=rounds, evaluate=rounds, checkpoint=rounds, options=options, **more)


def pictures(data: str, split: str, **options: Any) -> Settings:
    """1,500 of them for ten clients, and a network with one hidden layer."""
    tables = {"mlp": {"hidden": (32,)}, **({split: options} if options else {})}
    return shared(data, 15, rows=1500, split=split, clients=10, model="mlp", options=tables)


SETTINGS: dict[str, Setting] = {
    "heart-disease": Setting("four hospitals, logistic", shared("heart-disease", 20, model="logistic")),
    "tcga-brca": Setting("six regions, Cox regression", shared("tcga-brca", 20, model="linear")),
    "titanic": Setting("four groups by age, logistic", shared("titanic", 20, model="logistic")),
    "digits-shift": Setting(
        "ten clients, three digits each, shifting (F), one hidden layer",
        shared(
            "digits",
            20,
            split="shift",
            model="mlp",
            options={"mlp": {"hidden": (32,)}, "shift": {"distribution": "F"}},
        ),
    ),
    "mnist-clusters": Setting(
        "1,500 digits, ten clients, half of them with pictures turned upside down, one hidden layer",
        pictures("mnist", "clusters"),
        published=True,
    ),
    "mnist-dirichlet": Setting(
        "1,500 digits, ten clients, labels by Dirichlet 0.1, one hidden layer",
        pictures("mnist", "dirichlet", alpha=0.1),
        published=True,
    ),
    "fashion-interests": Setting(
        "1,500 clothes, ten clients of different sizes with one favourite class each, one hidden layer",
        pictures("fashion-mnist", "interests"),
        published=True,
    ),
    "cifar10-clusters": Setting(
        "800 photographs, eight clients, half of them with pictures turned upside down, one hidden layer",
        shared(
            "cifar10",
            10,
            rows=800,
            split="clusters",
            clients=8,
            model="mlp",
            options={"mlp": {"hidden": (32,)}},
        ),
        published=True,
    ),
}

KINDS = {
    "tables of real sites": ("heart-disease", "tcga-brca", "titanic"),
    "labels that are dealt unevenly": ("digits-shift", "mnist-dirichlet", "fashion-interests"),
    "two kinds of clients, one with its pictures upside down": ("mnist-clusters", "cifar10-clusters"),
}
"""In what clients differ."""
