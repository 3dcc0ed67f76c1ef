"""What a visit does at a site: the rows that it trains on and scores on, its steps, and the memory it needs.

Found from the kernel and its options before anything is computed or taken into memory. A policy is about
these effects, not about names: `check_effects` holds them against it, and `row_sets.py` against all that was
told before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from coterie.core.errors import BadInput, Refused
from coterie.core.groups import Groups
from coterie.core.kernel import apart, extent_of, gradients_of, looks, makes, scores
from coterie.core.learner import Learner
from coterie.federation.policy import above
from coterie.federation.policy_keys import Policy

RECORDED = 200_000  # bytes, for each gradient of a step, to record it
COPIES = 8  # of a belief in training
SLACK = 1 << 28  # bytes that a process may take beside a visit
STATM = Path("/proc/self/statm")


@dataclass(frozen=True)
class Load:
    """What comes along with a visit: guests, beliefs in all, what a model and a row have of numbers."""

    guests: int
    beliefs: int
    numbers: int
    row: int = 1
    outputs: int = 1


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


def effects_of(kernel: Any, sizes: Mapping[str, int], load: Load) -> Effects:
    """Of a visit, without planning it."""
    if makes(kernel):
        return Effects(bytes=8 * (load.beliefs + load.guests) * load.numbers)
    if scores(kernel):
        return effects_of_scores(kernel, sizes, load)
    samples = sizes["train"]
    extent = extent_of(kernel, samples)
    if extent is None:
        raise Refused(
            f"{named(kernel)} does not say how much it does: give it an extent (docs/adding-a-method.md)"
        )
    each = gradients_of(kernel)
    taken = 24 * extent.steps * extent.batch * load.guests + RECORDED * each
    taken += 8 * (load.beliefs + COPIES * load.guests) * load.numbers + 32 * extent.batch * load.row
    return Effects(
        "train",
        True,
        samples,
        extent.rows,
        not extent.evenly,
        extent.least,
        extent.steps,
        extent.steps * each * load.guests,
        extent.batch,
        taken,
        tells_of(kernel),
    )


def tells_of(kernel: Any) -> str:
    """Of which step the numbers of a kernel, or of one inside, are by themselves."""
    while kernel is not None:
        if found := getattr(kernel, "tells", ""):
            return str(found)
        kernel = getattr(kernel, "inner", None)
    return ""


def effects_of_scores(kernel: Any, sizes: Mapping[str, int], load: Load) -> Effects:
    if kernel.part is None:
        return Effects()
    samples = sizes[kernel.part]
    told = sum(kernel.sizes.values()) if looks(kernel) else load.outputs * samples
    taken = 32 * load.guests * told + 8 * (load.beliefs + load.guests) * load.numbers
    some = None if looks(kernel) or not samples else apart(kernel, Groups.of(torch.tensor([samples])))
    rows = None if some is None else some.nonzero().flatten()
    return Effects(kernel.part, False, samples, rows, bytes=taken)


def check_load(policy: Policy, effects: Effects) -> None:
    """Steps and memory."""
    for line in (
        above(effects.gradients, "gradients in a visit", policy.max_steps, "max_steps"),
        above(effects.bytes, "bytes of memory for a visit", policy.max_memory, "max_memory"),
    ):
        if line:
            raise Refused(line)


def check_effects(policy: Policy, effects: Effects) -> None:
    """What a visit does by itself, against the policy; see `row_sets.py` for what it does beside others."""
    check_load(policy, effects)
    if not effects.part or not effects.of:
        return
    least = policy.min_rows
    if effects.many < least:
        raise Refused(
            f"a visit that {effects.words()}, below the policy's {least}: ask for more rows, or lower "
            "min_rows"
        )
    if effects.trains and effects.tells == "each step" and effects.steps > 1:
        raise Refused(f"figures of each of {effects.steps} steps: take one batch of all rows")
    if effects.trains and effects.tells and effects.later < least:
        raise Refused(f"figures of a last step of {effects.later} rows: take another batch")
    if effects.trains and effects.batch < min(least, effects.of):
        raise Refused(
            f"steps of {effects.batch} rows, below the policy's {least}: take larger batches, or lower "
            "min_rows"
        )


def named(kernel: Any) -> str:
    return str(getattr(kernel, "name", type(kernel).__name__))


def remembered_bytes(kernel: Any, learner: Learner, belief: Mapping[str, Tensor]) -> int:
    """Of an optimiser's or a posterior's state, without taking up its memory."""
    if scores(kernel) or makes(kernel):
        return 0
    ghost = {name: torch.empty_like(t, device="meta") for name, t in belief.items()}
    try:
        found = kernel.fresh(learner, ghost)
    except BadInput:  # said when it is visited
        return 0
    return sum(t.numel() * t.element_size() for t in found.values())


def taken_up() -> int | None:
    """Bytes of memory that this process has for data; None where the system does not say."""
    try:
        import resource

        return int(STATM.read_text().split()[5]) * resource.getpagesize()
    except (ImportError, OSError, ValueError, IndexError):
        return None


@contextmanager
def bounded_memory(most: int, before: int | None) -> Iterator[None]:
    """This process may take so many bytes more than it had before, and what would take more fails before it
    does; where the system has no such bound, what was foreseen is all there is.
    """
    if before is None:
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = before + most + SLACK
    ceiling = min(x for x in (wanted, soft, hard) if x != resource.RLIM_INFINITY)
    resource.setrlimit(resource.RLIMIT_DATA, (ceiling, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
