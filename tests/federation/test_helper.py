"""Helpers of sealed runs, with letters handed over: the protocol between them, and who is refused what."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from coterie.core.errors import BadData, BadInput, BadRun, Refused
from coterie.core.wire import pack, unpack
from coterie.features.sealed.ring import decoded
from coterie.federation.sealing.helper import Helper
from coterie.federation.sealing.messages import as_tensor, as_words, check_parties
from coterie.federation.sealing.site import SealedSite

RUN, BITS = "0" * 32, 24
PARTIES = {"a": "ada", "b": "ben", "dealer": "tom"}
SITES = ("n", "s", "w")


def card(name, role="helper", key=None):
    """What is looked at of a certificate."""
    numbers = key or name
    return SimpleNamespace(name=name, role=role, public_key=SimpleNamespace(public_numbers=lambda: numbers))


class Room:
    """Three helpers and three sites; letters arrive at once, and are noted."""

    def __init__(self, bound=1.0, projections=16):
        self.cards = {n: card(n) for n in PARTIES.values()} | {n: card(n, "site") for n in SITES}
        self.cards |= {"lead": card("lead", "lead"), "mate": card("mate", "lead")}
        self.letters = []
        self.helpers = {n: Helper(n, self.sender(n), self.cards.get) for n in PARTIES.values()}
        self.sites = {n: SealedSite(n, PARTIES, self.cards.get) for n in SITES}
        told = {"parties": PARTIES, "sites": SITES, "leverage": bound, "projections": projections}
        for side in ("dealer", "b", "a"):
            self.ask(side, do="sit", side=side, **told)

    def sender(self, name):
        def send(to, header, body, deadline, patience):
            self.letters.append((name, to, header["what"], bytes(body)))
            if to in self.helpers:
                self.helpers[to].take_peer_message(self.cards[name], header, body)
            else:
                self.sites[to].take(name, header, body)

        return send

    def ask(self, of, tensors=None, by="lead", run=RUN, **message):
        data = pack({**message, "run": run}, tensors or {})
        return unpack(self.helpers[PARTIES[of]].answer(self.cards[by], {}, data))

    def seal(self, x, room=30.0):
        """Replies by site leave sealed."""
        names = {f"m-{site}": site for site in x}
        words = len(next(iter(x.values())))
        self.ask("dealer", do="deal", hosts=names, words=words)
        terms = {"bits": BITS, "room": room, "words": words}
        for name, site in names.items():
            belief = {"w": torch.tensor(x[site], dtype=torch.float64)}
            order = {"orders": [{"name": name, "row": 0, "less": None}], "terms": terms, "floats": ["w"]}
            to = self.sender(site)
            self.sites[site].seal(
                {**order, "run": RUN}, lambda row, b=belief: b, lambda *letter, to=to: to(*letter, 1, 1)
            )
        return list(names)

    def judged(self, names, op="1"):
        nonces = {s: self.ask(s, do="coin", names=names, op=op)[0]["nonce"] for s in ("a", "b")}
        for side in ("a", "b"):
            self.ask(side, do="project", names=names, op=op, nonces=nonces)
        found = [self.ask(s, do="judge", op=op)[0]["liars"] for s in ("a", "b")]
        assert found[0] == found[1]
        return found[0]

    def mix(self, names, weights, receiver="", op="2"):
        told = {"names": names, "slices": {"w": [0, 3]}, "receiver": receiver, "op": op, "do": "mix"}
        return [self.ask(s, {"w": torch.tensor(weights)}, **told) for s in ("a", "b")]


X = {"n": [1.0, 2.0, -2.0], "s": [0.5, 0.0, 1.0], "w": [3.0, 0.25, 0.0]}


def test_sums_and_distances_by_letters():
    room = Room()
    names = room.seal(X)
    assert room.judged(names) == []
    shares = [as_words(tensors["share"]) for _, tensors in room.mix(names, [[1, -1, 2]])]
    assert decoded(shares[0] + shares[1], BITS).tolist() == [[6.5, 2.5, -3.0]]
    pairs, groups = [[n, n] for n in names] + [[names[0], names[1]]], [[[0, 3]]]
    room.ask("dealer", do="products", pairs=pairs, groups=groups, op="3")
    told = {"do": "distances", "pairs": pairs, "wanted": pairs, "groups": groups, "op": "3"}
    found = sum(as_words(room.ask(s, **told)[1]["share"]) for s in ("a", "b"))
    assert decoded(found, 2 * BITS)[:, 0].tolist() == [9.0, 1.25, 9.0625, 13.25]


def test_a_site_gets_its_sum_in_two_letters_and_nobody_else_does():
    room = Room()
    names = room.seal(X)
    room.judged(names)
    for answer, tensors in room.mix(names, [[1, 1, 1]], receiver="n"):
        assert not tensors
        assert answer["leverage"] == pytest.approx(0.5)  # of the two others': its own is known to it
    shares = [body for _, to, what, body in room.letters if what == "share" and to == "n"]
    assert len(shares) == 2
    told = {"like": {"w": ["float64", [3]]}, "floats": ["w"], "points": {"w": 0}, "bits": BITS}
    message = {"told": {**told, "near": [], "bases": [], "taken": {}}, "op": "2", "new": [7]}
    (sum_,) = room.sites["n"].unseal(message, {"off/w": torch.ones(1)}, dict)
    assert sum_["w"].tolist() == [4.5, 2.25, -1.0]
    with pytest.raises(BadRun, match="a share of a sum has not come"):
        room.sites["s"].unseal(message, {}, dict)


def test_what_passes_is_random_to_each():
    """The same replies twice: no letter with words in it is the same, nor close to the reply."""
    seen = []
    for _ in range(2):
        room = Room()
        room.seal(X)
        seen.append([body for _, _, what, body in room.letters if what == "masked"])
    assert len(seen[0]) == 6
    assert not set(seen[0]) & set(seen[1])
    words = [decoded(as_words(unpack(body)[1]["words"]), BITS) for body in seen[0]]
    assert all(np.abs(w).max() > 1e6 for w in words)


def test_liars_are_named():
    room = Room()
    names = room.seal(X)
    for name in ("ada", "ben"):  # what the site sent to both has 2^63 in its first word
        server = room.helpers[name].seats[RUN].server
        held = server._held["m-s"]
        held.masked = held.masked + np.array([2**63, 0, 0], dtype=np.uint64)
        if name == "ada":
            held.share = held.share + np.array([2**63, 0, 0], dtype=np.uint64)
    assert room.judged(names) == ["m-s"]
    answer, _ = room.mix(names, [[1, 1, 1]])[0]
    assert "has not been looked at" in answer["text"]


@pytest.mark.parametrize(
    ("asked", "kind", "said"),
    [
        ({"of": "a", "do": "judge", "op": "1", "by": "mate"}, "Refused", "this run is led by lead"),
        (
            {"of": "a", "do": "coin", "names": ["x"], "op": "1", "run": "1" * 32},
            "BadRun",
            "no part in that",
        ),
        ({"of": "a", "do": "deal", "hosts": {}, "words": 3}, "Refused", "ada is a in this run, not dealer"),
        ({"of": "dealer", "do": "coin", "names": [], "op": "1"}, "Refused", "is the dealer in this run"),
        ({"of": "dealer", "do": "deal", "hosts": {"x": "who"}, "words": 3}, "Refused", "takes no part"),
        ({"of": "a", "do": "coin", "names": ["x"], "op": "1"}, "BadRun", "1 replies have not come"),
        ({"of": "a", "do": "judge", "op": "9"}, "BadData", "of which nothing was asked before"),
        ({"of": "a", "do": "judge"}, "BadData", "missing required field `op`"),
        (
            {"of": "a", "do": "judge", "op": "1", "schema": 2},
            "Refused",
            "messages of schema 2, and 1 is known",
        ),
        ({"of": "a", "do": "steal"}, "Refused", "nothing that a helper can be asked"),
        ({"of": "a", "do": "coin", "run": "../x"}, "BadData", "names no run"),
        (
            {"of": "a", "do": "mix", "names": [], "receiver": "who", "slices": {}, "op": "1"},
            "Refused",
            "a sum for 'who', who takes no part",
        ),
        (
            {"of": "b", "do": "project", "names": [], "op": "1", "nonces": {"a": "00", "b": "00"}},
            "Refused",
            "a coin that this helper had no part in",
        ),
    ],
)
def test_questions_that_are_refused(asked, kind, said):
    answer, _ = Room().ask(**asked)
    assert answer["error"] == kind
    assert said in answer["text"]


def test_no_second_part_in_a_run():
    room = Room()
    told = {"sites": SITES, "leverage": 1.0, "projections": 16, "do": "sit"}
    other = {"a": "ben", "b": "ada", "dealer": "tom"}
    answer, _ = unpack(
        room.helpers["ada"].answer(
            room.cards["lead"], {}, pack({**told, "parties": other, "side": "b", "run": RUN}, {})
        )
    )
    assert "ada has another part in this run" in answer["text"]
    answer, _ = unpack(
        room.helpers["ada"].answer(
            room.cards["lead"], {}, pack({**told, "parties": PARTIES, "side": "b", "run": RUN}, {})
        )
    )
    assert "which is 'ben''s" in answer["text"]


def test_letters_that_are_refused():
    room = Room()
    ada = room.helpers["ada"]
    seeds = pack({"seeds": {"x": "00" * 32}, "hosts": {"x": "n"}}, {})
    for sender in ("ben", "n"):
        with pytest.raises(Refused, match=r"'seeds' of .* whose part it is not"):
            ada.take_peer_message(room.cards[sender], {"run": RUN, "what": "seeds"}, seeds)
    with pytest.raises(BadRun, match="has no part in that run"):
        ada.take_peer_message(room.cards["tom"], {"run": "1" * 32, "what": "seeds"}, seeds)
    with pytest.raises(BadData, match="missing required field `seeds`"):
        ada.take_peer_message(room.cards["tom"], {"run": RUN, "what": "seeds"}, pack({}, {}))
    ada.take_peer_message(room.cards["tom"], {"run": RUN, "what": "seeds"}, seeds)
    told = {"name": "x", "bits": 24, "room": 30.0, "words": 3, "reply": "r", "bound": 1.0}
    words = {"words": as_tensor(np.zeros(3, dtype=np.uint64))}
    with pytest.raises(Refused, match="under a mask that is not its own"):
        ada.take_peer_message(room.cards["s"], {"run": RUN, "what": "masked"}, pack(told, words))
    ada.take_peer_message(room.cards["n"], {"run": RUN, "what": "masked"}, pack(told, words))
    site = room.sites["n"]
    with pytest.raises(Refused, match="'seeds' of 'ada', whose part it is not"):
        site.take("ada", {"run": RUN, "what": "seeds"}, pack({"seeds": {}}, {}))
    with pytest.raises(BadRun, match="seeds have not come"):
        room.sites["n"].seal(
            {
                "terms": {"bits": 24, "room": 30.0, "words": 1},
                "floats": ["w"],
                "orders": [{"name": "z", "row": 0, "less": None}],
                "run": RUN,
            },
            lambda row: {"w": torch.ones(1)},
            lambda *letter: None,
        )


def test_three_parties_with_three_keys():
    cards = {n: card(n) for n in ("ada", "ben", "tom")}
    check_parties(PARTIES, cards.get)
    with pytest.raises(Refused, match="ada and tom have one key, and together they see every reply"):
        check_parties(PARTIES, {**cards, "tom": card("tom", key="ada")}.get)
    with pytest.raises(Refused, match="'tom' is a site, no helper"):
        check_parties(PARTIES, {**cards, "tom": card("tom", "site")}.get)
    with pytest.raises(Refused, match="are not three parties"):
        check_parties({**PARTIES, "b": "ada"}, cards.get)
    with pytest.raises(BadRun, match="helper 'tom' is not connected"):
        check_parties(PARTIES, {n: c for n, c in cards.items() if n != "tom"}.get)


def test_a_round_that_is_over_leaves_nothing():
    room = Room()
    names = room.seal(X)
    for side in ("dealer", "b", "a"):
        room.ask(side, do="over")
    answer, _ = room.ask("a", do="coin", names=names, op="1")
    assert "3 replies have not come" in answer["text"]
    room.ask("a", do="end")
    assert room.helpers["ada"].seats == {}


def test_spoiled_questions_and_letters_end_nothing():
    """Thousands of messages with something wrong: each is answered, or refused in a line."""
    room, draws = Room(), np.random.default_rng(0)
    values = [None, 1, -1, "x", [], {}, [[]], 1e9, True, "a" * 50, {"a": 1}]
    verbs = ["sit", "deal", "products", "coin", "project", "judge", "mix", "distances", "over", "hello", "x"]
    keys = ["names", "hosts", "words", "op", "pairs", "groups", "wanted", "nonces", "slices", "receiver"]
    keys += ["side", "parties", "sites", "leverage", "projections"]
    for i in range(3_000):
        message = {"do": verbs[draws.integers(len(verbs))], "run": RUN}
        for key in draws.choice(keys, size=draws.integers(0, 6), replace=False):
            message[key] = values[draws.integers(len(values))]
        tensors = {"w": torch.zeros(1, 1, dtype=torch.int64)} if i % 3 else {}
        answer, _ = unpack(room.helpers["ada"].answer(room.cards["lead"], {}, pack(message, tensors)))
        assert isinstance(answer, dict)
        header = {"run": RUN, "what": ["seeds", "masked", "products", "blind", "projections", 3][i % 6]}
        sender = room.cards[["tom", "ben", "n"][i % 3]]
        try:
            room.helpers["ada"].take_peer_message(sender, header, pack(message, tensors))
        except (BadData, BadInput, BadRun, Refused):
            continue
        except Exception as error:
            pytest.fail(f"{message} from {sender.name}: {error!r}")


def test_seeds_are_nowhere_but_with_their_owners():
    room = Room()
    room.seal(X)
    to_ada = b"".join(body for _, to, _, body in room.letters if to == "ada")
    to_ben = b"".join(body for _, to, _, body in room.letters if to == "ben")
    dealt = room.helpers["tom"].seats[RUN].dealer._dealt
    for first, second, _ in dealt.values():
        assert first.hex().encode() in to_ada
        assert first.hex().encode() not in to_ben
        assert second.hex().encode() in to_ben
        assert second.hex().encode() not in to_ada
