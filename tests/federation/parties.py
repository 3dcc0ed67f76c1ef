"""Parties for tests: a federation with a relay in this process, or with none and messages handed over.

Run as a script it is a site of its own: parties.py KIT PORT [SECONDS of work].
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import threading
import time

import msgspec

from coterie.federation.kits.authority import found_federation
from coterie.federation.kits.kit import read_kit
from coterie.federation.transport.post import Post
from coterie.federation.transport.relay import Present, Relay
from coterie.federation.transport.tls import Unreachable


class Ward:
    """Sites a, b, c, the people lead, mate and anna (who may only look), and a relay."""

    def __init__(self, folder, relay=True):
        self.folder, self.lines = folder, []
        self.kits = {
            kit.name: kit
            for kit in found_federation(folder, ["a", "b", "c"], ["lead", "mate", "anna:viewer"])
        }
        self.stack = contextlib.ExitStack()
        self.relay = None
        if relay:
            self.open()

    def open(self, port=0):
        self.relay = Relay(self.kits["coordinator"], self.lines.append, "127.0.0.1", port)
        self.relay.start()
        self.port(self.relay.address[1])

    def port(self, port):
        self.kits = {name: dataclasses.replace(kit, port=port) for name, kit in self.kits.items()}

    def post(self, name, answer=None, start=True, say=None):
        post = Post(self.kits[name], answer, say or (lambda line: self.lines.append(f"{name}: {line}")))
        self.stack.callback(post.close)
        if start:
            post.start(10)
        return post

    def close(self):
        self.stack.close()
        if self.relay is not None:
            self.relay.close()


def until(true, seconds=10.0):
    """Waits for something that no event tells of."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.01)


class Switch:
    """In place of a relay: hands messages over at once. `tamper(header, body)` says what becomes of one."""

    def __init__(self, kits):
        self.kits, self.lines, self.seen = kits, {}, []
        self.tamper = lambda header, body: [(header, body)]

    def line(self, kit, receive, changed, about, assembly):
        return FakeLine(self, kit, receive, changed, about)

    def post(self, name, answer=None, say=lambda line: None):
        post = Post(self.kits[name], answer, say, self.line)
        post.start(1)
        return post

    def tell(self):
        members = [
            Present(line.kit.card, line.about["boot"], "1", "", line.since).note()
            for line in self.lines.values()
        ]
        for line in list(self.lines.values()):
            line.receive({"from": "", "kind": "members"}, msgspec.json.encode(members))

    def pass_on(self, header, body):
        """As a relay does, whoever it claims to be from."""
        line = self.lines.get(header["to"])
        if line is not None:
            line.receive(dict(header), bytes(body))


class FakeLine:
    arrivals = 0

    def __init__(self, switch, kit, receive, changed, about):
        self.switch, self.kit, self.receive, self.changed, self.about = switch, kit, receive, changed, about

    def start(self):
        FakeLine.arrivals += 1
        self.since = float(FakeLine.arrivals)
        self.switch.lines[self.kit.name] = self
        self.changed(True, "")
        self.switch.tell()

    def send(self, header, body=b""):
        if self.switch.lines.get(self.kit.name) is not self:
            raise Unreachable("cut")
        if header["to"]:
            header = {**header, "from": self.kit.name}
            self.switch.seen.append((header, bytes(body)))
            for one in self.switch.tamper(header, bytes(body)):
                self.switch.pass_on(*one)

    def close(self):
        if self.switch.lines.get(self.kit.name) is self:
            del self.switch.lines[self.kit.name]
            self.switch.tell()


def site(folder, port, seconds="0"):
    kit = dataclasses.replace(read_kit(folder), port=int(port))

    def answer(card, header, body):
        print("asked", flush=True)
        time.sleep(float(seconds))
        return body

    post = Post(kit, answer, lambda line: print(line, flush=True))
    post.start()
    print("here", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    site(*sys.argv[1:])
