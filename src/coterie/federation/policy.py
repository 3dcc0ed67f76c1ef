"""What a site takes part in: its own word, in a TOML file beside its rows, that nobody else can change.

A policy is asked three times. `objections` is for who starts a run: a site's hello has its policy (`told`),
so that a run that would be refused ends before it begins. `check_begin` is for the site, when a run begins:
the same objections, by the policy itself. `check_message` is for the site again, at every message of the run:
what it does not know is refused. Objections say what was asked, what the policy says and which key it is.

What a site can see, it holds to: what is done with its rows, what leaves it, to whom, how often. What others
do with what they got, it cannot see: `open` asks whether a method means to look at single models, and whoever
mixes them could look all the same. A site that must rule that out says `to_coordinator = false`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

from coterie.core.errors import BadData, BadInput, Gathered, Refused, UnknownName, lines_of, shown
from coterie.core.kernel import KERNELS, looks, makes
from coterie.core.method import Reveals
from coterie.core.options import coerced
from coterie.federation.consent import TRIED, Circles
from coterie.kernels import Moments, Quantiles
from coterie.models import MODELS
from coterie.nets.offers import ALONE, Limits
from coterie.privacy.accounting import check_budget
from coterie.storage.toml import read_given

LISTED = 8  # names that a refusal lists
MAY = {  # keys that are true or false, and what a site would do
    "to_coordinator": "models trained here would go to whoever leads the run",
    "open": "whoever leads the run would look at single models",
    "to_peers": "models trained here would go to other sites",
    "rows": "rows would leave the site",
    "distances": "it would be told how far models are apart",
    "sums": "counts, means, deviations or quantiles of columns would be told",
    "quality": "quantiles of columns, and counts of what a check found in them, would be told",
}
UNSEALED = "models trained here would leave as they are, where the policy has sealed = true"
SKETCHES = frozenset({*Quantiles().sizes, *Moments().sizes})  # numbers that tell of columns
# what these make stays at the site
STAYS = frozenset({"mix", "copy", "take", "keep", "store", "fetch", "unseal", "offer"})


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
    max_steps       gradients that one visit may take for one model
    max_seconds     that one message may take; work is then ended
    max_memory      bytes that one message may take up here
    min_sites       sites that a run must have, this one among them
    runs_a_day      runs that may begin within 24 hours
    deals_a_day     ways to set rows aside for testing within 24 hours: one for each seed, share, and roster
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
    label_counts    may it be told how many rows there are of each class?
    distances       may it be told how far models are apart? Many of them tell a model
    sums            may counts, means and deviations of columns be told, for a scale that sites share, and
                    sketches of rows, for similarity before training? Of these, other sites of the run are
                    told by how much each column of theirs differs from ours
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
    row_leverage: float = 0.5
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
            wrong.add(f"row_leverage = {self.row_leverage} must be above 0 and at most 1: try 0.5")
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


def read_policy(path: str | Path | None) -> Policy:
    """The file's, or the usual one without a file; all that is wrong with it is said at once."""
    if path is None:
        return Policy()
    return policy_of(read_given(path), str(path))


def policy_of(table: Mapping[str, Any], where: str = "policy") -> Policy:
    """From a table; a name that this Coterie does not have is refused too, so that no typing error stays."""
    values, wrong = dict[str, Any](), Gathered()
    for key, value in table.items():
        with wrong.one():
            values |= coerced(Policy, {key: value}, where)
    for key, registry in (("kernels", KERNELS), ("models", MODELS)):
        for name in values.get(key) or ():
            if name not in registry:
                wrong.add(f"{where}: {UnknownName(registry.kind, name, registry)}")
    try:
        policy = Policy(**values)
    except BadInput as error:
        for line in lines_of(error):
            wrong.add(f"{where}: {line}")
    wrong.refuse()
    return policy


def told(record: Policy | Work) -> dict[str, Any]:
    """As JSON holds it: a policy for a site's hello, the work of a run for `check_begin`."""
    return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(record).items()}


def from_told(policy_told: Mapping[str, Any]) -> Policy:
    """What another site told. A key of a later version is passed over: that site refuses by itself."""
    known = {f.name for f in fields(Policy)}
    try:
        return Policy(**coerced(Policy, {k: v for k, v in policy_told.items() if k in known}, "policy"))
    except BadInput as error:
        raise BadData(f"a site's policy cannot be read: {'; '.join(lines_of(error))}") from None


def work_for(
    reveals: Reveals,
    kernels: Iterable[str | Mapping[str, Any]],
    model: str,
    rounds: int,
    sites: int,
    **more: Any,
) -> Work:
    names = tuple(dict.fromkeys(n for k in kernels for n in ([k] if isinstance(k, str) else names_in(k))))
    shows = {"coordinator": reveals.coordinator, "opened": reveals.opened, "peers": reveals.sites}
    shows["distances"] = "distances" in reveals.numbers
    more["sums"] = bool(more.get("sums")) or not SKETCHES.isdisjoint(reveals.numbers)
    return Work(model, kernels=names, rounds=rounds, sites=sites, rows=reveals.rows, **shows, **more)


def work_of(asked: Mapping[str, Any]) -> Work:
    """What a run says of itself; every key must be there, so that nothing is left open by leaving it out."""
    needed = [f.name for f in fields(Work)]
    missing = [name for name in needed if name not in asked]
    if missing:
        raise Refused(f"a run must say {', '.join(missing)} before it begins: is it of another version?")
    try:
        return Work(**coerced(Work, {name: asked[name] for name in needed}, "a run"))
    except BadInput as error:
        raise Refused("; ".join(lines_of(error))) from None


def check_begin(policy: Policy, asked: Mapping[str, Any], requester: str, today: int = 0) -> None:
    """A run begins, asked for by this person; `today` runs began here within 24 hours."""
    lines = objections(policy, work_of(asked), requester)
    if today >= policy.runs_a_day:
        lines.append(f"{today} runs began within 24 hours, all that runs_a_day allows: wait, or raise it")
    _refuse("; ".join(lines))


def objections(policy: Policy, work: Work, requester: str = "") -> list[str]:
    """One line for each thing that the policy does not allow."""
    needs = {
        "to_coordinator": (work.coordinator and not work.sealed) or work.opened,
        "open": work.opened,
        "to_peers": work.peers,
        "rows": work.rows,
        "distances": work.distances,
        "sums": work.sums,
    }
    lines = [unlisted("requester", requester, policy.requesters)] if requester else []
    lines += [unlisted("kernel", name, policy.kernels) for name in work.kernels]
    lines += [unlisted("model", work.model, policy.models)]
    lines += [above(work.parameters, "parameters", policy.max_parameters, "max_parameters")]
    lines += [above(work.rounds, "rounds", policy.max_rounds, "max_rounds")]
    lines += [barred(policy, key) for key, needed in needs.items() if needed]
    if policy.sealed and not work.sealed:
        lines.append(f"{UNSEALED}: run with --wrap sealed, or set sealed = false")
    if policy.epsilon is not None:
        lines += unbounded(policy, work)
    if work.sites < policy.min_sites:
        lines.append(
            f"{work.sites} sites, below the policy's {policy.min_sites}: ask more, or lower min_sites"
        )
    if policy.deal is not None and work.deal != policy.deal:
        have = f"rows held out by seed {work.deal}, where the policy has {policy.deal}"
        lines.append(f"{have}: run with --deal {policy.deal}, or change deal")
    return [line for line in lines if line]


def unbounded(policy: Policy, work: Work) -> list[str]:
    """What a run would do outside of the budget."""
    lines = []
    if not work.bounded:
        have = f"local work without noise, where the policy has epsilon = {policy.epsilon:g}"
        lines.append(f'{have}: take --kernel "dp(sgd)", or leave epsilon out')
    if work.clear_scores and not policy.clear_scores:
        have = f"scores without noise, where the policy has epsilon = {policy.epsilon:g}"
        lines.append(f"{have}: run with --wrap private:scores=noisy or none, or set clear_scores = true")
    return lines


def check_message(
    policy: Policy, message: Mapping[str, Any], size: int, visits: int = 0, foreign: Collection[int] = ()
) -> int:
    """Any message that a site may be asked to act on (`nets/site.py`), of `size` bytes.

    `visits` is how many models the run has tried here so far; how many it has after this one is returned.
    `foreign` are ids of what came from other sites and is as it came (`origins.py`).
    """
    check_size(policy, size)
    what = message.get("do") if isinstance(message, Mapping) else message
    try:
        if what == "begin":
            check_model(policy, message["model"])
        elif what == "visit":
            rows = [*message["beliefs"], *(row for some in message["beside"].values() for row in some)]
            tried, round = len(message["rows"]), int(message["key"]["round"])
            check_visit(policy, message["kernel"], visits, tried, round, holds(rows, foreign))
            return visits + tried
        elif what == "seal":
            return visits
        elif policy.sealed and what in ("letter", "give"):
            raise Refused(f"{UNSEALED}: run with --wrap sealed, or set sealed = false")
        elif what == "letter" and message.get("to") is not None:
            check_may(policy, "to_peers")
        elif what in ("letter", "give"):  # a letter to nobody goes to who asks for it
            check_give(policy, message.get("why") == "open", holds(message["rows"], foreign))
        elif what in ("rows", "distances"):
            check_may(policy, what)
        elif what not in STAYS:
            raise Refused(f"{shown(what)} is nothing that a site can be asked: is it of another version?")
    except (AttributeError, LookupError, OverflowError, TypeError, ValueError):
        raise Refused(f"a message {shown(what)} that lacks something: is it of another version?") from None
    return visits


def objection_to(limits: Limits, told: Mapping[str, Any]) -> str:
    """Why a site withdraws from a sum with these figures; nothing if it stays."""
    share, others, leverage = told["share"], told["others"], told["leverage"]
    shares = all(type(x) in (int, float) and 0 <= x <= 1 + 1e-6 for x in (share, leverage))
    if not shares or type(others) is not int or others < 0:
        raise Refused(f"an offer of {shown(dict(told))}, which is none: is it of another version?")
    return limits.objection(float(share), others, float(leverage))


def check_promised(
    limits: Limits, promised: Collection[tuple[str, int]], to: str, rows: Sequence[Any], why: Any
) -> None:
    """Models of ours leave for a sum only if the site has been offered that sum, and stays in it.

    What is to be tried or measured elsewhere is another matter: `to_peers` and `distances` rule it out. Who
    asks may say that it is for that, and sum it all the same: a site cannot see it.
    """
    if not limits or why in TRIED:
        return
    whom = shown(to)[1:-1] or "who leads the run"
    if why == "copy" and (said := limits.objection(*ALONE)):
        raise Refused(f"a whole model for {whom} to keep ({said}): choose a method that mixes")
    if why != "copy" and not all((to, part[0]) in promised for row in rows for part in row):
        raise Refused(
            f"a model for a sum of {whom} that this site was not offered, or withdrew from: ask it before, "
            "and mix without it"
        )


def check_rows(policy: Policy, sizes: Mapping[str, int]) -> None:
    """Rows of each part: figures of a few rows would tell them."""
    for part, many in sizes.items():
        if 0 < many < policy.min_rows:
            raise Refused(
                f"{many} rows for {part}, below the policy's {policy.min_rows}: take other shares, or lower "
                "min_rows"
            )


def check_quality(policy: Policy, rows: int) -> None:
    """Quantiles of columns and counts of findings, of so many rows, which have no noise."""
    check_may(policy, "quality")
    if policy.epsilon is not None:
        have = f"quantiles without noise, where the policy has epsilon = {policy.epsilon:g}"
        raise Refused(f"{have}: look at home with coterie check, or leave epsilon out")
    if rows < policy.min_rows:
        raise Refused(f"{rows} rows to check, below the policy's {policy.min_rows}: lower min_rows")


def check_deals(policy: Policy, today: int) -> None:
    """One more way to set rows aside, after so many within a day."""
    if today >= policy.deals_a_day:
        raise Refused(
            f"rows were set aside in {today} ways within 24 hours, all that deals_a_day allows: take one "
            "--deal for all seeds, wait, or raise it"
        )


def check_size(policy: Policy, size: int) -> None:
    """Any message, of a lead or of another site."""
    _refuse(above(size, "bytes in a message", policy.max_bytes, "max_bytes"))


def check_model(policy: Policy, name: str, parameters: int = 0) -> None:
    """A model by name, and by its numbers as the site counts them, best before they take up memory."""
    _refuse(unlisted("model", name, policy.models))
    _refuse(above(parameters, "parameters", policy.max_parameters, "max_parameters"))


def check_visit(
    policy: Policy,
    kernel: Mapping[str, Any],
    visits: int,
    tried: int = 1,
    round: int = 0,
    foreign: bool = False,
) -> None:
    """A kernel told as data, for `tried` models, after so many visits of the run; `foreign` says that a model
    among them is as it came from another site.
    """
    names = names_in(kernel)
    for name in names:
        if name not in KERNELS:
            raise Refused(str(UnknownName("kernel", name, KERNELS)))
        _refuse(unlisted("kernel", name, policy.kernels))
    _refuse(above(visits + tried, "models tried here in a run", policy.max_visits, "max_visits"))
    _refuse(above(round, "rounds", policy.max_rounds, "max_rounds"))
    if looks(KERNELS[names[0]]):
        check_may(policy, "sums")
        check_least(policy, kernel)
    sees = not makes(KERNELS[names[0]])  # a maker looks at no row
    if foreign and sees and policy.scores == "own":
        line = "a model of another site would be tried on our rows, where the policy's scores are own"
        raise Refused(f'{line}: choose another method, or set scores = "all"')


def check_least(policy: Policy, kernel: Mapping[str, Any]) -> None:
    """Figures of a class of few rows would tell them; how few, whoever leads the run may ask for less."""
    least = kernel.get("least", policy.min_rows)
    if least < policy.min_rows:
        raise Refused(
            f"classes of {shown(least)} rows would be told of, below the policy's {policy.min_rows}: run "
            f"with --similar.least {policy.min_rows}, or lower min_rows"
        )


def check_give(policy: Policy, opened: bool = False, foreign: bool = False) -> None:
    """Models for whoever leads the run, to be looked at or not; those of other sites are theirs to give."""
    check_may(policy, "open" if opened else "to_coordinator")
    if foreign:
        raise Refused("a model that came from another site is not given away: ask that site for it")


def check_may(policy: Policy, key: str) -> None:
    """Whatever `MAY` lists, by its key."""
    _refuse(barred(policy, key))


def unlisted(kind: str, name: str, known: Collection[str] | None) -> str:
    if known is None or name in known:
        return ""
    some = ", ".join(sorted(known)[:LISTED]) + (", ..." if len(known) > LISTED else "")
    return f"{kind} {shown(name)} is not in the policy's list ({some or 'empty'}): add it to {kind}s"


def above(asked: int, what: str, most: int, key: str) -> str:
    line = f"{shown(asked)} {what}, above the policy's {most}: ask for fewer, or raise {key}"
    return line if asked > most else ""


def barred(policy: Policy, key: str) -> str:
    line = f"{MAY[key]}, which the policy rules out: choose another way, or set {key} = true"
    return "" if getattr(policy, key) else line


def _refuse(line: str) -> None:
    if line:
        raise Refused(line)


def names_in(kernel: Mapping[str, Any]) -> list[str]:
    """The names of a kernel told as data and of all kernels inside of it, the outermost first."""
    names, left = list[str](), [kernel]
    while left:
        now = left.pop()
        names.append(str(now.get("name", "")))
        left += [value for value in now.values() if isinstance(value, Mapping)]
    return names


def holds(rows: Sequence[Any], ids: Collection[int]) -> bool:
    """Whether any of these beliefs, each in parts [id, names], has a part with one of these ids."""
    return any(part[0] in ids for row in rows for part in row)
