"""A flow's ledger where it lies: in the commits of its table, with a side file as a cache of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from rivermouth.domain.delta.table_transaction import TableTransaction
from rivermouth.domain.kafka.kafka_offsets import flat_offsets
from rivermouth.domain.ledger.data_loss import LossDecision
from rivermouth.domain.ledger.ledger import EARLIEST, Counts, Entry
from rivermouth.domain.ledger.offset_ranges import Offsets, within
from rivermouth.errors import CommitLost, LedgerLost, LedgerTooNew, LedgerUnreadable, LedgerVoid, TableForeign
from rivermouth.ports.delta import delta_table

if TYPE_CHECKING:
    from collections.abc import Collection

    from rivermouth.ports.lake.lake_files import LakeFiles

_ELSEWHERE: Final = "name another table, or move this one away"


@dataclass(frozen=True, slots=True)
class LedgerPosition:
    """A flow's position in its ledger.

    Attributes:
        entry: The newest ledger entry.
        version: The table's version whose commit holds it.
        counts: Where the records of the entry's own batch went; None until that is known.
        report: Figures of the last batch, as the side file keeps them.
    """

    entry: Entry
    version: int
    counts: Counts | None = None
    report: Mapping[str, Any] | None = None

    @property
    def needed(self) -> Offsets:
        """From where the flow has to read: a batch that is not complete is read once more."""
        return self.entry.next_offsets if self.counts is not None else self.entry.settled

    def of_flow(self, name: str) -> LedgerPosition:
        """The same for the flow of that name, which may have had another one when the entry was written."""
        return replace(self, entry=replace(self.entry, flow=name))


class TableLedger:
    """The ledger of one flow in one table.

    Args:
        files: Where the table lies.
        location: The table's folder.
        side_file: ``_rivermouth/ledger/<table>.json``.
        flow: The flow's name.
        previously: The name that it had before, if it was renamed.
    """

    def __init__(
        self, files: LakeFiles, location: str, side_file: str, *, flow: str, previously: str | None = None
    ) -> None:
        self._files = files
        self._flow = flow
        self._names = {flow, previously} - {None}
        self.location = location
        self.side_file = side_file

    def position(self, transactions: Mapping[str, int] | None = None, *, even_void: bool = False) -> LedgerPosition:
        """The newest entry, from the log or, where the log was cleaned, from the side file.

        Args:
            transactions: The snapshot's transaction numbers, if a session is at hand to read them.
            even_void: Whatever others did after the entry: the version is then the table's newest.

        Raises:
            LedgerVoid: Someone else changed data after the last entry, or while its batch was written.
            LedgerLost: The snapshot knows of an entry that is nowhere to be found.
            TableForeign: The table has no entry of this flow.
            LedgerTooNew, LedgerUnreadable: The entry cannot be read.
        """
        side = self.read_side_file()
        foreign: list[delta_table.Commit] = []
        for version in reversed(delta_table.commit_versions(self._files, self.location)):
            commit = delta_table.read_commit(self._files, self.location, version)
            if commit is None:
                continue
            entry = self._entry(commit)
            if entry is not None:
                position = self._judged(LedgerPosition(entry, version), side, [] if even_void else foreign)
                if not even_void and (side is None or side.entry.attempt != entry.attempt):
                    self._check_before(entry, version)
                return replace(position, version=foreign[0].version) if even_void and foreign else position
            foreign.append(commit)
        return self._without_log(side, foreign, transactions, even_void=even_void)

    def newest(self, count: int | None = None) -> list[LedgerPosition]:
        """The newest entries that are still in the log, ``count`` of them or all, the newest first."""
        found: list[LedgerPosition] = []
        for version in reversed(delta_table.commit_versions(self._files, self.location)):
            commit = delta_table.read_commit(self._files, self.location, version)
            entry = None if commit is None else self._entry(commit)
            if entry is not None:
                found.append(LedgerPosition(entry, version))
            if len(found) == count:
                break
        return found

    def commit_of(self, entry: Entry, after_version: int) -> delta_table.Commit | None:
        """The commit that holds ``entry``, looked for in the versions after ``after_version``.

        None if there is none: another writer was first, or Delta skipped the transaction number.

        Raises:
            LedgerVoid: Someone else changed data between the two.
        """
        foreign: list[delta_table.Commit] = []
        for commit in self._commits_after(after_version):
            found = self._entry(commit)
            if found is not None and found.attempt == entry.attempt:
                if foreign:
                    before = self._entry_of(after_version) or replace(entry, number=entry.number - 1, next_offsets={})
                    self._check_foreign(foreign, before, after_version, behind=entry)
                return commit
            foreign.append(commit)
        return None

    def check_undisturbed(self, position: LedgerPosition) -> None:
        """Checks that no other writer changed data since the newest entry.

        Raises:
            LedgerVoid: Another program did.
            CommitLost: It was a writer of this flow that was thought dead.
        """
        commits = list(self._commits_after(position.version))
        for commit in commits:
            entry = self._entry(commit)
            if entry is not None:
                raise CommitLost(flow=self._flow, entry=entry.number, table=self.location)
        self._check_foreign(commits, position.entry, position.version)

    def _commits_after(self, version: int) -> Iterator[delta_table.Commit]:
        # One look a commit: listing a long log would cost more with every batch.
        while (commit := delta_table.read_commit(self._files, self.location, version := version + 1)) is not None:
            yield commit

    def _check_before(self, entry: Entry, version: int) -> None:
        """Checks what lies between the newest entry and the one before, where no run has come to its end since.

        An append does not fail for what others commit meanwhile. What a decision follows was decided by it.
        """
        if entry.kind in ("create", "decision"):
            return
        foreign: list[delta_table.Commit] = []
        for each in range(version - 1, -1, -1):
            commit = delta_table.read_commit(self._files, self.location, each)
            before = None if commit is None else self._entry(commit)
            if before is not None:
                self._check_foreign(foreign[::-1], before, each, behind=entry)
            if commit is None or before is not None:
                return
            foreign.append(commit)

    def _check_foreign(
        self, commits: list[delta_table.Commit], entry: Entry, last_version: int, *, behind: Entry | None = None
    ) -> None:
        """Checks that these commits after an entry changed no data; ``behind`` is the entry after them, if there is."""
        # Restored to what the last entry left, the table is as if nothing had been done to it.
        healed = max((commit.version for commit in commits if commit.restored_version == last_version), default=-1)
        for commit in commits:
            if commit.changes_data and commit.version > healed:
                raise LedgerVoid(
                    flow=self._flow,
                    table=self.location,
                    version=commit.version,
                    operation=commit.operation,
                    entry=entry.number,
                    last_version=last_version,
                    **self._keeping(commits, behind or entry),
                    **_undoing(self._flow, entry, behind),
                )

    def _keeping(self, commits: list[delta_table.Commit], entry: Entry) -> dict[str, Any]:
        """How the table could be kept as it is: ``moved`` is where a restored one goes on, ``options`` says it."""
        restored = next((commit for commit in reversed(commits) if commit.operation == "RESTORE"), None)
        moved = _moved(entry if restored is None else self._entry_of(restored.version), entry)
        return {"moved": moved, "stands": entry.next_offsets, "options": _options(moved, entry.next_offsets)}

    def _entry_of(self, version: int) -> Entry | None:
        """The entry whose rows that version of the table holds; None where the log does not have it."""
        there = set(delta_table.commit_versions(self._files, self.location))
        known: int | None = version
        while known is not None and known in there:
            commit = delta_table.read_commit(self._files, self.location, known)
            entry = None if commit is None else self._entry(commit)
            if commit is None or entry is not None:
                return entry
            known = commit.restored_version if commit.operation == "RESTORE" else known - 1
        return None

    def read_side_file(self) -> LedgerPosition | None:
        """What the side file says; None if there is none or it is damaged, for it is only a cache."""
        text = self._files.read(self.side_file)
        if text is None:
            return None
        try:
            body = json.loads(text)
            entry = Entry.from_json(body["entry"], table=self.location, version=body["version"])
            counts = None if body["counts"] is None else Counts(**body["counts"])
            return None if entry is None else LedgerPosition(entry, body["version"], counts, body.get("report"))
        except (ValueError, KeyError, TypeError, LedgerTooNew, LedgerUnreadable):
            return None

    def keep(self, position: LedgerPosition) -> None:
        """Writes the side file.

        Guarantees:
            Run twice: the same file. Stopped half-way: the old or the new file, whole; an old one is known by
            its number and not believed.
        """
        body = {
            "entry": position.entry.to_json(),
            "version": position.version,
            "counts": None if position.counts is None else asdict(position.counts),
            "report": position.report,
        }
        self._files.write(self.side_file, json.dumps(body))

    def _entry(self, commit: delta_table.Commit) -> Entry | None:
        if not commit.user_metadata:
            return None
        return Entry.from_json(commit.user_metadata, table=self.location, version=commit.version)

    def _judged(
        self, found: LedgerPosition, side: LedgerPosition | None, foreign: list[delta_table.Commit]
    ) -> LedgerPosition:
        if found.entry.flow not in self._names:
            detail = f"its ledger is that of flow {found.entry.flow!r}"
            raise TableForeign(flow=self._flow, table=self.location, detail=detail, fix=_ELSEWHERE)
        self._check_foreign(foreign[::-1], found.entry, found.version)
        if side is not None and side.entry.attempt == found.entry.attempt:
            return replace(side, version=found.version)
        return found

    def _without_log(
        self,
        side: LedgerPosition | None,
        foreign: list[delta_table.Commit],
        transactions: Mapping[str, int] | None,
        *,
        even_void: bool,
    ) -> LedgerPosition:
        numbers = (transactions or {}).items()
        known = max((number for app, number in numbers if self._is_ours(app)), default=None)
        if known is None:
            fix = _ELSEWHERE
            if transactions is not None:
                fix = f"name another table, or take this one over: rivermouth run {self._flow} --adopt CHECKPOINT"
            raise TableForeign(flow=self._flow, table=self.location, detail="no entry in its log", fix=fix)
        if side is None or side.entry.number != known:
            raise LedgerLost(table=self.location, entry=known, side_file=self.side_file)
        later = [commit for commit in foreign if commit.version > side.version]
        position = self._judged(side, side, [] if even_void else later)
        return replace(position, version=later[0].version) if even_void and later else position

    def _is_ours(self, app_id: str) -> bool:
        return any(app_id.startswith(f"rivermouth/{name}/") for name in self._names)


def narrowed(error: LedgerVoid, reads: Mapping[str, Collection[int]]) -> LedgerVoid:
    """The same, about what the flow reads: of what it reads no more nothing can be decided, and nothing has to be."""
    facts: dict[str, Any] = error.facts
    moved, stands, undone = (within(facts[name], reads) for name in ("moved", "stands", "undone"))
    moved, undone = ({topic: parts for topic, parts in each.items() if parts} for each in (moved, undone))
    again = _again(facts["flow"], undone, stands) if facts["again"] else ""
    return LedgerVoid(**{**facts, "moved": moved, "options": _options(moved, stands), "undone": undone, "again": again})


def _moved(then: Entry | None, entry: Entry) -> Offsets:
    """From where a table that has the rows of ``then`` would read again what that of ``entry`` has."""
    moved: Offsets = {}
    for topic, partition, offset in flat_offsets(entry.next_offsets):
        same = then is not None and then.begun.get((topic, partition)) == entry.begun.get((topic, partition))
        # Where it is not known what the table still has of this epoch, the whole epoch counts as removed.
        before = then.next_offsets.get(topic, {}).get(partition, EARLIEST) if then and same else EARLIEST
        if before != offset:
            moved.setdefault(topic, {})[partition] = before
    return moved


def _undoing(flow: str, entry: Entry, behind: Entry | None) -> dict[str, Any]:
    """What was written, and how the flow goes on when the table is restored to ``entry``: the rows behind go too."""
    if behind is None:
        return {"outcome": "nothing was written", "undone": {}, "again": "", "whole": False}
    undone = _moved(entry, behind)
    return {
        "outcome": f"the rows of ledger entry {behind.number} were added to it, and nothing was written after that",
        "undone": undone,
        "again": _again(flow, undone, behind.next_offsets),
        "whole": True,
    }


def _again(flow: str, undone: Offsets, stands: Offsets) -> str:
    return f', then rivermouth run {flow} {_options(undone, stands)} --why "REASON"'


def _options(moved: Offsets, stands: Offsets) -> str:
    # Where nothing moves one word is enough to say that somebody has looked.
    one = {topic: {p: offset} for topic, p, offset in list(flat_offsets(stands))[:1]}
    return LossDecision(rewinds=moved or one).options


class NumberedEntry(Protocol):
    """What a commit says of a ledger entry."""

    @property
    def flow(self) -> str:
        """The flow that writes."""

    @property
    def number(self) -> int:
        """The number of the entry."""

    def to_json(self) -> str:
        """The text that the commit holds."""


def transaction_of(entry: NumberedEntry, table_id: str) -> TableTransaction:
    """The number and the metadata of the commit that holds a ledger entry."""
    return TableTransaction(app_id(entry.flow, table_id), entry.number, entry.to_json())


def app_id(flow: str, table_id: str) -> str:
    """The application id of a flow's commits to one table."""
    return f"rivermouth/{flow}/{table_id}"
