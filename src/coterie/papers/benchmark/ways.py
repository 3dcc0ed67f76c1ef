"""The methods of the table, and what is searched for each: always the learning rate, and at most one option
more, around its paper's own values. Every search has the same number of trials.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

RATES = "sgd.lr=0.01..1.0:log"
SHALLOW = ("logistic", "linear")


@dataclass(frozen=True)
class Way:
    """A method as it is run: its spec, what is searched beside the rate, further settings and options, the
    spec for a model of a single layer if that is another, and whether it knows what nobody in a federation
    does (all rows in one place), so that it stands beside the ranks.
    """

    spec: str
    search: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    options: dict[str, dict[str, Any]] = field(default_factory=dict)
    shallow: str = ""
    yardstick: bool = False

    def on(self, model: str) -> Way:
        """As it is run with a model of that name."""
        return replace(self, spec=self.shallow) if self.shallow and model in SHALLOW else self

    @property
    def searches(self) -> tuple[str, ...]:
        return (RATES, self.search) if self.search else (RATES,)


ADVISED = {"advised": {"candidates": ("fedavg", "finetune:tune=3", "ifca"), "folds": 3}}
FAMILIES: dict[str, dict[str, Way]] = {
    "yardsticks": {
        "central": Way("central", yardstick=True),
    },
    "alone, and one model for all": {
        "local": Way("local"),
        "fedavg": Way("fedavg"),
        "fedprox": Way("fedprox", "fedprox.mu=0.001..1.0:log"),
        "scaffold": Way("scaffold", "scaffold.server_step=0.3..1.0"),
        "fedadam": Way("fedadam", "fedadam.server_lr=0.003..0.3:log"),
        "fedyogi": Way("fedyogi", "fedyogi.server_lr=0.003..0.3:log"),
        "fedadagrad": Way("fedadagrad", "fedadagrad.server_lr=0.01..1.0:log"),
        "cyclic": Way("cyclic"),
        "fedkg": Way("fedkg"),
    },
    "personal": {
        "finetune": Way("finetune", "finetune.tune=1..8"),
        "ditto": Way("ditto", "ditto.pull=0.01..3.0:log"),
        "pfedme": Way("pfedme", "pfedme.pull=0.3..4.0:log"),
        "apfl": Way("apfl", "apfl.alpha=0.1..0.9"),
        "fedper": Way("fedper", shallow="fedper:home=*bias"),
        "fedrep": Way("fedrep", "fedrep.head_epochs=1..5", shallow="fedrep:home=*bias"),
        "per-fedavg": Way("per-fedavg", "per-fedavg.adapt_lr=0.003..0.3:log"),
        "fedfomo": Way("fedfomo", "fedfomo.others=1..5", settings={"validation": 0.2}),
        "fedamp": Way("fedamp", "fedamp.pull=0.03..3.0:log"),
        "fedala": Way("fedala", "fedala.eta=0.1..3.0:log"),
        "pfedgraph": Way("pfedgraph", "pfedgraph.alpha=0.1..3.0:log"),
        "weight-erosion": Way("weight-erosion", "weight-erosion.p_d=0.001..0.1:log"),
        "ndoye": Way("ndoye"),
        "advised": Way("advised", options=ADVISED),
    },
    "clustered": {
        "ifca": Way("ifca", "ifca.k=2..4"),
        "cfl": Way("cfl", "cfl.gamma=0.0..0.9"),
        "data-interpolation": Way("data-interpolation", "data-interpolation.lam=0.1..0.9"),
    },
    "without a server": {
        "d-psgd": Way("d-psgd"),
        "pens": Way("pens", "pens.selected=1..3"),
        "dac": Way("dac", "dac.tau=1.0..30.0:log"),
    },
    "Bayesian": {
        "fl-swag": Way("fl-swag"),
        "bayes-local": Way("bayes-local"),
    },
}
WAYS: dict[str, Way] = {name: way for family in FAMILIES.values() for name, way in family.items()}
