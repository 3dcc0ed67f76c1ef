"""What a posterior's weights are weights of: columns, units, classes; and whether two speak of the same.

A product of posteriors multiplies what two clients say of the same weight. It is of the same thing only if
the weight stands at the same input, counted in the same unit, and speaks for the same class. So inputs are
compared by name and in order, and units and classes with them; what differs is refused.

Scales are another matter. Where each client standardises by its own mean and deviation, a weight counts per
deviation of each one's own, as in any federated training on such inputs. That may be wanted (an instrument is
off at one hospital) or not (one hospital's patients are older, and age matters): it is said, not refused, and
rows are predicted with the scales of one client. But a weight per unit and one per deviation are not of the
same thing: where one client scales a column and another takes it as it is, that is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from coterie.core.errors import BadInput
from coterie.data.preparation import Part
from coterie.posteriors.store import Saved


def refuse_other_meaning(known: Saved, new: Saved) -> None:
    """Refuses a posterior of other columns, units, classes or kinds of scale than a member's."""
    if known.features != new.features:
        raise BadInput(
            f"posteriors of different columns: {_differing(known, new)}: join those that were trained on the "
            "same columns in the same order"
        )
    if known.classes != new.classes:
        named = [f"{some_names(s.classes)} for {s.client!r}" for s in (known, new)]
        raise BadInput(
            f"posteriors of different classes: {' and '.join(named)}: join those with the same classes in "
            "the same order"
        )
    scales = {s.client: _taken_as_they_are(s) for s in (known, new)}
    if set(scales.values()) == {True, False}:
        plain, scaled = sorted(scales, key=lambda client: not scales[client])
        raise BadInput(
            f"posteriors on different scales: {plain!r} takes numbers as they are, {scaled!r} scales them: "
            "prepare both alike"
        )
    mine, others = _parts_of(known), _parts_of(new)
    for name in (n for n in mine if n in others):
        a, b = mine[name].column, others[name].column
        if a.kind != b.kind:
            raise BadInput(
                f"posteriors of different columns: {name!r} is a {a.kind} for {known.client!r} and a "
                f"{b.kind} for {new.client!r}: join those that were trained on the same columns"
            )
        if a.unit != b.unit:
            raise BadInput(
                f"posteriors in different units: {name!r} is in {a.unit or 'no unit'} for {known.client!r} "
                f"and in {b.unit or 'no unit'} for {new.client!r}: train on one unit"
            )


def _taken_as_they_are(saved: Saved) -> bool | None:
    """Whether a client takes all numbers as they are; None where it has no columns of numbers with names."""
    if saved.preparation is None:
        return True if saved.features else None
    columns = [p.column for p in saved.preparation.parts if p.read and p.column.scaled]
    return all((c.center, c.spread) == (0.0, 1.0) for c in columns) if columns else None


def _differing(known: Saved, new: Saved) -> str:
    """Where two lists of inputs part, in a few words."""
    for one, other in ((known, new), (new, known)):
        if not one.features:
            return f"{one.client!r} does not name its columns, {other.client!r} does"
        if more := [f for f in one.features if f not in other.features]:
            return f"only {one.client!r} has {some_names(more)}"
    at = next(i for i, (a, b) in enumerate(zip(known.features, new.features, strict=True)) if a != b)
    return (
        f"input {at + 1} is {known.features[at]!r} for {known.client!r} and {new.features[at]!r} for "
        f"{new.client!r}"
    )


def _parts_of(saved: Saved) -> dict[str, Part]:
    return {} if saved.preparation is None else {p.column.name: p for p in saved.preparation.parts}


def own_scales(members: Iterable[Saved]) -> list[str]:
    """Columns that members scale by different numbers."""
    found: dict[str, set[tuple[float, float]]] = {}
    for saved in members:
        for name, part in _parts_of(saved).items():
            if part.column.scaled and part.read:
                found.setdefault(name, set()).add((part.column.center, part.column.spread))
    return [name for name, scales in found.items() if len(scales) > 1]


def common_preparation(members: Sequence[Saved]) -> bool:
    """Whether all members read and prepare rows alike."""
    told = [
        (
            None if s.preparation is None else s.preparation.without_training().to_dict(),
            None if s.recipe is None else s.recipe.table(),
        )
        for s in members
    ]
    return all(other == told[0] for other in told[1:])


def some_names(names: Sequence[str], most: int = 5) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "") if names else "none"
