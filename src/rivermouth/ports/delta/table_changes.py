"""What happened in a Delta table between two versions, by its log: rows came, rows went, or nobody can know."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from rivermouth.domain.query.refresh_decision import SourceChange
from rivermouth.ports.delta.delta_log import vector_path
from rivermouth.ports.delta.delta_table import actions_of, read_commit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rivermouth.ports.delta.delta_table import Commit
    from rivermouth.ports.lake.lake_files import LakeFiles

_REPLACING: Final = ("CREATE", "REPLACE", "CLONE", "CONVERT", "RESTORE", "TRUNCATE")
_SETTINGS: Final = ("SET TBLPROPERTIES", "UNSET TBLPROPERTIES", "UPGRADE PROTOCOL", "CLUSTER BY")
"""Operations that write the metadata of a table, and leave its columns as they are."""
_REMOVES_COLUMNS: Final = ("DROP COLUMNS", "REPLACE COLUMNS")
_COLUMN_MAPPING: Final = "delta.columnMapping."
"""Properties that give the columns other names in files."""


@dataclass
class _ChangesFound:
    """What the commits that were looked at did.

    Attributes:
        versions: How many changed rows.
        came: Paths of files that were added, with rows that are new.
        went: The same of removed files.
        left: Paths of all files that were removed.
        others: Paths of further files: those of the change data feed, and deletion vectors.
        bytes: How much of the files that came and went is new or gone.
        feed_bytes: The same as the change data feed has it.
        same_settings: Whether none of the commits wrote settings of the table.
    """

    versions: int = 0
    came: set[str] = field(default_factory=set)
    went: set[str] = field(default_factory=set)
    left: set[str] = field(default_factory=set)
    others: set[str] = field(default_factory=set)
    bytes: int = 0
    feed_bytes: int = 0
    same_settings: bool = True


def change_of(files: LakeFiles, location: str, after: int, until: int) -> SourceChange:
    """What the versions behind ``after`` up to ``until`` did to the rows of a table.

    Args:
        files: Reads the table's log.
        location: The table's folder.
        after: A version.
        until: A later one, or the same.
    """
    found = _ChangesFound()
    if until < after:
        return SourceChange("lost", reason=f"it has no version {after} any more")
    for version in range(after + 1, until + 1):
        text = files.read(_log(location, version, "json"))
        if text is None:
            return SourceChange("lost", reason=f"its log no longer has version {version}")
        if reason := _take(found, [json.loads(line) for line in actions_of(text)]):
            return SourceChange("lost", until - after, f"{reason} in version {version}")
    if not found.versions:
        return SourceChange("same")
    if gone := _missing(files, location, found.went | (found.came & found.left) | found.others):
        return SourceChange("lost", found.versions, f"file {gone} of an older version was vacuumed")
    kind: Any = "changed" if found.went else "appended"
    size = _bytes(files, location, until)
    return SourceChange(kind, found.versions, "", found.bytes, found.feed_bytes, size, found.same_settings)


def _take(found: _ChangesFound, actions: list[dict[str, Any]]) -> str:
    """Adds one commit; says why it cannot be followed."""
    info: dict[str, Any] = next((each["commitInfo"] for each in actions if "commitInfo" in each), {})
    operation, parameters = str(info.get("operation", "")), info.get("operationParameters", {})
    if operation.startswith(_REPLACING):
        return f"it was made or filled again ({operation})"
    if operation == "WRITE" and parameters.get("mode") == "Overwrite" and not parameters.get("predicate"):
        return "all of its rows were replaced"
    if any("metaData" in each for each in actions):
        found.same_settings = False
        if not operation.startswith(_SETTINGS) or _COLUMN_MAPPING in json.dumps(parameters):
            return f"its columns or settings were changed ({operation})"
    _take_files(found, actions)
    return ""


def _take_files(found: _ChangesFound, actions: list[dict[str, Any]]) -> None:
    """Adds the files of one commit."""
    bodies = {name: [each[name] for each in actions if name in each] for name in ("add", "remove", "cdc")}
    found.left |= {each["path"] for each in bodies["remove"]}
    found.others |= {each["path"] for each in bodies["cdc"]}
    came, went = ([each for each in bodies[name] if each.get("dataChange")] for name in ("add", "remove"))
    if not came and not went:
        return
    found.versions += 1
    found.came |= {each["path"] for each in came}
    found.went |= {each["path"] for each in went}
    found.others |= {path for each in (*came, *went) if (path := vector_path(each.get("deletionVector") or {}))}
    size = _new_bytes(came, went)
    found.bytes += size
    found.feed_bytes += sum(each.get("size") or 0 for each in bodies["cdc"]) or size


def _new_bytes(came: list[dict[str, Any]], went: list[dict[str, Any]]) -> int:
    """The size of the files; of one in which rows were marked as deleted only the part that these rows take."""
    marked = {each["path"]: _deleted_rows(each) for each in went}
    size = sum(each.get("size") or 0 for each in went if each["path"] not in {other["path"] for other in came})
    for each in came:
        whole, rows = each.get("size") or 0, json.loads(each.get("stats") or "{}").get("numRecords")
        if each["path"] not in marked:
            size += whole
        elif not rows:
            size += 2 * whole
        else:
            size += whole * abs(_deleted_rows(each) - marked[each["path"]]) // rows
    return size


def _deleted_rows(body: dict[str, Any]) -> int:
    return (body.get("deletionVector") or {}).get("cardinality") or 0


def _missing(files: LakeFiles, location: str, paths: set[str]) -> str | None:
    """One of these files that is not there any more; None where all are."""
    listed: dict[str, set[str]] = {}
    for path in map(unquote, sorted(paths)):
        place = path if path.startswith("/") or ":/" in path else f"{location.rstrip('/')}/{path}"
        folder, _, name = place.rpartition("/")
        if folder not in listed:
            listed[folder] = set(files.names(folder))
        if name not in listed[folder]:
            return name
    return None


def _bytes(files: LakeFiles, location: str, version: int) -> int | None:
    """The size of a version, as its checksum says it; None where there is none."""
    text = files.read(_log(location, version, "crc"))
    if text is None:
        return None
    size = json.loads(text).get("tableSizeBytes")
    return size if isinstance(size, int) else None


def restored_version(files: LakeFiles, location: str, commit: Commit) -> int | None:
    """The version that a RESTORE brought back; None where nothing says it.

    A RESTORE to a time does not name its version. It says how many files the table has afterwards, and of what size, as
    the checksums of versions do.
    """
    if commit.restored_version is not None:
        return commit.restored_version
    wanted = tuple(commit.metrics.get(name) for name in ("numOfFilesAfterRestore", "tableSizeAfterRestore"))
    for version in range(commit.version - 1, -1, -1):
        text = files.read(_log(location, version, "crc"))
        if text is not None and tuple(json.loads(text).get(name) for name in ("numFiles", "tableSizeBytes")) == wanted:
            return version
    return None


def changed_by(files: LakeFiles, location: str, versions: Iterator[int]) -> str:
    """The first of these versions that changed rows or removed columns, in words; empty where none did."""
    for version in versions:
        commit = read_commit(files, location, version)
        if commit is None:
            return f"version {version} is not in its log any more"
        if commit.changes_data or commit.operation in _REMOVES_COLUMNS:
            return f"{commit.operation} in version {version}"
    return ""


def _log(location: str, version: int, ending: str) -> str:
    return f"{location.rstrip('/')}/_delta_log/{version:020d}.{ending}"
