"""A model card: what a person should know of a model before using it. No row of anybody's data is in it,
but the lowest and highest values of the client's own columns.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from coterie.metrics.table import NAMED
from coterie.runs.artifacts import POINT
from coterie.show import numbers as wording
from coterie.show import views
from coterie.sites.leaks import look_first
from coterie.use.bounds import value_text
from coterie.use.predictor import PREDICTS

if TYPE_CHECKING:
    from coterie.data.preparation import Part
    from coterie.use.predictor import Predictor

TO_FILL = "*To be filled in by whoever answers for this model:*"


def card(predictor: Predictor) -> str:
    facts = predictor.facts
    parts = [
        f"# Model of {predictor.client}",
        _says(predictor),
        "## Intended use",
        f"{TO_FILL} for what, for whom, by whom; what must not be decided with it.",
        *([*_data(predictor), *_circle(facts), *_scores(predictor), *_calibration(facts)] if facts else []),
        *_columns(predictor),
        *_limits(predictor),
    ]
    if facts:
        made = ", ".join(f"{name} {version}" for name, version in facts["versions"].items() if version)
        parts += ["## Made with", f"{made}; seed {facts['seed']}."]
    return html.escape("\n\n".join(parts), quote=False) + "\n"  # viewers of Markdown pass HTML on


def _says(predictor: Predictor) -> str:
    names = ", ".join(predictor.classes)
    what = f"one of {names}, with a probability for each" if names else PREDICTS[predictor.task]
    name, facts = predictor.made.get("name", "network"), predictor.facts
    size = f" of {wording.several(facts['parameters'], 'parameter')}" if facts.get("parameters") else ""
    means = "".join(f" {said[0].upper()}{said[1:]}." for said in predictor.means)
    if predictor.cut is not None:  # the card stays as it is, whatever is decided later
        means += " So it was when this folder was written; what holds now is in cut.json."
    return f"Predicts {what}, by a {name}{size}.{means}"


def _data(predictor: Predictor) -> list[str]:
    facts = predictor.facts
    rows = facts["rows"]
    lines = [
        f"Trained on {wording.several(rows['train'], 'row')} of {predictor.client}'s own; "
        f"{rows['validation']} held out for validation, {rows['test']} for testing. Data: {facts['data']}, "
        f"split by {facts['split']}."
    ]
    kinds = views.kinds(predictor.task, predictor.classes)
    if facts["labels"] and kinds:
        head = ["class" if predictor.classes else "rows", "training", "validation", "test"]
        counts = zip(*facts["labels"], strict=True)
        lines.append(_table(head, [[c, *map(str, n)] for c, n in zip(kinds, counts, strict=False)]))
    if facts["notes"]:
        lines.append("What was done to its rows:\n\n" + "\n".join(f"- {note}" for note in facts["notes"]))
    return ["## Data", *lines]


def _circle(facts: Mapping[str, Any]) -> list[str]:
    lines = [
        f"Learned by {facts['method']} in {wording.several(facts['rounds'], 'round')}, among "
        f"{wording.several(facts['clients'], 'client')}."
    ]
    if facts["circle"]:
        rows = [[n, f"{last:.3f}", f"{mean:.3f}"] for n, (last, mean) in facts["circle"].items()]
        lines.append("Whom it listened to, and how much:")
        lines.append(_table(["client", "last round", "mean of all rounds"], rows))
    else:
        lines.append("The method weighs nobody, or no round was recorded.")
    return ["## Circle", *lines]


def _scores(predictor: Predictor) -> list[str]:
    facts = predictor.facts
    if not any(v is not None for v in facts["scores"].values()):
        return ["## Scores", "No rows were set aside for testing, so nothing is known of how good it is."]
    whose = "the client's own test rows, which no training saw"
    lines = [f"On {wording.several(facts['rows']['test'], 'test row')}: {whose}."]
    if facts["of"] == POINT:
        lines.append(
            "In its run the client averaged the predictions of several models. This is the one that stands "
            "for them: scores are its own, and it may be less cautious than the average."
        )
    if predictor.recalibrated and predictor.recalibrated.found:
        lines.append(
            "Scores and calibration are of the model itself, before its probabilities are recalibrated."
        )
    named = [
        [wording.unit(m).replace(wording.GAP, " ") if m in NAMED else m, wording.figure(v, m)]
        for m, v in facts["scores"].items()
        if v is not None
    ]
    return ["## Scores", *lines, _table(["figure", "value"], named)]


def _calibration(facts: Mapping[str, Any]) -> list[str]:
    if not facts["calibration"]:
        return []
    rows = [
        [f"{low:.2f} to {high:.2f}", f"{samples:.0f}", f"{mean:.3f}", f"{right / samples:.3f}"]
        for low, high, samples, mean, right in facts["calibration"]
    ]
    head = ["sure by", "test rows", "mean probability", "share that was right"]
    return ["## Calibration", "How often it was right where it was that sure:", _table(head, rows)]


def _columns(predictor: Predictor) -> list[str]:
    way = predictor.intake.way
    if way is None:
        return ["## Inputs", f"Numbers of shape {list(predictor.shape)}, taken as they are."]
    rows = []
    for part in way.parts:
        column = part.column
        holds = ", ".join(column.values) if column.values else column.kind
        missing = "refused" if part.fill is None else f"taken as {column.text(part.fill)}"
        if not part.read:
            missing = "not looked at: training rows had no value"
        rows.append([column.name, holds, column.unit, missing, _training_rows(part)])
    lines = [
        "Columns are found by name, in any order. What lies outside of the training rows is predicted, and "
        "said so with each prediction.",
        _table(["column", "holds", "unit", "if missing", "in training rows"], rows),
    ]
    return ["## Columns", *lines]


def _training_rows(part: Part) -> str:
    """What the client's own training rows had in a column."""
    training, column = part.training, part.column
    if training is None:
        return "not recorded" if part.read else ""
    if training.quantiles:
        return f"{value_text(column, training.lowest)} to {value_text(column, training.highest)}"
    values = [column.text(code) for code in training.codes]
    return "all of these" if len(values) == len(column.codes or column.allowed or ()) else ", ".join(values)


def _limits(predictor: Predictor) -> list[str]:
    facts, found = predictor.facts, list[str]()
    if said := look_first(facts.get("leaks") or ()):
        found.append(said)
    if facts:
        found.append(
            f"It knows {wording.several(facts['rows']['train'], 'training row')} of {predictor.client}, and "
            "what others' models brought; nothing says how it does for anybody else."
        )
    kinds = views.kinds(predictor.task, predictor.classes)
    if facts and facts["labels"] and kinds:
        counts = dict(zip(kinds, facts["labels"][0], strict=False))
        if rare := [f"{c} ({n})" for c, n in counts.items() if n < 20]:
            what = "Classes with few training rows" if predictor.classes else "Few training rows"
            found.append(f"{what}: {', '.join(rare)}.")
    if facts and 0 < facts["rows"]["test"] < 100:
        found.append(f"{facts['rows']['test']} test rows: scores may be off by chance.")
    if predictor.classifies and predictor.recalibrated is None:
        found.append("Probabilities are the model's own; nothing was recalibrated after training.")
    elif predictor.classifies and predictor.recalibrated is not None:
        said = predictor.recalibrated.words()
        found.append(f"{said[0].upper()}{said[1:]}.")
    found.append("Weights were fitted to rows, and may tell something of them to whoever has this folder.")
    way = predictor.intake.way
    if way is not None and any(p.training is not None and p.training.quantiles for p in way.parts):
        found.append("The lowest and highest values of columns are those of single rows.")
    lines = "\n".join(f"- {line}" for line in found)
    return ["## Limits", lines, f"{TO_FILL} known failures, who was left out."]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(c).replace("|", "\\|") for c in line) + " |" for line in lines)
