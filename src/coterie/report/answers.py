"""Advice to read: with whom, why, what it brings, how sure, what is given away; for each client that asks."""

from __future__ import annotations

import math

from rich.table import Table

from coterie.methods import partners_of
from coterie.methods.advised import ALONE
from coterie.metrics.table import METRICS
from coterie.report import words
from coterie.report.answer_words import (
    amount,
    between,
    called,
    changed,
    figure_of,
    in_brackets,
    other_class,
)
from coterie.report.learnable import of_answer
from coterie.report.tables import BELOW
from coterie.report.terminal import fitting
from coterie.runs.answers import Advice, Answer, Gift
from coterie.runs.record import COORDINATOR
from coterie.runs.trying import ALIKE, THEIRS

MOST = 6  # partners that are named
SURE = ((0.8, "quite"), (0.5, "somewhat"), (0.0, "hardly"))
"""From which share of repetitions that choose the same on, which word."""
FEW_ROWS, FEW_EVENTS = 30, 10  # below, nobody is quite sure of anything
ASK = "ask again with more rows or other columns"
FEW = "there are few rows to go by"
LEGEND = (
    "Gain over training alone on held-out parts of each client's own training rows; in brackets its 95 % "
    "interval ({kind}), as wide as a choice among {ways} asks for; — where these rows allow none. * what "
    "each is advised to follow: the largest gain of those above {sure} standard error{s}, if {promise} "
    "leaves out 0 and it does better than always the same answer, else alone. Nothing: what always the same "
    "answer has, the client's own mean or shares of classes; below nothing: no better than that, so no gain."
)
PROMISED = (
    " Promised: what such a choice gains on rows that neither training nor choosing had seen, with the "
    "interval of as many rows as are held back for testing; the starred gain itself is too good, as the same "
    "rows chose it."
)


def sentences(advice: Advice) -> dict[str, list[str]]:
    """By client, what it is told: a few lines, the answer first."""
    return {a.client: lines_for(advice, a) for a in advice.answers}


def lines_for(advice: Advice, answer: Answer) -> list[str]:
    said = [of_answer(answer), with_whom(advice, answer), why(answer), gain(advice, answer)]
    said += [sureness(advice, answer), measured(advice), order(advice, answer), trust(answer)]
    said += [other_class(advice, answer), gives(advice, answer), costs(advice, answer)]
    return [line for line in said if line]


def measured(advice: Advice) -> str:
    """Why ways are compared by this measure, where that has to be said."""
    return f"Measure: {advice.measured}." if advice.measured else ""


def how(spec: str) -> str:
    """How a way chooses, as a part of a sentence; nothing where it does not say so."""
    chooses = partners_of(spec.partition(":")[0])
    return chooses.clause() if chooses is not None else ""


def with_whom(advice: Advice, answer: Answer) -> str:
    if answer.learnt.verdict == "no":
        return f"Neither others nor a model of your own for now: {ASK} ({scarce(advice, answer)})."
    if answer.alone:
        return why_alone(advice, answer)
    way = f"by {answer.choice}" + (f" ({said})" if (said := how(answer.choice)) else "")
    listed = [f"{other} (counts {share:.2f})" for other, share in answer.partners.items()]
    train = "Perhaps train" if weak(answer) else "Train"
    if not listed:
        return f"{train} {way}; nobody else came to count for more than a hundredth of your model."
    more_of = f" and {len(listed) - MOST} more" if len(listed) > MOST else ""
    mine = 1 - sum(answer.partners.values())
    own = f" Your own rows count {mine:.2f}." if mine > 0.005 else ""
    return f"{train} with {', '.join(listed[:MOST])}{more_of}, {way}.{own}"


def why(answer: Answer) -> str:
    """What rankings found of the others: whose rows are nearest, whose models do best here."""
    said = []
    if alike := answer.reasons.get(ALIKE):
        near, far = min(alike, key=lambda n: alike[n]), max(alike, key=lambda n: alike[n])
        least = f", those of {far} least" if far != near else ""
        said.append(f"the rows of {near} look most like yours{least} (coterie similar says in which columns)")
    if theirs := answer.reasons.get(THEIRS):
        best, worst = min(theirs, key=lambda n: theirs[n]), max(theirs, key=lambda n: theirs[n])
        low, high = (words.number(theirs[n], like=1, sign=True) for n in (best, worst))
        rest = f", that of {worst} worst ({high})" if worst != best else ""
        said.append(
            f"trained alone, the model of {best} does best on your rows (loss {low} beside your own){rest}"
        )
    return f"Why: {'; '.join(said)}." if said else ""


def weak(answer: Answer) -> bool:
    """Whether the advice to join others mostly did not come out again."""
    return 2 * repeated(answer) < repetitions(answer)


def repetitions(answer: Answer) -> int:
    return sum(answer.repeats.values())


def repeated(answer: Answer) -> int:
    """How often the same came out: alone, or to join others, in whatever way."""
    alone = answer.repeats.get(ALONE, 0)
    return alone if answer.alone else repetitions(answer) - alone


def why_alone(advice: Advice, answer: Answer) -> str:
    """That others are worse, or that these rows cannot tell: the two are not the same."""
    known = {spec: g for spec, g in answer.gains.items() if math.isfinite(g.mean)}
    if not known:
        by = words.called(advice.metric)
        return f"Stay alone: no other way could be measured by {by} on these rows ({scarce(advice, answer)})."
    if answer.best != ALONE:
        return held_back(advice, answer)
    best = max(known, key=lambda spec: known[spec].mean)
    change = changed(known[best], advice.metric)
    others = f"the best of {len(known)} other ways, {best}," if len(known) > 1 else f"the other way, {best},"
    if all(found.bounds[1] < 0 for found in known.values()):
        return f"Stay alone: others would make it worse; with {others} {change}."
    return f"Stay alone for now: these rows cannot tell ({scarce(advice, answer)}). With {others} {change}."


def held_back(advice: Advice, answer: Answer) -> str:
    """Why a way that looked better is not advised."""
    best, metric = answer.best, advice.metric
    looked, rows = f"with {best}, {changed(answer.gains[best], metric)}", scarce(advice, answer)
    if not better(answer.level[best], answer.no_model, metric):
        none = f"{nothing_learnt(answer, metric)} {figure_of(answer.no_model, metric)}"
        return (
            f"Stay alone: {looked}, but {figure_of(answer.level[best], metric)} is no better than "
            f"{none} ({rows})."
        )
    if answer.expected is None:
        doubt = f"the best of {words.several(len(answer.gains), 'way')} may look that good by chance"
    else:
        doubt = (
            "on rows that neither training nor choosing saw the gain of such a choice cannot be told from "
            f"none{between(answer.expected, metric)}"
        )
    return (
        f"Stay alone, or ask again with more rows: {looked} on the rows that chose it, but {doubt} ({rows})."
    )


def scarce(advice: Advice, answer: Answer) -> str:
    """How little there is to go by: 12 training rows, 2 of them ill, none in 3 of the 5 parts"""
    said, outcome = words.several(answer.rows, "training row"), answer.outcome
    if outcome is None:
        return said
    said += f", {outcome.counted} of them {outcome.rare}"
    return f"{said}, none in {answer.without} of the {advice.folds} parts" if answer.without else said


def gain(advice: Advice, answer: Answer) -> str:
    """What following the advice is expected to bring, or that nothing is promised."""
    now = level(advice, answer)
    held = (
        f"on {words.several(advice.folds, 'part')} of your {answer.rows} training rows, each held out in turn"
    )
    if answer.alone:
        return f"Your model: {now}, {held}." if now else ""
    if answer.expected is None:
        change = changed(answer.gains[answer.choice], advice.metric)
        return f"Gain: {change} {held}; too good, as the same rows chose it. {sentence(now)}".strip()
    change = changed(answer.expected, advice.metric)
    said = f"Expect: {change} {held}, which neither training nor choosing saw"
    return f"{said}. {sentence(now)}".strip()


def level(advice: Advice, answer: Answer) -> str:
    """What the client has alone, beside what it would have without any model."""
    alone, metric = answer.level.get(ALONE, math.nan), advice.metric
    if not math.isfinite(alone):
        return ""
    said = f"alone you have {amount(alone, metric)}"
    if math.isnan(answer.no_model):
        return said
    said += f", {nothing_learnt(answer, metric)} {figure_of(answer.no_model, metric)}"
    if better(alone, answer.no_model, metric):
        return said
    return f"{said}: your own model is no better than none"


def better(value: float, than: float, metric: str) -> bool:
    """Whether a figure is the better one; also where the other is not known."""
    return math.isnan(than) or (value > than if METRICS[metric].higher else value < than)


def nothing_learnt(answer: Answer, metric: str) -> str:
    """Who has learnt nothing, and still has some figure."""
    if metric in ("accuracy", "balanced_accuracy") and answer.outcome is not None:
        return f"always saying {answer.outcome.common}"
    if metric in ("nll", "loss", "brier"):
        return "always saying the shares of the classes"
    return "always saying the mean" if metric in ("rmse", "r2") else "without any model"


def sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def sureness(advice: Advice, answer: Answer) -> str:
    """How often the same advice came out on other parts of the rows, and what speaks against it."""
    if not answer.repeats:  # without inner folds nothing is repeated
        return f"How sure: hardly: {FEW} ({scarce(advice, answer)})." if few(answer) else ""
    total, same = repetitions(answer), repeated(answer)
    doubts, word = doubts_of(answer), next(word for least, word in SURE if same >= least * total)
    if same < 2 or few(answer):  # what came out once may as well be chance
        word = "hardly"
    elif doubts and word == "quite":
        word = "somewhat"
    what = "to stay alone" if answer.alone else "to join others"
    said = f"How sure: {word}{': ' * bool(doubts)}{'; '.join(doubts)}. "
    said += f"Chosen without each part in turn, the advice was {what} {same} of {total} times"
    return (
        f"{said}." if answer.alone else f"{said}, {answer.repeats.get(answer.choice, 0)} of them in this way."
    )


def doubts_of(answer: Answer) -> list[str]:
    """What forbids to be quite sure: an interval that holds 0, or little to go by."""
    known = [g for g in answer.gains.values() if math.isfinite(g.mean)]
    if answer.alone:
        clear = bool(known) and all(g.bounds[1] < 0 for g in known)
        said = (
            []
            if clear
            else ["these rows do not show that others are worse, only none that is clearly better"]
        )
    else:
        # the way's own interval is as wide as a choice among all ways asks for, and may hold 0 where the
        # promise does not
        counted = [g for g in (answer.expected, answer.gains[answer.choice]) if g is not None]
        said = [] if all(g.bounds[0] > 0 for g in counted) else ["the gain may be none"]
        if answer.repeats.get(answer.choice, 0) < 2:
            said.append("that others help came out again, but not in which way")
    return [*said, FEW] if few(answer) else said


def few(answer: Answer) -> bool:
    """Whether there are too few rows, or too few of the rarer kind, for anything to be quite sure."""
    return answer.rows < FEW_ROWS or (answer.outcome is not None and answer.outcome.counted < FEW_EVENTS)


def trust(answer: Answer) -> str:
    """Whether its confidence can be trusted."""
    if "ece" not in answer.trust:
        return ""
    alone, advised = answer.trust["ece"]
    if math.isnan(advised):
        return ""
    beside = "" if answer.alone or math.isnan(alone) else f", alone {100 * alone:.1f}"
    return (
        f"Confidence: how sure it is differs from how often it is right by {100 * advised:.1f} points "
        f"(ECE{beside})."
    )


def order(advice: Advice, answer: Answer) -> str:
    """How well it puts the ill above the well, where accuracy is blind: whatever ways are compared by."""
    alone, advised = answer.trust.get("auc", (math.nan, math.nan))
    if not advice.measured or advice.metric == "auc" or math.isnan(advised):
        return ""
    beside = "" if answer.alone or math.isnan(alone) else f", alone {words.figure(alone, 'auc')}"
    return f"Order: AUC {words.figure(advised, 'auc')} on the parts that have both classes{beside}."


def gives(advice: Advice, answer: Answer) -> str:
    """What leaves this client in such a run, as the net's book has it."""
    out = [g for g in answer.gifts if g.sender == answer.client]
    back = sum(g.models for g in answer.gifts if g.receiver == answer.client)
    numbers = ", ".join(advice.reveals[answer.choice]["numbers"])
    listed = [gift(g, numbers) for g in out if g.models or g.numbers]
    if not listed:
        return "You would give: nothing; your rows stay with you."
    got = f" You would get {words.several(back, 'model')}." if back else ""
    if answer.epsilon is not None:
        got += f" Such a run costs your rows epsilon {answer.epsilon:.2f}; each trial cost as much."
    return f"You would give: {'; '.join(listed[:MOST])}; your rows stay with you.{got}"


def gift(given: Gift, numbers: str) -> str:
    to = "the coordinator" if given.receiver == COORDINATOR else given.receiver
    parts = []
    if given.models:
        parts.append(f"{words.several(given.models, 'model')} ({words.size(given.bytes)})")
    if given.numbers:
        parts.append(f"{words.several(given.numbers, 'number')} ({numbers})")
    return f"to {to} {' and '.join(parts)}"


def costs(advice: Advice, answer: Answer) -> str:
    rounds = words.several(int(advice.config["rounds"]), "round")
    return f"Cost: {rounds}, {words.duration(answer.seconds)} of training here for all clients."


def cost_of_asking(advice: Advice) -> str:
    """What the trials themselves took."""
    spent = advice.spent
    return (
        f"For this advice {words.several(spent['runs'], 'run')} were made, in which "
        f"{words.several(spent['models'], 'model')} passed ({words.size(spent['bytes'])})."
    )


def cells(advice: Advice) -> tuple[list[str], list[list[str]]]:
    """One row for each client: without a model, alone, what is advised and promised, what each way gains."""
    ways, metric = [spec for spec in advice.ways if spec != ALONE], advice.metric
    promised = ["promised"] if advice.inner else []
    header = ["client", "nothing", f"alone, {words.unit(metric)}", "advised", *promised, *ways]
    rows = []
    for a in advice.answers:
        gains = [
            in_brackets(a.gains[s], metric) + (" *" if s == a.choice else "")
            if better(a.level[s], a.no_model, metric)
            else BELOW
            for s in ways
        ]
        told = []
        if advice.inner:
            looked = a.expected is not None and a.best != ALONE  # whoever stays alone is promised nothing
            told = [in_brackets(a.expected, metric) if looked and a.expected else words.NONE]
        levels = (words.figure(value, metric) for value in (a.no_model, a.level.get(ALONE, math.nan)))
        rows.append([a.client, *levels, called(a.choice), *told, *gains])
    return header, rows


def legend(advice: Advice) -> str:
    said = LEGEND.format(
        kind="over held-out rows, or parts where rows are not known, corrected for rows that trainings share",
        ways=words.several(len(advice.ways) - 1, "way"),
        sure=f"{advice.sure:g}",
        s="" if advice.sure == 1 else "s",
        promise="its interval, or that of what nested parts chose," if advice.inner else "its interval",
    )
    return said + PROMISED * bool(advice.inner)


def screen_table(advice: Advice, width: int) -> Table:
    header, rows = cells(advice)
    answer = header.index("advised") + 1  # what each has without a model and alone stands before it
    return fitting(header, rows, legend(advice), legend(advice), width, least=answer)
