"""A pipeline over a topic, a Delta table and a folder, ended at its steps, and what its tables must hold then."""

from __future__ import annotations

import json
import shutil
import signal
from collections import Counter

from confluent_kafka import Producer
from tests.pipelines.conftest import PipelineFolder

from rivermouth.engine.query import query_events as ev
from rivermouth.pipelines import commands
from rivermouth.pipelines.audit import audited

STEPS = ("files", "check", "hold", "cdc", "write", "written", "dead_letters", "BatchWritten", "sink", "sink_written")
HARMS = ("kept", "older", "deleted", "damaged")
ROWS = 40
SCHEMA = "id bigint, key string, seq bigint, op string, source string"
PIPELINE = """
from pyspark import pipelines as dp
from pyspark.sql.functions import col, count, from_json, lit, sum as total

SCHEMA = "{schema}"
SOURCES = "{sources}".split()
ALL = len(SOURCES) > 1
FEW = {few}


def kafka():
    stream = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "{servers}")
    stream = stream.option("subscribe", "{topic}").option("startingOffsets", "earliest")
    return stream.load().select(from_json(col("value").cast("string"), SCHEMA).alias("row")).select("row.*")


def delta():
    return spark.readStream.format("delta").load("{outside}")


def files():
    return spark.readStream.schema(SCHEMA).json("in")


def both():
    return kafka().unionByName(files())


def targets(name, source):
    @dp.table(name=f"append_{{name}}")
    @dp.expect_or_drop("kept", "id % 11 <> 0")
    @dp.expect_or_dead_letter("good", "id % 7 <> 0")
    def append():
        return source()

    @dp.temporary_view(name=f"changes_{{name}}")
    def changes():
        return source()

    for scd in () if FEW else (1, 2) if ALL else (2,):
        target = f"scd{{scd}}_{{name}}"
        dp.create_streaming_table(target, expect_all_or_dead_letter={{"good": "id % 7 <> 0"}})
        dp.create_auto_cdc_flow(
            target=target, source=f"changes_{{name}}", keys=["key"], sequence_by="seq",
            apply_as_deletes="op = 'D'", except_column_list=["op"], stored_as_scd_type=scd,
        )


    if ALL:
        dp.create_sink(f"copied_{{name}}", "delta", {{"path": f"lake/default/copied_{{name}}"}})

        @dp.append_flow(target=f"copied_{{name}}", name=f"copy_{{name}}")
        def copy():
            return source()

    @dp.foreach_batch_sink(name=f"collected_{{name}}")
    def collected(frame, batch_id):
        rows = frame.select("id", "source", lit(batch_id).alias("batch"))
        rows.write.format("delta").mode("append").save(f"{folder}/lake/default/collected_{{name}}")

    @dp.append_flow(target=f"collected_{{name}}", name=f"collect_{{name}}")
    def collect():
        return source()


for each in SOURCES:
    targets(each, globals()[each])

if ALL:
    @dp.table
    def stateful_kafka():
        return kafka().dropDuplicates(["id"])

    @dp.table
    def stateful_files():
        return files().groupBy("key").agg(count("*").alias("n"), total("id").alias("ids"))


if not FEW:
    @dp.materialized_view
    @dp.expect_or_dead_letter("good", "key <> 'k3'")
    def totals():
        rows = spark.read.table("outside.rows")
        return rows.groupBy("key").agg(count("*").alias("n"), total("id").alias("ids"))
"""


class _End(Exception):
    """Ends a batch at a step."""


class Feed:
    """A pipeline over a topic, a Delta table and a folder, and the rows that it was given.

    With ``few`` targets it appends the files, and gives them to a function.
    """

    def __init__(self, folder, spark, servers=None, topic=None, *, few=False):
        self.few = few
        self.folder, self.spark, self.topic = folder, spark, topic
        self.pipeline = PipelineFolder(folder)
        self.outside = str(folder / "lake/outside/rows")
        self.sources = ("kafka", "delta", "files", "both") if servers else ("files",)
        self.producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True}) if servers else None
        self.all = len(self.sources) > 1
        self.given = {"kafka": [], "delta": [], "files": []}
        self.rounds = 0
        texts = {"schema": SCHEMA, "servers": servers, "topic": topic, "outside": self.outside, "folder": folder}
        texts["few"] = few
        self.pipeline.write("pipeline.yml", "name: shop\nlibraries:\n  - file: {path: a.py}\n")
        self.pipeline.write("a.py", PIPELINE.format(sources=" ".join(self.sources), **texts))

    def more(self):
        """Rows for each source; a tenth of Kafka's comes twice."""
        first, self.rounds = self.rounds * ROWS, self.rounds + 1
        for place, source in enumerate(self.given):
            rows = [
                {
                    "id": number,
                    "key": f"k{number % 5}",
                    "seq": 3 * number + place,
                    "op": "D" if number % 13 == 0 else "U",
                    "source": source,
                }
                for number in range(first, first + ROWS)
            ]
            self.given[source] += rows
            if source == "kafka":
                for row in rows if self.producer else ():
                    self.producer.produce(self.topic, json.dumps(row), partition=row["id"] % 2)
                if self.producer:
                    self.producer.flush(30)
            elif source == "files":
                self.pipeline.feed(f"in/{self.rounds}.json", *rows)
            elif not self.few:
                frame = self.spark.createDataFrame([tuple(row.values()) for row in rows], SCHEMA)
                frame.coalesce(1).write.format("delta").mode("append").save(self.outside)

    @property
    def checkpoints(self):
        return self.folder / "lake/_rivermouth/pipelines/shop/checkpoints"

    @property
    def backup(self):
        return self.folder / "backup"

    def keep_checkpoints(self):
        """Copies them, as a backup would."""
        if self.checkpoints.exists():
            shutil.rmtree(self.backup, ignore_errors=True)
            shutil.copytree(self.checkpoints, self.backup)

    def run(self, at=()):
        """The outcomes by dataset; each batch that comes to one of the steps ends there."""
        events = []

        def end(name):
            if name in at:
                raise _End(name)

        def hear(event):
            events.append(event)
            end(type(event).__name__)

        (pipeline,) = commands.pipelines(self.folder)
        found = commands.run(pipeline, commands.UpdateOptions(listener=hear, step=end))
        return {each.dataset: each for each in found}, events

    def killed(self, children, at):
        """A process that runs it is killed at the first batch that comes to the step."""
        child = children.run(self, own_jvm=False, kill={"on": at, "who": "python"})
        children.get_ready(own_jvm=False)
        assert child.code == -signal.SIGKILL, (at, child.events, child.said())
        child.wait_until_its_jvm_rests()

    def to_json(self):
        return {"pipeline": str(self.folder)}

    def rows(self, table, columns="*"):
        if not (self.folder / "lake/default" / table / "_delta_log").exists():
            return []
        return self.pipeline.rows(f"default.{table}", columns)

    def source(self, name):
        return self.given["kafka"] + self.given["files"] if name == "both" else self.given[name]


def expected(feed):
    """What each table must hold, worked out from the rows that were given."""
    found = {}
    for name in feed.sources:
        rows = feed.source(name)
        good, letters = [row for row in rows if row["id"] % 7], [row for row in rows if row["id"] % 7 == 0]
        found[f"collected_{name}"] = _named(rows)
        found[f"append_{name}"] = _named(row for row in good if row["id"] % 11)
        found |= {f"{each}_{name}__dead_letters": _named(letters) for each in ("append", "scd2")}
        newest, versions = {}, []
        for row in sorted(good, key=lambda row: row["seq"]):
            before = newest.get(row["key"])
            if before is not None:
                versions.append((before["seq"], row["seq"]))
            newest[row["key"]] = None if row["op"] == "D" else row
        there = [row for row in newest.values() if row is not None]
        found[f"scd2_{name}"] = [*versions, *((row["seq"], None) for row in there)]
        if feed.all:
            found[f"copied_{name}"] = found[f"collected_{name}"]
            found |= {f"scd1_{name}": _named(there), f"scd1_{name}__dead_letters": _named(letters)}
    if feed.all:
        found["stateful_kafka"] = _named(feed.given["kafka"])
        found["stateful_files"] = _sums(feed.given["files"])
    found["totals"] = [each for each in _sums(feed.given["delta"]) if each[0] != "k3"]
    return {name: rows for name, rows in found.items() if not (feed.few and name.startswith(("scd2", "totals")))}


def _named(rows):
    return [(row["id"], row["source"]) for row in rows]


def _sums(rows):
    keys = {row["key"] for row in rows}
    each = {key: [row["id"] for row in rows if row["key"] == key] for key in keys}
    return [(key, len(ids), sum(ids)) for key, ids in each.items()]


def columns_of(table):
    if table.endswith("__dead_letters"):
        return "\"row\"['id'], \"row\"['source']"
    if table.startswith("scd2"):
        return "__START_AT, __END_AT"
    return "*" if table in ("stateful_files", "totals") else "id, source"


def lost_and_doubled(feed, tables, *, once=True):
    """By table what is not there, and what is there too often or must not be.

    Args:
        feed: What was given.
        tables: What each table must hold.
        once: Whether sinks of Spark's have each row once; else at least once.
    """
    found = {}
    for table, rows in tables.items():
        there, wanted = Counter(feed.rows(table, columns_of(table))), Counter(rows)
        if lost := wanted - there:
            found[table, "lost"] = [*lost.elements()][:5]
        # A function gets a batch again when a run has ended behind it.
        repeats = table.startswith("collected") or (not once and table.startswith("copied"))
        more = set(there) - set(wanted) if repeats else (there - wanted).elements()
        if doubled := [*more][:5]:
            found[table, "doubled"] = doubled
    return found


def harm(feed, how):
    """What becomes of the checkpoints when a process has ended.

    They stay, are deleted, are older ones (those of a backup), or have files that are cut off. Cut off are those of
    tables whose queries keep no state: other queries, and sinks of Spark's, say then that they cannot go on.
    """
    if how in ("deleted", "older"):
        shutil.rmtree(feed.checkpoints, ignore_errors=True)
    if how == "older" and feed.backup.exists():
        shutil.copytree(feed.backup, feed.checkpoints)
    if how == "damaged":
        of_tables = [each for name in ("append", "scd") for each in feed.checkpoints.glob(f"*{name}*/*")]
        for file in (each for flow in of_tables for each in flow.glob("[oc]*s/[0-9]*")):  # offsets, commits
            # As in a store without files of checksums.
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
            file.write_bytes(file.read_bytes()[:4])


def run_to_the_end_of_each(feed, rounds, how):
    """Runs that end at these steps, one round after the other, and one that does not end."""
    lost_state = set()
    for steps in rounds:
        feed.more()
        feed.keep_checkpoints()
        outcomes, _ = feed.run(at=steps)
        codes = {name: each.error.code for name, each in outcomes.items() if each.error is not None}
        lost_state |= {name for name, code in codes.items() if code == "QUERY_STATE_LOST"}
        assert "QUERY_FAILED" in codes.values(), (steps, codes)
        assert set(codes.values()) <= {"QUERY_FAILED", "QUERY_STATE_LOST"}, codes
        assert_nothing_doubled(feed, steps)
        harm(feed, how)
    assert_whole(feed, lost_state, how)


def assert_nothing_doubled(feed, step):
    appended = {
        name: rows for name, rows in expected(feed).items() if name.startswith("append") or name.endswith("_letters")
    }
    assert not {key: rows for key, rows in lost_and_doubled(feed, appended).items() if key[1] == "doubled"}, step
    assert_audited(feed)


def assert_audited(feed):
    (pipeline,) = commands.pipelines(feed.folder)
    found = audited(pipeline)
    assert {each.dataset: each.problems for each in found} == {each.dataset: () for each in found}
    return found


def assert_whole(feed, lost_state, how):
    """After another run everything is where it belongs, and a second one has nothing to do."""
    for _ in range(2):
        events = assert_carried(feed, lost_state, how)
    if how == "kept":
        assert_one_batch_each(feed)
    # Stateless queries never stop; those with state only where theirs is gone.
    assert lost_state <= ({"stateful_kafka", "stateful_files"} if how in ("older", "deleted") else set())
    assert not [each for each in events if isinstance(each, ev.BatchWritten)]


def assert_carried(feed, lost_state, how):
    """After another run everything is where it belongs; the events of that run."""
    outcomes, events = feed.run()
    codes = {name: each.error.code for name, each in outcomes.items() if each.error is not None}
    lost_state |= set(codes)
    assert set(codes.values()) <= {"QUERY_STATE_LOST"}, {name: str(each.error) for name, each in outcomes.items()}
    wanted = {name: rows for name, rows in expected(feed).items() if name not in lost_state}
    assert lost_and_doubled(feed, wanted, once=how == "kept") == {}
    found = assert_audited(feed)
    assert not [each for each in found if "next update" in " ".join(each.not_compared)]
    rows = {each.dataset.removeprefix("default."): each.rows for each in found}
    audit = {name: rows[name] for name in rows if name.startswith("append")}
    assert audit == {name: len(wanted[name]) for name in audit}
    return events


def assert_one_batch_each(feed):
    """What a function got again, it got with the same number."""
    for name in feed.sources:
        rows = set(feed.rows(f"collected_{name}", "id, source, batch"))
        assert len(rows) == len({row[:2] for row in rows})
