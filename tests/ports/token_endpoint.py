"""A small OAuth server on loopback: it gives signed tokens to who knows the secret, as identity providers do."""

from __future__ import annotations

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

CLIENT_ID, CLIENT_SECRET = "river", 'm"o\\uth'
_KEY_ID = "the-only-one"


class TokenEndpoint:
    """Started by ``with``, and gone afterwards.

    Attributes:
        url: Where clients ask for a token.
        asked: For which scopes a token was given, in turn.
        refused: How many times none was given.
    """

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.asked: list[str] = []
        self.refused = 0
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                code, body = endpoint._answer(self.headers.get("Authorization", ""), form)
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(json.dumps(body).encode())

            def log_message(self, *_: Any) -> None:
                """Nothing is said on the terminal."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/token"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, name="token-endpoint", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def write_keys(self, file: Path) -> str:
        """Writes the public key as a set of JSON Web Keys; the URL of that file."""
        public = self._key.public_key().public_numbers()
        numbers = {name: _text(_bytes(number)) for name, number in (("n", public.n), ("e", public.e))}
        key = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": _KEY_ID, **numbers}
        file.write_text(json.dumps({"keys": [key]}))
        return file.as_uri()

    def _answer(self, login: str, form: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
        known = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        if login != f"Basic {known}" or form.get("grant_type") != ["client_credentials"]:
            self.refused += 1
            return 401, {"error": "invalid_client"}
        scope = form.get("scope", [""])[0]
        self.asked.append(scope)
        return 200, {"access_token": self.token(scope), "token_type": "Bearer", "expires_in": 3600}

    def token(self, scope: str) -> str:
        """One that the broker knows."""
        now = int(time.time())
        claims = {"sub": CLIENT_ID, "aud": "kafka", "iat": now, "exp": now + 3600, "scope": scope}
        parts = [_text(json.dumps(each).encode()) for each in ({"alg": "RS256", "kid": _KEY_ID}, claims)]
        signature = self._key.sign(".".join(parts).encode(), padding.PKCS1v15(), hashes.SHA256())
        return ".".join([*parts, _text(signature)])


def _text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _bytes(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8, "big")
