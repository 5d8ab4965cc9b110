"""A row that comes in parts is what its records come to, one after the other in the order of their sequence.

The oracle applies them like that, in plain Python. The table gets them as they come: late, twice, in any cut.
"""

from __future__ import annotations

import dataclasses
import json

import pytest
from tests.laws import _table
from tests.laws._table import Change, batches_of

SCHEMA = "h int, k int, a int, b string, n struct<x: int, y: int>, w int, changed array<string>, seq int, op string"
PARTS = ("a", "b", "n", "w")


@dataclasses.dataclass(frozen=True)
class Record(Change):
    """A change of some values; ``changed`` names those that it brings."""

    values: dict = dataclasses.field(default_factory=dict)
    changed: list | None = None

    @property
    def body(self):
        return {"changed": self.changed, **self.values}


GONE = "__debezium_unavailable_value"
# What Debezium may leave out.
LARGE = ("b", "n")


class Event(Record):
    """The same as an event of Debezium, which brings whole rows, but for large values that did not change."""

    @property
    def brought(self):
        return {each.lower() for each in self.changed if each is not None} if self.changed is not None else {*LARGE}

    @property
    def sent(self):
        left = {name: GONE for name in LARGE if name not in self.brought}
        texts = {
            name: value if value is None or name != "n" else json.dumps(value) for name, value in self.values.items()
        }
        row = {"h": self.key[0], "k": self.key[1], "op": self.op, "seq": self.sequence, **texts, **left}
        topic, partition, offset, time, kind, key, value = super().sent
        event = None if value is None else json.dumps({"op": "u", "after": row}).encode()
        return (topic, partition, offset, time, kind, key, event)


# --- the oracle ------------------------------------------------------------------------------------


def fold(records, brings, *, sequenced, unknown=None):
    """The rows by key: the records applied one after the other; ``unknown`` is what a row has that nobody brought."""
    events = sorted(_placed(records) if sequenced else [((each.at,), each) for each in records], key=lambda e: e[0])
    table = {}
    for _place, each in events:
        if each.op == "truncate":
            table.clear()
        elif each.op in {"delete", "tombstone"}:
            table.pop(each.key, None)
        else:
            row = table.get(each.key, dict.fromkeys(PARTS, unknown))
            values = {name: each.values.get(name) if brings(each, name) else row[name] for name in PARTS}
            table[each.key] = {**values, "seq": each.sequence, "place": (each.partition, each.offset)}
    return {key: (*(row[name] for name in PARTS), row["seq"], *row["place"]) for key, row in table.items()}


def _placed(records):
    """Each with its place: a tombstone is behind the greatest of its key before it, a truncation before equals."""
    best = {}
    for each in records:
        if each.op == "truncate":
            yield (each.sequence, -1), each
            continue
        if each.op != "tombstone":
            best[each.key] = max(each.sequence, best.get(each.key, -1))
        yield (best.get(each.key, -1) if each.op == "tombstone" else each.sequence, each.at), each


def not_null(*names):
    return lambda each, name: name not in names or each.values.get(name) is not None


def listed(each, name):
    return each.changed is None or name in [given.lower() for given in each.changed if given is not None]


# --- the laws ---------------------------------------------------------------------------------------


class Table(_table.Table):
    def __init__(self, spark, folder, schema, kind="json", **sink):
        sink = {"type": "upsert", "keys": ["h", "k"], "apply_as_deletes": "op = 'delete'", **sink}
        super().__init__(spark, folder, {"type": kind, "schema": schema}, sink)

    def rows(self):
        """The rows by key; a key that is there twice fails."""
        found = self.read("h, k, a, b, n, w, seq, kafka_partition, kafka_offset")
        told = {(h, k): tuple(rest) for h, k, *rest in found}
        assert len(told) == len(found)
        return told


def log_of(chance, histories, *, truncates):
    """Few sequences, so that many are late or equal; about one truncation, if any."""

    def make(place, key, op, sequence):
        return Record(*place, key, op, sequence, *_body(chance))

    ops, truncations = ["upsert"] * 9 + ["delete"] * 2, truncates * 0.24 / histories
    return _table.log_of(chance, histories, ops, make, sequences=7, truncations=truncations)


def _body(chance):
    made = {
        "a": lambda: chance.randint(0, 99),
        "b": lambda: chance.choice("pqrs"),
        "n": lambda: {"x": chance.choice((None, 1, 2)), "y": chance.randint(0, 9)},
        "w": lambda: chance.randint(0, 9),
    }
    values = {name: make() if chance.random() < 0.6 else None for name, make in made.items()}
    names = [name for name in ("a", "B", "n", "w", "k", "nobody", None) if chance.random() < 0.4]
    # A field that is not there is null too.
    values = {name: value for name, value in values.items() if value is not None or chance.random() < 0.5}
    return values, None if chance.random() < 0.2 else names


SETTINGS = {
    "all": ({"ignore_null_updates": True, "sequence_by": "seq"}, not_null(*PARTS)),
    "listed": ({"columns_to_update": "changed", "sequence_by": "seq"}, listed),
    "some": ({"ignore_null_updates_columns": ["a", "n"], "sequence_by": ["seq", "0"]}, not_null("a", "n")),
    "but": ({"ignore_null_updates_except_columns": ["b", "op"], "except_columns": ["op"]}, not_null("a", "n", "w")),
}
# Of each kind; together the long ones fold more than two thousand.
HISTORIES = {"short": 300, "long": 700}


@pytest.mark.long
@pytest.mark.parametrize(
    ("setting", "form"),
    [
        pytest.param("all", "short", id="all"),
        *(pytest.param(name, "long", id=f"{name}-long", marks=pytest.mark.long) for name in SETTINGS),
    ],
)
def test_a_row_is_what_the_parts_of_it_come_to(setting, form, chance, spark, tmp_path):
    sink, brings = SETTINGS[setting]
    sequenced = "sequence_by" in sink
    truncates = sequenced and isinstance(sink["sequence_by"], str)
    if truncates:
        sink = {**sink, "apply_as_truncates": "op = 'truncate'"}
    table = Table(spark, tmp_path, SCHEMA, **sink)
    log = log_of(chance, HISTORIES[form], truncates=truncates)
    for batch in batches_of(log, chance, 2 if form == "short" else 4):
        assert table.take(batch).rows_written == len(batch)
    assert table.rows() == fold(log, brings, sequenced=sequenced)


@pytest.mark.long
@pytest.mark.parametrize("sink", [{"sequence_by": "seq"}, {}], ids=["sequence", "kafka"])
def test_a_row_keeps_the_values_that_changes_leave_out(sink, chance, spark, tmp_path):
    schema = "h int, k int, a int, b string, n string, w int, seq int, op string"
    table = Table(spark, tmp_path, schema, kind="debezium", **sink)
    log = [Event(**vars(each)) for each in log_of(chance, HISTORIES["short"], truncates=False)]
    # In the first batch all changes bring whole rows: the table learns later that some do not.
    whole = len(log) // 3
    log = [dataclasses.replace(each, changed=None) for each in log[:whole]] + log[whole:]
    for batch in (log[:whole], *batches_of(log[whole:], chance, 2)):
        assert table.take(batch).rows_written == len(batch)

    def brings(each, name):
        return name not in LARGE or name in each.brought

    def as_text(row):
        return (*row[:2], row[2] if isinstance(row[2], str | None) else json.dumps(row[2]), *row[3:])

    told = fold(log, brings, sequenced=bool(sink), unknown=GONE)
    found = table.rows()
    assert found == {key: as_text(row) for key, row in told.items()}
