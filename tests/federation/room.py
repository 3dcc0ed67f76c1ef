"""A federation in this process: stations with kits, policies and folders of their own, helpers if asked for,
and a lead whose messages are handed over.

    room = Room(folder, {"b": Policy(share_at_most=0.3)})
    record = room.play(monkeypatch, folder / "run", method="fedavg")
"""

from __future__ import annotations

import json
from pathlib import Path

from ward import write_tables

from coterie.core.errors import BadRun, CoterieError
from coterie.core.wire import unpack
from coterie.data.sources.table import TableFile
from coterie.federation.data.site_data import SiteData
from coterie.federation.kits.authority import found_federation
from coterie.federation.lead import connector
from coterie.federation.lead.sites import Lines, meet
from coterie.federation.policy.keys import Policy
from coterie.federation.sealing.helper import Helper
from coterie.federation.site.server import SiteServer
from coterie.federation.transport.post import Missing
from coterie.runs.builder import prepare
from coterie.runs.folder import Folder, read_record
from coterie.runs.loop import run
from coterie.runs.settings import Settings

NAMES = ("a", "b", "c", "d")
HELPERS = ("ada", "ben", "tom")
BY_CLASS = ("sensitivity", "specificity", "net_benefit")
"""Figures that say how many rows are of a class, which sites keep unless their policy has label_counts."""


def told_scores(line):
    """A round's scores, without what sites keep."""
    kinds = (line["scores"] or {}).items()
    return {kind: {k: v for k, v in figures.items() if k not in BY_CLASS} for kind, figures in kinds}


class Room:
    """`change(name, message, answer)` may say something else in a site's place; `gone` do not answer;
    `wanted` are asked for by name.
    """

    def __init__(self, folder: Path, policies=None, names=NAMES, helpers=(), rows=60) -> None:
        self.names, self.policies = names, {name: (policies or {}).get(name, Policy()) for name in names}
        self.wanted = names
        self.kits = {kit.name: kit for kit in found_federation(folder / "kits", names, helpers=helpers)}
        self.recipe = write_tables(folder, names, rows=rows)
        self.states = {name: folder / "states" / name for name in names}
        self.seen, self.said, self.stations, self.gone = [], {name: [] for name in names}, {}, set()
        self.change = lambda name, message, answer: answer
        self.boots = dict.fromkeys(names, 1)
        for name in names:
            self.states[name].mkdir(parents=True)
            self.open(name)
        self.helpers = {name: Helper(name, self.letter(name), self.card_of) for name in helpers}
        self.lines = Lines.__new__(Lines)
        self.lines.kit, self.lines.post = self.kits["lead"], self

    def open(self, name):
        """A site's process, for the first time or anew."""
        if name in self.stations:
            self.stations[name].views.let_go()  # as its end would
        holding = SiteData.read(TableFile(recipe=str(self.recipe)), name)
        self.stations[name] = SiteServer(
            name,
            holding,
            self.policies[name],
            self.states[name],
            self.letter(name),
            lambda *told: "nowhere",
            self.said[name].append,
            self.card_of,
            self.kits[name],
        )

    def card_of(self, name):
        return self.kits[name].card if name in self.kits and name not in self.gone else None

    def letter(self, name):
        def send(to, header, body, *deadline):
            party = self.stations.get(to) or self.helpers[to]
            try:
                party.take_peer_message(self.kits[name].card, header, body)
            except CoterieError as error:  # as a post says it
                raise BadRun(f"a letter from {name} to {to} was not taken: {error}") from error

        return send

    def members(self):
        class Member:
            def __init__(self, card, boot):
                self.card, self.boot, self.where = card, boot, ""

        there = [n for n in (*self.names, *getattr(self, "helpers", ())) if n not in self.gone]
        return {name: Member(self.kits[name].card, str(self.boots.get(name, 1))) for name in there}

    def ask(self, messages, deadline, patience=1.0, numbers=None, waits=None):
        answers = {}
        for name, body in messages.items():
            message = unpack(body)[0]
            self.seen.append((name, message))
            if name in self.gone:
                answers[name] = Missing(name, "away", f"{name} is not connected")
                continue
            party = self.stations.get(name) or self.helpers[name]
            answer = party.answer(self.kits["lead"].card, {}, body)
            answers[name] = self.change(name, message, answer)
        return answers

    def asked(self, name, do):
        """Messages of a kind that a site was asked."""
        return [message for to, message in self.seen if to == name and message.get("do") == do]

    def diary(self, name):
        path = self.states[name] / "asked.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()]

    def play(self, monkeypatch, folder=None, watch=lambda record: None, rounds=3, **more):
        """A run of all who are there, in a folder or without; the folder's own where it has begun already."""
        monkeypatch.setattr(
            connector.Federation, "meet", lambda net, rule: meet(self.lines, rule, self.wanted, 1, 0.0, print)
        )
        more = {"method": "fedavg", "kernel": "sgd", **more}
        federation = {"kit": str(self.kits["lead"].folder), "wait": 0.0, "least": 1, "squeeze": "none"}
        options = {"federation": federation, **more.pop("options", {})}
        settings = Settings(net="federation", engine="loop", rounds=rounds, options=options, **more)
        made, opened = prepare(settings, None), None
        if folder is not None:
            new = not (folder / "config.toml").exists()
            opened = Folder.create(folder, made.config, made.about) if new else Folder(folder)
        try:
            found = run(made, opened, "run", watch).record
        finally:
            made.net.close()
            if opened is not None:
                opened.close()
        return found if folder is None else read_record(folder)
