"""What people decide on the page: every form, what becomes of it, and a new run that keeps to it.

Decisions are checked and written down by `judgement/decisions.py`; this file has forms for them. A client of
a study on this machine can start again from there (`coterie again`, in a process of its own that outlives the
page). A site of a federation starts no runs: it answers requesters and plans, keeps a threshold for its own
model, and can hand its wishes to whoever leads.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from coterie.core.errors import BadInput, BadRun, CoterieError
from coterie.features.judgement import decisions as runs
from coterie.features.judgement.decisions import Asked, Decisions, Place, checked, place_of
from coterie.features.judgement.next_run import vetoes_of
from coterie.federation.site.consent import known_offers, known_plans
from coterie.page.library import Library, Site
from coterie.page.render import address, render_part
from coterie.page.view import LEAST, View
from coterie.runs.folder import is_run
from coterie.show.words import Words
from coterie.storage.decisions import user
from coterie.storage.paths import fresh_path
from coterie.storage.tail import last_lines
from coterie.use.cut import Cut, write_cut

_RULES = ("free", "require", "forbid")
_PLANS = 20  # of a site, the last that came
_ASKED = 12  # lines of a site's diary
_START = 60.0  # seconds in which a new run has begun, or has said why not
Form = Mapping[str, Sequence[str]]
_ANSWERS = {
    "partner": ("in", "name", "in", "out"),
    "veto": ("allow", "requester", "allow", "veto"),
    "plan": ("allow", "plan", "plan_yes", "plan_no"),
}
"""Decisions that are yes or no: the field that says which, whom it is about, and the texts for each."""


# what is shown


@dataclass(frozen=True)
class _Choice:
    """One form: names to tick, in a field of that name, or menus (name, label, options, chosen)."""

    kind: str
    legend: str
    button: str
    about: str = ""
    field: str = ""
    names: Sequence[tuple[str, bool]] = ()
    menus: Sequence[tuple[str, str, Sequence[tuple[str, str]], str]] = ()


def decision_forms(view: View, say: Words) -> dict[str, Any]:
    """Every form that has something to decide, whether a new run would change, and what was decided."""
    place = place_of(view.path, view.record)
    mine, others = place.of(view.client), [view.names[j] for j in view.others]
    ticks = [(name, name not in mine.left_out) for name in others]
    found = [_Choice("partner", say("judge.partners"), say("judge.keep"), field="in", names=ticks)]
    rules = dict.fromkeys(mine.require, "require") | dict.fromkeys(mine.forbid, "forbid")
    names = [(c, f"{c} ({say(f'judge.rule.{rules[c]}')})" if c in rules else c) for c in place.columns]
    rule = ("rule", say("judge.rule_name"), [(r, say(f"judge.rule.{r}")) for r in _RULES], "forbid")
    menus = [("column", say("judge.column"), names, ""), rule] if names else []
    words = (say("judge.columns"), say("judge.keep"), say("judge.columns_about"))
    found.append(_Choice("column", *words, menus=menus))
    # the circle that a ranking published, or the one that counts now, to be approved as it is or smaller
    row = view.last[view.number]
    now = [view.names[j] for j in view.others if row[j] >= LEAST]
    proposed = place.circles.get(view.client, tuple(now))
    kept = mine.circle if mine.circle is not None else proposed
    words = (say("judge.circle"), say("judge.approve"), say("judge.circle_about"))
    found.append(_Choice("circle", *words, "among", [(name, name in kept) for name in proposed]))
    if view.site is None:
        allowed = [(name, name not in mine.vetoed) for name in others]
        words = (say("judge.veto"), say("judge.keep"), say("judge.veto_about"))
        found.append(_Choice("veto", *words, "allow", allowed))
    # whether a new run would come out otherwise: a threshold is for models as they are, and others' vetoes
    # hold whoever starts again
    vetoed = any(mine.client in one.vetoed for one in vetoes_of(place.lines(), mine.client))
    return {
        "forms": [one for one in found if one.names or one.menus],
        "changes": vetoed or mine != Decisions(mine.client, cut=mine.cut),
        "decided": _decided_so_far(place, view.client, say),
    }


def _decided_so_far(place: Place, client: str, say: Words) -> list[tuple[str, str]]:
    """Everything that was decided, by time: with who did it, the newest first."""
    lines = [line for line in reversed(place.lines()) if line["client"] == client]
    return [
        (str(line["time"])[:19].replace("T", " "), f"{line['by']}: {_in_words(line, say)}") for line in lines
    ]


def _in_words(line: Mapping[str, Any], say: Words) -> str:
    """A decision as it was written down."""
    kind = str(line["kind"])
    if kind in _ANSWERS:
        field, blank, yes, no = _ANSWERS[kind]
        return say(f"decided.{yes if line[field] else no}", name=str(line[blank]))
    if kind == "column":
        return say(f"decided.{line['rule']}", name=line["name"])
    if kind == "threshold":
        return say("decided.threshold", name=line["class"], at=say.percent(float(line["at"])))
    if kind == "circle":
        among = line["among"] if isinstance(line["among"], list) else []
        return say("decided.circle", names=say.listed([str(n) for n in among]) or say("decided.nobody"))
    return say("decided.again", name=Path(str(line.get("out", ""))).name)


# what becomes of it


def decide(view: View, form: Form, library: Library) -> str:
    """Does what a form asks for; where to go then, if not back."""
    kind = field_of(form, "kind")
    if kind == "again":
        return _start_again(view, library)
    asked = _asked_of(view, kind, form)
    if view.site is None:
        runs.decide_and_cut(view.path, view.client, asked)
        return ""
    checked(view.path, view.client, asked)
    for told in (told for kind, told in asked if kind == "threshold"):
        try:  # where the site's own model of this run lies
            folder = view.site.state / str(json.loads((view.path / "model.json").read_bytes())["model"])
        except (OSError, ValueError, LookupError, TypeError):
            raise BadRun("the run has left no model here yet: keep a threshold when it is over") from None
        write_cut(folder, view.client, Cut(told["class"], told["at"]), user())
    runs.decide(view.path, view.client, asked)
    return ""


def _asked_of(view: View, kind: str, form: Form) -> list[Asked]:
    """The decisions of a form that differ from what was decided before."""
    mine = place_of(view.path, view.record).of(view.client)
    others = [view.names[j] for j in view.others]
    if kind in ("partner", "veto"):
        field, blank, *_ = _ANSWERS[kind]
        ticked, out = set(form.get(field, ())), mine.left_out if kind == "partner" else mine.vetoed
        changed = [name for name in others if (name not in ticked) != (name in out)]
        return [(kind, {blank: name, field: name in ticked}) for name in changed]
    if kind == "column":
        return [("column", {"name": field_of(form, "column"), "rule": field_of(form, "rule")})]
    if kind == "circle":
        return [("circle", {"among": list(form.get("among", ())), "approved": True})]
    if kind == "threshold":
        try:
            at = float(field_of(form, "at"))
        except ValueError:
            raise BadInput(f"{field_of(form, 'at')!r} is no probability: move the slider first") from None
        return [("threshold", {"class": field_of(form, "class"), "at": at})]
    raise BadInput(f"{kind!r} is nothing that can be decided here: reload the page")


def field_of(form: Form, name: str) -> str:
    return form[name][0] if form.get(name) else ""


def _start_again(view: View, library: Library) -> str:
    """A run of its own process; the address of its page once it has begun."""
    home = view.entry.path
    out = fresh_path(home.with_name(f"{home.name}-again"))
    words = [sys.executable, "-m", "coterie", "again", str(view.path), "--client", view.client]
    with tempfile.TemporaryFile() as said:
        nothing = subprocess.DEVNULL
        process = subprocess.Popen(
            [*words, "--out", str(out)], stdin=nothing, stdout=nothing, stderr=said, start_new_session=True
        )
        until = time.monotonic() + _START
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


def wish_text(view: View) -> str:
    """A site's decisions as a text for whoever leads."""
    said = place_of(view.path, view.record).of(view.client).words()
    run = f"run {view.path.name} ({view.entry.name})" if view.site is not None else view.entry.name
    lines = [f"{view.client}, of {run}, method {view.label}:", *(f"  - {line}" for line in said)]
    return "\n".join([*lines, ""])


# a site's own page


def offers(site: Site, say: Words) -> Markup:
    """Who would like this site in its circle, to be answered; and what was answered before."""
    try:
        place = place_of(site.kit)
        mine, waiting = place.of(site.name), known_offers(site.state)
    except CoterieError as error:
        return render_part("offers.html", say, broken=str(error))
    found, decided = [], _decided_so_far(place, site.name, say)
    for offer in waiting:
        name = str(offer["requester"])
        share, others = say.percent(float(offer["share"])), say.whole(int(offer["others"]))
        text = say("offer.told", name=name, share=share, others=others)
        found.append({"value": name, "text": text, "state": _answered(name, mine.allowed, mine.vetoed)})
    return render_part("offers.html", say, broken="", site=site, offers=found, decided=decided)


def plans(site: Site, say: Words) -> Markup:
    """The last plans that came, each in words, with what was answered and buttons to answer."""
    try:
        mine, came = place_of(site.kit).of(site.name), known_plans(site.state)[:_PLANS]
    except CoterieError as error:
        return render_part("plans.html", say, broken=str(error))
    found = []
    for plan in came:
        digest, words = str(plan["plan"]), [str(word) for word in plan.get("words", ())]
        told = {"value": digest, "text": words[0] if words else digest, "asks": words[1:]}
        told |= {"last": str(plan.get("last", ""))[:19], "outcome": str(plan.get("outcome", ""))}
        found.append({**told, "state": _answered(digest, mine.taken, mine.refused)})
    return render_part("plans.html", say, broken="", site=site, plans=found)


def asked(site: Site) -> list[tuple[str, str]]:
    """The last that the site was asked, by time: by whom, and what became of it."""
    lines = reversed(last_lines(site.state / "asked.jsonl", _ASKED))
    told = ({key: str(one.get(key, "")) for key in ("time", "by", "asked", "outcome")} for one in lines)
    return [(one["time"][:19], f"{one['by']}: {one['asked']} – {one['outcome']}") for one in told]


def _answered(name: str, yes: Collection[str], no: Collection[str]) -> str:
    return "allowed" if name in yes else "vetoed" if name in no else "open"


def site_decides(library: Library, form: Form) -> None:
    """An answer to who would like the site in its circle, or to a run's plan."""
    site = next((s for s in library.sites if s.name == field_of(form, "site")), None)
    if site is None:
        raise BadInput(f"{field_of(form, 'site')!r} is no site that is shown here: reload the page")
    kind, about = ("plan", "plan") if form.get("plan") else ("veto", "requester")
    answer = {about: field_of(form, about), "allow": field_of(form, "allow") == "1"}
    runs.decide(site.kit, site.name, [(kind, answer)])
