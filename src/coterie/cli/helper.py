"""coterie helper"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import tyro

from coterie.cli.command import Flags, command_with
from coterie.cli.site import say, stay
from coterie.core.errors import BadInput
from coterie.engines.threads import narrow
from coterie.federation.certificates import Card
from coterie.federation.party import Kit, read_kit
from coterie.federation.site_state import in_use
from coterie.storage.locks import for_owner_alone

HELP = """Helps to seal replies: one of two servers, or the dealer, as a run asks, until it is ended.

KIT is a helper's, made by coterie federation init DIR --helpers ada ben tom, or by coterie federation invite
DIR NAME --role helper. A sealed run takes three helpers (--wrap sealed). Each sees random numbers; two that
put theirs together see every reply: run them on hosts of their own, with owners of their own. A helper has
no rows and writes nothing down. One connection goes out, to the coordinator; nothing listens here.

example:
  coterie helper ward/helpers/ada
"""


@dataclass(frozen=True)
class Asked:
    kit: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="KIT", help="The helper's kit.")]


@command_with(Flags(Asked, "helper", HELP))
def helper(asked: Asked) -> int:
    kit = read_kit(asked.kit)
    if kit.role != "helper":
        raise BadInput(f"{kit.folder} is the kit of {kit.name}, a {kit.role}: give that of a helper")
    try:
        from coterie.federation.helper import Helper  # noqa: F401
    except ModuleNotFoundError as error:
        raise BadInput(f"helpers need {error.name}: pip install 'coterie[network]'") from None
    with in_use(kit.folder, "helper"), for_owner_alone():
        serve(kit)
    return 0


def serve(kit: Kit) -> None:
    """Answers until the process is told to end."""
    from coterie.federation.helper import Helper
    from coterie.federation.post import Post

    def card_of(name: str) -> Card | None:
        if name == kit.name:
            return kit.card
        member = post.members().get(name)
        return None if member is None else member.card

    party = Helper(kit.name, lambda *letter: post.letter(*letter), card_of, say)

    def answer(*told: Any) -> bytes:
        with narrow():
            return party.answer(*told)

    post = Post(kit, answer, say)
    post.on_letter(party.take_letter)
    say(f"helper {kit.name} of {kit.federation}; connecting to {kit.host}:{kit.port}")
    stay(post)
