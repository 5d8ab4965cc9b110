"""Delta tables whose whole history is a few commits that only added files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from rivermouth.ports.delta.delta_table import MAPPING, actions_of, commit_file, commit_versions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rivermouth.ports.lake.lake_files import SizedFiles

_MOST_COMMITS: Final = 10
_MOST_BYTES: Final = 1 << 20
_FEATURES: Final = frozenset({"deletionVectors", "timestampNtz", "vacuumProtocolCheck", "variantType"})
"""Features of readers with which the log of a table is as without them, as long as nothing was deleted."""


def is_young(files: SizedFiles, location: str) -> bool:
    """Whether the files that a table's commits added are those that it has now, and their rows have its columns.

    That is known of tables with some files and few commits, which are all in the log. What cannot be read is for Delta
    to tell.
    """
    versions = commit_versions(files, location)
    if not versions or versions != list(range(len(versions))) or len(versions) > _MOST_COMMITS:
        return False
    commits = [commit_file(location, version) for version in versions]
    if sum(files.size(each) or 0 for each in commits) > _MOST_BYTES:
        return False
    try:
        found = [[json.loads(line) for line in actions_of(files.read(each) or "")] for each in commits]
    except ValueError:
        return False
    if not all(each and all(_only_adds(action, version) for action in each) for version, each in enumerate(found)):
        return False
    return any("add" in action for each in found for action in each)


def _only_adds(action: Mapping[str, Any], version: int) -> bool:
    match action:
        case {"remove": _} | {"cdc": _} | {"add": {"deletionVector": {}}} | {"add": {"dataChange": False}}:
            return False
        case {"metaData": metadata}:
            return version == 0 and metadata.get("configuration", {}).get(MAPPING, "none") == "none"
        case {"protocol": protocol}:
            return version == 0 and _FEATURES.issuperset(protocol.get("readerFeatures", ()))
    return True
