"""A schema that was inferred and is kept: its file, its versions, and what a newer inference would change of it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.rows.inferred import settled
from rivermouth.rows.inferred_numbers import NumberBounds
from rivermouth.rows.json_types import name_in_json
from rivermouth.rows.schema import widens

FORMAT: Final = 1
_MOVED: Final = ".moved_to."
_BIGINT: Final = (19, 0)
"""Digits of the widest whole number of 64 bits, as precision and scale."""


@dataclass(frozen=True, slots=True)
class KeptSchema:
    """One version of a flow's inferred schema.

    Attributes:
        flow: The flow's name when it was kept.
        version: Counted from 1.
        kept_at: When, in ISO 8601.
        records: Records that were looked at.
        corrupt: Those of them that were no documents.
        whole: Whether these were all that there were, and not a sample.
        changes: What is different from the version before; empty for the first.
        schema: The columns.
    """

    flow: str
    version: int
    kept_at: str
    records: int
    corrupt: int
    whole: bool
    changes: tuple[str, ...]
    schema: T.StructType

    def to_text(self) -> str:
        """The text of its file."""
        body = {
            "format": FORMAT,
            "flow": self.flow,
            "version": self.version,
            "kept_at": self.kept_at,
            "records": self.records,
            "corrupt": self.corrupt,
            "whole": self.whole,
            "changes": list(self.changes),
            "schema": self.schema.jsonValue(),
        }
        return json.dumps(body, indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_text(cls, text: str) -> KeptSchema:
        """The version that a file holds.

        Raises:
            ValueError: It is none; the text says why.
        """
        try:
            body: Any = json.loads(text)
        except ValueError:
            msg = "it is not JSON"
            raise ValueError(msg) from None
        if not isinstance(body, dict) or body.get("format") != FORMAT:
            known = isinstance(body, dict) and isinstance(body.get("format"), int) and body["format"] > FORMAT
            msg = "a newer rivermouth wrote it" if known else "it holds no kept schema"
            raise ValueError(msg)
        try:
            schema = T.StructType.fromJson(body["schema"])
            changes = tuple(str(each) for each in body["changes"])
            counts = (int(body["records"]), int(body["corrupt"]), bool(body["whole"]))
            return cls(str(body["flow"]), int(body["version"]), str(body["kept_at"]), *counts, changes, schema)
        except Exception:  # noqa: BLE001 - whatever stands there instead, Spark's parser has no errors of its own
            msg = "it holds no schema in Spark's JSON form"
            raise ValueError(msg) from None


def file_name(version: int) -> str:
    """The name of a version's file."""
    return f"{version:05d}.json"


def moved_name(version: int, flow: str) -> str:
    """The name of the mark that the versions up to one are ``flow``'s now, which bore this name before."""
    return f"{version:05d}{_MOVED}{flow}"


def moved_until(names: Iterable[str], flow: str) -> int:
    """The newest of the versions that another flow than ``flow`` took with it; 0 if there is none."""
    marks = (name.partition(_MOVED) for name in names)
    return max((int(version) for version, mark, taker in marks if mark and taker != flow), default=0)


def versions_of(names: Iterable[str]) -> list[int]:
    """The versions whose files are among these names, ascending."""
    stems = (name.removesuffix(".json") for name in names if name.endswith(".json"))
    return sorted(int(stem) for stem in stems if stem.isdecimal() and stem.isascii())


@dataclass(frozen=True, slots=True)
class Difference:
    """What a newer inference makes of a kept schema.

    Attributes:
        schema: The kept columns, in their order, wider where need be, and behind them new ones.
        changes: What is different, in words.
        refused: What would be needed besides, and no table takes.
    """

    schema: T.StructType
    changes: tuple[str, ...] = field(default=())
    refused: tuple[str, ...] = field(default=())


Numbers = Mapping[tuple[str, ...], NumberBounds]


def difference(
    kept: T.StructType, found: T.StructType, *, numbers: Numbers | None = None, pinned: Collection[str] = ()
) -> Difference:
    """How the kept schema must change to take what was found; a column that was not found stays.

    Args:
        kept: The kept schema.
        found: As ``Inferred.found``: void where nothing but null was seen.
        numbers: As ``Inferred.numbers``: a column may take numbers for which another type was inferred.
        pinned: Names, in lower case, of kept columns whose types are none of what is inferred.
    """
    fields = list(kept.fields)
    places = {name_in_json(each): place for place, each in enumerate(fields)}
    changes: list[str] = []
    refused: list[str] = []
    for each in found.fields:
        place = places.get(name_in_json(each))
        if place is None:
            new = added_field(each, {known.name.lower() for known in fields})
            fields.append(new)
            changes.append(f"adds column {new.name} {new.dataType.simpleString()}")
            continue
        mine = fields[place]
        wanted = settled(each.dataType)
        if mine.name.lower() in pinned or takes(mine.dataType, each.dataType, numbers or {}, (name_in_json(each),)):
            continue
        if widens(mine.dataType, wanted):
            fields[place] = T.StructField(mine.name, wanted, mine.nullable, mine.metadata)
            changes.append(f"widens {mine.name} to {wanted.simpleString()}")
        else:
            refused.append(f"column {mine.name} is {_told(mine.dataType)}, and there are {_values(mine, wanted)}")
    return Difference(T.StructType(fields), tuple(changes), tuple(refused))


def takes(kept: T.DataType, found: T.DataType, numbers: Numbers, path: tuple[str, ...]) -> bool:
    """Whether a column of the kept type takes every value for which the other type was inferred.

    Args:
        kept: The kept type.
        found: The inferred type.
        numbers: Bounds of the numbers, as far as they are known; else their type is all that is known of them.
        path: Where the values are, as in ``numbers``.
    """
    bounds = numbers.get(path)
    match kept, found:
        case (_, T.NullType()):
            return True
        case (T.StringType(), _):
            return True
        case (T.StructType(), T.StructType()):
            mine = {each.name: each.dataType for each in kept.fields}
            return all(
                each.name in mine and takes(mine[each.name], each.dataType, numbers, (*path, each.name))
                for each in found.fields
            )
        case (T.MapType(), T.StructType()):
            return all(takes(kept.valueType, each.dataType, numbers, (*path, each.name)) for each in found.fields)
        case (T.MapType(), T.MapType()):
            return takes(kept.valueType, found.valueType, numbers, (*path, "{}"))
        case (T.ArrayType(), T.ArrayType()):
            return takes(kept.elementType, found.elementType, numbers, (*path, "[]"))
        case (T.DecimalType(), T.LongType() | T.DecimalType() | T.DoubleType()) if bounds is not None:
            return bounds.fit_into(kept)
        case (T.DecimalType(), T.LongType() | T.DecimalType()):
            precision, scale = (found.precision, found.scale) if isinstance(found, T.DecimalType) else _BIGINT
            return kept.scale >= scale and kept.precision - kept.scale >= precision - scale
        case (T.DoubleType(), T.LongType()):
            return bounds is None or not bounds.inexact_integers
    return kept == found or (isinstance(kept, T.TimestampNTZType) and isinstance(found, T.DateType))


def added_field(found: T.StructField, taken: set[str]) -> T.StructField:
    """A new column of a table that has columns of the names in ``taken``, in lower case."""
    name, number = found.name, 1
    while name.lower() in taken:
        number += 1
        name = f"{found.name}_{number}"
    metadata = {**found.metadata, "json_name": name_in_json(found)} if name != name_in_json(found) else {}
    return T.StructField(name, settled(found.dataType), True, metadata)


def _values(mine: T.StructField, wanted: T.DataType) -> str:
    if isinstance(mine.dataType, T.DoubleType) and isinstance(wanted, T.LongType):
        return "whole numbers of which a double would lose digits"
    return f"values of {_told(wanted)}"


def _told(declared: T.DataType) -> str:
    """A type in a few words: a wide struct would fill pages."""
    text = declared.simpleString()
    return text if len(text) <= 60 else f"{declared.typeName()} ({len(text)} characters)"  # noqa: PLR2004 - a line
