"""Snapshots that are no messages: versions of a Delta table, and files. No broker is asked."""

from __future__ import annotations

import datetime as dt
import json
import shutil
import threading
import time
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.crashes.oracle import rows_of

from rivermouth import Project
from rivermouth.cli.main import invoke
from rivermouth.domain.project.snapshot_location import SnapshotPlace
from rivermouth.engine.events import BatchDone
from rivermouth.ports.lake.lake_files import LocalFiles
from rivermouth.ports.sources.snapshot_source import SnapshotSource
from rivermouth.project.commands import managed_session, run_flows

PROJECT = """\
lake: ./lake
kafka: {{bootstrap_servers: "127.0.0.1:1"}}
flows:
  stock:
    source: {source}
    format: {{type: json, schema: "{schema}"}}
    sink: {{type: {kind}, from: snapshot, {sink}}}
    table: silver.stock
{more}"""
SCHEMA = "id int, v decimal(6,2), at timestamp"


class Mirrored:
    def __init__(self, folder, capsys, spark):
        self.folder, self.spark, self._capsys = folder, spark, capsys
        self.source = str(folder / "erp/stock")

    def write(self, source, *, kind="upsert", sink="keys: [id]", schema=SCHEMA, more=""):
        text = PROJECT.format(source=source, kind=kind, sink=sink, schema=schema, more=more)
        (self.folder / "rivermouth.yml").write_text(text)

    def sql(self, text):
        sql(self.spark, self.source, text)

    def say(self, *arguments):
        code = invoke(list(arguments))
        out, err = self._capsys.readouterr()
        return code, out + err

    def run(self):
        code, told = self.say("run")
        assert code == 0, told
        return told

    def rows(self, *names):
        return sorted(tuple(row[name] for name in names) for row in rows_of(self.folder / "lake/silver/stock"))

    def letters(self):
        found = rows_of(self.folder / "lake/silver/stock__dead_letters")
        return sorted((row["kafka_offset"], row["reason"], row["field"]) for row in found)


@pytest.fixture
def stock(tmp_path, monkeypatch, capsys, spark):
    monkeypatch.chdir(tmp_path)
    return Mirrored(tmp_path, capsys, spark)


def sql(spark, place, text):
    spark.sql(text.format(t=f"delta.`{place}`")).collect()


COLUMNS = "(id INT, v DECIMAL(6,2), at TIMESTAMP)"


def table_at(spark, place):
    for text in (
        f"CREATE TABLE {{t}} {COLUMNS} USING delta",
        # A file for each row, so that OPTIMIZE has something to do.
        (
            "INSERT INTO {t} SELECT /*+ REPARTITION(3) */ * FROM VALUES "
            "(1, 1.50, TIMESTAMP '2026-01-01 00:00:00.000001'), (2, 2, NULL), (3, 3, NULL)"
        ),
        "DELETE FROM {t} WHERE id = 2",
        "OPTIMIZE {t}",
        "UPDATE {t} SET v = 30 WHERE id = 3",
    ):
        sql(spark, place, text)


@pytest.fixture(scope="module")
def erp(spark, tmp_path_factory):
    """A table of another program, made once; each test takes a copy."""
    place = tmp_path_factory.mktemp("erp") / "stock"
    table_at(spark, place)
    return place


@pytest.fixture
def with_table(stock, erp):
    shutil.copytree(erp, stock.source)
    return stock


@pytest.mark.long
def test_a_table_equals_the_newest_version_of_another(with_table):
    stock = with_table
    stock.write(f"{{versions_of: {stock.source}}}")
    assert stock.say("validate")[0] == 0
    code, told = stock.say("plan")
    assert code == 0, told
    told = stock.run()
    at = dt.datetime(2026, 1, 1, 0, 0, 0, 1)
    assert [
        (row[0], row[1], row[2].replace(tzinfo=None) if row[2] else None) for row in stock.rows("id", "v", "at")
    ] == [
        (1, Decimal("1.50"), at),
        (3, Decimal("30.00"), None),
    ]
    stock.sql("INSERT INTO {t} VALUES (4, 4, NULL)")
    stock.sql("DELETE FROM {t} WHERE id = 1")
    code, told = stock.say("status")
    assert (code, "behind" in told or "lag" in told) == (0, True), told
    stock.run()
    assert stock.rows("id", "kafka_topic") == [(3, "stock"), (4, "stock")]
    versions = {row["kafka_offset"] for row in rows_of(stock.folder / "lake/silver/stock")}
    assert versions == {6}
    code, told = stock.say("audit")
    assert code == 0, told


@pytest.mark.long
def test_a_history_has_what_each_version_had(stock, erp):
    stock.write("{versions_of: silver.erp}", kind="history", sink="keys: [id], sequence_by: kafka_offset")
    shutil.copytree(erp, stock.folder / "lake/silver/erp")
    stock.run()
    assert stock.rows("id", "v", "__START_AT", "__END_AT") == [
        (1, Decimal("1.50"), 1, None),
        (2, Decimal("2.00"), 1, 2),
        (3, Decimal("3.00"), 1, 4),
        (3, Decimal("30.00"), 4, None),
    ]


@pytest.mark.long
def test_a_flow_that_follows_carries_versions_as_they_come(with_table):
    stock = with_table
    stock.write(f"{{versions_of: {stock.source}}}", more="    trigger: {every: 300 ms}\n")
    heard, stop = [], managed_session.Stop()
    hooks = managed_session.RunHooks(listener=heard.append, stop=stop)
    project = Project.load("rivermouth.yml")
    outcomes = []
    run = threading.Thread(
        target=lambda: outcomes.extend(run_flows.run(project, follow=True, hooks=hooks)), daemon=True
    )
    run.start()

    def until(number):
        deadline = time.monotonic() + 60
        while sum(isinstance(each, BatchDone) for each in heard) < number:
            assert time.monotonic() < deadline, heard
            time.sleep(0.05)

    try:
        until(1)
        stock.sql("DELETE FROM {t} WHERE id = 3")
        until(2)
    finally:
        stop.ask()
        run.join(60)
    assert [each.error for each in outcomes] == [None]
    assert stock.rows("id") == [(1,)]


@pytest.mark.long
def test_the_newest_file_by_the_version_in_its_name_is_the_table(stock):
    folder = stock.folder / "exports"
    folder.mkdir()
    stock.write('{files: "exports/stock-{version}.json"}', schema="id int, note string")
    (folder / "stock-2026-02-01T0300.json").write_text(json.dumps([{"id": 1}]))
    (folder / "stock-2026-01-31.json").write_text(json.dumps([{"id": 1, "note": "a"}, {"id": 2}]))
    (folder / "stock-2026-02-01.json").write_text(json.dumps([{"id": 1}, {"id": 1}]))
    (folder / "stock-202602020000.json").write_text(json.dumps([{"id": 3, "note": 1.10}]))
    (folder / "stock-new.json").write_text("nothing")
    stock.run()
    assert stock.letters() == [(20260201, "KEY_TWICE", None)]
    assert stock.rows("id", "note", "kafka_offset") == [(3, "1.1", 202602020000)]


@pytest.mark.long
def test_files_are_snapshots_by_the_version_in_their_name(stock):
    folder = stock.folder / "exports"
    folder.mkdir()
    stock.write('{files: "exports/stock-{version}.json"}', schema="id int, note string")
    stock.run()
    assert stock.rows("id") == []
    (folder / "stock-2026-01-31.json").write_text(json.dumps([{"id": 1, "note": "a"}, {"id": 2}]))
    (folder / "stock-2026-02-01T0300.json").write_text("[]")
    (folder / "stock-2026-02-01.json").write_text(json.dumps([{"id": 1}, {"id": 1}]))
    (folder / "stock-new.json").write_text("nothing")
    stock.run()
    assert stock.letters() == [(20260201, "KEY_TWICE", None)]
    assert stock.rows("id") == []
    (folder / "stock-202602020000.json").write_text(json.dumps([{"id": 3, "note": 1.10}]))
    stock.run()
    assert stock.rows("id", "note", "kafka_offset") == [(3, "1.1", 202602020000)]
    # An older one that comes later is none.
    (folder / "stock-2026-01-01.json").write_text(json.dumps([{"id": 9}]))
    stock.run()
    assert stock.rows("id") == [(3,)]


@pytest.mark.long
@pytest.mark.parametrize("end", ["jsonl", "parquet"])
def test_files_of_rows(stock, end):
    folder = stock.folder / "exports"
    folder.mkdir()
    stock.write(f'{{files: "exports/{{version}}.{end}"}}', schema="id bigint, note string, v double")

    def export(version, rows):
        path = folder / f"{version}.{end}"
        if end == "jsonl":
            path.write_text("\n".join([*map(json.dumps, rows), "", " \t"]))
        else:
            pq.write_table(pa.Table.from_pylist(rows), path)

    export(1, [{"id": 1, "note": "a\nb"}, {"id": 2, "note": "ä"}])
    stock.run()
    assert stock.rows("id", "note") == [(1, "a\nb"), (2, "ä")]
    number = {} if end == "jsonl" else {"v": float("nan")}
    export(7, [{"id": 2, "note": None, **number}, {"id": 3, "v": 1.5}])
    (folder / "08.jsonl").write_bytes(b'{"id": 1}\n{"id": "\xff"}')
    stock.run()
    assert stock.rows("id", "note") == [(2, None), (3, None)]
    assert [str(v) for _, v in stock.rows("id", "v")] == ["None" if end == "jsonl" else "nan", "1.5"]
    if end == "jsonl":
        assert stock.letters() == [(8, "INVALID_UTF8", None)]


def unfit(place, detail, hint):
    what = f"flow stock: {place} cannot be read as a snapshot: {detail}; nothing was written"
    return f"[SNAPSHOT_SOURCE_UNFIT] {what}\n  at: rivermouth.yml:4\n  hint: {hint}\n"


def test_what_cannot_be_read_is_told_in_whole(stock):
    stock.write("{versions_of: erp.none}")
    none = unfit("erp.none", "there is no table", "name the table as schema.table, or by its path")
    assert none in stock.say("run")[1]
    anew = f"table {stock.folder}/lake/silver/stock is not rebuilt: the flow reads snapshots"
    assert stock.say("rebuild", "stock", "--why", "test")[1] == (
        f"[REBUILD_REFUSED] flow stock: {anew}, and the next one brings all rows; nothing was changed\n"
        "  at: rivermouth.yml:4\n  hint: rivermouth run stock\n"
    )
    folder = stock.folder / "exports"
    folder.mkdir()
    for name in ("1.json", "01.json"):
        (folder / name).write_text("[]")
    stock.write('{files: "exports/{version}.json"}')
    twice = unfit("exports/{version}.json", "01.json and 1.json have one version, 1", "mv 1.json another-folder/")
    assert twice in stock.say("run")[1]
    (folder / "01.json").unlink()
    stock.write('{files: "exports/{version}.json", max_bytes: 1}')
    large = "it has 2 bytes on storage, and at most 1 are read at once"
    hint = "where a worker has the memory for it: source: {..., max_bytes: 2}"
    assert unfit("file 1.json", large, hint) in stock.say("run")[1]


def look_after(place):
    """Two versions more, which change no row."""
    for days in (1, 2):
        DeltaTable(place).alter.set_table_properties({"delta.logRetentionDuration": f"interval {days} days"})


def forget(place):
    """What Delta does to a log that is older than its retention: no commit before the newest checkpoint is kept."""
    table = DeltaTable(place)
    table.create_checkpoint()
    for version in range(table.version()):
        (Path(place) / f"_delta_log/{version:020d}.json").unlink(missing_ok=True)


def test_versions_that_change_no_row_move_the_end(tmp_path):
    place = tmp_path / "erp/stock"
    write_deltalake(place, pa.table({"id": [1, 2]}))
    write_deltalake(place, pa.table({"id": [3]}), mode="append")
    found = SnapshotPlace(str(place), "erp.stock", is_table=True, max_bytes=1)
    source = SnapshotSource(found, LocalFiles(), reader="stock")

    def range_of_versions():
        topics = source.topics(None)
        assert [*topics] == ["erp.stock"]
        return source.beginning_offsets(topics)["erp.stock"][0], source.end_offsets(topics)["erp.stock"][0]

    assert range_of_versions() == (0, 2)
    DeltaTable(place).optimize.compact()
    assert (range_of_versions(), source._feed.versions()) == ((0, 3), [0, 1])
    look_after(place)
    assert (range_of_versions(), source._feed.versions()) == ((0, 5), [0, 1])
    forget(place)
    assert (range_of_versions(), source._feed.versions()) == ((4, 5), [4])
    assert [*source._feed._known] == [4]


@pytest.mark.long
def test_versions_that_vacuum_took_and_a_table_that_was_made_anew(stock):
    # By another writer than Spark, which leaves no file of version 1.
    schema = pa.schema([("id", pa.int32()), ("v", pa.decimal128(6, 2)), ("at", pa.timestamp("us", tz="UTC"))])
    write_deltalake(stock.source, schema.empty_table())
    write_deltalake(stock.source, pa.Table.from_pylist([{"id": number} for number in (1, 2, 3)], schema), mode="append")
    table = DeltaTable(stock.source)
    table.delete("id = 2")
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    stock.write(f"{{versions_of: {stock.source}}}")
    code, told = stock.say("run")
    assert code == 1
    assert (f"[SNAPSHOT_SOURCE_UNFIT] flow stock: version 1 of {stock.source} cannot be read as a snapshot: ") in told
    assert "VACUUM deleted them; nothing was written" in told
    assert "  hint: start behind it: starting_offsets: latest, or {stock: {0: 2}}\n" in told
    stock.write(f"{{versions_of: {stock.source}}}", more="    starting_offsets: latest\n    previously: none\n")
    shutil.rmtree(stock.folder / "lake")
    stock.write(f"{{versions_of: {stock.source}}}", more="    starting_offsets: latest\n")
    stock.run()
    assert stock.rows("id") == [(1,), (3,)]
    # A table that is looked after and not changed: its log forgets the last change, and what came behind it.
    look_after(stock.source)
    stock.run()
    forget(stock.source)
    stock.run()
    assert stock.rows("id", "kafka_offset") == [(1, 2), (3, 2)]
    shutil.rmtree(stock.source)
    write_deltalake(stock.source, schema.empty_table())
    code, told = stock.say("run")
    assert (code, "[TOPIC_RECREATED]" in told) == (1, True), told
