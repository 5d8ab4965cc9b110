"""What Spark refuses in a pipeline's files and queries, as errors with codes and remedies."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from pyspark.errors import PySparkException

from rivermouth.errors import ConfigurationMissing, DatasetUnknown, QueryInvalid, RivermouthError, first_line
from rivermouth.names import did_you_mean
from rivermouth.pipelines.files.paths import missing

_NO_TABLE: Final = {"TABLE_OR_VIEW_NOT_FOUND", "DELTA_TABLE_NOT_FOUND", "REQUIRES_SINGLE_PART_NAMESPACE"}
"""The last one is said of a table of another catalog."""


def refused_query(error: PySparkException, at: str, dataset: str, tables: Collection[str]) -> RivermouthError:
    """The error about a query that Spark refuses.

    Args:
        error: Spark's.
        at: Where the query is.
        dataset: Whose query it is.
        tables: The names that the pipeline defines.
    """
    if error.getCondition() in _NO_TABLE:
        name = _fact(error, "relationName") or _fact(error, "identifier") or "a table"
        return DatasetUnknown(at=at, reader=dataset, name=name, fix=did_you_mean(name, tables))
    return missing_input(error, at) or QueryInvalid(at=at, dataset=dataset, detail=first_line(error))


def missing_input(error: BaseException, at: str) -> RivermouthError | None:
    """The error about a path or a configuration value that does not exist; None where Spark complains of another thing.

    Args:
        error: Spark's.
        at: Where the path or the value is named.
    """
    if not isinstance(error, PySparkException):
        return None
    if error.getCondition() == "PATH_NOT_FOUND":
        return missing(_fact(error, "path").removeprefix("file:"), at)
    if error.getCondition() == "SQL_CONF_NOT_FOUND":
        return ConfigurationMissing(at=at, name=_fact(error, "sqlConf").strip('"'))
    return None


def _fact(error: PySparkException, name: str) -> str:
    return str((error.getMessageParameters() or {}).get(name, "")).replace("`", "")
