"""The 463 change messages of other projects' tests: each has the rows that it tells, or the reason why not."""

from __future__ import annotations

import base64
import datetime as dt
import importlib.util
import json
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from rivermouth import names
from rivermouth.extend import find_kind
from rivermouth.rows import envelope

DATA = Path(__file__).parents[1] / "data" / "change-envelopes"
SOURCE = "topic string, partition int, offset long, timestamp timestamp, timestampType int, key binary, value binary"


def expectations():
    """Of each message what it is expected to be, with its key and value; keys stand with their values."""
    found, key = [], None
    for line in (DATA / "expected.jsonl").read_text().splitlines():
        each = json.loads(line)
        value = (DATA / each["file"]).read_text().splitlines()[each["line"] - 1].strip()
        if each.pop("is_key", False):
            key = value
            continue
        if "key" in each:
            value = value.removeprefix(each["key"] + "^")
        found.append({"key": key, **each, "value": value or None})
        key = None
    return found


def plain(value):
    """A stored value as ``expected.jsonl`` writes it, without what is null."""
    match value:
        case dict():
            return {name: plain(part) for name, part in value.items() if part is not None}
        case list():
            return [plain(part) for part in value]
        case bytes() | bytearray():
            return base64.b64encode(bytes(value)).decode()
        case Decimal():
            return f"{value:f}"
        case dt.date():
            return value.isoformat()
    return value


@pytest.fixture(scope="module")
def groups():
    """The settings and columns by group, as the file with the expectations was written for."""
    spec = importlib.util.spec_from_file_location("expect", DATA / "expect.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.GROUPS


def told(spark, settings, columns, messages):
    """What the format made of the messages: (number, ordinal, operation, row, reason, field)."""
    schema = ", ".join(f"`{name}` {kind}" for name, kind in columns.items())
    form = find_kind("formats", settings["type"]).model_validate({**settings, "schema": schema})
    sent = [tuple(text and text.encode() for text in (each["key"], each["value"])) for each in messages]
    rows = [("t", 0, number, dt.datetime(2026, 1, 1), 0, *each) for number, each in enumerate(sent)]
    decoded = form.decode(envelope.read(spark.createDataFrame(rows, SOURCE)))
    ordinal = F.col(names.ORDINAL) if form.splits else F.lit(0)
    explained = form.explain(decoded).select(
        names.OFFSET,
        ordinal.alias("nth"),
        names.OPERATION,
        F.when(F.col(names.DECODED), F.col(names.DATA)),
        F.when(~F.col(names.DECODED), F.col(names.REASON)),
        names.FIELD,
        names.PRIMARY_KEY,
    )
    return [tuple(row) for row in explained.orderBy(names.OFFSET, "nth").collect()]


def test_every_message_is_told_as_it_was_read_by_hand(spark, groups):
    messages = expectations()
    assert len(messages) == 482 - 8  # of which 8 are keys
    wrong, seen = [], 0
    for group, (settings, columns) in groups.items():
        mine = [each for each in messages if each["group"] == group]
        seen += len(mine)
        found = {}
        for number, _, operation, row, reason, field, _key in told(spark, settings, columns, mine):
            found.setdefault(number, []).append((operation, row, reason, field))
        for number, each in enumerate(mine):
            changes = [[operation, plain(row.asDict(True))] for operation, row, *_ in found[number] if row is not None]
            reasons = {(reason, field) for _, _, reason, field in found[number] if reason is not None}
            if "reason" in each:
                fine = reasons == {(each["reason"], each["field"])}
            else:
                fine = not reasons and changes == plain(each["changes"])
            if not fine:
                wrong.append((each["file"], each["line"], changes, reasons, each.get("changes"), each.get("reason")))
    assert wrong == []
    assert seen == len(messages)
