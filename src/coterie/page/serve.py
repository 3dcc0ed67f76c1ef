"""The page on a port: loopback unless told otherwise, and then with TLS and a party's own certificate."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from coterie.core.errors import BadInput
from coterie.page.library import Library
from coterie.storage.atomic import readable_errors
from coterie.storage.paths import state_folder

if TYPE_CHECKING:
    import uvicorn

    from coterie.federation.kits.kit import Kit

PORT, _TRIED = 8377, 20  # the usual port, and how many after it are tried
_BEHIND = 10  # by how much readers stand behind a run on the same machine
_LOCAL = ("127.0.0.1", "localhost", "[::1]")
_TOKEN = "page-token"


@dataclass(frozen=True)
class Where:
    """`name` is how people reach it, in the address that is printed; `port` 0 takes the first free one."""

    host: str = "127.0.0.1"
    port: int = 0
    name: str = ""
    kit: Kit | None = None

    @property
    def local(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def scheme(self) -> str:
        return "http" if self.local else "https"

    def check(self) -> None:
        if not 0 <= self.port <= 65535:
            raise BadInput(f"port={self.port} must lie in [0, 65535]: leave it out for a free one")
        if not self.local and self.kit is None:
            raise BadInput(
                f"host={self.host} is open to other machines, which needs TLS with a party's certificate: "
                "give --kit ward/sites/NAME, or leave --host out and use an SSH tunnel"
            )
        if not self.local and self.kit is not None and not self.kit.serves:
            raise BadInput(
                f"the certificate of {self.kit.name} was made by an earlier version and cannot serve a page: "
                f"ask for a new kit (coterie federation revoke, then invite), or leave --host out"
            )

    @property
    def hosts(self) -> list[str]:
        """The names under which it may be asked for."""
        mine = [n.lower() for n in (self.name, self.host) if n and n not in ("0.0.0.0", "::")]
        return [*_LOCAL, *mine, *([] if self.local else [self.kit.name.lower()] if self.kit else [])]


def token_of(folder: Path) -> str:
    """The same after a restart, so that a page that is open goes on; for its owner's eyes alone."""
    path = folder / _TOKEN
    with contextlib.suppress(OSError):
        found = path.read_text().strip()
        if len(found) >= 32 and path.stat().st_mode & 0o077 == 0:
            return found
    token = secrets.token_urlsafe(32)
    with readable_errors(path):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(token + "\n")
    return token


@contextlib.contextmanager
def listening(where: Where) -> Iterator[socket.socket]:
    """A socket that listens; the usual port, or the next free one if none was asked for."""
    family = socket.AF_INET6 if ":" in where.host else socket.AF_INET
    ports = [where.port] if where.port else [*range(PORT, PORT + _TRIED), 0]
    for port in ports:
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((where.host, port))
            sock.listen(128)  # from now on who comes waits, until the server is there
        except OSError as error:
            sock.close()
            if port == ports[-1]:
                raise BadInput(
                    f"cannot listen on {where.host}:{port}: {error.strerror}: choose another --port"
                ) from None
            continue
        with sock:
            yield sock
        return


def server(library: Library, where: Where, token: str, port: int) -> uvicorn.Server:
    import uvicorn

    from coterie.page.app import application

    app = application(library, token, where.hosts, f"coterie-{port}", secure=not where.local)
    tls = {}
    if not where.local:
        assert where.kit is not None
        tls = {"ssl_certfile": str(where.kit.certificate_path), "ssl_keyfile": str(where.kit.key_path)}
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=3,
        timeout_keep_alive=30,
        lifespan="off",
        **tls,  # type: ignore[arg-type]
    )
    made = uvicorn.Server(config)
    app.state.page.ends = lambda: made.should_exit  # open pages are let go, so that nobody waits for them
    return made


def serve(library: Library, where: Where) -> None:
    """Until it is ended; prints the address first."""
    where.check()
    token = token_of(state_folder())
    with contextlib.suppress(AttributeError, OSError):  # a system that knows no priorities
        os.nice(_BEHIND)
    with listening(where) as sock:
        port = sock.getsockname()[1]
        name = where.name or where.host
        name = f"[{name}]" if ":" in name else name
        print(f"page: {where.scheme}://{name}:{port}/?token={token}", flush=True)
        print("whoever has this address sees what is shown; end it with Ctrl-C", file=sys.stderr, flush=True)
        server(library, where, token, port).run(sockets=[sock])
