"""Columns called as Spark, Delta and rivermouth call columns of their own: each value comes back, in each flow."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Producer
from tests.crashes.oracle import rows_of
from tests.ways import merging_by

import rivermouth
from rivermouth.cli.main import invoke
from rivermouth.rows import reserved_names, schema
from rivermouth.spec import Flow

SOURCES = Path(rivermouth.__file__).parent
REPORT = Path(__file__).parents[1] / "data/reports/22"
# A name of ours, in a source.
OURS = re.compile(r"(?<![A-Za-z0-9_])__[a-z][a-z_]*[a-z](?![A-Za-z0-9_])")
THEIRS = (
    *reserved_names.READERS,
    *reserved_names.MERGES,
    *reserved_names.CHANGE_FEED,
    *("_metadata", "filePath", "rowIndexCol", "_corrupt_record", "_rescued", "_rescued_data", "_file", "file_path"),
    *(
        "_condition_",
        "__condition__",
        "_input_file_name_",
        "_source_row_index",
        "__delta_internal_row_index",
        "_row_id",
    ),
    *("_row_commit_version", "_change_data", "_delta_log", "row_index", "deletionVectorId", "add", "remove", "stats"),
    *("numRecords", "value", "key", "col", "s", "t", "w", "source", "target", "_c0", "_1", "__START_AT", "__END_AT"),
)
UPSERT = {"type": "upsert", "keys": ["id"]}
FLOWS = {
    "append": {},
    "exploded": {"explode": "items AS item"},
    "upsert": {"sink": UPSERT},
    "ordered": {"sink": {**UPSERT, "sequence_by": "seq", "apply_as_truncates": "seq < 0"}},
    "partial": {"sink": {**UPSERT, "sequence_by": "seq", "ignore_null_updates": True}},
    "history": {"sink": {"type": "history", "keys": ["id"], "sequence_by": "seq"}},
    "feed": {"sink": UPSERT, "table": {"name": "silver.feed", "properties": {"delta.enableChangeDataFeed": True}}},
}


def all_names():
    """All names of the kind that the sources use, and those of others."""
    found = {each for path in SOURCES.rglob("*.py") for each in OURS.findall(path.read_text(encoding="utf-8"))}
    return sorted({*found, *THEIRS})


def free_names(flow):
    """Those that a column of the flow's table can have."""
    found = Flow.model_validate({"name": "f", "topics": ["t"], "format": "text", "table": "s.t", **FLOWS[flow]})
    return [name for name in all_names() if name == "_rescued" or not schema.is_taken(found, name)]


class Project:
    """A project in the working folder, over one topic."""

    def __init__(self, folder, servers, topic, capsys):
        self.folder, self.servers, self.topic, self._capsys = folder, servers, topic, capsys
        self._producer = Producer({"bootstrap.servers": servers})

    def write(self, flows):
        body = {"lake": "./lake", "kafka": {"bootstrap_servers": self.servers}, "flows": flows}
        (self.folder / "rivermouth.yml").write_text(yaml.safe_dump(body, allow_unicode=True), encoding="utf-8")

    def send(self, *bodies, key=None):
        for body in bodies:
            self._producer.produce(self.topic, value=json.dumps(body).encode(), key=key)
        assert self._producer.flush(30) == 0

    def say(self, *arguments):
        code = invoke(list(arguments))
        out, err = self._capsys.readouterr()
        return code, out + err


@pytest.fixture
def project(tmp_path, monkeypatch, broker, topic, capsys, spark):
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path, broker.bootstrap_servers, topic(), capsys)


def declared(flow, topic):
    columns = ", ".join(f"`{name}` string" for name in free_names(flow))
    text = f"id bigint, seq bigint, items array<struct<id: bigint>>, {columns}"
    more = {"table": f"silver.{flow}", **FLOWS[flow]}
    return {"topics": [topic], "format": {"type": "json", "schema": text}, **more}


def test_each_value_comes_back(project):
    project.write({flow: declared(flow, project.topic) for flow in FLOWS})
    for way, keys in (("listed", (1, 2)), ("shuffled", (2, 3))):
        for key in keys:
            body = {"id": key, "seq": len(way), "items": [{"id": 1}]}
            project.send(body | {name: f"{name} {way}" for name in all_names()})
        with merging_by(way):
            code, said = project.say("run")
        assert code == 0, said
    for flow in FLOWS:
        found = rows_of(project.folder / "lake/silver" / flow)
        newest = {row["id"]: row for row in sorted(found, key=lambda row: row["seq"])}
        assert sorted(newest) == [1, 2, 3]
        for key, row in newest.items():
            way = "listed" if key == 1 else "shuffled"
            for name in free_names(flow):
                assert row[name] == f"{name} {way}", (flow, name)
    code, said = project.say("audit")
    assert code == 0, said


def test_a_name_that_is_in_the_way_is_refused_with_another_that_is_not(project):
    flow = {"topics": [project.topic], "table": "silver.orders", "sink": UPSERT}
    text = "id bigint, _row_id_ string"
    project.write({"orders": {**flow, "format": {"type": "json", "schema": text}}})
    code, said = project.say("validate")
    told = "flow orders: column '_row_id_' has a name that Delta's MERGE keeps for itself; nothing was run"
    assert (code, f"[COLUMN_RESERVED] {told}" in said) == (1, True), said
    hint = yaml.safe_load(said.partition("  hint: ")[2])
    project.write({"orders": {**flow, **hint, "format": {"type": "json", "schema": text}}})
    project.send({"id": 1, "_row_id_": "mine"})
    code, said = project.say("run")
    assert code == 0, said
    assert [row["row_id"] for row in rows_of(project.folder / "lake/silver/orders")] == ["mine"]


def test_the_reported_names(project):
    flows = yaml.safe_load((REPORT / "rivermouth.yml").read_text(encoding="utf-8"))["flows"]
    for flow in flows.values():
        flow["topics"] = [project.topic]
    project.write(flows)
    for file in ("messages.1.jsonl", "messages.2.jsonl"):
        lines = (REPORT / file).read_text(encoding="utf-8").splitlines()
        project.send(*(json.loads(line)["value"]["json"] for line in lines))
        code, said = project.say("run")
        assert code == 0, said
    keyed = rows_of(project.folder / "lake/silver/c22_keyed")
    assert {(row["user name"], row["a.b"]): (row["id"], row["_metadata"]) for row in keyed} == {
        ("ann", 1): (3, "m"),
        ("bob", 1): (2, "m"),
    }
    [found] = [row for row in rows_of(project.folder / "lake/silver/c22_infer") if row["id"] == 1]
    sent = json.loads((REPORT / "messages.1.jsonl").read_text(encoding="utf-8").splitlines()[0])["value"]["json"]
    kept = json.loads(next((project.folder / "lake/_rivermouth/schemas/c22_infer").glob("*.json")).read_text())
    columns = {each["metadata"].get("json_name", each["name"]): each["name"] for each in kept["schema"]["fields"]}
    assert columns.keys() == sent.keys()
    different = {name: column for name, column in columns.items() if name != column}
    assert {*different} >= {"", "__sequence", "kafka_offset", "ingested_at"}
    for name in sent.keys() - {"@timestamp", "a"}:
        assert found[columns[name]] == sent[name]
    [one] = [row for row in rows_of(project.folder / "lake/silver/c22_declared") if row["id"] == 1]
    assert (one["user name"], one["a.b"], one["a"]) == ("ann", 1, {"b": 2, "c d": 3, "e.f": 4})
