"""The schema with which a flow works: declared, or inferred at its first run and kept in the lake's state since."""

from __future__ import annotations

import datetime as dt
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rivermouth.domain.project.table_per_topic import is_child
from rivermouth.engine.schema.infer import Inference, SampleSpec, infer
from rivermouth.engine.table.declared_columns import schema_invalid
from rivermouth.engine.table.problems import Problems
from rivermouth.errors import (
    SchemaEmpty,
    SchemaFileBroken,
    SchemaNotKept,
    SchemaUpdateRefused,
)
from rivermouth.names import folded, printable
from rivermouth.ports.delta.table_ledger import TableLedger
from rivermouth.schemas.evolution import GROWN, difference
from rivermouth.schemas.open_fields import still_open
from rivermouth.schemas.schema_versions import KeptSchema, file_name, moved_name, moved_until, versions_of
from rivermouth.spec import InferringFormat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from rivermouth.domain.project.locations import FlowPlaces
    from rivermouth.ports.lake.lake_files import LakeFiles
    from rivermouth.ports.sources.protocols import OffsetSource
    from rivermouth.spec import Flow, Format


@dataclass(frozen=True, slots=True)
class SchemaUpdate:
    """What became of a flow's kept schema.

    Attributes:
        kept: The version that counts now.
        is_new: Whether it was kept only now.
        inference: What it was made of.
    """

    kept: KeptSchema
    is_new: bool
    inference: Inference


@dataclass(frozen=True, slots=True)
class SchemaHooks:
    """What is called while a flow gets its schema, and whether it is inferred again.

    Attributes:
        check: Gets the flow with the columns of a version before that is kept, and raises what speaks against it.
        kept: Gets what became of it, before anything is made of it.
        warn: Gets why the schema was not inferred again though it should have been.
        update: Whether to infer again, and to keep what is different as a new version.
    """

    check: Callable[[Flow], None]
    kept: Callable[[SchemaUpdate], None]
    warn: Callable[[str], None]
    update: bool = False


def look_of(flow: Flow) -> SampleSpec:
    """How the flow's format wants its topics looked at."""
    return SampleSpec(**(flow.format.inference if isinstance(flow.format, InferringFormat) else {}))


def resolved_schema(spark: SparkSession, flow: Flow, files: LakeFiles, places: FlowPlaces) -> Flow:
    """The flow with its present schema: that of its file or of its newest kept version.

    Raises:
        SchemaInvalid: The schema's file cannot be read.
        SchemaRegistryFailed: The schema registry does not have it, or does not give it.
        SchemaNotKept: The flow infers its schema, and did not yet.
        SchemaFileBroken: The kept version cannot be used.
    """
    if not flow.infers:
        return _grown(fixed(spark, flow), files, places)
    kept = newest(flow, files, places)
    if kept is None:
        raise SchemaNotKept(flow=flow.name)
    return with_columns(flow, kept.schema)


def _grown(flow: Flow, files: LakeFiles, places: FlowPlaces) -> Flow:
    """A flow of a declared schema with what has grown out of that, where it may grow."""
    kept = newest(flow, files, places) if flow.policies.grows else None
    return flow if kept is None else with_columns(flow, kept.schema)


def ensured(
    spark: SparkSession,
    flow: Flow,
    files: LakeFiles,
    places: FlowPlaces,
    topics: OffsetSource,
    hooks: SchemaHooks,
) -> Flow:
    """As ``resolved_schema``; a schema that is not kept yet is inferred and kept first.

    Args:
        spark: Any session with our settings.
        flow: The flow.
        files: Of the lake's state.
        places: Where the flow's things lie.
        topics: What it reads.
        hooks: What is called on the way.

    Raises:
        SchemaEmpty: There is nothing yet to infer from, and no schema is kept.
        SchemaNotInferred: There is nothing to infer from.
        DocumentsTooWide: There are too many fields.
        SchemaUpdateRefused: What is different no table can be changed to.
        RivermouthError: As ``resolved_schema``, and what keeps the flow from its topics.

    Guarantees:
        Of two starters one keeps its schema, and both work with that. Run twice: the second time finds it. Stopped
        half-way: a version is kept whole or not at all.
    """
    if not flow.infers:
        flow = fixed(spark, flow)
        if flow.policies.grows and (kept := newest(flow, files, places)) is not None:
            return with_columns(flow, _taken_along(flow, files, places, kept).schema)
        if left := _left_out(flow, files, places):
            hooks.warn(
                f"its schema had grown by {', '.join(left)}: not declared, and left out by on_new_column: ignore"
            )
        return flow
    kept = newest(flow, files, places)
    if kept is None or hooks.update:
        try:
            inference = infer(flow, topics, look_of(flow))
        except SchemaEmpty as empty:
            if kept is None:
                raise
            hooks.warn(f"{empty.message.partition(';')[0]}; version {kept.version} of its schema stays")
        else:
            done = keep(flow, files, places, inference, check=hooks.check)
            hooks.kept(done)
            return with_columns(flow, done.kept.schema)
    return with_columns(flow, _taken_along(flow, files, places, kept).schema)


def _left_out(flow: Flow, files: LakeFiles, places: FlowPlaces) -> list[str]:
    """The columns by which a schema had grown that grows no more, and that are ignored by now."""
    if not flow.takes_evolution or flow.policies.grows:
        return []
    with suppress(SchemaFileBroken, ValueError):  # whatever is wrong with the one or the other is reported elsewhere
        if (kept := newest(flow, files, places)) is not None:
            declared = {folded(name) for name in flow.evolving_format.schema_as_declared().names}
            new = [each.name for each in kept.schema if GROWN in each.metadata and folded(each.name) not in declared]
            return [name for name in new if flow.policies.new_column(name) == "ignore"]
    return []


def foreseen(
    spark: SparkSession, flow: Flow, files: LakeFiles, places: FlowPlaces, topics: OffsetSource
) -> tuple[Flow, Inference | None]:
    """The flow with the schema that a run would have, and the inference of one that is not kept yet; keeps nothing.

    Raises:
        RivermouthError: As ``ensured``.
    """
    try:
        return resolved_schema(spark, flow, files, places), None
    except SchemaNotKept:
        return inferred_now(flow, topics)


def inferred_now(flow: Flow, topics: OffsetSource) -> tuple[Flow, Inference]:
    """The flow with what is inferred at this moment, whatever is kept; raises as ``infer``."""
    found = infer(flow, topics, look_of(flow))
    return with_columns(flow, found.inferred.schema), found


def with_columns(flow: Flow, schema: StructType) -> Flow:
    """The flow with inferred columns, and with what its hints say of them.

    Raises:
        SchemaInvalid: The hints cannot be read.
    """
    try:
        found = flow.evolving_format.with_schema(schema)
        # The policies are resolved first: their defaults depend on whether the schema is inferred, which is done now.
        evolution = {"evolution": flow.policies} if flow.takes_evolution else {}
        return flow.model_copy(update={"format": found, **evolution})
    except ValueError as error:
        raise schema_invalid(flow, error) from error


def newest(flow: Flow, files: LakeFiles, places: FlowPlaces) -> KeptSchema | None:
    """The newest version of the flow's kept schema; None where none is kept.

    Raises:
        SchemaFileBroken: It cannot be used.
    """
    return next(_versions(flow, files, places), None)


def history(flow: Flow, files: LakeFiles, places: FlowPlaces) -> list[KeptSchema]:
    """All versions of the flow's kept schema, the newest first.

    Raises:
        SchemaFileBroken: One cannot be used.
    """
    return list(_versions(flow, files, places))


def keep(
    flow: Flow,
    files: LakeFiles,
    places: FlowPlaces,
    inference: Inference,
    *,
    check: Callable[[Flow], None] | None = None,
) -> SchemaUpdate:
    """Keeps what was inferred as a new version, if it is different from the newest.

    Args:
        flow: The flow.
        files: Of the lake's state.
        places: Where the flow's things lie.
        inference: What was inferred.
        check: As of ``SchemaHooks``; None where there is no Spark for it.

    Raises:
        SchemaUpdateRefused: It is different as no table can be changed.
        SchemaInvalid: The flow's hints cannot be read.
        SchemaFileBroken: The newest version cannot be used.
        RivermouthError: What ``check`` raises.

    Guarantees:
        A version is never written over: of two that keep one at the same time one does, and both get that. Where it
        raises nothing is kept.
    """
    own = places.schemas()
    while True:
        # Looked at first: what another keeps from now on is in the way of this number, or is found below.
        taken = max(versions_of(files.names(own)), default=0)
        before = newest(flow, files, places)
        wanted = _next(flow, before, inference)
        if before is not None and not wanted.changes:
            return SchemaUpdate(_taken_along(flow, files, places, before), is_new=False, inference=inference)
        if check is not None:
            check(with_columns(flow, wanted.schema))
        if before is not None and _taken_along(flow, files, places, before) != before:
            continue
        if before is None:
            wanted = replace(wanted, version=taken + 1)
        if files.create(f"{own}/{file_name(wanted.version)}", wanted.to_text()):
            return SchemaUpdate(wanted, is_new=True, inference=inference)


def _next(flow: Flow, before: KeptSchema | None, inference: Inference) -> KeptSchema:
    schema = inference.inferred.schema
    changes: tuple[str, ...] = ()
    if before is not None:
        inferred = inference.inferred
        found = difference(before.schema, inferred.found, numbers=inferred.numbers, pinned=flow.evolving_format.pinned)
        if found.refused:
            more = f", and {len(found.refused) - 1} more" if len(found.refused) > 1 else ""
            raise SchemaUpdateRefused(flow=flow.name, detail=printable(found.refused[0]) + more)
        schema, changes = found.schema, found.changes
    seen = inference.seen
    was_open = dict.fromkeys((*(before.open if before else ()), *inference.inferred.open))
    return KeptSchema(
        flow=flow.name,
        version=before.version + 1 if before else 1,
        kept_at=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        records=seen.shape.records,
        corrupt=seen.shape.corrupt_records,
        whole=seen.whole,
        changes=changes,
        schema=schema,
        open=still_open(was_open, schema),
    )


def _versions(flow: Flow, files: LakeFiles, places: FlowPlaces) -> Iterator[KeptSchema]:
    """The flow's versions, the newest first: those under its earlier name if there are none under its own."""
    for name in (flow.name, *_earlier_names(flow, files, places)):
        there = False
        for each in _versions_in(flow, files, places.schemas(name)):
            there = True
            yield each
        if there:
            return


def _earlier_names(flow: Flow, files: LakeFiles, places: FlowPlaces) -> Iterator[str]:
    """The name that the flow had before; to a child that of its family is one only if its table was written by that."""
    if not flow.previously:
        return
    if is_child(flow.name) and not is_child(flow.previously):
        ledger = TableLedger(files, places.table, places.ledger_file, flow=flow.name, previously=flow.previously)
        newest_entry = next(iter(ledger.newest(1)), None) or ledger.read_side_file()
        if newest_entry is None or newest_entry.entry.flow != flow.previously:
            return
    yield flow.previously


def _versions_in(flow: Flow, files: LakeFiles, folder: str) -> Iterator[KeptSchema]:
    """The flow's versions in a folder; a flow that bore its name before may have left some there."""
    found = files.names(folder)
    gone = moved_until(found, flow.name)
    for version in reversed(versions_of(found)):
        if version <= gone:
            return
        kept = _read(flow, files, folder, version)
        if kept.flow not in (flow.name, flow.previously):
            return
        yield kept


def _taken_along(flow: Flow, files: LakeFiles, places: FlowPlaces, kept: KeptSchema) -> KeptSchema:
    """The newest version under the flow's own name; copied from its earlier name, where a mark says so from then on.

    Guarantees:
        Run twice: the second time finds it. Stopped half-way: the mark keeps other flows from it, and not this one.
    """
    own = places.schemas()
    if not flow.previously or next(_versions_in(flow, files, own), None) is not None:
        return kept
    files.create(f"{places.schemas(flow.previously)}/{moved_name(kept.version, flow.name)}", f"{flow.name}\n")
    version = max(kept.version, 1 + max(versions_of(files.names(own)), default=0))
    copy = replace(kept, flow=flow.name, version=version)
    files.create(f"{own}/{file_name(version)}", copy.to_text())
    return copy


def _read(flow: Flow, files: LakeFiles, folder: str, version: int) -> KeptSchema:
    file = f"{folder}/{file_name(version)}"
    try:
        return KeptSchema.from_text(files.read(file) or "")
    except ValueError as error:
        raise SchemaFileBroken(flow=flow.name, file=file, detail=str(error)) from None


def fixed(spark: SparkSession, flow: Flow) -> Flow:
    """The flow with its schema as its file says now: one that is edited while the flow runs is for the next run.

    Raises:
        SchemaInvalid: The file cannot be read.
        SchemaRegistryFailed: The schema registry does not have it, or does not give it.
    """
    found = {}
    problems = Problems(flow.name)
    for setting in ("format", "key_format"):
        form: Format | None = getattr(flow, setting)
        with problems.kept():
            try:
                found[setting] = form and form.with_loaded_files(spark)
            except ValueError as error:
                raise schema_invalid(flow, error, setting) from error
    problems.report()
    return flow.model_copy(update=found)
