"""Values that a change left as they were and that the database did not log: Debezium writes a placeholder for them.

https://debezium.io/documentation/reference/stable/connectors/postgresql.html#postgresql-toasted-values
"""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from typing import Final

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.decoding.cdc.debezium_types import HINTED
from rivermouth.decoding.json import json_types
from rivermouth.decoding.text import text_types
from rivermouth.names import literal, quoted
from rivermouth.schemas.column_types import ddl

PLACEHOLDER: Final = "__debezium_unavailable_value"
"""Debezium's ``unavailable.value.placeholder``, if the connector sets no other."""
_DAYS_OR_TIMES: Final = (T.DateType, T.TimestampType, T.TimestampNTZType)
_UUID_VERSION: Final = 3


def sql(read: str, done: str, declared: T.DataType, placeholder: str) -> str | None:
    """SQL: whether a column has the placeholder in the place of its value; None where it cannot.

    Args:
        read: SQL of the column as it was read.
        done: SQL of the value that was made of it.
        declared: Its type.
        placeholder: The connector's.
    """
    if isinstance(declared, HINTED):
        texts = _listed(placeholder, *_encoded(placeholder))
        return f"try_variant_get({read}, '$', 'string') IN ({texts})"
    if isinstance(declared, T.VariantType):
        return f"{read} IN ({_listed(*_texts(placeholder))})"
    if isinstance(declared, T.ArrayType) and isinstance(declared.elementType, T.VariantType):
        return f"size({read}) = 1 AND get({read}, 0) IN ({_listed(*_texts(placeholder))})"
    if isinstance(declared, T.ArrayType) and isinstance(declared.elementType, _DAYS_OR_TIMES):
        return f"transform({read}, u -> try_variant_get(u, '$', 'bigint')) = {_numbers(placeholder, 'bigint')}"
    return of_value(done, declared, placeholder)


def stored(declared: T.DataType, placeholder: str) -> str | None:
    """SQL of what a column of a type has while nobody knows its value; None where it cannot have the placeholder."""
    found = _stored(declared, placeholder)
    return found and f"CAST({found} AS {ddl(declared)})"


def _stored(declared: T.DataType, placeholder: str) -> str | None:
    text = literal(placeholder)
    match declared:
        case T.StringType():
            return text
        case T.BinaryType():
            return f"CAST({text} AS BINARY)"
        case T.VariantType():
            return f"parse_json({literal(json.dumps(placeholder))})"
        case T.ArrayType() if isinstance(declared.elementType, text_types.WHOLE):
            return _numbers(placeholder, declared.elementType.simpleString())
        case T.ArrayType() if not isinstance(declared.elementType, T.VariantType):
            inner = _stored(declared.elementType, placeholder)
            return inner and f"array({inner})"
        case T.MapType():
            inner = _stored(declared.valueType, placeholder)
            return inner and f"map({text}, {inner})"
        case T.StructType():
            parts = [_stored(each.dataType, placeholder) for each in declared.fields]
            return f"struct({', '.join(each or 'NULL' for each in parts)})" if any(parts) else None
    return None


def of_value(value: str, declared: T.DataType, placeholder: str) -> str | None:
    """SQL: whether a value that was read is the placeholder, or has it inside; None where it cannot."""
    match declared:
        case T.StringType():
            return f"{value} IN ({_listed(*_texts(placeholder))})"
        case T.BinaryType():
            return f"{value} = CAST({literal(placeholder)} AS BINARY)"
        case T.VariantType():
            return f"try_variant_get({value}, '$', 'string') IN ({_listed(*_texts(placeholder))})"
        case T.ArrayType() if isinstance(declared.elementType, text_types.WHOLE):
            return f"{value} = {_numbers(placeholder, declared.elementType.simpleString())}"
        case T.ArrayType():
            first = of_value(f"get({value}, 0)", declared.elementType, placeholder)
            return first and f"size({value}) = 1 AND ({first})"
        case T.MapType():
            return f"map_contains_key({value}, {literal(placeholder)})"
        case T.StructType():
            parts = (of_value(f"{value}.{quoted(each.name)}", each.dataType, placeholder) for each in declared.fields)
            return json_types.any_of(parts)
    return None


def _texts(placeholder: str) -> tuple[str, ...]:
    """As text; of the type uuid the name-based UUID of it, of hstore in JSON an object of it, of bytes their text."""
    digest = hashlib.md5(placeholder.encode(), usedforsecurity=False).digest()
    as_uuid = str(uuid.UUID(bytes=digest, version=_UUID_VERSION))
    as_object = json.dumps({placeholder: placeholder}, ensure_ascii=False, separators=(",", ":"))
    return (placeholder, as_uuid, as_object, *_encoded(placeholder))


def _encoded(placeholder: str) -> tuple[str, ...]:
    """Its bytes by each ``binary.handling.mode``."""
    data = placeholder.encode()
    plain, safe = base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode()
    return (*dict.fromkeys((plain, safe)), data.hex())


def _numbers(placeholder: str, kind: str) -> str:
    """Numbers in an array: the bytes of the text, which Java counts from -128 to 127."""
    signed = (byte - 256 if byte > 127 else byte for byte in placeholder.encode())  # noqa: PLR2004 - of a byte
    return f"CAST(array({', '.join(map(str, signed))}) AS array<{kind}>)"


def _listed(*texts: str) -> str:
    return ", ".join(map(literal, texts))
