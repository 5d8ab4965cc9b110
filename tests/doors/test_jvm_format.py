"""``format: jvm`` at the command line: a deserializer of the user's own from a topic into a table."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from tests.doors.one_topic import OneFlow
from tests.rows.java_classes import jar

from rivermouth.ports.kafka.kafka_produce import produce


@pytest.fixture
def project(tmp_path, monkeypatch, capsys, broker, topic):
    """A project with one flow, and a jar with its deserializer in a folder of the project."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHOP_SECRET", "swordfish")
    (tmp_path / "libs").mkdir()
    jar(tmp_path / "libs", leave_out=("Missing",))
    return OneFlow(tmp_path, capsys, broker.bootstrap_servers, topic())


def commanded(folder, *arguments):
    """Exit code, and what is printed, of a process of its own: its JVM has the jars."""
    command = [sys.executable, "-m", "rivermouth", *arguments]
    environ = {**os.environ, "TMPDIR": str(folder)}
    done = subprocess.run(command, check=False, cwd=folder, env=environ, capture_output=True, text=True, timeout=240)
    return done.returncode, done.stdout + done.stderr


def flow(**more):
    form = {"type": "jvm", "class": "com.acme.OrderDeserializer", "jars": ["libs/orders.jar"], **more}
    return f"format: {json.dumps(form)}"


@pytest.mark.long
def test_each_record_ends_in_the_table_in_the_dead_letters_or_in_a_count(project, topic):
    schema = "id bigint NOT NULL, amount decimal(6,2), tags array<string>"
    project.write(flow(schema=schema, config={"secret": "${SHOP_SECRET}"}))
    project.send(b"bean", b"null", b"throw", None, b'{"id": 1, "amount": "1"}', b"avro", b'{"tags": []}')
    # Also, in the same process, a flow that meets a record for which the deserializer lacks a class.
    missing = topic()
    text = (project.folder / "rivermouth.yml").read_text()
    form = flow(schema=schema, config={"secret": "${SHOP_SECRET}"})
    project.save(f"{text}  lost:\n    topics: [{missing}]\n    table: silver.lost\n    {form}\n")
    produce(project.servers, {}, missing, [b"bean", b"lost"])
    code, text = commanded(project.folder, "run", "--output", "json")
    assert code == 1, text
    lost = "[DESERIALIZER_LOST] a task of Spark cannot use deserializer com.acme.OrderDeserializer: "
    assert f"{lost}java.lang.NoClassDefFoundError: com/acme/Missing; the batch was not written" in text, text
    assert "swordfish" not in text
    assert "no such order" not in text
    rows = [(at, number, str(amount), tags) for at, number, amount, tags in project.rows("id", "amount", "tags")]
    assert rows == [(0, 7, "1.50", ["a", "b"]), (5, 8, "2.56", ["a", "ä"])]
    thrown = "java.lang.IllegalStateException: no such order, said ***; caused by java.lang.RuntimeException: cause"
    assert project.letters("reason", "field", "message", "kafka_value") == [
        (2, "DESERIALIZER_FAILED", None, thrown, b"throw"),
        (
            4,
            "FIELD_TYPE",
            "amount",
            "field amount is declared decimal(6,2) and holds a string",
            b'{"id": 1, "amount": "1"}',
        ),
        (6, "FIELD_MISSING", "id", "field id is declared NOT NULL and is null", b'{"tags": []}'),
    ]
    told, _ = json.loads(project.say("status", "--output", "json")[1])["flows"]
    counts = {name: count for name, count in told["last_batch"].items() if count}
    assert counts == {"consumed": 7, "written": 2, "dropped": 2, "dead_lettered": 3, "null_values": 1}
    assert project.kept("lost") == []


def test_a_session_of_others_is_told_to_bring_the_jars(project, spark):
    form = {"class": "com.acme.Elsewhere"}
    project.write(flow(schema="id bigint", **form))
    code, text = project.say("validate")
    assert (code, text) == (
        1,
        f"""\
[DESERIALIZER_UNUSABLE] deserializer com.acme.Elsewhere cannot be used: its jars are not in this session, which was \
started without them; nothing was run
  at: rivermouth.yml:4
  hint: start it with --jars {project.folder}/libs/orders.jar
""",
    )
