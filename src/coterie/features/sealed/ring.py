"""The ring Z_2^64: numbers with a fixed point, and masks.

    X = round(x 2^bits) mod 2^64        x = (X as a signed number) / 2^bits

Sums and products wrap around by themselves; a result is right if, as a signed number, it stays below 2^63.
`LOAD` bits are what a result may use, one less than there are, so that what is checked has room to spare.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from coterie.core.errors import BadInput

Words = np.ndarray[Any, np.dtype[np.uint64]]

RING = 2**64
SEED = 32  # bytes of a key of AES-256
LOAD = 62
WHOLE = 24  # bits behind the point of weights that are not whole numbers
BITS = (8, 30)  # behind the point of replies: fewer are coarse, more leave no room for distances


def check_bits(bits: int) -> None:
    if not BITS[0] <= bits <= BITS[1]:
        raise BadInput(f"bits={bits} must lie between {BITS[0]} and {BITS[1]}: try 26")


def encoded(x: np.ndarray, bits: int) -> Words:
    """x [word] as ring elements; whoever calls has seen to it that they fit."""
    return np.rint(np.asarray(x, dtype=np.float64) * 2.0**bits).astype(np.int64).view(np.uint64)


def decoded(words: Words, bits: int) -> np.ndarray:
    """The inverse, in float64."""
    return words.view(np.int64).astype(np.float64) / 2.0**bits


def masks(seed: bytes, count: int) -> Words:
    """So many ring elements from a seed: the key stream of AES-256 in counter mode."""
    if len(seed) != SEED:
        raise BadInput(f"a seed of {len(seed)} bytes, not of {SEED}: draw one with secrets.token_bytes")
    stream = Cipher(algorithms.AES(seed), modes.CTR(bytes(16))).encryptor()
    return np.frombuffer(stream.update(bytes(8 * count)), dtype="<u8").astype(np.uint64, copy=False)


def whole_weights(weights: np.ndarray) -> tuple[np.ndarray, int]:
    """Weights [receiver, row] as whole numbers, and how many bits stand behind their point.

    Weights that are whole already have none, so that sums of natural parameters lose nothing.
    """
    bits = 0 if np.array_equal(weights, np.rint(weights)) else WHOLE
    return np.rint(weights * 2.0**bits).astype(np.int64), bits


def summed_up(weights: np.ndarray, whole: np.ndarray, bits: int) -> np.ndarray:
    """[receiver] by what a sum with whole weights is off, since these do not add up as the weights do."""
    have = whole.sum(axis=1) / 2.0**bits
    found: np.ndarray = np.divide(weights.sum(axis=1), have, out=np.ones(len(have)), where=have != 0)
    return found


def reach(whole: np.ndarray) -> int:
    """log2 of what replies may come to in the ring, so that no sum with these weights overflows."""
    most = int(np.abs(whole).sum(axis=1).max(initial=1))
    return LOAD - math.ceil(math.log2(max(1, most)))


def room_for_distances() -> float:
    """log2 of the length |X| of a reply up to which no square of a distance overflows: 4 |X|^2 < 2^63."""
    return (LOAD - 1) / 2


def combined(whole: np.ndarray, rows: list[Words]) -> Words:
    """Sums [receiver, word] of rows by whole weights [receiver, row]."""
    total = np.zeros((len(whole), len(rows[0])), dtype=np.uint64)
    for i, weights in enumerate(whole.astype(np.int64).view(np.uint64)):
        for weight, row in zip(weights, rows, strict=True):
            if weight:
                total[i] += weight * row
    return total
