"""Pages with parts of reports: a study in full, several side by side, advice, checks, the data of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from markupsafe import Markup

from coterie.features.advice.question import ANSWERS, read_advice
from coterie.features.advice.report import answers_part, gains_part, gifts_part, partners_part
from coterie.features.quality.shown import report_blocks as quality_blocks
from coterie.features.similarity.shown import blocks_of as similarity_blocks
from coterie.page.client import missing
from coterie.page.library import Entry, Library
from coterie.page.render import Frame, render_page
from coterie.page.studies import Study, quality_of
from coterie.page.view import similarity_of_study
from coterie.report import page as report
from coterie.report.holdings import holdings_part
from coterie.show import views
from coterie.show.html import blocks_to_html, glossary_of
from coterie.show.parts import Runs as Section

_SIDES = 12  # studies side by side


def side_by_side_page(library: Library, entries: Sequence[Entry], frame: Frame) -> str:
    """Runs on the same clients in one section, others below each other."""
    sections: dict[tuple[str, ...], list[tuple[Entry, Study]]] = {}
    for entry in entries[:_SIDES]:
        study = library.study(entry)
        if study.records:
            key = (views.task(study.first), *study.first.clients, str(study.first.about.get("rows", "")))
            sections.setdefault(key if key[-1] else (*key, entry.id), []).append((entry, study))
    made = []
    for some in sections.values():
        records = []
        for entry, study in some:
            for record in study.records:
                label = f"{record.label} ({entry.name})" if len(some) > 1 else record.label
                records.append(replace(record, label=label))
        made.append(Section(" · ".join(entry.name for entry, _ in some), records))
    return report_page(made, frame)


def report_page(sections: Sequence[Section], frame: Frame) -> str:
    """The parts of a report."""
    if not sections:
        return render_page("report.html", frame, body=frame.say("run_list.no_round"))
    head, main = report.report_blocks(sections)
    outcomes, body = blocks_to_html(head), blocks_to_html(main)
    return render_page("report.html", frame, outcomes=outcomes, body=body + glossary_of(outcomes + body))


def advice_or_check_page(entry: Entry, frame: Frame) -> str:
    """Advice as the folder's own page has it, or what a check found."""
    if entry.kind == "check":
        table = quality_of(entry.path)
        body = blocks_to_html(quality_blocks(table)) if table is not None else frame.say("shell.trouble")
    elif (entry.path / ANSWERS).exists():
        advice = read_advice(entry.path)
        parts = (answers_part, gains_part, partners_part, gifts_part)
        body = blocks_to_html([block for part in parts for block in part(advice)])
    else:
        body = frame.say("live.before")
    return render_page("report.html", frame, body=body)


def study_data_page(library: Library, entry: Entry, frame: Frame) -> str:
    """What is known of the data behind a study: what a check found, how alike clients are, who has how much.
    `client.py` has the same for one of them.
    """
    say, study = frame.say, library.study(entry)
    found, same = similarity_of_study(study, library.kin(entry, study.first.clients), study.first)
    parts = {
        "quality": blocks_to_html(missing(say, "data.no_quality", "check")),
        "similarity": blocks_to_html(missing(say, "data.no_similarity", "similar")),
        "sizes": blocks_to_html(holdings_part(Section("", study.records or [study.first], key="data"))),
    }
    if (quality := library.quality(entry)) is not None:
        parts["quality"] = blocks_to_html(quality_blocks(quality))
    if found is not None:
        parts["similarity"] = blocks_to_html(similarity_blocks(found, "alike"))
    glossary = glossary_of(Markup("").join(parts.values()))
    warning = "" if same or found is None else say("alike.other_rows")
    return render_page("study_data.html", frame, parts=parts, warning=warning, glossary=glossary)
