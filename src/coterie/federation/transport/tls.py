"""TLS for a federation: both sides show a certificate of its authority, and nothing older than TLS 1.3.

Whatever keeps a party from reaching the relay becomes one line that names the cause and the remedy.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import time
from datetime import UTC, datetime

from coterie.core.errors import BadInput, CoterieError, Refused
from coterie.federation.kits.certificates import Card, card_of
from coterie.federation.kits.kit import Kit

SHAKE = 10.0  # seconds for a connection, and for its handshake
LINGER = 1.0  # seconds for a stranger to hear why it is turned away
WHEN = "%Y-%m-%d %H:%M"
KEEPALIVE = (
    ("TCP_KEEPIDLE", 10),
    ("TCP_KEEPINTVL", 5),
    ("TCP_KEEPCNT", 3),
    ("TCP_USER_TIMEOUT", 20_000),
    ("TCP_NOTSENT_LOWAT", 128 << 10),  # so that a slow line is seen to move
)


class Unreachable(CoterieError):
    """No line to the relay now; its message says why."""


def server_context(kit: Kit) -> ssl.SSLContext:
    context = _context(kit, ssl.PROTOCOL_TLS_SERVER)
    context.num_tickets = 0  # every connection shows its certificate: none goes on with an older one
    return context


def client_context(kit: Kit) -> ssl.SSLContext:
    return _context(kit, ssl.PROTOCOL_TLS_CLIENT)


def _context(kit: Kit, side: int) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # who answers is known by role and federation, not by host name: addresses of relays change
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=kit.ca_pem.decode("ascii"))
    context.load_cert_chain(kit.certificate_path, kit.key_path)
    return context


# of alerts, those that are about a certificate and not about bytes that were changed on the way
DOUBTS = ("CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED", "HANDSHAKE_FAILURE")


def tend(sock: socket.socket) -> None:
    """Small messages go at once, and a cut line is noticed within about 20 s; as far as the system can."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE:
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def ready(sock: socket.socket, read: bool, seconds: float | None) -> bool:
    """Waits until a socket can be read, or written; False if it takes longer."""
    number = sock.fileno()
    if number < 0:
        raise OSError("the connection is closed")
    if not hasattr(select, "poll"):  # Windows
        found = select.select([number] if read else [], [] if read else [number], [], seconds)
        return any(found)
    poll = select.poll()
    poll.register(number, select.POLLIN if read else select.POLLOUT)
    return bool(poll.poll(None if seconds is None else max(0.0, seconds) * 1000))


def shake(sock: ssl.SSLSocket) -> None:
    """The handshake, within a time that holds for all of it and not for each byte."""
    end = time.monotonic() + SHAKE
    sock.setblocking(False)
    while True:
        try:
            sock.do_handshake()
            return
        except ssl.SSLWantReadError:
            read = True
        except ssl.SSLWantWriteError:
            read = False
        if not ready(sock, read, end - time.monotonic()):
            raise TimeoutError(f"no handshake within {SHAKE:g} s")


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(128)
        sock.settimeout(1.0)
        return sock
    except (OSError, OverflowError, UnicodeError) as error:
        raise BadInput(
            f"cannot listen on {host}:{port}: {getattr(error, 'strerror', None) or error}: "
            "give another with --port, or end what listens there"
        ) from None


def let_go(sock: socket.socket) -> None:
    """Hangs up so that what was said last arrives: not while something unread would make it a reset."""
    with contextlib.suppress(OSError):
        socket.socket.shutdown(sock, socket.SHUT_WR)
        end = time.monotonic() + LINGER
        while (left := end - time.monotonic()) > 0 and ready(sock, True, left):
            if not socket.socket.recv(sock, 4096):
                break
    sock.close()


def peer_card(sock: ssl.SSLSocket, ca_pem: bytes) -> Card:
    found = sock.getpeercert(binary_form=True)
    if not found:
        raise Refused("it shows no certificate: connect with a kit of this federation")
    return card_of(ssl.DER_cert_to_PEM_cert(found).encode(), ca_pem)


def _reach(kit: Kit) -> socket.socket:
    """A plain connection to where the relay should be; else Unreachable."""
    place = f"{kit.host}:{kit.port}"
    try:
        found = socket.getaddrinfo(kit.host, kit.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Unreachable(
            f"the name {kit.host} cannot be found ({_words(error)}): "
            "check host in kit.toml, and that this network knows the name"
        ) from None
    problem: OSError = OSError("no address")
    for family, kind, protocol, _, address in found:
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(SHAKE)
            sock.connect(address)
            tend(sock)
            return sock
        except OSError as error:
            sock.close()
            problem = error
    why = f"{place} cannot be reached ({_words(problem)}): check the network"
    if isinstance(problem, ConnectionRefusedError):
        why = f"nothing listens at {place}: is `coterie relay` running there, and is the port right?"
    if isinstance(problem, TimeoutError):
        remedy = "ask whether a firewall stops outgoing connections to this port"
        why = f"no answer from {place} within {SHAKE:g} s: {remedy}"
    raise Unreachable(why)


def dial(kit: Kit, context: ssl.SSLContext) -> tuple[ssl.SSLSocket, Card]:
    """A connection to the relay of this federation, and its card; else Unreachable."""
    place, sock = f"{kit.host}:{kit.port}", _reach(kit)
    try:
        wrapped = context.wrap_socket(sock, do_handshake_on_connect=False)
    except BaseException:
        sock.close()
        raise
    try:
        shake(wrapped)
        card = peer_card(wrapped, kit.ca_pem)
        if card.role != "coordinator":
            raise Refused(f"{card.name} answers there, a {card.role} and not the relay: check host and port")
        return wrapped, card
    except (Refused, OSError) as error:
        wrapped.close()
        if isinstance(error, ssl.SSLCertVerificationError):
            why = _doubt(kit) or _words(error)
        elif isinstance(error, Refused):
            why = str(error)
        elif not (why := rejection(kit, error)):
            words = _words(error)
            if isinstance(error, TimeoutError):
                why = f"{error}: is it the relay that listens there?"
            elif isinstance(error, ssl.SSLError):
                why = f"what answers there speaks no TLS as a relay does ({words}): check host and port"
            else:
                hung = f"it hangs up during the handshake ({words})"
                why = f"{hung}: check host and port, or try again later"
        raise Unreachable(f"{place}: {why}") from None


def rejection(kit: Kit, error: BaseException | None) -> str:
    """What the relay's alert says of our certificate, with what is known here; "" if nothing."""
    reason = str(getattr(error, "reason", None) or "")
    if "ALERT" not in reason or not any(word in reason for word in DOUBTS):
        return ""
    said = reason.partition("ALERT_")[2].lower().replace("_", " ")
    try:
        card = kit.card
    except Refused as problem:
        return str(problem)
    return (
        f"the relay does not take the certificate of {kit.name} ({said}): it is valid from "
        f"{card.not_before:{WHEN}} to {card.not_after:{WHEN}} UTC, this machine's clock says "
        f"{datetime.now(UTC):{WHEN}} UTC: set the clock, or ask for a new kit"
    )


def _doubt(kit: Kit) -> str:
    """Why the relay's certificate does not hold; the connection is used for nothing else."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with (
        contextlib.suppress(OSError, Unreachable),
        _reach(kit) as sock,
        context.wrap_socket(sock, do_handshake_on_connect=False) as wrapped,
    ):
        shake(wrapped)
        try:
            peer_card(wrapped, kit.ca_pem)
        except Refused as error:
            return str(error)
    return ""


def why_turned_away(error: BaseException) -> str:
    """Why somebody was turned away before we know who it is."""
    if isinstance(error, Refused | TimeoutError):
        return str(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate does not hold ({error.verify_message})"
    if isinstance(error, ssl.SSLError):
        return f"no TLS as parties speak it ({(error.reason or 'unknown').lower().replace('_', ' ')})"
    return "it hung up during the handshake"


def _words(error: BaseException) -> str:
    text = getattr(error, "verify_message", None) or getattr(error, "strerror", None) or str(error)
    return " ".join(str(text).split())[:120] or type(error).__name__
