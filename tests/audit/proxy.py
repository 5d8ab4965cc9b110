"""A TCP proxy on loopback whose connections can be cut, refused, held and slowed down."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from typing import Self

HOST = "127.0.0.1"
_CHUNK_BYTES = 65536
# Closing sends a reset instead of an end.
_RESET = struct.pack("ii", 1, 0)


class Proxy:
    """Forwards ``port`` to ``target``; ``with`` closes it.

    Attributes:
        port: Where it listens.
        target: The port behind it.
        refuses: New connections are reset at once.
        holds: Nothing is forwarded; connections stay open.
        delay_s: Each piece waits so long.
        hits: How many connections were cut or turned away, and pieces held or delayed.
        turned_away: How many connections were refused, or found nobody behind.
    """

    def __init__(self, target: int) -> None:
        self.target = target
        self.refuses = False
        self.holds = False
        self.delay_s = 0.0
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self.hits = 0
        self.turned_away = 0
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    def cut(self) -> None:
        """Resets all connections."""
        with self._lock:
            cut, self._open = self._open, set()
            self.hits += len(cut)
        for each in cut:
            self._reset(each)

    def mend(self) -> None:
        """Forwards as if nothing had been."""
        self.refuses, self.holds, self.delay_s = False, False, 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                self._connect(client)

    def _connect(self, client: socket.socket) -> None:
        if self.refuses:
            self._turn_away(client)
            return
        try:
            server = socket.create_connection((HOST, self.target), timeout=5)
        except OSError:  # nobody is there: neither are we
            self._turn_away(client)
            return
        server.settimeout(None)
        with self._lock:
            self._open |= {client, server}
        for source, target in ((client, server), (server, client)):
            threading.Thread(target=self._forward, args=(source, target, source is client), daemon=True).start()

    def _turn_away(self, client: socket.socket) -> None:
        self.hits += 1
        self.turned_away += 1
        self._reset(client)

    def answer(self, _request: bytes) -> bytes | None:
        """What is answered to this piece of a client's, in the place of the server; None hands it on."""
        return None

    def _forward(self, source: socket.socket, target: socket.socket, asks: bool) -> None:
        with contextlib.suppress(OSError):  # one of the two is gone, or was cut
            while data := source.recv(_CHUNK_BYTES):
                if asks and (own := self.answer(data)) is not None:
                    source.sendall(own)
                    break
                self.hits += bool(self.holds or self.delay_s)
                while self.holds:
                    time.sleep(0.02)
                if self.delay_s:
                    time.sleep(self.delay_s)
                target.sendall(data)
        for each in (source, target):
            with self._lock:
                self._open.discard(each)
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    @staticmethod
    def _reset(connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            connection.shutdown(socket.SHUT_RD)  # wakes the thread that reads; nothing is sent by it
        connection.close()
