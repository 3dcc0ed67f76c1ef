"""What is known of the data behind a study, of all its clients, in the parts of reports: what a check found,
how alike they are, who has how much. `own_rows.py` has the same for one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from coterie.page.catalogue import Words
from coterie.page.library import Entry, Library
from coterie.page.reading import Study, quality_of
from coterie.page.render import Frame, document
from coterie.page.view import alike
from coterie.report import page as report
from coterie.report.page_figures import data_part
from coterie.report.quality import quality_part
from coterie.report.similarity import section as similarity_section


def page(library: Library, entry: Entry, study: Study, frame: Frame) -> str:
    say = frame.say
    found, same = alike(study, library.kin(entry, study.first.clients), study.first)
    other = "" if same else f'<p class="warning">{escape(say("why.other_rows"))}</p>'
    quality = quality_for(library, entry, study)
    parts = [
        ("quality", say("data.quality"), quality_part(quality) or missing(say, "data.no_quality", "check")),
        (
            "similarity",
            say("data.similarity"),
            other + similarity_section(found, "alike")
            if found is not None
            else missing(say, "data.no_similarity", "similar"),
        ),
        ("sizes", say("data.sizes"), data_part(study.first, study.records or [study.first], "data")),
    ]
    english = f'<p class="what">{escape(say("gallery.english"))}</p>' if say.language != "en" else ""
    inner = "".join(
        f'<section id="{key}"><h2>{escape(name)}</h2><div lang="en">{content}</div></section>'
        for key, name, content in parts
    )
    head = f'<div class="head"><h1>{escape(say("data.title", study=entry.name))}</h1>{english}</div>'
    return document(frame, f'{head}<div class="report">{inner}{report.glossary_part(inner)}</div>')


def missing(say: Words, key: str, command: str) -> str:
    return f"<p>{escape(say(key))}</p><pre tabindex='0'>coterie {escape(command)}</pre>"


def quality_for(library: Library, entry: Entry, study: Study) -> Mapping[str, Any] | None:
    """Of the study itself, else of a check of the same sites in the same place."""
    if (own := quality_of(entry.path)) is not None:
        return own
    sites = set(study.first.clients)
    for other in library.all():
        if other.kind == "check" and other.site == entry.site:
            table = quality_of(other.path)
            if table is not None and {site["site"] for site in table["sites"]} == sites:
                return table
    return None
