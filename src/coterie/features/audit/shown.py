"""The page "What could be learned about my patients": an audit for people, from what audit.json holds, in
sentences that a doctor reads.

In a run's report it has words and figures; rows themselves, original beside recovered, are only on the page
of the audit, which is for the client's own eyes.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from coterie.core.errors import BadRun
from coterie.features.audit import BEFORE
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
from coterie.show.words import Figure, Saying, known, said, semicolons
from coterie.show.words import sentences as joined

FILE, PAGE = "audit.json", "audit.html"
FEW = 12  # clients that are shown at once
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
LIMITS = ("leaks", "accounting", "small")
EXACT = 0.999  # a leverage from which a reply counts as solved for
Table = Mapping[str, Any]


def _audit_part(runs: Runs) -> list[Block]:
    """Without any row; nothing where there is no audit, or on a page that is served."""
    table = None if runs.folder is None or runs.served else read_audit(runs.folder)
    if table is None:
        return []
    made: list[Block] = [*_clients_part(table)]
    made += [Section(name, blocks) for _, name, blocks in _parts_of(table, None)]
    return [*made, *([Sentence(said("audit.rows_in", page=PAGE))] if _shows_rows(table) else [])]


PARTS = (Part("audit", "audit.title", 180, _audit_part, of=FILE),)


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
    listed = functools.reduce(lambda first, second: said("list.dot", first=first, second=second), facts)
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
    """(key, heading, blocks) of every attack, and the limits; rows are shown where pictures are given."""
    parts: list[tuple[str, str, list[Block]]] = []
    for name, sentence in sentences(table):
        blocks: list[Block] = [Sentence(sentence, kind="said")]
        if name in table:
            found = table[name]
            proofs = [(said(f"audit.{key}"), known("proof", found[key])) for key in ("proves", "proves_not")]
            blocks += ATTACKS[name].blocks(found)
            if name == "inversion" and pictures is not None:
                blocks += _closest(found, pictures)
            blocks.append(Facts(proofs, "proofs"))
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
        if (lines := _of_client(table, name))
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
    keys, rows, spans = ("auc", "advantage", "tpr_at_1", "tpr_at_10"), list[list[str]](), list[Span]()
    for e in entries:
        counts = [numbers.whole(e["members"]), numbers.whole(e["others"])]
        rows.append([e["client"], _model(e["model"]), *counts, *(interval(e[key]) for key in keys)])
        name = said("audit.membership.line", client=e["client"], model=_model(e["model"], "short"))
        kind: SpanKind = "leak" if _told_apart(e) else "own"
        kind = "none" if e["model"] == BEFORE else kind  # grey: the model that was trained on nothing
        auc = e["auc"]
        spans.append(Span(name, interval(auc), auc["low"], auc["value"], auc["high"], kind))
    left = len(entries) - 3 * FEW
    header = _columns("client", "model", "members", "others", *keys)
    return [
        Spans(spans[: 3 * FEW], said("audit.membership.scale")),
        *([Sentence(said("audit.membership.left", n=left))] if left > 0 else []),
        Sentence(said("audit.membership.said")),
        *(Sentence(said("report.line", said=note)) for note in found["notes"]),
        More(said("audit.membership.all"), [Grid(header, rows, kind="figures given")]),
    ]


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


def _inversion_part(found: Table) -> list[Block]:
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
    return [Grid(header, rows, kind="figures wraps"), Sentence(said("audit.inversion.said", how=how))]


def _closest(found: Table, pictures: Mapping[str, bytes]) -> list[Block]:
    """The rows that came back best, original and recovered side by side."""
    made: list[Block] = []
    for case in (case for case in found["cases"] if case["shown"]):
        sides, seen = list[Block](), case["case"] in ("gradient", "one visit")
        for entry in case["shown"]:
            cosine = Figure(f"{entry['cosine']:.3f}")
            if "picture" in entry:
                seen = True
                text = said("audit.inversion.picture", cosine=cosine, psnr=f"{entry['psnr']:.0f}")
                sides.append(Picture(pictures[entry["picture"]], text, said("audit.inversion.alt")))
                continue
            rows = [[c["column"], c["original"], c["recovered"]] for c in entry["columns"]]
            table = Grid(_columns("column", "original", "recovered"), rows, kind="figures wraps")
            text = said("audit.inversion.cosine", cosine=cosine)
            sides.append(Group([table, Sentence(text)], "side"))
        about = said("audit.inversion.closest", about=_about(case))
        made.append(More(about, [Group(sides, "sides")], open=seen))
    return made


def _mixes_part(found: Table) -> list[Block]:
    rows = [[h["client"], Figure(f"{h['leverage']:.3f}"), h["by"]] for h in found["hosts"]]
    table: Block = Grid(_columns("client", "highest", "for"), rows, kind="figures given")
    if len(rows) > FEW:
        table = More(said("audit.mixes.every"), [table])
    text = said("audit.mixes.said", rounds=numbers.several(found["rounds"], "round"))
    made, really = [table, Sentence(text)], found["really"]
    if really is None or not really["hosts"]:
        return made
    figures = ((h, Figure(f"{h['leverage']:.3f}"), Figure(f"{h['error']:.2g}")) for h in really["hosts"])
    rows = [[h["client"], leverage, h["by"], error] for h, leverage, error in figures]
    table = Grid(_columns("client", "leverage", "for", "error"), rows, kind="figures given")
    sums, replies = numbers.several(really["sums"], "sum"), numbers.whole(really["replies"])
    text = said("audit.mixes.really", round=really["round"], sums=sums, replies=replies)
    solved = More(said("audit.mixes.solved"), [table, Sentence(text)], open=len(rows) <= FEW)
    return [*made, solved]  # the round that looks worst


def interval(figure: Table) -> Saying:
    """0.81 (0.74 to 0.88); draws that all say the same tell nothing of other rows"""
    value, low, high = (Figure(f"{figure[k]:.2f}") for k in ("value", "low", "high"))
    if figure["low"] == figure["high"]:
        return said("audit.no_interval", value=value)
    return said("audit.interval", value=value, low=low, high=high)


def _model(name: str, kind: str = "model") -> Saying:
    return said(f"audit.{kind}.{'before' if name == BEFORE else name}")


def sentences(table: Table) -> list[tuple[str, str]]:
    """(attack, what it found) in the order of the audit; of one that was left out, why."""
    skipped = table["skipped"]
    return [
        (name, ATTACKS[name].said(table[name]) if name in table else said("audit.skipped", why=skipped[name]))
        for name in table["asked"]
        if name in table or name in skipped
    ]


def _told_apart(entry: Table) -> bool:
    """Whether members have lower losses than chance would have it."""
    return bool(entry["auc"]["low"] > 0.5)


def _membership(found: Table) -> str:
    trained = [e for e in found["clients"] if e["model"] != BEFORE]
    if not trained:
        return said("audit.membership.none")
    leaks = [e for e in trained if _told_apart(e)]
    clients = numbers.several(len({e["client"] for e in trained}), "client")
    worst = max(trained, key=lambda e: e["auc"]["value"])
    ends = {"model": _model(worst["model"]), "auc": interval(worst["auc"])}
    named = said("audit.membership.named", client=worst["client"], **ends)
    if len({e["client"] for e in trained}) == 1:
        text: list[str] = [said(f"audit.membership.{'leaks' if leaks else 'quiet'}", named=named)]
    elif leaks:
        count = len({e["client"] for e in leaks})
        text = [said("audit.membership.some", n=count, clients=clients, named=named)]
        text += [said("audit.membership.accident")] if len(trained) > 9 else []
    else:
        text = [said("audit.membership.nowhere", clients=clients, named=named)]
    together = (e for e in found["together"] if e["model"] == "own")
    return joined(*text, *(said("audit.membership.together", auc=interval(e["auc"])) for e in together))


def _canaries(found: Table) -> str:
    bounds = found["bounds"]
    if not bounds:
        return said("audit.canaries.nothing")
    each: list[str] = []
    for who, bound in bounds.items():
        epsilon = Figure(f"{bound['epsilon']:.2f}")
        each.append(said("audit.canaries.bound", who=said(f"audit.onlooker.{who}"), epsilon=epsilon))
    listed = functools.reduce(lambda a, b: said("audit.canaries.and", first=a, second=b), each)
    counts = {"n": found["canaries"], "planted": found["planted"], "client": found["client"]}
    text: list[str] = [said("audit.canaries.found", **counts, bounds=listed)]
    if "replies" not in bounds:
        text.append(said("audit.canaries.no_reply"))
    elif found["sealed"]:
        text.append(said("audit.canaries.sealed"))
    upper = found["upper"]
    if upper is None:
        text.append(said("audit.canaries.no_noise"))
    elif upper["epsilon"] is None:
        text.append(said("audit.canaries.no_upper", why=upper.get("why") or said("audit.canaries.too_small")))
    else:
        text.append(said("audit.canaries.upper", epsilon=Figure(f"{upper['epsilon']:.2f}")))
    return joined(*text)


def _inversion(found: Table) -> str:
    told = ("gradient", "one row", "one visit") if found["noise"] else ("gradient", "one visit")
    cases = semicolons(_recovered(case) for case in found["cases"] if case["case"] in told)
    frozen = said("audit.inversion.frozen") if found["frozen_layers"] else ""
    return joined(frozen, said("audit.inversion.found", client=found["client"], cases=cases))


def _recovered(case: Table) -> Saying:
    """From the gradient of one row by itself, 4 of 4 rows come back (cosine 1.000)."""
    steps = {"steps": numbers.several(case["steps"], "local step")} if case["case"] == "one visit" else {}
    than = loud = ""
    if case["stranger"] is not None:
        than = said("audit.inversion.than", cosine=Figure(f"{case['stranger']:.3f}"))
    if "psnr" in case:
        loud = said("audit.inversion.loud", psnr=f"{case['psnr']:.0f}")
    source = said(f"audit.inversion.source.{case['case'].replace(' ', '_')}", **steps)
    cosine = Figure(f"{case['cosine']:.3f}")
    rows = {"n": case["recovered"], "rows": case["rows"]}
    return said("audit.inversion.case", source=source, **rows, cosine=cosine, than=than, loud=loud)


def _mixes(found: Table) -> str:
    hosts = found["hosts"]
    exact = [h for h in hosts if h["leverage"] >= EXACT]
    if exact:
        first, clients = exact[0], numbers.several(len(hosts), "client")
        ends = {"by": first["by"], "client": first["client"]}
        text = said("audit.mixes.exact", n=len(exact), clients=clients, **ends)
    else:
        worst = max(hosts, key=lambda h: h["leverage"])
        leverage = Figure(f"{worst['leverage']:.2f}")
        text = said("audit.mixes.none", leverage=leverage, client=worst["client"], by=worst["by"])
    who = found["directly"]
    if not who:
        return joined(text)
    names = functools.reduce(lambda first, last: said("list.and", names=first, last=last), who)
    form = "one" if list(who) == ["the coordinator"] else "many"
    return joined(text, said(f"audit.mixes.directly.{form}", who=names))


def _of_client(table: Table, name: str) -> list[str]:
    """What could be learned about one client's patients, a sentence for each thing."""
    found: list[str] = []
    for entry in table.get("membership", {}).get("clients", ()):
        if entry["client"] != name or entry["model"] == BEFORE:
            continue
        blanks = {"model": _model(entry["model"]), "auc": interval(entry["auc"])}
        blanks |= {"members": entry["members"], "others": entry["others"]}
        if _told_apart(entry):
            found.append(said("audit.member.leaks", **blanks, found=interval(entry["tpr_at_10"])))
        else:
            found.append(said("audit.member.quiet", **blanks))
    if table.get("canaries", {}).get("client") == name:
        found.append(_canaries(table["canaries"]))
    if table.get("inversion", {}).get("client") == name:
        found.append(_inversion(table["inversion"]))
    for host in table.get("mixes", {}).get("hosts", ()):
        if host["client"] == name:
            exact, leverage = host["leverage"] >= EXACT, Figure(f"{host['leverage']:.2f}")
            can = said("audit.mixes.can", by=host["by"])
            found.append(can if exact else said("audit.mixes.cannot", leverage=leverage))
    return found


class _Told(NamedTuple):
    """Of what an attack found: a sentence, and blocks of a page."""

    said: Callable[[Table], str]
    blocks: Callable[[Table], list[Block]]


ATTACKS = {
    "membership": _Told(_membership, _membership_part),
    "canaries": _Told(_canaries, _canaries_part),
    "inversion": _Told(_inversion, _inversion_part),
    "mixes": _Told(_mixes, _mixes_part),
}
