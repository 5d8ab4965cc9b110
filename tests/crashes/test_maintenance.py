"""A flow looks after its tables between batches and after a run, and nothing is lost, doubled or stopped by it."""

from __future__ import annotations

import itertools
import json
import os
import time

import pytest
from tests.crashes import oracle
from tests.crashes.scene import Scene

from rivermouth.domain.delta import maintenance
from rivermouth.engine.events import BatchDone, Maintained
from rivermouth.ports.delta.table_ledger import TableLedger
from rivermouth.ports.lake.lake_files import LocalFiles


def operations(location):
    """What Delta says was done, by version."""
    files = sorted(path for path in location.glob("_delta_log/*.json") if path.stem.isdecimal())
    lines = [line for file in files for line in file.read_text().splitlines()]
    return [action["commitInfo"]["operation"] for action in map(json.loads, lines) if "commitInfo" in action]


def kept(scene, table="silver.orders"):
    folder = scene.folder / "lake/_rivermouth/maintenance" / table
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


@pytest.mark.long
def test_a_flow_that_follows_optimizes_between_its_batches(broker, spark, tmp_path):
    schedule = {"optimize": "1 second", "vacuum": {"every": "1 hour", "retain": "1 hour", "even_below_168_hours": True}}
    scene = Scene.make(broker, tmp_path, maintenance=schedule)
    seeds, made, maintained = itertools.count(), [], []
    orphan = scene.table / "part-of-a-writer-that-died.parquet"

    def between(_run):
        if not made:
            made.append(orphan.write_bytes(b"x"))
            os.utime(orphan, (0, 0))
        if len(maintained) < 3:
            scene.produce(60, seed=next(seeds))

    def until(event):
        if isinstance(event, Maintained) and event.report.table == "silver.orders":
            maintained.append(event.report)
        return len(maintained) >= 3 and isinstance(event, BatchDone)

    outcome = scene.follow(spark, until=until, between_batches=between)
    assert outcome.error is None, str(outcome.error)
    assert scene.drain(spark).error is None
    found = scene.audit()
    assert found.is_clean, str(found)
    done = operations(scene.table)
    assert done.count("OPTIMIZE") >= 2
    first, last = done.index("OPTIMIZE"), len(done) - done[::-1].index("WRITE")
    assert "WRITE" in done[:first]
    assert "WRITE" in done[first:last]
    assert not orphan.exists()
    optimized = [report for report in maintained if report.operation == "optimize"]
    assert all(report.error is None for report in maintained)
    assert all(report.after.files < report.before.files for report in optimized)
    assert [entry["entry"] for entry in oracle.ledger_of(scene.table)] == list(range(done.count("WRITE") + 1))
    assert {report["operation"] for report in kept(scene)} == {"optimize", "vacuum"}


@pytest.fixture(scope="module")
def drained(broker, spark, tmp_path_factory):
    """A flow that has drained its topic in several batches, without maintenance; and more records for it."""
    scene = Scene.make(broker, tmp_path_factory.mktemp("maintained"), trigger={"max_offsets": 200})
    scene.produce(600)
    assert scene.drain(spark).error is None
    scene.produce(200, seed=2)
    return scene


def go_on(scene, spark):
    outcome = scene.drain(spark)
    assert outcome.error is None, str(outcome.error)
    found = scene.audit()
    assert found.is_clean, str(found)


@pytest.mark.long
def test_after_a_run_that_drained_the_tables_are_looked_after(drained, spark, tmp_path):
    scene = drained.copy(tmp_path, maintenance="after_run")
    go_on(scene, spark)
    (report,) = [each.report for each in scene.told(Maintained) if each.report.table == "silver.orders"]
    assert (report.operation, report.after.files) == ("optimize", 1)
    # Nothing was old enough to go; that it was looked at is kept, and not told.
    assert [each["operation"] for each in kept(scene)] == ["optimize", "vacuum"]
    assert oracle.files_of(scene.table) <= {path.name for path in scene.table.glob("*.parquet")}
    # Neither is it time again, nor is there anything new.
    go_on(scene, spark)
    assert len(kept(scene)) == 2
    scene.send(b'{"id": 1, "amount": 1.5, "name": "one", "at": "2026-01-31T12:00:00Z"}')
    go_on(scene, spark)
    assert len(kept(scene)) == 4


@pytest.mark.long
def test_maintenance_that_fails_stops_nothing(drained, spark, tmp_path):
    scene = drained.copy(tmp_path, maintenance={"optimize": "daily"})
    # Whatever removed it: OPTIMIZE cannot read it.
    min(scene.table.glob("*.parquet")).unlink()
    outcome = scene.drain(spark)
    assert outcome.error is None
    assert outcome.counts.consumed > 0
    (report,) = [each.report for each in scene.told(Maintained) if each.report.table == "silver.orders"]
    assert report.error is not None
    assert report.error.startswith("optimize of table silver.orders failed: ")
    assert report.error.endswith("; no row of it was changed")
    (written,) = kept(scene)
    assert written["error"] == report.error
    assert "OPTIMIZE" not in operations(scene.table)


@pytest.mark.long
def test_the_entry_is_carried_forward_before_its_log_is_cleaned(drained, spark, tmp_path, monkeypatch):
    scene = drained.copy(tmp_path, maintenance={"optimize": "daily"})
    monkeypatch.setattr(maintenance, "ENTRY_AGE_S", 0.0)
    go_on(scene, spark)
    entries = oracle.ledger_of(scene.table)
    assert [entry["kind"] for entry in entries[-2:]] == ["batch", "maintenance"]
    assert operations(scene.table)[-3:] == ["WRITE", "OPTIMIZE", "WRITE"]
    # Delta cleans what is older than a checkpoint; the side file goes too, and all caches with them.
    jvm = spark._jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, str(scene.table)).checkpoint()
    for path in sorted(scene.table.glob("_delta_log/*.json"))[:-1]:
        path.unlink()
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    scene.side_file.unlink()
    ledger = TableLedger(LocalFiles(), str(scene.table), str(scene.side_file), flow="shop")
    assert ledger.position().entry.kind == "maintenance"
    scene.produce(100, seed=3)
    go_on(scene, spark)


@pytest.mark.long
def test_an_entry_that_is_young_is_not_written_again(drained, spark, tmp_path):
    scene = drained.copy(tmp_path, maintenance="after_run")
    go_on(scene, spark)
    assert "maintenance" not in {entry["kind"] for entry in oracle.ledger_of(scene.table)}


@pytest.mark.long
def test_what_ran_by_hand_is_not_due(drained, spark, tmp_path):
    scene = drained.copy(tmp_path, maintenance={"optimize": "daily"})
    folder = scene.folder / "lake/_rivermouth/maintenance/silver.orders"
    folder.mkdir(parents=True)
    (folder / maintenance.report_name("optimize", time.time() - 80000)).write_text("{}")
    go_on(scene, spark)
    assert "OPTIMIZE" not in operations(scene.table)
