"""Budgets at real sites: visits with noise are in a ledger before they are answered; noise is a secret."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from types import SimpleNamespace

import hosts
import pytest
import torch
from planned import lead_of
from ward import LONG, Ward, write_tables

from coterie.core.charge import Charge
from coterie.core.errors import BadInput, BadRun, Refused, Several
from coterie.core.seeds import Key
from coterie.core.wire import pack, unpack
from coterie.data.sources.table import TableFile
from coterie.federation.data.site_data import SiteData
from coterie.federation.lead import connector
from coterie.federation.lead.sites import Lines, meet
from coterie.federation.policy.keys import Policy, Work, objections
from coterie.federation.policy.rules import policy_of
from coterie.federation.site.budget import LEDGER, SECRET, SiteBudget, content_of
from coterie.federation.site.server import SiteServer
from coterie.kernels import SGD, Calibrate, Noisy, Score
from coterie.kernels.dp import DP
from coterie.privacy.accounting import COARSE, epsilon
from coterie.runs import builder
from coterie.runs.loop import run
from coterie.runs.settings import Settings

pytest.importorskip("dp_accounting")
SITES, MATE = ("a", "b"), "mate"
LEAD = lead_of(SITES)
COST = (Charge(8.0),)
ROWS = {"train": 40, "validation": 0, "test": 20}
KERNEL = {"name": "dp", "inner": {"name": "sgd"}}


def eps(times: int, charge: Charge = COST[0]) -> float:
    """Enough for so many, and no more."""
    return epsilon(
        [Charge(charge.sigma, charge.rate, charge.cap, charge.rows, charge.times * times)], 1e-5, COARSE
    )


def entries(state: Path) -> list[dict]:
    path = state / LEDGER
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


# a budget


def test_what_was_spent_outlives_the_process_and_counts_for_all_leads(tmp_path):
    policy = Policy(epsilon=eps(3))
    budget = SiteBudget(tmp_path, policy)
    budget.spend("lead", "r1", KERNEL, COST, "1")
    budget.spend("lead", "r1", KERNEL, COST, "1")  # the same question again
    budget.spend(MATE, "r2", KERNEL, COST, "2")
    assert [(e["by"], e["run"], e["mark"]) for e in entries(tmp_path)] == [
        ("lead", "r1", "1"),
        (MATE, "r2", "2"),
    ]
    again = SiteBudget(tmp_path, policy)
    again.spend("lead", "r3", KERNEL, COST, "2")  # known from before
    again.spend("lead", "r3", KERNEL, COST, "3")
    with pytest.raises(BadRun, match=rf"out of budget: epsilon {eps(3):.3g} of {eps(3):g} is spent"):
        again.spend(MATE, "r4", KERNEL, COST, "4")
    assert len(entries(tmp_path)) == 3
    assert stat.S_IMODE((tmp_path / LEDGER).stat().st_mode) == 0o600


def test_one_lead_may_have_less(tmp_path):
    budget = SiteBudget(tmp_path, Policy(epsilon=eps(5), epsilon_a_requester=eps(2)))
    for i in range(2):
        budget.spend("lead", "r", KERNEL, COST, f"l{i}")
    with pytest.raises(BadRun, match="for lead is spent"):
        budget.spend("lead", "r", KERNEL, COST, "l2")
    budget.spend(MATE, "r", KERNEL, COST, "m0")


def test_a_line_that_was_cut_short_was_not_answered(tmp_path):
    budget = SiteBudget(tmp_path, Policy(epsilon=eps(2)))
    budget.spend("lead", "r", KERNEL, COST, "1")
    whole = (tmp_path / LEDGER).read_bytes()
    (tmp_path / LEDGER).write_bytes(whole + whole[:50])
    again = SiteBudget(tmp_path, Policy(epsilon=eps(2)))
    assert (tmp_path / LEDGER).read_bytes() == whole
    again.spend("lead", "r", KERNEL, COST, "2")
    assert [e["mark"] for e in entries(tmp_path)] == ["1", "2"]
    (tmp_path / LEDGER).write_bytes(b"{}\n" + whole)
    with pytest.raises(BadRun, match="line 1 is damaged"):
        SiteBudget(tmp_path, Policy())


def test_nothing_is_answered_that_cannot_be_written(tmp_path):
    budget = SiteBudget(tmp_path, Policy())
    (tmp_path / LEDGER).mkdir()
    with pytest.raises(BadRun, match="cannot write"):
        budget.spend("lead", "r", KERNEL, COST, "1")
    assert "1" not in budget.marks


def test_the_secret_is_made_once_and_is_its_owners(tmp_path):
    budget = SiteBudget(tmp_path, Policy())
    first = budget.secret
    assert (len(first), stat.S_IMODE((tmp_path / SECRET).stat().st_mode)) == (32, 0o600)
    assert SiteBudget(tmp_path, Policy()).secret == first
    (tmp_path / SECRET).write_bytes(b"short")
    with pytest.raises(BadRun, match="does not have 32 bytes"):
        _ = budget.secret


def test_any_difference_gives_another_key(tmp_path):
    budget, key = SiteBudget(tmp_path, Policy()), Key(0).at_round(3, 9)
    facts, w = {"run": "r", "slot": ""}, {"w": torch.zeros(1, 2)}
    contents = [
        content_of(facts, w, {}, None),
        content_of({**facts, "run": "s"}, w, {}, None),
        content_of(facts, {"w": torch.tensor([[0.0, 1e-30]])}, {}, None),
        content_of(facts, {"w": torch.zeros(1, 2).double()}, {}, None),
        content_of(facts, w, {"anchor": w}, None),
        content_of(facts, w, {}, w),
    ]
    keys = [budget.secret_key(content, key) for content in contents]
    assert budget.secret_key(contents[0], key) == keys[0]
    assert len({k.seed for k, _ in keys}) == len({mark for _, mark in keys}) == len(keys)
    assert (keys[0][0].round, keys[0][0].rounds) == (3, 9)
    (tmp_path / SECRET).unlink()
    assert budget.secret_key(contents[0], key) != keys[0]


def test_what_has_no_bound_is_refused_where_there_is_a_budget(tmp_path):
    budget = SiteBudget(tmp_path, Policy(epsilon=1.0))
    with pytest.raises(
        Refused, match='sgd gives no bound, where the policy has epsilon = 1: take --kernel "dp'
    ):
        budget.cost(SGD(), ROWS)
    with pytest.raises(Refused, match=r"calibrate gives no bound.*scores=noisy, or set clear_scores = true"):
        budget.cost(Calibrate(), ROWS)
    with pytest.raises(Refused, match="40 training rows"):
        budget.cost(DP(SGD(batch=64)), ROWS)
    assert budget.cost(Noisy(Score()), ROWS) == (Charge(20.0, times=2),)
    assert SiteBudget(tmp_path, Policy(epsilon=1.0, clear_scores=True)).cost(Calibrate(), ROWS) == ()
    assert SiteBudget(tmp_path, Policy()).cost(SGD(), ROWS) == ()


@pytest.mark.parametrize(
    ("table", "line"),
    [
        ({"epsilon": 0}, "policy: epsilon=0.0 must lie above 0 and be finite: try 3"),
        ({"epsilon": 1, "epsilon_a_requester": -1}, "policy: epsilon_a_requester=-1.0 must lie above 0"),
        (
            {"epsilon_a_requester": 1},
            "policy: epsilon_a_requester needs epsilon, for all together: set it too",
        ),
        ({"delta": 1}, "policy: delta=1.0 must lie between 0 and 1"),
    ],
)
def test_budgets_that_cannot_be_kept(table, line):
    with pytest.raises(BadInput) as caught:
        policy_of(table)
    assert str(caught.value).startswith(line)


def test_a_lead_hears_before_it_begins():
    work, policy = Work("logistic", sites=3), Policy(epsilon=3.0)
    assert objections(policy, work) == [
        'local work without noise, where the policy has epsilon = 3: take --kernel "dp(sgd)", or leave '
        "epsilon out",
        "scores without noise, where the policy has epsilon = 3: run with --wrap private:scores=noisy or "
        "none, or set clear_scores = true",
    ]
    assert objections(policy, Work("logistic", sites=3, bounded=True, clear_scores=False)) == []


# stations


class Room:
    """Stations a and b, and a lead that hands its messages over."""

    def __init__(self, folder: Path, policies: dict[str, Policy]) -> None:
        recipe = write_tables(folder, SITES, rows=60)
        self.seen, self.states, self.stations = [], {}, {}
        for name in SITES:
            self.states[name] = state = folder / "states" / name
            state.mkdir(parents=True)
            holding = SiteData.read(TableFile(recipe=str(recipe)), name)
            self.stations[name] = SiteServer(
                name,
                holding,
                policies[name],
                state,
                self.letter(name),
                lambda *told: "nowhere",
                lambda line: None,
            )
        self.lines = Lines.__new__(Lines)
        self.lines.kit, self.lines.post = LEAD, self

    def letter(self, name):
        def send(to, header, body, *deadline):
            self.stations[to].take_peer_message(SimpleNamespace(name=name, role="site"), header, body)

        return send

    def members(self):
        site = SimpleNamespace(role="site")
        return {name: SimpleNamespace(card=site, boot="1") for name in SITES}

    def ask(self, messages, deadline, patience=1.0, numbers=None, waits=None):
        self.seen += messages.items()
        return {name: self.stations[name].answer(LEAD.card, {}, body) for name, body in messages.items()}

    def visits(self, name):
        """Messages that asked a site for a visit of local work."""
        found = [body for to, body in self.seen if to == name and unpack(body)[0].get("do") == "visit"]
        return [body for body in found if unpack(body)[0]["kernel"]["name"] == "dp"]


def played(monkeypatch, room, rounds=4, wrap=("private:epsilon=1000,scores=none",), **more):
    monkeypatch.setattr(
        connector.Federation, "meet", lambda self, rule: meet(room.lines, rule, (), 1, 0.0, lambda line: None)
    )
    options = {
        "federation": {"wait": 0.0, "least": 1, "squeeze": "none"},
        "sgd": {"batch": 20},
        "dp": {"sigma": 4.0},
    }
    made = builder.prepare(
        Settings(
            net="federation",
            kernel="dp(sgd)",
            rounds=rounds,
            engine="loop",
            wrap=wrap,
            options=options,
            **more,
        ),
        None,
    )
    try:
        return run(made, None, "fedavg").record
    finally:
        made.net.close()


def a_visit(rows: int = 42) -> Charge:
    return DP(SGD(batch=20), sigma=4.0).charges(rows)[0]


def test_a_site_out_of_budget_is_absent_and_both_records_say_so(tmp_path, monkeypatch):
    tight = Policy(epsilon=eps(2, a_visit()), min_rows=1)
    room = Room(tmp_path, {"a": tight, "b": Policy(epsilon=50.0)})
    record = played(monkeypatch, room)
    assert [sorted(m.get("away", {})) for m in record.metrics] == [[], [], [], ["a"], ["a"]]
    assert record.metrics[3]["away"]["a"].startswith("out of budget: epsilon")
    spent = {name: entries(state) for name, state in room.states.items()}
    assert {name: len(some) for name, some in spent.items()} == {"a": 2, "b": 4}
    asked = [json.loads(line) for line in (room.states["a"] / "asked.jsonl").read_text().splitlines()]
    assert any(entry["outcome"].startswith("refused: out of budget") for entry in asked)
    told = record.privacy()
    assert [site["epsilon"] for site in told["sites"]] == [
        pytest.approx(eps(n, a_visit()), abs=0.01) for n in (2, 4)
    ]
    # and in the next run nothing is left
    again = played(monkeypatch, room, rounds=1, seed=1, deal=0)
    assert "a" in again.metrics[1]["away"]
    assert len(entries(room.states["a"])) == 2


def test_the_same_question_has_the_same_answer_and_is_free(tmp_path, monkeypatch):
    room = Room(tmp_path, dict.fromkeys(SITES, Policy()))
    station, seen = room.stations["a"], []
    heard = station.answer

    def twice(sender, header, body):
        message, tensors = unpack(body)
        first = heard(sender, header, body)
        if message.get("do") == "visit" and message["kernel"]["name"] == "dp":
            ids = message["replies"]
            one = {n: t.clone() for n, t in station.session.held[ids[0]].items()}
            other = {**message, "replies": [id + 10**9 for id in ids]}
            heard(sender, header, pack(other, tensors))
            two = station.session.held.pop(ids[0] + 10**9)
            moved = {n: t + 1e-6 if t.is_floating_point() else t for n, t in tensors.items()}
            heard(sender, header, pack({**other}, moved))
            three = station.session.held.pop(ids[0] + 10**9)
            seen.append((one, two, three))
            heard(sender, header, body)
        return first

    monkeypatch.setattr(station, "answer", twice)
    played(monkeypatch, room, rounds=2)
    assert len(seen) == 2
    for one, two, three in seen:
        assert all(torch.equal(one[n], two[n]) for n in one)
        assert max(float((one[n] - three[n]).abs().max()) for n in one) > 1e-3  # not what 1e-6 would change
    assert len(entries(room.states["a"])) == 4  # each round's, and what was asked otherwise


def test_two_guests_of_one_number_have_noise_of_their_own(tmp_path, monkeypatch):
    room = Room(tmp_path, dict.fromkeys(SITES, Policy()))
    played(monkeypatch, room, rounds=1)
    station = room.stations["a"]
    # the run is over: begin it again, and ask for the same model twice under one number
    for name, body in room.seen:
        if name == "a" and unpack(body)[0].get("do") in ("deal", "sums", "fit", "begin"):
            station.answer(LEAD.card, {}, body)
    message, tensors = unpack(room.visits("a")[0])
    twice = {**message, "rows": [0, 0], "guests": [0, 0], "replies": [10**9, 10**9 + 1]}
    answer, _ = unpack(station.answer(LEAD.card, {}, pack(twice, tensors)))
    assert "error" not in answer, answer
    one, two = station.session.held[10**9], station.session.held[10**9 + 1]
    assert any(not torch.equal(one[n], two[n]) for n in one)


def test_noise_is_not_that_of_the_runs_seed(tmp_path, monkeypatch):
    """Two sites of the same rows and the same run, with secrets of their own: other models."""
    ended = []
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
        room = Room(tmp_path / place, dict.fromkeys(SITES, Policy()))
        record = played(monkeypatch, room, rounds=1, wrap=())
        ended.append(record.metrics[-1]["scores"]["own/test"]["loss"])
    assert ended[0] != ended[1]


def test_local_work_without_noise_is_refused_before_it_begins(tmp_path, monkeypatch):
    room = Room(tmp_path, {"a": Policy(epsilon=3.0), "b": Policy()})
    with pytest.raises(Several) as caught:
        played(monkeypatch, room, wrap=())
    assert [line for line in caught.value.lines if "scores without noise" in line]
    assert not entries(room.states["a"])


def test_a_delta_above_one_row_is_refused(tmp_path, monkeypatch):
    room = Room(tmp_path, {"a": Policy(epsilon=3.0, delta=0.1), "b": Policy(epsilon=50.0)})
    record = played(monkeypatch, room, rounds=1)
    assert "delta=0.1 is above 1/n" in record.metrics[1]["away"]["a"]


def test_what_else_is_done_keeps_its_numbers(tmp_path):
    """Without charges nothing is written, and the run's key stays."""
    budget = SiteBudget(tmp_path, Policy())
    assert budget.cost(SGD(), ROWS) == ()
    assert not list(tmp_path.iterdir())


# processes


@pytest.mark.slow
def test_real_sites_keep_their_budget_over_runs_and_restarts(tmp_path):
    """Three visits fit: two in a first run, and after a kill of the site one more in a second one."""
    policy = tmp_path / "tight.toml"
    policy.write_text(f"epsilon = {eps(3, a_visit(56))}\n")
    words = (
        "--kernel",
        "dp(sgd)",
        "--dp.sigma",
        4,
        "--sgd.batch",
        20,
        "--wrap",
        "private:epsilon=9,scores=none",
    )
    with hosts.Here(["ward"], tmp_path) as here:
        ward = Ward(here, tmp_path / "ward", names=("a", "b"))
        ward.open_relay()
        for name, more in (("a", ("--policy", policy)), ("b", ())):
            ward.open_site(name, *more)
            ward.connected(name)
        assert ward.run("one", *words, "--rounds", 2, net=["--federation.least", 1]).wait(LONG) == 0
        state = ward.kits["a"] / "state"
        assert len(entries(state)) == 2
        ward.sites["a"].kill()
        ward.open_site("a", "--policy", policy)
        ward.connected("a")
        assert ward.run("two", *words, "--rounds", 3, net=["--federation.least", 1]).wait(LONG) == 0
        assert ward.away("one", "a") == {}
        away = ward.away("two", "a")
        assert sorted(away) == [2, 3]
        assert all(why.startswith("out of budget") for why in away.values())
        assert len(entries(state)) == 3
        told = json.loads((tmp_path / "ward" / "two" / "privacy.json").read_text())
        assert [sum(c["times"] for c in site["charges"]) for site in told["sites"]] == [3, 9]
        assert stat.S_IMODE((state / SECRET).stat().st_mode) == 0o600
