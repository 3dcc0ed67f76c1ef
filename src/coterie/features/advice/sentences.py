"""Advice to read: with whom, why, what it brings, how sure, what is given away; for each client that asks."""

from __future__ import annotations

import math

from coterie.features.advice.answers import Advice, Answer
from coterie.features.trials.bench import ALIKE, THEIRS
from coterie.features.trials.measure import why_measured
from coterie.methods import partners_of
from coterie.methods.advised import ALONE
from coterie.metrics.summary import Interval
from coterie.metrics.table import METRICS
from coterie.report.learnable import asked, in_words
from coterie.report.reveals import numbers_called
from coterie.runs.record import COORDINATOR
from coterie.show import numbers
from coterie.show.words import Figure, listed, said, semicolons, translated
from coterie.show.words import sentences as one_after_another

MOST = 6  # partners that are named
SURE = ((0.8, "quite"), (0.5, "somewhat"), (0.0, "hardly"))
"""From which share of repetitions that choose the same on, which word."""
FEW_ROWS, FEW_EVENTS = 30, 10  # below, nobody is quite sure of anything


def sentences(advice: Advice) -> dict[str, list[str]]:
    """By client, what it is told: a few lines, the answer first."""
    told, rounds = {}, numbers.several(int(advice.config["rounds"]), "round")
    for a in advice.answers:
        lines = [asked(in_words(a.learnt)), _with_whom(advice, a), _why(a), _gain(advice, a)]
        lines += [_sureness(advice, a), _measured(advice), _order(advice, a), _trust(a)]
        lines += [_other_class(advice, a), _gives(advice, a)]
        lines.append(said("advise.cost", rounds=rounds, seconds=numbers.duration(a.seconds)))
        told[a.client] = [line for line in lines if line]
    return told


def called(spec: str) -> str:
    return said("learn.alone") if spec == ALONE else spec


def how(spec: str) -> str:
    """How a way chooses, as a part of a sentence; nothing where it does not say so."""
    chooses = partners_of(spec.partition(":")[0])
    return translated(chooses.clauses()) if chooses is not None else ""


def _measured(advice: Advice) -> str:
    """Why the measure is that one. A file has it in English: for other languages it is worked out anew."""
    if not (why := advice.measured):
        return ""
    known = [(a.outcome, a.client) for a in advice.answers if a.outcome is not None]
    if known:
        again = why_measured(*max(known, key=lambda pair: pair[0].share), advice.metric)
        why = again if again == why else why
    return said("advise.measure", said=why)


def _with_whom(advice: Advice, answer: Answer) -> str:
    if answer.learnt.verdict == "no":
        return said("advise.ask_again", rows=_scarce(advice, answer))
    if answer.alone:
        return _why_alone(advice, answer)
    way = said("advise.way", method=answer.choice)
    if text := how(answer.choice):
        way = said("advise.way_how", method=answer.choice, how=text)
    same, total = _repeated(answer)
    train = "advise.perhaps" if 2 * same < total else "advise.train"  # mostly it did not come out again
    if not answer.partners:
        return said(f"{train}_nobody", way=way)
    shares = [(name, Figure(f"{share:.2f}")) for name, share in answer.partners.items()]
    some = [said("advise.partner", name=name, share=share) for name, share in shares]
    who = said("list.plain", names=some)
    if len(some) > MOST:
        who = said("list.more", names=some[:MOST], n=len(some) - MOST)
    mine = 1 - sum(answer.partners.values())
    own = said("advise.own_rows", share=Figure(f"{mine:.2f}")) if mine > 0.005 else ""
    return one_after_another(said(train, who=who, way=way), own)


def _why(answer: Answer) -> str:
    """What rankings found of the others: whose rows are nearest, whose models do best here."""
    found = list[str]()
    if alike := answer.reasons.get(ALIKE):
        near, far = min(alike, key=alike.__getitem__), max(alike, key=alike.__getitem__)
        found.append(said("advise.alike" if far == near else "advise.alike_least", near=near, far=far))
    if theirs := answer.reasons.get(THEIRS):
        best, worst = min(theirs, key=theirs.__getitem__), max(theirs, key=theirs.__getitem__)
        low, high = (numbers.number(theirs[n], like=1, sign=True) for n in (best, worst))
        text = "advise.best_model" if worst == best else "advise.best_model_worst"
        found.append(said(text, best=best, low=low, worst=worst, high=high))
    return said("advise.why", said=semicolons(found)) if found else ""


def _repeated(answer: Answer) -> tuple[int, int]:
    """How often the same came out, alone or to join others in whatever way, and of how many times."""
    alone, total = answer.repeats.get(ALONE, 0), sum(answer.repeats.values())
    return alone if answer.alone else total - alone, total


def _why_alone(advice: Advice, answer: Answer) -> str:
    """That others are worse, or that these rows cannot tell: the two are not the same."""
    known = {spec: g for spec, g in answer.gains.items() if math.isfinite(g.mean)}
    rows = _scarce(advice, answer)
    if not known:
        return said("advise.alone.unmeasured", metric=numbers.called(advice.metric), rows=rows)
    if answer.best != ALONE:
        return _held_back(advice, answer)
    best = max(known, key=lambda spec: known[spec].mean)
    change = _changed(known[best], advice.metric)
    others = said("advise.alone.other", way=best)
    if len(known) > 1:
        others = said("advise.alone.best_of", n=len(known), way=best)
    if all(found.bounds[1] < 0 for found in known.values()):
        return said("advise.alone.worse", others=others, change=change)
    return said("advise.alone.unclear", rows=rows, others=others, change=change)


def _held_back(advice: Advice, answer: Answer) -> str:
    """Why a way that looked better is not advised."""
    best, metric, rows = answer.best, advice.metric, _scarce(advice, answer)
    looked = said("advise.looked", way=best, change=_changed(answer.gains[best], metric))
    if not _better(answer.level[best], answer.no_model, metric):
        value, none = _figure_of(answer.level[best], metric), _figure_of(answer.no_model, metric)
        blanks = {"nothing": _nothing_learnt(answer, metric), "none": none, "rows": rows}
        return said("advise.alone.no_better", looked=looked, value=value, **blanks)
    if answer.expected is None:
        doubt = said("advise.by_chance", ways=numbers.several(len(answer.gains), "way"))
    else:
        doubt = said("advise.unproved", between=_between(answer.expected, metric))
    return said("advise.alone.doubt", looked=looked, doubt=doubt, rows=rows)


def _scarce(advice: Advice, answer: Answer) -> str:
    """How little there is to go by: 12 training rows, 2 of them ill, none in 3 of the 5 parts"""
    rows, outcome = numbers.several(answer.rows, "training row"), answer.outcome
    if outcome is None:
        return rows
    words = (said("advise.with_event"), said("advise.other_than", name=outcome.common))
    kind = next((text for text in words if text == outcome.rare), said("advise.class", name=outcome.rare))
    counted = said("advise.rare", said=rows, n=outcome.counted, kind=kind)
    if not answer.without:
        return counted
    return said("advise.none_in", said=counted, n=answer.without, parts=advice.folds)


def _gain(advice: Advice, answer: Answer) -> str:
    """What following the advice is expected to bring, or that nothing is promised."""
    held = said("advise.held_out", parts=numbers.several(advice.folds, "part"), n=answer.rows)
    if answer.alone:
        now = _level(advice, answer)
        return said("advise.gain.own", now=now, held=held) if now else ""
    now = _level(advice, answer, "advise.has_first")
    found = answer.gains[answer.choice] if answer.expected is None else answer.expected
    text = "advise.gain.too_good" if answer.expected is None else "advise.gain.expected"
    gain = said(text, change=_changed(found, advice.metric), held=held)
    return one_after_another(gain, said("report.line", said=now) if now else "")


def _level(advice: Advice, answer: Answer, begin: str = "advise.has") -> str:
    """What the client has alone, beside what it would have without any model."""
    alone, metric = answer.level.get(ALONE, math.nan), advice.metric
    if not math.isfinite(alone):
        return ""
    amount = said("advise.amount", metric=numbers.called(metric), value=_figure_of(alone, metric))
    has = said(begin, amount=amount)
    if math.isnan(answer.no_model):
        return has
    nothing = _nothing_learnt(answer, metric)
    has = said("advise.has_beside", said=has, nothing=nothing, value=_figure_of(answer.no_model, metric))
    return has if _better(alone, answer.no_model, metric) else said("advise.has_no_better", said=has)


def _better(value: float, than: float, metric: str) -> bool:
    """Whether a figure is the better one; also where the other is not known."""
    return math.isnan(than) or (value > than if METRICS[metric].higher else value < than)


def _nothing_learnt(answer: Answer, metric: str) -> str:
    """Who has learnt nothing, and still has some figure."""
    if metric in ("accuracy", "balanced_accuracy") and answer.outcome is not None:
        return said("advise.nothing.common", name=answer.outcome.common)
    if metric in ("nll", "loss", "brier"):
        return said("advise.nothing.shares")
    return said("advise.nothing.mean" if metric in ("rmse", "r2") else "advise.nothing.model")


def _sureness(advice: Advice, answer: Answer) -> str:
    """How often the same advice came out on other parts of the rows, and what speaks against it."""
    if not answer.repeats:  # without inner folds nothing is repeated
        return said("advise.sure.few", rows=_scarce(advice, answer)) if _few(answer) else ""
    same, total = _repeated(answer)
    doubts, word = _doubts_of(answer), next(word for least, word in SURE if same >= least * total)
    if same < 2 or _few(answer):  # what came out once may as well be chance
        word = "hardly"
    elif doubts and word == "quite":
        word = "somewhat"
    told = said(f"advise.sure.{word}")
    sure = said("advise.sure.plain", word=told)
    if doubts:
        why = semicolons(said(f"advise.doubt.{doubt}") for doubt in doubts)
        sure = said("advise.sure.doubts", word=told, doubts=why)
    again = said("advise.again.alone", same=same, total=total)
    if not answer.alone:
        n = answer.repeats.get(answer.choice, 0)
        again = said("advise.again.others", same=same, total=total, n=n)
    return one_after_another(sure, again)


def _doubts_of(answer: Answer) -> list[str]:
    """What forbids to be quite sure: an interval that holds 0, or little to go by."""
    known = [g for g in answer.gains.values() if math.isfinite(g.mean)]
    if answer.alone:
        doubts = [] if known and all(g.bounds[1] < 0 for g in known) else ["unclear"]
    else:
        # the way's own interval is as wide as a choice among all ways asks for, and may hold 0 where the
        # promise does not
        counted = [g for g in (answer.expected, answer.gains[answer.choice]) if g is not None]
        doubts = [] if all(g.bounds[0] > 0 for g in counted) else ["none"]
        doubts += ["way"] if answer.repeats.get(answer.choice, 0) < 2 else []
    return [*doubts, "few"] if _few(answer) else doubts


def _few(answer: Answer) -> bool:
    """Whether there are too few rows, or too few of the rarer kind, for anything to be quite sure."""
    return answer.rows < FEW_ROWS or (answer.outcome is not None and answer.outcome.counted < FEW_EVENTS)


def _trust(answer: Answer) -> str:
    alone, advised = answer.trust.get("ece", (math.nan, math.nan))
    if math.isnan(advised):
        return ""
    single = answer.alone or math.isnan(alone)
    points, beside = (Figure(f"{100 * figure:.1f}") for figure in (advised, alone))
    return said("advise.trust" if single else "advise.trust_beside", points=points, alone=beside)


def _order(advice: Advice, answer: Answer) -> str:
    """How well it puts the ill above the well, where accuracy is blind: whatever ways are compared by."""
    alone, advised = answer.trust.get("auc", (math.nan, math.nan))
    if not advice.measured or advice.metric == "auc" or math.isnan(advised):
        return ""
    single = answer.alone or math.isnan(alone)
    value, beside = (numbers.figure(figure, "auc") for figure in (advised, alone))
    return said("advise.order" if single else "advise.order_beside", value=value, alone=beside)


def _other_class(advice: Advice, answer: Answer) -> str:
    """That another class of models matters more than partners, where it does."""
    trees = answer.trees
    if trees is None or not trees.bounds[0] > 0:
        return ""
    partners = max((g.mean for g in answer.gains.values() if not math.isnan(g.mean)), default=0.0)
    if trees.mean <= partners:
        return ""
    return said("advise.trees", change=_changed(trees, advice.metric))


def _gives(advice: Advice, answer: Answer) -> str:
    """What leaves this client in such a run, as the net's book has it."""
    out = [g for g in answer.gifts if g.sender == answer.client]
    back = sum(g.models for g in answer.gifts if g.receiver == answer.client)
    single = numbers_called(advice.reveals[answer.choice]["numbers"])
    gifts = []
    for g in out:
        size, parts = numbers.size(g.bytes), list[str]()
        if g.models:
            parts.append(said("small.group", names=numbers.several(g.models, "model"), why=size))
        if g.numbers:
            parts.append(said("small.group", names=numbers.several(g.numbers, "number"), why=single))
        if parts:
            text = "advise.gift_coordinator" if g.receiver == COORDINATOR else "advise.gift"
            gifts.append(said(text, to=g.receiver, what=listed(parts)))
    if not gifts:
        return said("advise.gives_nothing")
    gets = said("advise.gets", models=numbers.several(back, "model")) if back else ""
    epsilon = ""
    if answer.epsilon is not None:
        epsilon = said("advise.epsilon", epsilon=Figure(f"{answer.epsilon:.2f}"))
    return one_after_another(said("advise.gives", what=semicolons(gifts[:MOST])), gets, epsilon)


def cost_of_asking(advice: Advice) -> str:
    runs, models = (numbers.several(advice.spent[f"{what}s"], what) for what in ("run", "model"))
    return said("advise.asking", runs=runs, models=models, size=numbers.size(advice.spent["bytes"]))


# figures in words


def _changed(found: Interval, metric: str) -> str:
    """accuracy rises by 3.1 points (95 % interval −0.4 to 6.6)"""
    blanks = {"metric": numbers.called(metric), "between": _between(found, metric)}
    if not float(numbers.figure(abs(found.mean), metric).replace("\u202f", "") or 0):
        return said("advise.change.same", **blanks)
    way = "rises" if (found.mean > 0) == METRICS[metric].higher else "falls"
    size: str = numbers.figure(abs(found.mean), metric)
    if numbers.in_percent(metric):
        size = said(f"difference.points.{'one' if size == '1.0' else 'many'}", n=size)
    return said(f"advise.change.{way}", size=size, **blanks)


def _between(found: Interval, metric: str) -> str:
    """The interval, as of a gain: above 0 is better."""
    if not (ends := _ends_of(found, metric)):
        return said("advise.no_interval") if found.seeds > 1 else ""
    return said(
        "advise.between" if METRICS[metric].higher else "advise.between_better", low=ends[0], high=ends[1]
    )


def _ends_of(found: Interval, metric: str) -> list[Figure]:
    """Of an interval, as of a gain; nothing where there is none."""
    low, high = found.bounds
    if math.isnan(low):
        return []
    like = found.mean or (high - low) / 2
    return [numbers.figure(end, metric, sign=True, like=like) for end in (low, high)]


def _in_brackets(found: Interval, metric: str) -> str:
    """+3.1 [−0.4 to +6.6]"""
    if math.isnan(found.mean):
        return numbers.NONE
    mean, ends = numbers.figure(found.mean, metric, sign=True), _ends_of(found, metric)
    around = said("outcome.bounds", low=ends[0], high=ends[1]) if ends else f" [{numbers.NONE}]"
    return said("list.joined", one=mean, other=around)


def _figure_of(value: float, metric: str) -> Figure:
    return Figure(numbers.figure(value, metric) + (" %" if numbers.in_percent(metric) else ""))


# as a table


def cells(advice: Advice) -> tuple[list[str], list[list[str]]]:
    """One row for each client: without a model, alone, what is advised and promised, what each way gains."""
    ways, metric = [spec for spec in advice.ways if spec != ALONE], advice.metric
    promised = [said("advise.column.promised")] if advice.inner else []
    alone = said("advise.column.alone", unit=numbers.unit(metric))
    before = [said("column.client"), said("advise.column.nothing"), alone, said("advise.column.advised")]
    rows = []
    for a in advice.answers:
        gains = list[str]()
        for spec in ways:
            gain = _in_brackets(a.gains[spec], metric)
            if not _better(a.level[spec], a.no_model, metric):
                gain = said("advise.below_nothing")
            elif spec == a.choice:
                gain = said("list.joined", one=gain, other=" *")
            gains.append(gain)
        told = list[str]()
        if advice.inner:
            looked = a.expected is not None and a.best != ALONE  # whoever stays alone is promised nothing
            told = [_in_brackets(a.expected, metric) if looked and a.expected else numbers.NONE]
        levels = (numbers.figure(value, metric) for value in (a.no_model, a.level.get(ALONE, math.nan)))
        rows.append([a.client, *levels, called(a.choice), *told, *gains])
    return [*before, *promised, *ways], rows


def legend(advice: Advice) -> str:
    errors = f"advise.errors.{'one' if advice.sure == 1 else 'many'}"
    text = said(
        "advise.legend",
        ways=numbers.several(len(advice.ways) - 1, "way"),
        errors=said(errors, n=Figure(f"{advice.sure:g}")),
        promise=said("advise.interval_nested" if advice.inner else "advise.interval"),
    )
    return one_after_another(text, said("advise.legend_promised") if advice.inner else "")
