"""What tests of pipelines share: a pipeline written into a folder, run in the suite's session, and read back."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from deltalake import DeltaTable, QueryBuilder
from pyspark import SparkContext
from pyspark.sql.utils import ForeachBatchFunction

from rivermouth.errors import RivermouthError


@dataclass
class PipelineFolder:
    """A pipeline in a folder.

    Attributes:
        folder: The folder.
        events: What the last run told.
    """

    folder: Path
    events: list = field(default_factory=list)

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def feed(self, name, *rows):
        self.write(name, "".join(f"{json.dumps(row)}\n" for row in rows))

    def define(self, text, *changes):
        """Writes ``src/a.sql``: a text for the folder, in which each first part of ``changes`` is its second one."""
        for before, after in changes:
            assert before in text
            text = text.replace(before, after)
        self.write("src/a.sql", text.replace("{folder}", str(self.folder)))

    def table(self, name):
        return DeltaTable(self.folder / f"lake/default/{name}")

    def pipeline(self, **params):
        from rivermouth.pipelines import commands

        (found,) = commands.pipelines(self.folder, params=params)
        return found

    def run(self, *, step=None, **selection):
        """The outcomes by dataset; ``step`` hears each step of each batch."""
        from rivermouth.pipelines import commands
        from rivermouth.pipelines.selection import Selection

        self.events = []
        options = commands.UpdateOptions(Selection(**selection), False, self.events.append, step or (lambda _: None))
        return {each.dataset: each for each in commands.run(self.pipeline(), options)}

    def plan(self, **selection):
        from rivermouth.pipelines import commands
        from rivermouth.pipelines.running.plan import plan
        from rivermouth.pipelines.selection import Selection

        chosen = Selection(**selection)
        with commands.opened(self.pipeline(), writes=False, use="look", selection=chosen) as loaded:
            return {each.dataset: each for each in plan(loaded, chosen)}

    def has(self, table):
        """Whether the table has a version; its folder comes before that."""
        log = self.folder / "lake" / table.replace(".", "/") / "_delta_log"
        return (log / f"{0:020d}.json").exists()

    def rows(self, table, columns="*"):
        """The rows of a table of the lake, read without Spark, in some order."""
        found = DeltaTable(str(self.folder / "lake" / table.replace(".", "/")))
        read = QueryBuilder().register("t", found).execute(f"SELECT {columns} FROM t").read_all()
        return sorted(
            (tuple(row) for row in zip(*(read.column(i).to_pylist() for i in range(read.num_columns)), strict=True)),
            key=repr,
        )


def kept_functions():
    """The functions for ``foreachBatch`` that PySpark has."""
    pool = SparkContext._gateway.gateway_property.pool
    return [each for each in pool.dict.values() if isinstance(each, ForeachBatchFunction) and vars(each)]


def refusal(run):
    """The whole text with which something is refused."""
    with pytest.raises(RivermouthError) as refused:
        run()
    return str(refused.value)


def records(servers, topic, *, isolation="read_committed", partitions=1):
    """The records of a topic as (key, value, headers), partition by partition."""
    found = _records(servers, topic, isolation, partitions)
    return [(key, value.decode(), headers) for key, value, headers in found]


def values(servers, topic):
    """The values of a topic's records as they are."""
    return [value for _, value, _ in _records(servers, topic, "read_committed", 1)]


def _records(servers, topic, isolation, partitions):
    config = {
        "bootstrap.servers": servers,
        "group.id": "reader",
        "isolation.level": isolation,
        "enable.partition.eof": True,
    }
    consumer, found = Consumer(config), []
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    left = partitions
    while left:
        record = consumer.poll(30)
        assert record is not None
        if record.error() is None:
            key = record.key() and record.key().decode()
            found.append((key, record.value(), dict(record.headers() or ())))
        else:
            assert record.error().code() == KafkaError._PARTITION_EOF
            left -= 1
    consumer.close()
    return found


@pytest.fixture
def folder(tmp_path, spark):
    """A folder for a pipeline whose source files are below ``src``."""
    found = PipelineFolder(tmp_path)
    found.write("pipeline.yml", "name: shop\nlibraries:\n  - glob: {include: src/**}\n")
    return found
