"""The settings of an AUTO CDC flow, and what they say of its target: its columns, and which change is newer."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.rows.keyed import partial_changes
from rivermouth.rows.keyed.change_order import ChangeOrder
from rivermouth.schemas.column_types import nullable, nullable_columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FLOW, PART, ROW, TIME, EPOCH = "_cdc_flow", "_cdc_part", "_cdc_row", "_cdc_time", "_cdc_epoch"
COORDINATES: Final = (FLOW, PART, ROW, TIME, EPOCH)
"""The columns of the table behind a target that say which change a row is."""


class CdcSettings(Protocol):
    """The settings of an AUTO CDC flow; see ``pipelines.spec.AutoCdc``."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of key columns."""

    @property
    def sequence_by(self) -> str | None:
        """SQL of the order."""

    @property
    def apply_as_deletes(self) -> str | None:
        """SQL: whether a change deletes."""

    @property
    def apply_as_truncates(self) -> str | None:
        """SQL: whether a change deletes all keys before it."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The target's columns."""

    @property
    def except_columns(self) -> tuple[str, ...]:
        """Columns that the target does not have."""

    @property
    def scd_type(self) -> int:
        """1 or 2."""

    @property
    def track_history_columns(self) -> tuple[str, ...]:
        """A version begins where one of these changes."""

    @property
    def track_history_except_columns(self) -> tuple[str, ...]:
        """A version begins where one changes that is none of these."""

    @property
    def ignore_null_updates(self) -> bool:
        """Whether a null keeps the value."""

    @property
    def ignore_null_updates_columns(self) -> tuple[str, ...]:
        """The same for these."""

    @property
    def ignore_null_updates_except_columns(self) -> tuple[str, ...]:
        """The same for all but these."""

    @property
    def columns_to_update(self) -> str | None:
        """The column that lists what a change brings."""

    @property
    def others_truncate(self) -> bool:
        """Whether another flow of the target may delete all its keys."""


_KEYS: Final = "rivermouth.autoCdc.keys"
"""Table property of a target: its keys in lower case, as JSON."""
_SCD_TYPE: Final = "rivermouth.autoCdc.scdType"
_TRACKED: Final = "rivermouth.autoCdc.tracked"
"""Of a target of SCD type 2: the columns whose change makes a version, in lower case, as JSON."""
_SEQUENCES: Final = "rivermouth.autoCdc.sequenceBy"
"""What orders the changes of each flow that wrote the target, by the flow's name in lower case, as JSON."""


def target_properties(
    cdc: CdcSettings, sequences: Mapping[str, str], known: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The table properties that say how a target is written.

    Args:
        cdc: The settings of its flows.
        sequences: What orders the changes of each flow that has an order of its own, by the name of the flow.
        known: The properties of its table: the order of a flow that is gone stays.
    """
    found = {_KEYS: json.dumps(sorted(key.lower() for key in cdc.keys)), _SCD_TYPE: str(cdc.scd_type)}
    if cdc.scd_type != 1:
        found[_TRACKED] = json.dumps(_tracked(cdc))
    orders: dict[str, str] = json.loads((known or {}).get(_SEQUENCES, "{}"))
    orders |= {flow.lower(): sequence for flow, sequence in sequences.items()}
    if orders:
        found[_SEQUENCES] = json.dumps(orders, sort_keys=True)
    return found


def change_of_target(
    columns: T.StructType, properties: Mapping[str, str], cdc: CdcSettings, sequences: Mapping[str, str]
) -> tuple[str, str] | None:
    """How a target was written, and how its flows would write it, as text; None where that is the same.

    What the table of an earlier version does not say is not compared.

    Args:
        columns: Of its table.
        properties: Of its table.
        cdc: The settings of its flows.
        sequences: As in ``target_properties``.
    """
    by_columns = 2 if {names.START_AT, names.END_AT} <= set(columns.names) else 1
    scd_type = int(properties.get(_SCD_TYPE, by_columns))
    keys: list[str] = json.loads(properties.get(_KEYS, "[]"))
    wanted = sorted(key.lower() for key in cdc.keys)
    if scd_type != cdc.scd_type or keys not in ([], wanted):
        return _as_text(scd_type, keys), _as_text(cdc.scd_type, cdc.keys if keys else ())
    tracked = _tracked(cdc)
    before = json.loads(properties.get(_TRACKED, json.dumps(tracked)))
    if scd_type != 1 and before != tracked:
        return _versions_as_text(before), _versions_as_text(tracked)
    orders: dict[str, str] = json.loads(properties.get(_SEQUENCES, "{}"))
    for flow, sequence in sequences.items():
        known = orders.get(flow.lower(), sequence)
        if _folded_sql(known) != _folded_sql(sequence):
            said = f"SCD type {scd_type} with the changes of flow {flow} in the order of"
            return f"{said} {known}", f"{said} {sequence}"
    return None


def _as_text(scd_type: int, keys: Sequence[str]) -> str:
    if not keys:
        return f"SCD type {scd_type}"
    return f"SCD type {scd_type} with {'key' if len(keys) == 1 else 'keys'} {', '.join(keys)}"


def _tracked(cdc: CdcSettings) -> dict[str, list[str]]:
    """The columns whose change makes a version: ``only`` some, or all ``but`` some."""
    listed = {"only": cdc.track_history_columns, "but": cdc.track_history_except_columns}
    return {how: sorted(name.lower() for name in found) for how, found in listed.items() if found}


def _versions_as_text(tracked: Mapping[str, Sequence[str]]) -> str:
    only, but = (", ".join(tracked.get(how, ())) for how in ("only", "but"))
    return f"SCD type 2 with versions by {only or 'all columns'}{f' but {but}' if but else ''}"


def _folded_sql(text: str) -> str:
    """An expression without blanks and backticks, and in lower case but for the texts in it."""
    parts = re.split(r"('[^']*')", text)
    return "".join(part if part.startswith("'") else re.sub(r"[\s`]", "", part).lower() for part in parts)


def truncates(cdc: CdcSettings) -> bool:
    """Whether a flow of the target may delete all its keys."""
    return cdc.apply_as_truncates is not None or cdc.others_truncate


def payload(columns: T.StructType, cdc: CdcSettings) -> T.StructType:
    """The columns of the changes that the target has, in the order of the changes."""
    wanted = {name.lower() for name in cdc.columns}
    unwanted = {name.lower() for name in cdc.except_columns}
    if cdc.columns_to_update:
        unwanted.add(cdc.columns_to_update.lower())
    fields = [
        each for each in columns if (not wanted or each.name.lower() in wanted) and each.name.lower() not in unwanted
    ]
    return nullable_columns(T.StructType(fields))


def target_columns(columns: T.StructType, cdc: CdcSettings, sequence: T.DataType) -> T.StructType:
    """The columns of the target: with every version of a key also ``__START_AT`` and ``__END_AT``."""
    found = payload(columns, cdc)
    if cdc.scd_type == 1:
        return found
    span = (T.StructField(name, nullable(sequence)) for name in (names.START_AT, names.END_AT))
    return T.StructType([*without_span(found, cdc), *span])


def without_span(columns: T.StructType, cdc: CdcSettings) -> list[T.StructField]:
    """The columns of a target but for those that say from when to when a version is valid: no change brings them."""
    span = (names.START_AT, names.END_AT) if cdc.scd_type != 1 else ()
    return [each for each in columns if each.name not in span]


def own_columns(cdc: CdcSettings, order: ChangeOrder, sequence: T.DataType) -> list[T.StructField]:
    """The columns of the table behind a target that the target does not have, or that its changes do not bring."""
    own = [T.StructField(names.SEQUENCE, nullable(sequence))]
    if cdc.scd_type != 1:
        own += [T.StructField(name, nullable(sequence)) for name in (names.START_AT, names.END_AT)]
    if order.partial:
        own.append(T.StructField(names.PLACES, partial_changes.places_type(order, nullable(sequence))))
    kinds = (T.StringType(), T.IntegerType(), T.LongType(), T.TimestampType(), T.IntegerType())
    return [*own, *map(T.StructField, order.columns, kinds)]


def with_tracked(order: ChangeOrder, cdc: CdcSettings, columns: Sequence[str]) -> ChangeOrder:
    """The order, with the columns whose change makes a version, of a table with these columns behind a target.

    Among them are those that no change brings any more: versions that differ there stay.
    """
    if cdc.scd_type == 1:
        return order
    own = {names.SEQUENCE, names.PLACES, names.START_AT, names.END_AT, *order.columns, *order.keys}
    only = {name.lower() for name in cdc.track_history_columns}
    never = {name.lower() for name in cdc.track_history_except_columns}
    others = [name for name in columns if name not in own]
    tracked = (name for name in others if (not only or name.lower() in only) and name.lower() not in never)
    return replace(order, tracked=tuple(tracked))


def order_of(cdc: CdcSettings, columns: Sequence[str], *, snapshots: bool, epoch: str) -> ChangeOrder:
    """The order of the changes of a flow with these settings, for a target with these columns.

    The columns whose change makes a version come ``with_tracked``.
    """
    by_name = {name.lower(): name for name in columns}
    keys = tuple(by_name.get(name.lower(), name) for name in cdc.keys)
    others = [name for name in columns if name not in keys]
    return ChangeOrder(
        keys=keys,
        sequence=names.SEQUENCE,
        topic=FLOW,
        partition=PART,
        offset=ROW,
        timestamp=TIME,
        epochs=True,
        epoch=epoch,
        truncates=truncates(cdc) or snapshots,
        unplaced=False,
        partial=partial_columns(cdc, others),
        listed=cdc.columns_to_update is not None,
        snapshots=snapshots,
    )


def partial_columns(cdc: CdcSettings, others: Sequence[str]) -> tuple[str, ...]:
    """Of these columns, which are no keys, those that keep their value where a change brings none."""
    if cdc.ignore_null_updates_columns:
        only = {name.lower() for name in cdc.ignore_null_updates_columns}
        return tuple(name for name in others if name.lower() in only)
    if not (cdc.ignore_null_updates or cdc.ignore_null_updates_except_columns or cdc.columns_to_update):
        return ()
    never = {name.lower() for name in cdc.ignore_null_updates_except_columns}
    return tuple(name for name in others if name.lower() not in never)
