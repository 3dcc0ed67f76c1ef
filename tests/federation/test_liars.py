"""Sites that answer wrongly, each a process with a kit of its own: it is left out and named, others go on.

Run as a script it is such a site: test_liars.py LIE ROUND KIT ...
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch

from coterie.federation import session, station

LIAR = "d"


class Liar(session.Session):
    """Tells the truth until some round; `lies` have the names of what it does then."""

    lie, since, now = "", 0, 0
    last = ({}, {})

    @property
    def lying(self):
        return self.now >= self.since

    def do_visit(self, message, tensors):
        self.now = max(self.now, message["key"]["round"])
        answer, numbers = found = super().do_visit(message, tensors)
        before, Liar.last = Liar.last, found
        if not self.lying:
            return found
        if self.lie == "reply of other shapes":
            return {**answer, "like": {n: [kind, [*shape, 2]] for n, (kind, shape) in answer["like"].items()}}, numbers
        if self.lie == "loss is NaN":
            return answer, {n: t * float("nan") if n == "loss" else t for n, t in numbers.items()}
        if self.lie == "too many numbers":
            return answer, {n: torch.cat([t, t]) for n, t in numbers.items()}
        if self.lie == "answer to another question":
            return before
        if self.lie == "no answer at all":
            return {}, {}
        return found

    def do_give(self, message, tensors):
        answer, given = super().do_give(message, tensors)
        return answer, self.spoilt(given)

    def do_letter(self, message, tensors):
        answer, given = super().do_letter(message, tensors)
        return answer, self.spoilt(given)

    def spoilt(self, given):
        if self.lying and self.lie == "models are NaN":
            return {n: torch.full_like(t, float("nan")) for n, t in given.items()}
        if self.lying and self.lie == "models of other shapes":
            return {n: torch.cat([t, t]) for n, t in given.items()}
        if self.lying and self.lie == "models of other names":
            return {f"{n}x": t for n, t in given.items()}
        return given

    def do_letters(self, message, *more):
        if self.lying and self.lie == "letters are not sent":
            return {"sent": [100] * len(message["orders"])}, {}
        return super().do_letters(message, *more)

    def take_letter(self, sender, data):
        if self.lying and self.lie == "dies of a letter":
            os._exit(9)
        if self.lying and self.lie == "takes no letters":
            raise session.Refused("no letters today")
        super().take_letter(sender, data)


if __name__ == "__main__":
    from coterie.cli.site import site

    Liar.lie, Liar.since = sys.argv[1], int(sys.argv[2])
    station.Session = Liar
    sys.exit(site(sys.argv[3:]))
