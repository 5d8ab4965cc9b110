"""The values of a table's partition column, from the table's log: no file is read, and Spark is not asked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rivermouth.domain.project.table_per_value import found_of
from rivermouth.errors import SourceNotMade
from rivermouth.ports.delta.delta_log import read_snapshot
from rivermouth.ports.delta.delta_table import actions_of, commit_file, commit_versions

if TYPE_CHECKING:
    from collections.abc import Collection

    from rivermouth.domain.project.source_table import SourceTable
    from rivermouth.ports.lake.lake_reader import LakeReader
    from rivermouth.spec import Flow


class TableValues:
    """Finds the values of a source's column, for a family that has a flow for each of them.

    Args:
        reader: Reads the lake's files.
        source: The table.
        column: Its partition column.
        family: Name of the family, for errors.
    """

    def __init__(self, reader: LakeReader, source: SourceTable, column: str, *, family: str) -> None:
        self._reader = reader
        self._source = source
        self._column = column
        self._family = family
        self._version: int | None = None
        self._key = column
        self._values: set[str | None] = set()

    def topics(self, flow: Flow) -> tuple[str, ...]:  # noqa: ARG002 - as of Kafka's topics: the family's
        """The values that the table's rows have or had since the first look, sorted, as ``found_of`` gives them.

        Raises:
            SourceNotMade: There is no table yet.
            LakeNotReadable: Its log cannot be read.
        """
        location = self._source.places.table
        fresh = [] if self._version is None else self._commits_since(location, self._version)
        if self._version is None or fresh is None:
            self._look(location)
        for version, text in fresh or ():
            self._take(text)
            self._version = version
        return found_of(self._values)

    def describe(self, names: Collection[str]) -> Collection[str]:
        """Those of these values that the table has."""
        return {*names} & {*found_of(self._values)}

    def _commits_since(self, location: str, version: int) -> list[tuple[int, str]] | None:
        """The commits after ``version``; None where the log no longer has one of them."""
        found = []
        while (text := self._reader.read(commit_file(location, version + 1))) is not None:
            version += 1
            found.append((version, text))
        if found or version in commit_versions(self._reader, location)[-1:]:
            return found
        return None

    def _look(self, location: str) -> None:
        snapshot = read_snapshot(self._reader, location)
        if snapshot is None:
            places = self._source.places
            owner = self._source.flow.name
            raise SourceNotMade(flow=self._family, table=places.full_name, owner=owner, option=places.option)
        self._version = snapshot.version
        self._key = snapshot.physical_names.get(self._column, self._column)
        self._values |= {json.loads(file.partition).get(self._key) for file in snapshot.files}

    def _take(self, commit: str) -> None:
        for line in actions_of(commit):
            if '"add"' in line and (added := json.loads(line).get("add")):
                self._values.add((added.get("partitionValues") or {}).get(self._key))
