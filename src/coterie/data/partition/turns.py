"""Pictures turned, mirrored or inverted: pure functions on raw rows [n, channel, height, width]."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from coterie.core.errors import BadInput, UnknownName

Turn = Callable[[np.ndarray], np.ndarray]


def identity(x: np.ndarray) -> np.ndarray:
    return pictures(x, "identity")


def rotate_90(x: np.ndarray) -> np.ndarray:
    """A quarter turn against the clock; square pictures only, for all clients share one shape."""
    return np.ascontiguousarray(np.rot90(square(x, "rotate-90"), 1, axes=(2, 3)))


def rotate_180(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(pictures(x, "rotate-180")[:, :, ::-1, ::-1])


def rotate_270(x: np.ndarray) -> np.ndarray:
    """A quarter turn with the clock."""
    return np.ascontiguousarray(np.rot90(square(x, "rotate-270"), 3, axes=(2, 3)))


def flip_horizontal(x: np.ndarray) -> np.ndarray:
    """Left and right change places."""
    return np.ascontiguousarray(pictures(x, "flip-horizontal")[:, :, :, ::-1])


def flip_vertical(x: np.ndarray) -> np.ndarray:
    """Top and bottom change places: what karlsson-2021's program did where its text says rotation by 180."""
    return np.ascontiguousarray(pictures(x, "flip-vertical")[:, :, ::-1, :])


def invert(x: np.ndarray) -> np.ndarray:
    """White for black: 255 - x for bytes, 1 - x for numbers from 0 to 1.

    Fixed, not fitted: a client's training and test rows are treated alike, whatever they hold.
    """
    pictures(x, "invert")
    if x.dtype == np.uint8:
        return 255 - x
    least, most = (float(x.min()), float(x.max())) if x.size else (0.0, 0.0)
    if x.dtype.kind != "f" or not 0 <= least <= most <= 1:
        raise BadInput(
            f"turn invert needs pixels as bytes or as numbers from 0 to 1; got {x.dtype} from {least:g} to "
            f"{most:g}: scale them"
        )
    return 1 - x


TURNS: dict[str, Turn] = {
    "identity": identity,
    "rotate-90": rotate_90,
    "rotate-180": rotate_180,
    "rotate-270": rotate_270,
    "flip-horizontal": flip_horizontal,
    "flip-vertical": flip_vertical,
    "invert": invert,
}


def turn(name: str, x: np.ndarray) -> np.ndarray:
    """Rows x [n, c, h, w] transformed by the turn of that name."""
    if name not in TURNS:
        raise UnknownName("turn", name, TURNS)
    return TURNS[name](x)


def pictures(x: np.ndarray, name: str) -> np.ndarray:
    if x.ndim != 4:
        raise BadInput(f"turn {name} needs pictures [n, channel, height, width]; got shape {list(x.shape)}")
    return x


def square(x: np.ndarray, name: str) -> np.ndarray:
    height, width = pictures(x, name).shape[2:]
    if height != width:
        raise BadInput(f"turn {name} needs square pictures; got {height}x{width}: use rotate-180 or a flip")
    return x
