"""What an audit found, in sentences that a doctor reads; from what audit.json holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coterie.report import words

Table = Mapping[str, Any]
BEFORE = "before training"  # the model that was trained on nothing
EXACT = 0.999  # a leverage from which a reply counts as solved for
NAMES = {
    "membership": "Was this patient in the training data?",
    "canaries": "How much does training remember of a planted row?",
    "inversion": "Can rows be worked out from what leaves a client?",
    "mixes": "Can single replies be worked out from sums of replies?",
}
ONLOOKERS = {
    "replies": "who sees every reply that leaves the client",
    "model": "who has the client's finished model alone",
}
MODELS = {"own": "own model", "shared": "shared model", BEFORE: "first model, trained on nothing"}
SHORT = {"own": "own", "shared": "shared", BEFORE: "first"}
LIMITS = (
    "An audit shows leaks, never their absence. These are four known attacks with modest means; others, and "
    "the same ones with more knowledge of the data, may do better.",
    "Only accounting (a kernel such as dp(sgd), with its epsilon) bounds what any attack can do.",
    "Figures of a small client have wide intervals: that nothing was found there says least.",
)


def interval(figure: Table, digits: int = 2) -> str:
    """0.81 (0.74 to 0.88); draws that all say the same tell nothing of other rows"""
    if figure["low"] == figure["high"]:
        return f"{figure['value']:.{digits}f} (no interval: all draws say the same)"
    value, low, high = (f"{figure[k]:.{digits}f}" for k in ("value", "low", "high"))
    return f"{value} ({low} to {high})"


def sentences(table: Table) -> list[tuple[str, str]]:
    """(attack, what it found) in the order of the audit; of one that was left out, why."""
    said = {
        "membership": membership,
        "canaries": canaries,
        "inversion": inversion,
        "mixes": mixes,
    }
    return [
        (name, said[name](table[name]) if name in table else f"Not tried: {table['skipped'][name]}.")
        for name in table["asked"]
        if name in table or name in table["skipped"]
    ]


def told_apart(entry: Table) -> bool:
    """Whether members have lower losses than chance would have it."""
    return bool(entry["auc"]["low"] > 0.5)


def membership(found: Table) -> str:
    trained = [e for e in found["clients"] if e["model"] != BEFORE]
    if not trained:
        return "No client that was looked at has a model and test rows."
    leaks = [e for e in trained if told_apart(e)]
    clients = list(dict.fromkeys(e["client"] for e in trained))
    worst = max(trained, key=lambda e: e["auc"]["value"])
    named = f"{worst['client']}, {MODELS[worst['model']]}: AUC {interval(worst['auc'])}"
    count = len({e["client"] for e in leaks})
    if len(clients) == 1:
        can = "gives away better than by chance" if leaks else "does not measurably give away"
        said = f"The loss {can} which rows were trained on ({named})."
    elif leaks:
        said = (
            f"For {count} of {words.several(len(clients), 'client')} the loss tells better than by chance "
            f"which rows were trained on; most for {named}."
            + (" Of so many intervals, 1 in 40 lies above chance by accident." if len(trained) > 9 else "")
        )
    else:
        said = (
            f"For none of {words.several(len(clients), 'client')} does the loss tell measurably which rows "
            f"were trained on; the highest is {named}."
        )
    for entry in found["together"]:
        if entry["model"] == "own":
            said += f" All clients' rows together, each by its client's own model: {interval(entry['auc'])}."
    return said


def canaries(found: Table) -> str:
    bounds = found["bounds"]
    if not bounds:
        return "Nothing of the client could be seen: no reply, and no model of its own."
    said = [f"{ONLOOKERS[who]}: epsilon is at least {b['epsilon']:.2f}" for who, b in bounds.items()]
    text = (
        f"{found['canaries']} made-up rows, of which {found['planted']} were planted at {found['client']}. "
        f"With 95 % confidence, for {', and for '.join(said)}."
    )
    if "replies" not in bounds:
        text += " No reply of the client left it, or none is a model."
    elif found["sealed"]:
        text += " Its replies were sealed: only the two helpers together could see them."
    upper = found["upper"]
    if upper is None:
        return f"{text} Local work adds no noise, so there is no upper bound at all."
    if upper["epsilon"] is None:
        return f"{text} The accountant gives no upper bound: {upper.get('why', 'the noise is too small')}."
    return f"{text} The accountant's upper bound for the same training is {upper['epsilon']:.2f}."


def inversion(found: Table) -> str:
    told = ("gradient", "one row", "one visit") if found["noise"] else ("gradient", "one visit")
    said = [recovered(case) for case in found["cases"] if case["case"] in told]
    thing = "Inputs of the last layer, not rows. " if found["frozen_layers"] else ""
    return f"{thing}At {found['client']}: {'; '.join(said)}."


def recovered(case: Table) -> str:
    """From the gradient of one row by itself, 4 of 4 rows come back (cosine 1.000)."""
    source = {
        "gradient": "from the gradient of one row",
        "one row": "from one row's step by the run's local work, its noise included",
        "one batch": "from one batch's step",
        "one visit": f"from a visit as in the run ({words.several(case['steps'], 'local step')})",
    }[case["case"]]
    than = "" if case["stranger"] is None else f", a stranger's row {case['stranger']:.3f}"
    loud = f", {case['psnr']:.0f} dB at best" if "psnr" in case else ""
    back = f"{case['recovered']} of {case['rows']} rows come back"
    return f"{source}, {back} (cosine {case['cosine']:.3f}{than}{loud})"


def mixes(found: Table) -> str:
    hosts = found["hosts"]
    exact = [h for h in hosts if h["leverage"] >= EXACT]
    if exact:
        first = exact[0]
        said = (
            f"The replies of {len(exact)} of {words.several(len(hosts), 'client')} can be solved for from "
            f"sums that somebody got: {first['by']} can work out that of {first['client']}."
        )
    else:
        worst = max(hosts, key=lambda h: h["leverage"])
        said = (
            "No receiver can solve for a single reply from the sum that it got; the highest leverage is "
            f"{worst['leverage']:.2f}, of {worst['client']} for {worst['by']}."
        )
    return said + directly(found["directly"])


def directly(who: Sequence[str]) -> str:
    if not who:
        return ""
    gets = "gets" if who == ["the coordinator"] else "get"
    return f" Without --wrap sealed that matters little: {' and '.join(who)} {gets} each reply itself."


def of_client(table: Table, name: str) -> list[str]:
    """What could be learned about one client's patients, a sentence for each thing."""
    said = []
    for entry in table.get("membership", {}).get("clients", ()):
        if entry["client"] == name and entry["model"] != BEFORE:
            said.append(member_sentence(entry))
    if table.get("canaries", {}).get("client") == name:
        said.append(canaries(table["canaries"]))
    if table.get("inversion", {}).get("client") == name:
        said.append(inversion(table["inversion"]))
    for host in table.get("mixes", {}).get("hosts", ()):
        if host["client"] == name:
            can = (
                f"{host['by']} can work its reply out exactly from the sum that it got"
                if host["leverage"] >= EXACT
                else f"nobody can work its reply out from one sum (leverage {host['leverage']:.2f} at most)"
            )
            said.append(f"By mixes, {can}.")
    return said


def member_sentence(entry: Table) -> str:
    model = MODELS[entry["model"]]
    rows = f"{entry['members']} trained on, {entry['others']} not"
    if told_apart(entry):
        found = interval(entry["tpr_at_10"])
        return (
            f"Whoever has its {model} can tell better than by chance which rows it was trained on: AUC "
            f"{interval(entry['auc'])}, where 0.5 is chance ({rows}). With one false alarm in ten, a share "
            f"of {found} of the patients is found."
        )
    return (
        f"By the loss of its {model}, rows that it was trained on could not be told from others: AUC "
        f"{interval(entry['auc'])}, where 0.5 is chance ({rows}). That proves nothing."
    )
