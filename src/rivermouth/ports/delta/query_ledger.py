"""The ledger of the queries that write one table: in its commits, with a side file for each flow as a cache."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from rivermouth.domain.delta.table_transaction import CountedTransaction
from rivermouth.domain.ledger.ledger import Entry
from rivermouth.domain.query.query_entry import QueryEntry
from rivermouth.errors import CommitLost, LedgerLost, TableRestored
from rivermouth.ports.delta import delta_append, delta_table
from rivermouth.ports.delta.table_changes import restored_version
from rivermouth.ports.internals.delta_snapshot import table_state

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rivermouth.domain.delta.table_transaction import NewLayout
    from rivermouth.ports.delta.delta_table import Commit
    from rivermouth.ports.lake.lake_files import LakeFiles

_TRIES: Final = 20
_APP: Final = "rivermouth"


@dataclass(frozen=True, slots=True)
class QueryPosition:
    """Where a flow is in its table.

    Attributes:
        entry: Its newest entry.
        version: The version of the table up to which the log was read.
        at: The version from which on the table has what the entry says; -1 where the log does not hold it.
        restored: The version in which a RESTORE took the table back behind that; None where none did.
    """

    entry: QueryEntry
    version: int
    at: int = -1
    restored: int | None = None


class QueryLedger:
    """The ledger of one flow in one table.

    Args:
        files: Where the table lies.
        location: The table's folder.
        side_file: A file of the lake's state for this flow and table.
        flow: The flow's name.
        dataset: The name of the table, for messages.
    """

    def __init__(self, files: LakeFiles, location: str, side_file: str, *, flow: str, dataset: str = "") -> None:
        self._files = files
        self._dataset = dataset
        self.flow = flow
        self.location = location
        self.side_file = side_file

    def newest_version(self) -> int:
        """The table's version; -1 without a table."""
        return (delta_table.commit_versions(self._files, self.location) or [-1])[-1]

    def flow_of_project(self) -> str | None:
        """The flow of a project file whose rows are in the table; None where no such flow wrote it.

        Raises:
            LedgerTooNew, LedgerUnreadable: Its entry cannot be read.
        """
        for version in reversed(delta_table.commit_versions(self._files, self.location)):
            commit = delta_table.read_commit(self._files, self.location, version)
            text = None if commit is None else commit.user_metadata
            entry = Entry.from_json(text, table=self.location, version=version) if text else None
            if entry is not None:
                return entry.flow
        return None

    def position(self, spark: SparkSession | None = None) -> QueryPosition:
        """The newest entry of the flow, from the log or, where that was cleaned, from the side file.

        If the table was emptied after that entry, the sources are read from their beginning.

        Args:
            spark: To ask Delta for the transaction number, where the log does not hold the entry any more.

        Raises:
            LedgerLost: Delta knows of an entry that is nowhere to be found.
            LedgerTooNew, LedgerUnreadable: The entry cannot be read.
        """
        versions = delta_table.commit_versions(self._files, self.location)
        emptied: int | None = None
        restores = dict[int, int | None]()
        for commit in self._commits(versions):
            if commit.operation == "RESTORE":
                restores[commit.version] = restored_version(self._files, self.location, commit)
            entry = self._any_entry(commit)
            if entry is not None and entry.flow == self.flow:
                at = commit.version if emptied is None else emptied
                entry = entry if emptied is None else entry.of_emptied_table()
                return QueryPosition(entry, versions[-1], at, _taken_back(restores, at))
            # Another flow emptied the table, and the reset ended before it came to this one.
            if emptied is None and entry is not None and entry.kind == "cleared":
                emptied = commit.version
        newest = versions[-1] if versions else -1
        none = QueryPosition(QueryEntry(self.flow, number=-1), newest)
        if spark is None or (versions and versions[0] == 0):
            return none
        return self._without_log(spark, none)

    def _without_log(self, spark: SparkSession, none: QueryPosition) -> QueryPosition:
        state = table_state(spark, self.location)
        known = state.transactions.get(self.app_id(state.table_id))
        if known is None:
            return none
        text = self._files.read(self.side_file)
        entry = None if text is None else QueryEntry.from_json(text, table=self.location, version=none.version)
        if entry is None or entry.number != known:
            raise LedgerLost(table=self.location, entry=known, side_file=self.side_file)
        return QueryPosition(entry, none.version)

    def entries(self, count: int, *, most_commits: int | None = None) -> list[tuple[QueryEntry, Commit]]:
        """The newest entries that are still in the log, the newest first.

        Args:
            count: How many at most.
            most_commits: How many of the newest commits are read, those of others included; None for all. More are read
                only until one entry is found.
        """
        found: list[tuple[QueryEntry, Commit]] = []
        for read, version in enumerate(reversed(delta_table.commit_versions(self._files, self.location)), start=1):
            commit = delta_table.read_commit(self._files, self.location, version)
            entry = None if commit is None else self._entry(commit)
            if commit is not None and entry is not None:
                found.append((entry, commit))
            if len(found) == count or (found and most_commits is not None and read >= most_commits):
                break
        return found

    def versions_of_others(self, position: QueryPosition) -> list[int]:
        """The versions that came since the table was looked at for the newest entry, without the entry's own version.

        Where the log no longer has the entry's version, they are all that it has, and the first one that it lacks if
        that may be one of others.
        """
        versions = [
            each for each in delta_table.commit_versions(self._files, self.location) if each <= position.version
        ]
        onto = position.entry.onto
        mine = next((commit.version for entry, commit in self.entries(1) if entry.number == position.entry.number), -1)
        if mine < 0:
            is_whole = onto < 0 or not versions or versions[0] <= onto + 2
            return versions if is_whole else [onto + 2, *versions]
        since = mine if onto < 0 else min(mine, onto)
        return [each for each in versions if each > since and each != mine]

    def caught_up(self, position: QueryPosition) -> QueryPosition:
        """The same entry, at the table's newest version.

        Raises:
            CommitLost: Another process has written an entry of this flow meanwhile.
            TableRestored: The table was taken back behind the entry meanwhile.
        """
        version, restores = position.version, dict[int, int | None]()
        while (commit := delta_table.read_commit(self._files, self.location, version + 1)) is not None:
            entry = self._entry(commit)
            if entry is not None and entry.attempt != position.entry.attempt:
                raise CommitLost(flow=self.flow, entry=entry.number, table=self.location)
            version += 1
            if commit.operation == "RESTORE":
                restores = {version: restored_version(self._files, self.location, commit), **restores}
        found = QueryPosition(position.entry, version, position.at, _taken_back(restores, position.at))
        if position.entry.kind != "refresh":  # a view is computed again
            self.check_not_restored(found)
        return replace(found, restored=position.restored)

    def check_not_restored(self, position: QueryPosition) -> None:
        """Checks that the table has the rows that the sources gave up to a position.

        Raises:
            TableRestored: It was taken back behind the position.
        """
        if position.restored is not None:
            raise TableRestored(
                flow=self.flow,
                dataset=self._dataset,
                table=self.location,
                version=position.restored,
                entry=position.entry.number,
                before=position.restored - 1,
            )

    def write(
        self,
        rows: DataFrame,
        position: QueryPosition,
        entry: Callable[[], QueryEntry],
        *,
        table_id: str,
        replace: bool | NewLayout = False,
        by_footers: bool = False,
    ) -> tuple[QueryPosition, Commit]:
        """Writes rows and the entry that follows in one commit.

        Args:
            rows: In the table's shape.
            position: Where the flow is.
            entry: Called once the rows are in files.
            table_id: Delta's UUID of the table.
            replace: Whether the rows replace all rows of the table. With a layout the table gets that, too.
            by_footers: Whether Delta's statistics are taken from the files; no other thread may write in the session.

        Raises:
            CommitLost: Another process has written an entry of this flow meanwhile.

        Guarantees:
            Stopped half-way: neither rows nor entry, or both.
        """
        made: list[QueryEntry] = []

        def metadata() -> str:
            made.append(entry())
            return made[-1].to_json()

        number = position.entry.number + 1
        for _ in range(_TRIES):
            position = self.caught_up(position)
            app = self.app_id(table_id)
            carried = CountedTransaction(app, number, metadata, replaces=replace)
            onto = position.version
            if delta_append.write_counted(rows, self.location, carried, onto=onto, by_footers=by_footers):
                return self.found(made[-1], position.version)
        raise CommitLost(flow=self.flow, entry=number, table=self.location)

    def found(self, entry: QueryEntry, after_version: int) -> tuple[QueryPosition, Commit]:
        """The commit that holds ``entry``, looked for in the versions after ``after_version``.

        Raises:
            CommitLost: There is none.
        """
        version = after_version
        while (commit := delta_table.read_commit(self._files, self.location, version + 1)) is not None:
            version += 1
            mine = self._entry(commit)
            if mine is not None and mine.attempt == entry.attempt:
                self._files.write(self.side_file, entry.to_json())
                return QueryPosition(entry, version, version), commit
        raise CommitLost(flow=self.flow, entry=entry.number, table=self.location)

    def commit_of(self, entry: QueryEntry, after_version: int) -> Commit | None:
        """The commit that holds ``entry``, looked for in the versions after ``after_version``; None without one."""
        try:
            return self.found(entry, after_version)[1]
        except CommitLost:
            return None

    def newest_number(self, spark: SparkSession | None = None) -> int:
        """The greatest number of an entry of any flow in the table; -1 without one.

        Args:
            spark: To ask Delta for the transaction numbers, where the log does not hold an entry any more.
        """
        versions = delta_table.commit_versions(self._files, self.location)
        found = next((entry.number for entry in self._entries_of_all_flows(versions)), None)
        if found is not None:
            return found
        if spark is None or versions[:1] in ([], [0]):
            return -1
        state = table_state(spark, self.location)
        own = (number for app, number in state.transactions.items() if _is_of_queries(app, state.table_id))
        return max(own, default=-1)

    def newest_batch(self) -> tuple[QueryEntry, Commit] | None:
        """The newest entry of any flow that came with rows since the table was last emptied.

        That is a batch, the end of a query that had one, or a refresh; None where the log has none of them.
        """
        for entry, commit in self._commits_of_all_flows():
            if entry.kind == "cleared":
                return None
            if entry.query_id or entry.kind == "refresh":
                return entry, commit
        return None

    def lacks(self, batch: QueryEntry, commit: Commit) -> bool:
        """Whether this table has no entry of a batch that came before a commit of another table.

        False if the log was cleaned: its oldest commit is not older than that one.
        """
        versions = delta_table.commit_versions(self._files, self.location)
        oldest = math.inf
        for entry, mine in self._commits_of_all_flows(versions):
            if entry.flow == batch.flow and entry.holds(batch.query_id, batch.batch_id):
                return False
            oldest = mine.committed_at or math.inf
        return versions[:1] == [0] or oldest < (commit.committed_at or 0.0)

    def app_id(self, table_id: str) -> str:
        """The application id of the flow's commits."""
        return f"{_APP}/{self.flow}/{table_id}"

    def _entry(self, commit: Commit) -> QueryEntry | None:
        found = self._any_entry(commit)
        return found if found is not None and found.flow == self.flow else None

    def _entries_of_all_flows(self, versions: Sequence[int] | None = None) -> Iterator[QueryEntry]:
        """The entries in the log, the newest first; of these versions, or of all that it has."""
        return (entry for entry, _ in self._commits_of_all_flows(versions))

    def _commits_of_all_flows(self, versions: Sequence[int] | None = None) -> Iterator[tuple[QueryEntry, Commit]]:
        if versions is None:
            versions = delta_table.commit_versions(self._files, self.location)
        for commit in self._commits(versions):
            entry = self._any_entry(commit)
            if entry is not None:
                yield entry, commit

    def _commits(self, versions: Sequence[int]) -> Iterator[Commit]:
        """The commits of versions, the newest first."""
        found = (delta_table.read_commit(self._files, self.location, version) for version in reversed(versions))
        return (commit for commit in found if commit is not None)

    def _any_entry(self, commit: Commit) -> QueryEntry | None:
        if not commit.user_metadata:
            return None
        return QueryEntry.from_json(commit.user_metadata, table=self.location, version=commit.version)


def _is_of_queries(app_id: str, table_id: str) -> bool:
    return app_id.startswith(f"{_APP}/") and app_id.endswith(f"/{table_id}")


def _taken_back(restores: Mapping[int, int | None], at: int) -> int | None:
    """The first RESTORE behind a version, where the newest one leaves less than that version had; else None.

    Args:
        restores: What each RESTORE behind it brought back, the newest first; None where nothing says it.
        at: The version.
    """
    version = max(restores, default=-1)
    for done_in, brought in restores.items():
        if done_in > version:  # a later one took the table back behind this one
            continue
        if brought is None or brought < at:
            return min(each for each in restores if each > at)
        version = brought
    return None


def entry_in_side_file(files: LakeFiles, ledger: QueryLedger) -> QueryEntry | None:
    """The copy of the flow's newest entry, where the table's log does not hold it any more; None without one.

    Raises:
        LedgerTooNew, LedgerUnreadable: It cannot be read.
    """
    text = files.read(ledger.side_file)
    return None if text is None else QueryEntry.from_json(text, table=ledger.location, version=-1)


def is_written_by_queries(text: str) -> bool:
    """Whether a commit's metadata is an entry of any query."""
    try:
        return isinstance(body := json.loads(text), dict) and "rivermouth_query" in body
    except ValueError:
        return False
