"""A proxy before an S3 server that counts requests, holds one back, or gives answers of its own."""

from __future__ import annotations

import threading
from collections import Counter

from tests.audit.proxy import Proxy

_BUSY = b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_DONE = b'HTTP/1.1 200 OK\r\nETag: "0"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n'


_DENIED_BODY = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
_DENIED = (
    b"HTTP/1.1 403 Forbidden\r\nContent-Type: application/xml\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(_DENIED_BODY), _DENIED_BODY)
)


class S3Proxy(Proxy):
    """Forwards to an S3 server; ``with`` closes it.

    Attributes:
        requests: Method and path of each request, in their order.
        busy: How many of the next requests are answered with 503.
        refused: How many were answered so.
        holds_back: A PUT whose path ends so is held until ``let_go``; empty for none.
        held: Set once such a PUT has come.
        denies: Every PUT is answered with 403.
        deaf: A PUT that may not overwrite seems to have done so.
    """

    def __init__(self, target: int) -> None:
        super().__init__(target)
        self.requests: list[tuple[str, str]] = []
        self.busy = 0
        self.refused = 0
        self.holds_back = ""
        self.held = threading.Event()
        self.denies = False
        self.deaf = False
        self._released = threading.Event()
        self._made: set[str] = set()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def counted(self) -> Counter[str]:
        """How many requests of each method."""
        return Counter(method for method, _ in self.requests)

    def let_go(self) -> None:
        """The PUT that is held goes on."""
        self.holds_back = ""
        self._released.set()

    def answer(self, request: bytes) -> bytes | None:
        words = request[:2000].split(b" ", 2)
        if len(words) < 3 or words[0] not in {b"GET", b"PUT", b"POST", b"HEAD", b"DELETE"}:
            return None  # the rest of a body
        method, path = words[0].decode(), words[1].decode()
        self.requests.append((method, path))
        if self.busy > 0:
            self.busy -= 1
            self.refused += 1
            return _BUSY
        if method == "PUT" and self.denies:
            return _DENIED
        if method == "PUT" and self.holds_back and path.partition("?")[0].endswith(self.holds_back):
            self.held.set()
            self._released.wait()
        if self.deaf and b"if-none-match" in request.lower():
            if path in self._made:
                return _DONE
            self._made.add(path)
        return None
