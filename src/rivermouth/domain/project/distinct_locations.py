"""Places of flows are apart: no two things lie in one place, or one inside the other."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Final

from rivermouth.domain.project.locations import FlowPlaces, inside
from rivermouth.errors import PlaceInvalid, TableShared

_ARCHIVE: Final = "archive"
_DELTA_FOLDERS: Final = frozenset({"_delta_log", "_change_data", "_delta_index"})


def check_distinct(all_places: Iterable[FlowPlaces]) -> None:
    """Checks that no two tables or folders of these flows have the same path, or one path inside the other.

    A checkpoint may lie in a table's folder under a name that begins with ``_``: Delta leaves such folders alone. Two
    flows may share an archive, in which the names of files begin with the name of their flow.

    Raises:
        TableShared: Two flows share a table, its name, a dead letter table, a checkpoint or a folder of those.
        PlaceInvalid: The places of one flow are not distinct, or lie in the folder of rivermouth's own files.
    """
    known = list(all_places)
    for places in known:
        _check_own(places)
    for first, second in itertools.combinations(known, 2):
        _check_pair(first, second)
    for places in known:
        _check_outside_delta(places)


def check_beside(places: FlowPlaces, others: Iterable[FlowPlaces]) -> None:
    """Checks that ``places`` are distinct from those of other flows, with the rules of ``check_distinct``.

    Raises:
        TableShared: One of the others has a table, its name, a dead letter table, a checkpoint or a folder of those.
        PlaceInvalid: The places are not distinct in themselves.
    """
    _check_own(places)
    for other in others:
        _check_pair(other, places)
    _check_outside_delta(places)


def check_apart(trials: Iterable[FlowPlaces], real: Iterable[FlowPlaces]) -> None:
    """Checks that no path of a trial (``debug``) is the path of a real flow.

    Raises:
        TableShared: A trial would write where a flow really writes.
    """
    for trial, flow in itertools.product(list(trials), list(real)):
        _check_pair(trial, flow)
        if trial.archive and trial.archive == flow.archive:
            fix = _elsewhere(flow.flow)
            raise TableShared(first=trial.flow, second=flow.flow, place=_ARCHIVE, location=flow.archive, fix=fix)


def _named(places: FlowPlaces) -> tuple[tuple[str, str], ...]:
    found = (
        ("table", places.table),
        ("dead letter table", places.dead_letter_table),
        ("checkpoint", places.checkpoint),
        (_ARCHIVE, places.archive),
    )
    return tuple((what, here) for what, here in found if here)


def _check_own(places: FlowPlaces) -> None:
    for (what, here), (other, there) in itertools.combinations(_named(places), 2):
        if here == there:
            raise _wrong(places, f"its {what} and its {other} are both {here}", other)
        nested = _nested(what, here, other, there)
        if nested:
            raise _wrong(places, f"its {nested[0]} lies inside its {nested[1]}", other)
    for what, here in _named(places):
        if what != "checkpoint" and (here == places.state or inside(here, places.state)):
            raise _wrong(places, f"its {what} lies in {places.state}, the folder of rivermouth's own files", what)


def _check_outside_delta(places: FlowPlaces) -> None:
    for what, here in _named(places):
        for folder in _DELTA_FOLDERS.intersection(here.split("/")):
            raise _wrong(places, f"its {what} lies in {folder}, a folder of Delta's own", what)


def _wrong(places: FlowPlaces, detail: str, what: str) -> PlaceInvalid:
    if what == _ARCHIVE:
        return PlaceInvalid(setting=f"flow {places.flow}: sink.path", detail=detail, fix=_elsewhere(places.flow))
    return PlaceInvalid(setting=f"flow {places.flow}", detail=detail, fix="give each its own folder under places:")


def _elsewhere(flow: str) -> str:
    name = flow.partition(".")[0]
    return f"path: archive/{name} in the sink of flow {name}"


def _check_pair(first: FlowPlaces, second: FlowPlaces) -> None:
    if first.ledger_file == second.ledger_file:
        raise TableShared(first=first.flow, second=second.flow, place="table", location=second.name)
    # A metastore does not know upper case from lower.
    if first.registered and first.registered.lower() == (second.registered or "").lower():
        name = f"{first.registered} in the catalog"
        raise TableShared(first=first.flow, second=second.flow, place="name", location=name)
    for (what, here), (other, there) in itertools.product(_named(first), _named(second)):
        one, two = f"{what} of {first.flow!r}", f"{other} of {second.flow!r}"
        if here == there and what == other == _ARCHIVE:
            continue
        fix = {}
        if _ARCHIVE in (what, other):
            # Of two archives the outer one moves: the place that is proposed for the inner one can be inside it too.
            moves = first if other != _ARCHIVE or (what == _ARCHIVE and inside(there, here)) else second
            fix["fix"] = _elsewhere(moves.flow)
        if here == there:
            place, where = (what, here) if what == other else ("folder", f"{here} (the {one} and the {two})")
            raise TableShared(first=first.flow, second=second.flow, place=place, location=where, **fix)
        nested = _nested(what, here, other, there)
        if nested:
            inner, outer = (one, two) if inside(here, there) else (two, one)
            where = f"{there if inside(here, there) else here} (the {inner} lies inside the {outer})"
            raise TableShared(first=first.flow, second=second.flow, place="folder", location=where, **fix)


def _nested(what: str, here: str, other: str, there: str) -> tuple[str, str] | None:
    """(inner, outer) where one place lies inside the other and must not."""
    if inside(here, there):
        what, here, other, there = other, there, what, here
    if not inside(there, here):
        return None
    # Now ``there`` is the inner one. Delta and VACUUM leave folders alone whose name begins with ``_``.
    first = there.removeprefix(here.rstrip("/") + "/").split("/")[0]
    hidden = first.startswith("_") and first not in _DELTA_FOLDERS
    if other == "checkpoint" and what != "checkpoint" and hidden:
        return None
    return other, what
