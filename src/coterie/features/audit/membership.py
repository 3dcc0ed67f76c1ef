"""Membership by loss threshold: was this row among those that a model was trained on?

Yeom, Giacomelli, Fredrikson and Jha, 2018, "Privacy Risk in Machine Learning: Analyzing the Connection to
Overfitting": a row whose loss is no higher than the mean training loss is said to be a member. Their
membership advantage (definition 4) is

    Adv = P[said member | member] - P[said member | no member] = TPR - FPR

Members are a client's training rows, the others its test rows; `advantage` has both, with the threshold τ at
the mean loss of members (`threshold`). Beside it, over all thresholds: `auc`, the chance that a member has
a lower loss than another row (equal losses count half), and `tpr_at`, the share of members that is found
when of the others at most 1 or 10 per cent are taken for members (Carlini et al., 2022, ask for that figure:
an attack that finds few members for certain may have an AUC near a half). Intervals are of 95 per cent, by
drawing members and others anew many times, each with replacement (`intervals`, seeded). Where no member has
a higher loss than any other row, every draw says the same and the interval is a point.

Beside the client's models stands the first model, which was trained on nothing: there the AUC should be a
half within its interval. If it is not, training and test rows differ by themselves, and the other figures
say less than they seem to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from coterie.core.seeds import Key
from coterie.features.audit.subject import Subject

PROVES = (
    "Where the AUC's interval lies above 0.5, whoever has this model can tell better than by chance whose "
    "row it was trained on."
)
PROVES_NOT = (
    "An AUC near 0.5 says that this one attack, by the loss alone, did not tell members apart. Stronger "
    "attacks exist, single patients may stand out where the average does not, and nothing is proved."
)
DRAWS = 500
RATES = (0.01, 0.1)
Figure = Callable[[np.ndarray, np.ndarray], float]


def auc(members: np.ndarray, others: np.ndarray) -> float:
    """P[loss of a member < loss of another] + half of P[equal]."""
    ordered = np.sort(others)
    higher = len(others) - np.searchsorted(ordered, members, side="right")
    equal = len(others) - np.searchsorted(ordered, members, side="left") - higher
    return float((higher + equal / 2).mean() / len(others))


def threshold(members: np.ndarray) -> float:
    """τ: the mean training loss."""
    return float(members.mean())


def advantage(members: np.ndarray, others: np.ndarray) -> float:
    """Adv = TPR - FPR at τ."""
    at = threshold(members)
    return float((members <= at).mean() - (others <= at).mean())


def tpr_at(rate: float, members: np.ndarray, others: np.ndarray) -> float:
    """The share of members found by the highest threshold that takes at most `rate` of the others.

    Members of the same loss as the first that may not be taken are not found.
    """
    allowed = int(np.floor(rate * len(others) + 1e-9))
    if allowed >= len(others):
        return 1.0
    return float((members < np.sort(others)[allowed]).mean())


FIGURES: Mapping[str, Figure] = {
    "auc": auc,
    "advantage": advantage,
    "tpr_at_1": lambda members, others: tpr_at(RATES[0], members, others),
    "tpr_at_10": lambda members, others: tpr_at(RATES[1], members, others),
}


def intervals(members: np.ndarray, others: np.ndarray, key: Key, draws: int) -> dict[str, Any]:
    """Every figure with its 95 per cent interval, by so many draws with replacement."""
    source = key.numpy()
    drawn = {name: np.empty(draws) for name in FIGURES}
    for i in range(draws):
        some = members[source.integers(len(members), size=len(members))]
        rest = others[source.integers(len(others), size=len(others))]
        for name, figure in FIGURES.items():
            drawn[name][i] = figure(some, rest)
    found = {}
    for name, figure in FIGURES.items():
        low, high = np.quantile(drawn[name], (0.025, 0.975))
        found[name] = {"value": figure(members, others), "low": float(low), "high": float(high)}
    return found


def attack(subject: Subject) -> dict[str, Any]:
    """The figures of every client's models; one entry for each client and model."""
    entries, skipped, pooled = [], [], dict[str, list[tuple[np.ndarray, np.ndarray]]]()
    for i, client in enumerate(subject.clients):
        if client.name not in subject.asked:
            continue
        if not len(client.test):
            skipped.append(f"{client.name} has no test rows, so there is nobody to tell members from")
            continue
        for name, belief in subject.models_of(i).items():
            members, others = (subject.losses(belief, rows) for rows in (client.train, client.test))
            entries.append({"client": client.name, **_told(subject, client.name, name, members, others)})
            pooled.setdefault(name, []).append((members, others))
    together = [
        _told(subject, "", name, *map(np.concatenate, zip(*pairs, strict=True)))
        for name, pairs in pooled.items()
        if len(pairs) > 1
    ]
    proofs = {"proves": PROVES, "proves_not": PROVES_NOT}
    return {"clients": entries, "together": together, "notes": skipped, **proofs}


def _told(
    subject: Subject, client: str, model: str, members: np.ndarray, others: np.ndarray
) -> dict[str, Any]:
    """One line of figures; of all clients together, each row by its own client's model."""
    return {
        "model": model,
        "members": len(members),
        "others": len(others),
        "mean_loss": {"members": float(members.mean()), "others": float(others.mean())},
        **intervals(members, others, subject.key.at("membership", client, model), DRAWS),
    }
