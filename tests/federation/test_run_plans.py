"""A run says beforehand what it will ask of a site, and a site that has read it does nothing else."""

from __future__ import annotations

import json
from html import escape

import pytest
import torch
from msgspec import structs
from planned import plan_for
from room import NAMES, Room
from test_contract_federation import DAILY, LINEAR, NEEDS, ONCE, OPTIONS, PLAIN, WORK

from coterie.cli.main import main
from coterie.core.errors import BadInput, BadRun, Refused
from coterie.core.wire import pack, unpack
from coterie.federation.kits.authority import found_federation
from coterie.federation.plans import dry_run
from coterie.federation.plans import plan as plans
from coterie.federation.plans.at_site import plan_objections, plan_words
from coterie.federation.policy.keys import Policy
from coterie.federation.policy.rules import STAYS
from coterie.federation.site.consent import PLANS, known_plans
from coterie.federation.site.session import Session
from coterie.kernels.natural import only_work
from coterie.methods import METHODS
from coterie.page.decisions import plans as page_of
from coterie.page.decisions import site_decides
from coterie.page.library import Library, Site
from coterie.runs import about
from coterie.show.words import Words
from coterie.storage import decisions

ALWAYS = frozenset({"offer", "keep", "store", "fetch", "lacks"})  # every run has them, and they tell nothing
FREE = dict.fromkeys(NAMES, Policy(open=True, rows=True, label_counts=True, min_rows=2))
MLP = {"model": "mlp", "validation": 0.2}


def options_for(method: str) -> dict:
    work = {**WORK, "keep": method not in ONCE | {"data-interpolation"}}
    work["momentum"] = 0.0 if method in PLAIN else WORK["momentum"]
    tables = {**({} if method == "nothing" else {"sgd": work}), "mlp": {"hidden": [6]}}
    return tables | ({method: OPTIONS[method]} if method in OPTIONS else {})


def refusals(room):
    return [line for name in room.names for line in room.diary(name) if "outside of" in line["outcome"]]


def nothing_was_refused(room, record):
    assert not refusals(room)
    assert not any(m.get("away") for m in record.metrics)


# honest runs


@pytest.mark.parametrize("method", [m for m in METHODS if m not in (*NEEDS, *LINEAR)])
def test_every_method_keeps_to_its_own_plan(tmp_path, monkeypatch, method):
    room = Room(tmp_path, FREE, names=NAMES[:3], rows=40)
    folder, work = tmp_path / "run" if method in DAILY else None, only_work(METHODS[method]) or "sgd"
    options = {k: v for k, v in options_for(method).items() if k in (work, method, "mlp")}
    record = room.play(
        monkeypatch, folder, rounds=6, method=method, kernel=work, options=options, seed=1, **MLP
    )
    nothing_was_refused(room, record)
    assert len(record.metrics) == 7


def test_figures_of_the_first_class_are_within_the_plan(tmp_path, monkeypatch):
    room = Room(tmp_path, FREE, names=NAMES[:3], rows=40)
    monkeypatch.setattr(about, "positive_class", lambda roster: 0)
    monkeypatch.setattr(dry_run, "positive_class", lambda roster: 0)
    record = room.play(monkeypatch, rounds=3, method="fedavg", seed=1)
    nothing_was_refused(room, record)
    assert (record.about["positive"], len(record.metrics)) == (0, 4)


@pytest.mark.parametrize(
    "method",
    ["local", "fedavg", "fedprox", "finetune", "influence", "ndoye", "pens", *LINEAR, "recalibrated"],
)
def test_linear_models_are_solved_within_the_plan(tmp_path, monkeypatch, method):
    room = Room(tmp_path, FREE, names=NAMES[:3], rows=40)
    options = {method: OPTIONS[method]} if method in OPTIONS else {}
    asked = {"method": method, "kernel": "auto", "options": options, "seed": 1, "validation": 0.2}
    record = room.play(monkeypatch, tmp_path / "run", rounds=4, **asked)
    nothing_was_refused(room, record)
    assert record.config["kernel"] in ("ridge", "newton")
    assert len(record.metrics) == 5


WRAPPED = {
    "absent": ("fedavg", ("absent=0.4",), {}),
    "ownership": ("d-psgd", ("ownership:share_at_most=0.6",), {}),
    "contributions": ("fedavg", ("contributions",), {}),
    "contributions now and then": ("fedavg", ("contributions:every=4",), {}),
    "shapley": ("fedavg", ("contributions:by=gtg",), {}),
    "all sets": ("d-psgd", ("contributions:by=exact-shapley",), {}),
    "private": ("fedavg", ("private:epsilon=50,scores=noisy,delta=0.001",), {"kernel": "dp(sgd)"}),
    "private ranking": ("pens", ("private:epsilon=500,scores=noisy,delta=0.001",), {"kernel": "dp(sgd)"}),
    "similar with noise": ("similar", (), {"options": {"similar": {"epsilon": 5.0}}}),
    "without": ("fedavg", ("without:names=b",), {}),
    "absent, sums of columns": ("partial", ("absent=0.4",), {"kernel": "auto"}),
    "ownership, sums of columns": ("pooled", ("ownership:share_at_most=0.4",), {"kernel": "auto"}),
    "a circle": ("d-psgd", ("circle:of=a,without=b",), {}),
}


@pytest.mark.parametrize("case", WRAPPED)
def test_wrappers_are_within_the_plan(tmp_path, monkeypatch, case):
    method, wrap, more = WRAPPED[case]
    room = Room(tmp_path, FREE)
    record = room.play(monkeypatch, tmp_path / "run", rounds=8, method=method, wrap=wrap, **more)
    assert not refusals(room)
    assert len(record.metrics) == 9


def test_rounds_that_are_done_again_and_sites_that_come_late(tmp_path, monkeypatch):
    """d is not there when the run begins, b goes after the second round and comes back."""
    room = Room(tmp_path, FREE)
    room.gone = {"d"}

    def watch(record):
        room.gone = {2: {"b"}, 4: set()}.get(record.done, room.gone - {"d"})

    options = {"fedala": {}, **options_for("fedala")}
    record = room.play(
        monkeypatch, tmp_path / "run", watch, rounds=8, method="fedala", options=options, **MLP
    )
    assert not refusals(room)
    assert "d" in record.metrics[0]["away"]
    assert "b" in record.metrics[3]["away"]
    assert not record.metrics[-1].get("away")


class Cut(BaseException):
    """The lead's process goes."""


def test_a_run_that_goes_on_has_the_plan_that_it_began_with(tmp_path, monkeypatch):
    """Of other sites in the second process: who is away then is known by its name alone."""
    room = Room(tmp_path, FREE)

    def watch(record):
        if record.done == 2:
            raise Cut

    with pytest.raises(Cut):
        room.play(monkeypatch, tmp_path / "run", watch, rounds=4, method="pens", checkpoint=1)
    room.gone, room.boots["a"] = {"d"}, 2
    room.open("a")
    record = room.play(monkeypatch, tmp_path / "run", rounds=4, method="pens", checkpoint=1)
    nobody_else = {name for m in record.metrics for name in m.get("away", {})}
    assert nobody_else <= {"d"}
    assert len(record.metrics) == 5
    assert not refusals(room)


# what a site is shown


def test_the_plan_is_said_when_a_run_begins_and_written_down(tmp_path, monkeypatch):
    room = Room(tmp_path)
    room.play(monkeypatch, tmp_path / "run", rounds=2)
    said = room.said["a"]
    (first,) = [i for i, line in enumerate(said) if line.startswith("plan ")]
    assert said[first].endswith(" of lead: fedavg, 2 round(s), 4 sites, logistic of 8 numbers")
    lines = said[first + 1 : first + 8]
    assert lines[1].startswith("· sgd(lr=0.1, epochs=1, batch=32, ")
    assert "trains on 42 of 42 rows in 2 steps of 32; up to 1 model(s) a visit, 1 a round" in lines[1]
    assert "· models trained here go to lead, to be mixed" in lines
    assert "· lead is told loss, samples, and scores of models" in lines
    (noted,) = [json.loads(line) for line in (room.states["a"] / PLANS).read_text().splitlines()]
    assert (noted["lead"], noted["outcome"], noted["words"]) == ("lead", "begun", said[first : first + 8])
    room.play(monkeypatch, tmp_path / "again", rounds=2, seed=5)
    assert len((room.states["a"] / PLANS).read_text().splitlines()) == 1  # what it asks is the same


def test_words_count_no_steps_that_would_take_long():
    begin = {"sites": NAMES, **dict.fromkeys(plans.BEGIN, "x")}
    huge = plans.PlannedVisit({"name": "sgd", "steps": 10**7, "batch": 112}, 1, 1, 1)
    words = plan_words(plan_for(begin, visits=(huge,)), "lead", {"train": 112}, Policy())
    assert "cannot be done here: 10000000 gradients in a visit, above the policy's 1000000" in words[1]


@pytest.mark.parametrize(
    "kernel",
    [
        {"name": "held-out", "folds": 154},
        {"name": "hmc", "steps": 10_000, "leaps": 100_000},
        {"name": "sgd", "steps": 10**7, "batch": 112},
        {"name": "sgd", "batch": 1},
    ],
    ids=str,
)
def test_a_plan_of_what_the_policy_rules_out_does_not_begin(kernel):
    begin = {"sites": NAMES, **dict.fromkeys(plans.BEGIN, "x")}
    visits = (plans.PlannedVisit(kernel, 1, 1, 1),)
    lines = plan_objections(plan_for(begin, visits=visits), {"train": 112}, Policy())
    assert len(lines) == 1
    assert "the policy's" in lines[0]


@pytest.mark.parametrize("order", ["give secretly", "letter", "mix it", "give mix "])
def test_a_plan_has_no_order_that_people_are_not_shown(order):
    """Whatever a message calls what a model is for is held against the plan, by that word."""
    plan = plan_for({"sites": NAMES, **dict.fromkeys(plans.BEGIN, "x")}, orders=(order,))
    (line,) = plan_objections(plan, {"train": 112, "test": 40}, Policy())
    assert line.startswith(f"{order!r} is no order that is known here")


def test_a_plan_says_which_numbers_are_told_whatever_it_says_of_itself():
    begin = {"sites": NAMES, **dict.fromkeys(plans.BEGIN, "x")}
    visits = (
        plans.PlannedVisit({"name": "downhill"}, 1, 1, 1),
        plans.PlannedVisit({"name": "here"}, 1, 1, 1),
    )
    words = plan_words(plan_for(begin, visits=visits, reveals={}), "lead", {"train": 112}, Policy())
    assert "· lead is told loss, samples, steepness, and scores of models" in words


def test_what_is_noted_of_a_plan_is_short(own_lead):
    """Notes of plans are written anew with each that comes: of 200 with a megabyte each that takes long."""
    begin, plan = own_lead.begin, plans.plan_of(own_lead.begin["plan"]["plan"])
    many = tuple(plans.PlannedVisit({"name": "fold", "folds": i}, 1, 1, 1) for i in range(2, 900))
    for run, change in enumerate(({"method": "x" * 900_000}, {"wraps": ("x" * 900_000,)}, {"visits": many})):
        own = {**begin, "run": f"{run:032x}"}
        other = structs.replace(plan, **change)
        own["plan"] = plans.signed_plan(own_lead.room.kits["lead"], own["run"], other)
        own_lead.ask(own)
    assert (own_lead.room.states["a"] / PLANS).stat().st_size < 40_000


# a lead that does otherwise


class Lead:
    """Has begun a run of fedavg at site a, which has trained one model, and may send it anything."""

    def __init__(self, room, monkeypatch):
        self.room, self.station, self.card = room, room.stations["a"], room.kits["lead"].card

        class Enough(BaseException):
            pass

        def watch(record):
            if record.done == 2:
                raise Enough

        with pytest.raises(Enough):
            room.play(monkeypatch, room.states["a"].parent / "run", watch, rounds=4)
        self.begin = room.asked("a", "begin")[-1]
        self.visit = [m for m in room.asked("a", "visit") if m["kernel"]["name"] == "sgd"][-1]

    def ask(self, message, tensors=None, card=None):
        return unpack(self.station.answer(card or self.card, {}, pack(message, tensors or {})))[0]

    def tries(self, **kernel):
        """A model of its own, by a kernel of its own."""
        model = {"7/head.weight": torch.zeros(2, 3), "7/head.bias": torch.zeros(2)}
        row = [[7, ["head.weight", "head.bias"]]]
        return self.ask({**self.visit, "kernel": kernel, "beliefs": [row], "replies": [10**9]}, model)


@pytest.fixture(scope="module")
def lead(tmp_path_factory):
    """One for all tests that are refused, and leave it as it was."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        yield Lead(Room(tmp_path_factory.mktemp("lead")), monkeypatch)


@pytest.fixture
def own_lead(tmp_path, monkeypatch):
    return Lead(Room(tmp_path), monkeypatch)


HOSTILE = {
    "rows by folds": {"name": "held-out", "folds": 42, "fold": 3},
    "a fold of two": {"name": "held-out", "folds": 2},
    "folds inside": {"name": "fold", "folds": 42, "inside": True, "inner": {"name": "sgd"}},
    "one row a step": {"name": "sgd", "batch": 1},
    "ten million steps": {"name": "sgd", "steps": 10**7, "batch": 112},
    "a step more": {"name": "sgd", "epochs": 2},
    "another rate": {"name": "sgd", "lr": 0.2},
    "hmc": {"name": "hmc", "steps": 10000, "leaps": 100000},
    "scores": {"name": "score", "part": "train"},
    "more than scores": {"name": "calibrate", "part": "validation"},
    "moments": {"name": "moments", "columns": 3},
    "work around work": {"name": "proximal", "inner": {"name": "sgd"}},
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_visit_outside_of_the_plan_is_refused_and_named(lead, case):
    kernel = HOSTILE[case]
    answer = lead.tries(**kernel)
    assert answer["error"] == "Refused", answer
    assert answer["text"].startswith(f"{kernel['name']}(")
    assert "is outside of the run's plan" in answer["text"]
    assert "sgd(lr=0.1, " in answer["text"]  # what the plan has
    assert "outside of the run's plan" in lead.room.diary("a")[-1]["outcome"]


def test_what_is_planned_is_done_however_it_is_written(lead):
    assert "error" not in lead.tries(name="sgd")  # all options as usual
    assert "error" not in lead.tries(**lead.visit["kernel"])


ORDERS = {
    "a model that others made": {"do": "mix", "rows": [], "new": [5]},
    "a look at a model": {"do": "give", "rows": [], "new": [], "why": "open"},
    "a model for nothing in particular": {"do": "give", "rows": [], "new": []},
    "a model for others": {
        "do": "letters",
        "orders": [{"to": "b", "rows": [], "new": [], "why": "mix"}],
        "deadline": 1,
        "patience": 1,
    },
    "rows": {"do": "rows"},
    "distances": {"do": "distances", "replies": [], "origin": [], "guests": [], "to": [], "importance": None},
    "copies": {"do": "copy", "rows": [], "new": []},
    "models of others": {"do": "take", "copies": True},
    "sums": {"do": "unseal", "told": {}, "op": "x", "new": []},
}


@pytest.mark.parametrize("case", ORDERS)
def test_an_order_outside_of_the_plan_is_refused_and_named(lead, case):
    answer = lead.ask({**ORDERS[case], "run": lead.visit["run"]})
    assert answer["error"] == "Refused"
    assert "is outside of the run's plan" in answer["text"]


def test_no_more_rounds_models_or_bytes_than_planned(own_lead):
    lead = own_lead
    plan_guard, visit = lead.station.session.plan, lead.visit
    late = {**visit, "key": {**visit["key"], "round": 5}}
    assert "in round 5 is outside of the run's plan" in lead.ask(late)["text"]
    crowd = {**visit, "rows": [0] * 17}
    assert "on 17 models at once is outside" in lead.ask(crowd)["text"]
    for _ in range(4 * 4 * 6):
        last = lead.ask(visit).get("text", "")
    assert "on 97 models in the run is outside" in last
    with pytest.raises(Refused, match="a message of 9,999,999 bytes is outside"):
        plan_guard.check({"do": "keep"}, 9_999_999)


def test_a_ranking_may_deal_rows_in_so_many_ways_alone(tmp_path, monkeypatch):
    room = Room(tmp_path)
    options = {"ndoye": {"folds": 3, "passes": 1}}
    room.play(monkeypatch, rounds=2, method="ndoye", options=options)
    made = plans.plan_of(room.asked("a", "begin")[0]["plan"]["plan"])
    plan_guard = plans.PlanGuard(made, made.digest("lead"))
    kernel = {"name": "held-out", "folds": 3, "fold": 0, "seed": 0}
    asked = {"do": "visit", "rows": [0], "key": {"round": 1}}
    for seed in range(12):
        plan_guard.check({**asked, "kernel": {**kernel, "seed": seed}})
    with pytest.raises(Refused, match=r"on rows dealt in 13 ways is outside of .* which has 3"):
        plan_guard.check({**asked, "kernel": {**kernel, "seed": 12}})
    with pytest.raises(Refused, match="is outside"):
        plan_guard.check({**asked, "kernel": {**kernel, "folds": 42}})


def test_a_plan_has_something_to_say_of_every_order():
    verbs = {name.removeprefix("do_") for name in dir(Session) if name.startswith("do_")}
    others = (ALWAYS - {"lacks"}) | {"visit", "give", "letters"}
    assert verbs - {"begin", "letter"} == plans.PLAIN | plans.SEALING | others
    assert STAYS <= plans.PLAIN | plans.SEALING | ALWAYS


# the plan itself


def test_a_run_begins_with_its_leads_plan_or_not_at_all(lead, tmp_path):
    begin, text = lead.begin, lead.begin["plan"]["plan"]
    other = found_federation(tmp_path / "others", NAMES, ["lead"])[-1]
    changed = text.replace('"rounds":4', '"rounds":9')
    assert changed != text
    plan = plans.plan_of(text)
    for told, says in (
        (None, "a run without a plan"),
        ("x", "a message 'begin' that is not as it must be"),
        ({**begin["plan"], "plan": changed}, "a plan that lead has not signed for this run"),
        ({**begin["plan"], "signature": "AAAA"}, "a plan that lead has not signed for this run"),
        (plans.signed_plan(other, begin["run"], plan), "a plan that lead has not signed for this run"),
        (plans.signed_plan(lead.room.kits["b"], begin["run"], plan), "has not signed for this run"),
        (plans.signed_plan(lead.room.kits["lead"], "0" * 32, plan), "has not signed for this run"),
        (
            plans.signed_plan(lead.room.kits["lead"], begin["run"], structs.replace(plan, rounds=9)),
            f"of a run that began with plan {plan.digest('lead')}",
        ),
    ):
        answer = lead.ask({**begin, "plan": told})
        assert answer["error"] == "Refused"
        assert says in answer["text"]
    assert "error" not in lead.ask(begin)


def test_another_plan_is_refused_after_the_site_was_started_anew_too(own_lead):
    lead = own_lead
    begin, plan = lead.begin, plans.plan_of(lead.begin["plan"]["plan"])
    lead.room.open("a")
    lead.station = lead.room.stations["a"]
    for to, message in list(lead.room.seen):
        if to == "a" and message["do"] in ("deal", "sums", "fit"):
            lead.ask(message)
    wider = plans.signed_plan(lead.room.kits["lead"], begin["run"], structs.replace(plan, bytes=10**9))
    assert "of a run that began with plan" in lead.ask({**begin, "plan": wider})["text"]
    assert "error" not in lead.ask(begin)


@pytest.mark.parametrize(
    "change",
    [
        {"visits": ()},
        {"rounds": "3"},
        {"sealed": 1},
        {"orders": (1,)},
        {"visits": (plans.PlannedVisit({"name": "eval"}, 1, 1, 1),)},
        {"visits": (plans.PlannedVisit({"name": "sgd", "code": "x"}, 1, 1, 1),)},
        {"visits": (plans.PlannedVisit({"name": "sgd"}, 0, 1, 1),)},
    ],
    ids=str,
)
def test_what_is_no_plan_is_refused(change):
    plan = plan_for({"sites": NAMES, **dict.fromkeys(plans.BEGIN, "x")})
    assert plans.plan_of(plan.text) == plan
    with pytest.raises(Refused, match="a plan that cannot be read"):
        plans.plan_of(structs.replace(plan, **change).text)
    with pytest.raises(Refused, match="a plan that cannot be read"):
        plans.plan_of(plan.text.replace(",", ", ", 1))  # another spelling


def test_a_run_does_not_begin_otherwise_than_planned(lead):
    for change in ({"model": "mlp"}, {"shape": [4]}, {"engine": {"name": "auto"}}, {"sites": ["a", "b"]}):
        begin = {**lead.begin, **change}
        answer = lead.ask(begin)
        assert "plan has" in answer["text"]


# a person says yes, or no


def test_with_ask_a_plan_waits_for_a_yes(tmp_path, monkeypatch):
    room = Room(tmp_path, {"a": Policy(plans="ask")})
    record = room.play(monkeypatch, rounds=1)
    why = record.metrics[-1]["away"]["a"]
    (noted,) = [json.loads(line) for line in (room.states["a"] / PLANS).read_text().splitlines()]
    assert why == (
        f"plan {noted['plan']} of lead (fedavg, 1 round(s), 4 sites, logistic of 8 numbers): nobody at a has "
        "said yes yet: a person there does so on its page, or by coterie decide KIT --allow-plan "
        f"{noted['plan']}"
    )
    assert noted["outcome"] == why
    assert room.diary("a")[-1]["outcome"].startswith("refused: plan ")
    decisions.add(room.states["a"], "a", "plan", {"plan": noted["plan"], "allow": True}, by="ann")
    nothing_was_refused(room, room.play(monkeypatch, rounds=1, seed=3))  # once for all runs that ask the same
    other = room.play(monkeypatch, rounds=2)
    assert "nobody at a has said yes yet" in other.metrics[-1]["away"]["a"]


def test_a_no_counts_whatever_the_policy_says(tmp_path, monkeypatch):
    room = Room(tmp_path)
    nothing_was_refused(room, room.play(monkeypatch, rounds=1))
    (noted,) = [json.loads(line) for line in (room.states["a"] / PLANS).read_text().splitlines()]
    decisions.add(room.states["a"], "a", "plan", {"plan": noted["plan"], "allow": False}, by="ann")
    assert "a person at a said no (ann, " in room.play(monkeypatch, rounds=1).metrics[-1]["away"]["a"]
    decisions.add(room.states["a"], "a", "plan", {"plan": noted["plan"], "allow": True}, by="ann")
    nothing_was_refused(room, room.play(monkeypatch, rounds=1))
    (room.states["a"] / decisions.FILE).write_text("{\n")
    why = room.play(monkeypatch, rounds=1).metrics[-1]["away"]["a"]
    assert "nobody knows what people at a decided" in why


def test_nobody_finds_two_plans_of_one_digest(tmp_path, monkeypatch):
    """A lead could show one and ask by the other: of 48 bits two are the same among some 17 million plans,
    which takes minutes. A yes by such a digest, of earlier versions, is one to nothing; a no stays.
    """
    room = Room(tmp_path, {"a": Policy(plans="ask")})
    room.play(monkeypatch, rounds=1)
    (noted,) = [json.loads(line) for line in (room.states["a"] / PLANS).read_text().splitlines()]
    assert 4 * len(noted["plan"]) >= 128
    decisions.add(room.states["a"], "a", "plan", {"plan": noted["plan"][:12], "allow": True}, by="ann")
    assert "nobody at a has said yes yet" in room.play(monkeypatch, rounds=1).metrics[-1]["away"]["a"]
    decisions.add(room.states["a"], "a", "plan", {"plan": noted["plan"][:12], "allow": False}, by="ann")
    assert "a person at a said no" in room.play(monkeypatch, rounds=1).metrics[-1]["away"]["a"]


def test_if_all_wait_the_run_ends_with_a_line(tmp_path, monkeypatch):
    room = Room(tmp_path, dict.fromkeys(NAMES, Policy(plans="ask")))
    with pytest.raises(BadRun, match=r"no site takes part any more \(a: plan .*--allow-plan"):
        room.play(monkeypatch, rounds=1)


def kit_of(room):
    """The kit of site a, as if its state were there."""
    kit = room.kits["a"].folder
    (kit / "state").symlink_to(room.states["a"])
    return kit


def test_the_page_shows_plans_and_takes_answers(tmp_path, monkeypatch):
    room = Room(tmp_path, {"a": Policy(plans="ask")})
    site = Site("a", "ward", kit_of(room), room.states["a"])
    assert "No run has come yet." in page_of(site, Words())
    room.play(monkeypatch, rounds=1, kernel="sgd")
    (noted,) = known_plans(room.states["a"])
    shown = page_of(site, Words())
    for line in noted["words"]:
        assert escape(line) in shown
    assert "<strong>not answered</strong>" in shown
    form = {"site": ["a"], "plan": [noted["plan"]], "allow": ["1"]}
    site_decides(Library((), (site,)), form)
    assert "<strong>you said yes</strong>" in page_of(site, Words())
    nothing_was_refused(room, room.play(monkeypatch, rounds=1))
    site_decides(Library((), (site,)), {**form, "allow": ["0"]})
    assert "said no" in room.play(monkeypatch, rounds=1).metrics[-1]["away"]["a"]
    assert "vous avez dit non" in page_of(site, Words("fr"))
    with pytest.raises(BadInput, match="unknown plan"):
        site_decides(Library((), (site,)), {**form, "plan": ["<b>"]})


def test_no_word_of_a_plan_is_markup_on_the_page(tmp_path):
    (tmp_path / "state").mkdir()
    (tmp_path / "kit.toml").write_text('role = "site"\nname = "a"\n')
    line = {"plan": "<b>1", "words": ["<script>", "<img>"], "outcome": "<i>", "last": "<u>"}
    (tmp_path / "state" / PLANS).write_text(json.dumps(line) + "\n")
    shown = page_of(Site("a", "ward", tmp_path, tmp_path / "state"), Words())
    assert "&lt;script&gt;" in shown
    assert not any(tag in shown for tag in ("<script", "<img", "<b>", "<i>", "<u>"))


def test_a_person_decides_by_the_shell(tmp_path, monkeypatch, capsys):
    room = Room(tmp_path, {"a": Policy(plans="ask")})
    kit = kit_of(room)
    room.play(monkeypatch, rounds=1)
    (noted,) = [json.loads(line) for line in (room.states["a"] / PLANS).read_text().splitlines()]
    capsys.readouterr()
    assert main(["decide", str(kit), "--allow-plan", "0" * 12]) == 2
    assert f"unknown plan '{'0' * 12}'" in capsys.readouterr().err
    assert main(["decide", str(kit), "--allow-plan", noted["plan"]]) == 0
    assert f"a takes runs of plan {noted['plan']}" in capsys.readouterr().out
    nothing_was_refused(room, room.play(monkeypatch, rounds=1))
    assert main(["decide", str(kit), "--refuse-plan", noted["plan"]]) == 0
    assert f"a takes no run of plan {noted['plan']}" in capsys.readouterr().out
    assert "said no" in room.play(monkeypatch, rounds=1).metrics[-1]["away"]["a"]
