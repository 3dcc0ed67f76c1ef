"""Nobody does what they may not: what is refused, what both ends say of it, and that nothing was run.

A relay and three sites in this process, with TLS and seals as in earnest. `test_strangers.py` has who is kept
out before a word is said, `test_post.py` and `test_relay.py` what is forged on the way.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import secrets
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from parties import until
from planned import planned_begin
from ward import free_port, write_tables

from coterie.cli.main import main
from coterie.core.errors import BadRun, Refused
from coterie.core.wire import pack, unpack
from coterie.data.build import client_of
from coterie.data.sources.table import TableFile
from coterie.federation.data.site_data import SiteData
from coterie.federation.kits.authority import found_federation, revoke
from coterie.federation.kits.kit import read_kit
from coterie.federation.lead import connector
from coterie.federation.lead.sites import Rule, hang_up
from coterie.federation.policy.keys import Policy, Work
from coterie.federation.policy.rules import to_dict
from coterie.federation.site.server import SiteServer
from coterie.federation.transport.post import Missing, Post
from coterie.federation.transport.relay import Relay
from coterie.nets.site import ERRORS

SITES = ("a", "b", "c")
FREE = Policy(open=True, rows=True, label_counts=True)


class Clinic:
    """Sites with stations, whose screens are lists of lines."""

    def __init__(self, folder: Path, opened: contextlib.ExitStack) -> None:
        self.folder, self.home, self.opened = folder, folder / "ward", opened
        found_federation(self.home, SITES, ["lead", "mate", "old", "anna:viewer"], port=free_port())
        self.recipe = write_tables(folder, SITES, rows=30)
        self.relay_says, self.screens = list[str](), {name: list[str]() for name in SITES}
        relay = Relay(read_kit(self.home / "coordinator"), self.relay_says.append)
        opened.callback(relay.close)
        relay.start()
        self.stations, self.posts = {}, {}
        for name in SITES:
            self.site(name)
        opened.callback(hang_up)

    def site(self, name: str) -> None:
        kit, screen = read_kit(self.home / "sites" / name), self.screens[name]
        state = kit.folder / "state"
        state.mkdir()
        holding = SiteData.read(TableFile(recipe=str(self.recipe)), name)
        post = Post(kit, lambda *asked: station.answer(*asked), screen.append)
        station = SiteServer(
            name, holding, FREE, state, post.send_to_peer, lambda *kept: "here", screen.append
        )
        post.on_peer_message(station.take_peer_message)
        self.opened.callback(post.close)
        post.start()
        self.stations[name], self.posts[name] = station, post

    def person(self, name: str) -> Post:
        post = Post(read_kit(self.home / "people" / name))
        self.opened.callback(post.close)
        post.start()
        return post

    def asked(self, name: str) -> list[dict]:
        """What a site has written down."""
        path = self.stations[name].state / "asked.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def run(self, *words: str) -> int:
        kit = ["--net", "federation", "--federation.kit", str(self.home / "people" / "lead")]
        quick = ["--federation.patience", "1", "--federation.wait", "3", "--engine", "loop", "--rounds", "3"]
        return main(["run", *kit, *quick, "--out", str(self.folder / secrets.token_hex(4)), *words])

    def files(self) -> set[str]:
        """All but what sites keep for themselves, and what a run writes."""
        own = {s.state for s in self.stations.values()}
        places = [p for p in self.home.rglob("*") if not own & {p, *p.parents}]
        return {str(p) for p in [*places, *Path.cwd().iterdir()]}


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    with contextlib.ExitStack() as opened:
        yield Clinic(tmp_path_factory.mktemp("refusals"), opened)


@pytest.fixture
def nothing_made(clinic, monkeypatch, tmp_path):
    """No file appears outside of the sites' own folders and of a run's."""
    monkeypatch.chdir(tmp_path)
    before = clinic.files()
    yield
    clinic.relay_says.clear()
    assert clinic.files() == before


# a request beyond the policy

FEDAVG, PENS = ("--method", "fedavg"), ("--method", "pens", "--pens.rounds-step1", "1")
# what a policy says, a run, and what a site says of it: to a lead that asks first, and to one that does not
BEYOND = {
    "kernels": (
        {"kernels": ("adam", "calibrate", "tallied")},
        (*FEDAVG, "--kernel", "sgd"),
        "kernel 'sgd' is not in the policy's list (adam, calibrate, tallied)",
    ),
    "models": ({"models": ("mlp",)}, FEDAVG, "model 'logistic' is not in the policy's list (mlp)"),
    "max_rounds": ({"max_rounds": 2}, FEDAVG, "3 rounds, above the policy's 2"),
    "max_parameters": ({"max_parameters": 3}, FEDAVG, "8 parameters, above the policy's 3"),
    "min_sites": ({"min_sites": 4}, FEDAVG, "3 sites, below the policy's 4"),
    "to_coordinator": (
        {"to_coordinator": False, "open": False},
        FEDAVG,
        "models trained here would go to whoever leads the run",
    ),
    "open": ({"open": False}, ("--method", "guided"), "whoever leads the run would look at single models"),
    "to_peers": ({"to_peers": False}, PENS, "models trained here would go to other sites"),
    "rows": ({"rows": False}, ("--method", "central"), "rows would leave the site"),
}
# of what a site cannot be asked before
LATER = {
    "max_visits": ({"max_visits": 2}, FEDAVG, "models tried here in a run, above the policy's 2"),
    "scores": ({"scores": "own"}, PENS, "a model of another site would be tried on our rows"),
    "max_bytes": ({"max_bytes": 900}, FEDAVG, "bytes in a message, above the policy's 900"),
    "runs_a_day": ({"runs_a_day": 0}, FEDAVG, "runs began within 24 hours, all that runs_a_day allows"),
}
LIES = {"max_rounds": "3 rounds, above the policy's 2", "min_sites": "a run of 9 sites that names 3"}


@pytest.mark.parametrize("key", BEYOND)
def test_a_run_beyond_a_policy_is_not_begun(clinic, nothing_made, capsys, key):
    change, words, says = BEYOND[key]
    clinic.stations["a"].policy = replace(FREE, **change)
    before = {name: len(clinic.asked(name)) for name in SITES}
    assert clinic.run(*words) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("·")]
    assert len(lines) == 1
    assert f"site a would refuse: {says}" in lines[0]
    for name in SITES:
        assert all(line["run"] is None for line in clinic.asked(name)[before[name] :])


@pytest.mark.parametrize("key", [*BEYOND, *LATER])
def test_a_lead_that_lies_about_a_run_gets_no_further(clinic, nothing_made, monkeypatch, caplog, capsys, key):
    """It says of the run whatever a policy wants to hear; the site sees by itself what it is asked."""
    change, words, says = {**BEYOND, **LATER}[key]
    clinic.stations["a"].policy = replace(FREE, **change)
    harmless = Work("mlp" if key == "models" else "logistic", sites=9 if key == "min_sites" else 3)
    work = {"work": to_dict(harmless), "sites": list(SITES)}
    monkeypatch.setattr(connector.Federation, "_work", lambda *ground: work)
    before, screen = len(clinic.asked("a")), len(clinic.screens["a"])
    clinic.run(*words)
    says = LIES.get(key, says)
    noted = clinic.asked("a")[before:]
    refused = [line for line in noted if line["outcome"].startswith("refused: ")]
    assert refused, noted
    assert says in refused[0]["outcome"], refused
    assert refused[0]["by"] == "lead"
    assert any(says in line for line in clinic.screens["a"][screen:])
    assert says in "".join([caplog.text, *capsys.readouterr()]), "the lead is not told"
    last = noted.index(refused[0])
    assert not any(line["outcome"] == "done" and "sgd(" in line["asked"] for line in noted[last + 1 :])


def test_rows_are_held_out_and_summed_as_a_policy_says(clinic, nothing_made, capsys):
    for change, says in (
        ({"deal": 7}, "rows held out by seed 0, where the policy has 7: run with --deal 7"),
        ({"sums": False}, "counts, means, deviations or quantiles of columns would be told"),
    ):
        clinic.stations["a"].policy = replace(FREE, **change)
        assert clinic.run(*FEDAVG) == 2
        assert f"site a: {says}" in capsys.readouterr().err
        assert f"refused: {says}" in clinic.asked("a")[-1]["outcome"]
    clinic.stations["a"].policy = replace(FREE, deal=7)
    assert clinic.run(*FEDAVG, "--deal", "7") == 0


def test_counts_of_labels_are_told_where_a_policy_allows(clinic, nothing_made):
    for allowed in (False, True):
        clinic.stations["a"].policy = replace(FREE, label_counts=allowed)
        kit = str(clinic.home / "people" / "lead")
        members = connector.Federation(kit=kit).meet(Rule(0.3, 0.0, 0, False)).roster.members
        assert {m.name: m.labels is not None for m in members} == {"a": allowed, "b": True, "c": True}


def test_only_who_is_listed_leads(clinic, nothing_made, capsys):
    clinic.stations["a"].policy = replace(FREE, requesters=("mate",))
    assert clinic.run(*FEDAVG) == 0, "b and c do without a"
    assert "site a: 'lead' is not among the policy's requesters" in "".join(capsys.readouterr())
    assert "refused: 'lead' is not among the policy's requesters" in clinic.asked("a")[-1]["outcome"]
    clinic.stations["a"].policy = FREE


# a message with code in it


class Bomb:
    def __reduce__(self):
        return os.mkdir, ("exploded",)


def zipped() -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        file.writestr("job/custom/net.py", "import os; os.mkdir('exploded')")
    return data.getvalue()


RUN = "0" * 32
CODE = "__import__('os').mkdir('exploded')"
KERNEL = {"kernel": {"name": CODE}, "key": {"seed": 0, "path": [], "round": 1, "rounds": 1}, "slot": ""}
VISIT = {
    "do": "visit",
    "run": RUN,
    **KERNEL,
    "beliefs": [],
    "rows": [],
    "guests": [],
    "beside": {},
    "replies": [],
}
BEGIN = {"model": "logistic", "options": {}, "shape": [3], "outputs": 2, "precision": "float32"}
BEGIN |= {"do": "begin", "run": RUN, "engine": {"name": "loop"}, "number": 0, "sites": list(SITES)}
WITH_CODE = {
    "a pickle": (pickle.dumps(Bomb()), "cannot be read"),
    "an archive": (zipped(), "cannot be read"),
    "a job": ({"do": "job", "run": RUN, "code": CODE}, "'job' is nothing that a site can be asked"),
    "words to evaluate": ({"do": "eval", "run": RUN, "text": CODE}, "is nothing that a site can be asked"),
    "a plugin": ({"do": "plugin", "run": RUN, "path": "net.py"}, "is nothing that a site can be asked"),
    "a folder": ({"do": "home", "run": RUN, "folder": "exploded"}, "is nothing that a site can be asked"),
    "a file": (
        {"do": "save", "run": RUN, "path": "exploded", "row": []},
        "is nothing that a site can be asked",
    ),
    "a method of Python's": ({"do": "__init__", "run": RUN}, "is nothing that a site can be asked"),
    "a kernel of code": (VISIT, "unknown kernel"),
    "a kernel that is a path": ({**VISIT, "kernel": {"name": "../../net.py"}}, "unknown kernel"),
    "a kernel within another": (
        {**VISIT, "kernel": {"name": "fold", "work": {"name": "net.py"}}},
        "unknown kernel",
    ),
    "a model that is a path": ({**BEGIN, "model": "/tmp/net.py"}, "unknown model"),
    "a model of code": ({**BEGIN, "model": CODE}, "unknown model"),
    "a model with plugins": (
        {**BEGIN, "options": {"plugins": ["net.py"]}},
        "unknown option of model logistic",
    ),
    "an engine that is a path": ({**BEGIN, "engine": {"name": "net.py"}}, "unknown engine"),
    "a precision of torch's own": ({**BEGIN, "precision": "load"}, "precision 'load' is none"),
    "a run that is a path": ({**BEGIN, "run": "../../exploded"}, "names no run"),
}


@pytest.fixture
def leading(clinic):
    """A lead that has begun a run at site a and may send it anything."""
    hang_up()  # one line for a kit
    post = clinic.person("mate")
    station = clinic.stations["a"]
    station.policy, station.session = FREE, None
    holding = station.holding.joined(station.holding.common.to_dict())
    holding.deal(0.3, 0.0, 0, 0)
    holding.client = client_of(holding.data, "a", holding.data.prepare, holding.share.pools, None)
    station.grounds["mate", "g"] = holding
    begun, _ = unpack(post.ask({"a": pack(planned_begin(post.kit, {**BEGIN, **BEGAN}), {})}, 10)["a"])
    assert begun == {"blank": True}
    yield post
    post.close()
    station.session = None


BEGAN = {"ground": "g", "work": to_dict(Work("logistic", sites=3))}


@pytest.mark.parametrize("case", WITH_CODE)
def test_no_message_makes_a_site_run_what_it_brings(clinic, nothing_made, leading, case):
    body, says = WITH_CODE[case]
    if isinstance(body, dict):
        if body["do"] == "begin":
            run = secrets.token_hex(16) if body["run"] == RUN else body["run"]  # a run has one plan
            body = planned_begin(leading.kit, {**body, **BEGAN, "run": run})
        body = pack(body, {})
    before, screen = len(clinic.asked("a")), len(clinic.screens["a"])
    answer, tensors = unpack(leading.ask({"a": body}, 10)["a"])
    assert answer["error"] in ERRORS
    assert says in answer["text"]
    assert not tensors
    outcomes = [line["outcome"] for line in clinic.asked("a")[before:]]
    assert any(says in outcome for outcome in outcomes), outcomes
    assert any(says in line for line in clinic.screens["a"][screen:])
    assert not Path("exploded").exists()


# somebody else


def test_a_viewer_looks_and_does_nothing_else(clinic, nothing_made, capsys):
    assert main(["run", "--net", "federation", "--federation.kit", str(clinic.home / "people" / "anna")]) == 2
    assert "is the kit of anna, a viewer; runs are led by a lead" in capsys.readouterr().err
    before, anna = len(clinic.asked("a")), clinic.person("anna")
    assert set(SITES) <= set(anna.members())
    with pytest.raises(Refused, match="a viewer may not send questions"):
        anna.ask({"a": pack({"do": "hello"}, {})}, 2)
    header = {"to": "a", "kind": "ask", "boot": clinic.posts["a"].boot, "mine": anna.boot, "number": 1 << 60}
    anna._line.send(header, b"by hand")
    until(lambda: any("a message of anna is dropped" in line for line in clinic.relay_says))
    assert "a message of anna is dropped" in (clinic.home / "coordinator" / "relay.log").read_text()
    assert len(clinic.asked("a")) == before
    anna.close()


def test_a_site_does_not_pass_for_another(clinic, nothing_made, tmp_path, capsys):
    copied = Path(
        shutil.copytree(clinic.home / "sites" / "b", tmp_path / "b", ignore=shutil.ignore_patterns("state"))
    )
    toml = (copied / "kit.toml").read_text()
    (copied / "kit.toml").write_text(toml.replace('name = "b"', 'name = "c"'))
    assert main(["site", str(copied), "--recipe", str(clinic.recipe)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    shutil.rmtree(copied)
    b, before, screen = clinic.posts["b"], len(clinic.asked("a")), len(clinic.screens["a"])
    header = {"to": "a", "boot": clinic.posts["a"].boot, "mine": b.boot, "number": 1 << 60}
    b._line.send({**header, "from": "lead", "kind": "ask"}, b"x")
    until(lambda: any("a message of b is dropped" in line for line in clinic.relay_says))
    b._line.send({**header, "from": "c", "kind": "letter"}, b"x")
    until(lambda: any("a message of b is refused" in line for line in clinic.screens["a"][screen:]))
    assert len(clinic.asked("a")) == before


def test_a_message_taken_off_the_wire_and_sent_again_does_nothing(clinic, nothing_made):
    hang_up()
    lead, mate, sent = clinic.person("lead"), clinic.person("mate"), []
    plain = lead._line.send
    lead._line.send = lambda header, body=b"": (sent.append((dict(header), bytes(body))), plain(header, body))
    for _ in range(2):
        lead.ask({"a": pack({"do": "hello"}, {})}, 10)
    first, second = [m for m in sent if m[0].get("kind") == "ask"]
    before, screen = len(clinic.asked("a")), len(clinic.screens["a"])
    plain(*second)  # the remembered answer, and nothing more
    plain(*first)
    until(lambda: any("is not larger than the last" in line for line in clinic.screens["a"][screen:]))
    mate._line.send(*second)
    until(lambda: any("a message of mate is refused" in line for line in clinic.screens["a"][screen:]))
    assert len(clinic.asked("a")) == before
    lead.close()
    mate.close()


def test_a_run_has_one_lead(clinic, nothing_made, leading):
    lead, before, grounds = clinic.person("lead"), len(clinic.asked("a")), clinic.stations["a"].grounds
    grounds["lead", "g"] = grounds["mate", "g"]
    for message in (VISIT, {"do": "end", "run": RUN}, {**BEGIN, **BEGAN, "run": "1" * 32}):
        answer, _ = unpack(lead.ask({"a": pack(message, {})}, 10)["a"])
        assert answer["error"] in ("Refused", "BadRun")  # a site may be free later
        assert "led by mate" in answer["text"]
    assert sum("led by mate" in line["outcome"] for line in clinic.asked("a")[before:]) == 3
    assert clinic.stations["a"].run == RUN
    lead.close()


def test_a_lead_revoked_while_connected_is_out(clinic):
    old = clinic.person("old")
    assert not isinstance(old.ask({"a": pack({"do": "hello"}, {})}, 10)["a"], Missing)
    before = len(clinic.asked("a"))
    revoke(clinic.home, "old")
    until(lambda: any("old is revoked" in line for line in clinic.relay_says))
    until(lambda: "old" not in clinic.posts["a"].members())
    again = Post(read_kit(clinic.home / "people" / "old"))
    with pytest.raises(BadRun, match="the certificate of old is revoked"):
        again.start(3)
    again.close()
    assert len(clinic.asked("a")) == before
    old.close()
