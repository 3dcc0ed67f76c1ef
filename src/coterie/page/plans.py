"""Plans of runs that came to a site: what each will ask, to be read and answered by its people."""

from __future__ import annotations

from html import escape

from coterie.core.errors import CoterieError
from coterie.federation.plan_notes import known_plans
from coterie.page.catalogue import Words
from coterie.page.library import Site
from coterie.page.render import note
from coterie.runs.deciding import place_of

SHOWN = 20  # plans, the last that came


def plans(site: Site, say: Words) -> str:
    """The last plans that came, each in words, with what was answered and buttons to answer."""
    try:
        mine, came = place_of(site.kit).of(site.name), known_plans(site.state)[:SHOWN]
    except CoterieError as error:
        return note(str(error))
    if not came:
        return f"<p>{escape(say('plan.none'))}</p>"
    rows = ""
    for plan in came:
        digest, words = str(plan["plan"]), [str(word) for word in plan.get("words", ())]
        state = "allowed" if digest in mine.taken else "vetoed" if digest in mine.refused else "open"
        head, asks = words[0] if words else digest, "".join(f"<li>{escape(w)}</li>" for w in words[1:])
        buttons = "".join(
            f'<button type="submit" name="allow" value="{value}">{escape(say(f"offer.{word}"))}</button>'
            for word, value in (("yes", "1"), ("no", "0"))
        )
        rows += (
            '<li><form method="post" action="/site/decide" class="row">'
            f'<input type="hidden" name="plan" value="{escape(digest)}">'
            f'<input type="hidden" name="site" value="{escape(site.name)}"><span>{escape(head)} '
            f"<strong>{escape(say(f'offer.{state}'))}</strong></span>{buttons}</form>"
            f"<details><summary>{escape(say('plan.asks'))}</summary><ul>{asks}</ul>"
            f"<p>{escape(say('plan.last', when=str(plan.get('last', ''))[:19]))} "
            f"{escape(str(plan.get('outcome', '')))}</p></details></li>"
        )
    return f'<p>{escape(say("plan.about"))}</p><ul class="offers" data-say>{rows}</ul>'
