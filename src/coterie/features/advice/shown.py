"""What each client was advised to follow, where a method tried others first: a part of the report."""

from __future__ import annotations

from collections import Counter

from coterie.features.advice.sentences import called, how
from coterie.methods.advised import ALONE
from coterie.show import views
from coterie.show.blocks import Block, Points, Sentence, Table
from coterie.show.parts import Part, Runs
from coterie.show.words import said


def _followed_part(runs: Runs) -> list[Block]:
    """A table of choices, client by client; nothing where no run chose."""
    made: list[Block] = []
    for label, some in runs.by_label.items():
        known = [choice for r in some if (choice := views.followed(r))]
        if not known:
            continue
        rows = []
        for i, client in enumerate(some[0].clients):
            found = Counter(choice[i] for choice in known)
            ways = [
                said("followed.seeds", way=called(spec), n=n, of=len(known))
                for spec, n in found.most_common()
            ]
            alone = said("followed.alone" if found[ALONE] == len(known) else "followed.with")
            rows.append([client, said("list.plain", names=ways), alone])
        header = [said("column.client"), said("followed.follows", method=label), ""]
        specs = sorted({spec for choice in known for spec in choice})
        lines = [said("report.of", who=called(spec), said=how(spec)) for spec in specs if how(spec)]
        made += [Table(header, rows, kind=""), Points(lines)]
    return [*made, Sentence(said("followed.said"))] if made else []


PARTS = (Part("followed", "followed.title", 60, _followed_part, of="advised"),)
