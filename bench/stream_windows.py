"""Windowed state of many keys in a driver with two gigabytes: it is filled, and then its window is closed."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from deltalake import DeltaTable, QueryBuilder

from bench import records
from bench.groups import Bench, WrongRows
from bench.parent import Measured, Worker, remove

_EACH: Final = 2
"""Records of a key; their times are one millisecond apart, so all are in one window."""
_BATCHES: Final = 8
_HOUR_MS: Final = 3_600_000
_HOURS: Final = 24
_TABLE: Final = "lake/main/by_id"
_PIPELINE: Final = """
from pyspark import pipelines as dp
from pyspark.sql.functions import col, count, from_json, sum as total, window


@dp.table
def by_id():
    stream = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "{servers}")
    stream = stream.option("subscribe", "{topic}").option("startingOffsets", "earliest")
    rows = stream.option("maxOffsetsPerTrigger", "{batch}").load()
    rows = rows.select(from_json(col("value").cast("string"), "{schema}").alias("row")).select("row.*")
    groups = rows.withWatermark("updated_at", "1 hour").groupBy(window("updated_at", "{hours} hours"), "id")
    sums = groups.agg(count("*").alias("changes"), total("version").alias("versions"))
    return sums.select("id", col("window.start").alias("start"), "changes", "versions")
"""


def windows(bench: Bench, worker: Worker) -> dict[str, Any]:
    """Counts of all keys in one window that is open, and its rows when a newer record has closed it."""
    keys, topic, folder = bench.sizes.window_keys, "windows", bench.folder / "windows"
    records.fill_changes(bench.servers, topic, ((number % keys, number) for number in range(_EACH * keys)))
    _write(bench, folder, topic, _EACH * keys // _BATCHES)
    filled, _ = worker.run("update", str(folder))
    _check(folder, 0, keys)
    newer = keys, 3 * _HOURS * _HOUR_MS
    records.fill_changes(bench.servers, topic, [newer], more=True)
    closed, _ = worker.run("update", str(folder))
    _check(folder, keys, keys)
    remove(folder)
    bench.say(f"  {keys:,} keys of windowed state: {_told(filled)}; closed in {_told(closed)}")
    return {"keys": keys, "records": _EACH * keys, "filled": asdict(filled), "closed": asdict(closed)}


def _told(measured: Measured) -> str:
    return f"{measured.seconds:.1f} s, {measured.cpu_s:.1f} CPU-s, peak RSS {measured.rss_bytes / 2**30:.2f} GiB"


def _write(bench: Bench, folder: Path, topic: str, batch: int) -> None:
    folder.mkdir(parents=True)
    (folder / "pipeline.yml").write_text("name: bench\nschema: main\nlibraries:\n  - file: {path: by_id.py}\n")
    texts = {"servers": bench.servers, "topic": topic, "schema": records.CHANGES_SCHEMA}
    (folder / "by_id.py").write_text(_PIPELINE.format(batch=batch, hours=_HOURS, **texts))


def _check(folder: Path, rows: int, keys: int) -> None:
    """Checks that the table has these rows: each key once, with the sums of its records.

    Raises:
        WrongRows: It has others.
    """
    found = QueryBuilder().register("t", DeltaTable(folder / _TABLE))
    right = f"changes = {_EACH} AND versions = 2 * id + {keys}"  # versions: id and keys + id
    columns = found.execute(f"SELECT count(*), count(DISTINCT id), count(*) FILTER (WHERE {right}) FROM t").read_all()
    counts = tuple(column[0].as_py() for column in columns.columns)
    if counts != (rows, rows, rows):
        message = f"windows: {counts} rows, keys and right sums; {rows} were expected"
        raise WrongRows(message)
