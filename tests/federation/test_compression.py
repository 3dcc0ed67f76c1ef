"""Models in messages: exact by default, small where both ends remember, whole where one has forgotten."""

from __future__ import annotations

import pytest
import torch

from coterie.core.errors import BadData, Refused
from coterie.core.wire import pack
from coterie.federation.transport.compression import FROM, TO, Compression
from coterie.nets.packing import LostReference

TWO = torch.zeros(2, dtype=torch.uint8)


def model(seed: int, near: dict | None = None, n: int = 6000) -> dict[str, torch.Tensor]:
    draws = torch.Generator().manual_seed(seed)
    found = {"w": torch.randn(n, generator=draws), "b": torch.arange(3)}
    return found if near is None else {"w": near["w"] + 1e-4 * found["w"], "b": found["b"]}


def named(id: int, some: dict) -> dict[str, torch.Tensor]:
    return {f"{id}/{name}": t for name, t in some.items()}


def crossed(lead, site, way, message, tensors, squeeze, learns=True):
    data = lead.pack("site", message, tensors, squeeze, learns)
    found = site.unpack(way, data, learns)
    lead.taken("site")
    return data, *found


@pytest.mark.parametrize("squeeze", ["none", "delta"])
def test_whatever_crosses_comes_back_to_the_last_bit(squeeze):
    lead, site, last = Compression(), Compression(), None
    for r in range(3):
        last = model(r, last)
        tensors = {**named(7 + r, last), "weights/*": torch.eye(2), "9/small": torch.ones(3)}
        _, message, found = crossed(lead, site, "lead", {"do": "visit", "n": r}, tensors, squeeze)
        assert message == {"do": "visit", "n": r}
        assert found.keys() == tensors.keys()
        assert all(torch.equal(found[n], t) and found[n].dtype == t.dtype for n, t in tensors.items())


def test_a_model_goes_in_fewer_bytes_once_an_earlier_one_has_been_taken():
    lead, site = Compression(), Compression()
    first = model(0)
    sizes = []
    for r in range(2):
        data, _, _ = crossed(lead, site, "lead", {}, named(r, model(r, first) if r else first), "delta")
        sizes.append(len(data))
    assert sizes[1] < 0.75 * sizes[0]
    reply = model(5, model(1, first))  # of the model that it was sent
    back = site.pack("lead", {}, named(3, reply), "delta", learns=False)
    assert len(back) < 0.75 * sizes[0]
    assert torch.equal(lead.unpack("site", back, learns=False)[1]["3/w"], reply["w"])


def test_what_was_not_taken_is_nobody_s_reference():
    lead, site = Compression(), Compression()
    lead.pack("site", {}, named(0, model(0)), "delta", True)  # lost on the way
    data = lead.pack("site", {}, named(1, model(1)), "delta", True)
    assert torch.equal(site.unpack("lead", data, True)[1]["1/w"], model(1)["w"])


def test_an_end_that_has_forgotten_says_so_and_gets_the_whole():
    lead, site = Compression(), Compression()
    crossed(lead, site, "lead", {}, named(0, model(0)), "delta")
    changed = named(1, model(1, model(0)))
    with pytest.raises(LostReference, match="send it whole"):
        Compression().unpack("lead", lead.pack("site", {}, changed, "delta", True), True)
    lead.forget("site")
    found = Compression().unpack("lead", lead.pack("site", {}, changed, "delta", True), True)
    assert torch.equal(found[1]["1/w"], changed["1/w"])


def test_what_is_not_sent_now_is_owed_by_who_was_sent_the_model_and_not_by_a_peer():
    """By hand: of 6000 changes of 1e-4 and one of 1, the largest hundredth goes, the others add up."""
    for way, owes in (("site", True), (f"{TO}b", False)):
        one, other = Compression(), Compression()
        far = {"w": torch.zeros(6000)}
        for r in range(2):
            data = one.pack(way, {}, named(r, far), "topk=0.01", True)
            there = other.unpack(f"{FROM}a", data, True)[1][f"{r}/w"]
            one.taken(way)
            far = {"w": torch.full((6000,), 1e-4)}
            far["w"][0] = 1.0
        assert float(there[0]) == 1.0
        assert int((there != 0).sum()) == 60
        owed = sum(float(t.sum()) for memory in one.owed.values() for t in memory.values())
        assert owed == pytest.approx(5940e-4 if owes else 0.0, rel=1e-4)


BOMBS = ["delta", "fp16", "int8", "topk=0.001"]


@pytest.mark.parametrize("squeeze", BOMBS)
def test_a_small_message_does_not_become_a_large_one(squeeze, monkeypatch):
    """Numbers of which there are few take few bytes on the wire."""
    steps = {"w": torch.randint(0, 9, (500_000,)).double()}
    data = Compression().pack("site", {}, named(0, steps), squeeze, True)
    site = Compression(most=3_000_000)
    assert len(data) < 1_500_000
    monkeypatch.setattr(
        "coterie.federation.transport.compression.unsqueezed", lambda *told: pytest.fail("memory is taken")
    )
    with pytest.raises(Refused, match="models of 4000000, of at most 3000000"):
        site.unpack("lead", data, True)
    assert not site.known


@pytest.mark.parametrize("squeeze", BOMBS)
def test_many_models_in_one_message_count_together(squeeze):
    site, lead = Compression(most=3_000_000), Compression()
    models = {}
    for id in range(3):
        models |= named(id, {"w": torch.zeros(150_000, dtype=torch.float64)})
    with pytest.raises(Refused, match="models of 3600000, of at most 3000000"):
        site.unpack("lead", lead.pack("site", {}, models, squeeze, True), True)


def test_what_is_remembered_of_one_sender_is_no_more_than_a_message(monkeypatch):
    """Each message has its large model in another place."""
    site, small = Compression(most=100_000), {"w": torch.zeros(5000)}
    for r in range(6):
        models = {}
        for place in range(6):
            models |= named(place, {"w": torch.randn(18_000)} if place == r else {"w": torch.zeros(1)})
        models = {n: t for n, t in models.items() if int(n[0]) <= r}
        others = {f"{9 + p}/w": small["w"] for p in range(r % 2)}  # which move the others by a place
        site.unpack("lead", Compression().pack("site", {}, {**others, **models}, "delta", True), True)
        assert sum(t.nbytes for one in site.known.values() for t in one.tensors.values()) <= 100_000


def test_what_is_remembered_has_bounds(monkeypatch):
    monkeypatch.setattr("coterie.federation.transport.compression.ROOM", 60_000)
    lead = Compression()
    for r in range(5):
        lead.pack(f"site{r}", {}, named(r, model(r)), "delta", True)
        lead.taken(f"site{r}")
    assert [way for way, _ in lead.known] == ["site3", "site4"]


@pytest.mark.parametrize(
    ("message", "tensors"),
    [
        ({"parcels": {"1": {"how": "plain"}}}, {}),
        ({"parcels": [1]}, {}),
        ({"parcels": {"1": {"how": "plain"}}}, {"#1": torch.zeros(3)}),
        ({"parcels": {"1": {"how": "plain", "tensors": {"w": ["F32", [9]]}}}}, {"#1": TWO}),
        ({"parcels": {"1": None}}, {"#1": TWO}),
    ],
)  # fmt: skip
def test_parcels_that_are_none_are_refused(message, tensors):
    with pytest.raises(BadData):
        Compression().unpack("lead", pack(message, tensors), True)
