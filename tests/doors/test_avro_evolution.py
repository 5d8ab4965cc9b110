"""``evolution`` of Avro records at the command line: writers change in mid-stream, and the table follows them."""

from __future__ import annotations

import io
import re
import struct

import fastavro
import pytest
from tests.doors.one_topic import OneTopic
from tests.ports.schema_registry import SchemaRegistry
from tests.rows.avro_writers import record

PLACE = record(("city", "string"), name="Place")
LINES = {"type": "array", "items": record(("sku", "string"), name="Line")}
FIRST = record(("id", "int"), ("place", PLACE), ("lines", LINES))
SECOND = record(
    ("coupon", ["null", "string"], None),
    ("id", "int"),
    ("place", ["null", record(("city", "string"), ("zip", "string"), name="Place")]),
    ("lines", {"type": "array", "items": record(("sku", "string"), ("count", "int"), name="Line")}),
)
NULLS = record(("id", "int"), ("place", PLACE), ("lines", LINES), ("coupon", ["null", "string"], None))
THIRD = record(("id", "long"), ("place", PLACE), ("lines", LINES), ("price", "double"))


def first(number):
    return FIRST, {"id": number, "place": {"city": "Ulm"}, "lines": [{"sku": "a"}]}


def second(number, coupon=None):
    place = {"city": "Bern", "zip": "3000"}
    return SECOND, {"coupon": coupon, "id": number, "place": place, "lines": [{"sku": "b", "count": number}]}


class Orders(OneTopic):
    def __init__(self, registry, *arguments):
        super().__init__(*arguments)
        self.registry = registry

    def write(self, evolution, more=""):
        subject = f"{self.topic}-value"
        self.registry.register(subject, FIRST)
        self.save(f"""\
lake: ./lake
kafka: {{bootstrap_servers: "{self.servers}"}}
schema_registry: {{url: "{self.registry.url}"}}
flows:
  orders:
    topics: [{self.topic}]
    format: {{type: avro, framing: confluent, subject: {subject}, version: 1}}
    evolution: {evolution}
    table: silver.orders
{more}""")

    def encoded(self, writer, content):
        number = self.registry.register(f"{self.topic}-value", writer)
        body = io.BytesIO()
        fastavro.schemaless_writer(body, fastavro.parse_schema(writer, {}, _force=True), content)
        return struct.pack(">bI", 0, number) + body.getvalue()

    def run(self, *records):
        self.send(*(each if isinstance(each, bytes) else self.encoded(*each) for each in records))
        return self.say("run")

    def rows(self, *columns):
        return [tuple(row[name] for name in columns) for row in self.kept("orders")]

    def letters(self):
        return [(row["kafka_offset"], row["reason"], row["field"]) for row in self.kept("orders__dead_letters")]


@pytest.fixture
def orders(tmp_path, monkeypatch, capsys, broker, topic, spark):
    """A project with one flow of Avro from a registry."""
    monkeypatch.chdir(tmp_path)
    with SchemaRegistry() as registry:
        yield Orders(registry, tmp_path, capsys, broker.bootstrap_servers, topic())


@pytest.mark.long
def test_a_new_writer_between_old_ones_brings_its_fields_into_the_table(orders):
    orders.write("{on_new_column: evolve}")
    assert orders.run(first(1), first(2))[0] == 0
    code, said = orders.run(first(3), second(4), first(5), second(6, "half"), b"\x00cut off")
    assert code == 0, said
    assert "schema evolved: version 1 adds column coupon string, adds place.zip string, adds lines[].count int" in said
    old = [({"city": "Ulm", "zip": None}, [{"sku": "a", "count": None}], None)]
    new = {"city": "Bern", "zip": "3000"}
    assert orders.rows("place", "lines", "coupon") == [
        *old * 3,
        (new, [{"sku": "b", "count": 4}], None),
        *old,
        (new, [{"sku": "b", "count": 6}], "half"),
    ]
    assert orders.letters() == [(6, "UNKNOWN_SCHEMA", None)]
    # Another start works with what was kept, whichever writer comes first.
    code, said = orders.run(second(7, "all"), first(8))
    assert (code, "schema evolved" in said) == (0, False)
    assert orders.rows("id", "coupon")[-2:] == [(7, "all"), (8, None)]
    code, said = orders.say("schema", "show", "orders", "--history")
    assert re.sub(r"\d{4}-\S+", "...", said) == (
        "version  kept at                    columns  made of                          changes\n"
        "      1  ...        4  2 records (a sample), 0 corrupt  "
        "adds column coupon string; adds place.zip string; adds lines[].count int\n"
    )
    assert orders.say("audit", "orders")[0] == 0


@pytest.mark.long
def test_what_is_selected_keeps_its_names_and_holds_its_columns_as_a_schema_grows_by_writers(orders):
    select = """['*', "date_add(DATE '1970-01-01', id) AS day", upper(place.city) AS coupon]"""
    orders.write("{on_new_column: evolve, on_type_change: widen}", f"    select: {select}\n")
    assert orders.run(first(1))[0] == 0
    third = {"id": 2, "place": {"city": "Ulm"}, "lines": [], "price": 1.5}
    code, said = orders.run((THIRD, third), second(3, "half"))
    assert code == 0, said
    # No number of days with 64 bits can be added to a date.
    assert "widens" not in said
    assert [(*row[:1], str(row[1]), *row[2:]) for row in orders.rows("id", "day", "coupon", "coupon_2", "price")] == [
        (1, "1970-01-02", "ULM", None, None),
        (3, "1970-01-04", "BERN", "half", None),
    ]
    assert orders.letters() == [(1, "SCHEMA_MISMATCH", "id")]
    code, said = orders.run((THIRD, third))
    assert (code, "schema evolved" in said) == (0, False)
    assert orders.say("audit", "orders")[0] == 0


def test_a_column_is_widened_for_a_writer_in_the_first_batch(orders, spark):
    orders.write("{on_new_column: ignore, on_type_change: widen}")
    late = (THIRD, {"id": 1 << 40, "place": {"city": "Rom"}, "lines": [], "price": 0.5})
    code, said = orders.run(first(2), late)
    assert code == 0, said
    assert "schema evolved: version 1 widens id to bigint" in said
    found = spark.read.format("delta").load(str(orders.folder / "lake/silver/orders"))
    assert "price" not in found.columns
    assert sorted(row[0] for row in found.select("id").collect()) == [2, 1 << 40]


@pytest.mark.long
def test_a_column_is_widened_for_a_writer_and_the_old_ones_are_read_on(orders, spark):
    orders.write("{on_new_column: ignore, on_type_change: widen}")
    assert orders.run(first(1))[0] == 0
    late = (THIRD, {"id": 1 << 40, "place": {"city": "Rom"}, "lines": [], "price": 0.5})
    code, said = orders.run(first(2), late)
    assert code == 0, said
    assert "schema evolved: version 1 widens id to bigint" in said
    found = spark.read.format("delta").load(str(orders.folder / "lake/silver/orders"))
    assert "price" not in found.columns
    assert sorted(row[0] for row in found.select("id").collect()) == [1, 2, 1 << 40]


@pytest.mark.long
def test_a_flow_that_may_fail_stops_at_a_field_that_has_a_value(orders):
    orders.write("{on_new_column: fail}")
    code, told = orders.run(first(1), (NULLS, {**first(2)[1], "coupon": None}))
    assert code == 0, told
    code, told = orders.run(first(3), second(4))
    assert code == 1
    assert (
        f"[SCHEMA_CHANGED] flow orders: a field is not in the schema, place.zip: {orders.topic}-0 offset 3; "
        "the batch was not written\n"
        "  at: rivermouth.yml:5\n"
        "  hint: evolution: {on_new_column: evolve}, then: rivermouth run orders"
    ) in told
    assert orders.rows("id") == [(1,), (2,)]
    orders.write("{on_new_column: dead_letter}")
    assert orders.say("run")[0] == 0
    assert orders.rows("id") == [(1,), (2,), (3,)]
    assert orders.letters() == [(3, "FIELD_UNDECLARED", "place.zip")]
    # What was refused comes into the table once that has grown.
    orders.write("{on_new_column: evolve}")
    assert orders.run(second(5, "half"))[0] == 0
    assert orders.say("dead-letters", "replay", "orders")[0] == 0
    assert orders.rows("id", "coupon") == [(1, None), (2, None), (3, None), (4, None), (5, "half")]
