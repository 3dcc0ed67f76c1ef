"""The page "What could be learned about my patients": an audit for people.

In a run's report it has words and figures; rows themselves, original beside recovered, are only on the page
of the audit, which is for the client's own eyes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from coterie.core.errors import BadRun
from coterie.features.audit import sentences as words
from coterie.features.audit.sentences import interval, model
from coterie.show import html, numbers
from coterie.show.blocks import (
    Block,
    Facts,
    Group,
    More,
    Note,
    Picture,
    Points,
    Section,
    Sentence,
    Span,
    SpanKind,
    Spans,
)
from coterie.show.blocks import Table as Grid
from coterie.show.parts import Part, Runs
from coterie.show.words import Figure, known, said

FILE, PAGE = "audit.json", "audit.html"
FEW = 12  # clients that are shown at once
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
LIMITS = ("leaks", "accounting", "small")
Table = Mapping[str, Any]


def _audit_part(runs: Runs) -> list[Block]:
    """Without any row; nothing where there is no audit, or on a page that is served."""
    table = None if runs.folder is None or runs.served else read_audit(runs.folder)
    if table is None:
        return []
    made: list[Block] = [*_clients_part(table)]
    made += [Section(name, blocks) for _, name, blocks in _parts_of(table, None)]
    return [*made, *([Sentence(said("audit.rows_in", page=PAGE))] if _shows_rows(table) else [])]


PARTS = (Part("audit", "audit.title", 180, _audit_part),)


def read_audit(folder: Path) -> Table | None:
    """The audit of a run; None if there is none."""
    path = folder / FILE
    if not path.exists():
        return None
    try:
        table = json.loads(path.read_bytes())
        found: Table = {**table, "asked": list(table["asked"]), "skipped": dict(table["skipped"])}
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise BadRun(f"{path} is damaged ({error}): delete it, or audit the run again") from None
    return found


def render_audit(table: Table, pictures: Mapping[str, bytes]) -> str:
    """The audit's own page, with rows side by side."""
    run = table["run"]
    facts: list[str] = [str(run[k]) for k in ("data", "split", "model", "method", "kernel") if k in run]
    facts += [numbers.several(run["clients"], "client"), numbers.several(run["rounds"], "round")]
    listed = facts[0]
    for fact in facts[1:]:
        listed = said("list.dot", first=listed, second=fact)
    what = said("audit.facts", facts=listed, seed=run["seed"], own=table["seed"])
    came = [Sentence(said("audit.title"), kind="headline"), Sentence(what, kind="what")]
    parts = [("clients", said("audit.clients"), _clients_part(table)), *_parts_of(table, pictures)]
    article = Section("", [Section(name, blocks, key) for key, name, blocks in parts], "audit", "article")
    warning: list[Block] = [Note(said("audit.own_eyes"))] if _shows_rows(table) else []
    head = [Group(came, "outcome")]
    return html.document(said("audit.page"), head, [*warning, article], str(table["coterie"]), POLICY)


def _shows_rows(table: Table) -> bool:
    return any(case["shown"] for case in table.get("inversion", {}).get("cases", ()))


def _parts_of(table: Table, pictures: Mapping[str, bytes] | None) -> list[tuple[str, str, list[Block]]]:
    """(key, heading, blocks) of every attack, and the limits."""
    drawn: dict[str, Callable[[Table], list[Block]]] = {
        "membership": _membership_part,
        "canaries": _canaries_part,
        "inversion": lambda found: _inversion_part(found, pictures),
        "mixes": _mixes_part,
    }
    parts: list[tuple[str, str, list[Block]]] = []
    for name, sentence in words.sentences(table):
        blocks: list[Block] = [Sentence(sentence, kind="said")]
        if name in table:
            found = table[name]
            proofs = [(said(f"audit.{key}"), known("proof", found[key])) for key in ("proves", "proves_not")]
            blocks += [*drawn[name](found), Facts(proofs, "proofs")]
        parts.append((name, said(f"audit.name.{name}"), blocks))
    limits = Points([said(f"audit.limit.{name}") for name in LIMITS])
    return [*parts, ("limits", said("audit.limits"), [limits])]


def _clients_part(table: Table) -> list[Block]:
    """In plain words, each client by itself; the one that single rows were tried on first."""
    names = [e["client"] for e in table.get("membership", {}).get("clients", ())]
    names += [h["client"] for h in table.get("mixes", {}).get("hosts", ())]
    blocks = [
        Group([Sentence("", lead=name), Points(lines)], "patient")
        for name in dict.fromkeys([table["client"], *names])
        if (lines := words.of_client(table, name))
    ]
    if not blocks:
        return [Sentence(said("audit.no_client"))]
    rest = blocks[FEW:]
    return [*blocks[:FEW], *([More(said("audit.further", n=len(rest)), rest)] if rest else [])]


def _columns(*names: str) -> list[str]:
    return [said(f"audit.column.{name}") for name in names]


def _membership_part(found: Table) -> list[Block]:
    """The AUC of every client's models with its interval, drawn and as a table."""
    everybody = said("audit.membership.everybody")
    entries = [*({**e, "client": everybody} for e in found["together"]), *found["clients"]]
    keys = ("auc", "advantage", "tpr_at_1", "tpr_at_10")
    rows = []
    for e in entries:
        counts = [numbers.whole(e["members"]), numbers.whole(e["others"])]
        rows.append([e["client"], model(e["model"]), *counts, *(interval(e[key]) for key in keys)])
    header = _columns("client", "model", "members", "others", *keys)
    return [
        *_spans(entries),
        Sentence(said("audit.membership.said")),
        *(Sentence(said("report.line", said=note)) for note in found["notes"]),
        More(said("audit.membership.all"), [Grid(header, rows, kind="figures given")]),
    ]


def _spans(entries: Sequence[Table]) -> list[Block]:
    """Figures with their intervals on a line from 0 to 1; a grey one is the model trained on nothing."""
    spans = []
    for e in entries[: 3 * FEW]:
        name = said("audit.membership.line", client=e["client"], model=model(e["model"], "short"))
        found = e["auc"]
        kind: SpanKind = "leak" if words.told_apart(e) else "own"
        kind = "none" if e["model"] == words.BEFORE else kind
        spans.append(Span(name, interval(found), found["low"], found["value"], found["high"], kind))
    left = len(entries) - 3 * FEW
    rest = [Sentence(said("audit.membership.left", n=left))] if left > 0 else []
    return [Spans(spans, said("audit.membership.scale")), *rest]


def _canaries_part(found: Table) -> list[Block]:
    upper: str = said("audit.canaries.none")
    if found["upper"] is not None:
        epsilon = found["upper"]["epsilon"]
        upper = numbers.NONE if epsilon is None else Figure(f"{epsilon:.2f}")
    rows = []
    for who, bound in found["bounds"].items():
        right = said("audit.of", n=bound["right"], of=bound["guesses"])
        rows.append([said(f"audit.onlooker.{who}"), right, Figure(f"{bound['epsilon']:.2f}"), upper])
    if not rows:
        return []
    first = next(iter(found["bounds"].values()))
    counts = {"planted": found["planted"], "rows": found["rows"], "seen": numbers.whole(found["seen"])}
    delta = said("audit.canaries.delta", delta=f"{first['delta']:g}")
    visits = numbers.several(found["visits"], "visit")
    text = said("audit.canaries.said", delta=delta, visits=visits, **counts)
    header = _columns("onlooker", "guesses", "least", "most")
    return [Grid(header, rows, kind="figures wraps"), Sentence(text)]


def _about(case: Table) -> str:
    """What was attacked, in any language: a file has it in English."""
    counts = [int(n) for n in re.findall(r"\d+", case["about"])]
    blanks = dict(zip(("n", "steps"), counts, strict=False))
    many = len(counts) == 2 and counts[1] > 1
    text = said(f"attacked.{case['case'].replace(' ', '_')}{'_many' * many}", **blanks)
    return text if text == case["about"] else str(case["about"])


def _inversion_part(found: Table, pictures: Mapping[str, bytes] | None) -> list[Block]:
    loud = any("psnr" in case for case in found["cases"])
    header = _columns("attacked", "rows", "back", "cosine", "stranger", *(["psnr"] if loud else []))
    rows = []
    for case in found["cases"]:
        stranger = numbers.NONE if case["stranger"] is None else Figure(f"{case['stranger']:.3f}")
        cells = [_about(case), numbers.whole(case["rows"]), numbers.whole(case["recovered"])]
        cells += [Figure(f"{case['cosine']:.3f}"), stranger]
        psnr = f"{case['psnr']:.0f} dB" if "psnr" in case else numbers.NONE
        rows.append([*cells, *([psnr] if loud else [])])
    how = said(f"audit.inversion.how.{'linear' if found['attack'] == 'linear' else 'search'}")
    made: list[Block] = [Grid(header, rows, kind="figures wraps")]
    made.append(Sentence(said("audit.inversion.said", how=how)))
    for case in found["cases"]:
        if (
            case["shown"] and pictures is not None
        ):  # the rows that came back best, original and recovered side by side
            seen = "picture" in case["shown"][0] or case["case"] in ("gradient", "one visit")
            sides = Group([_row(entry, pictures) for entry in case["shown"]], "sides")
            made.append(More(said("audit.inversion.closest", about=_about(case)), [sides], open=seen))
    return made


def _row(entry: Table, pictures: Mapping[str, bytes]) -> Block:
    cosine = Figure(f"{entry['cosine']:.3f}")
    if "picture" in entry:
        text = said("audit.inversion.picture", cosine=cosine, psnr=f"{entry['psnr']:.0f}")
        return Picture(pictures[entry["picture"]], text, said("audit.inversion.alt"))
    rows = [[c["column"], c["original"], c["recovered"]] for c in entry["columns"]]
    table = Grid(_columns("column", "original", "recovered"), rows, kind="figures wraps")
    return Group([table, Sentence(said("audit.inversion.cosine", cosine=cosine))], "side")


def _mixes_part(found: Table) -> list[Block]:
    rows = [[h["client"], Figure(f"{h['leverage']:.3f}"), h["by"]] for h in found["hosts"]]
    table: Block = Grid(_columns("client", "highest", "for"), rows, kind="figures given")
    if len(rows) > FEW:
        table = More(said("audit.mixes.every"), [table])
    text = said("audit.mixes.said", rounds=numbers.several(found["rounds"], "round"))
    return [table, Sentence(text), *_really(found["really"])]


def _really(really: Table | None) -> list[Block]:
    """The round that looks worst, solved."""
    if really is None or not really["hosts"]:
        return []
    figures = ((h, Figure(f"{h['leverage']:.3f}"), Figure(f"{h['error']:.2g}")) for h in really["hosts"])
    rows = [[h["client"], leverage, h["by"], error] for h, leverage, error in figures]
    table = Grid(_columns("client", "leverage", "for", "error"), rows, kind="figures given")
    sums, replies = numbers.several(really["sums"], "sum"), numbers.whole(really["replies"])
    text = said("audit.mixes.really", round=really["round"], sums=sums, replies=replies)
    return [More(said("audit.mixes.solved"), [table, Sentence(text)], open=len(rows) <= FEW)]
