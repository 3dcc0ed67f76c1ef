"""coterie relay"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from pathlib import Path

from coterie.cli.command import Flags, command_with, flag, word
from coterie.core.errors import BadInput, BadRun
from coterie.federation.kits.kit import read_kit
from coterie.federation.transport.relay import Relay
from coterie.storage.atomic import readable_errors
from coterie.storage.locks import for_owner_alone, locked

COMMANDS = {
    "relay": ("partners", 50, "run the relay of a federation, through which its sites reach each other"),
}
HELP = """Runs the relay of a federation: sites and people connect to it, and it passes on what they send.

It is the only process that listens. It cannot read what it passes on. Ctrl-C ends it; whoever was connected
comes back by itself when it runs again. What it says is also in relay.log in its kit.

examples:
  coterie relay ward/coordinator
  coterie relay ward/coordinator --listen 0.0.0.0 --port 8443
"""
PORT = "port"  # the file in the kit that names the port that --port 0 has found


@dataclass(frozen=True)
class _RelayFlags:
    kit: str = word("The relay's kit: DIR/coordinator, of coterie federation init.", "KIT")
    listen: str = flag("", "The address to listen on, in place of the kit's.")
    port: int | None = flag(None, "The port, in place of the kit's; 0 takes a free one.", "INT")


@command_with(Flags(_RelayFlags, "relay", HELP))
def relay(asked: _RelayFlags) -> int:
    if asked.port is not None and not 0 <= asked.port <= 65535:
        raise BadInput(f"--port {asked.port} must be from 0 to 65535: try 8443")
    kit = read_kit(asked.kit)
    try:
        lock = locked(kit.folder)
    except BadRun as error:
        if "in use" not in str(error):
            raise
        raise BadRun(f"{kit.folder} is in use: another coterie relay runs with it: end that first") from None
    with lock, for_owner_alone():
        running = Relay(kit, _say, asked.listen, asked.port)
        host, port = running.address
        try:
            with contextlib.suppress(KeyboardInterrupt):
                if asked.port == 0:
                    with readable_errors(kit.folder / PORT):
                        (kit.folder / PORT).write_text(f"{port}\n")
                running.start()
                _say(f"listening on {host}:{port}")
                threading.Event().wait()
        finally:
            running.close()
            if asked.port == 0:
                (Path(kit.folder) / PORT).unlink(missing_ok=True)
    return 0


def _say(line: str) -> None:
    print(line, flush=True)
