"""A schema that was inferred and is kept: its file, its versions, and what a newer inference would change of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.rows.inferred import settled
from rivermouth.rows.json_types import name_in_json
from rivermouth.rows.schema import widens

FORMAT: Final = 1
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


def versions_of(names: list[str]) -> list[int]:
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


def difference(kept: T.StructType, found: T.StructType) -> Difference:
    """How the kept schema must change to take what was found; a column that was not found stays.

    Args:
        kept: The kept schema.
        found: As ``Inferred.found``: void where nothing but null was seen.
    """
    fields = list(kept.fields)
    places = {name_in_json(each): place for place, each in enumerate(fields)}
    changes: list[str] = []
    refused: list[str] = []
    for each in found.fields:
        place = places.get(name_in_json(each))
        if place is None:
            new = _added(each, {known.name.lower() for known in fields})
            fields.append(new)
            changes.append(f"adds column {new.name} {new.dataType.simpleString()}")
            continue
        mine = fields[place]
        wanted = settled(each.dataType)
        if takes(mine.dataType, each.dataType):
            continue
        if widens(mine.dataType, wanted):
            fields[place] = T.StructField(mine.name, wanted, mine.nullable, mine.metadata)
            changes.append(f"widens {mine.name} to {wanted.simpleString()}")
        else:
            refused.append(f"column {mine.name} is {_told(mine.dataType)}, and there are values of {_told(wanted)}")
    return Difference(T.StructType(fields), tuple(changes), tuple(refused))


def takes(kept: T.DataType, found: T.DataType) -> bool:
    """Whether a column of the kept type takes every value for which the other type was inferred."""
    match kept, found:
        case (_, T.NullType()):
            return True
        case (T.StringType(), _):
            return True
        case (T.StructType(), T.StructType()):
            mine = {each.name: each.dataType for each in kept.fields}
            return all(each.name in mine and takes(mine[each.name], each.dataType) for each in found.fields)
        case (T.MapType(), T.StructType()):
            return all(takes(kept.valueType, each.dataType) for each in found.fields)
        case (T.MapType(), T.MapType()):
            return takes(kept.valueType, found.valueType)
        case (T.ArrayType(), T.ArrayType()):
            return takes(kept.elementType, found.elementType)
        case (T.DecimalType(), T.LongType() | T.DecimalType()):
            precision, scale = (found.precision, found.scale) if isinstance(found, T.DecimalType) else _BIGINT
            return kept.scale >= scale and kept.precision - kept.scale >= precision - scale
    pairs = ((T.DoubleType, T.LongType), (T.TimestampNTZType, T.DateType))
    return kept == found or (type(kept), type(found)) in pairs


def _added(found: T.StructField, taken: set[str]) -> T.StructField:
    name, number = found.name, 1
    while name.lower() in taken:
        number += 1
        name = f"{found.name}_{number}"
    metadata = {**found.metadata, "json_name": name_in_json(found)} if name != name_in_json(found) else {}
    return T.StructField(name, settled(found.dataType), True, metadata)


def _told(declared: T.DataType) -> str:
    """A type in a few words: a wide struct would fill pages."""
    text = declared.simpleString()
    return text if len(text) <= 60 else f"{declared.typeName()} ({len(text)} characters)"  # noqa: PLR2004 - a line
