"""Secrets that a project names are nowhere in what rivermouth and Spark write, print or serve."""

from __future__ import annotations

import signal
import urllib.request
from pathlib import Path

import pytest
from deltalake import DeltaTable
from tests.crashes.oracle import rows_of
from tests.doors.test_cli_process import command  # noqa: F401 - a fixture
from tests.ports.test_kafka_login import LOGIN

from rivermouth.ports.dev.broker import Broker, ReadyCheck
from rivermouth.ports.dev.local_ports import free_port
from rivermouth.ports.kafka.kafka_produce import produce

PASSWORD, STORE, VARIABLE = "canary-password-61c2", "canary-store-9e07", "canary-variable-b4d8"
CANARIES = (PASSWORD, STORE, VARIABLE)
LOOPBACK = "0100007F"
LOOKS = (
    ["validate"],
    ["plan"],
    ["run", "--output", "json"],
    ["status", "--output", "json"],
    ["dead-letters", "show"],
    ["tables", "describe"],
    ["checkpoint", "show", "orders"],
    ["doctor"],
)
PROJECT = """\
lake: ./lake
kafka:
  bootstrap_servers: "{servers}"
  options:
    security.protocol: SASL_PLAINTEXT
    sasl.mechanism: PLAIN
    sasl.jaas.config: '{login} required username="reader" password="${{file:{folder}/password}}";'
spark:
  driver_memory: 1g
  conf:
    spark.hadoop.fs.s3a.secret.key: "${{file:{folder}/store}}"
    spark.hadoop.fs.s3a.access.key: "${{STORE_KEY}}"
    spark.eventLog.enabled: true
    spark.eventLog.compress: false
    spark.eventLog.dir: file://{folder}/events
    spark.ui.enabled: true
    spark.ui.port: {port}
flows:
  orders:
    topics: [orders]
    format: {{type: json, schema: "id bigint"}}
    table: silver.orders
    trigger: {{every: 500 ms}}
"""


@pytest.fixture(scope="module")
def guarded():
    server = f'{LOGIN} required username="reader" password="{PASSWORD}" user_reader="{PASSWORD}";'
    properties = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": server,
    }
    client = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "reader",
        "sasl.password": PASSWORD,
    }
    with Broker.start(properties=properties, ready=ReadyCheck(client), heap="512m") as broker:
        yield broker


@pytest.fixture
def project(guarded, tmp_path, monkeypatch, unused_port):
    monkeypatch.setenv("STORE_KEY", VARIABLE)
    # In a shell of its own: what a process inherits is not what it gives away.
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    (tmp_path / "store").write_text(STORE)
    (tmp_path / "events").mkdir()
    text = PROJECT.format(servers=guarded.bootstrap_servers, login=LOGIN, folder=tmp_path, port=unused_port)
    (tmp_path / "rivermouth.yml").write_text(text)
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{LOGIN} required username="reader" password="{PASSWORD}";',
    }
    produce(guarded.bootstrap_servers, login, "orders", [b'{"id": 1}', b'{"id": "x"}', b"{"])
    return unused_port


@pytest.fixture
def unused_port():
    return free_port()


def interfaces_of(port):
    """The last four bytes of the addresses at which something listens on the port."""
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()]
    there = [words[1].split(":") for words in lines if words[3] == "0A"]
    return {address[-8:] for address, number in there if int(number, 16) == port}


def secrets_in(text):
    return [canary for canary in CANARIES if canary in text]


def files_with_secrets(folder):
    """Files below the folder, but for those from which the secrets come."""
    sources = {folder / "password", folder / "store"}
    files = [path for path in folder.rglob("*") if path.is_file() and path not in sources]
    assert len(files) > 20
    return {
        str(path.relative_to(folder)): found
        for path in files
        if (found := secrets_in(path.read_bytes().decode("latin-1")))
    }


def told_by_tables(folder):
    """Rows and history of the table and of its dead letters: their files are compressed, and say nothing as bytes."""
    places = [folder / "lake/silver" / name for name in ("orders", "orders__dead_letters")]
    rows = [rows_of(place) for place in places]
    assert [len(each) for each in rows] == [1, 2]
    return str(rows) + str([DeltaTable(str(place)).history() for place in places])


@pytest.mark.long
def test_no_secret_is_given_away(project, command, tmp_path):  # noqa: F811
    run = command("run", "--follow")
    run.wait_for("batch 1", "err")
    served = ""
    for page in ("environment", "SQL", "jobs", "StreamingQuery", "api/v1/applications"):
        with urllib.request.urlopen(f"http://127.0.0.1:{project}/{page}/", timeout=20) as answer:
            served += answer.read().decode()
    assert "spark.eventLog.dir" in served
    assert secrets_in(served) == []
    assert interfaces_of(project) == {LOOPBACK}
    for pid in run.jvms:
        assert secrets_in(Path(f"/proc/{pid}/cmdline").read_text()) == []
    run.process.send_signal(signal.SIGTERM)
    code, out, err = run.end()
    assert code == 0, err
    assert secrets_in(out + err) == []
    for arguments in LOOKS:
        _code, out, err = command(*arguments).end()
        assert out
        assert secrets_in(out + err) == [], arguments
    assert any("spark.app.name" in path.read_text() for path in (tmp_path / "events").rglob("*") if path.is_file())
    assert files_with_secrets(tmp_path) == {}
    assert secrets_in(told_by_tables(tmp_path)) == []


@pytest.mark.long
def test_nor_by_an_error(project, command, tmp_path):  # noqa: F811
    (tmp_path / "password").write_text("canary-password-61c2-but-wrong")
    for arguments in (["run"], ["plan"], ["status"], ["dev", "produce", "orders", "rivermouth.yml"]):
        _code, out, err = command(*arguments).end()
        assert "[KAFKA_REFUSED]" in out + err, arguments
        assert secrets_in(out + err) == [], arguments
