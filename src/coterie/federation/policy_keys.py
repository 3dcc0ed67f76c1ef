"""Every key of a site's policy, and what a run says of itself before it begins. See `policy.py`."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from coterie.core.errors import Gathered
from coterie.federation.consent import Circles
from coterie.nets.offers import Limits
from coterie.privacy.accounting import check_budget


@dataclass(frozen=True)
class Policy:
    """Every key of the file; what is not there is as here.

    requesters      names of people whose work is accepted; None: all whose certificate says lead
    kernels         what may be done with models here, by name, what is inside of others too; None: all
    models          models that may be trained here, by name; None: all
    max_rounds      rounds of a run
    max_visits      models that a run may train or score here, counted one by one
    max_bytes       bytes of one message
    max_parameters  numbers of a model
    max_steps       gradients that one visit may take
    max_seconds     that one message may take; work is then ended
    max_memory      bytes that one message may take up here
    min_sites       sites that a run must have, this one among them
    runs_a_day      runs that may begin within 24 hours
    deals_a_day     ways to set rows aside for testing within 24 hours: one for each seed, share, and roster;
                    and as many checks of the data
    answers_a_day   models that may be trained or scored here within 24 hours, whoever asks
    min_rows        rows that each part must have that is trained, validated or tested on, if it has any; that
                    each visit looks at, and each of its steps; and by which the rows of visits, and of any
                    combination of visits, differ if they do (`row_sets.py`)
    row_leverage    how much of what is one row's own the rows of all visits together may give away, up to 1
    to_coordinator  may models trained here go to whoever leads a run, to be mixed there?
    open            may whoever leads a run look at single ones? Needs to_coordinator
    to_peers        may models trained here go to other sites?
    rows            may the rows themselves leave?
    scores          whose models may be tried on our rows: all, or "own", none as it came from another site
    label_counts    may it be told how many rows there are of each class, and with them sensitivity,
                    specificity and net benefit, which say so?
    distances       may it be told how far models are apart? Many of them tell a model
    sums            may counts, means and deviations of columns be told, for a scale that sites share, and
                    sketches of rows, for similarity before training? Of these, other sites of the run are
                    told by how much each column of theirs differs from ours. And may sums of columns and of
                    their products go where models go (column-sums, curvature)? With sealed, they may anyway
    quality         may quantiles of columns be told, and how often a check of the data found what?
    sealed          may models trained here leave only sealed, so that nobody sees one? Runs with helpers do
    share_at_most   how much of a sum at somebody else's place a model of ours may make up, up to 1
    others_at_least how many other sites must be in such a sum, besides us and who gets it
    leverage        how much of a model of ours the sums that somebody gets may give away, up to 1. A site is
                    told these three before a sum is made, and withdraws from one that exceeds them; sealed,
                    helpers keep to the last two as well
    plans           whether a person here must have said yes to a run's plan before it begins: "allow", or
                    "ask" (`site_plans.py`). A no counts in any case
    circles         whether a person here must have said yes before a model of ours is in circles and sums of
                    another site: "allow", or "ask" (`consent.py`). A no counts in any case
    deal            the only seed by which rows may be held out for testing; None: each run's own
    epsilon         what all runs of all requesters may spend of differential privacy; None: no bound. With it
                    local work without noise is refused (`budgets.py`)
    delta           the delta of that; below 1 / rows
    epsilon_a_requester  what one of them may spend; None: no less
    clear_scores    may scores leave without noise, outside of the budget? Asked where there is an epsilon
    """

    requesters: tuple[str, ...] | None = None
    kernels: tuple[str, ...] | None = None
    models: tuple[str, ...] | None = None
    max_rounds: int = 1000
    max_visits: int = 100_000
    max_bytes: int = 2**30
    max_parameters: int = 100_000_000
    max_steps: int = 1_000_000
    max_seconds: float = 600.0
    max_memory: int = 2**33
    min_sites: int = 2
    runs_a_day: int = 1000
    deals_a_day: int = 30
    answers_a_day: int = 1_000_000
    min_rows: int = 5
    row_leverage: float = 0.75
    to_coordinator: bool = True
    open: bool = False
    to_peers: bool = True
    rows: bool = False
    scores: Literal["own", "all"] = "all"
    label_counts: bool = False
    distances: bool = True
    sums: bool = True
    quality: bool = True
    sealed: bool = False
    share_at_most: float = 1.0
    others_at_least: int = 0
    leverage: float = 1.0
    plans: Literal["allow", "ask"] = "allow"
    circles: Circles = "allow"
    deal: int | None = None
    epsilon: float | None = None
    delta: float = 1e-5
    epsilon_a_requester: float | None = None
    clear_scores: bool = False

    def __post_init__(self) -> None:
        wrong = Gathered()
        for name in ("epsilon", "epsilon_a_requester"):
            with wrong.one():
                check_budget(1.0 if getattr(self, name) is None else getattr(self, name), 0.5, name)
        with wrong.one():
            check_budget(1.0, self.delta)
        if self.epsilon_a_requester is not None and self.epsilon is None:
            wrong.add("epsilon_a_requester needs epsilon, for all together: set it too")
        for f in fields(self):
            if f.name.startswith(("max_", "min_")) and not 1 <= getattr(self, f.name) < 1e18:
                wrong.add(f"{f.name} = {getattr(self, f.name)} must be at least 1: try {f.default}")
        if not 0 < self.row_leverage <= 1:
            wrong.add(f"row_leverage = {self.row_leverage} must be above 0 and at most 1: try 0.75")
        for name in ("runs_a_day", "answers_a_day", "deal"):
            if (getattr(self, name) or 0) < 0:
                wrong.add(f"{name} = {getattr(self, name)} must be at least 0: try 0, or leave it out")
        with wrong.one():
            limits_of(self)
        if self.open and not self.to_coordinator:
            wrong.add("open = true needs to_coordinator = true: change one of them")
        wrong.refuse()


def limits_of(policy: Policy) -> Limits:
    """What a site wants to be sure of before a model of its own is used in a sum elsewhere."""
    return Limits(policy.share_at_most, policy.others_at_least, policy.leverage)


@dataclass(frozen=True)
class Work:
    """What a run is going to ask of a site, as it is told before it begins."""

    model: str = ""
    parameters: int = 0
    kernels: tuple[str, ...] = ()
    rounds: int = 0
    sites: int = 0
    deal: int | None = None  # the seed by which rows are held out
    coordinator: bool = False  # this and the next three as in `Reveals`
    opened: bool = False
    peers: bool = False
    rows: bool = False
    distances: bool = False  # whether distances between models are told
    sums: bool = False  # whether sums of columns are needed
    bounded: bool = False  # whether local work has noise, and a bound on what it tells of a row
    clear_scores: bool = True  # whether scores of models are told without noise
    sealed: bool = False  # whether replies are sealed: they reach whoever leads the run in sums alone
