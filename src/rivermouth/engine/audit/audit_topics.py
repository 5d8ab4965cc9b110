"""Whether the topic of a flow's sink has each row of the table once, where the headers of its records say which row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.domain.ledger import offset_ranges
from rivermouth.engine.batch.deliver import delivered_number
from rivermouth.engine.batch.pipeline import rows_within
from rivermouth.errors import RivermouthError
from rivermouth.ports.kafka.kafka_source import KafkaSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import Column, DataFrame

    from rivermouth.domain.kafka.source_topics import Topic
    from rivermouth.domain.ledger.offset_ranges import Ranges
    from rivermouth.engine.flow.running import FlowRun
    from rivermouth.sinks.kafka import KafkaSink

_DECIDED: Final = "after a decision about data that is gone, or a rebuild, rows may rightly be there again"
_KEYS: Final = (names.TOPIC, names.PARTITION)


@dataclass(frozen=True, slots=True)
class TopicAudit:
    """What an audit found of the topic of a sink.

    Attributes:
        records: Number of records that name the row they were made from; None if none was looked for.
        not_compared: What was not compared, and why, a sentence each.
        problems: What differs from the table, a sentence each.
    """

    records: int | None = None
    not_compared: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def audit_topic(run: FlowRun, sink: KafkaSink, ranges: Ranges) -> TopicAudit:
    """What is found of the topic, read as a reader of committed records sees it. Reads only.

    No row is there more than once. Each row of the table is there, from the first one of its partition that the topic
    has, where Kafka has deleted nothing of the topic.

    Args:
        run: The flow.
        sink: Its sink.
        ranges: The audited offsets of what the flow reads.
    """
    if run.places.is_trial:
        return TopicAudit(not_compared=("topics of the sink: a trial writes no records into them",))
    if sink.topic is None or not isinstance(run.source, KafkaSource):
        return TopicAudit(not_compared=("topics that a column names: their records are not looked for",))
    if run.entry.epochs or run.entry.decided:
        return TopicAudit(not_compared=(f"topic {sink.topic}: {_DECIDED}",))
    headers = {column: header for header, column in sink.headers.items()}
    wanted = {target: run.flow.metadata_columns[name] for target, name in run.flow.identity.items()}
    if not headers.keys() >= set(wanted.values()):
        example = ", ".join(f"{name}: {name}" for name in wanted.values())
        why = f"topic {sink.topic}: without headers: {{{example}}} in the sink, records do not say which rows they are"
        return TopicAudit(not_compared=(why,))
    topics = run.kafka.describe([sink.topic])
    if sink.topic not in topics:
        return TopicAudit(problems=(f"topic {sink.topic} is not there",))
    begins = run.kafka.beginning_offsets(topics)
    held = offset_ranges.between(begins, run.kafka.end_offsets(topics, "read_committed"))
    if not held:
        return TopicAudit(0, not_compared=(f"topic {sink.topic} has no records any more, or none yet",))
    found = _records(run, {target: headers[column] for target, column in wanted.items()}, held)
    row = found.selectExpr("count(*) AS rows", "coalesce(sum(number), 0) AS records").collect()[0]
    why_not = "; ".join(_why_not_missing(run, topics, begins))
    missing = 0 if why_not or not ranges else _missing(run, found, ranges)
    told = (f"topic {sink.topic}: whether rows are missing, because {why_not}",) if why_not else ()
    wrong = {"rows there more than once": row.records - row.rows, "rows missing": missing}
    problems = tuple(f"topic {sink.topic}: {what}: {number:,}" for what, number in wrong.items() if number)
    return TopicAudit(int(row.records), told, problems)


def _records(run: FlowRun, headers: Mapping[str, str], held: Ranges) -> DataFrame:
    """A row each row of the table that records of the topic name: its coordinates, and the ``number`` of records."""

    def header(name: str) -> Column:
        # The last of one name counts.
        values = F.filter("headers", lambda each: each["key"] == name)
        return F.try_element_at(values, F.lit(-1))["value"].cast("string")

    kinds = {names.TOPIC: "string", names.PARTITION: "int", names.OFFSET: "bigint", names.POSITION: "int"}
    read = run.source.with_headers(headers=True).batch(run.spark, held)
    known = read.select(*(header(name).cast(kinds[target]).alias(target) for target, name in headers.items()))
    return known.where(F.col(names.OFFSET).isNotNull()).groupBy(*headers).agg(F.count(F.lit(1)).alias("number"))


def _why_not_missing(run: FlowRun, topics: Mapping[str, Topic], begins: offset_ranges.Offsets) -> Iterator[str]:
    if any(offset for parts in begins.values() for offset in parts.values()):
        yield "Kafka has deleted the first ones of its records"
    elif run.kafka.compacted(list(topics)):
        yield "it is compacted"
    try:
        number = delivered_number(run)
    except RivermouthError as error:
        yield f"the sink's ledger cannot be read: {error.message}"
        return
    if number is None or number < run.entry.number:
        yield f"ledger entries up to {run.entry.number} are not all written yet; the next run writes them"


def _missing(run: FlowRun, found: DataFrame, ranges: Ranges) -> int:
    first = found.groupBy(*_KEYS).agg(F.min(names.OFFSET).alias("first"))
    rows = rows_within(run, ranges).join(F.broadcast(first), list(_KEYS)).where(F.col(names.OFFSET) >= F.col("first"))
    return rows.drop("first").join(found, [*run.flow.identity], "left_anti").count()
