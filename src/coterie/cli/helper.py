"""coterie helper"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from coterie.cli.command import Flags, command_with, word
from coterie.cli.site import say, stay
from coterie.core.errors import BadInput
from coterie.engines.threads import narrow
from coterie.federation.kits.certificates import Card
from coterie.federation.kits.kit import Kit, read_kit
from coterie.federation.site.state import in_use
from coterie.storage.locks import for_owner_alone

COMMANDS = {"helper": ("partners", 70, "help to seal replies in a federation, so that nobody sees one")}
HELP = """Helps to seal replies: one of two servers, or the dealer, as a run asks, until it is ended.

KIT is a helper's, made by coterie federation init DIR --helpers ada ben tom, or by coterie federation invite
DIR NAME --role helper. A sealed run takes three helpers (--wrap sealed). Each sees random numbers; two that
put theirs together see every reply: run them on hosts of their own, with owners of their own. A helper has
no rows and writes nothing down. One connection goes out, to the relay; nothing listens here.

example:
  coterie helper ward/helpers/ada
"""


@dataclass(frozen=True)
class _Asked:
    kit: str = word("The helper's kit.", "KIT")


@command_with(Flags(_Asked, "helper", HELP))
def helper(asked: _Asked) -> int:
    kit = read_kit(asked.kit)
    if kit.role != "helper":
        raise BadInput(f"{kit.folder} is the kit of {kit.name}, a {kit.role}: give that of a helper")
    try:
        from coterie.federation.sealing.helper import Helper  # noqa: F401
    except ModuleNotFoundError as error:
        raise BadInput(f"helpers need {error.name}: pip install 'coterie[network]'") from None
    with in_use(kit.folder, "helper"), for_owner_alone():
        _serve(kit)
    return 0


def _serve(kit: Kit) -> None:
    from coterie.federation.sealing.helper import Helper
    from coterie.federation.transport.post import Post

    def card_of(name: str) -> Card | None:
        if name == kit.name:
            return kit.card
        member = post.members().get(name)
        return None if member is None else member.card

    party = Helper(kit.name, lambda *message: post.send_to_peer(*message), card_of, say)

    def answer(*told: Any) -> bytes:
        with narrow():
            return party.answer(*told)

    post = Post(kit, answer, say)
    post.on_peer_message(party.take_peer_message)
    say(f"helper {kit.name} of {kit.federation}; connecting to {kit.host}:{kit.port}")
    stay(post)
