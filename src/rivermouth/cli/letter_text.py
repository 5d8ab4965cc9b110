"""Dead letters as text for a person, and as JSON for a program."""

from __future__ import annotations

import base64
import datetime as dt
from typing import TYPE_CHECKING, Any

from rivermouth.cli.output import count, plain
from rivermouth.names import printable

if TYPE_CHECKING:
    from rivermouth.engine.dead_letters.browse import Letter, LetterGroup
    from rivermouth.pipelines.dead_letters import RefusedRecord, RowLetter, RowLetterGroup


def row_text(letter: RowLetter) -> str:
    """A dead letter of a pipeline's table, for a person."""
    found = "found by a replay" if letter.entry is None else f"ledger entry {letter.entry}"
    head = f"{letter.table}: flow {letter.flow}, {found}, {letter.status}"
    buried = f"dead-lettered {utc(letter.dead_lettered_at)}"
    if (record := letter.record) is not None:
        field = f" in {printable(record.field)}" if record.field else ""
        return "\n".join(
            [
                head,
                f"  decode: {letter.reason}{field}: {printable(record.message or '')}".rstrip(": "),
                f"  {record.topic} partition {record.partition} offset {record.offset}, {buried}",
                f"  key:   {readable(record.key)}",
                f"  value: {readable(record.value)}",
            ]
        )
    failed = ", ".join(printable(name) for name in letter.failed_expectations)
    return "\n".join(
        [
            head,
            f"  failed: {failed}; {buried}",
            f"  row: {printable(letter.row or '')}",
        ]
    )


def row_json(letter: RowLetter) -> dict[str, Any]:
    """A dead letter of a pipeline's table for a program: key and value of a record as base64, and as text."""
    from rivermouth.pipelines.dead_letters import as_body

    body = as_body(letter)
    if letter.record is not None:
        body |= {"record": {**plain(letter.record), **_contents(letter.record)}}
    return body


def utc(at: dt.datetime) -> str:
    """A time as text."""
    return at.strftime("%Y-%m-%d %H:%M:%S UTC")


def letter_text(letter: Letter) -> str:
    """A dead letter for a person."""
    where = place(letter)
    field = f" in {printable(letter.field)}" if letter.field else ""
    lines = [
        f"{letter.flow}: {where}, {letter.status}, tried {count(letter.attempt, 'time')}",
        f"  {letter.stage}: {letter.reason}{field}: {printable(letter.message or '')}".rstrip(": "),
        f"  produced {letter.timestamp or 'at an unknown time'}, dead-lettered {letter.dead_lettered_at}",
        f"  key:   {readable(letter.key)}",
    ]
    lines += [f"  header {printable(name)}: {readable(value)}" for name, value in letter.headers]
    lines.append(f"  value: {readable(letter.value)}")
    return "\n".join(lines)


def letter_json(letter: Letter) -> dict[str, Any]:
    """A dead letter for a program: key, value and headers as base64, and as text where they are UTF-8."""
    body: dict[str, Any] = plain(letter)
    body["headers"] = [{"key": name, "value_base64": _base64(value)} for name, value in letter.headers]
    return body | _contents(letter)


def _contents(record: Letter | RefusedRecord) -> dict[str, str | None]:
    """Key and value as base64, and as text where they are UTF-8."""
    body: dict[str, str | None] = {}
    for name in ("key", "value"):
        content = getattr(record, name)
        body[f"{name}_base64"] = _base64(content)
        try:
            body[name] = None if content is None else content.decode()
        except UnicodeDecodeError:
            body[name] = None
    return body


def readable(content: bytes | None) -> str:
    """Bytes on one line: text where they are UTF-8, else hexadecimal digits; never a control character."""
    if content is None:
        return "null"
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return f"0x{content.hex()}"
    return printable(text)


def _base64(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


def about(group: LetterGroup | RowLetterGroup) -> str:
    """Which field or expectations a group is about."""
    return group.field or ", ".join(group.failed_expectations) or "-"


def place(found: LetterGroup | Letter) -> str:
    """Where a record is in Kafka."""
    position = "" if found.position is None else f" position {found.position}"
    return f"{found.topic} partition {found.partition} offset {found.offset}{position}"
