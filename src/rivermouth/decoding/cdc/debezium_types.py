"""How declared types are read from Debezium's values: by what its schema block says of them, else by a setting.

A column whose values could mean several things is read as a variant, which keeps what was sent. Then SQL makes of it
and of the ``hint``, the column's part of the schema block, in steps that each see the columns of those before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.decoding.text import text_types
from rivermouth.schemas.type_limits import FIRST_DAY, FIRST_US, LAST_DAY, LAST_US, whole_range

HINTED: Final = (T.BinaryType, T.DecimalType, T.DateType, T.TimestampType, T.TimestampNTZType)
"""Declared types of columns whose values mean what the schema block says."""

DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
_DAYS: Final = ("io.debezium.time.Date", "org.apache.kafka.connect.data.Date")
_NANOS: Final = "io.debezium.time.NanoTimestamp"
# In microseconds: of how many one of the unit is made, or how many of it make one.
_UNITS: Final = {
    "io.debezium.time.Timestamp": "{n} * 1000",
    "org.apache.kafka.connect.data.Timestamp": "{n} * 1000",
    "io.debezium.time.MicroTimestamp": "{n}",
    _NANOS: "{n} DIV 1000 - IF({n} % 1000 < 0, 1, 0)",
}
_BY_SETTING: Final = {
    "millis": "io.debezium.time.Timestamp",
    "micros": "io.debezium.time.MicroTimestamp",
    "nanos": _NANOS,
}
_LARGEST: Final = {"millis": LAST_US // 1000, "micros": LAST_US, "nanos": whole_range(T.LongType)[1]}


@dataclass(frozen=True, slots=True)
class Described:
    """What values mean where no schema block says it; what None is of, nobody knows.

    Attributes:
        decimals: What text is for a decimal: base64 or string.
        unit: What a number is for a time: millis, micros or nanos.
        binaries: What text is for bytes: base64 or hex.
        exact_times: Whether times with digits behind the microsecond do not fit; else they are cut.
    """

    decimals: str | None = None
    unit: str | None = None
    binaries: str | None = None
    exact_times: bool = False


def steps(read: str, declared: T.DataType, at: str, said: Described) -> Iterator[dict[str, str]]:
    """Columns to be added one step after the other; the last is ``<at>``, null where the value does not fit.

    Args:
        read: The column as a variant.
        declared: One of ``HINTED``.
        at: What the names of the columns begin with; ``<at>_hint`` is there already: the column's part of the
            schema block, null without one.
        said: What the settings say.
    """
    hint = f"{at}_hint"
    yield {f"{at}_kind": f"schema_of_variant({read})"}
    if isinstance(declared, T.DecimalType):
        yield from _decimal(read, declared, hint, at, said.decimals)
    elif isinstance(declared, T.BinaryType):
        yield {at: _binary(read, hint, at, said.binaries)}
    elif isinstance(declared, T.DateType):
        yield {at: _date(read, declared, hint, at)}
    else:
        yield {f"{at}_micros": _micros(read, hint, at, said)}
        yield {at: _timestamp(read, declared, at, said)}


def ambiguous(declared: T.DataType, at: str, said: Described) -> str | None:
    """SQL: whether nothing says what a value means; None where that cannot be."""
    hint = f"{at}_hint"
    if isinstance(declared, T.DecimalType):
        return f"{at} IS NULL AND {hint} IS NULL AND {at}_kind = 'STRING'" if said.decimals is None else None
    if isinstance(declared, T.BinaryType):
        return f"{hint}.type = 'string' AND {at}_kind = 'STRING'" if said.binaries is None else None
    if isinstance(declared, T.DateType):
        return None
    return f"{at} IS NULL AND {hint} IS NULL AND {at}_kind = 'BIGINT'" if said.unit is None else None


def is_there(read: str) -> str:
    """SQL: whether a variant is something other than null."""
    return f"({read} IS NOT NULL AND NOT is_variant_null({read}))"


def _decimal(read: str, declared: T.DecimalType, hint: str, at: str, decimals: str | None) -> Iterator[dict[str, str]]:
    text = f"CAST({read} AS STRING)"
    is_text, is_object = f"{at}_kind = 'STRING'", f"startswith({at}_kind, 'OBJECT')"
    encoded = f"{hint}.name = '{DECIMAL}'"
    if decimals == "base64":
        encoded = f"coalesce({encoded}, {hint} IS NULL)"
    value, scale = f"try_variant_get({read}, '$.value', 'string')", f"try_variant_get({read}, '$.scale', 'int')"
    said = f"coalesce(try_cast({hint}.parameters['scale'] AS INT), {declared.scale})"
    yield {f"{at}_encoded": f"CASE WHEN {is_text} AND {encoded} THEN {text} WHEN {is_object} THEN {value} END"}
    yield {
        f"{at}_bytes": text_types.base64(f"{at}_encoded"),
        f"{at}_scale": f"CASE WHEN {is_object} THEN {scale} ELSE {said} END",
    }
    plain = f"{hint}.type = 'string'" if decimals != "string" else f"coalesce({hint}.type = 'string', true)"
    yield {f"{at}_whole": _whole_number(f"{at}_bytes")}
    number = f"{at}_kind = 'BIGINT' OR startswith({at}_kind, 'DECIMAL')"
    double = f"try_variant_get({read}, '$', 'double')"
    small = f"{at}_kind = 'DOUBLE' AND abs({double}) < 1e15"
    exact = f"try_cast({double} AS DECIMAL(38, 18))"
    as_double = f"CASE WHEN CAST({exact} AS DOUBLE) = {double} THEN CAST({exact} AS STRING) END"
    yield {
        f"{at}_text": f"CASE WHEN {at}_bytes IS NOT NULL THEN {_pointed(f'{at}_whole', f'{at}_scale')} "
        f"WHEN ({is_text} AND {plain}) OR {number} THEN {text} WHEN {small} THEN {as_double} END"
    }
    yield {at: text_types.decimal(f"{at}_text", declared)}


def _binary(read: str, hint: str, at: str, binaries: str | None) -> str:
    """Bytes are base64; the schema block calls hexadecimal digits and base64 as text the same, a string."""
    text = f"CAST({read} AS STRING)"
    encoded = text_types.base64(text)
    alone = text_types.hexadecimal(text) if binaries == "hex" else encoded
    as_said = alone if binaries else "CAST(NULL AS BINARY)"
    by_block = f"CASE WHEN {hint}.type = 'string' THEN {as_said} ELSE {encoded} END"
    return f"CASE WHEN {at}_kind = 'STRING' THEN CASE WHEN {hint} IS NULL THEN {alone} ELSE {by_block} END END"


def _whole_number(data: str) -> str:
    """SQL of the number (decimal(38,0)) that bytes are in two's complement; null beyond 16 bytes or 38 digits."""
    digits = f"hex({data})"
    filled = f"lpad({digits}, 32, CASE WHEN substring({digits}, 1, 1) >= '8' THEN 'F' ELSE '0' END)"
    high = f"CAST(conv(left({filled}, 16), 16, -10) AS DECIMAL(20, 0))"
    low = f"CAST(conv(right({filled}, 16), 16, 10) AS DECIMAL(20, 0))"
    base = "CAST('18446744073709551616' AS DECIMAL(20, 0))"
    # Of a negative number the parts are negative too, so that neither is longer than their sum.
    borrowed = f"CASE WHEN {high} < 0 THEN 1 ELSE 0 END"
    number = f"try_add(try_multiply({high} + {borrowed}, {base}), {low} - {borrowed} * {base})"
    return f"CASE WHEN octet_length({data}) BETWEEN 1 AND 16 THEN {number} END"


def _pointed(whole: str, scale: str) -> str:
    """SQL of the text of a whole number with a point before its last ``scale`` digits."""
    digits = f"CAST(abs({whole}) AS STRING)"
    filled = f"CASE WHEN length({digits}) > {scale} THEN {digits} ELSE lpad({digits}, {scale} + 1, '0') END"
    sign = f"CASE WHEN {whole} < 0 THEN '-' ELSE '' END"
    pointed = f"concat({sign}, left({filled}, length({filled}) - {scale}), '.', right({filled}, {scale}))"
    whole_text = f"concat(CAST({whole} AS STRING), CASE WHEN {whole} = 0 THEN '' ELSE repeat('0', -{scale}) END)"
    return f"CASE WHEN {scale} > 60 THEN NULL WHEN {scale} > 0 THEN {pointed} WHEN {scale} >= -60 THEN {whole_text} END"


def _date(read: str, declared: T.DataType, hint: str, at: str) -> str:
    listed = ", ".join(f"'{name}'" for name in _DAYS)
    days = f"try_variant_get({read}, '$', 'bigint')"
    is_days = f"{at}_kind = 'BIGINT' AND coalesce({hint}.name IN ({listed}), {hint} IS NULL)"
    in_range = f"{days} BETWEEN {FIRST_DAY} AND {LAST_DAY}"
    text = text_types.of_text(f"rtrim('Z', CAST({read} AS STRING))", declared)
    return (
        f"CASE WHEN {is_days} AND {in_range} THEN date_add(DATE '1970-01-01', CAST({days} AS INT)) "
        f"WHEN {at}_kind = 'STRING' THEN {text} END"
    )


def _micros(read: str, hint: str, at: str, said: Described) -> str:
    number = f"try_variant_get({read}, '$', 'bigint')"
    largest = {_BY_SETTING[name]: value for name, value in _LARGEST.items()}
    cases = []
    for name, sql in _UNITS.items():
        bound = largest.get(name, _LARGEST["millis"])
        is_unit = f"{hint}.name = '{name}'"
        if said.unit is not None and _BY_SETTING[said.unit] == name:
            is_unit = f"coalesce({is_unit}, {hint} IS NULL)"
        if said.exact_times and name == _NANOS:
            is_unit = f"{is_unit} AND {number} % 1000 = 0"
        cases.append(f"WHEN {is_unit} AND {number} BETWEEN -{bound} AND {bound} THEN {sql.format(n=number)}")
    return f"CASE WHEN {at}_kind = 'BIGINT' THEN CASE {' '.join(cases)} END END"


def _timestamp(read: str, declared: T.DataType, at: str, said: Described) -> str:
    micros = f"timestamp_micros({at}_micros)"
    if isinstance(declared, T.TimestampNTZType):
        micros = f"CAST({micros} AS timestamp_ntz)"
    in_range = f"{at}_micros BETWEEN {FIRST_US} AND {LAST_US}"
    text = text_types.of_text(f"CAST({read} AS STRING)", declared, exact_times=said.exact_times)
    return f"CASE WHEN {in_range} THEN {micros} WHEN {at}_kind = 'STRING' THEN {text} END"
