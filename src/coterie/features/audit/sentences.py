"""What an audit found, in sentences that a doctor reads; from what audit.json holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coterie.show import numbers
from coterie.show.words import Figure, Saying, said
from coterie.show.words import sentences as joined

Table = Mapping[str, Any]
BEFORE = "before training"  # the model that was trained on nothing
EXACT = 0.999  # a leverage from which a reply counts as solved for


def interval(figure: Table, digits: int = 2) -> Saying:
    """0.81 (0.74 to 0.88); draws that all say the same tell nothing of other rows"""
    value, low, high = (Figure(f"{figure[k]:.{digits}f}") for k in ("value", "low", "high"))
    if figure["low"] == figure["high"]:
        return said("audit.no_interval", value=value)
    return said("audit.interval", value=value, low=low, high=high)


def model(name: str, kind: str = "model") -> Saying:
    return said(f"audit.{kind}.{'before' if name == BEFORE else name}")


def sentences(table: Table) -> list[tuple[str, str]]:
    """(attack, what it found) in the order of the audit; of one that was left out, why."""
    of = {"membership": membership, "canaries": canaries, "inversion": inversion, "mixes": mixes}
    skipped = table["skipped"]
    return [
        (name, of[name](table[name]) if name in table else said("audit.skipped", why=skipped[name]))
        for name in table["asked"]
        if name in table or name in skipped
    ]


def told_apart(entry: Table) -> bool:
    """Whether members have lower losses than chance would have it."""
    return bool(entry["auc"]["low"] > 0.5)


def membership(found: Table) -> str:
    trained = [e for e in found["clients"] if e["model"] != BEFORE]
    if not trained:
        return said("audit.membership.none")
    leaks = [e for e in trained if told_apart(e)]
    clients = numbers.several(len({e["client"] for e in trained}), "client")
    worst = max(trained, key=lambda e: e["auc"]["value"])
    ends = {"model": model(worst["model"]), "auc": interval(worst["auc"])}
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


def canaries(found: Table) -> str:
    bounds = found["bounds"]
    if not bounds:
        return said("audit.canaries.nothing")
    listed: str = ""
    for who, bound in bounds.items():
        epsilon = Figure(f"{bound['epsilon']:.2f}")
        one = said("audit.canaries.bound", who=said(f"audit.onlooker.{who}"), epsilon=epsilon)
        listed = said("audit.canaries.and", first=listed, second=one) if listed else one
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


def inversion(found: Table) -> str:
    told = ("gradient", "one row", "one visit") if found["noise"] else ("gradient", "one visit")
    cases: str = ""
    for case in found["cases"]:
        if case["case"] in told:
            one = _recovered(case)
            cases = said("list.semicolon", first=cases, second=one) if cases else one
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


def mixes(found: Table) -> str:
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
    return joined(text, _directly(found["directly"]))


def _directly(who: Sequence[str]) -> str:
    if not who:
        return ""
    names: str = who[0]
    for name in who[1:]:
        names = said("list.and", names=names, last=name)
    form = "one" if list(who) == ["the coordinator"] else "many"
    return said(f"audit.mixes.directly.{form}", who=names)


def of_client(table: Table, name: str) -> list[str]:
    """What could be learned about one client's patients, a sentence for each thing."""
    found: list[str] = []
    for entry in table.get("membership", {}).get("clients", ()):
        if entry["client"] == name and entry["model"] != BEFORE:
            found.append(_member_sentence(entry))
    if table.get("canaries", {}).get("client") == name:
        found.append(canaries(table["canaries"]))
    if table.get("inversion", {}).get("client") == name:
        found.append(inversion(table["inversion"]))
    for host in table.get("mixes", {}).get("hosts", ()):
        if host["client"] == name:
            exact, leverage = host["leverage"] >= EXACT, Figure(f"{host['leverage']:.2f}")
            can = said("audit.mixes.can", by=host["by"])
            found.append(can if exact else said("audit.mixes.cannot", leverage=leverage))
    return found


def _member_sentence(entry: Table) -> Saying:
    blanks = {"model": model(entry["model"]), "auc": interval(entry["auc"])}
    blanks |= {"members": entry["members"], "others": entry["others"]}
    if told_apart(entry):
        return said("audit.member.leaks", **blanks, found=interval(entry["tpr_at_10"]))
    return said("audit.member.quiet", **blanks)
