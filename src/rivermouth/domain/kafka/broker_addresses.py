"""Addresses of Kafka's brokers as they are written: host and port."""

from __future__ import annotations

import re
from typing import Final

_EXAMPLE: Final = "localhost:9092"
# As Kafka's own client reads an address; the scheme may name the protocol.
_BROKER: Final = re.compile(r"^\[?[0-9A-Za-z%._:-]*\]?:[0-9]{1,5}$")
_SCHEME: Final = re.compile(r"^([0-9A-Za-z%._-]+)://(.*)$")
_PROTOCOLS: Final = frozenset({"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"})


def wrong_addresses(bootstrap_servers: str) -> tuple[str, str] | None:
    """What is wrong with these addresses, and the addresses to write instead; None if they are well formed.

    What is no address may be anything, a password too: it is not shown.

    Args:
        bootstrap_servers: Addresses with commas between them; the scheme of each may name Kafka's protocol.
    """
    servers = [server.strip() for server in bootstrap_servers.split(",")]
    parts = [found.groups() if (found := _SCHEME.match(server)) else ("", server) for server in servers]
    bare = [address.rstrip("/") for _scheme, address in parts]
    foreign = next((scheme for scheme, _ in parts if scheme and scheme.upper() not in _PROTOCOLS), None)
    sound = all(_BROKER.match(address) for address in bare)
    instead = ",".join(bare) if sound else _EXAMPLE
    if foreign is not None:
        return f"a broker is written as host:port, without {foreign}://", instead
    if sound and not any(address.endswith("/") for _scheme, address in parts):
        return None
    return "each broker is written as host:port", instead
