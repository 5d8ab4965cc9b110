"""A table that another program wrote becomes a flow's: it gets the columns that it lacks, and a ledger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.domain.ledger import adoption as adopting
from rivermouth.domain.ledger.offset_ranges import Offsets
from rivermouth.engine.data_loss.decide import found_of
from rivermouth.engine.events import DecisionRecorded, Warned
from rivermouth.engine.open import adopt_keyed
from rivermouth.engine.table.flow_table import change_table, table_changes
from rivermouth.errors import AdoptionRefused, LakeNotReadable, first_line
from rivermouth.ports.delta import delta_append, delta_table
from rivermouth.ports.delta.table_ledger import TableLedger, transaction_of
from rivermouth.ports.internals import delta_snapshot
from rivermouth.ports.lake.checkpoint import Checkpoints
from rivermouth.ports.lake.lake_files import PlacedFiles
from rivermouth.ports.spark.local_frames import no_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rivermouth.domain.ledger.adoption import Adoption
    from rivermouth.domain.ledger.data_loss import KafkaState
    from rivermouth.domain.ledger.ledger import Entry
    from rivermouth.domain.project.locations import FlowPlaces
    from rivermouth.engine.events import Listener
    from rivermouth.engine.flow.flow_inputs import FlowInputs
    from rivermouth.engine.flow.table_shape import TableChanges, TableShape
    from rivermouth.spec import Flow

_OURS: Final = "rivermouth/"
WITHOUT_EFFECT: Final = "--adopt has no effect: the table has a ledger, and goes on at it"


@dataclass(frozen=True, slots=True)
class _Start:
    """Where the flow begins.

    Attributes:
        offsets: The first one of each partition that the table does not have.
        basis: By what that is known, in words.
        doubt: What speaks against it without proving anything; empty if nothing does.
    """

    offsets: Offsets
    basis: str
    doubt: str = ""


@dataclass(frozen=True, slots=True)
class _Adoption:
    """A table to be taken over, with all that is asked about it.

    Attributes:
        spark: The flow's session.
        flow: The flow.
        places: Where its things lie.
        wanted: By which checkpoint or rows.
        found: What Kafka holds of its topics.
    """

    spark: SparkSession
    flow: Flow
    places: FlowPlaces
    wanted: Adoption
    found: KafkaState

    def refused(self, detail: str, fix: str) -> AdoptionRefused:
        return AdoptionRefused(flow=self.flow.name, source=self.wanted.source, detail=detail, fix=fix)


@dataclass(frozen=True, slots=True)
class Takeover:
    """What taking a table over would come to; nothing of it is done.

    Attributes:
        offsets: The first one of each partition that the table does not have.
        basis: By what that is known, in words.
        warnings: What speaks against it without proving anything, and what the table would get.
    """

    offsets: Offsets
    basis: str
    warnings: tuple[str, ...]


def takeover(inputs: FlowInputs, wanted: Adoption) -> Takeover | None:
    """What ``adopt`` would do now; None where it would do nothing, because the table has a ledger. Reads only.

    Raises:
        AdoptionRefused: There is no table, or it is not known how far the source was read into it.
        TableMismatch: It cannot take what the flow writes.
    """
    looked = _inspected(_adoption(inputs, wanted), inputs.shape)
    if looked is None:
        return None
    state, changes, start = looked
    doubts = [each for each in (start.doubt, adopt_keyed.unwritten(inputs.flow, state, inputs.shape)) if each]
    return Takeover(start.offsets, start.basis, (*doubts, *([f"taking it over {changes}"] if changes else [])))


def adopt(inputs: FlowInputs, wanted: Adoption, listener: Listener) -> None:
    """Takes the flow's table over from the program that wrote it; only warns if it has a ledger already.

    Its rows stay as they are; columns that the flow writes and that it lacks are added, null in old rows.

    Raises:
        AdoptionRefused: There is no table, it is not known how far the source was read into it, or another program
            wrote to it meanwhile.
        TableMismatch: It cannot take what the flow writes.

    Guarantees:
        Run twice: the second time finds the ledger. Stopped half-way, or refused because of another writer: columns
        may have been added, and it is done again.
    """
    flow, places, shape = inputs.flow, inputs.places, inputs.shape
    asked = _adoption(inputs, wanted)
    looked = _inspected(asked, shape)  # all of it: nothing is changed that is refused afterwards
    if looked is None:
        listener(Warned(flow.name, WITHOUT_EFFECT))
        return
    state, changes, _first_look = looked
    if changes:
        change_table(inputs.spark, flow, places.table, changes)
    adopt_keyed.mark(inputs.spark, flow, places.table, state.properties)
    state = delta_snapshot.table_state(inputs.spark, places.table)
    # Once more: from here to entry 0 nobody else may write, but until now somebody may have.
    start = _start(asked, state)
    for doubt in (start.doubt, adopt_keyed.unwritten(flow, state, shape)):
        if doubt:
            listener(Warned(flow.name, doubt))
    entry = _entry_zero(inputs, wanted, start)
    empty, transaction = no_rows(inputs.spark, shape.columns), transaction_of(entry, state.table_id)
    if not delta_append.append_alone(empty, places.table, transaction, onto=state.version):
        raise asked.refused("another program wrote to it meanwhile", "stop that program, then run this again")
    for decision in entry.decisions:
        listener(DecisionRecorded(flow.name, entry.number, decision))


def _adoption(inputs: FlowInputs, wanted: Adoption) -> _Adoption:
    found = found_of(inputs.source.kafka, inputs.flow, inputs.topics)
    return _Adoption(inputs.spark, inputs.flow, inputs.places, wanted, found)


def _entry_zero(inputs: FlowInputs, wanted: Adoption, start: _Start) -> Entry:
    return adopting.entry_zero(
        inputs.flow.name,
        start.offsets,
        {name: topic.id for name, topic in inputs.topics.items() if name in start.offsets},
        wanted,
        basis=start.basis,
        starting_offsets=inputs.flow.starting_offsets.text(),
    )


def _inspected(asked: _Adoption, shape: TableShape) -> tuple[delta_snapshot.TableState, TableChanges, _Start] | None:
    """The table that is to be taken over, how it must be changed, and where the flow begins; None if it has a ledger.

    Raises:
        AdoptionRefused: There is no table, or it is not known how far the source was read into it.
        TableMismatch: It cannot take what the flow writes.
    """
    state = _foreign(asked)
    if state is None:
        return None
    changes = table_changes(asked.flow, asked.places.table, state, shape, adopting=True)
    return state, changes, _start(asked, state)


def _foreign(asked: _Adoption) -> delta_snapshot.TableState | None:
    """The newest snapshot of the table that is to be taken over; None if it has a ledger already."""
    flow, places = asked.flow, asked.places
    if unfit := adopt_keyed.unfit_sink(flow):
        raise asked.refused(unfit, "name another table, and let the flow fill it from the topic")
    files = PlacedFiles(asked.spark)
    if not delta_table.exists(files, places.table):
        raise asked.refused(f"there is no table at {places.table}", f"in flow {flow.name}: places: {{table: ...}}")
    ledger = TableLedger(files, places.table, places.ledger_file, flow=flow.name, previously=flow.previously)
    state = delta_snapshot.table_state(asked.spark, places.table)
    has_ledger = ledger.newest(1) or any(app.startswith(_OURS) for app in state.transactions)
    return None if has_ledger else state


def _start(asked: _Adoption, state: delta_snapshot.TableState) -> _Start:
    """Where the flow begins behind what the table has in that state."""
    doubt = ""
    if unfit := adopt_keyed.unfit_keys(asked.spark, asked.flow, asked.places.table, state):
        raise asked.refused(*unfit)
    if asked.wanted.source == adopting.TABLE:
        offsets, basis = adopting.by_rows(_last_rows(asked, state), asked.found), "its rows"
    else:
        read, batch, doubt = _progress(asked, state)
        offsets = adopting.by_checkpoint(read, asked.found, pattern=asked.flow.topic_pattern is not None)
        basis = f"checkpoint {asked.wanted.source}, batch {batch}"
    if isinstance(offsets, str):
        raise asked.refused(offsets, "let the flow read the topics that the table was made of")
    return _Start(offsets, basis, doubt)


def _last_rows(asked: _Adoption, state: delta_snapshot.TableState) -> Offsets:
    topic, partition, offset = (asked.flow.metadata_columns[name] for name in names.COORDINATES)
    there = {field.name.lower() for field in state.columns}
    missing = [name for name in (topic, partition, offset) if name.lower() not in there]
    other = f"rivermouth run {asked.flow.name} --adopt CHECKPOINT"
    if missing:
        raise asked.refused(f"the table has no column {', '.join(missing)}", other)
    keys = [F.col(names.quoted(name)) for name in (topic, partition)]
    rows = asked.spark.read.format("delta").option("versionAsOf", state.version).load(asked.places.table)
    at = F.col(names.quoted(offset))
    last: Offsets = {}
    for row in rows.groupBy(*keys).agg(F.max(at), F.count_if(at.isNull())).collect():
        if None in (row[0], row[1]) or row[3]:
            raise asked.refused(f"some of its rows have no {topic}, {partition} or {offset}", other)
        last.setdefault(row[0], {})[row[1]] = row[2]
    return last


def _progress(asked: _Adoption, state: delta_snapshot.TableState) -> tuple[Offsets, int, str]:
    """Up to where the checkpoint's query has read what the table holds, the number of its last batch, and a doubt."""
    checkpoints = Checkpoints(PlacedFiles(asked.spark), asked.wanted.source)
    try:
        found, last = checkpoints.progress()
        query = checkpoints.query_id()
    except ValueError as error:
        fix = "name the checkpointLocation of a query that reads Kafka alone and has ended a batch"
        raise asked.refused(str(error), fix) from error
    except Exception as error:
        detail = error.message if isinstance(error, LakeNotReadable) else f"it cannot be read: {first_line(error)}"
        fix = f"rivermouth run {asked.flow.name} --adopt CHECKPOINT, one that Spark and this user can read"
        raise asked.refused(detail, fix) from error
    # Delta's own sink leaves the number of its batch in the table; foreachBatch leaves nothing.
    written = state.transactions.get(query or "")
    if written is None:
        if found.planned is not None and asked.flow.keyed is None:
            raise asked.refused(
                f"batch {last + 1} of its query was begun and not ended, so it is not known whether the table has it",
                "start the old query once more, let it end that batch, and stop it",
            )
        doubt = f"nothing in the table says that the query of checkpoint {asked.wanted.source} wrote it"
        if found.planned is not None:
            doubt += f"; its batch {last + 1} was begun and not ended, so its records are merged again"
        return found.committed or {}, last, doubt
    if written == last:
        return found.committed or {}, last, ""
    if written == last + 1 and found.planned is not None:
        return found.planned, written, ""
    detail = f"the table has its query's batches up to {written}, the checkpoint those up to {last}"
    raise asked.refused(detail, "name the newest checkpoint of the query that wrote the table last")
