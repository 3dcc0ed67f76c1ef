"""The parties of a federation on loopback, for `federation.py`: each a process that runs the real command.

Driver and sites note when they do what, by a clock that all processes of a machine share, so that what a site
does can be laid over what the driver waits for.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from coterie.features.ledger import hook as ledgered

LONG = 600.0  # seconds that nothing here takes if all is well
COLUMNS = 13
Span = tuple[float, float]


# one party, which notes when it does what


def watched(out: str, words: Sequence[str]) -> int:
    """A command, and in a file which parts of it took from when to when."""
    spans: dict[str, list[Span]] = {}
    for owner, name, label in _parts(words[0]):
        setattr(owner, name, _timed(getattr(owner, name), spans.setdefault(label, [])))
    from coterie.cli.main import main

    try:
        return main(list(words))
    finally:
        Path(out).write_text(json.dumps({"spans": spans, "peak": peak(os.getpid())}))


def _parts(command: str) -> list[tuple[Any, str, str]]:
    from coterie.federation.lead import orders
    from coterie.federation.site import server as station
    from coterie.federation.transport import compression as parcels
    from coterie.federation.transport import inbox, post
    from coterie.nets import courier, in_process, remote, site
    from coterie.runs import loop as runner

    sealing = [(m, name, "seal") for m in (post, inbox) for name in ("encrypt", "decrypt")]
    packing = [(m, name, "pack") for m in (courier, parcels) for name in ("pack", "unpack")]
    if command == "site":
        own = [(station.SiteServer, "answer", "answer"), (in_process.InProcess, "work", "work")]
        return [*sealing, *packing, *own, (site.Site, "do_store", "store")]
    verbs = [(remote.Remote, "visit", "visit"), (orders.Orders, "carry", "carry")]
    rounds = [(runner, "one_round", "round"), (ledgered.HOOK, "written", "ledger")]
    return [*sealing, *packing, *verbs, *rounds, (post.Post, "ask", "ask")]


def _timed(work: Callable[..., Any], spans: list[Span]) -> Callable[..., Any]:
    @functools.wraps(work)
    def timed(*args: Any, **options: Any) -> Any:
        begin = time.monotonic()
        try:
            return work(*args, **options)
        finally:
            spans.append((begin, time.monotonic()))

    return timed


def peak(pid: int) -> float:
    """The largest resident size of a process so far, in megabytes."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1000 if found else float("nan")


# all of them


class Party:
    """A command that goes on, and says lines."""

    def __init__(self, folder: Path, words: Sequence[str], watch: str = "") -> None:
        self.out = folder / f"{watch}.json" if watch else None
        self.lines: list[str] = []
        self.more, self.over = threading.Condition(), False
        state = {**os.environ, "COTERIE_STATE": str(folder / "states")}  # this federation's alone
        self.process = subprocess.Popen(
            command(words, self.out),
            cwd=folder,
            env=state,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self.more:
                self.lines.append(line)
                self.more.notify_all()
        with self.more:
            self.over = True
            self.more.notify_all()

    def wait_for(self, text: str) -> None:
        with self.more:
            self.more.wait_for(lambda: self.over or any(text in line for line in self.lines), LONG)
        if not any(text in line for line in self.lines):
            raise SystemExit(f"nobody said {text!r}: " + "".join(self.lines[-5:]))

    def end(self) -> dict[str, Any]:
        self.process.terminate()
        self.process.wait(LONG)
        return json.loads(self.out.read_text()) if self.out else {}


def command(words: Sequence[str], out: Path | None = None) -> list[str]:
    start = [str(Path(__file__).resolve()), "watched", str(out)] if out else ["-m", "coterie.cli.main"]
    return [sys.executable, *start, *words]


def run(folder: Path, *words: str, watch: bool = False) -> dict[str, Any]:
    """A command to its end, and what it noted."""
    out = folder / "driver.json" if watch else None
    done = subprocess.run(
        command(words, out), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        raise SystemExit(f"coterie {' '.join(words)} ended with {done.returncode}: {done.stdout[-2000:]}")
    return json.loads(out.read_text()) if out else {}


def write_tables(folder: Path, sites: int, rows: int | None = None) -> list[str]:
    """Hospital-like tables of 200 to 300 rows, or of so many, and a recipe for all."""
    import torch

    names = [f"h{i}" for i in range(sites)]
    for i, name in enumerate(names):
        made = torch.Generator().manual_seed(i)
        size = rows or int(torch.randint(200, 301, (), generator=made))
        x = torch.randn(size, COLUMNS, generator=made) + 0.1 * i
        ill = (x[:, :4].sum(1) + torch.randn(size, generator=made) > 0).int().tolist()
        lines = [
            ",".join([*(f"{v:.3f}" for v in row), str(y)]) for row, y in zip(x.tolist(), ill, strict=True)
        ]
        header = ",".join([*(f"c{j}" for j in range(COLUMNS)), "ill"])
        (folder / f"{name}.csv").write_text("\n".join([header, *lines, ""]))
    run(folder, "table", "inspect", *(f"{n}.csv" for n in names), "--target", "ill", "--out", "r.toml")
    return names


def found(folder: Path, names: Sequence[str]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    run(folder, "federation", "init", "ward", "--sites", *names, "--port", str(port))


@contextlib.contextmanager
def parties(folder: Path, names: Sequence[str], *more: str) -> Iterator[list[Party]]:
    """The coordinator and the sites, once all are connected."""
    all = [Party(folder, ["relay", "ward/coordinator"])]
    try:
        for name in names:
            words = ["site", f"ward/sites/{name}", "--recipe", "r.toml", *more]
            all.append(Party(folder, words, watch=name))
        for party in all[1:]:
            party.wait_for("waiting to be asked")
        yield all
    finally:
        for party in all:
            party.end()


def federated(names: Sequence[str]) -> list[str]:
    return ["--net", "federation", "--federation.kit", "ward/people/lead", "--federation.sites", *names]


def train(folder: Path, how: Sequence[str], rounds: int) -> dict[str, Any]:
    out = tempfile.mkdtemp(dir=folder)
    return run(folder, "run", *how, "--rounds", str(rounds), "--out", f"{out}/run", watch=True)


# plain TLS, to compare with


def there_and_back(folder: Path, size: int, times: int = 3) -> list[float]:
    """Seconds that so many bytes take to another process and back, over TLS."""
    kit = folder / "ward" / "coordinator"
    words = [sys.executable, __file__, "echo", str(kit / "coordinator.crt"), str(kit / "coordinator.key")]
    with subprocess.Popen([*words, str(size), str(times)], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        port = int(other.stdout.readline())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        data, room, seconds = os.urandom(size), memoryview(bytearray(size)), []
        with context.wrap_socket(socket.create_connection(("127.0.0.1", port))) as line:
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for _ in range(times):
                begin = time.monotonic()
                line.sendall(data)
                fill(line, room)
                seconds.append(time.monotonic() - begin)
    return seconds


def echo(certificate: str, key: str, size: int, times: int) -> int:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with socket.create_server(("127.0.0.1", 0)) as door:
        print(door.getsockname()[1], flush=True)
        with context.wrap_socket(door.accept()[0], server_side=True) as line:
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for _ in range(times):
                room = memoryview(bytearray(size))
                fill(line, room)
                line.sendall(room)
    return 0


def fill(line: ssl.SSLSocket, room: memoryview) -> None:
    while room:
        room = room[line.recv_into(room) :]


if __name__ == "__main__":
    if sys.argv[1] == "watched":
        code = watched(sys.argv[2], sys.argv[3:])
        sys.stdout.flush()
        os._exit(code)  # as the command itself does: torch takes long to leave
    sys.exit(echo(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])))
