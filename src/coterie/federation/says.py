"""What a site is asked and what it sends, in words that a person at the hospital can read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.core.errors import shown
from coterie.nets.courier import said

LONG = 200  # letters of a list
FEW = 12  # names that are listed
PLAIN = {
    "hello": "what its rows are, and what it takes part in",
    "deal": "set rows aside for testing",
    "sums": "counts, means and deviations of columns, for a scale that sites share",
    "fit": "make inputs of its rows",
    "check": "quantiles of columns, and how often a check of its data found what",
    "fold": "how many rows a fold of a tuning leaves",
    "finish": "keep the model that the run ends with here",
    "end": "forget the run",
    "cancel": "end what it is computing",
    "left-out": "to do nothing",
    "ping": "whether it is there",
    "rows": "all of its rows",
    "unseal": "take a sum of sealed models",
}
UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)


def asked(message: Mapping[str, Any]) -> str:
    """What a message asks for."""
    what = str(message.get("do"))
    try:
        return _told(what, message) or PLAIN[what]
    except UNREADABLE:
        return shown(what)[1:-1] if what.isascii() else shown(what)


def _told(what: str, message: Mapping[str, Any]) -> str:
    if what == "visit":
        round = f"round {int(message['key']['round'])}"
        return f"{said(message['kernel'])[:LONG]} on {len(message['rows'])} model(s), {round}"
    if what == "begin":
        work = message["work"]
        return f"begin a run: {work['model']}, {work['rounds']} rounds, {work['sites']} sites"
    if what == "letters":
        return f"send models to {', '.join(str(o['to']) for o in message['orders'])[:LONG]}"
    if what == "ledger":
        first, many, shown_too = int(message["first"]), len(message["entries"]), "shown" in message
        signs = [f"sign entries {first} to {first + many - 1} of the run's ledger"] if many else []
        return " and ".join([*signs, *["keep what it is shown of the run"] * shown_too])
    if what == "offer":
        kind = "circle" if message["circle"] else "sum"
        return f"whether it stays in {len(message['sums'])} {kind}(s)"
    if what == "seal":
        return f"send {len(message['orders'])} sealed model(s) to two helpers"
    if what == "give":
        why = {"open": "to be looked at", "mix": "to be mixed"}.get(str(message["why"]), "for others")
        return f"give {len(message['rows'])} model(s), {why}"
    if what == "mix":
        return f"sum {len(message['rows'])} model(s)"
    if what == "distances":
        return f"how far {len(message['replies'])} models are apart"
    if what == "copy":
        return f"keep {len(message['new'])} model(s)"
    if what == "keep":
        return "drop what is over" if "store" not in message else f"write round {int(message['store'])} down"
    if what == "fetch":
        return f"go on after round {int(message['round'])}"
    return ""


def sent(message: Mapping[str, Any], answer: Mapping[str, Any], size: int) -> str:
    """What leaves with an answer of so many bytes of numbers; nothing where none do."""
    what = message.get("do")
    if "error" in answer or not size:
        return ""
    if what == "visit":
        names = [str(name) for name in answer.get("numbers", ())]
        return f"tells {', '.join(names)}" if len(names) <= FEW else f"tells {len(names)} numbers"
    if what == "give":
        return f"sends {len(message['rows'])} model(s), {size:,} bytes"
    return f"sends {size:,} bytes ({shown(what)[1:-1]})"
