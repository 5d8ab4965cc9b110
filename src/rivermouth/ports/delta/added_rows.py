"""The rows that commits added to a Delta table."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from rivermouth.ports.delta.delta_table import actions_of, commit_file, commit_versions
from rivermouth.ports.internals.delta_snapshot import rows_of_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rivermouth.ports.lake.lake_files import LakeFiles

_MANY: Final = 50
"""Number of commits from which on Spark finds their files faster than reading the commits one by one."""


def added_rows(spark: SparkSession, files: LakeFiles, location: str, version: int) -> DataFrame | None:
    """The rows that the commit of a version added; None if there are none.

    Args:
        spark: A session.
        files: Where the table lies.
        location: The table's folder.
        version: Of a commit that only added rows.

    Raises:
        Py4JJavaError: The version can no longer be read.
    """
    added = [
        line for line, action in _actions(files, location, version) if action.get("add", {}).get("dataChange", False)
    ]
    return rows_of_files(spark, location, version, added) if added else None


def rows_behind(
    spark: SparkSession, files: LakeFiles, location: str, is_known: Callable[[str], bool]
) -> DataFrame | None:
    """The rows in the files that the newest commits added; None where the log is too short, or they are too many.

    Args:
        spark: A session.
        files: Where the table lies.
        location: The table's folder.
        is_known: Says of the user metadata of a commit whether the rows are wanted that came after it.
    """
    versions = commit_versions(files, location)
    commits: list[list[tuple[str, dict[str, Any]]]] = []
    for version in reversed(versions[-_MANY:]):
        actions = _actions(files, location, version)
        told = (action["commitInfo"].get("userMetadata") for _, action in actions if "commitInfo" in action)
        is_last = is_known(str(next(told, "")))
        if not is_last:
            commits.append(actions)
        if is_last or version == 0:
            return rows_of_files(spark, location, versions[-1], _remaining(commits[::-1]))
    return None


def _remaining(commits: list[list[tuple[str, dict[str, Any]]]]) -> list[str]:
    """The actions that added the files which are there after all the commits; the first commit is the oldest."""
    there: dict[str, str] = {}
    for actions in commits:
        for _, action in actions:
            there.pop(action.get("remove", {}).get("path", ""), None)
        there |= {action["add"]["path"]: line for line, action in actions if "add" in action}
    return list(there.values())


def _actions(files: LakeFiles, location: str, version: int) -> list[tuple[str, dict[str, Any]]]:
    """The actions of a commit, each as its text and what it says."""
    text = files.read(commit_file(location, version)) or ""
    return [(line, json.loads(line)) for line in actions_of(text)]
