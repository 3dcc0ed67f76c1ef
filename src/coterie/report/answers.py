"""Advice to read: with whom, why, what it brings, how sure, what is given away; for each client that asks."""

from __future__ import annotations

import math

from rich.table import Table

from coterie.methods.advised import ALONE
from coterie.metrics.summary import HIGHER_IS_BETTER, Interval
from coterie.report import words
from coterie.report.terminal import fitting
from coterie.runs.answers import Advice, Answer, Gift
from coterie.runs.record import COORDINATOR
from coterie.runs.trying import ALIKE, THEIRS

WAYS = {
    "local": "each on its own rows alone",
    "fedavg": "everybody trains one common model",
    "finetune": "everybody trains one common model, then each goes on alone",
    "weight-erosion": "others fade out as their training points elsewhere than yours",
    "pens": "those are kept whose models do well on your rows",
    "dac": "others are asked the more often, the better their models do on your rows",
    "ndoye": "a circle of those whose models, trained alone, do well on your rows",
    "influence": "a circle of those without whom your model would do worse",
    "similar": "a circle of those whose rows look most like yours",
    "robust-personal": "an average around your own model that bears some wrong partners",
}
MOST = 6  # partners that are named
SURE = ((0.8, "quite"), (0.5, "somewhat"), (0.0, "hardly"))
"""From which share of repetitions that choose the same on, which word."""
LEGEND = (
    "Gain over training alone on held-out parts of each client's own training rows, ± half of its 95 % "
    "interval, corrected for the rows that trainings share (Nadeau and Bengio, 2003). * what each is advised "
    "to follow: the largest gain of those above {sure} standard error{s}, else alone. Promised: the gain on "
    "rows that neither training nor choosing had seen; the starred gain itself is too good, as the same rows "
    "chose it."
)


def sentences(advice: Advice) -> dict[str, list[str]]:
    """By client, what it is told: a few lines, the answer first."""
    return {a.client: lines_for(advice, a) for a in advice.answers}


def lines_for(advice: Advice, answer: Answer) -> list[str]:
    said = [with_whom(advice, answer), why(answer), gain(advice, answer), sureness(advice, answer)]
    return [line for line in [*said, trust(answer), gives(advice, answer), costs(advice, answer)] if line]


def with_whom(advice: Advice, answer: Answer) -> str:
    if answer.alone:
        return f"Stay alone: {why_alone(advice, answer)}"
    name = answer.choice.partition(":")[0]
    way = f"by {answer.choice}" + (f" ({WAYS[name]})" if name in WAYS else "")
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
    """Whether the advice to join others did not hold up on rows that had no part in choosing: it promises no
    gain, or mostly did not come out again.
    """
    if answer.expected is None:
        return False
    return not answer.expected.mean > 0 or 2 * repeated(answer) < repetitions(answer)


def repetitions(answer: Answer) -> int:
    return sum(answer.repeats.values())


def repeated(answer: Answer) -> int:
    """How often the same came out: alone, or to join others, in whatever way."""
    alone = answer.repeats.get(ALONE, 0)
    return alone if answer.alone else repetitions(answer) - alone


def why_alone(advice: Advice, answer: Answer) -> str:
    """Why no other way is worth it."""
    known = {spec: g for spec, g in answer.gains.items() if math.isfinite(g.mean)}
    if not known:
        return f"no other way could be measured by {words.called(advice.metric)} on these rows."
    best = max(known, key=lambda spec: known[spec].mean)
    change = changed(known[best], advice.metric)
    noise = " by more than noise" if known[best].mean > 0 else ""
    if len(known) == 1:
        return f"{best}, the only other way tried, was not better{noise}; with it {change}."
    nearest = "best" if noise else "nearest"
    return f"none of {len(known)} other ways was better{noise}; with the {nearest}, {best}, {change}."


def gain(advice: Advice, answer: Answer) -> str:
    """What following the advice is expected to bring, or that nothing is promised."""
    alone = answer.level.get(ALONE, math.nan)
    now = f"alone you have {amount(alone, advice.metric)}" if math.isfinite(alone) else ""
    held = (
        f"on {words.several(advice.folds, 'part')} of your {answer.rows} training rows, each held out in turn"
    )
    if answer.alone:
        return f"Your model: {now}, {held}." if now else ""
    if answer.expected is None or math.isnan(answer.expected.mean):
        change = changed(answer.gains[answer.choice], advice.metric)
        return f"Gain: {change} {held}; too good, as the same rows chose it. {sentence(now)}"
    change = changed(answer.expected, advice.metric)
    said = f"Expect: {change} {held}, which neither training nor choosing saw"
    if not abs(answer.expected.mean) > answer.expected.half:
        said += "; these rows cannot tell that from no gain"
    return f"{said}. {sentence(now)}".strip()


def sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def sureness(advice: Advice, answer: Answer) -> str:
    """How often the same advice came out on other parts of the rows."""
    if not answer.repeats:
        return ""
    total, same = repetitions(answer), repeated(answer)
    word = next(word for least, word in SURE if same >= least * total)
    what = "to stay alone" if answer.alone else "to join others"
    said = (
        f"How sure: {word}. Chosen without each part in turn, the advice was {what} {same} of {total} times"
    )
    return (
        f"{said}." if answer.alone else f"{said}, {answer.repeats.get(answer.choice, 0)} of them in this way."
    )


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


def changed(found: Interval, metric: str) -> str:
    """accuracy rises by 3.1 points (95 % interval −0.4 to 6.6)"""
    name, higher = words.called(metric), HIGHER_IS_BETTER[metric]
    if not float(words.figure(abs(found.mean), metric).replace("\u202f", "") or 0):
        return f"{name} stays as it is{between(found, metric)}"
    way = "rises" if (found.mean > 0) == higher else "falls"
    return f"{name} {way} by {size(abs(found.mean), metric)}{between(found, metric)}"


def between(found: Interval, metric: str) -> str:
    """The interval, as of a gain: above 0 is better."""
    if math.isnan(found.half):
        return ""
    low, high = found.mean - found.half, found.mean + found.half
    like = found.mean or found.half
    ends = [words.figure(end, metric, sign=True, like=like) for end in (low, high)]
    better = "" if HIGHER_IS_BETTER[metric] else ", above 0 is better"
    return f" (95 % interval {ends[0]} to {ends[1]}{better})"


def size(value: float, metric: str) -> str:
    text = words.figure(value, metric)
    return f"{text} point{'' if text == '1.0' else 's'}" if metric in words.PERCENT else text


def amount(value: float, metric: str) -> str:
    return f"{words.called(metric)} {words.figure(value, metric)}" + (" %" if metric in words.PERCENT else "")


def called(spec: str) -> str:
    return "alone" if spec == ALONE else spec


def cells(advice: Advice) -> tuple[list[str], list[list[str]]]:
    """One row for each client: alone, the gain of every way, what is promised."""
    ways = [spec for spec in advice.ways if spec != ALONE]
    promised = ["promised"] if advice.inner else []
    header = ["client", f"alone, {words.unit(advice.metric)}", "advised", *promised, *ways]
    rows = []
    for a in advice.answers:
        gains = [
            words.spread(a.gains[s], advice.metric, sign=True) + (" *" if s == a.choice else "") for s in ways
        ]
        told = []
        if advice.inner:
            told = [words.NONE if a.expected is None else words.spread(a.expected, advice.metric, sign=True)]
        level = words.figure(a.level.get(ALONE, math.nan), advice.metric)
        rows.append([a.client, level, called(a.choice), *told, *gains])
    return header, rows


def legend(advice: Advice) -> str:
    said = LEGEND.format(sure=f"{advice.sure:g}", s="" if advice.sure == 1 else "s")
    return said if advice.inner else said.partition(" Promised:")[0]


def screen_table(advice: Advice, width: int) -> Table:
    header, rows = cells(advice)
    return fitting(header, rows, legend(advice), legend(advice), width)
