"""The change messages of other projects' tests as a history: every version of each key, against plain Python.

What each message says of its rows is in ``expected.jsonl``; keys, places and the fold are computed here once more.
"""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass

import pytest
from tests.crashes.oracle import rows_of
from tests.laws import _table
from tests.laws._table import START
from tests.laws.test_history_law import Record, fold
from tests.rows.test_change_envelopes import expectations, groups, plain

__all__ = ["groups"]

KEYS = {"canal": "pkNames", "maxwell": "primary_key_columns", "ogg": "primary_keys"}
EPOCH = dt.datetime(1970, 1, 1)


@dataclass(frozen=True)
class Sent:
    """One record of Kafka."""

    sent: tuple


def placed(kind, body):
    """When the source made the change, if the message says so."""
    if kind == "canal":
        return EPOCH + dt.timedelta(milliseconds=int(body["es"])) if body.get("es") else None
    if kind == "maxwell":
        return EPOCH + dt.timedelta(seconds=body["ts"])
    return dt.datetime.fromisoformat(body["op_ts"])


def before(kind, body, number):
    """The row before an update, as far as it is known."""
    old = body.get("before") if kind == "ogg" else body.get("old")
    return (old[number] if kind == "canal" else old) if old else None


def key_of(names, declared, *rows):
    """The primary key: of each of its columns the value in the first row that has one; None if one is missing."""
    found = {}
    for name in declared:
        values = [row[name] for row in rows if row and row.get(name) is not None]
        if name in names and values:
            found[name] = str(values[0])
    return json.dumps(found, separators=(",", ":"), ensure_ascii=False) if names and len(found) == len(names) else None


def changes_of(kind, offset, each, declared):
    """What a message does, each change with the place that it has; none if it does nothing or is refused."""
    body, found, nth = json.loads(each["value"]), [], 0
    names, at = body.get(KEYS[kind]) or (), placed(kind, body)
    for number, (operation, row) in enumerate(each.get("changes", [])):
        if operation == "skip":
            return []
        sent = body["data"][number] if kind == "canal" else body.get("data")
        if kind == "ogg":
            sent = body["before" if operation == "delete" else "after"]
        old = before(kind, body, number) if operation == "update" else None
        key, was = key_of(names, declared, sent), key_of(names, declared, old, sent) if old else None
        if key is None or (at is None and operation != "delete"):
            return []
        if was not in (None, key):
            found.append(Record(0, offset, (offset, nth), was, "delete", at, 0, row))
        op = "upsert" if operation != "delete" else "tombstone" if at is None else "delete"
        found.append(Record(0, offset, (offset, nth + 1), key, op, at, 0, row))
        nth += 2
    return found


def versions_in(table, declared):
    """By key the versions in the table: (start, end, row, offset)."""
    told = {}
    for row in rows_of(table.places.table):
        start, end = (row[name] and row[name].replace(tzinfo=None) for name in ("__START_AT", "__END_AT"))
        values = plain({name: row[name] for name in declared})
        told.setdefault(row["primary_key"], []).append((start, end, values, row["kafka_offset"]))
    return {key: sorted(versions, key=lambda each: each[0]) for key, versions in told.items()}


# What each message says is asked in rows/test_change_envelopes.py, what several changes come to in test_history_law.py.
@pytest.mark.long
@pytest.mark.parametrize("kind", ["canal", "maxwell", "ogg"])
def test_the_messages_come_to_the_history_that_they_tell(spark, tmp_path, groups, kind):
    settings, declared = groups[kind]
    messages = [each for each in expectations() if each["group"] == kind]
    schema = ", ".join(f"`{name}` {type_}" for name, type_ in declared.items())
    columns = ["kafka_timestamp", "primary_key", "source_timestamp"]
    form = {**settings, "schema": schema}
    sink = {"type": "history", "sequence_by": "source_timestamp"}
    table = _table.Table(spark, tmp_path, form, sink, columns)
    records, log = [], []
    for offset, each in enumerate(messages):
        when = START + dt.timedelta(seconds=offset)
        records.append(Sent(("t", 0, offset, when, 0, None, each["value"].encode())))
        log += changes_of(kind, offset, each, declared)
    third = len(records) // 3
    # What lies in the middle comes twice.
    for batch in (records[: 2 * third], records[third:]):
        table.take(batch)
    expected = {
        key: [(start, end, plain(row), offset) for start, end, _, row, _, offset in versions]
        for key, versions in fold(log, tracked=False).items()
    }
    assert versions_in(table, declared) == expected
    assert sum(map(len, expected.values())) > 10
