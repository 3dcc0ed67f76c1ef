"""Whatever arrives: a site's process answers it and goes on, and a run ends with a line at the worst.

Four stations and a lead in this process, with messages handed over unsealed, so that many can be tried. Real
messages are spoiled at random, by a seed: fields removed, swapped, of other types, huge, nested, with strange
names; tensors of other shapes, kinds and numbers.
"""

from __future__ import annotations

import contextlib
import copy
import json
import math
import os
import random
import resource
import sys
from collections import Counter
from types import SimpleNamespace

import pytest
import torch
from planned import lead_of
from ward import write_tables

from coterie.core.errors import CoterieError
from coterie.core.wire import pack, unpack
from coterie.data.sources.table import TableFile
from coterie.federation.data.site_data import SiteData
from coterie.federation.lead import connector
from coterie.federation.lead.sites import Lines, Rule, meet
from coterie.federation.policy.rules import policy_of
from coterie.federation.site.server import SiteServer
from coterie.federation.transport.post import Missing
from coterie.runs import builder
from coterie.runs.folder import Folder, read_record
from coterie.runs.loop import run
from coterie.runs.settings import Settings

SITES = ("a", "b", "c")
POLICY = policy_of(
    {"open": True, "rows": True, "label_counts": True, "runs_a_day": 10**6, "max_parameters": 10**5}
)
LEAD = lead_of(SITES)
METHODS = {
    "fedavg": {},
    "pens": {"rounds_step1": 1, "samplings": 2},
    "weight-erosion": {},
    "central": {},
    "fl-swag": {"samples": 2},
}
RULE = Rule(0.3, 0.0, 0, False)
WORK = ("epochs", "steps", "workers", "samples", "times")  # whose number says how long something takes
ODD = [
    None, True, False, 0, -1, 1, 3, 2**31, 2**63, -(2**63), 10**30, 0.5, 1e308, math.nan, math.inf,
    "", "a", "0", "../../x", "/etc/passwd", "a\0b", "a/b", "\x1b[2J", "ÿ\u2028\ud800", "x" * 3000,
    "__class__", "plugin.py", [], {}, [[]], [None], {"": None}, {"name": "sgd"}, {"name": "eval"},
    [[[[[[]]]]]], [0] * 300,
]  # fmt: skip
VERBS = [
    "hello",
    "deal",
    "sums",
    "fit",
    "fold",
    "begin",
    "finish",
    "end",
    "visit",
    "mix",
    "distances",
    "copy",
]
VERBS += [
    "letter",
    "letters",
    "take",
    "give",
    "rows",
    "keep",
    "store",
    "fetch",
    "home",
    "save",
    "job",
    "eval",
]
STRANGE = [
    "7/weight",
    "x/y",
    "../..",
    "1//2",
    "weights/*",
    "weights/",
    "#3",
    "0/a\0b",
    "-5/w",
    "9" * 30 + "/w",
    "",
    "/",
]


NEVER = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "pickle.find_class"}
NEVER |= {"socket.connect", "socket.bind", "import"}
CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "shutil.rmtree"}


class Watch:
    """What Python itself sees of files being written, programs started and pickles opened."""

    def __init__(self):
        self.on, self.folders, self.seen = False, (), []
        sys.addaudithook(self.hook)  # for good: there is no way to take one away

    def hook(self, event, told):
        if not self.on or (event == "import" and known(told[0])):
            return
        if event in NEVER:
            self.seen.append((event, told))
        elif event == "open":
            if isinstance(told[0], str | bytes) and (told[2] or 0) & (os.O_WRONLY | os.O_RDWR):
                self.place(event, told[0])
        elif event in CHANGES and not (event in ("os.remove", "os.rmdir") and told[1] != -1):
            self.place(event, told[0])  # within a folder that is removed, the folder was looked at

    def place(self, event, path):
        path = os.fsdecode(path)
        if path != os.devnull and not any(os.path.realpath(path).startswith(f) for f in self.folders):
            self.seen.append((event, path))


def known(module):
    return str(module).split(".")[0] in ("torch", "numpy", "coterie", "safetensors", *sys.stdlib_module_names)


WATCH = Watch()


class Room:
    """Stations a, b and c, and what lies between them and a lead; `spoil(name, answer)` may change one."""

    def __init__(self, folder):
        recipe = write_tables(folder, SITES, rows=24)
        self.folder, self.seen, self.letters, self.said = folder, [], [], []
        self.spoil = lambda name, answer: answer
        self.stations = {}
        for name in SITES:
            state = folder / "states" / name
            state.mkdir(parents=True)
            holding = SiteData.read(TableFile(recipe=str(recipe)), name)
            self.stations[name] = SiteServer(
                name, holding, POLICY, state, self.sender(name), lambda *told: "nowhere", self.said.append
            )
        self.lines = Lines.__new__(Lines)
        self.lines.kit, self.lines.post = LEAD, self

    def sender(self, name):
        def send(to, header, body, *deadline):
            self.letters.append((to, name, header, body))
            self.stations[to].take_peer_message(SimpleNamespace(name=name, role="site"), header, body)

        return send

    # as a post

    def members(self):
        site = SimpleNamespace(role="site")
        return {name: SimpleNamespace(card=site, boot="1") for name in SITES}

    def ask(self, messages, deadline, patience=1.0, numbers=None, waits=None):
        found = {}
        for name, body in messages.items():
            self.seen.append((name, body))
            found[name] = self.spoil(name, self.stations[name].answer(LEAD.card, {}, body))
        return found


@pytest.fixture
def room(tmp_path, monkeypatch):
    (tmp_path / "room").mkdir()
    made = Room(tmp_path / "room")
    monkeypatch.setattr(
        connector.Federation, "meet", lambda self, rule: meet(made.lines, rule, (), 2, 0.0, lambda line: None)
    )
    return made


def play(method, squeeze, folder=None):
    """A run of two rounds; one that squeezes models has large ones, as small ones are never squeezed. In a
    folder, sites are shown what is theirs.
    """
    model, many = ("mlp", {"hidden": [1000]}) if squeeze == "delta" else ("logistic", {})
    options = {
        model: many,
        "sgd": {"batch": 64},
        "federation": {"wait": 0.0, "squeeze": squeeze},
        method: METHODS[method],
    }
    made = builder.prepare(
        Settings(
            net="federation",
            method=method,
            model=model,
            rounds=2,
            engine="loop",
            options={k: v for k, v in options.items() if v},
        ),
        None,
    )
    opened = None if folder is None else Folder.create(folder, made.config, made.about)
    try:
        return run(made, opened, method)
    finally:
        made.net.close()
        if opened is not None:
            opened.close()


# spoiling


def places(value, path=()):
    """Every place in a tree of JSON, the root first."""
    yield path
    some = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in some:
        yield from places(inner, (*path, key))


def spoiled(message, draws):
    """A message with one to three places changed."""
    message = copy.deepcopy(message)
    for _ in range(draws.choice([1, 1, 1, 2, 3])):
        path = draws.choice(list(places(message)))
        if not path:
            message[draws.choice([*message, "do", "run", "x"])] = odd(draws, message)
            continue
        holder = message
        for key in path[:-1]:
            holder = holder[key]
        last, slow = path[-1], path[-1] in WORK
        match draws.randrange(5):
            case 0 if isinstance(holder, dict):
                del holder[last]
            case 1 if path == ("do",):
                holder[last] = draws.choice(VERBS)
            case 2 if type(holder[last]) is int and not slow:
                holder[last] += draws.choice([1, -1, 7, -(10**6)])
            case 3 if isinstance(holder[last], list) and holder[last]:
                holder[last] = holder[last] * 2 if draws.random() < 0.5 else holder[last][1:]
            case _:
                holder[last] = draws.choice([0, -1, "a", None, 0.5, []]) if slow else odd(draws, message)
    return message


def odd(draws, message):
    if draws.random() < 0.2:  # something of the message itself, elsewhere
        found = message
        for key in draws.choice(list(places(message))):
            found = found[key]
        return copy.deepcopy(found)
    return copy.deepcopy(draws.choice(ODD))


def shaken(tensors, draws):
    """Tensors of other shapes, kinds, numbers and names."""
    tensors = dict(tensors)
    if not tensors or draws.random() < 0.2:
        tensors[draws.choice(STRANGE)] = torch.zeros(draws.choice([(), (1,), (0,), (2, 3)]))
        return tensors
    name = draws.choice(sorted(tensors))
    t = tensors.pop(name)
    change = [
        lambda: None,
        lambda: t.reshape(-1),
        lambda: torch.cat([t.reshape(-1), t.reshape(-1)]),
        lambda: t[:0] if t.ndim else t,
        lambda: t.to(draws.choice([torch.int64, torch.float16, torch.bool, torch.float64, torch.complex64])),
        lambda: t.double() * math.nan,
        lambda: torch.full(t.shape, 1e38),
        lambda: t.unsqueeze(0).expand(3, *t.shape),
    ]
    made = draws.choice(change)()
    if made is not None:
        tensors[name if draws.random() < 0.7 else draws.choice(STRANGE)] = made
    return tensors


def bytes_of(data, draws):
    """A message spoiled in one of many ways: its bytes, its JSON or its tensors."""
    how = draws.random()
    if how < 0.03:
        return draws.randbytes(draws.randrange(200))
    if how < 0.06:
        return data[: draws.randrange(len(data))]
    if how < 0.12:
        at = draws.randrange(len(data))
        return data[:at] + draws.randbytes(draws.randrange(1, 9)) + data[at + 1 :]
    if how < 0.14:
        return headed(b'{"__metadata__": {"coterie": "' + b"[" * 20_000 + b'"}}')
    if how < 0.16:
        inner = json.dumps(draws.choice([None, 3, [], "x", {"do": {"a": [1] * 50}}]))
        return headed(json.dumps({"__metadata__": {"coterie": inner}}).encode())
    message, tensors = unpack(data)
    if how < 0.8:
        message = spoiled(message, draws)
    if how > 0.65:
        tensors = shaken(tensors, draws)
    return pack(message, tensors)


def headed(text):
    return len(text).to_bytes(8, "little") + text


def fresh_run(data, run):
    """The same message of another run."""
    message, tensors = unpack(data)
    return pack({**message, "run": run} if "run" in message else message, tensors)


def memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# the tests


NOTHING = pack({}, {})
MANY = 2_000


def test_thousands_of_strange_messages_leave_a_station_as_it_was(room, tmp_path):
    for method, squeeze in (*((m, "none") for m in METHODS), ("fedavg", "delta"), ("pens", "delta")):
        play(method, squeeze)
    play("pens", "none", tmp_path / "run")
    draws, station = random.Random(7), room.stations["a"]
    real = [body for name, body in room.seen if name == "a"]
    letters = [letter for letter in room.letters if letter[0] == "a"]
    asked = {unpack(body)[0]["do"] for body in real}
    assert any("parcels" in unpack(body)[0] for body in real)
    assert {
        "hello",
        "deal",
        "fit",
        "begin",
        "visit",
        "mix",
        "letters",
        "give",
        "distances",
        "rows",
        "end",
        "ledger",
    } <= asked
    send, station.send_to_peer = station.send_to_peer, lambda *told: None
    outside = files(tmp_path, station.state)
    WATCH.seen, WATCH.folders, WATCH.on = [], (str(station.state.resolve()),), True
    before, tried, outcomes = memory(), 0, Counter()
    try:
        while tried < MANY:
            run_id = draws.randbytes(16).hex()
            for data in real:
                data = fresh_run(data, run_id)
                for _ in range(16):
                    outcomes[answered(station, bytes_of(data, draws))] += 1
                    tried += 1
                if letters and draws.random() < 0.3:
                    _, sender, header, body = draws.choice(letters)
                    take(station, sender, {**header, "run": station.run}, bytes_of(body, draws))
                    tried += 1
                answered(station, data)
                if tried >= MANY:
                    break
    finally:
        WATCH.on = False
    assert not WATCH.seen
    assert all(line.isprintable() and len(line) < 3000 for line in room.said)
    assert files(tmp_path, station.state) == outside
    assert memory() - before < 300, "megabytes"
    assert outcomes[""] > 100, outcomes
    assert sum(outcomes.values()) - outcomes[""] > MANY / 3, outcomes
    for folder in (station.state / "shown").iterdir():  # what was kept can be read, or never began
        if (folder / "run.json").exists():
            read_record(folder).collaboration()
    station.send_to_peer = send
    play("pens", "none", tmp_path / "again")  # all is as it was
    assert all(read_record(part).finished for part in newest(room.stations))


def test_strange_answers_while_sites_meet_end_it_with_a_line(room):
    """Sites are matched, set rows aside, tell sums and are fitted; or it ends with a line."""
    play("fedavg", "none")
    known = {
        (name, what): room.stations[name].answer(LEAD.card, {}, body)
        for name, what, body in first_of(room.seen)
    }
    draws, tried, ends = random.Random(5), 0, Counter()

    def ask(messages, deadline, patience=1.0):
        nonlocal tried
        found = {name: known.get((name, unpack(body)[0]["do"]), NOTHING) for name, body in messages.items()}
        spoiled_ones = [name for name in found if draws.random() < chance]
        tried += len(spoiled_ones)
        return found | {name: bytes_of(found[name], draws) for name in spoiled_ones}

    room.ask = ask
    while tried < MANY / 4:
        chance = draws.choice([0.1, 0.3, 1.0])
        ends[ended(lambda: meet(room.lines, RULE, (), 2, 0.0, lambda line: None))] += 1
    assert ends["over"] > 10, ends
    assert len(ends) > 2, ends


def first_of(seen):
    """The first message of each kind to each site, of those before a run begins."""
    found = {}
    for name, body in seen:
        found.setdefault((name, unpack(body)[0]["do"]), body)
    return [(*key, body) for key, body in found.items() if key[1] in ("hello", "deal", "sums", "fit")]


def ended(work):
    """How it ends: no other error than Coterie's, with nothing in it that would write over a screen."""
    said = None
    try:
        work()
    except CoterieError as error:
        said = error
    assert "\x1b" not in str(said)
    assert "\0" not in str(said)
    return "over" if said is None else type(said).__name__


def test_strange_answers_end_a_run_with_a_line_at_the_worst(room):
    """Some answers of all sites, or of one of them, are spoiled; or there is none."""
    draws, ends = random.Random(3), Counter()

    def spoil(name, answer):
        if name not in whom or draws.random() > chance:
            return answer
        if draws.random() < 0.1:
            return Missing(name, draws.choice(["away", "late", "restarted", "refused"]), "it went")
        return bytes_of(answer, draws)

    room.spoil = spoil
    for turn in range(12):
        chance, whom = draws.choice([0.02, 0.1]), draws.choice([SITES, SITES[:1]])
        method, squeeze = list(METHODS)[turn % len(METHODS)], draws.choice(["none", "delta"])
        ends[ended(lambda m=method, s=squeeze: play(m, s))] += 1
    assert ends["over"] > 5, ends
    assert len(ends) > 1, ends
    room.spoil = lambda name, answer: answer
    play("pens", "none")


def answered(station, data):
    """What kind of error a station answers with; an answer must be one that can be read, in one line."""
    answer, _ = unpack(station.answer(LEAD.card, {}, data))
    assert len(answer.get("text", "").splitlines()) <= 1
    return answer.get("error", "")


def take(station, sender, header, body):
    with contextlib.suppress(CoterieError):
        station.take_peer_message(SimpleNamespace(name=sender, role="site"), header, body)


def newest(stations):
    """Each station's part of the run that it was shown last."""
    runs = [(station.state / "shown").iterdir() for station in stations.values()]
    return [max(some, key=lambda path: (path / "run.json").stat().st_mtime) for some in runs]


def files(folder, without):
    return sorted(str(p) for p in folder.rglob("*") if without not in (p, *p.parents))
