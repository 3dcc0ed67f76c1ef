"""What a visit does at a site, before anything is done.

A visit's effects are the rows that it trains on and scores on, its steps, and the memory it needs, found from
the kernel and its options. A policy is about these effects, not about names: `Effects.check` holds them
against it, and `row_sets.py` against all that was told before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from coterie.core.errors import Refused
from coterie.core.facts import called, kernel_fact
from coterie.core.groups import Groups
from coterie.core.kernel import apart, extent_of, gradients_of, looks, makes, scores
from coterie.federation.policy.keys import Policy, above
from coterie.federation.policy.rules import refuse

PEER_SECONDS = 600.0  # seconds, at most, for another site to take a peer message
_RECORDED = 200_000  # bytes, for each gradient of a step, to record it
_COPIES = 8  # of a belief in training


@dataclass(frozen=True, eq=False)
class Effects:
    """Of one visit.

    part       on which rows; nothing if it looks at none
    trains     whether it trains on them, or only scores
    of         how many rows that part has
    rows       which of them it works on; None: all
    drawn      whether steps draw some of these for each visit, not all equally often; `least` at least
    steps      of each guest; `gradients` that all take, and `batch` the rows of one
    tells      of which step its numbers are by themselves; nothing if they are of all
    bytes      that it needs at most, beside what its layers keep between them
    """

    part: str = ""
    trains: bool = False
    of: int = 0
    rows: Tensor | None = None
    drawn: bool = False
    least: int = 0
    steps: int = 0
    gradients: int = 0
    batch: int = 0
    bytes: int = 0
    tells: str = ""

    @classmethod
    def of_visit(
        cls,
        kernel: Any,
        sizes: Mapping[str, int],
        guests: int,
        beliefs: int,
        numbers: int,
        row: int = 1,
        outputs: int = 1,
    ) -> Effects:
        """Without planning it: by rows of each part, guests, beliefs in all, and numbers of a model and of a
        row.
        """
        models = 8 * (beliefs + guests) * numbers
        if makes(kernel):
            return cls(bytes=models)
        if scores(kernel) and kernel.part is None:
            return cls()
        if scores(kernel):
            samples = sizes[kernel.part]
            told = sum(kernel.sizes.values()) if looks(kernel) else outputs * samples
            some = None if looks(kernel) or not samples else apart(kernel, Groups.of(torch.tensor([samples])))
            rows = None if some is None else some.nonzero().flatten()
            return cls(kernel.part, False, samples, rows, bytes=32 * guests * told + models)
        samples = sizes["train"]
        extent = extent_of(kernel, samples)
        if extent is None:
            name = called(kernel)
            raise Refused(
                f"{name} does not say how much it does: give it an extent (docs/adding-a-method.md)"
            )
        each = gradients_of(kernel)
        taken = 24 * extent.steps * extent.batch * guests + _RECORDED * each
        taken += 8 * (beliefs + _COPIES * guests) * numbers + 32 * extent.batch * row
        tells = next((str(one.tells) for one in with_inner(kernel) if getattr(one, "tells", "")), "")
        work = cls("train", True, samples, extent.rows, not extent.evenly, extent.least, extent.steps)
        gradients = extent.steps * each * guests
        return replace(work, gradients=gradients, batch=extent.batch, bytes=taken, tells=tells)

    @property
    def many(self) -> int:
        """How many rows."""
        if self.drawn:
            return self.least
        return self.of if self.rows is None else len(self.rows)

    @property
    def later(self) -> int:
        """Rows of all steps but the first: these see another model than the first did, so that the mean loss
        of a visit, less that of all rows, is a figure of theirs. As many as there are where it is of no step.
        """
        if not self.trains or self.steps <= 1 or self.steps > -(-self.many // max(1, self.batch)):
            return max(self.many, self.of)
        return self.many - self.batch

    def words(self) -> str:
        if not self.part:
            return "looks at no row"
        if not self.trains:
            return f"scores on {self.many} of {self.of} {self.part} rows"
        steps = f"{self.steps:,} step{'s' if self.steps != 1 else ''}"
        return f"trains on {self.many} of {self.of} rows in {steps} of {self.batch}"

    def check_load(self, policy: Policy) -> None:
        """Steps and memory."""
        refuse(above(self.gradients, "gradients in a visit", policy.max_steps, "max_steps"))
        refuse(above(self.bytes, "bytes of memory for a visit", policy.max_memory, "max_memory"))

    def check(self, policy: Policy) -> None:
        """What a visit does by itself, against the policy; beside others: `row_sets.py`."""
        self.check_load(policy)
        if not self.part or not self.of:
            return
        least = policy.min_rows
        if self.many < least:
            have = f"a visit that {self.words()}, below the policy's {least}"
            raise Refused(f"{have}: ask for more rows, or lower min_rows")
        if self.trains and self.tells == "each step" and self.steps > 1:
            raise Refused(f"figures of each of {self.steps} steps: take one batch of all rows")
        if self.trains and self.tells and self.later < least:
            raise Refused(f"figures of a last step of {self.later} rows: take another batch")
        if self.trains and self.batch < min(least, self.of):
            have = f"steps of {self.batch} rows, below the policy's {least}"
            raise Refused(f"{have}: take larger batches, or lower min_rows")


def with_inner(kernel: Any) -> Iterator[Any]:
    """A kernel, and those inside of it, the outermost first."""
    while kernel is not None:
        yield kernel
        kernel = kernel_fact(kernel, "inner")


def refuse_many(many: int, what: str, most: int) -> None:
    if many > most:
        raise Refused(f"{many} {what}, at most {most}: ask for fewer at once")
