"""What each client was advised to follow, where a method tried others first."""

from __future__ import annotations

from collections import Counter
from html import escape

from coterie.methods.advised import ALONE
from coterie.report import page_tables, views
from coterie.report.answer_words import called
from coterie.report.answers import how


def part(by_label: views.Groups) -> str:
    """A table of choices, client by client; nothing where no run chose."""
    shown = []
    for label, runs in by_label.items():
        known = [choice for r in runs if (choice := views.followed(r))]
        if not known:
            continue
        rows = []
        for i, client in enumerate(runs[0].clients):
            found = Counter(choice[i] for choice in known)
            told = [f"{called(spec)} ({n} of {len(known)} seeds)" for spec, n in found.most_common()]
            alone = found[ALONE] == len(known)
            rows.append([escape(client), escape(", ".join(told)), "stays alone" if alone else "with others"])
        ways = {spec for choice in known for spec in choice}
        listed = "".join(
            f"<li>{escape(called(spec))}: {escape(how(spec))}</li>" for spec in sorted(ways) if how(spec)
        )
        table = page_tables.table(["client", escape(f"{label} follows"), ""], rows)
        shown.append(f"{table}<ul>{listed}</ul>")
    said = (
        "Chosen by trials on held-out parts of each client's training rows, before the run: alone, unless "
        "another way was better by more than the best of so many may be by chance. "
        "<code>coterie advise</code> says more."
    )
    return "".join(shown) + f"<p>{said}</p>" if shown else ""
