"""Records that are given instead of read from Kafka, and the verdicts of a flow's rules on them. Pure values."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NoReturn

from rivermouth.errors import ArgumentInvalid

MAX_RECORDS: Final = 10_000
"""The most records that a sample may have: all of them are kept in memory."""

_KEYS: Final = ("key", "value", "headers", "timestamp", "topic", "partition", "offset")
_BASE64: Final = "_base64"
# What `dead-letters show --output json` says of a letter besides: its lines are records, too.
_OF_LETTERS: Final = frozenset(
    {
        *("flow", "position", "stage", "reason", "field", "message", "failed_expectations"),
        *("status", "attempt", "dead_lettered_at"),
    }
)
_EXAMPLE: Final = '{"key": "k1", "value": {"id": 1}}'


@dataclass(frozen=True, slots=True)
class Record:
    """A Kafka record as a test gives it.

    Attributes:
        value: The bytes; a text is sent as UTF-8, any other value of JSON as a JSON document. None is a tombstone.
        key: The bytes, or a text; None for a record without a key.
        headers: (name, value) in their order.
        timestamp: Kafka's timestamp, with a time zone; the time of the call where None.
        topic: The topic; by default the first one that the flow reads.
        partition: The partition.
        offset: The offset; by default records are counted from 0 in each partition.
    """

    value: Any
    key: bytes | str | None = None
    headers: Sequence[tuple[str, bytes | str | None]] = ()
    timestamp: dt.datetime | None = None
    topic: str | None = None
    partition: int = 0
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class RecordVerdict:
    """What a flow's rules say of one record, or of one row of a record that is several rows.

    Attributes:
        record: Which of the given records it is, from 0.
        position: Which row of the record, from 0, where a record is several rows; else None.
        verdict: ``table``, ``dropped``, ``dead_letter``; ``fail`` where the record would stop the flow.
        reason: Code of a reason of dead letters; None where there is none.
        field: Dotted path of the field that did not fit.
        message: The reason in words, without contents of the record.
        failed_expectations: Names of all expectations that the record failed, those with ``warn`` too.
        change: What a row of ``table`` does to a table with keys: ``upsert``, ``delete`` or ``truncate``; else None.
        changes_schema: Whether a run would look at this record for a change of the schema first, as ``evolution``
            says. The verdict is that of the schema before the change.
        row: The table's columns by name, for ``table`` alone: what ``row_json`` says, in Python's types. Timestamps
            have a time zone, UTC.
        row_json: The same as a JSON object; bytes are base64.
    """

    record: int
    position: int | None
    verdict: str
    reason: str | None = None
    field: str | None = None
    message: str | None = None
    failed_expectations: tuple[str, ...] = ()
    change: str | None = None
    changes_schema: bool = False
    row: dict[str, Any] | None = None
    row_json: str | None = None


@dataclass(frozen=True, slots=True)
class Placed:
    """A record as Kafka would hand it out, with coordinates that no other has."""

    topic: str
    partition: int
    offset: int
    timestamp: dt.datetime
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def placed(given: Iterable[Any], topic: str, now: dt.datetime) -> list[Placed]:
    """The records with all that Kafka adds.

    Args:
        given: Records, or values as ``Record`` takes them.
        topic: The topic of those that name none.
        now: The timestamp of those that have none.

    Raises:
        ArgumentInvalid: One is no record, or two have the same coordinates; or there are too many.
    """
    found: list[Placed] = []
    taken: set[tuple[str, int, int]] = set()
    next_offset: dict[tuple[str, int], int] = {}
    for number, each in enumerate(given):
        if number >= MAX_RECORDS:
            detail = f"there are more than {MAX_RECORDS:,}, and all of them are kept in memory"
            raise ArgumentInvalid(argument="records", detail=detail, fix=f"the first {MAX_RECORDS:,} of them")
        record = each if isinstance(each, Record) else Record(each)
        at = (record.topic or topic, _whole(number, "partition", record.partition))
        if record.offset is None:
            record = replace(record, offset=next_offset.get(at, 0))
        offset = _whole(number, "offset", record.offset)
        if (*at, offset) in taken:
            detail = f"record {number}: another one is {at[0]} partition {at[1]} offset {offset}, too"
            raise ArgumentInvalid(argument="records", detail=detail, fix="leave offset out, or give each its own")
        taken.add((*at, offset))
        next_offset[at] = max(next_offset.get(at, 0), offset + 1)
        found.append(_placed(number, record, at, offset, now))
    return found


def _placed(number: int, record: Record, at: tuple[str, int], offset: int, now: dt.datetime) -> Placed:
    time: Any = record.timestamp or now
    topic: Any = at[0]
    if not isinstance(time, dt.datetime) or time.tzinfo is None:
        _refuse(number, "its timestamp is no datetime with a time zone", "datetime(2026, 1, 31, tzinfo=UTC)")
    if not isinstance(topic, str):
        _refuse(number, "its topic is no text", 'topic="orders"')
    try:
        pairs = [(name, content) for name, content in record.headers]
    except (TypeError, ValueError):
        _refuse(number, "its headers are no pairs of a name and a value", 'headers=[("name", b"value")]')
    headers = tuple((_name(number, name), _bytes(number, "a header", content)) for name, content in pairs)
    key = _bytes(number, "its key", record.key)
    return Placed(*at, offset, time, key, _value(number, record.value), headers)


def _whole(number: int, what: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        _refuse(number, f"its {what} is no whole number from 0", f"{what}=0")
    return value


def _name(number: int, name: Any) -> str:
    if not isinstance(name, str):
        _refuse(number, "the name of a header is no text", 'headers=[("name", b"value")]')
    return name


def _bytes(number: int, what: str, value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes | bytearray):
        return None if value is None else bytes(value)
    if not isinstance(value, str):
        _refuse(number, f"{what} is neither bytes nor text", 'key="k1"')
    return value.encode(errors="surrogatepass")


def _value(number: int, value: Any) -> bytes | None:
    if value is None or isinstance(value, str | bytes | bytearray):
        return _bytes(number, "its value", value)
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass")
    except (TypeError, ValueError, RecursionError):
        _refuse(number, "its value is no bytes, no text and no JSON document", 'a value such as {"id": 1} or b"..."')


def _refuse(number: int, detail: str, fix: str) -> NoReturn:
    raise ArgumentInvalid(argument="records", detail=f"record {number}: {detail}", fix=fix) from None


def record_of_line(line: bytes, number: int) -> Record:
    """The record that a JSON object describes: one line of a file of records.

    Its members are ``value``, ``key``, ``headers`` (a list of objects with ``key`` and ``value``), ``timestamp``
    (ISO 8601), ``topic``, ``partition`` and ``offset``. In place of ``value`` and ``key`` there may be
    ``value_base64`` and ``key_base64``, which win. A value that is no text is sent as JSON. What
    ``dead-letters show --output json`` says of a letter besides is left out.

    Args:
        line: The line.
        number: Which line it is, from 1.

    Raises:
        ArgumentInvalid: It describes no record.
    """
    try:
        body = json.loads(line)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise _unreadable(number, "it is no JSON object")
    unknown = [name for name in body if name not in _KEYS and not _is_encoded(name) and name not in _OF_LETTERS]
    if unknown:
        raise _unreadable(number, f"it has a member {unknown[0]!r}, which no record has")
    if "value" not in body and f"value{_BASE64}" not in body:
        raise _unreadable(number, "it has no value; a tombstone has the value null")
    return Record(
        value=_content(body, "value", number),
        key=_content(body, "key", number),
        headers=_headers(body.get("headers"), number),
        timestamp=_time(body.get("timestamp"), number),
        topic=body.get("topic"),
        partition=body.get("partition") or 0,
        offset=body.get("offset"),
    )


def _is_encoded(name: str) -> bool:
    return name in (f"value{_BASE64}", f"key{_BASE64}")


def _content(body: Mapping[str, Any], name: str, number: int) -> Any:
    encoded = body.get(f"{name}{_BASE64}")
    if encoded is None:
        return body.get(name)
    try:
        return base64.b64decode(encoded, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise _unreadable(number, f"its {name}{_BASE64} is no base64") from None


def _headers(listed: Any, number: int) -> list[tuple[str, Any]]:
    if not all(isinstance(each, dict) and "key" in each for each in listed or ()):
        raise _unreadable(number, "its headers are no list of objects with key and value")
    return [(each["key"], _content(each, "value", number)) for each in listed or ()]


def _time(text: Any, number: int) -> dt.datetime | None:
    if text is None:
        return None
    try:
        found = dt.datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise _unreadable(number, "its timestamp is no time, for example 2026-01-31T12:00:00Z") from None
    return found if found.tzinfo else found.replace(tzinfo=dt.UTC)


def _unreadable(number: int, detail: str) -> ArgumentInvalid:
    return ArgumentInvalid(argument="FILE", detail=f"line {number}: {detail}", fix=f"a line such as {_EXAMPLE}")
