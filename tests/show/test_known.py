"""Texts that files have in English are told in the reader's language: each is one of the catalogue's."""

from __future__ import annotations

import pytest

from coterie.core.clock import PARTS
from coterie.features.audit import canaries, inversion, membership, mixes
from coterie.features.energy.record import grid, read
from coterie.show.words import known, say, speaking

PROOFS = [
    text for attack in (canaries, inversion, membership, mixes) for text in (attack.PROVES, attack.PROVES_NOT)
]
FACTORS = [read()[name][what] for name in ("watts", "pue", "network", "grid") for what in ("unit", "about")]
TEXTS = [
    *(("proof", text) for text in PROOFS),
    *(("factor", text) for text in (*FACTORS, grid().name)),
    *(("time", text) for text in (*PARTS, "in all")),
]


@pytest.mark.parametrize(("room", "english"), TEXTS)
def test_a_text_of_a_file_is_told_in_the_reader_s_language(room, english):
    told = known(room, english)
    assert told == english
    with speaking("fr"):
        assert say.again(told) != english
    assert known(room, "of somebody's own") == "of somebody's own"
