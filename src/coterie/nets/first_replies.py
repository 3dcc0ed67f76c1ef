"""What clients replied first to each guest, for whoever answers with it again: handles, kept beside a run's
state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from coterie.core.belief import Beliefs
from coterie.core.held import Held, Part

KEPT = "first|"


class FirstReplies:
    """By guest, host and the names of the reply's tensors."""

    def __init__(self) -> None:
        self.known: dict[tuple[int, int, tuple[str, ...]], Held] = {}

    @property
    def live(self) -> list[Held]:
        return list(self.known.values())

    def of(self, guest: int, host: int, reply: Held) -> Held:
        """The first one; this one, if there was none."""
        return self.known.setdefault((guest, host, reply.names), reply)

    def kept(self, peek: Callable[[Held], Beliefs | None]) -> dict[str, Tensor]:
        """For a checkpoint: ids and what tensors are like, and their numbers where they are here."""
        own: dict[str, Tensor] = {}
        for number, ((guest, host, _), held) in enumerate(self.known.items()):
            (part,), seen = held.parts, peek(held) or {}
            mark = f"{KEPT}{number}|"
            own[f"{mark}id"] = torch.tensor([guest, host, int(part.ids[0])])
            for name, t in part.tensors.items():
                own[f"{mark}is|{name}"] = torch.empty(0, *t.shape[1:], dtype=t.dtype)
                if name in seen:
                    own[f"{mark}has|{name}"] = seen[name]
        return own

    def restore(self, kept: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The inverse of `kept`; what else there was is given back."""
        found: dict[str, dict[str, Tensor]] = {}
        for key in [k for k in kept if k.startswith(KEPT)]:
            number, _, rest = key.removeprefix(KEPT).partition("|")
            found.setdefault(number, {})[rest] = kept[key]
        for told in found.values():
            guest, host, id = told["id"].tolist()
            tensors = {
                name[3:]: told.get(f"has|{name[3:]}", t.new_empty((1, *t.shape[1:]), device="meta"))
                for name, t in told.items()
                if name.startswith("is|")
            }
            held = Held((Part(tensors, torch.tensor([id]), torch.tensor([host])),))
            self.known[guest, host, held.names] = held
        return {k: t for k, t in kept.items() if not k.startswith(KEPT)}
