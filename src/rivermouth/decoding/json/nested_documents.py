"""JSON documents in strings of a document: where they are, and how they come to stand in the place of the strings."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from rivermouth.names import did_you_mean
from rivermouth.schemas.type_limits import is_text

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_PATH: Final = re.compile(r"[^.\[\]]+(\[\])*(\.[^.\[\]]+(\[\])*)*")
_STEP: Final = re.compile(r"\[\]|[^.\[\]]+")
_EACH: Final = "[]"


def check_paths(paths: Sequence[str]) -> None:
    """Makes sure that they are paths: names with dots between, and ``[]`` for elements.

    Raises:
        ValueError: One is none; the text says which.
    """
    for path in paths:
        if not _PATH.fullmatch(path):
            msg = f"{path!r} is no path of a field: write payload, order.payload or items[].payload"
            raise ValueError(msg)


def tree(paths: Sequence[str]) -> dict[str, Any]:
    """Where the strings are, for our class and for samples: ``fields`` by name, ``each``, and ``document``."""
    root: dict[str, Any] = {}
    for path in paths:
        node = root
        for step in _STEP.findall(path):
            node = node.setdefault("each", {}) if step == _EACH else node.setdefault("fields", {}).setdefault(step, {})
        node["document"] = True
    return root


def check(paths: Sequence[str], schema: StructType) -> None:
    """Makes sure that each path is one of a column, or of a part of one, that is read of a document.

    Raises:
        ValueError: One is not; the text says which, and what to do.
    """
    from pyspark.sql.types import ArrayType, MapType, StructType, VariantType  # noqa: PLC0415 - status needs no Spark

    for path in paths:
        kind: DataType = schema
        for step in _STEP.findall(path):
            if isinstance(kind, VariantType):
                break
            kind = _step(kind, step, path)
        if not isinstance(kind, (StructType, ArrayType, MapType, VariantType)):
            msg = f"documents_in_strings names {path!r}, which is of type {kind.simpleString()}: "
            msg += "declare what is in its document, a struct, array, map or variant"
            raise ValueError(msg)  # noqa: TRY004 - the caller reports ValueErrors


def _step(kind: DataType, step: str, path: str) -> DataType:
    from pyspark.sql.types import ArrayType, MapType, StructType  # noqa: PLC0415 - status needs no Spark

    from rivermouth.schemas.column_types import name_in_json  # noqa: PLC0415

    found: DataType | None = None
    known: list[str] = []
    match kind:
        case StructType() if step != _EACH:
            fields = {name_in_json(each): each.dataType for each in kind.fields}
            found, known = fields.get(step), list(fields)
        case ArrayType() if step == _EACH:
            found = kind.elementType
        case MapType() if step == _EACH:
            found = kind.valueType
    if found is None:
        hint = did_you_mean(step, known) if known else "[] is only for elements of arrays and values of maps"
        msg = f"documents_in_strings names {path!r}, which is no field of the schema: {hint}"
        raise ValueError(msg)
    return found


class _Number(str):
    """A number as written in the document."""

    __slots__ = ()


class _Members(list[tuple[str, Any]]):
    """The members of an object in order, twins included."""


class Refused(ValueError):
    """A string whose document cannot be had; the text is the reason's code."""


def opened(value: bytes, where: dict[str, Any]) -> bytes:
    """A document with those that stand in its strings in their place, as our class in Spark's JVM makes it.

    One that is not sound is left as it is: its reader says why.

    Args:
        value: The document.
        where: As of ``tree``.

    Raises:
        Refused: A string holds none.
    """
    try:
        document = _DECODER.decode(value.decode("utf-8"))
    except (ValueError, RecursionError):
        return value
    return _text(_opened(document, where)).encode()


def _opened(value: Any, where: dict[str, Any]) -> Any:
    if "document" in where and value is not None:
        if not isinstance(value, str) or isinstance(value, _Number):
            raise Refused("FIELD_TYPE")
        if not is_text(value):
            raise Refused("LONE_SURROGATE")
        try:
            value = _DECODER.decode(value)
        except (ValueError, RecursionError):
            raise Refused("INVALID_JSON") from None
    fields, each = where.get("fields", {}), where.get("each")
    if isinstance(value, _Members):
        nodes = ((name, item, fields.get(name, each)) for name, item in value)
        return _Members((name, item if node is None else _opened(item, node)) for name, item, node in nodes)
    if isinstance(value, list) and each is not None:
        return [_opened(item, each) for item in value]
    return value


def _text(value: Any) -> str:
    match value:
        case _Number():
            return str(value)
        case _Members():
            return f"{{{','.join(f'{json.dumps(name)}:{_text(item)}' for name, item in value)}}}"
        case list():
            return f"[{','.join(map(_text, value))}]"
    return json.dumps(value)


def _refuse(_word: str) -> None:
    raise ValueError


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_Members, parse_int=_Number, parse_float=_Number, parse_constant=_refuse
)
