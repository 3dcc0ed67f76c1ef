"""What people decide on the page: every form, what becomes of it, and a new run that keeps to it.

Decisions are checked and written down by `runs/decisions.py`; this file has forms for them. A client of a
study on this machine can start again from there (`coterie again`, in a process of its own that outlives the
page). A site of a federation starts no runs: it answers requesters, keeps a threshold for its own model, and
can hand its wishes to whoever leads.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from coterie.core.errors import BadInput, BadRun
from coterie.page.cards import with_whom
from coterie.page.catalogue import Words
from coterie.page.library import Library
from coterie.page.render import address, menu
from coterie.page.view import View
from coterie.runs import deciding as runs
from coterie.runs.deciding import Asked, Place, checked, place_of
from coterie.runs.decisions import Decisions
from coterie.runs.folder import is_run
from coterie.runs.judged import vetoes_of
from coterie.storage.decided import user
from coterie.storage.paths import fresh_path
from coterie.use import deciding as use
from coterie.use.cut import Cut
from coterie.use.cuts import write_cut

RULES = ("free", "require", "forbid")
START = 60.0  # seconds in which a new run has begun, or has said why not
Form = Mapping[str, Sequence[str]]


# what is shown


def section(view: View, say: Words, trouble: str = "") -> str:
    place = place_of(view.path, view.record)
    mine = place.of(view.client)
    to = address("run", view.entry.id, view.client, "decide", label=view.label)
    parts = [partners(view, mine, say), columns(view, place, mine, say), circle(view, place, mine, say)]
    parts += [veto(view, mine, say)] if view.site is None else []
    forms = "".join(f'<form method="post" action="{escape(to)}">{part}</form>' for part in parts if part)
    start = f'<form method="post" action="{escape(to)}">{again(view, place, mine, say)}</form>'
    wrong = f'<p class="warning" role="alert">{escape(trouble)}</p>' if trouble else ""
    return f"""<section id="judgement"><h2>{escape(say("judge.title"))}</h2>
<p>{escape(say("judge.about"))}</p>{wrong}{forms}{start}{so_far(place, view.client, say)}</section>"""


def box(legend: str, inner: str, kind: str, button: str, strong: bool = False) -> str:
    look = ' class="strong"' if strong else ""
    return (
        f'<fieldset id="decide-{kind}"><legend>{escape(legend)}</legend>{inner}'
        f'<button type="submit" name="kind" value="{kind}"{look}>{escape(button)}</button></fieldset>'
    )


def partners(view: View, mine: Decisions, say: Words) -> str:
    """Who takes part; whoever is not ticked is left out of the next run."""
    if not view.others:
        return ""
    items = "".join(
        f'<li><label><input type="checkbox" name="in" value="{escape(view.names[j])}"'
        f"{'' if view.names[j] in mine.left_out else ' checked'}> {escape(view.names[j])}</label></li>"
        for j in view.others
    )
    return box(say("judge.partners"), f"<ul>{items}</ul>", "partner", say("judge.keep"))


def columns(view: View, place: Place, mine: Decisions, say: Words) -> str:
    if not place.columns:
        return ""
    rules = dict.fromkeys(mine.require, "require") | dict.fromkeys(mine.forbid, "forbid")
    names = [(c, f"{c} ({say(f'judge.rule.{rules[c]}')})" if c in rules else c) for c in place.columns]
    which = menu("column", say("judge.column"), names, "")
    rule = menu("rule", say("judge.rule_name"), [(r, say(f"judge.rule.{r}")) for r in RULES], "forbid")
    about = f"<p>{escape(say('judge.columns_about'))}</p>"
    return box(
        say("judge.columns"), f'{about}<div class="row">{which}{rule}</div>', "column", say("judge.keep")
    )


def circle(view: View, place: Place, mine: Decisions, say: Words) -> str:
    """The circle that a ranking published, or the one that counts now, to be approved as it is or smaller."""
    row = view.last[view.number]
    now = [view.names[j] for j in view.others if row[j] >= with_whom.LEAST]
    proposed = place.circles.get(view.client, tuple(now))
    if not proposed:
        return ""
    kept = mine.circle if mine.circle is not None else proposed
    items = "".join(
        f'<li><label><input type="checkbox" name="among" value="{escape(name)}"'
        f"{' checked' if name in kept else ''}> {escape(name)}</label></li>"
        for name in proposed
    )
    about = f"<p>{escape(say('judge.circle_about'))}</p>"
    return box(say("judge.circle"), f"{about}<ul>{items}</ul>", "circle", say("judge.approve"))


def veto(view: View, mine: Decisions, say: Words) -> str:
    """Whose circles this client's own model may be in."""
    items = "".join(
        f'<li><label><input type="checkbox" name="allow" value="{escape(view.names[j])}"'
        f"{'' if view.names[j] in mine.vetoed else ' checked'}> {escape(view.names[j])}</label></li>"
        for j in view.others
    )
    about = f"<p>{escape(say('judge.veto_about'))}</p>"
    return box(say("judge.veto"), f"{about}<ul>{items}</ul>", "veto", say("judge.keep"))


def keep_threshold(view: View, say: Words) -> str:
    """Beside the slider, which fills it in."""
    to = address("run", view.entry.id, view.client, "decide", label=view.label)
    return (
        f'<form method="post" action="{escape(to)}" id="keep-cut"><input type="hidden" name="class" value="">'
        f'<input type="hidden" name="at" value=""><button type="submit" name="kind" value="threshold">'
        f"{escape(say('judge.keep_threshold'))}</button></form>"
    )


def again(view: View, place: Place, mine: Decisions, say: Words) -> str:
    if view.site is not None:
        return box(
            say("judge.wish"), f"<p>{escape(say('judge.wish_about'))}</p>", "wish", say("judge.wish_file")
        )
    if "given" in view.record.config:
        return f"<p>{escape(say('judge.python'))}</p>"
    if not counts(place, mine):
        return f'<p id="decide-again">{escape(say("judge.nothing"))}</p>'
    return box(
        say("judge.again"), f"<p>{escape(say('judge.again_about'))}</p>", "again", say("judge.start"), True
    )


def counts(place: Place, mine: Decisions) -> bool:
    """Whether a new run would come out otherwise: a threshold is for models as they are, and others' vetoes
    hold whoever starts again.
    """
    vetoed = any(mine.client in one.vetoed for one in vetoes_of(place.lines(), mine.client))
    return vetoed or mine != Decisions(mine.client, cut=mine.cut)


def so_far(place: Place, client: str, say: Words) -> str:
    """Everything that was decided, with who and when, the newest first; as it is written down, in English."""
    lines = [line for line in place.lines() if line["client"] == client]
    if not lines:
        return f'<p id="decided">{escape(say("judge.none"))}</p>'
    items = "".join(
        f"<li><time>{escape(str(line['time'])[:19].replace('T', ' '))}</time> {escape(str(line['by']))}: "
        f"{escape(in_words(line, say))}</li>"
        for line in reversed(lines)
    )
    return f'<h3>{escape(say("judge.so_far"))}</h3><ol class="events" id="decided" reversed>{items}</ol>'


def in_words(line: Mapping[str, object], say: Words) -> str:
    kind = str(line["kind"])
    if kind == "partner":
        return say("decided.in" if line["in"] else "decided.out", name=line["name"])
    if kind == "column":
        return say(f"decided.{line['rule']}", name=line["name"])
    if kind == "threshold":
        return say("decided.threshold", name=line["class"], at=say.percent(float(str(line["at"]))))
    if kind == "circle":
        among = line["among"] if isinstance(line["among"], list) else []
        return say("decided.circle", names=say.listed([str(n) for n in among]) or say("decided.nobody"))
    if kind == "veto":
        return say("decided.allow" if line["allow"] else "decided.veto", name=line["requester"])
    if kind == "plan":
        return say("decided.plan_yes" if line["allow"] else "decided.plan_no", name=str(line["plan"]))
    return say("decided.again", name=Path(str(line.get("out", ""))).name)


# what becomes of it


def decide(view: View, form: Form, library: Library) -> str:
    """Does what a form asks for; where to go then, if not back."""
    kind = one(form, "kind")
    if kind == "again":
        return start_again(view, library)
    asked = asked_of(view, kind, form)
    if view.site is None:
        use.decide(view.path, view.client, asked)
        return ""
    checked(view.path, view.client, asked)
    for told in (told for kind, told in asked if kind == "threshold"):
        write_cut(model_of(view), view.client, Cut(told["class"], told["at"]), user())
    runs.decide(view.path, view.client, asked)
    return ""


def asked_of(view: View, kind: str, form: Form) -> list[Asked]:
    """The decisions of a form that differ from what was decided before."""
    mine = place_of(view.path, view.record).of(view.client)
    others = [view.names[j] for j in view.others]
    if kind == "partner":
        ticked = set(form.get("in", ()))
        out = [name for name in others if name not in ticked]
        changed = [n for n in others if (n in out) != (n in mine.left_out)]
        return [("partner", {"name": name, "in": name in ticked}) for name in changed]
    if kind == "veto":
        ticked = set(form.get("allow", ()))
        changed = [n for n in others if (n not in ticked) != (n in mine.vetoed)]
        return [("veto", {"requester": name, "allow": name in ticked}) for name in changed]
    if kind == "column":
        return [("column", {"name": one(form, "column"), "rule": one(form, "rule")})]
    if kind == "circle":
        return [("circle", {"among": list(form.get("among", ())), "approved": True})]
    if kind == "threshold":
        return [("threshold", {"class": one(form, "class"), "at": number(one(form, "at"))})]
    raise BadInput(f"{kind!r} is nothing that can be decided here: reload the page")


def one(form: Form, name: str) -> str:
    return form[name][0] if form.get(name) else ""


def number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise BadInput(f"{text!r} is no probability: move the slider first") from None


def model_of(view: View) -> Path:
    """Where a site's own model of this run lies."""
    assert view.site is not None
    try:
        told = json.loads((view.path / "model.json").read_bytes())
        return view.site.state / str(told["model"])
    except (OSError, ValueError, LookupError, TypeError):
        raise BadRun("the run has left no model here yet: keep a threshold when it is over") from None


def start_again(view: View, library: Library) -> str:
    """A run of its own process; the address of its page once it has begun."""
    home = view.entry.path
    out = fresh_path(home.with_name(f"{home.name}-again"))
    words = [
        sys.executable,
        "-m",
        "coterie",
        "again",
        str(view.path),
        "--client",
        view.client,
        "--out",
        str(out),
    ]
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said, start_new_session=True
        )
        until = time.monotonic() + START
        while not is_run(out) and process.poll() is None and time.monotonic() < until:
            time.sleep(0.1)
        if not is_run(out) and process.poll() not in (None, 0):
            said.seek(0)
            lines = said.read().decode(errors="replace").strip().splitlines()
            told = [line.removeprefix("coterie: ") for line in lines if line.startswith("coterie: ")]
            raise BadRun("; ".join(told) or "the run could not be started: try coterie again in a terminal")
    library.add(out)
    entry = next((e for e in library.all() if e.path.absolute() == out.absolute()), None)
    return address("run", entry.id, view.client) if entry is not None else "/"


def wish(view: View) -> str:
    """A site's decisions as a text for whoever leads."""
    said = place_of(view.path, view.record).of(view.client).words()
    run = f"run {view.path.name} ({view.entry.name})" if view.site is not None else view.entry.name
    lines = [f"{view.client}, of {run}, method {view.label}:", *(f"  - {line}" for line in said)]
    return "\n".join([*lines, ""])
