"""Hints of Kafka's, the lake's and the ledger's errors are pasted as they are: each leads on to another state."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys

import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from deltalake import write_deltalake
from tests.doors.test_cli_run import Shop

from rivermouth.ports.dev.local_ports import free_port

PROJECT = """\
lake: ./lake
kafka: {{bootstrap_servers: "{servers}"}}
flows:
  orders:
    topics: [{topic}]
    format: text
    table: bronze.orders
  others:
    topics: [{topic}]
    format: text
    table: bronze.others
"""
COMMAND = re.compile(r"""rivermouth ((?:"[^"]*"|[^;,"])+)""")
YAML = re.compile(r"^(?:set )?([a-z_]+): ((?:(?! to )[^,;])*(?:\{.*\})?)")


class Pasting(Shop):
    """A shop whose errors are read, and their hints pasted."""

    def fails(self, code, *arguments):
        """The hint of the error of this code, with which the command fails."""
        found, out, err = self.say(*arguments)
        assert found == 1, (out, err)
        told = re.search(rf"\[{code}\] .*(?:\n  at: .*)?(?:\n  table: .*)?\n  hint: (.+)", out + err)
        assert told, out + err
        return told[1]

    def types(self, hint):
        """Types the command that is in a hint, as it is; it has to do what it says."""
        command = COMMAND.search(hint)
        assert command, hint
        code, out, err = self.say(*shlex.split(command[1]))
        assert code == 0, (hint, out, err)
        return out + err

    def writes(self, hint, flow):
        """Writes the setting that a hint begins with into a flow, in place of what it had."""
        setting = YAML.match(hint)
        assert setting, hint
        head, name, rest = self.file.read_text().partition(f"  {flow}:\n")
        own = re.sub(rf"\A((?:    .*\n)*?)    {setting[1]}: .*\n", r"\1", rest)
        self.file.write_text(f"{head}{name}    {setting[1]}: {setting[2]}\n{own}")
        return setting[1]


@pytest.fixture
def shop(spark, broker, topic, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shop = Pasting(tmp_path, broker.bootstrap_servers, topic(), capsys)
    shop.file.write_text(PROJECT.format(servers=shop.servers, topic=shop.topic))
    return shop


def test_a_topic_that_is_missing_and_offsets_that_are_not_there(shop):
    missing = f"{shop.topic[::-1]}-zzzz"
    head, orders, rest = shop.file.read_text().partition("  orders:\n")
    shop.file.write_text(head + orders + rest.replace(shop.topic, missing, 1))
    hint = shop.fails("TOPIC_MISSING", "run", "orders")
    assert hint.startswith(f"rivermouth topics create {missing}")
    assert shop.types(hint) == f"{missing}: created\n"
    assert shop.say("run", "orders")[0] == 0

    shop.send(b"a", b"b")
    for setting in ("starting_offsets", "ending_offsets"):
        shop.edit("  others:\n", f"  others:\n    {setting}: {{{shop.topic}: {{0: 7}}}}\n")
        hint = shop.fails("OFFSETS_OUT_OF_RANGE", "plan", "others")
        assert shop.writes(hint, "others") == setting
        assert shop.say("plan", "others")[0] == 0
    shop.edit("  others:\n", f"  others:\n    starting_offsets: {{group: nobody-{shop.topic}}}\n")
    text = shop.file.read_text()
    shop.file.write_text(re.sub(r"    starting_offsets: \{t-.*\n", "", text))
    assert shop.writes(shop.fails("GROUP_WITHOUT_OFFSETS", "plan", "others"), "others") == "starting_offsets"
    assert shop.say("plan", "others")[0] == 0
    hint = shop.fails("TABLE_MISSING", "tables", "read", "others")
    assert "others: done, 1 batch" in shop.types(hint)


@pytest.mark.long
def test_a_broker_that_is_not_there(shop):
    port = free_port()
    shop.edit(f'"{shop.servers}"', f"localhost:{port}")
    hint = shop.fails("BROKER_UNREACHABLE", "status", "orders")
    assert hint == f"rivermouth dev kafka --port {port}"
    typed = [sys.executable, "-m", *shlex.split(hint)]
    with subprocess.Popen(typed, stdout=subprocess.PIPE, text=True) as running:
        assert f"Kafka answers at 127.0.0.1:{port}" in running.stdout.readline()
        shop.fails("TOPIC_MISSING", "status", "orders")
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == 0


@pytest.mark.long
def test_records_that_are_gone_and_a_topic_that_was_created_again(shop):
    admin = AdminClient({"bootstrap.servers": shop.servers})
    shop.send(b"a", b"b")
    assert shop.say("run")[0] == 0
    shop.send(b"c", b"d")
    place = TopicPartition(shop.topic, 0, 3)
    admin.delete_records([place])[place].result(30)
    hint = shop.fails("OFFSETS_EXPIRED", "run", "orders")
    assert f"--accept-loss {shop.topic}-0:2-3" in hint
    assert "orders: done, 1 batch" in shop.types(hint)
    assert shop.writes(shop.fails("OFFSETS_EXPIRED", "run", "others"), "others") == "on_data_loss"
    assert shop.say("run")[0] == 0

    admin.delete_topics([shop.topic])[shop.topic].result(30)
    made = NewTopic(shop.topic, 1, 1)
    for _ in range(100):
        if admin.create_topics([made])[shop.topic].exception(30) is None:
            break
    shop.send(b"e")
    hint = shop.fails("TOPIC_RECREATED", "run", "orders")
    assert f"--new-epoch {shop.topic}" in hint
    assert "orders: done, 1 batch" in shop.types(hint)
    assert shop.say("run")[0] == 0
    rows = shop.rows("bronze/orders", "SELECT value FROM t ORDER BY kafka_epoch NULLS FIRST, kafka_offset")
    assert [row["value"] for row in rows] == ["a", "b", "d", "e"]


@pytest.mark.long
def test_tables_that_others_changed_wrote_or_are_writing(shop, spark):
    shop.send(b"a", b"b")
    assert shop.say("run", "orders")[0] == 0
    table = shop.folder / "lake" / "bronze" / "orders"
    for paste in (lambda hint: spark.sql(hint.partition(";")[0]), shop.types):
        write_deltalake(table, pa.table({"kafka_topic": ["x"], "value": ["c"]}), mode="append", schema_mode="merge")
        hint = shop.fails("LEDGER_VOID", "run", "orders")
        assert hint.startswith(f"RESTORE TABLE delta.`{table}` TO VERSION AS OF ")
        paste(hint)
        assert shop.say("run", "orders")[0] == 0
    rows = shop.rows("bronze/orders", "SELECT value FROM t ORDER BY value")
    assert [row["value"] for row in rows] == ["a", "b", "c"]

    write_deltalake(shop.folder / "lake" / "bronze" / "others", pa.table({"value": ["a"]}))
    hint = shop.fails("TABLE_FOREIGN", "run", "others")
    command = COMMAND.search(hint)[1]
    assert command == "run others --adopt CHECKPOINT"
    assert "checkpoint" in shop.fails("ADOPTION_REFUSED", *shlex.split(command))
    shop.edit("bronze.others", "bronze.mine")
    assert shop.say("run", "others")[0] == 0
