"""The checkpoint of a query over any sources: what Spark wrote of its batches, and one made of a ledger entry.

``offsets/<id>`` holds a version, a line of metadata and a line for each source; ``commits/<id>`` says that the batch is
done. A file source keeps the paths of each of its batches in ``sources/<n>/<id>``.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from rivermouth.domain.query.query_entry import streams_moved

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rivermouth.ports.lake.lake_files import LakeFiles

_VERSION: Final = "v1"
_OF_COMMITS: Final = (_VERSION, "v2", "v3")
"""The later ones also name the state of each partition."""
_OWNER_FILE: Final = "rivermouth.json"
_NONE: Final = "-"
_CHECKSUM: Final = re.compile(r"Checksum error: (\S+)")


@dataclass(frozen=True, slots=True)
class FoundCheckpoint:
    """What lies at a checkpoint's place.

    Attributes:
        state: ``none``, ``usable`` or ``damaged``.
        owner: The flow whose mark is there; None without a mark.
        query_id: Spark's id of the query.
        planned: The last batch whose offsets are written; -1 before the first.
        committed: The last batch that Spark calls done; -1 before the first.
        detail: What is damaged.
        follows: The attempt of the ledger entry from which the checkpoint was made; None of one that Spark began.
        repeats: The batch that brings the rows of that entry again, for its dead letters; None where none does.
        sources: What its query read when it was begun; None where that is not known.
        streams: What each of the streams was with which its query goes on; empty where that is not known.
    """

    state: Literal["none", "usable", "damaged"]
    owner: str | None = None
    query_id: str = ""
    planned: int = -1
    committed: int = -1
    detail: str = ""
    follows: str | None = None
    repeats: int | None = None
    sources: str | None = None
    streams: tuple[str, ...] = ()

    @property
    def is_before_first(self) -> bool:
        """Whether its query has no batch yet; the first one may be planned."""
        return self.state == "usable" and self.planned <= 0 and self.committed < 0

    def plans_of_others(self, sources: str, streams: tuple[str, ...]) -> bool:
        """Whether its first batch is planned, of other sources than these, or in another order."""
        is_other = self.sources not in (None, sources) or streams_moved(self.streams, streams)
        return is_other and self.is_before_first and self.planned == 0

    def batch_of(self, batch_id: int, attempt: str) -> int:
        """The number that the batch of a ledger entry has here."""
        return (self.repeats or 0) if self.follows == attempt else batch_id

    def goes_on_after(self, query_id: str, batch_id: int, attempt: str) -> bool:
        """Whether its query goes on with the batch that follows a ledger entry, or tries that one again.

        A batch that Spark calls done and that the table does not have is lost for this checkpoint.
        """
        if self.follows == attempt:
            batch_id = 0
        elif self.query_id != query_id:
            return False
        return self.committed <= batch_id and self.planned in (batch_id, batch_id + 1)


class QueryCheckpoint:
    """The checkpoint of one query at one place."""

    def __init__(self, files: LakeFiles, location: str) -> None:
        self._files = files
        self.location = location.rstrip("/")

    def inspect(self) -> FoundCheckpoint:
        """What lies there."""
        there = self._files.names(self.location)
        mark = self._mark() if _OWNER_FILE in there else FoundCheckpoint("none")
        if not set(there) - {_OWNER_FILE}:
            return FoundCheckpoint("none", mark.owner)
        try:
            query_id = json.loads(self._files.read(f"{self.location}/metadata") or "")["id"]
        except (ValueError, KeyError, TypeError):
            return FoundCheckpoint("damaged", mark.owner, detail="its metadata holds no id of a query")
        planned, committed = self._numbers("offsets"), self._numbers("commits")
        last, done = (each[-1] if each else -1 for each in (planned, committed))
        if done > last or (last > 0 and last not in committed and last - 1 not in committed):
            detail = f"files of batch {max(last - 1, 0)} are missing"
            return FoundCheckpoint("damaged", mark.owner, query_id, detail=detail)
        try:
            if last >= 0:
                self.offsets(last)
        except ValueError as error:
            return FoundCheckpoint("damaged", mark.owner, query_id, detail=str(error))
        return replace(mark, state="usable", query_id=query_id, planned=last, committed=done)

    def lacks_files(self, batch_id: int, files: int) -> str:
        """What is wrong with the lists of files that file sources have read; empty where nothing is.

        Spark takes a file that is in no list for a new one.

        Args:
            batch_id: A batch.
            files: How many files they have read up to its end.
        """
        try:
            ends = {source: _log_offset(line) for source, line in enumerate(self.offsets(batch_id)[1:])}
            found = sum(self._count(source, end) for source, end in ends.items() if end is not None)
        except (ValueError, KeyError, TypeError):
            return "a list of source files has an unknown form"
        return "" if found == files else f"its lists have {found} source files, and {files} were read"

    def _count(self, source: int, end: int) -> int:
        """How many files the lists of a source have up to one of them. A compact list has those before it too."""
        names = set(self._files.names(f"{self.location}/sources/{source}"))
        compact = [number for number in range(end + 1) if f"{number}.compact" in names]
        first = compact[-1] if compact else 0
        return sum(len(self._listed(source, number)) for number in range(first, end + 1))

    def damage(self, error_text: str, sources: int | None = None) -> str:
        """What Spark cannot read of it; empty where nothing is wrong. Reads more files than ``inspect``.

        Args:
            error_text: What the query failed with. It may name a file that has another checksum than it had.
            sources: How many sources the query has, where that is known.
        """
        if (named := _CHECKSUM.search(error_text)) is not None and (place := self._below(named[1])):
            return f"{place} has another content than Spark wrote"
        found = self.inspect()
        if found.state != "usable":
            return found.detail
        for number in range(max(0, found.planned - 1), found.planned + 1):
            if not self._is_log(f"offsets/{number}", metadata=True, lines=None if sources is None else 1 + sources):
                return f"offsets/{number} has an unknown form"
        if found.committed >= 0 and not self._is_log(f"commits/{found.committed}", versions=_OF_COMMITS):
            return f"commits/{found.committed} has an unknown form"
        for source in self._files.names(f"{self.location}/sources"):
            for name in self._files.names(f"{self.location}/sources/{source}"):
                place = f"sources/{source}/{name}"
                if name.removesuffix(".compact").isdecimal() and not self._is_log(place):
                    return f"{place} has an unknown form"
        return ""

    def _below(self, path: str) -> str:
        """A file's place in the checkpoint; empty of one that lies elsewhere."""
        _, found, place = path.partition(f"{self.location.partition(':')[2] or self.location}/")
        return place if found else ""

    def _is_log(
        self,
        place: str,
        *,
        metadata: bool = False,
        lines: int | None = None,
        versions: tuple[str, ...] = (_VERSION,),
    ) -> bool:
        """Whether a file has a version and lines of JSON, as all logs of Spark's; with ``metadata`` at least two."""
        text = self._files.read(f"{self.location}/{place}") or ""
        version, *found = text.lstrip("\0").rstrip("\n").split("\n")  # Kafka's has a zero byte before it
        if version not in versions or (metadata and len(found) < 2) or lines not in (None, len(found)):  # noqa: PLR2004
            return False
        try:
            for line in found:
                if line != _NONE:
                    json.loads(line)
        except ValueError:
            return False
        return True

    def claim(
        self,
        owner: str,
        follows: str | None = None,
        repeats: int | None = None,
        *,
        sources: str | None = None,
        streams: tuple[str, ...] = (),
    ) -> None:
        """Leaves the mark of a flow: which one, and what ``FoundCheckpoint`` has of it."""
        body = {"flow": owner, "follows": follows, "repeats": repeats, "sources": sources, "streams": streams}
        self._files.write(f"{self.location}/{_OWNER_FILE}", json.dumps(body))

    def keep_streams(self, owner: str, found: FoundCheckpoint, streams: tuple[str, ...]) -> None:
        """Has the mark of a flow say with which streams its query goes on; nothing is written where it does."""
        if found.owner != owner or found.streams != streams:
            self.claim(owner, found.follows, found.repeats, sources=found.sources, streams=streams)

    def offsets(self, batch_id: int) -> tuple[str, ...]:
        """The lines that Spark wrote for a batch, without the version.

        Raises:
            ValueError: The file is missing or has another form than this version of Spark writes.
        """
        text = self._files.read(f"{self.location}/offsets/{batch_id}") or ""
        version, *lines = text.split("\n")
        if version != _VERSION or len(lines) < 2:  # noqa: PLR2004 - metadata and a source
            msg = f"offsets/{batch_id} has an unknown form"
            raise ValueError(msg)
        return tuple(lines)

    def files_of(self, offsets: tuple[str, ...], before: tuple[str, ...]) -> list[tuple[int, str, int]]:
        """The files that file sources have read between two lines of offsets: number of the source, path, timestamp."""
        found: list[tuple[int, str, int]] = []
        for source, line in enumerate(offsets[1:]):
            last = _log_offset(line)
            if last is None:
                continue
            first = _log_offset(before[1 + source]) if len(before) > 1 + source else None
            for number in range(0 if first is None else first + 1, last + 1):
                found += self._read_files(source, number)
        return found

    def _read_files(self, source: int, number: int) -> list[tuple[int, str, int]]:
        parts = self._listed(source, number)
        return [(source, each["path"], each["timestamp"]) for each in parts if each["batchId"] == number]

    def _listed(self, source: int, number: int) -> list[Any]:
        folder = f"{self.location}/sources/{source}"
        text = self._files.read(f"{folder}/{number}")
        if text is None:
            text = self._files.read(f"{folder}/{number}.compact") or ""
        return [json.loads(line) for line in text.split("\n")[1:] if line]

    def seed(self, offsets: tuple[str, ...], files: Sequence[tuple[int, str, int]]) -> str:
        """Puts a checkpoint there whose batch 0 has read up to ``offsets``; Spark's new id of its query.

        Args:
            offsets: Lines of a ledger entry.
            files: What the file sources have read: as ``files_of`` returns it.

        Guarantees:
            Run twice: another one of the same content. Stopped half-way: one that ``inspect`` calls damaged, or none.
        """
        self.remove()
        self._plan(0, offsets, files)
        self._call_done(0, offsets)
        return self._begin()

    def seed_again(
        self,
        before: tuple[str, ...],
        files_before: Sequence[tuple[int, str, int]],
        offsets: tuple[str, ...],
        files: Sequence[tuple[int, str, int]],
    ) -> int:
        """Puts a checkpoint there whose next batch reads again from ``before`` to ``offsets``; that batch's number.

        Args:
            before: Lines of the ledger entry before; empty if the batch was the first.
            files_before: What the file sources had read then: as ``files_of`` returns it.
            offsets: Lines of the ledger entry.
            files: What the file sources have read: those of before, and those of the batch.

        Guarantees:
            As ``seed``.
        """
        self.remove()
        number = 1 if before else 0
        if before:
            self._plan(0, before, files_before)
            self._call_done(0, before)
        known = {(source, path) for source, path, _ in files_before} if before else set()
        self._plan(number, offsets, [each for each in files if each[:2] not in known], before)
        self._begin()
        return number

    def _plan(
        self,
        number: int,
        offsets: tuple[str, ...],
        files: Sequence[tuple[int, str, int]],
        before: tuple[str, ...] = (),
    ) -> None:
        """Writes the offsets of a batch, and the files of its file sources."""
        lines = list(offsets)
        for source, line in enumerate(offsets[1:]):
            if _log_offset(line) is None:
                continue
            mine = [each for each in files if each[0] == source]
            log = [json.dumps({"path": path, "timestamp": at, "batchId": number}) for _, path, at in mine]
            was_there = bool(before) and _log_offset(before[1 + source]) is not None
            if was_there and not mine:  # it stays where it was
                number_of_log = 0
            else:
                number_of_log = number
                self._files.write(f"{self.location}/sources/{source}/{number}", "\n".join([_VERSION, *log]))
            if number and not was_there:  # Spark reads the logs from 0 on
                self._files.write(f"{self.location}/sources/{source}/0", _VERSION)
            lines[1 + source] = json.dumps({"logOffset": number_of_log})
        self._files.write(f"{self.location}/offsets/{number}", "\n".join([_VERSION, *lines]))

    def _call_done(self, number: int, offsets: tuple[str, ...]) -> None:
        watermark: Any = json.loads(offsets[0]).get("batchWatermarkMs", 0)
        done = json.dumps({"nextBatchWatermarkMs": watermark})
        self._files.write(f"{self.location}/commits/{number}", f"{_VERSION}\n{done}")

    def _begin(self) -> str:
        """Makes it a query's: without its metadata, which come last, there is none."""
        query_id = str(uuid.uuid4())
        self._files.write(f"{self.location}/metadata", json.dumps({"id": query_id}))
        return query_id

    def remove(self) -> None:
        """Removes it."""
        self._files.delete(self.location)

    def set_aside(self) -> str:
        """Moves it to ``<place>.broken-<time>`` and says where."""
        aside = f"{self.location}.broken-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{time.time_ns() % 10**6:06d}"
        self._files.rename(self.location, aside)
        return aside

    def _mark(self) -> FoundCheckpoint:
        """What the mark of a flow says; nothing where it cannot be read."""
        try:
            body = json.loads(self._files.read(f"{self.location}/{_OWNER_FILE}") or "")
            return FoundCheckpoint(
                "none",
                body["flow"],
                follows=body.get("follows"),
                repeats=body.get("repeats"),
                sources=body.get("sources"),
                streams=tuple(body.get("streams", ())),
            )
        except (ValueError, KeyError, TypeError):
            return FoundCheckpoint("none")

    def _numbers(self, folder: str) -> list[int]:
        return sorted(int(name) for name in self._files.names(f"{self.location}/{folder}") if name.isdecimal())


@dataclass(frozen=True, slots=True)
class FixedOffsets:
    """In the place of a checkpoint: the batch is no stream's, and its entry says what it says.

    Attributes:
        lines: What the ledger entry says.
    """

    lines: tuple[str, ...]

    def offsets(self, _batch_id: int) -> tuple[str, ...]:
        """The lines."""
        return self.lines

    def files_of(self, _offsets: tuple[str, ...], _before: tuple[str, ...]) -> list[tuple[int, str, int]]:
        """None."""
        return []


def _log_offset(line: str) -> int | None:
    """The number of a file source's last batch; None of another source, or one without offsets."""
    if line == _NONE:
        return None
    try:
        body = json.loads(line)
    except ValueError:
        return None
    return int(body["logOffset"]) if isinstance(body, dict) and set(body) == {"logOffset"} else None
