"""A small schema registry on loopback, with the paths and the errors of Confluent's, and with faults on order."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections import Counter
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote
from uuid import UUID

USERNAME, PASSWORD = "river", "m:o uth"
MISSING_SCHEMA, MISSING_SUBJECT, MISSING_VERSION = 40403, 40401, 40402


def guid_of(number: int) -> str:
    """The GUID of the schema with an id."""
    return str(UUID(int=(0x0123456789ABCDEF << 64) | number))


class SchemaRegistry:
    """Started by ``with``, and gone afterwards.

    Attributes:
        url: Where it is.
        asked: How often each path was asked for.
        fault: What the next answers are instead: slow, dripping, oversized, or one of ``_faulty``.
        faults: How many answers have the fault.
        instead_of_guids: What it answers, with 404, to all GUIDs; None where it knows them.

    Args:
        login: Whether it asks for ``USERNAME`` and ``PASSWORD``.
        certificate: Files of a certificate and its key, for TLS.
    """

    def __init__(self, *, login: bool = False, certificate: tuple[Path, Path] | None = None) -> None:
        self.asked: Counter[str] = Counter()
        self.fault, self.faults = "", 0
        self.instead_of_guids: Any = None
        self._login = "Basic " + base64.b64encode(f"{USERNAME}:{PASSWORD}".encode()).decode() if login else None
        self._schemas: dict[int, dict[str, Any]] = {}
        self._subjects: dict[str, list[int]] = {}
        registry = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Head and body are sent apart: the body would wait for the head to be confirmed.
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                registry.asked[self.path] += 1
                registry._answer(self, registry._get)

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                registry._answer(self, lambda path: registry._post(path, body))

            def log_message(self, *_: Any) -> None:
                """Nothing is said on the terminal."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"http{'s' if certificate else ''}://localhost:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, name="schema-registry", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def register(self, subject: str, schema: Any, *, kind: str = "AVRO", references: tuple[Any, ...] = ()) -> int:
        """The id of a schema, which is a version of the subject afterwards."""
        text = schema if kind == "PROTOBUF" else json.dumps(schema)
        body = {"schema": text, "schemaType": kind, "references": list(references)}
        found: int = self._registered(subject, body)["id"]
        return found

    def subjects(self) -> list[str]:
        """The subjects that have versions."""
        return list(self._subjects)

    def order(self, fault: str, times: int = 1 << 30) -> None:
        """The next answers, ``times`` of them, have this fault."""
        self.fault, self.faults = fault, times

    def _answer(self, handler: Any, serve: Any) -> None:
        body: Any
        if self._login and handler.headers.get("Authorization") != self._login:
            status, body = 401, {"error_code": 401, "message": "who is it?"}
        elif self.faults:
            self.faults -= 1
            status, body = self._faulty()
        else:
            path, _, query = handler.path.partition("?")
            status, body = serve([unquote(part) for part in path.strip("/").split("/")])
            if status == HTTPStatus.OK and "schema" in body and body.get("schemaType") == "PROTOBUF" and not query:
                # Only who asks for format=serialized gets the descriptor; others the text of the file.
                body = {**body, "schema": 'syntax = "proto3";'}
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        handler.send_response(status)
        if self.fault == "dripping" and self.faults:
            self._drip(handler)
        if status == 302:
            handler.send_header("Location", f"{self.url}/elsewhere")
        handler.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    def _drip(self, handler: Any) -> None:
        """A header that has no end, byte by byte."""
        handler.flush_headers()
        until = time.monotonic() + 5
        while time.monotonic() < until:
            try:
                handler.wfile.write(b"x")
            except OSError:
                return
            time.sleep(0.1)

    def _faulty(self) -> tuple[int, Any]:
        if self.fault == "slow":
            time.sleep(3)
            return 503, {}
        if self.fault == "oversized":
            return 200, b'{"schema": "' + b" " * (1 << 21) + b'"}'
        bodies: dict[str, tuple[int, Any]] = {
            "dripping": (200, {}),
            "500": (500, {"error_code": 50001}),
            "404": (404, b"<html>not found</html>"),
            "redirect": (302, {}),
            "another_404": (404, {"message": "no such page"}),
            "garbage": (200, b"\xff{"),
            "nested": (200, b'{"schema": ' + b"[" * 50_000),
            "no_schema": (200, {"id": 1}),
            "no_avro": (200, {"schema": '{"type": "reccord"}'}),
        }
        return bodies[self.fault]

    def _get(self, path: list[str]) -> tuple[int, Any]:
        match path:
            case ["schemas", "ids", number]:
                found = self._schemas.get(int(number))
                return (200, found) if found else (404, {"error_code": MISSING_SCHEMA, "message": "Schema not found"})
            case ["schemas", "guids", _] if self.instead_of_guids is not None:
                return 404, self.instead_of_guids
            case ["schemas", "guids", guid]:
                found = next((each for number, each in self._schemas.items() if guid_of(number) == guid), None)
                return (200, found) if found else (404, {"error_code": MISSING_SCHEMA, "message": "Schema not found"})
            case ["subjects"]:
                return 200, list(self._subjects)
            case ["subjects", subject, "versions", version]:
                ids = self._subjects.get(subject)
                if not ids:
                    return 404, {"error_code": MISSING_SUBJECT, "message": "Subject not found"}
                number = len(ids) if version == "latest" else int(version)
                if not 0 < number <= len(ids):
                    return 404, {"error_code": MISSING_VERSION, "message": "Version not found"}
                one = ids[number - 1]
                return 200, {"subject": subject, "version": number, "id": one, **self._schemas[one]}
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _post(self, path: list[str], body: dict[str, Any]) -> tuple[int, Any]:
        match path:
            case ["subjects", subject]:
                known = self._known(body)
                ids = self._subjects.get(subject, [])
                found = next((number for number in ids if self._schemas[number] == known), None)
                if found is None:
                    return 404, {"error_code": MISSING_SCHEMA, "message": "Schema not found"}
                return 200, {
                    "subject": subject,
                    "id": found,
                    "version": ids.index(found) + 1,
                    "guid": guid_of(found),
                    **known,
                }
            case ["subjects", subject, "versions"]:
                return 200, self._registered(subject, body)
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    @staticmethod
    def _known(body: dict[str, Any]) -> dict[str, Any]:
        """What is kept of a schema."""
        kind, references = body.get("schemaType", "AVRO"), body.get("references")
        known = {"schema": body["schema"], **({"schemaType": kind} if kind != "AVRO" else {})}
        return known | ({"references": references} if references else {})

    def _registered(self, subject: str, body: dict[str, Any]) -> dict[str, Any]:
        known = self._known(body)
        there = next((number for number, each in self._schemas.items() if each == known), None)
        number = there or len(self._schemas) + 1
        self._schemas[number] = known
        versions = self._subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return {"id": number, "guid": guid_of(number), "schema": known["schema"]}
