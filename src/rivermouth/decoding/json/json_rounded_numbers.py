"""Text, and variants, of numbers that Spark's JSON parser made doubles of, so that digits may be lost.

For sessions without our classes: with them documents are changed before the parser reads them (``json.Kept``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Final

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.decoding.json.json_spark_parser import TEXT
from rivermouth.decoding.json.json_types import any_of, item_type
from rivermouth.names import quoted

# Numbers that may be others as the text of a double: Java 17 writes 9.999999999999999E22 for 1e23.
_ROUNDED: Final = r"-?((?=[0-9.]{17})[0-9]+[.]|[0-9]{16,}[eE]|[0-9.]+[eE][+-]?[0-9]{2})"
_TEXT_OF_DOUBLE: Final = r"^-?[0-9]+[.][0-9]+(E-?[0-9]+)?\z"
# What no document needs to escape.
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_]+")

_HAS_ROUNDED: Final = f"{TEXT} RLIKE r'[:,\\[]\\s*{_ROUNDED}'"
"""SQL: whether a document may have a number that a double does not keep."""


def rounded_texts(columns: Iterable[tuple[str, str, T.DataType]]) -> str | None:
    """SQL that is true where text of a number may not be what was sent, for the parser makes it of a double.

    None where no column has text. A string may look so too, and nobody knows any more what it was. So the document is
    searched for a number of that field which a double may not keep; for elements, and text of objects, of any field.

    Args:
        columns: SQL of each column as it was read, the name of its field, and its type.
    """
    texts = list(columns)
    named = [_number_texts(read, name, declared, count()) for read, name, declared in texts]
    # One search for all of them: Spark would put the search before the suspicion if it stood beside each of them.
    others = any_of(_other_texts(read, declared, count(), name) for read, name, declared in texts)
    searched = others and f"({others}) AND {_HAS_ROUNDED}"
    return any_of([*named, searched])


def rounded_variant(read: str) -> str:
    """SQL that is true where a variant may be of another number than was sent."""
    return f"schema_of_variant({read}) = 'DOUBLE' AND {_HAS_ROUNDED}"


def kept_type(declared: T.DataType, read: T.DataType) -> T.DataType:
    """``read``, by which a declared type is read, with decimals in the place of variants of which they are made."""
    match declared, read:
        case T.StructType(), T.StructType():
            pairs = zip(declared.fields, read.fields, strict=True)
            return T.StructType([T.StructField(one.name, kept_type(one.dataType, of.dataType)) for one, of in pairs])
        case T.ArrayType(), T.ArrayType():
            return T.ArrayType(kept_type(declared.elementType, read.elementType))
        case T.MapType(), T.MapType():
            return T.MapType(T.StringType(), kept_type(declared.valueType, read.valueType))
        case T.DecimalType(), T.VariantType():
            return declared
    return read


def rounded_decimals(read: str, kept: T.DataType, names: Iterator[int] | None = None) -> str | None:
    """SQL, true where a decimal may be made of another number than was sent; None without decimals.

    Args:
        read: SQL of a column as it was read.
        kept: Its type, as of ``kept_type``.
        names: Numbers for the names of variables.
    """
    names = names if names is not None else count()
    match kept:
        case T.DecimalType():
            return rounded_variant(read)
        case T.StructType():
            return any_of(rounded_decimals(f"{read}.{quoted(each.name)}", each.dataType, names) for each in kept)
        case T.ArrayType() | T.MapType():
            item = f"r{next(names)}"
            inner = rounded_decimals(item, item_type(kept), names)
            items = read if isinstance(kept, T.ArrayType) else f"map_values({read})"
            return inner and f"exists({items}, {item} -> coalesce({inner}, false))"
    return None


def _number_texts(read: str, name: str, declared: T.DataType, names: Iterator[int]) -> str | None:
    """Where text of fields with names is that of a double."""
    match declared:
        case T.StringType() if _PLAIN_NAME.fullmatch(name):
            sent = f"{TEXT} RLIKE r'\"{re.escape(name)}\"\\s*:\\s*{_ROUNDED}'"
            escaped = f"contains({TEXT}, r'\\u') AND {_HAS_ROUNDED}"
            return f"{read} RLIKE r'{_TEXT_OF_DOUBLE}' AND ({sent} OR ({escaped}))"
        case T.StructType():
            inner = ((f"{read}.{quoted(f.name)}", f.name, f.dataType) for f in declared.fields)
            return any_of(_number_texts(*each, names) for each in inner)
        case T.ArrayType() | T.MapType():
            item = f"w{next(names)}"
            items = read if isinstance(declared, T.ArrayType) else f"map_values({read})"
            within = item_type(declared)
            found = None if isinstance(within, T.StringType) else _number_texts(item, "", within, names)
            return found and f"exists({items}, {item} -> coalesce({found}, false))"
    return None


def _other_texts(read: str, declared: T.DataType, names: Iterator[int], name: str | None = None) -> str | None:
    """Where text may be that of an object or an array, of an element, or of infinity."""
    match declared:
        case T.StringType():
            begins = " OR ".join(f"startswith({read}, '{first}')" for first in "{[")
            suspects = [
                f"({begins}) AND (contains({read}, '.') OR contains({read}, 'Infinity'))",
                f"startswith({read}, '\"') AND contains({read}, 'Infinity\"')",
            ]
            if name is None or not _PLAIN_NAME.fullmatch(name):
                suspects.append(f"{read} RLIKE r'{_TEXT_OF_DOUBLE}'")
            return any_of(suspects)
        case T.StructType():
            inner = ((f"{read}.{quoted(f.name)}", f.dataType, f.name) for f in declared.fields)
            return any_of(_other_texts(sql, kind, names, name) for sql, kind, name in inner)
        case T.ArrayType() | T.MapType():
            item = f"z{next(names)}"
            items = read if isinstance(declared, T.ArrayType) else f"map_values({read})"
            within = _other_texts(item, item_type(declared), names)
            return within and f"exists({items}, {item} -> coalesce({within}, false))"
    return None
