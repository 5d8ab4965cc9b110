"""The sinks of flows: the keyed ones as AUTO CDC flows, and those that a pipeline does not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from rivermouth.names import named
from rivermouth.pipelines.convert.model import (
    HAS_KEY,
    HAS_SEQUENCE,
    SEQUENCE,
    TOMBSTONE,
    none_null,
    trimmed,
    word,
)
from rivermouth.pipelines.settings.known_settings import REMEMBER
from rivermouth.pipelines.spec import AutoCdc, Expectation

if TYPE_CHECKING:
    from rivermouth.spec import Flow

Differs = Callable[..., None]
_FURTHER: Final = {
    "kafka": "its rows are also written to a topic",
    "files": "its rows are also written to an archive",
}


def further_place(flow: Flow) -> str | None:
    """Where the rows of a flow go besides its table, as a sentence; None where they go nowhere else."""
    if flow.keyed is not None or flow.sink.type == "append":
        return None
    return _FURTHER.get(flow.sink.type, f"its rows are written by a sink {flow.sink.type}")


def auto_cdc(flow: Flow, differs: Differs) -> tuple[AutoCdc, dict[str, str], list[Expectation]]:
    """What an AUTO CDC flow makes of the changes, the properties of its target, and what it expects of each change.

    Args:
        flow: A flow with a keyed sink of changes.
        differs: Hears what a pipeline does otherwise: a sentence, and the path of the setting.
    """
    sink: Any = flow.keyed
    metadata = flow.metadata_columns
    keys = tuple(named(sink.keys)) or (metadata[flow.default_key],)
    deletes = sink.apply_as_deletes and trimmed(sink.apply_as_deletes)
    truncates = sink.apply_as_truncates and trimmed(sink.apply_as_truncates)
    has_tombstones = sink.tombstones_delete and not sink.keys and not sink.sequence_by
    if has_tombstones:
        deletes = f"{TOMBSTONE} OR ({deletes})" if deletes else TOMBSTONE
    beside = tuple(metadata.values())
    columns = tuple(dict.fromkeys([*keys, *sink.columns, *beside])) if sink.columns else ()
    except_columns = tuple(sink.except_columns)
    except_columns += (TOMBSTONE,) if has_tombstones and not columns else ()
    if not sink.sequence_by and sink.keys:
        text = "changes of a key are ordered by timestamp, then by offset; a flow orders a partition by offset alone"
        differs(text, "sink")
    cdc = AutoCdc(
        keys=keys,
        sequence_by=_sequence(flow),
        apply_as_deletes=deletes,
        apply_as_truncates=truncates,
        columns=columns,
        except_columns=except_columns,
        scd_type=2 if sink.versions else 1,
        track_history_columns=tuple(getattr(sink, "track_history_columns", ())),
        track_history_except_columns=tuple(getattr(sink, "track_history_except_columns", ())),
        ignore_null_updates=getattr(sink, "ignore_null_updates", False),
        ignore_null_updates_columns=tuple(getattr(sink, "ignore_null_updates_columns", ())),
        ignore_null_updates_except_columns=tuple(getattr(sink, "ignore_null_updates_except_columns", ())),
        columns_to_update=getattr(sink, "columns_to_update", None),
    )
    there = none_null(map(word, keys))
    if truncates:
        there = f"({truncates}) OR ({there})"
    held = [Expectation(HAS_KEY, there, "dead_letter")]
    if sink.sequence_by:
        held.append(
            Expectation(HAS_SEQUENCE, none_null(f"({trimmed(part)})" for part in sink.sequence_by), "dead_letter")
        )
    return cdc, {REMEMBER: f"{sink.remember_deletes:.0f}"}, held


def _sequence(flow: Flow) -> str:
    sink, metadata = flow.keyed, flow.metadata_columns
    parts = [trimmed(each) for each in sink.sequence_by] if sink is not None else []
    if not parts and sink is not None and not sink.keys:
        return word(metadata["kafka_offset"])  # the records of a key are in one partition
    if not parts:
        return SEQUENCE.format(timestamp=word(metadata["kafka_timestamp"]), offset=word(metadata["kafka_offset"]))
    return parts[0] if len(parts) == 1 else f"struct({', '.join(parts)})"
