"""Bugs, planted one at a time, that the audit must find; each is one that people have shipped.

A bug is a context manager that changes rivermouth while it is open, here and in the processes that are started
meanwhile. With it stand the faults that bring it to light.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

from pyspark.sql import functions as F

from rivermouth import names
from rivermouth.domain.delta.table_transaction import TableTransaction
from rivermouth.domain.ledger import data_loss, ledger, offset_ranges
from rivermouth.domain.ledger.ledger import Counts, Entry
from rivermouth.domain.ledger.offset_ranges import Ranges
from rivermouth.engine.batch import microbatch, recovery
from rivermouth.engine.run import follow, run_flow
from rivermouth.ports.delta import delta_append, delta_table
from rivermouth.ports.delta.table_ledger import TableLedger
from rivermouth.ports.kafka.kafka_source import KafkaSource
from rivermouth.ports.lake.lease import TableLease
from rivermouth.rows import checks, routing
from rivermouth.rows.keyed.change_order import ChangeOrder
from rivermouth.side_tables.dead_letters import DeadLetterTable
from rivermouth.side_tables.deleted_keys import Tombstones
from rivermouth.sinks.append import Append

VARIABLE = "RIVERMOUTH_PLANTED"
Patches = Sequence[Any]


@dataclass(frozen=True)
class Bug:
    """One planted bug.

    Attributes:
        name: What is wrong, in words.
        plant: The patches that make it so.
        faults: That bring it to light.
        shows: As what it must show: lost, doubled, phantom or wrong.
        sink: Of the tables that it harms.
    """

    name: str
    plant: Callable[[], Patches]
    faults: tuple[str, ...]
    shows: str
    sink: str = "append"


BUGS: dict[str, Bug] = {}

CONF_OF_A_SLEEPER: dict[str, str] = {}
"""Further options of Spark for the driver whose commit comes late."""


def bug(*faults: str, shows: str, sink: str = "append") -> Callable[[Callable[[], Patches]], Callable[[], Patches]]:
    def register(plant: Callable[[], Patches]) -> Callable[[], Patches]:
        name = plant.__name__.removeprefix("_")
        BUGS[name] = Bug(name.replace("_", " "), plant, faults, shows, sink)
        return plant

    return register


@contextlib.contextmanager
def planted(name: str) -> Iterator[None]:
    """The bug is there while this is open."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, {VARIABLE: name}))
        for patch in BUGS[name].plant():
            stack.enter_context(patch)
        yield


def plant_what_the_environment_says() -> None:
    """For a process that was started meanwhile: the bug stays to its end."""
    name = os.environ.get(VARIABLE)
    for patch in BUGS[name].plant() if name else ():
        patch.start()


def _no_remaining_ranges() -> Any:
    """What was planned is written, whatever the ledger says."""
    return mock.patch.object(ledger, "remaining_ranges", autospec=True, side_effect=_all_planned)


def _all_planned(_flow: str, _next_offsets: offset_ranges.Offsets, planned: Ranges) -> Ranges:
    return {topic: dict(parts) for topic, parts in planned.items()}


# --- who is a batch, and where does it begin? ---


@bug("answer_lost:table", "kill:written", shows="doubled")
def _offsets_only_in_the_checkpoint() -> Patches:
    """What was planned is written, whatever the table has."""
    return [_no_remaining_ranges()]


@bug("checkpoint:all:deleted", shows="lost")
def _batch_id_as_identity() -> Patches:
    """A batch whose number was written once is passed over."""
    honest = follow._Callback.__call__
    done: dict[str, set[int]] = {}

    def call(self: Any, batch: Any, batch_id: int) -> None:
        numbers = done.setdefault(self._run.places.table, set())
        if batch_id not in numbers:
            honest(self, batch, batch_id)
            numbers.add(batch_id)

    return [mock.patch.object(follow._Callback, "__call__", call), _no_remaining_ranges()]


@bug("answer_lost:table", "partition_added", "kill:written", shows="doubled")
def _scalar_instead_of_vector() -> Patches:
    """One offset a topic: the least of its partitions."""
    honest = Entry.after_batch

    def after_batch(self: Entry, ranges: Ranges, counts: Counts, ids: Mapping[str, str | None]) -> Entry:
        entry = honest(self, ranges, counts, ids)
        least = {topic: dict.fromkeys(parts, min(parts.values())) for topic, parts in entry.next_offsets.items()}
        return replace(entry, next_offsets=least, settled=least)

    return [mock.patch.object(Entry, "after_batch", after_batch)]


@bug("checkpoint:all:deleted", shows="lost")
def _latest_after_a_lost_checkpoint() -> Patches:
    """Where there is no checkpoint the stream begins with what comes from now on."""
    honest = KafkaSource.stream

    def stream(self: KafkaSource, spark: Any, flow: Any, start: offset_ranges.Offsets) -> Any:
        latest = {topic: dict.fromkeys(parts, -1) for topic, parts in start.items()}
        return honest(self, spark, flow, latest)

    return [mock.patch.object(KafkaSource, "stream", stream), _no_remaining_ranges()]


@bug("retention", shows="lost")
def _fail_on_data_loss_false() -> Patches:
    """What Kafka no longer has is passed over silently."""
    honest = KafkaSource._options

    def options(self: KafkaSource) -> dict[str, str]:
        return {**honest(self), "failOnDataLoss": "false"}

    return [
        mock.patch.object(KafkaSource, "_options", options),
        mock.patch.object(data_loss, "undecided", return_value=data_loss.LossDecision()),
    ]


@bug("topic_anew:fewer", "topic_anew:equal", "topic_anew:more", shows="lost")
def _a_topic_is_its_name() -> Patches:
    """A topic that was created again is taken for the old one."""
    return [mock.patch.object(data_loss, "is_another", return_value=False)]


# --- what is read, and where does it go? ---


@bug("partition_added", shows="phantom")
def _read_uncommitted() -> Patches:
    """Records of transactions that were aborted, or are open, are read too."""
    honest = KafkaSource._options

    def options(self: KafkaSource) -> dict[str, str]:
        return {**honest(self), "kafka.isolation.level": "read_uncommitted"}

    return [mock.patch.object(KafkaSource, "_options", options)]


@bug("partition_added", shows="phantom")
def _corrupt_column_off() -> Patches:
    """What cannot be decoded goes on as a row of nulls."""
    honest = routing.route

    def route(rows: Any, flow: Any) -> Any:
        return honest(rows.withColumn(names.DECODED, F.lit(True)), flow)

    return [mock.patch.object(routing, "route", route)]


@bug("partition_added", shows="phantom")
def _a_condition_that_is_null_passes() -> Patches:
    """An expectation whose condition is NULL counts as met."""
    honest = checks.check

    def check(rows: Any, expectations: Any) -> Any:
        lenient = [each.model_copy(update={"condition": f"coalesce({each.condition}, true)"}) for each in expectations]
        return honest(rows, lenient)

    return [mock.patch.object(checks, "check", check)]


# --- which of two is newer? ---


@bug("partition_added", shows="phantom", sink="upsert")
def _late_records_win() -> Patches:
    """What comes last is written, whatever the sequence of the row that is there."""
    return [mock.patch.object(ChangeOrder, "newer", return_value="true")]


@bug("partition_added", shows="phantom", sink="upsert")
def _deleted_keys_are_forgotten() -> Patches:
    """A late record brings back a key that a newer one deleted."""
    return [mock.patch.object(Tombstones, "older", return_value=None)]


# --- when is it done? ---


@bug("commit_refused:table", shows="lost")
def _swallowed_exception() -> Patches:
    """A commit that fails is logged, and the next batch comes."""
    honest = Append.write

    def write(self: Append, rows: Any, table_ledger: TableLedger, entry: Entry, **how: Any) -> delta_table.Commit:
        try:
            return honest(self, rows, table_ledger, entry, **how)
        except Exception:  # noqa: BLE001 - it is the bug
            nothing = rows.where(F.rand() < -1)
            return honest(self, nothing, table_ledger, entry, **how)

    return [mock.patch.object(Append, "write", write), mock.patch.object(microbatch, "agree")]


@bug("commit_refused:dead_letters", shows="lost")
def _dead_letters_called_complete() -> Patches:
    """Their commit failed, and the batch is called settled all the same."""
    honest = microbatch.write_dead_letters

    def bury(ranges: Ranges, counts: Counts, *how: Any) -> Counts:
        with contextlib.suppress(Exception):
            return honest(ranges, counts, *how)
        return counts

    return [mock.patch.object(microbatch, "write_dead_letters", bury)]


@bug("answer_lost:dead_letters", "kill:dead_letters_written", shows="doubled")
def _dead_letters_added_again() -> Patches:
    """After a crash they are written once more, though they are there."""

    def complete(self: DeadLetterTable, rows: Any, entry: Entry, expected: int, previously: str | None = None) -> None:
        rows.write.format("delta").mode("append").save(self.location)

    return [mock.patch.object(DeadLetterTable, "complete", complete)]


@bug("answer_lost:dead_letters", "commit_refused:dead_letters", "answer_lost:table", shows="wrong")
def _a_crash_forgets_the_counts() -> Patches:
    """A batch that was cut off is finished, and counted as nothing."""
    honest = recovery.recount

    def recount(*how: Any) -> Counts:
        honest(*how)
        return Counts()

    return [mock.patch.object(recovery, "recount", recount), mock.patch.object(microbatch, "recount", recount)]


# --- who may write? ---


@bug("second_instance", shows="doubled")
def _no_fencing() -> Patches:
    """No lease, and no commit is checked against another writer's."""
    honest = delta_append.append

    def append(rows: Any, location: str, transaction: TableTransaction, **how: Any) -> None:
        honest(rows, location, replace(transaction, app_id=os.urandom(8).hex()), **{**how, "onto": None})

    return [
        mock.patch.object(TableLease, "__enter__", autospec=True, side_effect=lambda lease: lease),
        mock.patch.object(TableLease, "check"),
        mock.patch.object(delta_append, "append", append),
        mock.patch.object(TableLedger, "check_undisturbed"),
    ]


@bug("s3:sleeper", shows="lost")
def _no_fencing_on_s3() -> Patches:
    """Delta's own log store looks whether a commit is there, and then overwrites it."""
    unfenced = {"spark.delta.logStore.s3a.impl": "io.delta.storage.S3SingleDriverLogStore"}
    return [mock.patch.dict(CONF_OF_A_SLEEPER, unfenced), mock.patch.object(run_flow, "check_fenced")]
