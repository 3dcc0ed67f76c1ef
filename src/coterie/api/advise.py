"""With whom should each client train? From Python, on one's own clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from coterie.api import checks
from coterie.api.checks import split_settings
from coterie.api.train import asked_for
from coterie.core.checks import checked, refuse_wrong
from coterie.core.client import Client
from coterie.core.seeds import Key
from coterie.data.intake import anew
from coterie.engines.threads import narrow
from coterie.features.advice import question as advising
from coterie.features.advice.answers import Advice, Answer
from coterie.features.advice.report import write_advice
from coterie.features.advice.sentences import sentences
from coterie.features.trials.bench import Bench
from coterie.metrics.own import own_of
from coterie.report.progress import counted
from coterie.report.summary import lines_html
from coterie.runs.builder import Builder, Handed, settled
from coterie.storage.paths import given_file

TRAINS = {"kernel", "loss", "metrics", "lower", "engine", "device", "memory", "init", "net", "wrap"}
TRAINS |= {"one_class", "features", "transform"}
"""Keywords of `train` that are passed on."""

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Advised:
    """Answers by client. `choice` is what a run follows: train(..., "advised", choice=advice.choice)."""

    advice: Advice

    def __repr__(self) -> str:
        return "\n".join(f"{name}: {' '.join(lines[:2])}" for name, lines in sentences(self.advice).items())

    def _repr_html_(self) -> str:
        return lines_html("Advised", repr(self).splitlines())

    @property
    def choice(self) -> tuple[str, ...]:
        """What each client should follow, in the order of the clients; `local` is alone."""
        return self.advice.choice

    @property
    def answers(self) -> dict[str, Answer]:
        return {a.client: a for a in self.advice.answers}

    def words(self, client: str) -> list[str]:
        """What this client is told, line by line."""
        return sentences(self.advice)[client]

    def table(self) -> pd.DataFrame:
        """A row for each client and way: its gain over alone with the interval, which holds for all ways at
        once, and whether it is advised.
        """
        import pandas as pd

        rows = [
            (a.client, way, a.level[way], gain.mean, *gain.bounds, way == a.choice)
            for a in self.advice.answers
            for way, gain in a.gains.items()
        ]
        columns = ["client", "way", self.advice.metric, "gain", "low", "high", "advised"]
        return pd.DataFrame(rows, columns=columns)

    @checked(**checks.PAGE)
    def report(self, path: str | Path) -> Path:
        """Writes one HTML page that opens offline."""
        return write_advice(given_file(str(path), "path"), self.advice)


@checked(**checks.ADVISE)
@narrow()
def advise(
    model: nn.Module | str,
    clients: Sequence[Client],
    requester: str = "all",
    *,
    measure: str = "auto",
    candidates: Sequence[str] = (),
    folds: int = 5,
    inner: int = 3,
    rounds: int = 30,
    seed: int = 0,
    progress: bool | None = None,
    **options: Any,
) -> Advised:
    """With whom should a client train, what does it gain, how sure is that, what does it give away?

    requester    the client that asks, or all
    measure      what to choose by and to promise: accuracy, balanced_accuracy, auc, nll (log loss), brier,
                 loss, sensitivity (at a `specificity`), rmse, r2; auto takes the usual one of the task, and
                 nll where one class is so common that accuracy could not tell
    candidates   what to try beside training alone: methods, with options if wanted ("ndoye:best=1"); by
                 default the usual ones for the local work
    folds        into how many parts each client's training rows are cut, each held out once
    inner        folds inside each, which choose while it judges; 0 promises no gain, and is quicker

    Further keywords are those of `train` (kernel, loss, init, net, wrap, ...), options of the local work (lr,
    epochs, ...) and of the method `advised` (sure, specificity).
    """
    refuse_wrong({k: v for k, v in checks.RUN.items() if k in options}, options)
    common = {k: options.pop(k) for k in list(options) if k in TRAINS}
    start = {k: common.pop(k) for k in ("init", "features") if k in common}
    kernel = common.pop("kernel", None)
    own = own_of(
        common.pop("loss", None),
        common.pop("metrics", None),
        common.pop("lower", ()),
        anew(clients, common.pop("transform", None)),
    )
    asked = {"requester": requester, "measure": measure, "candidates": tuple(candidates), "folds": folds}
    given, _ = split_settings({**common, "rounds": rounds, "seed": seed}, "advise", **start)
    question, handed = advising.Question(given, inner), Handed(model, clients, own)
    settings, way = asked_for(handed, given, "advised", kernel, {**options, **asked})
    key = Key(settings.seed, rounds=settings.rounds)
    setup = Builder(handed).setup(settings, lambda r, start: way.check(r, start, key))
    way.check(setup.roster, setup.beliefs, key)
    connector, machine = settings.made("net"), settings.made("engine")
    bench = Bench(way, setup, settled(settings, setup), connector, machine, own, question.inner)  # type: ignore[arg-type]
    with counted(len(bench.places()), progress, "trials") as tell:
        return Advised(advising.in_memory(bench, lambda done, total, spec: tell(f"trying {spec}", done)))
