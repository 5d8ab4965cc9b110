"""Ports of 127.0.0.1 for servers that start a moment later."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Final

HOST: Final = "127.0.0.1"

# Linux takes the ports of outgoing connections from this range, macOS and Windows from 49152 upwards. A port from
# there may belong to a connection before the server that it was chosen for listens on it.
_EPHEMERAL: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
# Below these ranges, and below Kubernetes' ports of nodes (30000 to 32767).
_PORTS: Final = range(20_000, 30_000)


def free_port() -> int:
    """A port of 127.0.0.1 on which nobody listens; see ``free_ports``."""
    return free_ports(1)[0]


def free_ports(number: int, *, besides: int = 0) -> list[int]:
    """Choose ``number`` different ports of 127.0.0.1 on which nobody listens; ``besides`` is none of them.

    Guarantees:
        No outgoing connection takes one of them later, unless this machine's settings leave no range of ports for
        servers: then the system chooses them.
    """
    candidates = [0] * (number + 1) if _is_ephemeral(_PORTS) else random.sample(_PORTS, len(_PORTS))
    found: list[int] = []
    with ExitStack() as held:
        for candidate in candidates:
            try:
                server = held.enter_context(socket.create_server((HOST, candidate)))
            except OSError:
                continue  # somebody listens there
            port = int(server.getsockname()[1])
            if port != besides:
                found.append(port)
            if len(found) == number:
                return found
    raise OSError(f"fewer than {number} ports of {HOST} are free")


def ports_behind(port: int, number: int) -> list[int]:
    """The next ports of 127.0.0.1; free ones where somebody listens on one of them."""
    wanted = list(range(port + 1, port + 1 + number))
    try:
        for each in wanted:
            socket.create_server((HOST, each)).close()
    except (OSError, OverflowError):
        return free_ports(number, besides=port)
    return wanted


def _is_ephemeral(ports: range) -> bool:
    """Whether the system gives one of these ports to outgoing connections."""
    try:
        low, high = map(int, _EPHEMERAL.read_text(encoding="ascii").split())
    except FileNotFoundError:
        return False
    return low < ports.stop and ports.start <= high
