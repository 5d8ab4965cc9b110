"""``format: python`` at the command line: a user's own function from a topic into a table."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path

import pytest
from tests.doors.one_topic import OneTopic

# One value a line of what a function may meet.
ONE_BY_ONE = """
import json
import os
import time
from datetime import datetime, timezone
from decimal import Decimal

import {module}_beside


def orders(value: bytes, *, topic, key, headers) -> dict | None:
    if value == b"secret-1":
        raise ValueError("no such order: " + value.decode())
    if value == b"sleep":
        time.sleep(60)
    if value == b"exit":
        os._exit(3)
    order = json.loads(value)
    if order["id"] is None:
        return None
    order["amount"] = Decimal(order["amount"]) if isinstance(order["amount"], str) else order["amount"]
    return {{**order, "said": {module}_beside.said(topic, key, headers)}}
"""
NEIGHBOUR = """
def said(topic, key, headers):
    return f"{topic} {key} {headers}"
"""
COLUMNS = ("id", "amount", "said")
AT_ONCE = """
import pyarrow as pa
import pyarrow.compute as pc


def orders(values: pa.Array) -> pa.StructArray:
    texts = pc.cast(values, pa.string())
    ids = pc.cast(pc.list_element(pc.split_pattern(texts, ","), 0), pa.int32())
    amounts = pc.cast(pc.list_element(pc.split_pattern(texts, ","), 1), pa.float64())
    return pa.StructArray.from_arrays([ids, amounts], ["id", "amount"], mask=pc.equal(ids, 0))
"""


class Decoded(OneTopic):
    @property
    def module(self):
        # No two tests share one, since Spark's workers keep the modules that they have imported.
        return f"decode_{self.topic.replace('-', '_').replace('.', '_')}"

    def write(self, form, code, schema, more=""):
        (self.folder / f"{self.module}.py").write_text(code)
        (self.folder / f"{self.module}_beside.py").write_text(NEIGHBOUR)
        self.save(f"""\
lake: ./lake
kafka: {{bootstrap_servers: "{self.servers}"}}
flows:
  orders:
    topics: [{self.topic}]
    format: {{type: python, function: "{self.module}:orders", schema: "{schema}"{form}}}
    table: silver.orders
{more}
""")

    def rows(self, *columns):
        return [tuple(row[name] for name in columns) for row in self.kept("orders")]

    def letters(self):
        columns = ("kafka_offset", "reason", "field", "message")
        return [tuple(row[name] for name in columns) for row in self.kept("orders__dead_letters")]


@pytest.fixture
def project(tmp_path, monkeypatch, capsys, broker, topic, spark):
    """A project with one flow of the format: ``send`` puts values into its topic, ``say`` runs a command over it."""
    monkeypatch.chdir(tmp_path)
    return Decoded(tmp_path, capsys, broker.bootstrap_servers, topic())


DIGITS = "a number with more digits than that, before or after the point"
INEXACT = "a float, which is no exact number: return a decimal.Decimal"


def order(**fields):
    return json.dumps(fields).encode()


def test_each_record_ends_in_the_table_in_the_dead_letters_or_in_a_count(project):
    code = ONE_BY_ONE.format(module=project.module)
    project.write(", timeout_s: 1", code, "id bigint, amount decimal(6,2), said string")
    project.send(order(id=1, amount="1.50"), key=b"k", headers=[("h", b"\x00"), ("h", None)])
    project.send(order(id=None, amount=0), b"secret-1", None, b"sleep", order(id="1", amount="2"))
    project.send(order(id=2, amount="1.505"), order(id=3, amount="1", more=1), order(id=4, amount=1.5))
    project.send(order(id=5, amount="-9999.99"))
    code, text = project.say("run", "--output", "json")
    assert code == 0, text
    # What a function says is in the dead letter, and nowhere else.
    assert "secret-1" not in text
    assert [(at, number, str(amount), said) for at, number, amount, said in project.rows("kafka_offset", *COLUMNS)] == [
        (0, 1, "1.50", f"{project.topic} b'k' [('h', b'\\x00'), ('h', None)]"),
        (9, 5, "-9999.99", f"{project.topic} None []"),
    ]
    assert project.letters() == [
        (2, "FUNCTION_FAILED", None, "ValueError: no such order: secret-1"),
        (4, "FUNCTION_FAILED", None, "it did not return within 1 s"),
        (5, "FIELD_TYPE", "id", "field id is declared bigint and holds a str"),
        (6, "FIELD_TYPE", "amount", f"field amount is declared decimal(6,2) and holds {DIGITS}"),
        (7, "FIELD_UNKNOWN", None, "the dict has a key that the schema lacks: 'more'"),
        (8, "FIELD_TYPE", "amount", f"field amount is declared decimal(6,2) and holds {INEXACT}"),
    ]
    (flow,) = json.loads(project.say("status", "--output", "json")[1])["flows"]
    counts = {name: count for name, count in flow["last_batch"].items() if count}
    assert counts == {"consumed": 10, "written": 2, "dropped": 2, "dead_lettered": 6, "null_values": 1}


def test_a_function_over_arrays(project):
    project.write(", arrow: true", AT_ONCE, "id bigint NOT NULL, amount double")
    project.send(*(f"{number},{number / 4}".encode() for number in range(200)), b"x,1", b"7", None, b"\xff,1")
    assert project.say("run")[0] == 0
    assert project.rows("id", "amount") == [(number, number / 4) for number in range(1, 200)]
    assert [(at, reason) for at, reason, *_ in project.letters()] == [(at, "FUNCTION_FAILED") for at in (200, 201, 203)]


@pytest.mark.long
def test_a_function_that_ends_its_worker_stops_the_flow_and_loses_nothing(project):
    code = ONE_BY_ONE.format(module=project.module)
    project.write("", code, "id bigint, amount decimal(6,2), said string")
    project.send(order(id=1, amount="1"), order(id=2, amount="2"), b"exit", order(id=3, amount="3"))
    status, text = project.say("run")
    assert status == 1
    failed = "failed 5 times: a Python worker of Spark ended, by the code it ran or for lack of memory; they were not"
    assert f"[BATCH_FAILED] flow orders: offsets {project.topic}-0:2..3 {failed}" in text, text
    assert project.rows("id") == [(1,), (2,)]
    (flow,) = json.loads(project.say("status", "--output", "json")[1])["flows"]
    assert (flow["partitions"][0]["next_offset"], flow["lag"]) == (2, 2)


def test_a_function_that_cannot_be_used_is_refused_before_anything_runs(project):
    project.write("", "def orders(value, more):\n    return {}\n", "id bigint")
    code, text = project.say("validate")
    assert (code, text) == (
        1,
        f"""\
[FUNCTION_UNUSABLE] function '{project.module}:orders' cannot be used: it has a parameter 'more', and nothing is known \
to pass for it; nothing was run
  at: rivermouth.yml:4
  hint: def orders(value, *, topic, key, headers), or fewer of these; or give it a default
""",
    )
    assert project.say("run")[0] == 1
    assert not list(Path().glob("lake/silver/*"))


def test_a_function_that_only_the_driver_has_ends_the_batch(project, monkeypatch):
    module = types.ModuleType(project.module)
    module.orders = dict
    project.write("", "", "id bigint")
    Path(f"{project.module}.py").unlink()
    monkeypatch.setitem(sys.modules, project.module, module)
    project.send(b"1")
    code, text = project.say("run")
    assert code == 1
    assert (
        f"""\
orders: failed: [FUNCTION_LOST] a worker of Spark cannot use function '{project.module}:orders': module \
{project.module} cannot be imported: ModuleNotFoundError: No module named '{project.module}'; the batch was not written
  at: rivermouth.yml:4
  hint: spark: {{conf: {{spark.submit.pyFiles: {project.module}.py}}}}
"""
        in text
    ), text
    assert project.rows("id") == []


KEYED = """\
import json


def orders(value):
    order = json.loads(value)
    return None if order.pop("skip", False) else order
"""


@pytest.mark.long
def test_a_record_that_is_left_out_deletes_nothing_and_meets_no_expectation(project):
    schema, sink = "id bigint, amount bigint", "    sink: {type: upsert, keys: [id], sequence_by: amount}"
    checks = "    expectations: [{name: positive, condition: amount > 0, action: fail}]"
    project.write("", KEYED, schema, f"{sink}\n{checks}")
    project.send(order(id=1, amount=1), order(id=2, amount=2), order(id=1, amount=3), order(skip=True), b"{}", None)
    project.send(order(skip=True), key=b"1")
    assert project.say("run")[0] == 0
    assert sorted(project.rows("id", "amount")) == [(1, 3), (2, 2)]
    assert [letter[:3] for letter in project.letters()] == [(4, "FIELD_MISSING", "id"), (5, "KEY_NULL", None)]
    (flow,) = json.loads(project.say("status", "--output", "json")[1])["flows"]
    counts = {name: flow["last_batch"][name] for name in ("consumed", "merged", "dropped", "dead_lettered")}
    assert counts == {"consumed": 7, "merged": 3, "dropped": 2, "dead_lettered": 2}


FICKLE = """\\
import pathlib


def orders(value):
    seen = pathlib.Path(value.decode())
    if seen.exists():
        return {{"id": 1}}
    seen.touch()
    raise ValueError("the first time")
"""


@pytest.mark.long
def test_a_function_that_changes_its_mind_loses_nothing(project, tmp_path):
    (tmp_path / "known").touch()
    project.write("", FICKLE.format(), "id bigint")
    project.send(str(tmp_path / "known").encode(), str(tmp_path / "new").encode())
    assert project.say("run")[0] == 0
    assert project.rows("kafka_offset", "id") == [(0, 1)]
    passes = "it passes the flow's rules now, and did not when its batch was written"
    assert project.letters() == [(1, "RULES_CHANGED", None, passes)]
    (flow,) = json.loads(project.say("status", "--output", "json")[1])["flows"]
    assert (flow["last_batch"]["written"], flow["last_batch"]["dead_lettered"]) == (1, 1)


MENDED = """\
import pathlib


def orders(value, *, topic, key):
    if value == b"2" and not pathlib.Path({file!r}).exists():
        raise ValueError("not yet")
    return {{"id": int(value), "said": f"{{topic}} {{key}}"}}
"""


@pytest.mark.long
def test_one_topic_without_a_file_and_a_replay_after_the_function_is_mended(project, broker, tmp_path):
    project.write("", MENDED.format(file=str(tmp_path / "mended")), "id bigint")
    Path("rivermouth.yml").unlink()
    project.send(b"1", b"2", key=b"k")
    servers = ("--bootstrap-servers", broker.bootstrap_servers, "--maintenance", "never")
    options = ("--format", "python", "--format-option", f"function={project.module}:orders")
    table = ("--table", "silver.orders", "--sink", "append", "--schema", "id bigint, said string")
    code, text = project.say("ingest", project.topic, *servers, *options, *table, "--save")
    assert code == 0, text
    assert [letter[1:] for letter in project.letters()] == [("FUNCTION_FAILED", None, "ValueError: not yet")]
    (tmp_path / "mended").touch()
    (flow,) = json.loads(project.say("status", "--output", "json")[1])["flows"]
    code, text = project.say("dead-letters", "replay", flow["flow"])
    assert code == 0, text
    assert project.rows("id", "said") == [(1, f"{project.topic} b'k'"), (2, f"{project.topic} b'k'")]


@pytest.mark.long
def test_a_flow_over_a_table_has_the_headers_that_it_keeps(project):
    code = "def orders(value, *, topic, headers):\n    return {'said': f'{topic} {value} {headers}'}\n"
    more = f"""\
  raw:
    topics: [{project.topic}]
    format: raw
    metadata_columns: [kafka_topic, kafka_partition, kafka_offset, kafka_timestamp, kafka_key, kafka_headers]
    table: bronze.orders"""
    project.write("", code, "said string", more)
    text = (
        Path("rivermouth.yml")
        .read_text()
        .replace(f"    topics: [{project.topic}]\n", "    source: {table: bronze.orders}\n", 1)
    )
    Path("rivermouth.yml").write_text(text)
    project.send(b"1", headers=[("h", b"x")])
    project.send(b"2")
    code, text = project.say("run")
    assert code == 0, text
    assert project.rows("said") == [(f"{project.topic} b'1' [('h', b'x')]",), (f"{project.topic} b'2' []",)]
