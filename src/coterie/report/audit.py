"""The page "What could be learned about my patients": an audit for people.

In a run's report it has words and figures; rows themselves, original beside recovered, are only on the page
of the audit, which is for the client's own eyes.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from coterie.core.errors import BadRun
from coterie.report import audit_words as said
from coterie.report import words
from coterie.report.page_tables import table as grid

TITLE = "What could be learned about my patients"
FILE, PAGE = "audit.json", "audit.html"
FEW = 12  # clients that are shown at once
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
Table = Mapping[str, Any]


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
    facts = [str(run[k]) for k in ("data", "split", "model", "method", "kernel") if k in run]
    facts += [words.several(run["clients"], "client"), words.several(run["rounds"], "round")]
    what = escape(" · ".join([*facts, f"seed of the run {run['seed']}, of the audit {table['seed']}"]))
    style = files("coterie.report").joinpath("style.css").read_text(encoding="utf-8")
    warning = (
        '<p class="warning">This page shows rows of a client as they are. It is for that client\'s own eyes: '
        "do not pass it on.</p>"
        if shows_rows(table)
        else ""
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(TITLE)}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<header><h1>Coterie audit</h1>
<div class="outcome"><p class="headline">{escape(TITLE)}</p><p class="what">{what}</p></div></header>
<main>{warning}{sections(table, pictures)}</main>
<footer>Made by Coterie {escape(str(table["coterie"]))}</footer>
</body>
</html>
"""


def shows_rows(table: Table) -> bool:
    return any(case["shown"] for case in table.get("inversion", {}).get("cases", ()))


def audit_part(table: Table | None) -> str:
    """The same within a run's report, without any row; nothing where there is no audit."""
    if table is None:
        return ""
    parts = "".join(f"<h3>{escape(name)}</h3>{content}" for _, name, content in parts_of(table, None))
    rows = (
        f'<p>Rows side by side, original and recovered, are in <a href="{PAGE}">{PAGE}</a>: that page is for '
        "the client's own eyes.</p>"
        if shows_rows(table)
        else ""
    )
    return f"{clients_part(table)}{parts}{rows}"


def sections(table: Table, pictures: Mapping[str, bytes]) -> str:
    """The parts of the audit's own page."""
    first = [("clients", "Client by client", clients_part(table))]
    shown = [*first, *parts_of(table, pictures)]
    links = " ".join(f'<a href="#{key}">{escape(name)}</a>' for key, name, _ in shown)
    inner = "".join(
        f'<section id="{key}"><h2>{escape(name)}</h2>{content}</section>' for key, name, content in shown
    )
    return f'<nav aria-label="Parts">{links}</nav>{inner}'


def parts_of(table: Table, pictures: Mapping[str, bytes] | None) -> list[tuple[str, str, str]]:
    """(key, heading, HTML) of every attack, and the limits."""
    drawn = {
        "membership": lambda found: membership_part(found),
        "canaries": lambda found: canaries_part(found),
        "inversion": lambda found: inversion_part(found, pictures),
        "mixes": lambda found: mixes_part(found),
    }
    parts = []
    for name, sentence in said.sentences(table):
        content = f"<p class='said'>{escape(sentence)}</p>"
        if name in table:
            content += drawn[name](table[name]) + proofs(table[name])
        parts.append((name, said.NAMES[name], content))
    limits = "".join(f"<li>{escape(line)}</li>" for line in said.LIMITS)
    return [*parts, ("limits", "What an audit cannot say", f"<ul>{limits}</ul>")]


def proofs(found: Table) -> str:
    return (
        f"<dl class='proofs'><dt>What a success proves</dt><dd>{escape(found['proves'])}</dd>"
        f"<dt>What a failed attack proves</dt><dd>{escape(found['proves_not'])}</dd></dl>"
    )


def clients_part(table: Table) -> str:
    """In plain words, each client by itself; the one that single rows were tried on first."""
    names = [e["client"] for e in table.get("membership", {}).get("clients", ())]
    names += [h["client"] for h in table.get("mixes", {}).get("hosts", ())]
    ordered = list(dict.fromkeys([table["client"], *names]))
    blocks = []
    for name in ordered:
        lines = said.of_client(table, name)
        if lines:
            inner = "".join(f"<li>{escape(line)}</li>" for line in lines)
            blocks.append(f"<div class='patient'><b>{escape(name)}</b><ul>{inner}</ul></div>")
    if not blocks:
        return "<p>No attack applied to any client.</p>"
    rest = "".join(blocks[FEW:])
    more = f"<details><summary>{len(blocks) - FEW} further clients</summary>{rest}</details>" if rest else ""
    return "".join(blocks[:FEW]) + more


def membership_part(found: Table) -> str:
    """The AUC of every client's models with its interval, drawn and as a table."""
    entries = [*({**e, "client": "all clients"} for e in found["together"]), *found["clients"]]
    keys = ("auc", "advantage", "tpr_at_1", "tpr_at_10")
    rows = [
        [
            escape(e["client"]),
            escape(said.MODELS[e["model"]]),
            words.whole(e["members"]),
            words.whole(e["others"]),
            *(escape(said.interval(e[key])) for key in keys),
        ]
        for e in entries
    ]
    header = ["client", "model", "trained on", "not", "AUC", "advantage", "found at 1 %", "found at 10 %"]
    notes = "".join(f"<p>{escape(note)}.</p>" for note in found["notes"])
    text = (
        "AUC: the chance that a row that was trained on has the lower loss; 0.5 is a coin. Advantage: share "
        "of the trained-on rows below the mean training loss, less that of the others. Found at 1 % and at "
        "10 %: share of the patients that is found if of the others so many are taken for patients by "
        "mistake. In brackets 95 % intervals. The first model was trained on nothing: where its AUC is not "
        "about 0.5, the rows differ by themselves."
    )
    full = f"<details><summary>All figures</summary>{grid(header, rows, 'figures given')}</details>"
    return f"{dots(entries)}<p>{escape(text)}</p>{notes}{full}"


def dots(entries: Sequence[Table]) -> str:
    """Figures with their intervals on a line from 0 to 1; a grey one is the model trained on nothing."""
    lines = "".join(
        "<div class='dots'>"
        f"<span>{escape(e['client'])}, {escape(said.SHORT[e['model']])}</span>"
        f"<svg viewBox='0 0 100 10' preserveAspectRatio='none' role='img' "
        f"aria-label='{escape(said.interval(e['auc']))}'>"
        "<line x1='50' x2='50' y1='0' y2='10' class='chance'/>"
        f"<line x1='{100 * e['auc']['low']:.1f}' x2='{100 * e['auc']['high']:.1f}' y1='5' y2='5' "
        f"class='span {kind(e)}'/>"
        f"<line x1='{100 * e['auc']['value'] - 0.5:.1f}' x2='{100 * e['auc']['value'] + 0.5:.1f}' y1='5' "
        f"y2='5' class='dot {kind(e)}'/></svg>"
        f"<span>{escape(said.interval(e['auc']))}</span></div>"
        for e in entries[: 3 * FEW]
    )
    left = len(entries) - 3 * FEW
    rest = f"<p>{left} further lines are in the table.</p>" if left > 0 else ""
    scale = "<span></span><span>AUC from 0 to 1; the dashed line is chance</span><span></span>"
    return f"<div class='plot'>{lines}<div class='dots scale'>{scale}</div></div>{rest}"


def kind(entry: Table) -> str:
    return "none" if entry["model"] == said.BEFORE else "leak" if said.told_apart(entry) else "own"


def canaries_part(found: Table) -> str:
    rows = [
        [
            escape(said.ONLOOKERS[who]),
            f"{b['right']} of {b['guesses']}",
            f"{b['epsilon']:.2f}",
            "none" if found["upper"] is None else _upper(found["upper"]),
        ]
        for who, b in found["bounds"].items()
    ]
    header = ["onlooker", "right guesses", "epsilon at least", "epsilon at most"]
    first = next(iter(found["bounds"].values()), None)
    delta = "" if first is None else f" at delta {first['delta']:g}"
    text = (
        f"At least: by the guesses, with 95 % confidence{delta}. At most: by the accountant, for the same "
        f"training. {found['planted']} planted rows beside {found['rows']} of the client's own, "
        f"{words.several(found['visits'], 'visit')} ({words.whole(found['seen'])} of which left a reply to "
        "be seen): the more planted rows, the more the audited training "
        "differs from the run. Even if every guess is right, the bound is finite: it grows with their number."
    )
    return f"{grid(header, rows, 'figures wraps')}<p>{escape(text)}</p>" if rows else ""


def _upper(upper: Table) -> str:
    return words.NONE if upper["epsilon"] is None else f"{upper['epsilon']:.2f}"


def inversion_part(found: Table, pictures: Mapping[str, bytes] | None) -> str:
    loud = any("psnr" in case for case in found["cases"])
    header = [
        "what is attacked",
        "rows",
        "come back",
        "cosine",
        "a stranger's",
        *(["best PSNR"] if loud else []),
    ]
    rows = []
    for case in found["cases"]:
        cells = [
            escape(case["about"]),
            words.whole(case["rows"]),
            words.whole(case["recovered"]),
            f"{case['cosine']:.3f}",
            words.NONE if case["stranger"] is None else f"{case['stranger']:.3f}",
        ]
        rows.append([*cells, *([f"{case['psnr']:.0f} dB" if "psnr" in case else words.NONE] if loud else [])])
    how = (
        "by dividing the steps of weights and biases of the first layer"
        if found["attack"] == "linear"
        else "by finding pictures whose gradient is the same"
    )
    text = (
        f"Rows are worked out {how}. Cosine: the median over rows of how close the closest recovered row "
        "comes, 1 is the same; come back: those of at least 0.99. A stranger's: how close the best of as "
        "many test rows comes, which nobody trained on. Many local steps, large batches and noise make this "
        "attack fail."
    )
    table = grid(header, rows, "figures wraps")
    sides = "" if pictures is None else "".join(case_rows(case, pictures) for case in found["cases"])
    return f"{table}<p>{escape(text)}</p>{sides}"


def case_rows(case: Table, pictures: Mapping[str, bytes]) -> str:
    """The rows of a case that came back best, original and recovered side by side."""
    if not case["shown"]:
        return ""
    inner = "".join(one_row(entry, pictures) for entry in case["shown"])
    body = f"<div class='sides'>{inner}</div>"
    seen = " open" if "picture" in case["shown"][0] or case["case"] in ("gradient", "one visit") else ""
    return f"<details{seen}><summary>{escape(case['about'])}: the closest</summary>{body}</details>"


def one_row(entry: Table, pictures: Mapping[str, bytes]) -> str:
    if "picture" in entry:
        data = base64.b64encode(pictures[entry["picture"]]).decode()
        text = f"original | recovered; cosine {entry['cosine']:.3f}, PSNR {entry['psnr']:.0f} dB"
        return (
            f"<figure><img src='data:image/png;base64,{data}' alt='original and recovered picture'>"
            f"<figcaption>{escape(text)}</figcaption></figure>"
        )
    rows = [[escape(c["column"]), escape(c["original"]), escape(c["recovered"])] for c in entry["columns"]]
    caption = f"<p>cosine {entry['cosine']:.3f}</p>"
    return f"<div>{grid(['column', 'original', 'recovered'], rows, 'figures wraps')}{caption}</div>"


def mixes_part(found: Table) -> str:
    rows = [[escape(h["client"]), f"{h['leverage']:.3f}", escape(h["by"])] for h in found["hosts"]]
    table = grid(["client", "highest leverage", "for"], rows, "figures given")
    text = (
        f"Over {words.several(found['rounds'], 'round')}: how much of a client's reply is fixed by the sum "
        "that a receiver got, its own reply known. 0: nothing of it alone; 1: all of it."
    )
    if len(rows) > FEW:
        table = f"<details><summary>Every client</summary>{table}</details>"
    return f"{table}<p>{escape(text)}</p>{really_part(found['really'])}"


def really_part(really: Table | None) -> str:
    """The round that looks worst, solved."""
    if really is None or not really["hosts"]:
        return ""
    rows = [
        [escape(h["client"]), f"{h['leverage']:.3f}", escape(h["by"]), f"{h['error']:.2g}"]
        for h in really["hosts"]
    ]
    table = grid(["client", "leverage", "for", "error"], rows, "figures given")
    text = (
        f"Round {really['round']} played again: its {words.several(really['sums'], 'sum')} of "
        f"{words.whole(really['replies'])} replies, solved. Error: how far the solution is from the reply, "
        "as a share of what the client's training changed; rounding leaves about a millionth."
    )
    seen = " open" if len(rows) <= FEW else ""
    return f"<details{seen}><summary>Solved for real</summary>{table}<p>{escape(text)}</p></details>"
