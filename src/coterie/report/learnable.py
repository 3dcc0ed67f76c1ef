"""Is there anything to learn here: the first sentence of every answer. What always saying the same has, and
which methods are worse or no better, by the figures of records.

Where `nothing` was run beside others (`methods/baselines/nothing.py`) it is its figure on the same rows. Else
it follows from what a record says:

    classification    labels of training and test rows: accuracy and log loss of the shares in training
    regression        RMSE and R² of any model; R² of 0 or below is no better than the mean of the test rows
    survival          a concordance of one half, that of an order by chance
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from coterie.methods.advised import ALONE
from coterie.methods.baselines import NOTHING
from coterie.metrics import no_model
from coterie.metrics.learnt import ALSO, PROPER, UNKNOWN, Figures, Held, Learnt, learnt
from coterie.metrics.no_model import CONSTANT
from coterie.metrics.summary import means_of_known
from coterie.metrics.table import METRICS
from coterie.runs.record import Record
from coterie.show import views
from coterie.show.numbers import called, figure, in_percent, several
from coterie.show.words import Figure, said, sentences


def first_sentence(records: Sequence[Record]) -> str:
    """Of runs."""
    by_label = views.groups(records)
    if list(by_label) == [nothing_in(by_label)]:
        return asked(said("learnt.untried"))
    return asked(in_words(learns(records), views.baseline(by_label) or "", "each"))


def asked(answer: str) -> str:
    """Behind the question."""
    return sentences(said("learn.question"), answer)


def of_all(found: Sequence[Learnt]) -> str:
    """Of several clients: for how many there is anything; of one all is said."""
    if len(found) == 1:
        return asked(in_words(found[0]))
    known = [one.verdict for one in found if one.by is not None]
    some = sum(verdict != "no" for verdict in known)
    form = "all" if some == len(known) else "some" if some else "none"
    clients = several(len(known), "client")
    return asked(said(f"learnt.for.{form}", n=some, clients=clients)) if known else ""


def in_words(found: Learnt, alone: str = ALONE, whose: Literal["each", "one"] = "one") -> str:
    """The answer, for each site or for one; `alone` is what training alone is called."""
    by = found.by
    if by is None:
        return said("learn.unknown")

    def measure(metric: str) -> str:
        return said("learnt.log_loss") if metric == "nll" else called(metric)

    same, metric = said(f"learnt.{whose}.{by.metric}"), measure(by.metric)
    reached, level = (_amount(value, by.metric) for value in (by.model, by.same))
    if found.verdict == "no":
        name = said("learnt.training_alone") if by.way == alone else by.way
        blanks = {"same": same, "metric": metric, "level": level, "name": name, "value": reached}
        return said("learnt.near" if by.better else "learnt.no", **blanks)
    way = said("learn.alone") if by.way == alone else said("learn.with", method=by.way)
    text = said("learnt.found", way=way, metric=metric, value=reached, same=same, level=level)
    if found.first is not None:
        text = said("learnt.not_alone", said=text, value=_amount(found.first.model, by.metric))
    if found.beside is None:
        return said("learnt.yes", said=text)
    bold, rates = (_amount(v, found.beside.metric) for v in (found.beside.model, found.beside.same))
    return said("learnt.partly", said=text, metric=measure("nll"), value=bold, level=rates)


def _amount(value: float, metric: str) -> Figure:
    return Figure(figure(value, metric) + (" %" if in_percent(metric) else ""))


ROUNDING = 1e-6  # figures are float32: two that lie nearer to each other are the same


def worse_than_nothing(runs: Sequence[Record], among: np.ndarray) -> str:
    """Than what a method is worse or no better, over its runs and clients `among` [client]; nothing where it
    is better, or where that is not known.
    """
    task = runs[0].about["task"]
    if task == "classification":
        shares = [share for run in runs if (share := most_frequent(run, among)) is not None]
        if len(shares) < len(runs):
            return ""
        value, nothing = views.over_seeds(runs, "accuracy", among=among).mean, float(np.mean(shares))
        what = said("nothing.class", share=Figure(f"{100 * nothing:.1f} %"))
    else:
        metric = "r2" if task == "regression" else "concordance"
        value, nothing = views.over_seeds(runs, metric, among=among).mean, CONSTANT[metric]
        mean = f"nothing.mean_{'below' if value < -ROUNDING else 'of'}"
        what = said(mean if task == "regression" else "nothing.order")
    if value < nothing - ROUNDING:
        return said("nothing.worse", what=what)
    return said("nothing.no_better", what=what) if value <= nothing + ROUNDING else ""


def worse_lines(by_label: views.Groups) -> list[str]:
    """A line for all methods that are worse, or no better, than the same."""
    found = dict[str, list[str]]()
    for label, runs in by_label.items():
        if label == nothing_in(by_label):
            continue
        if worse := worse_than_nothing(runs, views.with_figure(runs, views.headline_metric(runs))):
            found.setdefault(worse, []).append(label)
    return [said("nothing.line", methods=labels, worse=worse) for worse, labels in found.items()]


def most_frequent(run: Record, among: np.ndarray) -> float | None:
    """The share of the most frequent class of training rows among test rows, the mean over clients; None
    where sites keep their labels to themselves.
    """
    found = list[float]()
    for client, here in zip(run.about["clients"], among, strict=True):
        if not here:
            continue
        if not client.get("labels"):
            return None
        train, test = np.array(client["labels"][0]), np.array(client["labels"][2])
        found.append(float(test[train.argmax()] / max(1, test.sum())))
    return float(np.mean(found)) if found else None


def nothing_in(by_label: views.Groups) -> str | None:
    """The label of the method that learns nothing, if it was run."""
    return next((x for x, runs in by_label.items() if views.method(runs[0]) == NOTHING), None)


def always_the_same(by_label: views.Groups, runs: Sequence[Record], metric: str) -> np.ndarray:
    """[seed, client] what always saying the same has on the test rows of these runs; NaN if nobody knows."""
    label = nothing_in(by_label)
    tried = {views.seed(r): r for r in by_label[label]} if label is not None else {}
    found = []
    for record in runs:
        clients = record.about["clients"]
        if (same := tried.get(views.seed(record))) is not None:
            found.append(views.final(same, metric))
        elif metric in CONSTANT:  # here and below from what the record says
            found.append(np.full(len(clients), CONSTANT[metric]))
        elif metric == "rmse":
            rmse, r2 = (views.final(record, name) for name in ("rmse", "r2"))
            tests = (int(c.get("test") or 0) for c in clients)
            found.append(np.array([no_model.of_figures(*of) for of in zip(rmse, r2, tests, strict=True)]))
        else:
            labels = (c.get("labels") for c in clients)
            each = [no_model.of_parts(metric, some) if some else math.nan for some in labels]
            found.append(np.array(each))
    return np.stack(found)


def learns(records: Sequence[Record], client: int | None = None) -> Learnt:
    """Whether there is anything to learn here, by these runs: for all clients, or for one by its number."""
    by_label = views.groups(records)
    task, ways, held = views.task(records[0]), dict[str, Figures](), dict[int, list[Held]]()
    among = np.arange(len(records[0].clients)) == client if client is not None else np.array(True)
    for label, runs in by_label.items():
        if label == nothing_in(by_label) or views.method(runs[0]) == "central":
            continue  # a yardstick that nobody can use
        metrics = (PROPER[task], *ALSO.get(task, ()))
        model = {m: np.stack([views.final(r, m) for r in runs]) for m in metrics}
        same = {m: np.where(among, always_the_same(by_label, runs, m), math.nan) for m in metrics}
        ways[label] = Figures(model, same)
        for r in runs:
            held[views.seed(r)] = [
                Held(int(c.get("test") or 0), tuple(c["labels"][2]) if c.get("labels") else ())
                for c in r.about["clients"]
            ]
    seeds = {label: [views.seed(r) for r in by_label[label]] for label in ways}
    if len({tuple(some) for some in seeds.values()}) != 1:  # none but nothing, or of different seeds
        ways = {label: ways[label] for label in list(ways)[:1]}
    if not ways:
        return UNKNOWN
    rows = [held[seed] for seed in seeds[next(iter(ways))]]
    return learnt(task, ways, rows, views.baseline(by_label) or "")


def beyond_nothing(by_label: views.Groups, runs: Sequence[Record], metric: str) -> np.ndarray:
    """[seed, client] how far figures are above those of always the same, as better ones are; NaN where that
    is not known.
    """
    if metric not in METRICS:
        return np.full((len(runs), len(runs[0].clients)), math.nan)
    sign = 1 if METRICS[metric].higher else -1
    model = np.stack([views.final(r, metric) for r in runs])
    return np.asarray(sign * (model - always_the_same(by_label, runs, metric)))


def no_gain(by_label: views.Groups, runs: Sequence[Record], metric: str) -> np.ndarray:
    """[client] who has no better a figure, in the mean over seeds, than always saying the same has: whatever
    it has beyond training alone is no gain.
    """
    return np.asarray(means_of_known(beyond_nothing(by_label, runs, metric).T) <= ROUNDING)


def below_nothing(
    by_label: views.Groups, runs: Sequence[Record], metric: str, among: np.ndarray | None = None
) -> bool:
    """The same of the mean over clients, or `among` [client] some of them."""
    apart = beyond_nothing(by_label, runs, metric)
    some = apart if among is None else np.where(among, apart, math.nan)
    means = means_of_known(some)
    return bool(means_of_known(means.reshape(1, -1))[0] <= ROUNDING)
