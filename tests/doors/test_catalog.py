"""Tables found by name: a metastore of Hive's in the lake, in a process of its own, whose Spark begins with it."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid

import pytest
from confluent_kafka import Producer
from tests.doors.one_topic import OneTopic

from rivermouth.ports.dev.local_ports import free_port

PROJECT = """\
name: shop
lake: ./lake
catalog: {{schema: "shop_{{schema}}"}}
spark: {{master: "local[2]", driver_memory: 1g}}
kafka:
  bootstrap_servers: {servers}
flows:
  orders:
    topics: [{topic}]
    format: {{type: json, schema: "id bigint"}}
    table: bronze.web-orders
"""
WIDER = ('schema: "id bigint"', 'schema: "id bigint, name string"')
READ = """
import json
from pathlib import Path
from rivermouth import Project
file = Path("rivermouth.yml")
spark = Project.load(file).spark()
Project.load(file).run()
told = [sorted(row[0] for row in spark.sql("SELECT id FROM shop_bronze.web_orders").collect())]
file.write_text(file.read_text().replace(*{wider!r}))
Project.load(file).run()
told.append("name" in spark.table("spark_catalog.shop_bronze.web_orders").columns)
spark.stop()
print(json.dumps(told))
"""


def test_in_the_catalog_of_the_session_a_table_is_found_by_name_and_has_new_columns(
    spark, broker, topic, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    project, schema = OneTopic(tmp_path, capsys, broker.bootstrap_servers, topic()), f"s{uuid.uuid4().hex[:8]}"
    text = PROJECT.format(servers=project.servers, topic=project.topic)
    text = text.replace('schema: "shop_{schema}"', f'metastore: session, schema: "{schema}_{{schema}}"')
    project.save(text)
    project.send(b'{"id": 0}', b'{"id": 1}')
    try:
        assert project.say("run")[0] == 0
        found = spark.sql(f"SELECT id FROM {schema}_bronze.web_orders ORDER BY id").collect()
        assert [tuple(row) for row in found] == [(0,), (1,)]
        project.save(text.replace(*WIDER))
        assert project.say("run")[0] == 0
        assert "name" in spark.table(f"spark_catalog.{schema}_bronze.web_orders").columns
    finally:
        spark.sql(f"DROP SCHEMA IF EXISTS {schema}_bronze CASCADE")


@pytest.mark.long
@pytest.mark.timeout(240)
def test_a_table_is_found_by_name_and_with_its_columns_as_they_become(broker, topic, tmp_path):
    name = topic()
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(3):
        producer.produce(name, json.dumps({"id": number}).encode())
    assert producer.flush(10) == 0
    (tmp_path / "rivermouth.yml").write_text(PROJECT.format(servers=broker.bootstrap_servers, topic=name))
    done = subprocess.run(
        [sys.executable, "-c", READ.format(wider=WIDER)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == [[0, 1, 2], True]
    # Nothing lies about outside the lake.
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lake", "rivermouth.yml"]
    assert (tmp_path / "lake/_rivermouth/metastore").is_dir()


@pytest.mark.long
@pytest.mark.timeout(240)
def test_a_metastore_that_nobody_serves_keeps_the_flow_from_carrying(broker, topic, tmp_path):
    port = free_port()
    text = PROJECT.format(servers=broker.bootstrap_servers, topic=topic())
    schema, metastore = 'schema: "shop_{schema}"', f"metastore: thrift://127.0.0.1:{port}"
    (tmp_path / "rivermouth.yml").write_text(text.replace(schema, f"{schema}, {metastore}"))
    done = subprocess.run(
        [sys.executable, "-m", "rivermouth", "run"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    told = (
        "[METASTORE_UNAVAILABLE] flow orders: the metastore cannot be opened, so spark_catalog.shop_bronze.web_orders "
        "is not registered and nothing was written; its service does not answer, or another process has the embedded "
        "one open\n"
        "  at: rivermouth.yml:8\n"
        "  hint: start that service or stop that process, then: rivermouth run orders; flows of several processes need "
        "catalog: {metastore: thrift://host:9083}\n"
    )
    assert told in done.stderr
