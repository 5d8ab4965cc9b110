"""The table of events of a pipeline, with Databricks' columns, and the functions that hear them."""

from __future__ import annotations

import contextlib
import json
import threading
import traceback
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth import __version__
from rivermouth.engine.query import query_events as ev
from rivermouth.errors import RivermouthError, first_line
from rivermouth.pipelines.event_columns import COLUMNS
from rivermouth.pipelines.event_definitions import definition_events
from rivermouth.ports.delta import delta_table
from rivermouth.ports.delta.delta_ddl import alter
from rivermouth.ports.delta.small_append import append_few, append_rows
from rivermouth.ports.internals.delta_snapshot import table_state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rivermouth.domain.query.query_entry import QueryCounts
    from rivermouth.engine.query.query_events import QueryEvent, QueryListener
    from rivermouth.pipelines.running.load import Loaded
    from rivermouth.pipelines.running.update import DatasetOutcome
    from rivermouth.pipelines.selection import Selection
    from rivermouth.pipelines.spec import EventHook

_MANY: Final = 1000
_MOST: Final = 10_000
"""At most this number of events waits for a table that cannot be written."""
_EVERY_S: Final = 30.0
"""Events wait at most so long for their commit."""
_PROPERTIES: Final = {
    # A commit for each update: at Delta's own interval each tenth of them would take some seconds.
    "delta.checkpointInterval": "100",
    "delta.dataSkippingStatsColumns": "timestamp",
}


@dataclass(slots=True)
class _Hook:
    hook: EventHook
    failures: int = 0


class EventLog:
    """Hears the events of an update, hands them to the pipeline's functions, and writes them into a table.

    Args:
        loaded: The pipeline.
        listener: Gets the events as well.
    """

    def __init__(self, loaded: Loaded, listener: QueryListener) -> None:
        self._loaded = loaded
        self._listener = listener
        self._update_id = str(uuid.uuid4())
        self._rows: list[tuple[Any, ...]] = []
        self._number = 0
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._timer: threading.Timer | None = None
        self._has_columns = False
        self._counted: set[str] = set()
        self._hooks = [_Hook(each) for each in loaded.definitions.hooks]

    def hear(self, event: QueryEvent) -> None:
        """Hands an event on, and keeps it for the table."""
        self._listener(event)
        if isinstance(event, ev.BatchWritten | ev.SinkWritten):
            self._counted.add(event.flow)
        for each in _described(event, counted=event.flow in self._counted):
            self._keep(each, event.flow, event.dataset)

    @contextmanager
    def of_update(self, selection: Selection) -> Iterator[None]:
        """An update is at work in the block; its events are in the table afterwards, unless that cannot be written."""
        what = {
            "full_refresh": selection.full_refresh_all,
            "refresh_selection": list(selection.refresh),
            "full_refresh_selection": list(selection.full_refresh),
            "reset_checkpoint_selection": list(selection.reset_checkpoint),
        }
        self._keep(_Event("create_update", "INFO", "Update was created.", {"create_update": what}))
        try:
            for each in definition_events(self._loaded.graph):
                said = _Event(each.kind, "INFO", each.message, {each.kind: each.details})
                self._keep(said, each.flow, each.dataset)
            self._progress("RUNNING", "INFO")
            yield
        except Exception as error:
            self._progress("FAILED", "ERROR", error)
            raise
        finally:
            self._write_or_note()
            self._stop_timer()

    def finished(self, outcomes: Sequence[DatasetOutcome], *, stopped: bool) -> None:
        """The update is done."""
        failed = [each for each in outcomes if each.result == "failed"]
        if failed:
            self._progress("FAILED", "ERROR", failed[0].error)
        else:
            self._progress("CANCELED" if stopped else "COMPLETED", "INFO")

    def _progress(self, state: str, level: str, error: BaseException | None = None) -> None:
        message = f"Update {self._update_id[:6]} is {state}."
        self._keep(_Event("update_progress", level, message, {"update_progress": {"state": state}}, error))

    def _keep(self, event: _Event, flow: str | None = None, dataset: str | None = None) -> None:
        pipeline = self._loaded.pipeline
        with self._lock:
            self._number += 1
            origin = (pipeline.name, pipeline.name, self._update_id, flow, dataset, f"rivermouth {__version__}")
            row = (
                str(uuid.uuid4()),
                (self._number, (self._number,)),
                origin,
                self._loaded.workspace.now(),
                event.message,
                event.level,
                None if event.error is None else _described_error(event.error),
                json.dumps(event.details),
                event.kind,
                "STABLE",
            )
            self._rows.append(row)
            many = len(self._rows) % _MANY == 0
            if self._timer is None:
                self._timer = threading.Timer(_EVERY_S, self._write_or_note)
                self._timer.daemon = True
                self._timer.start()
        self._call(row)
        if many:
            self._write_or_note()

    def _call(self, row: tuple[Any, ...]) -> None:
        body = _as_dict(row)
        for each in self._hooks:
            most = each.hook.max_failures
            if most is not None and each.failures >= max(1, most):
                continue
            try:
                each.hook.function(body)
                each.failures = 0
            except Exception as error:  # noqa: BLE001 - a hook must not end an update
                each.failures += 1
                note = f"event hook {each.hook.name} failed with {type(error).__name__}: {error}"
                self._listener(ev.Note("", each.hook.name, note))

    def _write_or_note(self) -> None:
        """Writes; where that fails, the events wait for the next time, the oldest of too many are forgotten."""
        try:
            self.write()
        except Exception as error:  # noqa: BLE001 - the rows of the pipeline matter more than its log
            self._listener(ev.Note("", "", f"the event log was not written: {_told(error)}"))
            with self._writing, self._lock:
                lost = max(0, len(self._rows) - _MOST)
                del self._rows[:lost]
            if lost:
                self._listener(ev.Note("", "", f"the event log lacks {lost} events, which waited for too long"))

    def write(self) -> None:
        """Puts the events that are kept into the table.

        Guarantees:
            Stopped half-way: all of these events are there, or none. What could not be written is kept.
        """
        with self._writing:
            self._stop_timer()
            with self._lock:
                rows = list(self._rows)
            if rows:
                self._append(rows)
                with self._lock:
                    del self._rows[: len(rows)]

    def _stop_timer(self) -> None:
        with self._lock:
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _append(self, rows: Sequence[tuple[Any, ...]]) -> None:
        spark, location = self._loaded.workspace.session, self._loaded.pipeline.event_log
        files, named = self._loaded.workspace.files_of_lake, [_by_name(COLUMNS, each) for each in rows]
        if delta_table.exists(files, location):
            if append_few(files, location, named, COLUMNS):
                return
            self._add_columns(spark, location)
        else:
            comment = f"Events of pipeline {self._loaded.pipeline.name}"
            layout = delta_table.TableLayout(COLUMNS, comment=comment, properties=_PROPERTIES)
            delta_table.create(spark, location, layout, metadata="{}")
        append_rows(spark, files, location, named, COLUMNS)

    def _add_columns(self, spark: SparkSession, location: str) -> None:
        """Gives a table that an older version made the fields that errors have now."""
        if self._has_columns:
            return
        there = table_state(spark, location).columns
        if there["error"].dataType != COLUMNS["error"].dataType:
            alter(spark, location, added=(), widened=[COLUMNS["error"]])
        self._has_columns = True


def _told(error: Exception) -> str:
    return error.message if isinstance(error, RivermouthError) else f"{type(error).__name__}: {first_line(error)}"


@dataclass(frozen=True, slots=True)
class _Event:
    kind: str
    level: str
    message: str
    details: dict[str, Any]
    error: BaseException | None = None


_MAINTENANCE: Final = {
    "nothing": "MAINTENANCE_TYPE_NO_OP",
    "append": "MAINTENANCE_TYPE_APPEND_ONLY",
    "groups": "MAINTENANCE_TYPE_GROUP_AGGREGATE",
    "full": "MAINTENANCE_TYPE_COMPLETE_RECOMPUTE",
}
"""Databricks' words for how a view is refreshed."""


def _described(event: QueryEvent, *, counted: bool) -> list[_Event]:
    """What Databricks' event log says of an event. Each number is there once, so that sums over events are right.

    Args:
        event: The event.
        counted: Whether the batches of its flow have their numbers in the log.
    """
    name = event.flow

    def progress(status: str, level: str, error: BaseException | None = None, **more: Any) -> _Event:
        details = {"flow_progress": {"status": status, **more}}
        return _Event("flow_progress", level, f"Flow '{name}' is {status}.", details, error)

    match event:
        case ev.FlowStarted():
            return [progress("STARTING", "INFO"), progress("RUNNING", "INFO")]
        case ev.BatchWritten() | ev.SinkWritten():
            late = f"Flow '{name}': {event.counts.late} rows came later than the watermark allows, and were dropped."
            figures = progress("RUNNING", "METRICS", **_figures(event.dataset, event.counts))
            return [figures, *([replace(progress("RUNNING", "WARN"), message=late)] if event.counts.late else [])]
        case ev.FlowCompleted():
            return [progress("COMPLETED", "INFO", **({} if counted else _figures(event.dataset, event.counts)))]
        case ev.FlowFailed():
            return [progress("FAILED", "ERROR", event.cause)]
        case ev.FlowSkipped():
            return [progress("SKIPPED", "WARN", reason=event.reason)]
        case ev.FlowRetried():
            return [progress("QUEUED", "WARN", reason=event.error)]
        case ev.ViewDecided():
            kind = _MAINTENANCE[event.refresh]
            chosen = {"maintenance_type": kind, "is_chosen": True, "is_applicable": True}
            plan = {"technique_information": [chosen], "maintenance_type": kind, "reason": event.reason}
            said = f"Flow '{name}': {event.refresh}: {event.reason}."
            return [_Event("planning_information", "INFO", said, {"planning_information": plan})]
        case ev.Note():
            return [_Event("user_action", "WARN", event.message, {})]
    return []


def _figures(dataset: str, counts: QueryCounts) -> dict[str, Any]:
    expectations = [
        {"name": name, "dataset": where, "passed_records": each.read - failed, "failed_records": failed}
        for where, each in {dataset: counts, **counts.views}.items()
        for name, failed in each.expectations.items()
    ]
    quality = {
        "dropped_records": counts.dropped + sum(each.dropped for each in counts.views.values()),
        "dead_lettered_records": counts.dead_lettered,
        "late_records": counts.late,
        "expectations": expectations,
    }
    return {
        "metrics": {"num_output_rows": counts.written, "num_input_rows": counts.read},
        "data_quality": quality,
    }


def _described_error(error: BaseException) -> tuple[Any, ...]:
    """An error with those behind it, each with the lines of Python where it was raised."""
    chain = list[BaseException]()
    each: BaseException | None = error
    while each is not None and each not in chain:
        chain.append(each)
        each = each.__cause__
    return (True, str(error), [_described_exception(each) for each in chain])


def _described_exception(error: BaseException) -> tuple[Any, ...]:
    text = str(error) if isinstance(error, RivermouthError) else first_line(error)
    frames = traceback.extract_tb(error.__traceback__)
    stack = [(Path(each.filename).stem, each.name, each.filename, each.lineno) for each in frames]
    return (f"{type(error).__module__}.{type(error).__qualname__}", text, stack)


def _by_name(kind: T.DataType, value: Any) -> Any:
    """A value whose structs have the names of their fields."""
    if isinstance(kind, T.StructType) and value is not None:
        return {each.name: _by_name(each.dataType, part) for each, part in zip(kind, value, strict=True)}
    if isinstance(kind, T.ArrayType) and value is not None:
        return [_by_name(kind.elementType, part) for part in value]
    return value


def _as_dict(row: tuple[Any, ...]) -> dict[str, Any]:
    """An event as functions get it."""
    found: dict[str, Any] = _by_name(COLUMNS, row)
    found["timestamp"] = found["timestamp"].isoformat()
    with contextlib.suppress(ValueError):
        found["details"] = json.loads(found["details"])
    return found
