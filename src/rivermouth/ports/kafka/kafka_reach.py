"""Why no broker answered: name, port and protocol looked at with plain sockets, after a request has failed."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from rivermouth.domain.kafka.broker_addresses import wrong_addresses

Kind = Literal["unknown_name", "nothing_listens", "no_connection", "no_kafka", "tls", "silent", "answers", "no_address"]

DEFAULT_PORT: Final = 9092
_MOST_SERVERS: Final = 3
_LOG: Final = "see the log of the broker"
_LOCAL: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_CORRELATION: Final = 0x7269_7665
# ApiVersions, version 0, without a client id: every broker since 0.10 answers it, before any login.
_HELLO: Final = struct.pack(">hhih", 18, 0, _CORRELATION, -1)
_ANSWER: Final = 8
_MOST_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Reach:
    """What was found at one address.

    Attributes:
        server: The address, ``host:port``.
        kind: What is wrong there; ``answers`` where a broker does.
        detail: The same in words.
        hint: What to do about it.
    """

    server: str
    kind: Kind
    detail: str
    hint: str


def why(found: Sequence[Reach]) -> tuple[str, str]:
    """What is wrong at these addresses, in words, and what to do about the first of them."""
    wrong = [each for each in found if each.kind != "answers"] or list(found)
    if not wrong:
        return "no address is given", _CORRECT
    if len(found) == 1:
        return wrong[0].detail, wrong[0].hint
    return ", ".join(f"{each.server}: {each.detail}" for each in wrong), wrong[0].hint


def look(bootstrap_servers: str, *, timeout_s: float = 1.0) -> list[Reach]:
    """What is found at the first few of these addresses; takes at most about ``timeout_s``, in seconds.

    No login is tried, and nothing is sent but a question for the versions that the broker speaks.
    """
    servers = [each.strip() for each in bootstrap_servers.split(",") if each.strip()][:_MOST_SERVERS]
    found: dict[str, Reach] = {}

    def one(server: str) -> None:
        for each in _findings(server, timeout_s):
            found[server] = each

    # Looking up a name cannot be given a bound; nobody waits for a thread that takes longer.
    threads = [threading.Thread(target=one, args=(server,), daemon=True) for server in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout_s + 0.2)
    return [found.get(server) or _reach(server, "no_connection", "") for server in servers]


def look_at(server: str, *, timeout_s: float) -> Reach:
    """What is found at one address; each step takes at most a third of ``timeout_s``."""
    *_, last = _findings(server, timeout_s)
    return last


def _findings(server: str, timeout_s: float) -> Iterator[Reach]:
    """What is known after each step: the last one is right, an earlier one may be less exact."""
    if wrong := wrong_addresses(server):
        yield Reach(server, "no_address", wrong[0], f"bootstrap_servers: {wrong[1]}")
        return
    host, port = _parts(server)
    step_s = timeout_s / 3
    try:
        socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        yield _reach(server, "unknown_name", "")
        return
    try:
        with socket.create_connection((host, port), timeout=step_s) as connection:
            kind = _spoken(connection)
    except ConnectionRefusedError:
        yield _reach(server, "nothing_listens", "")
    except OSError as error:
        yield _reach(server, "no_connection", "" if isinstance(error, TimeoutError) else error.strerror or "")
    else:
        yield _reach(server, kind, "")
        if kind != "answers" and _speaks_tls(host, port, step_s):
            yield _reach(server, "tls", "")


def _parts(server: str) -> tuple[str, int]:
    host, _, port = server.rpartition("://")[2].rpartition(":")
    return (host or port).strip("[]"), int(port) if port.isdecimal() and host else DEFAULT_PORT


def _spoken(connection: socket.socket) -> Kind:
    """Whether it speaks Kafka's protocol."""
    try:
        connection.sendall(struct.pack(">i", len(_HELLO)) + _HELLO)
        answer = b""
        while len(answer) < _ANSWER and (more := connection.recv(_ANSWER - len(answer))):
            answer += more
    except TimeoutError:
        return "silent"
    except OSError:
        return "no_kafka"
    if len(answer) < _ANSWER:
        return "no_kafka"
    size, correlation = struct.unpack(">ii", answer)
    return "answers" if correlation == _CORRELATION and 0 < size < _MOST_BYTES else "no_kafka"


def _speaks_tls(host: str, port: int, timeout_s: float) -> bool:
    """Whether it answers the first message of TLS, if only with a refusal; no certificate is checked."""
    # Not the default context: it would load all certificates of the system, which takes a part of the time.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, port), timeout=timeout_s) as connection,
            context.wrap_socket(connection, server_hostname=host),
        ):
            return True
    except ssl.SSLError as error:
        # Refused by an alert of TLS itself, as where a certificate of the client is wanted.
        return "ALERT" in (error.reason or "")
    except (OSError, ValueError):
        return False


def _reach(server: str, kind: Kind, system: str) -> Reach:
    host, port = _parts(server)
    detail, hint = _WORDS[kind](host, port)
    return Reach(server, kind, f"{detail}: {system}" if system else detail, hint)


def _start(host: str, port: int) -> str:
    if host in _LOCAL:
        return "rivermouth dev kafka" + ("" if port == DEFAULT_PORT else f" --port {port}")
    return f"start the broker at {host}, or correct the port in kafka: {{bootstrap_servers: ...}}"


_CORRECT: Final = "correct kafka: {bootstrap_servers: ...}"
_WORDS: Final[dict[Kind, Callable[[str, int], tuple[str, str]]]] = {
    "unknown_name": lambda host, _port: (
        f"the host name {host} is not known to DNS",
        f"{_CORRECT}; what DNS says of the name: getent hosts {host}",
    ),
    "nothing_listens": lambda host, port: ("nothing listens there", _start(host, port)),
    "no_connection": lambda host, port: (
        "no connection could be opened (a firewall, a VPN, or a wrong address)",
        f"{_CORRECT}; to try the connection: nc -vz -w 5 {host} {port}",
    ),
    "no_kafka": lambda _host, _port: ("what listens there is no Kafka broker", f"{_CORRECT}: another port"),
    "tls": lambda _host, _port: ("it speaks TLS, and did not answer this request", _LOG),
    "silent": lambda _host, _port: ("it accepts connections and does not answer", _LOG),
    "answers": lambda _host, _port: (
        "it answers, but not this request",
        "see whether the addresses in the brokers' advertised.listeners can be reached from here",
    ),
}
