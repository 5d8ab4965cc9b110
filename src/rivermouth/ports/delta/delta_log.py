"""A Delta table's files without a Spark session: what its log says of them, and what lies in its folder."""

from __future__ import annotations

import base64
import json
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from rivermouth.domain.delta.table_files import DataFile, Removal, Snapshot, StoredFile
from rivermouth.ports.delta.delta_table import actions_of, commit_versions

if TYPE_CHECKING:
    from rivermouth.ports.lake.lake_reader import LakeReader

_THREADS: Final = 16
# One file, one of several, or one of version 2, whose actions are in further files.
_CHECKPOINT: Final = re.compile(
    r"^(?P<version>\d{20})\.checkpoint\.(?:parquet|(?P<part>\d{10})\.(?P<parts>\d{10})\.parquet"
    r"|[0-9a-fA-F-]{36}\.(?:json|parquet))$"
)
_ACTIONS: Final = ("add", "remove", "metaData", "domainMetadata", "sidecar")
_CLUSTERING: Final = "delta.clustering"
_Z85: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_UUID_CHARACTERS: Final = 20
# VACUUM looks into these, though their names begin with an underscore.
_SEEN: Final = ("_change_data", "_delta_index")

Key = tuple[str, str]


def read_snapshot(reader: LakeReader, location: str) -> Snapshot | None:
    """The newest version of the table at ``location``; None if there is none.

    Raises:
        LakeNotReadable: The store does not answer, or refuses.
    """
    log = f"{location.rstrip('/')}/_delta_log"
    versions = commit_versions(reader, location)
    first, parts = _newest_checkpoint(reader.names(log))
    if not versions and first is None:
        return None
    state = _State()
    for part in parts:
        state.take(_checkpoint_actions(reader, log, part), None)
    for version, text in _commits(reader, log, [each for each in versions if first is None or each > first]):
        state.take(map(json.loads, actions_of(text)), version)
    newest = max(versions, default=first or 0)
    if state.version is None:  # a checkpoint of the newest version: its operation and time are in its commit
        for version, text in _commits(reader, log, versions[-1:]):
            state.tell(map(json.loads, actions_of(text)), version)
    return state.snapshot(newest)


def read_removals(reader: LakeReader, location: str, *, until: int) -> tuple[list[Removal], int]:
    """Every removal in the log's commits up to ``until``, with its versions; and the first version that was read.

    Raises:
        LakeNotReadable: The store does not answer, or refuses.
    """
    versions = [version for version in commit_versions(reader, location) if version <= until]
    added: dict[Key, int] = {}
    found: list[Removal] = []
    for version, text in _commits(reader, f"{location.rstrip('/')}/_delta_log", versions):
        actions = [json.loads(line) for line in actions_of(text)]
        removed = [body for action in actions if (body := action.get("remove"))]
        found += [replace(_removal(body), added_in=added.get(_key(body)), removed_in=version) for body in removed]
        added |= {_key(body): version for action in actions if (body := action.get("add"))}
    return found, min(versions, default=0)


def stored_files(reader: LakeReader, location: str) -> tuple[list[StoredFile], int]:
    """The files in the table's folder that Delta looks after, and the size of its log.

    Other folders whose name begins with ``_`` or ``.``, such as a checkpoint's, are none of the table's.

    Raises:
        LakeNotReadable: The store does not answer, or refuses.
    """
    found, log_bytes = [], 0
    for each in reader.files(location):
        if each.path.startswith("_delta_log/"):
            log_bytes += each.bytes
        elif not any(_is_hidden(part) for part in each.path.split("/")):
            found.append(each)
    return found, log_bytes


def _is_hidden(name: str) -> bool:
    # A partition column may begin so: _day=2026-01-31.
    return name.startswith((".", "_")) and not name.startswith(_SEEN) and "=" not in name


class _State:
    """A version while it is put together, commit by commit."""

    def __init__(self) -> None:
        self.version: int | None = None
        self._files: dict[Key, DataFile] = {}
        self._removals: dict[Key, Removal] = {}
        self._metadata: Mapping[str, Any] = {}
        self._clustering: Mapping[str, Any] = {}
        self._info: Mapping[str, Any] = {}

    def take(self, actions: Iterable[Mapping[str, Any]], version: int | None) -> None:
        """Adds the actions of one commit, or of a checkpoint, which has no version of its own here."""
        kept = list(actions)
        if version is not None:
            self.tell(kept, version)
        for action in kept:
            if body := action.get("remove"):
                self._files.pop(_key(body), None)
                self._removals[_key(body)] = replace(_removal(body), removed_in=version)
        for action in kept:
            if body := action.get("add"):
                self._files[_key(body)] = _data_file(body)
                self._removals.pop(_key(body), None)
            self._metadata = action.get("metaData") or self._metadata
            domain = action.get("domainMetadata")
            if domain and domain["domain"] == _CLUSTERING:
                self._clustering = {} if domain.get("removed") else json.loads(domain["configuration"])

    def tell(self, actions: Iterable[Mapping[str, Any]], version: int) -> None:
        """Says only what made ``version``."""
        self.version = version
        self._info = next((body for action in actions if (body := action.get("commitInfo"))), {})

    def snapshot(self, version: int) -> Snapshot:
        """The whole."""
        at = self._info.get("timestamp")
        physical = _physical_names(self._metadata)
        clustering = [".".join(path) for path in self._clustering.get("clusteringColumns", ())]
        return Snapshot(
            version=version,
            operation=self._info.get("operation"),
            committed_at=None if at is None else at / 1000,
            files=tuple(self._files.values()),
            removals=tuple(self._removals.values()),
            columns=tuple(physical.values()),
            partition_by=tuple(self._metadata.get("partitionColumns") or ()),
            cluster_by=tuple(physical.get(name, name) for name in clustering),
            properties=dict(self._metadata.get("configuration") or {}),
            physical_names={name: called for called, name in physical.items() if called != name},
        )


def _physical_names(metadata: Mapping[str, Any]) -> dict[str, str]:
    """The columns by their names in the files."""
    fields = json.loads(metadata.get("schemaString") or "{}").get("fields", ())
    return {each["metadata"].get("delta.columnMapping.physicalName", each["name"]): each["name"] for each in fields}


def _newest_checkpoint(names: Sequence[str]) -> tuple[int | None, list[str]]:
    """The version and the files of the newest whole checkpoint."""
    found: dict[int, list[tuple[str, int | None]]] = {}
    for name in names:
        if match := _CHECKPOINT.match(name):
            parts = match["parts"]
            found.setdefault(int(match["version"]), []).append((name, None if parts is None else int(parts)))
    for version in sorted(found, reverse=True):
        for name, parts in found[version]:
            if parts is None:
                return version, [name]
            several = [each for each, of in found[version] if of == parts]
            if len(several) == parts:
                return version, several
    return None, []


def _checkpoint_actions(reader: LakeReader, log: str, name: str) -> Iterator[Mapping[str, Any]]:
    path = f"{log}/{name}"
    if name.endswith(".json"):
        actions: Iterable[Mapping[str, Any]] = map(json.loads, actions_of(reader.read(path) or ""))
    else:
        actions = reader.parquet(path, _ACTIONS)
    for action in actions:
        sidecar = action.get("sidecar")
        if sidecar:
            yield from reader.parquet(f"{log}/_sidecars/{sidecar['path']}", _ACTIONS)
        else:
            yield action


def _commits(reader: LakeReader, log: str, versions: Sequence[int]) -> Iterator[tuple[int, str]]:
    """The texts of commits, in order; one that was cleaned away meanwhile is left out."""
    with ThreadPoolExecutor(_THREADS) as pool:
        texts = pool.map(lambda version: reader.read(f"{log}/{version:020d}.json"), versions)
        yield from ((version, text) for version, text in zip(versions, texts, strict=True) if text is not None)


def _key(body: Mapping[str, Any]) -> Key:
    vector = body.get("deletionVector") or {}
    return body["path"], f"{vector.get('storageType')}{vector.get('pathOrInlineDv')}@{vector.get('offset')}"


def _data_file(body: Mapping[str, Any]) -> DataFile:
    vector = body.get("deletionVector") or {}
    rows = json.loads(body.get("stats") or "{}").get("numRecords")
    return DataFile(
        path=unquote(body["path"]),
        bytes=body["size"],
        rows=rows,
        deleted_rows=vector.get("cardinality") or 0,
        partition=json.dumps(dict(body.get("partitionValues") or {}), sort_keys=True),
        vector=vector_path(vector),
        vector_bytes=vector.get("sizeInBytes") or 0,
    )


def _removal(body: Mapping[str, Any]) -> Removal:
    return Removal(
        path=unquote(body["path"]),
        deleted_at=(body.get("deletionTimestamp") or 0) / 1000,
        vector=vector_path(body.get("deletionVector") or {}),
    )


def vector_path(vector: Mapping[str, Any]) -> str | None:
    """The file of a deletion vector; the log has its name as a UUID in Z85, after the name of a folder."""
    if vector.get("storageType") != "u":
        return None
    text = vector["pathOrInlineDv"]
    folder, name = text[:-_UUID_CHARACTERS], text[-_UUID_CHARACTERS:]
    number = uuid.UUID(bytes=base64.b85decode(name.translate(str.maketrans(_Z85, _B85))))
    return f"{folder}/deletion_vector_{number}.bin" if folder else f"deletion_vector_{number}.bin"
