"""A Delta table without rows in a folder for temporary files, for commands that look at queries and write nothing.

Its log is written as text, with the checksum that Delta reads in the place of a snapshot: no Spark job is needed.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rivermouth.ports.delta import delta_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType, StructType

_PROTOCOL: Final = {"minReaderVersion": 1, "minWriterVersion": 2}
_PLAIN: Final = frozenset(
    (
        *("string", "binary", "boolean", "date", "timestamp"),
        *("tinyint", "smallint", "int", "bigint", "float", "double"),
    )
)
"""Types that every version of Delta's protocol has."""
_READERS_SEE: Final = frozenset({"delta.columnmapping.mode", "delta.enablechangedatafeed"})
"""Properties, in lower case, that decide how a table can be read."""
_DEFAULTS: Final = "spark.databricks.delta.properties.defaults."
"""Begins the settings of a session that give new tables a property."""


def create_stand_in(spark: SparkSession, folder: Path, columns: StructType, properties: Mapping[str, str]) -> str:
    """An empty table with these columns; where it is, for Spark.

    Args:
        spark: Any session.
        folder: A folder of this machine that is not there yet.
        columns: All of them nullable.
        properties: Those of the table that it replaces; what readers do not see is left out.

    Raises:
        AnalysisException: Delta does not take the columns.
    """
    location = f"file:{folder.absolute()}"  # not as_uri(): Hadoop takes %20 as it is written
    seen = {name: value for name, value in properties.items() if name.lower() in _READERS_SEE}
    if seen or not _is_plain(columns) or delta_table.needs_mapping(columns) or _has_defaults(spark):
        # What features of Delta such a table needs, Delta knows.
        delta_table.create(spark, location, delta_table.TableLayout(columns, properties=seen), metadata="{}")
        return location
    metadata = {
        "id": str(uuid.uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": columns.json(),
        "partitionColumns": [],
        "configuration": {},
        "createdTime": 0,
    }
    actions: tuple[Any, ...] = (
        {"commitInfo": {"timestamp": 0, "operation": "CREATE TABLE", "operationParameters": {}, "txnId": "0"}},
        {"metaData": metadata},
        {"protocol": _PROTOCOL},
    )
    checksum = {
        "txnId": "0",
        "tableSizeBytes": 0,
        "numFiles": 0,
        "numMetadata": 1,
        "numProtocol": 1,
        "setTransactions": [],
        "domainMetadata": [],
        "metadata": metadata,
        "protocol": _PROTOCOL,
        "allFiles": [],
    }
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020d}.crc").write_text(json.dumps(checksum), encoding="utf-8")
    (log / f"{0:020d}.json").write_text("\n".join(map(json.dumps, actions)), encoding="utf-8")
    return location


def _has_defaults(spark: SparkSession) -> bool:
    """Whether the session gives new tables a property that readers see."""
    return any(
        name.startswith(_DEFAULTS) and f"delta.{name.removeprefix(_DEFAULTS)}".lower() in _READERS_SEE
        for name in spark.conf.getAll
    )


def _is_plain(kind: DataType) -> bool:
    """Whether every version of Delta's protocol has the type, and its names are different ones for Delta."""
    from pyspark.sql.types import ArrayType, DecimalType, MapType, StructType  # noqa: PLC0415 - needs Spark

    match kind:
        case StructType():
            names = {each.name.lower() for each in kind}
            return 0 < len(names) == len(kind) and all(_is_plain(each.dataType) for each in kind)
        case ArrayType():
            return _is_plain(kind.elementType)
        case MapType():
            return _is_plain(kind.keyType) and _is_plain(kind.valueType)
    return isinstance(kind, DecimalType) or kind.simpleString() in _PLAIN
