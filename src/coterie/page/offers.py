"""Who would like a site in its circle, to be answered by its people."""

from __future__ import annotations

from html import escape

from coterie.core.errors import BadInput, CoterieError
from coterie.federation.consent import OFFERS
from coterie.page.catalogue import Words
from coterie.page.judgement import Form, one, so_far
from coterie.page.library import Library, Site
from coterie.page.render import note
from coterie.runs.deciding import decide, place_of
from coterie.storage.atomic import read_lines


def offers(site: Site, say: Words) -> str:
    """Who would like this site in its circle, to be answered; and what was answered before."""
    try:
        place = place_of(site.kit)
        mine, waiting = place.of(site.name), read_lines(site.state / OFFERS)
    except CoterieError as error:
        return note(str(error))
    rows = ""
    for offer in waiting:
        name = str(offer["requester"])
        state = "allowed" if name in mine.allowed else "vetoed" if name in mine.vetoed else "open"
        told = say(
            "offer.told",
            name=name,
            share=say.percent(float(offer["share"])),
            others=say.whole(int(offer["others"])),
        )
        buttons = "".join(
            f'<button type="submit" name="allow" value="{value}">{escape(say(f"offer.{word}"))}</button>'
            for word, value in (("yes", "1"), ("no", "0"))
        )
        rows += (
            '<li><form method="post" action="/site/decide" class="row">'
            f'<input type="hidden" name="requester" value="{escape(name)}">'
            f'<input type="hidden" name="site" value="{escape(site.name)}"><span>{escape(told)} '
            f"<strong>{escape(say(f'offer.{state}'))}</strong></span>{buttons}</form></li>"
        )
    about = f"<p>{escape(say('offer.about'))}</p>"
    inner = (
        f'{about}<ul class="offers" data-say>{rows}</ul>' if rows else f"<p>{escape(say('offer.none'))}</p>"
    )
    return inner + (so_far(place, site.name, say) if place.lines() else "")


def site_decides(library: Library, form: Form) -> None:
    """An answer to who would like the site in its circle, or to a run's plan."""
    site = next((s for s in library.sites if s.name == one(form, "site")), None)
    if site is None:
        raise BadInput(f"{one(form, 'site')!r} is no site that is shown here: reload the page")
    allow = one(form, "allow") == "1"
    if form.get("plan"):
        decide(site.kit, site.name, [("plan", {"plan": one(form, "plan"), "allow": allow})])
        return
    decide(site.kit, site.name, [("veto", {"requester": one(form, "requester"), "allow": allow})])
