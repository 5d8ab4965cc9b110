"""What is kept of families in the lake: which topics have a table, and which of them were there at the beginning.

``_rivermouth/families/<flow>/`` has ``begun.json``, the topics that the first run found, and in ``tables/`` a file for
each topic whose table was begun. Each is written once and never changed; the truth about progress is in the tables.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from rivermouth.domain.project.table_per_topic import Kept
from rivermouth.errors import LakeNotReadable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rivermouth.domain.project.locations import FlowPlaces
    from rivermouth.ports.lake.lake_files import LakeFiles
    from rivermouth.spec import Flow

_FORMAT: Final = 1
_SUFFIX: Final = ".json"


def read_kept(files: LakeFiles, places: FlowPlaces, family: Flow) -> Kept:
    """What is kept of a family, also under the name that it had before.

    Args:
        files: The lake's small files.
        places: Of any child of the family.
        family: The flow as it is written.

    Raises:
        LakeNotReadable: A file cannot be read, or is none of ours.
    """
    topics: set[str] = set()
    first: frozenset[str] | None = None
    for name in filter(None, (family.name, family.previously)):
        folder = places.family(name)
        topics |= {each.removesuffix(_SUFFIX) for each in files.names(f"{folder}/tables") if each.endswith(_SUFFIX)}
        first = _begun(files, f"{folder}/begun.json") if first is None else first
    return Kept(tuple(sorted(topics)), first)


def begin(files: LakeFiles, places: FlowPlaces, family: Flow, topics: Iterable[str]) -> Kept:
    """Keeps which topics there are at the family's beginning, unless that is known; what is kept then.

    What is kept under the name that the family had before is kept under its own from then on.

    Guarantees:
        Run twice, or by two at once: what the first one found stays.
    """
    found = read_kept(files, places, family)
    for topic in found.topics if family.previously else ():
        keep(files, places, family, topic)
    if found.first is not None and not family.previously:
        return found
    body = {"format": _FORMAT, "flow": family.name, "topics": sorted(topics if found.first is None else found.first)}
    files.create(f"{places.family(family.name)}/begun.json", json.dumps(body))
    return read_kept(files, places, family)


def keep(files: LakeFiles, places: FlowPlaces, family: Flow, topic: str) -> None:
    """Keeps that a topic has a table.

    Guarantees:
        Run twice: the second time changes nothing.
    """
    body = {"format": _FORMAT, "flow": family.name, "topic": topic}
    files.create(f"{places.family(family.name)}/tables/{topic}{_SUFFIX}", json.dumps(body))


def _begun(files: LakeFiles, path: str) -> frozenset[str] | None:
    text = files.read(path)
    if text is None:
        return None
    try:
        body = json.loads(text)
        if body["format"] != _FORMAT:
            detail = f"it has format {body['format']!r}, and this version reads format {_FORMAT}"
            raise LakeNotReadable(place=path, detail=detail)
        return frozenset(body["topics"])
    except (ValueError, KeyError, TypeError) as error:
        raise LakeNotReadable(place=path, detail="it is not what rivermouth writes there") from error
