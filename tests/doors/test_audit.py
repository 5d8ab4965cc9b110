"""``rivermouth audit`` as a user meets it: its words, its JSON, its exit codes."""

from __future__ import annotations

import os
import shutil
import signal
import threading

import pytest
from tests.doors.test_cli_run import VALUES, Shop

from rivermouth.errors import AuditDisturbed
from rivermouth.project.api import Project
from rivermouth.project.commands import audit as auditing

KAFKA = "{{type: kafka, topic: {topic}, value: value, create_topic: {{partitions: 1}}}}"
FILES = "{type: files, format: json, path: archive/orders}"
LOST = """\
orders: NOT every record is where it belongs
  table: {lake}/silver/orders
  audited: entries 1 to 1, {topic}-0:0..5
  5 records in Kafka: 1 in the table, 0 in the dead letters, 4 in neither (1 counted as dropped)
  0 doubled, 0 in the tables that Kafka does not show
  archive {lake}/archive/orders: 1 file in 2 manifests, 0 rows compared with the ledger
  problem: in neither table: 4 records; the ledger counted 1 dropped
  problem: archive: files missing: 1, such as {file}
  problem: archive: the files of ledger entry 1 have 0 rows, and the ledger says 1
  for example: {topic}-0:1, {topic}-0:3, {topic}-0:4
"""
FAILED = """\
[AUDIT_FAILED] not every record is where it belongs: orders; nothing was changed
  hint: rivermouth checkpoint show orders
"""


@pytest.fixture
def shop(spark, broker, topic, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    return Shop(tmp_path, broker.bootstrap_servers, topic(), capsys)


def test_after_a_run_and_with_dead_letters_and_a_file_lost(shop):
    lake, topic = shop.folder / "lake", shop.topic
    shop.edit("    table: silver.orders", f"    table: silver.orders\n    sink: {FILES}")
    assert shop.say("audit", "orders") == (0, "orders: nothing to audit, it has not run yet\n", "")
    shop.send(*VALUES)
    assert shop.say("run", "orders")[0] == 0
    [told] = shop.json("audit", "orders")
    found = {"visible": 5, "in_table": 1, "in_dead_letters": 3, "in_neither": 1, "doubled": 0, "not_in_kafka": 0}
    assert told["flows"][0]["found"] == found | {"erased": 0, "back": 0}
    assert told["flows"][0]["problems"] == []
    shutil.rmtree(lake / "silver" / "orders__dead_letters")
    [file] = (lake / "archive" / "orders").glob("*.json")
    file.unlink()
    code, out, err = shop.say("audit", "orders")
    assert code == 1
    assert out == LOST.format(lake=lake, topic=topic, file=file.name)
    assert err == FAILED


@pytest.mark.long
def test_before_and_after_a_run_and_with_dead_letters_lost(shop):
    assert shop.say("audit") == (
        0,
        "orders_raw: nothing to audit, it has not run yet\n\norders: nothing to audit, it has not run yet\n",
        "",
    )
    lake, topic, out = shop.folder / "lake", shop.topic, f"{shop.topic}-out"
    shop.edit("    table: bronze.orders", f"    table: bronze.orders\n    sink: {KAFKA.format(topic=out)}")
    shop.edit("    table: silver.orders", f"    table: silver.orders\n    sink: {FILES}")
    shop.send(*VALUES)
    assert shop.say("run")[0] == 0
    raw = (
        "orders_raw: every record is in exactly one place\n"
        f"  table: {lake}/bronze/orders\n"
        f"  audited: entries 1 to 1, {topic}-0:0..5\n"
        "  5 records in Kafka: 5 in the table, 0 in the dead letters, 0 in neither (0 counted as dropped)\n"
        "  0 doubled, 0 in the tables that Kafka does not show\n"
        f"  not compared: topic {out}: without headers: {{kafka_topic: kafka_topic, kafka_partition: kafka_partition, "
        "kafka_offset: kafka_offset} in the sink, records do not say which rows they are\n"
    )
    whole = (
        "orders: every record is in exactly one place\n"
        f"  table: {lake}/silver/orders\n"
        f"  audited: entries 1 to 1, {topic}-0:0..5\n"
        "  5 records in Kafka: 1 in the table, 3 in the dead letters, 1 in neither (1 counted as dropped)\n"
        "  0 doubled, 0 in the tables that Kafka does not show\n"
        f"  archive {lake}/archive/orders: 1 file in 2 manifests, 1 row compared with the ledger\n"
    )
    assert shop.say("audit") == (0, f"{raw}\n{whole}", "")
    [told] = shop.json("audit", "orders")
    assert [each["flow"] for each in told["flows"]] == ["orders"]
    assert told["flows"][0]["found"] == {
        "visible": 5,
        "in_table": 1,
        "in_dead_letters": 3,
        "in_neither": 1,
        "doubled": 0,
        "not_in_kafka": 0,
        "erased": 0,
        "back": 0,
    }
    assert told["flows"][0]["problems"] == []
    assert [each.flow for each in Project.load(shop.file).audit()] == ["orders_raw", "orders"]

    shutil.rmtree(lake / "silver" / "orders__dead_letters")
    [file] = (lake / "archive" / "orders").glob("*.json")
    file.unlink()
    code, out, err = shop.say("audit", "orders")
    assert code == 1
    assert out == LOST.format(lake=lake, topic=topic, file=file.name)
    assert err == FAILED


def test_an_unknown_flow(shop):
    code, out, err = shop.say("audit", "ordres")
    assert (code, out) == (1, "")
    assert err == (
        "[FLOW_UNKNOWN] no flow named 'ordres' in this project; nothing was run\n  hint: did you mean 'orders'?\n"
    )


def test_ctrl_c_and_an_error_leave_what_is_reported_and_name_what_is_not_audited(shop, monkeypatch):
    honest, ended = auditing.audit_flow, threading.Event()

    def interrupted(spark, job):
        if job.flow.name == "orders":
            os.kill(os.getpid(), signal.SIGINT)
            assert ended.wait(60)
        return honest(spark, job)

    monkeypatch.setattr(auditing, "audit_flow", interrupted)
    said = "orders_raw: nothing to audit, it has not run yet\n"
    assert shop.say("audit") == (130, said, "not audited: orders\nstopped\n")
    [document] = shop.json("audit", code=130)
    assert [each["flow"] for each in document["flows"]] == ["orders_raw"]
    assert document["not_audited"] == ["orders"]
    ended.set()

    def disturbed(_spark, job):
        raise AuditDisturbed(flow=job.flow.name, cause="Kafka dropped records", entry=3)

    monkeypatch.setattr(auditing, "audit_flow", disturbed)
    code, out, err = shop.say("audit")
    assert (code, out) == (1, "")
    assert err.startswith("not audited: orders_raw, orders\n[AUDIT_DISTURBED] flow orders_raw: ")
