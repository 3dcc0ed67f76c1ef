"""The post: every question is done once, whatever a relay does with the messages."""

import json
import threading
import time

import pytest
from parties import Switch, Ward

from coterie.core.errors import BadData, BadInput, BadRun, Refused
from coterie.federation.kits.authority import revoke
from coterie.federation.kits.kit import read_revoked
from coterie.federation.transport.assembly import bound
from coterie.federation.transport.encryption import encrypt
from coterie.federation.transport.inbox import enveloped, opened
from coterie.federation.transport.post import Missing, Post


@pytest.fixture(scope="module")
def kits(tmp_path_factory):
    return Ward(tmp_path_factory.mktemp("post") / "ward", relay=False).kits


class Scene:
    """A lead, its mate, a viewer and three sites; what site a is asked, and what it says."""

    def __init__(self, kits):
        self.switch, self.asked, self.said = Switch(kits), [], []
        self.a = self.switch.post("a", self.answer, self.said.append)
        self.b = self.switch.post("b", lambda card, header, body: b"b", self.said.append)
        self.lead = self.switch.post("lead", None, self.said.append)
        for name in ("c", "mate", "anna"):
            self.switch.post(name)

    def answer(self, card, header, body):
        self.asked.append((card.name, body))
        return b"answer to " + body

    def encrypted(self, sender, header, body=b"forged"):
        kits = self.switch.kits
        header = {"to": "a", "kind": "ask", "boot": self.a.boot, "mine": self.lead.boot, **header}
        header = {**header, "from": sender}
        return header, encrypt(kits[sender], kits["a"].card, bound(header), body)

    def hand(self, header, body):
        """To site a, and until its workers are done with it."""
        self.switch.pass_on(header, body)
        for waiting in list(self.a.inbox._queues.values()):
            done = threading.Event()
            waiting.put(({"from": "lead"}, b""))  # no number: said, and nothing else
            self._until_empty(waiting, done)

    def _until_empty(self, waiting, done):
        end = time.monotonic() + 5
        while not waiting.empty() and time.monotonic() < end:
            done.wait(0.002)


@pytest.fixture
def scene(kits):
    return Scene(kits)


def test_several_are_asked_at_once_and_their_refusals_are_said(scene):
    def refuse(card, header, body):
        raise BadData("no such rows: look again")

    def break_down(card, header, body):
        raise RuntimeError("secret of the site")

    scene.b.inbox.answers["ask"] = refuse
    c = scene.switch.post("c", break_down)
    got = scene.lead.ask({"a": b"1", "b": b"2", "c": b"3", "nobody": b"4"}, 5, patience=0.2)
    assert got["a"] == b"answer to 1"
    assert got["b"] == Missing("b", "refused", "no such rows: look again")
    assert got["c"] == Missing("c", "refused", "c could not answer: unexpected RuntimeError")
    assert got["nobody"].why == "away"
    assert list(got) == ["a", "b", "c", "nobody"]
    assert set(scene.lead.members()) == {"a", "b", "c", "lead", "mate", "anna"}
    assert scene.lead.members()["c"].boot == c.boot


def forged_from(name):
    return lambda scene, header, body: ({**header, "from": name}, body)


FORGED = {
    "an older number": (lambda s, h, b: s.first, "is not larger than the last"),
    "a number of one's own": (lambda s, h, b: ({**h, "number": h["number"] + 1}, b), "has not encrypted so"),
    "a body cut short": (lambda s, h, b: ({**h, "number": h["number"] + 1}, b[:-1]), "has not encrypted so"),
    "no body": (lambda s, h, b: ({**h, "number": h["number"] + 1}, b""), "has not encrypted so"),
    "another start": (
        lambda s, h, b: s.encrypted("lead", {"number": 1 << 60, "boot": "x"}),
        "an earlier start",
    ),
    "no number": (lambda s, h, b: ({k: v for k, v in h.items() if k != "number"}, b), "has no number"),
    "a number in words": (lambda s, h, b: ({**h, "number": "9"}, b), "has no number"),
    "a sender's start of no name": (lambda s, h, b: ({**h, "mine": 3}, b), "has no number"),
    "from another lead": (forged_from("mate"), "has not encrypted so"),
    "from a stranger": (forged_from("zoe"), "no member that counts"),
    "from nobody": (forged_from(None), "no member that counts"),
    "for another": (
        lambda s, h, b: ({**h, "number": 1 << 60, "to": "a", "from": "lead", "kind": "other"}, b),
        "may not send",
    ),
    "a site asks": (lambda s, h, b: s.encrypted("b", {"number": 1 << 60}), "a site may not send questions"),
    "a viewer asks": (lambda s, h, b: s.encrypted("anna", {"number": 1 << 60}), "a viewer may not send"),
    "a lead writes a letter": (
        lambda s, h, b: s.encrypted("lead", {"number": 1 << 60, "kind": "letter"}),
        "a lead may not send peer messages",
    ),
    "no letters are taken": (
        lambda s, h, b: s.encrypted("b", {"number": 1 << 60, "kind": "letter"}),
        "a takes none",
    ),
    "another kind of a question": (
        lambda s, h, b: ({**h, "kind": "letter"}, b),
        "may not send peer messages",
    ),
}


@pytest.mark.parametrize("case", FORGED)
def test_nothing_is_done_for(scene, case):
    forge, why = FORGED[case]
    assert scene.lead.ask({"a": b"1"}, 5)["a"] == b"answer to 1"
    scene.first = scene.switch.seen[0]
    assert scene.lead.ask({"a": b"2"}, 5)["a"] == b"answer to 2"
    second = next(m for m in scene.switch.seen if m[0]["kind"] == "ask" and m != scene.first)
    before = list(scene.asked)
    scene.hand(*forge(scene, *second))
    assert scene.asked == before
    assert any(why in line for line in scene.said), scene.said
    assert scene.lead.ask({"a": b"3"}, 5)["a"] == b"answer to 3", "and all goes on"


def test_a_question_that_comes_twice_is_answered_twice_and_done_once(scene):
    scene.lead.ask({"a": b"1"}, 5)
    question, answer = scene.switch.seen
    scene.hand(*question)
    assert scene.asked == [("lead", b"1")]
    assert scene.switch.seen == [question, answer, answer]


def test_the_same_number_gets_the_remembered_answer(scene):
    number = scene.lead.next_number()
    scene.lead.next_number = lambda: number
    for _ in range(2):
        assert scene.lead.ask({"a": b"1"}, 5)["a"] == b"answer to 1"
    assert len(scene.asked) == 1


def swapped(scene, **changes):
    return lambda h, b: [({**h, **changes}, b), (h, b)] if h["kind"] == "answer" else [(h, b)]


ANSWERS = {
    "to another question": lambda s: swapped(s, number=5),
    "to another start": lambda s: swapped(s, boot="other"),
    "of another start": lambda s: swapped(s, mine="other"),
    "of another party": lambda s: swapped(s, **{"from": "b"}),
    "of a stranger": lambda s: swapped(s, **{"from": "zoe"}),
    "as a refusal": lambda s: swapped(s, kind="refusal"),
    "of no number": lambda s: swapped(s, number=None),
    "cut short": lambda s: lambda h, b: [(h, b[:9]), (h, b)] if h["kind"] == "answer" else [(h, b)],
}


@pytest.mark.parametrize("case", ANSWERS)
def test_an_answer_is_not_taken_if_it_is(scene, case):
    scene.switch.tamper = ANSWERS[case](scene)
    assert scene.lead.ask({"a": b"1"}, 5)["a"] == b"answer to 1"
    assert any("an answer of" in line for line in scene.said)


def test_a_late_answer_is_not_taken_for_the_next(scene):
    go, begun = threading.Event(), threading.Event()

    def slow(card, header, body):
        begun.set()
        go.wait(5)
        return b"answer to " + body

    scene.a.inbox.answers["ask"] = slow
    assert scene.lead.ask({"a": b"1"}, 0.1)["a"] == Missing("a", "late", "a has not answered in time")
    assert begun.is_set()
    threading.Timer(0.1, go.set).start()
    assert scene.lead.ask({"a": b"2"}, 5)["a"] == b"answer to 2"
    assert any("nothing waits for it" in line for line in scene.said)


def reborn(scene, name, answer):
    """A new line of the same post, as after a cut."""
    scene.switch.lines[name].close()
    scene.switch.lines.pop(name, None)
    return scene.switch.post(name, answer, scene.said.append)


def test_who_comes_back_is_asked_again_and_who_was_started_anew_is_missing(scene):
    line, cut = scene.switch.lines["a"], []

    def lose(header, body):
        if header["kind"] == "answer" and not cut:
            cut.append(1)
            line.close()
            threading.Timer(0.05, line.start).start()
            return []
        return [(header, body)]

    scene.switch.tamper = lose
    assert scene.lead.ask({"a": b"1"}, 5)["a"] == b"answer to 1"
    assert len(scene.asked) == 1, "the answer was remembered"

    def anew(header, body):
        if header["kind"] == "answer":
            threading.Timer(0.05, lambda: reborn(scene, "a", scene.answer)).start()
            return []
        return [(header, body)]

    scene.switch.tamper = anew
    assert scene.lead.ask({"a": b"2"}, 5)["a"].why == "restarted"


def test_who_leaves_is_away_after_a_while_and_at_once_the_next_time(scene):
    scene.switch.tamper = lambda header, body: []
    threading.Timer(0.05, scene.switch.lines["a"].close).start()
    assert scene.lead.ask({"a": b"1"}, 5, patience=0.3)["a"] == Missing("a", "away", "a is not connected")
    start = time.monotonic()
    assert scene.lead.ask({"a": b"1"}, 5, patience=0.3)["a"].why == "away"
    assert time.monotonic() - start < 0.2


def test_an_answer_counts_even_if_its_sender_has_left_since(scene):
    def leave(header, body):
        if header["kind"] == "answer":
            scene.switch.pass_on(header, body)
            scene.switch.lines["a"].close()
            return []
        return [(header, body)]

    scene.switch.tamper = leave
    assert scene.lead.ask({"a": b"1"}, 5, patience=0.2)["a"] == b"answer to 1"


def test_what_others_say_cannot_write_over_the_screen(scene):
    def refuse(card, header, body):
        raise BadData("no\x1b[2J rows")

    scene.b.inbox.answers["ask"] = refuse
    assert scene.lead.ask({"b": b"1"}, 5)["b"].text == "no [2J rows"


def test_arrivals_and_leavings_are_told(scene):
    told = []
    scene.lead.watch(lambda name, here: told.append((name, here)))
    line = scene.switch.lines["b"]
    line.close()
    line.start()
    assert told == [("b", False), ("b", True)]


def test_who_waits_for_a_letter_to_be_taken_may_be_ended(scene):
    free = threading.Event()
    scene.b.on_peer_message(lambda card, header, body: free.wait(20))
    looks, before = iter(range(3)), time.monotonic()

    def look():
        if next(looks, None) is None:
            raise Refused("cancelled")

    with pytest.raises(Refused, match="cancelled"):
        scene.a.send_to_peer("b", {}, b"", 20, 20, look)
    assert time.monotonic() - before < 10
    free.set()


def test_letters_go_from_site_to_site(scene):
    taken = []
    scene.b.on_peer_message(lambda card, header, body: taken.append((card.name, header, bytes(body))))
    scene.a.send_to_peer("b", {"round": 3, "who": ["é"]}, b"x" * 3_000_000, 5)
    assert taken == [("a", {"round": 3, "who": ["é"]}, b"x" * 3_000_000)]
    header, encrypted = scene.switch.seen[0]
    assert not {"round", "who"} & set(header)
    assert b"round" not in encrypted

    def refuse(card, header, body):
        raise Refused("no room: later")

    scene.b.on_peer_message(refuse)
    with pytest.raises(BadRun, match="peer message from a to b was not taken: no room: later"):
        scene.a.send_to_peer("b", {}, b"", 5)
    scene.a.presence._first = -100.0  # long ago
    with pytest.raises(BadRun, match="nobody is not connected"):
        scene.a.send_to_peer("nobody", {}, b"", 5)
    for wrong, send in [
        ("a site may not send questions", lambda: scene.a.ask({"b": b""}, 1)),
        ("a lead may not send peer messages", lambda: scene.lead.send_to_peer("b", {}, b"", 1)),
    ]:
        with pytest.raises(Refused, match=wrong):
            send()
    with pytest.raises(BadInput, match="cannot send to itself"):
        scene.lead.ask({"lead": b""}, 1)


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0\0\xff{}", b"\0\0\0\2[]", b"\0\0\0\2{{", b"\0\0\0\2{}"])
def test_envelopes(data):
    if data == enveloped({}, b""):
        assert opened(data) == ({}, b"")
    else:
        with pytest.raises(Refused):
            opened(data)


def test_a_revoked_party_counts_no_more(tmp_path):
    ward = Ward(tmp_path / "ward", relay=False)
    scene = Scene(ward.kits)
    revoke(ward.folder, "lead")
    listed = read_revoked(ward.kits["coordinator"]).told
    note = {"from": "", "kind": "revoked"}
    told = json.loads(listed)
    spoilt = json.dumps({**told, "list": told["list"].replace('"number": 1', '"number": 9')}).encode()
    scene.switch.lines["a"].receive(note, spoilt)
    assert scene.lead.ask({"a": b"1"}, 5)["a"] == b"answer to 1", "a list that nobody has signed"
    scene.switch.lines["a"].receive(note, listed)
    assert scene.lead.ask({"a": b"2"}, 0.2)["a"].why == "late"
    assert len(scene.asked) == 1
    assert "lead" not in scene.a.members()


def test_without_a_line_there_is_a_reason(kits):
    class Dead:
        def __init__(self, kit, receive, changed, about, assembly):
            self.changed = changed

        def start(self):
            self.changed(False, "nothing listens at here:1")

        def close(self):
            pass

    said = []
    post = Post(kits["lead"], None, said.append, Dead)
    with pytest.raises(BadRun, match=r"within 0\.1 s: nothing listens at here:1"):
        post.start(0.1)
    assert said == ["nothing listens at here:1; trying again"]
    post.close()
    assert post.ask({"a": b""}, 5)["a"].why == "away"
