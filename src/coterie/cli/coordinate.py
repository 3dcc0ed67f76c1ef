"""coterie coordinate"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from coterie.cli.command import Flags, command_with
from coterie.core.errors import BadInput, BadRun
from coterie.federation.party import read_kit
from coterie.federation.relay import Relay
from coterie.storage.atomic import readable_errors
from coterie.storage.locks import for_owner_alone, locked

HELP = """Runs the relay of a federation: sites and people connect to it, and it passes on what they send.

It is the only process that listens. It cannot read what it passes on. Ctrl-C ends it; whoever was connected
comes back by itself when it runs again. What it says is also in relay.log in its kit.

examples:
  coterie coordinate ward/coordinator
  coterie coordinate ward/coordinator --listen 0.0.0.0 --port 8443
"""
PORT = "port"  # the file in the kit that names the port that --port 0 has found


@dataclass(frozen=True)
class Coordinate:
    kit: Annotated[
        tyro.conf.Positional[str],
        tyro.conf.arg(metavar="KIT", help="The coordinator's kit, as coterie federation init has made it."),
    ]
    listen: Annotated[str, tyro.conf.arg(help="The address to listen on, in place of the kit's.")] = ""
    port: Annotated[
        int | None, tyro.conf.arg(metavar="INT", help="The port, in place of the kit's; 0 takes a free one.")
    ] = None


@command_with(Flags(Coordinate, "coordinate", HELP))
def coordinate(asked: Coordinate) -> int:
    if asked.port is not None and not 0 <= asked.port <= 65535:
        raise BadInput(f"--port {asked.port} must be from 0 to 65535: try 8443")
    kit = read_kit(asked.kit)
    try:
        lock = locked(kit.folder)
    except BadRun as error:
        if "in use" not in str(error):
            raise
        raise BadRun(
            f"{kit.folder} is in use: another coterie coordinate runs with it: end that first"
        ) from None
    with lock, for_owner_alone():
        relay = Relay(kit, _say, asked.listen, asked.port)
        host, port = relay.address
        try:
            with contextlib.suppress(KeyboardInterrupt):
                if asked.port == 0:
                    with readable_errors(kit.folder / PORT):
                        (kit.folder / PORT).write_text(f"{port}\n")
                relay.start()
                _say(f"listening on {host}:{port}")
                threading.Event().wait()
        finally:
            relay.close()
            if asked.port == 0:
                (Path(kit.folder) / PORT).unlink(missing_ok=True)
    return 0


def _say(line: str) -> None:
    print(line, flush=True)
