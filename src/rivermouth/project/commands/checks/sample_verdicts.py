"""What a door does with records that are given: a flow's rules on them, without Kafka and without writing."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rivermouth.domain.project.sample_records import MAX_RECORDS, RecordVerdict, placed, record_of_line
from rivermouth.engine.report.sample_verdicts import judged_records
from rivermouth.errors import ArgumentInvalid, RecordsRefused
from rivermouth.ports.kafka.kafka_produce import numbered_lines
from rivermouth.ports.spark.session import for_flow
from rivermouth.project.commands.managed_session import NO_HOOKS, ManagedSession, RunHooks
from rivermouth.project.resolved.known_tables import check_one, with_children
from rivermouth.project.resolved.resolved_project import ResolvedProject

if TYPE_CHECKING:
    from rivermouth.spec import Flow

REFUSED: Final = ("dead_letter", "fail")


def check_records(
    project: ResolvedProject, name: str, records: Iterable[Any], hooks: RunHooks = NO_HOOKS
) -> list[RecordVerdict]:
    """What the rules of one flow say of these records: format, schema, keys, expectations.

    Which records a flow reads (``starting_offsets``, ``where`` of a source) is not asked: all of them are judged.

    Args:
        project: Its flows; neither the broker nor its options are looked at.
        name: The flow; of a flow with a table for each topic ``FLOW.TOPIC``.
        records: ``Record``s, or their values alone.
        hooks: Hears that Spark starts.

    Raises:
        FlowUnknown: The project has none of this name.
        ArgumentInvalid: The flow reads no messages, or a record is none.
        RecordsNotChecked: Spark could not judge them.
        RivermouthError: What is wrong with the flow, or keeps it from its schema.

    Guarantees:
        Reads the lake's state and a schema registry only; nothing is written.
    """
    check_one(project, name)
    known = with_children(project)
    flow = known.flow(name)
    if flow.source is not None and flow.source.snapshots is not None:
        detail = f"flow {name} reads versions of a table or files, which are no records"
        at = project.at("flows", name, "source")
        raise ArgumentInvalid(at=at, argument="FLOW", detail=detail, fix=f"rivermouth plan {name}")
    given = placed(records, _topic(known, flow), dt.datetime.now(dt.UTC))
    if not given:
        return []
    with ManagedSession(project, hooks) as spark:
        return judged_records(for_flow(spark), flow, known.places_of(flow), given)


def read_records(source: str, *, whole: bool) -> Iterator[tuple[int, Any]]:
    """The records in a file, each with the number of its line, from 1; blank lines are left out.

    Args:
        source: A path, of a gzip file if it ends in ``.gz``; ``-`` is standard input.
        whole: Whether a line describes a record, as ``record_of_line`` reads it; else it is the value of one.

    Raises:
        ArgumentInvalid: The file cannot be read, has no record or too many, or a line describes no record.
    """
    count = 0
    try:
        for number, line in numbered_lines(source):
            count += 1
            if count > MAX_RECORDS:
                detail = f"it holds more than {MAX_RECORDS:,} records, and all of them are kept in memory"
                fix = f"head -n {MAX_RECORDS} {source} | rivermouth check-records FLOW -"
                raise ArgumentInvalid(argument="FILE", detail=detail, fix=fix)
            yield number, record_of_line(line, number) if whole else line
    except (OSError, EOFError) as error:
        why = getattr(error, "strerror", None) or str(error)
        fix = "a file with a record on each line, or - for standard input"
        raise ArgumentInvalid(argument="FILE", detail=f"{Path(source)} cannot be read: {why}", fix=fix) from None
    if count == 0:
        fix = "a file with a record on each line, or - for standard input"
        raise ArgumentInvalid(argument="FILE", detail=f"{source} holds no record", fix=fix)


def raise_refused(name: str, verdicts: Iterable[RecordVerdict]) -> None:
    """Raises if some records would be neither in the table nor dropped.

    Raises:
        RecordsRefused: There are such records.
    """
    seen: dict[int, bool] = {}
    for each in verdicts:
        seen[each.record] = seen.get(each.record, False) or each.verdict in REFUSED
    refused = sum(seen.values())
    if refused:
        raise RecordsRefused(flow=name, refused=refused, records=len(seen))


def _topic(project: ResolvedProject, flow: Flow) -> str:
    """The first topic that the flow reads; its own name where it reads those that a pattern finds."""
    if flow.source is not None and (source := project.source_of(flow)) is not None:
        flow = source.flow
    return next(iter((*flow.topics, *flow.assign)), flow.name)
