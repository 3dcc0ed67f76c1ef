"""Every key of a site's policy: what it decides, its usual value, its bounds, and which runs it refuses.

A key is one field of `Policy`, and all that is known of it stands there. The reader of policy files and the
check before a run ask these entries; the table in docs/federation.md and deploy/policy.toml are made of them
(`pages.py`). The first paragraph below a key is its line in that table, the second is said in the file
alone. What a key asks of a message in the middle of a run is in `rules.py`, or where its name is found.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeVar

from coterie.core.errors import BadInput, Gathered, shown
from coterie.core.facts import kernel_fact
from coterie.core.kernel import KERNELS
from coterie.models import MODELS
from coterie.nets.offers import Limits
from coterie.privacy.accounting import check_budget

T = TypeVar("T")
_LISTED = 8  # names that a refusal lists
UNSEALED = "models trained here would leave as they are, where the policy has sealed = true"


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


def not_listed(kind: str, name: str, known: Collection[str] | None) -> str:
    if known is None or name in known:
        return ""
    some = ", ".join(sorted(known)[:_LISTED]) + (", ..." if len(known) > _LISTED else "")
    return f"{kind} {shown(name)} is not in the policy's list ({some or 'empty'}): add it to {kind}s"


def above(asked: int, what: str, most: int, key: str) -> str:
    line = f"{shown(asked)} {what}, above the policy's {most}: ask for fewer, or raise {key}"
    return line if asked > most else ""


def tells_sums(names: Iterable[str]) -> bool:
    """Whether one of these kernels replies with sums of columns. Sealed, nobody sees those of a site."""
    return any(kernel_fact(KERNELS[name], "sums") is True for name in names if name in KERNELS)


@dataclass(frozen=True)
class _Entry:
    """What is known of a key beside its type and its usual value.

    usual     the usual value in words; `example` a value for the example file, where there is none
    known     names that a list of the key may have
    bound     refuses a value (name, value, policy)
    may       of a key that is true or false: what would be done, if a run `needs` it
    objects   why a run is refused, in lines
    """

    usual: str = ""
    example: Any = None
    known: Collection[str] | None = None
    bound: Callable[[str, Any, Policy], object] = lambda name, value, policy: None
    may: str = ""
    needs: Callable[[Policy, Work], bool] = lambda policy, work: False
    objects: Callable[[Policy, Work], Iterable[str]] = lambda policy, work: ()


def _policy_key(default: T, **facts: Any) -> T:
    made: T = field(default=default, metadata={"entry": _Entry(**facts)})
    return made


def _at_least(least: int, remedy: str = "") -> Callable[[str, Any, Policy], None]:
    def check(name: str, value: Any, policy: Policy) -> None:
        if value is not None and not least <= value < 1e18:
            usual = remedy or getattr(Policy, name)
            raise BadInput(f"{name} = {value} must be at least {least}: try {usual}")

    return check


def _part_of_one(name: str, value: float, policy: Policy) -> None:
    if not 0 < value <= 1:
        raise BadInput(f"{name} = {value} must be above 0 and at most 1: try {getattr(Policy, name)}")


def _epsilon_of(name: str, value: float | None, policy: Policy) -> None:
    if value is not None:
        check_budget(value, 0.5, name)
    if name != "epsilon" and value is not None and policy.epsilon is None:
        raise BadInput(f"{name} needs epsilon, for all together: set it too")


def _to_look_at(name: str, value: bool, policy: Policy) -> None:
    if value and not policy.to_coordinator:
        raise BadInput("open = true needs to_coordinator = true: change one of them")


def _too_many(what: str) -> Callable[[Policy, Work], Iterable[str]]:
    key = f"max_{what}"
    return lambda policy, work: [above(getattr(work, what), what, getattr(policy, key), key)]


def _too_few_sites(policy: Policy, work: Work) -> Iterable[str]:
    if work.sites < policy.min_sites:
        yield f"{work.sites} sites, below the policy's {policy.min_sites}: ask more, or lower min_sites"


def _not_sealed(policy: Policy, work: Work) -> Iterable[str]:
    if policy.sealed and not work.sealed:
        yield f"{UNSEALED}: run with --wrap sealed, or set sealed = false"


def _other_deal(policy: Policy, work: Work) -> Iterable[str]:
    if policy.deal is not None and work.deal != policy.deal:
        have = f"rows held out by seed {work.deal}, where the policy has {policy.deal}"
        yield f"{have}: run with --deal {policy.deal}, or change deal"


def _without_noise(policy: Policy, work: Work) -> Iterable[str]:
    if policy.epsilon is not None and not work.bounded:
        have = f"local work without noise, where the policy has epsilon = {policy.epsilon:g}"
        yield f'{have}: take --kernel "dp(sgd)", or leave epsilon out'


def _clear_scores(policy: Policy, work: Work) -> Iterable[str]:
    if policy.epsilon is not None and work.clear_scores and not policy.clear_scores:
        have = f"scores without noise, where the policy has epsilon = {policy.epsilon:g}"
        yield f"{have}: run with --wrap private:scores=noisy or none, or set clear_scores = true"


@dataclass(frozen=True)
class Policy:
    """What a site takes part in; what its file does not have is as here."""

    requesters: tuple[str, ...] | None = _policy_key(
        None, usual="everybody with role lead", example=("lead",)
    )
    """names of people whose work is accepted

    They are those in people's certificates."""

    kernels: tuple[str, ...] | None = _policy_key(
        None,
        usual="all",
        example=("sgd", "adam", "score", "calibrate", "crowd", "tallied", "here"),
        known=KERNELS,
        objects=lambda policy, work: [not_listed("kernel", name, policy.kernels) for name in work.kernels],
    )
    """what may be done with a model here, by name, what is inside of others too

    So fold(sgd) needs both. Runs score models with calibrate, crowd and tallied, and some methods ask who
    is there with here."""

    models: tuple[str, ...] | None = _policy_key(
        None,
        usual="all",
        example=("logistic", "linear", "mlp"),
        known=MODELS,
        objects=lambda policy, work: [not_listed("model", work.model, policy.models)],
    )
    """models that may be trained here, by name"""

    max_parameters: int = _policy_key(
        100_000_000, usual="100 million", bound=_at_least(1), objects=_too_many("parameters")
    )
    """numbers of a model"""

    max_rounds: int = _policy_key(1000, bound=_at_least(1), objects=_too_many("rounds"))
    """rounds of a run"""

    max_visits: int = _policy_key(100_000, bound=_at_least(1))
    """models that a run may train or score here, counted one by one"""

    max_bytes: int = _policy_key(2**30, usual="1 GiB", bound=_at_least(1))
    """bytes of one message, as it crosses and as it unpacks;
    [what senders may hold](#what-messages-may-take)"""

    max_steps: int = _policy_key(1_000_000, usual="1 million", bound=_at_least(1))
    """gradients that one visit may take"""

    max_seconds: float = _policy_key(600.0, usual="600", bound=_at_least(1))
    """seconds that one message may take; work is then ended, and the site goes on"""

    max_memory: int = _policy_key(2**33, usual="8 GiB", bound=_at_least(1))
    """bytes that one message may take up here, foreseen before it does"""

    runs_a_day: int = _policy_key(1000, bound=_at_least(0, "0, or leave it out"))
    """runs that may begin within 24 hours"""

    deals_a_day: int = _policy_key(30)
    """ways to set rows aside for testing within 24 hours: one for each seed, share and roster; and as many
    checks of the data

    By many of them, figures and sums would tell single rows."""

    answers_a_day: int = _policy_key(1_000_000, usual="1 million", bound=_at_least(0, "0, or leave it out"))
    """models that may be trained or scored here within 24 hours, whoever asks"""

    min_rows: int = _policy_key(5, bound=_at_least(1))
    """rows that each part must have that is trained, validated or tested on; that each visit looks at, and
    each of its steps; and by which the rows of visits differ if they do, those of two and of any
    combination ([row sets](privacy.md#row-sets))

    Figures of a few rows would tell them, and two visits that differ by one row would tell that row."""

    row_leverage: float = _policy_key(0.75, bound=_part_of_one)
    """how much of what is one row's own the rows of all visits that there ever were may give away together,
    up to 1

    A site that has told of its rows in many ways refuses further ones: with one deal and one seed for all
    runs there are few."""

    to_coordinator: bool = _policy_key(
        True,
        may="models trained here would go to whoever leads the run",
        needs=lambda policy, work: (work.coordinator and not work.sealed) or work.opened,
    )
    """may models trained here go to the lead, to be mixed there?

    They arrive readable: a method that does not look at them is a promise of who leads. With false, only
    methods whose models go from site to site."""

    open: bool = _policy_key(
        False,
        bound=_to_look_at,
        may="whoever leads the run would look at single models",
        needs=lambda policy, work: work.opened,
    )
    """may the lead look at single models?

    Methods that say they do are refused otherwise."""

    to_peers: bool = _policy_key(
        True, may="models trained here would go to other sites", needs=lambda policy, work: work.peers
    )
    """may models trained here go to other sites?

    What they do with them is up to their own policies."""

    rows: bool = _policy_key(False, may="rows would leave the site", needs=lambda policy, work: work.rows)
    """may the rows themselves leave?

    Only yardsticks with all rows in one place ask for it: there is hardly a reason."""

    scores: Literal["own", "all"] = _policy_key("all")
    """whose models may be tried on these rows; `"own"`: none as it came from another site

    Methods that choose partners by trying them out do not work then."""

    label_counts: bool = _policy_key(False)
    """may it be told how many rows there are of each class, and with them sensitivity, specificity, net
    benefit and tallies by threshold, which say so?"""

    distances: bool = _policy_key(
        True, may="it would be told how far models are apart", needs=lambda policy, work: work.distances
    )
    """may it be told how far models are apart? `weight-erosion` needs it

    Many of them tell a model."""

    sums: bool = _policy_key(
        True,
        may="counts, means, deviations or quantiles of columns would be told",
        needs=lambda policy, work: work.sums or (not policy.sealed and tells_sums(work.kernels)),
    )
    """may counts, means and deviations of columns be told, for a scale that sites share, and
    [sketches](similarity.md) of rows? Of sketches, other sites of the run are told by how much their
    columns differ from ours. And may [sums over rows](privacy.md#sums-over-rows) go where models go
    (`pooled`, `partial`, `recalibrated`)? With `sealed` they may anyway

    With false, recipes need scale = "site" or "constants"."""

    quality: bool = _policy_key(
        True, may="quantiles of columns, and counts of what a check found in them, would be told"
    )
    """may 19 quantiles of columns be told, and how often a [check of the data](quality.md) found what?

    Which rows stays here, in quality.json."""

    sealed: bool = _policy_key(False, objects=_not_sealed)
    """may models trained here leave only sealed, so that nobody sees one? See [sealed
    runs](privacy.md#sealed)

    Runs with --wrap sealed do that."""

    share_at_most: float = _policy_key(1.0, bound=lambda name, value, policy: policy.limits)
    """how much of a sum at somebody else's place a model of ours may make up, up to 1; the site withdraws
    from others ([ownership](ownership.md))

    It is told of this and the next two before the sum is made; the run goes on without us in that sum, and
    says so."""

    others_at_least: int = _policy_key(0)
    """how many other sites must be in such a sum, besides us and whoever gets it; sealed, helpers keep to
    it"""

    leverage: float = _policy_key(1.0)
    """how much of a model of ours the sums that somebody gets may give away, up to 1; sealed, helpers keep to
    it"""

    plans: Literal["allow", "ask"] = _policy_key("allow")
    """may a run within the policy begin unless a person here said no to its plan, or `"ask"`: only if one
    said yes ([the plan of a run](#the-plan-of-a-run))?

    The yes is said with coterie decide KIT --allow-plan PLAN, or on the page; plans that came are in
    plans.jsonl."""

    circles: Literal["allow", "ask"] = _policy_key("allow")
    """may models of ours be in circles and sums of another site unless a person here said no to it, or
    `"ask"`: only if one said yes ([the owner's veto](ownership.md#the-owners-veto))?

    The yes is said with coterie decide KIT --allow NAME, or on the page; offers wait in offers.jsonl."""

    epsilon: float | None = _policy_key(
        None, usual="no bound", example=3.0, bound=_epsilon_of, objects=_without_noise
    )
    """what all runs of all leads may spend of [differential privacy](private-training.md), together; local
    work without noise is refused then

    The site accounts for every visit in ledger.jsonl of its state folder."""

    delta: float = _policy_key(
        1e-5, usual="0.00001", bound=lambda name, value, policy: check_budget(1.0, value)
    )
    """the delta of that; below 1 / rows"""

    epsilon_a_requester: float | None = _policy_key(
        None, usual="as all together", example=1.0, bound=_epsilon_of
    )
    """what one lead may spend"""

    clear_scores: bool = _policy_key(False, objects=_clear_scores)
    """with an `epsilon`: may scores leave without noise, outside of the budget?"""

    min_sites: int = _policy_key(2, bound=_at_least(1), objects=_too_few_sites)
    """sites of a run that must be connected, by their certificates, this one among them

    With fewer, a sum of models says much about each."""

    deal: int | None = _policy_key(
        None, usual="each run's own", example=0, bound=_at_least(0, "0, or leave it out"), objects=_other_deal
    )
    """the only seed by which rows may be held out for testing; runs then need `--deal`

    So that nobody asks for other test rows run after run."""

    def __post_init__(self) -> None:
        wrong = Gathered()
        for name, entry in ENTRIES.items():
            with wrong.one():
                entry.bound(name, getattr(self, name), self)
        wrong.refuse()

    @property
    def limits(self) -> Limits:
        """What a site wants to be sure of before a model of its own is used in a sum elsewhere."""
        return Limits(self.share_at_most, self.others_at_least, self.leverage)

    def rules_out(self, key: str) -> str:
        """Why not, of what the key says that a site may do; nothing if it does."""
        line = f"{MAY[key]}, which the policy rules out: choose another way, or set {key} = true"
        return "" if getattr(self, key) else line


ENTRIES: Mapping[str, _Entry] = {f.name: f.metadata["entry"] for f in fields(Policy)}
MAY = {name: entry.may for name, entry in ENTRIES.items() if entry.may}


def objections(policy: Policy, work: Work, requester: str = "") -> list[str]:
    """One line for each thing that the policy does not allow."""
    lines = [not_listed("requester", requester, policy.requesters)] if requester else []
    for name, entry in ENTRIES.items():
        lines += entry.objects(policy, work)
        lines += [policy.rules_out(name)] if entry.needs(policy, work) else []
    return [line for line in lines if line]
