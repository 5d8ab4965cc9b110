"""The table's shape: payload columns, metadata columns, derived columns, and how rows take it on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from rivermouth import names
from rivermouth.errors import ColumnCollision, ColumnReserved, RivermouthError
from rivermouth.rows import explode, reserved_names
from rivermouth.rows.columns import attempts, select_columns, time_ranges
from rivermouth.rows.columns.codegen import by_reference
from rivermouth.rows.columns.table_columns import derived_columns, key_columns
from rivermouth.rows.keyed import snapshots
from rivermouth.schemas.column_types import RESCUED

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyspark.sql import DataFrame

    from rivermouth.spec import Flow

HEADERS_TYPE = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))

_METADATA_TYPES: dict[str, DataType] = {
    "kafka_topic": StringType(),
    "kafka_partition": IntegerType(),
    "kafka_offset": LongType(),
    "kafka_position": IntegerType(),
    "kafka_timestamp": TimestampType(),
    "kafka_timestamp_type": IntegerType(),
    "kafka_headers": HEADERS_TYPE,
    "ingested_at": TimestampType(),
    "operation": StringType(),
    "source_timestamp": TimestampType(),
    "source_position": StringType(),
    "primary_key": StringType(),
}
_METADATA_SOURCES = {
    "kafka_topic": names.TOPIC,
    "kafka_partition": names.PARTITION,
    "kafka_offset": names.OFFSET,
    "kafka_position": names.POSITION,
    "kafka_timestamp": names.TIMESTAMP,
    "kafka_timestamp_type": names.TIMESTAMP_TYPE,
    "kafka_headers": names.HEADERS,
    "operation": names.OPERATION,
    "source_timestamp": names.SOURCE_TIMESTAMP,
    "source_position": names.SOURCE_POSITION,
    "primary_key": names.PRIMARY_KEY,
}
_KEPT = (*names.ENVELOPE, names.DATA, names.DECODED, names.KEY_VALID)


def table_columns(flow: Flow, payload: StructType, key: DataType) -> StructType:
    """The columns of the flow's table without the derived ones, in order: payload, then metadata.

    Args:
        flow: The flow.
        payload: What its format reads, or what it selects of that.
        key: The type of ``kafka_key``.

    Raises:
        ColumnCollision: A payload column has the name of a metadata column, in any case of letters.
        ColumnReserved: A column has a name of the way, in any case of letters.
    """
    metadata = [StructField(name, kind) for name, kind in metadata_types(flow, key).items()]
    taken = {field.name.lower(): column for field, column in zip(metadata, flow.metadata_columns, strict=True)}
    for field in metadata:
        if reserved_names.is_of_the_way(field.name):
            fix = renamed(flow, taken[field.name.lower()], payload.names)
            raise ColumnReserved(flow=flow.name, column=field.name, owner="rivermouth", fix=fix).about(
                "metadata_columns", taken[field.name.lower()]
            )
    for problem in taken_names(flow, payload).values():
        raise problem
    return StructType([*payload.fields, *metadata])


def taken_names(flow: Flow, payload: StructType) -> dict[str, RivermouthError]:
    """The payload columns that have the name of a metadata column or of the way, in any case of letters; and why not.

    Args:
        flow: The flow.
        payload: What its format reads, or what it selects of that.

    Returns:
        ColumnCollision or ColumnReserved by the name of the column, in the order of the columns.
    """
    taken = {name.lower(): column for column, name in flow.metadata_columns.items()}
    found: dict[str, RivermouthError] = {}
    for name in payload.names:
        if reserved_names.is_of_the_way(name):
            fix = f"leave {name} out of the schema, or write the value whole: format: text"
            found[name] = ColumnReserved(flow=flow.name, column=name, owner="rivermouth", fix=fix)
        elif name.lower() in taken:
            fix = renamed(flow, taken[name.lower()], payload.names)
            found[name] = ColumnCollision(flow=flow.name, column=name, fix=fix)
    return {name: problem.about("format", "schema") for name, problem in found.items()}


def metadata_types(flow: Flow, key: DataType) -> dict[str, DataType]:
    """The types of the flow's metadata columns by their names in the table; ``key`` is that of ``kafka_key``."""
    return {name: _metadata_type(column, key) for column, name in flow.metadata_columns.items()}


def renamed(flow: Flow, metadata: str, payload: Collection[str]) -> str:
    """The flow's ``metadata_columns`` as YAML, all of them, with a name for one of them that no column has."""
    taken = {name.lower() for name in (*payload, *flow.metadata_columns.values())}
    name = f"record_{metadata}"
    while name in taken:
        name = f"record_{name}"
    called = {**flow.metadata_columns, metadata: name}
    return f"metadata_columns: {{{', '.join(f'{column}: {new}' for column, new in called.items())}}}"


def is_taken(flow: Flow, name: str) -> bool:
    """Whether an inferred column cannot bear a name, in any case of letters.

    The way has it, or the table: as a metadata or a derived column, as that of epochs, or as the bounds of a version;
    or Spark and Delta have it where they write such a table and read it.
    """
    if reserved_names.is_of_the_way(name) or name.lower() in (names.EPOCH_COLUMN, RESCUED):
        return True
    if reserved_names.owner(flow, name) or reserved_names.is_of_versions(flow, name):
        return True
    looked_up = (name for each in flow.lookup for name in each.columns.values())
    ours = (*flow.metadata_columns.values(), *derived_columns(flow), *looked_up)
    return names.folded(name) in {names.folded(each) for each in ours}


def kept_columns(flow: Flow, payload: StructType) -> list[str]:
    """The payload columns that the table has, in order."""
    if flow.keyed is None:
        return list(payload.names)
    of_rows = [field.name for field in payload if not snapshots.is_beside(field)]
    wanted, unwanted = flow.keyed.columns or of_rows, flow.keyed.except_columns
    # What is rescued is in no other column.
    keys = (*key_columns(flow), *([RESCUED] if flow.policies.rescues and RESCUED not in unwanted else []))
    return [name for name in of_rows if name in keys or (name in wanted and name not in unwanted)]


def conform(rows: DataFrame, flow: Flow, beside: Sequence[str] = ()) -> DataFrame:
    """Decoded rows in the table's shape; the columns of the way (``__…``) stay too.

    ``__key_valid`` is false from here on also where an expression throws, or makes a time that a table cannot hold;
    then ``__unmade`` says why.

    Args:
        rows: As ``envelope.decode`` returns them.
        flow: Names the metadata and derived columns.
        beside: Further columns of ``rows`` that stay.
    """
    metadata = [
        f"{metadata_sql(column, flow)} AS {names.quoted(name)}" for column, name in flow.metadata_columns.items()
    ]
    told: tuple[str, ...] = (names.OPERATION, names.PRIMARY_KEY, names.MISFIT) if flow.change_envelope else ()
    if flow.change_envelope and flow.keyed is not None:
        told = (*told, names.ORDINAL if flow.splits else names.MOVED)
    if flow.whole_columns is not None:
        told = (*told, names.UNAVAILABLE)
    if flow.keyed is not None and flow.keyed.snapshots:
        told = (names.MISFIT, names.ORDINAL)
    told = (*told, *(names.lookup_column(index) for index in range(len(flow.lookup))))
    told = (*told, names.UNMADE) if names.UNMADE in rows.columns else told
    shaped = rows.selectExpr(f"{names.DATA}.*", *metadata, *_KEPT, *told, *beside)
    shaped = select_columns.select(shaped, flow, (*flow.metadata_columns.values(), *_KEPT, *told, *beside))
    selected = made_columns(flow, shaped.columns) if flow.select else []
    shaped = attempts.marked(shaped, dict(zip(selected, selected, strict=True)), _is_stored(flow, shaped.columns))
    derived = {
        name: F.expr(names.as_sql(expression, shaped.columns)) for name, expression in derived_columns(flow).items()
    }
    shaped = shaped.withColumns(derived) if derived else shaped
    shaped = attempts.marked(shaped, {name: name for name in derived}, _is_stored(flow, shaped.columns))
    return time_ranges.checked(shaped, made_columns(flow, shaped.columns))


def _is_stored(flow: Flow, columns: Collection[str]) -> str:
    """SQL: whether a row is to have all columns of the table, as far as its format says."""
    parts = [names.DECODED]
    if flow.keyed is not None or flow.null_values != "keep":
        parts.append(f"{names.VALUE} IS NOT NULL")
    if names.POSITION in columns:
        parts.append(f"{names.POSITION} <> {explode.NONE}")
    return " AND ".join(parts)


def made_columns(flow: Flow, columns: Collection[str]) -> list[str]:
    """Those of the columns of conformed rows that the flow's expressions make."""
    derived = derived_columns(flow)
    if not flow.select:
        return [name for name in columns if name in derived]
    others = {*flow.metadata_columns.values(), names.START_AT, names.END_AT}
    return [
        name for name in columns if name in derived or (name not in others and not reserved_names.is_of_the_way(name))
    ]


def metadata_sql(column: str, flow: Flow) -> str:
    """SQL over decoded rows of a metadata column."""
    if column == "ingested_at":
        return by_reference("current_timestamp()")
    if column == "kafka_key" and flow.key_columns is not None:
        return names.KEY_DATA
    if column == "kafka_key":
        return f"CAST({names.KEY} AS STRING)" if flow.key_as_text else names.KEY
    return _METADATA_SOURCES[column]


def _metadata_type(column: str, key: DataType) -> DataType:
    return key if column == "kafka_key" else _METADATA_TYPES[column]
