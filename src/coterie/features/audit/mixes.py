"""Replies from sums of replies: what a mix gives away, even where nobody sees a single reply.

Of replies x_1 ... x_n a receiver knows the sums A x (rows of weights that it was given a mix for) and its own
reply. What it can work out is the row space of A, its own taken off. With P the projection onto that space,

    leverage of host i = |P e_i|²        0: nothing of it alone; 1: it can be solved for exactly
    x̂ = A⁺ (A x)                         the least-norm solution, exact for hosts of leverage 1

He, Karimireddy and Jaggi, 2020, "Secure Byzantine-Robust Machine Learning", hand out sums on the ground that
they say little of one; leave-one-out means together say all. A is `rows`, [sum, host]; `leverage` and
`solved` are the two lines above. Two looks are taken:

    by the record   every round's weights [receiver, sender] as the run wrote them down: what each receiver
                    could do with its own row
    really          the run is played again up to the round that looks worst; the sums that the method made in
                    it are noted with what went into them, and solved: by each receiver, and by somebody who
                    sees every sum

A client is taken to get the coordinator's sums too, with the next visit. What is in a sum besides replies of
that round (a model of an earlier one) is taken as known. Deviation: where tensors have weights of their own,
the first tensor's stand for all.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

import numpy as np

from coterie.core.held import COORDINATOR
from coterie.core.method import METHODS, Reveals
from coterie.features.audit.overheard import Reply, Sum, flat, played
from coterie.features.audit.subject import Subject
from coterie.nets.guard import NEGLIGIBLE, leverage

PROVES = (
    "A leverage of 1 means that this host's reply can be solved for from the sums, to the last digits: for "
    "whoever has them, it is as if the reply had been sent to them openly."
)
PROVES_NOT = (
    "A leverage below 1 means that the sums of one round do not fix the reply. They still narrow it down, "
    "and whoever knows other replies, or guesses well, gets further: nothing is proved about that."
)
EVERYBODY = "whoever sees every sum"


def solved(
    rows: np.ndarray, sums: np.ndarray, own: Sequence[int] = (), known: np.ndarray | None = None
) -> np.ndarray:
    """x̂ = A⁺ (A x): [host, number] of sums [sum, number]; `known` are the replies of `own`, in that order."""
    rows, left = np.array(rows, dtype=np.float64), np.array(sums, dtype=np.float64)
    if len(own) and known is not None:
        left = left - rows[:, list(own)] @ known
        rows[:, list(own)] = 0.0
    found = np.linalg.pinv(rows, rcond=NEGLIGIBLE) @ left
    if len(own) and known is not None:
        found[list(own)] = known
    return found


def attack(subject: Subject) -> dict[str, Any]:
    """What could be solved for by the record; and, where rows are here, what really can."""
    names, rounds = subject.record.clients, sorted(subject.record.weights)
    most, where = np.zeros((len(names), len(names))), dict[int, float]()
    for r in rounds:
        weights = np.asarray(subject.record.weights[r], dtype=np.float64)
        # [receiver, host] of the one sum that each receiver got
        of_hosts = np.stack([leverage(weights[k : k + 1], [k]) for k in range(len(weights))])
        most, where[r] = np.maximum(most, of_hosts), float(of_hosts.max())
    worst = max(where, key=lambda r: (round(where[r], 6), -r))
    hosts = [
        {"client": name, "leverage": float(most[:, i].max()), "by": names[int(most[:, i].argmax())]}
        for i, name in enumerate(names)
        if name in subject.asked
    ]
    return {
        "rounds": len(rounds),
        "worst_round": worst,
        "hosts": hosts,
        "directly": directly(subject),
        "really": None if subject.ground is None else really(subject, worst),
        "proves": PROVES,
        "proves_not": PROVES_NOT,
    }


def directly(subject: Subject) -> list[str]:
    """Who got replies themselves, so that nothing had to be solved."""
    config = subject.record.config
    if subject.sealed:
        return []
    name, told = str(config["method"]), Reveals()
    if subject.ground is not None:
        told = subject.ground.method.reveals()
    elif name in METHODS:
        told = METHODS[name]().reveals()
    seen = [("the coordinator", told.coordinator or told.opened), ("other clients", told.sites)]
    return [who for who, sees in seen if sees]


def why_not(subject: Subject) -> str:
    """Why it cannot be tried; nothing if it can."""
    weights = subject.record.weights
    if subject.ground is not None and subject.ground.method.reveals().rows:
        return "the method moves clients' rows themselves to one place: there is nothing left to work out"
    if not len(weights):
        return "the run has no record of who listened to whom"
    if len(subject.record.clients) < 2:
        return "there is only one client, and nobody to mix with"
    if not any((np.asarray(w)[~np.eye(len(w), dtype=bool)]).any() for w in weights.values()):
        return "nobody listened to anybody else: there were no mixes"
    return ""


def really(subject: Subject, round: int) -> dict[str, Any] | None:
    """The round played again, and its sums solved; None where no replies were mixed, or none is a model."""
    replies, sums = played_again(subject, round)
    unknown = {reply.id: i for i, reply in enumerate(replies)}
    used = [some for some in sums if unknown.keys() & some.weights.keys()]
    if not used:
        return None
    clients = subject.record.clients
    names = tuple(n for n in used[0].value if n in subject.learner.trainable)
    truth = np.stack([flat(reply.replied, names).numpy() for reply in replies])
    sent = np.stack([flat(reply.sent, names).numpy() for reply in replies])
    size = np.linalg.norm(truth - sent, axis=1)
    best: dict[int, dict[str, Any]] = {}
    places = sorted({some.receiver for some in used} | {reply.host for reply in replies})
    for place in [*places, None]:  # each receiver knows its own replies; None: whoever sees every sum
        mine = [some for some in used if place is None or some.receiver in (place, COORDINATOR)]
        own = [i for i, reply in enumerate(replies) if reply.host == place]
        if not mine:
            continue
        rows = np.array([[some.weights.get(i, 0.0) for i in unknown] for some in mine])
        values = np.stack([_of_replies(some, unknown, names) for some in mine])
        found, lever = solved(rows, values, own, truth[own]), leverage(rows, own)
        who = EVERYBODY if place is None else "the coordinator" if place == COORDINATOR else clients[place]
        for i, reply in enumerate(replies):
            if i in own or not rows[:, i].any():
                continue
            error = float(np.linalg.norm(found[i] - truth[i]) / max(size[i], np.finfo(float).tiny))
            entry = {"by": who, "leverage": float(lever[i]), "error": error}
            if reply.host not in best or entry["leverage"] > best[reply.host]["leverage"] + NEGLIGIBLE:
                best[reply.host] = entry
    hosts = [{"client": clients[h], **best[h]} for h in sorted(best) if clients[h] in subject.asked]
    return {"round": round, "replies": len(replies), "sums": len(used), "hosts": hosts}


def _of_replies(some: Sum, unknown: Container[int], names: tuple[str, ...]) -> np.ndarray:
    """A sum without what is in it of other things than replies of the round, which are taken as known."""
    others = [w * flat(some.rows[i], names).numpy() for i, w in some.weights.items() if i not in unknown]
    whole = flat(some.value, names).numpy()
    return whole - np.sum(others, axis=0) if others else whole


def played_again(subject: Subject, round: int) -> tuple[list[Reply], list[Sum]]:
    """The replies and the sums of one round, by playing the run up to it."""
    replies, sums = list[Reply](), list[Sum]()

    def begin(_: int) -> None:
        replies.clear()
        sums.clear()

    played(subject.here.again(), round, begin=begin, replied=replies.append, mixed=sums.append)
    return replies, sums
