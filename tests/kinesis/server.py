"""A Kinesis server in a process of its own, and a gate before it that can throttle, deny, forget and turn the clock."""

from __future__ import annotations

import base64
import http.client
import json
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import boto3
from botocore.exceptions import BotoCoreError

from rivermouth.ports.dev.local_ports import free_port

TIMEOUT_S = 60.0
FOLDER = Path(__file__).parent / "node_modules/kinesis-local"
REGION = "eu-central-1"
KEYS = ("key-of-kinesis", "secret-of-kinesis")


@dataclass
class Kinesis:
    """A server that runs.

    Attributes:
        url: Its address.
        client: Of boto3.
    """

    url: str
    client: object = field(init=False)

    def __post_init__(self):
        key, secret = KEYS
        login = {"aws_access_key_id": key, "aws_secret_access_key": secret}
        self.client = boto3.client("kinesis", endpoint_url=self.url, region_name=REGION, **login)

    @property
    def environ(self) -> dict[str, str]:
        """The variables that Amazon's programs read."""
        key, secret = KEYS
        names = {"AWS_ENDPOINT_URL_KINESIS": self.url, "AWS_DEFAULT_REGION": REGION}
        return {**names, "AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret}

    def options(self, stream: str, **more: object) -> dict[str, object]:
        """What a query says to read a stream."""
        key, secret = KEYS
        login = {"awsAccessKey": key, "awsSecretKey": secret}
        quick = {"minFetchPeriod": "0ms", "shardFetchInterval": "0ms", "initialPosition": "trim_horizon"}
        return {"streamName": stream, "region": REGION, "endpoint": self.url, **login, **quick, **more}

    def create(self, stream: str, shards: int = 1) -> None:
        self.client.create_stream(StreamName=stream, ShardCount=shards)
        self._active(stream)

    def put(self, stream: str, *values: str, shard: int | None = None) -> None:
        """Puts records, by their own keys or all into the open shard of this place in the order of hashes."""
        where = {}
        if shard is not None:
            where = {"ExplicitHashKey": self.open_shards(stream)[shard]["HashKeyRange"]["StartingHashKey"]}
        for value in values:
            self.client.put_record(StreamName=stream, PartitionKey=value, Data=value.encode(), **where)

    def open_shards(self, stream: str) -> list[dict]:
        found = self.client.list_shards(StreamName=stream)["Shards"]
        found = [each for each in found if "EndingSequenceNumber" not in each["SequenceNumberRange"]]
        return sorted(found, key=lambda each: int(each["HashKeyRange"]["StartingHashKey"]))

    def split(self, stream: str, shard: int) -> None:
        found = self.open_shards(stream)[shard]
        low, high = (int(found["HashKeyRange"][f"{side}HashKey"]) for side in ("Starting", "Ending"))
        middle = str((low + high) // 2)
        self.client.split_shard(StreamName=stream, ShardToSplit=found["ShardId"], NewStartingHashKey=middle)
        self._active(stream)

    def merge(self, stream: str, shard: int) -> None:
        """Merges a shard with the one behind it."""
        one, other = (each["ShardId"] for each in self.open_shards(stream)[shard : shard + 2])
        self.client.merge_shards(StreamName=stream, ShardToMerge=one, AdjacentShardToMerge=other)
        self._active(stream)

    def _active(self, stream: str) -> None:
        summary = {"StreamStatus": ""}
        while summary["StreamStatus"] != "ACTIVE":
            time.sleep(0.02)
            summary = self.client.describe_stream_summary(StreamName=stream)["StreamDescriptionSummary"]


@contextmanager
def kinesis(folder: Path) -> Iterator[Kinesis]:
    """A server without streams."""
    node = shutil.which("node")
    assert node, "node is missing: apt-get install nodejs npm"
    assert FOLDER.is_dir(), "the Kinesis server is missing: make databases"
    port, secured = free_port(), free_port()
    steps = dict.fromkeys(["CREATE_STREAM_DURATION", "SPLIT_SHARD_DURATION", "MERGE_SHARDS_DURATION"], "1ms")
    ports = {"KINESIS_MOCK_PLAIN_PORT": str(port), "KINESIS_MOCK_TLS_PORT": str(secured)}
    environ = {**os.environ, **ports, **steps, "DELETE_STREAM_DURATION": "1ms", "LOG_LEVEL": "ERROR"}
    with (folder / "kinesis.log").open("wb") as log:
        running = subprocess.Popen([node, "main.js"], cwd=FOLDER, env=environ, stdout=log, stderr=log)
        try:
            found, end = Kinesis(f"http://127.0.0.1:{port}"), time.monotonic() + TIMEOUT_S
            while not _answers(found):
                assert running.poll() is None, (folder / "kinesis.log").read_text()
                assert time.monotonic() < end, (folder / "kinesis.log").read_text()
                time.sleep(0.1)
            yield found
        finally:
            running.kill()  # it would wait half a minute for its clients
            running.wait(TIMEOUT_S)


def _answers(server: Kinesis) -> bool:
    with suppress(BotoCoreError):
        server.client.list_streams()
        return True
    return False


@dataclass
class Gate:
    """What is in front of a server, and how it answers in its place.

    Attributes:
        url: Its address.
        refusals: Codes with which the next calls of an operation are refused; the last one for ever if ``for_ever``.
        for_ever: Whether refusals never end.
        ahead_s: So far Kinesis' clock is ahead.
        trimmed: Values of records that are gone.
        calls: The operations that were called.
    """

    url: str = ""
    refusals: dict[str, list[str]] = field(default_factory=dict)
    for_ever: bool = False
    ahead_s: float = 0.0
    trimmed: set[str] = field(default_factory=set)
    calls: list[str] = field(default_factory=list)

    def refusal(self, operation: str) -> str | None:
        self.calls.append(operation)
        waiting = self.refusals.get(operation, [])
        if not waiting:
            return None
        return waiting[0] if self.for_ever else waiting.pop(0)

    def reset(self) -> None:
        self.refusals, self.for_ever, self.ahead_s, self.trimmed, self.calls = {}, False, 0.0, set(), []


class _Handler(BaseHTTPRequestHandler):
    """Answers in the place of a server, or asks it.

    Attributes:
        gate: Says how.
        host: Of the server.
    """

    gate: Gate
    host: str
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        operation = self.headers.get("X-Amz-Target", "AssumeRole").rpartition(".")[2]
        code = self.gate.refusal(operation)
        if operation == "AssumeRole":
            self._answer(200, "text/xml", _ROLE.encode())
        elif code == "cut":
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
        elif code is not None:
            status = 500 if code == "InternalFailure" else 400
            answer = {"__type": code, "message": "a text with secret-of-kinesis"}
            self._answer(status, "application/x-amz-json-1.1", json.dumps(answer).encode())
        else:
            status, kind, answer = self._asked(_by_its_own_clock(body))
            self._answer(status, kind, self._kept(operation, status, answer))

    def _asked(self, body):
        behind = http.client.HTTPConnection(self.host, timeout=TIMEOUT_S)
        names = ("Content-Type", "X-Amz-Target", "Authorization", "X-Amz-Date", "User-Agent")
        behind.request("POST", self.path, body, {name: self.headers[name] for name in names})
        answer = behind.getresponse()
        read = answer.read()
        behind.close()
        return answer.status, answer.getheader("Content-Type"), read

    def _kept(self, operation, status, answer):
        if operation != "GetRecords" or status != 200 or not self.gate.trimmed:
            return answer
        parsed = json.loads(answer)
        parsed["Records"] = [
            each for each in parsed["Records"] if base64.b64decode(each["Data"]).decode() not in self.gate.trimmed
        ]
        return json.dumps(parsed).encode()

    def _answer(self, status, kind, body):
        self.send_response_only(status)
        self.send_header("Date", formatdate(time.time() + self.gate.ahead_s, usegmt=True))
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextmanager
def gate(server: Kinesis) -> Iterator[Gate]:
    """A gate before a server."""
    found = Gate()
    handler = type("Handler", (_Handler,), {"gate": found, "host": server.url.removeprefix("http://")})
    web = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    web.daemon_threads = True
    found.url = f"http://127.0.0.1:{web.server_port}"
    thread = threading.Thread(target=web.serve_forever)
    thread.start()
    try:
        yield found
    finally:
        web.shutdown()
        thread.join()
        web.server_close()


def _by_its_own_clock(body: bytes) -> bytes:
    """A question without times that the server behind, whose clock is not ahead, would call the future."""
    asked = json.loads(body)
    if asked.get("Timestamp", 0) <= time.time():
        return body
    del asked["Timestamp"]
    return json.dumps({**asked, "ShardIteratorType": "LATEST"}).encode()


_ROLE = """<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>
<AccessKeyId>key-of-role</AccessKeyId><SecretAccessKey>secret-of-role</SecretAccessKey>
<SessionToken>token-of-role</SessionToken><Expiration>2036-01-01T00:00:00Z</Expiration></Credentials>
</AssumeRoleResult></AssumeRoleResponse>"""
