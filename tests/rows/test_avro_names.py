"""``format: avro`` compares names: which record, enum and fixed of a writer is which of the table."""

from __future__ import annotations

import io
import json
import struct

import fastavro
import pytest
from tests.ports.schema_registry import SchemaRegistry
from tests.rows.avro_writers import Evolving, maybe, record
from tests.rows.formats import frame, outcomes

from rivermouth import names
from rivermouth.decoding.registry.schema_registry import RegistryAccess
from rivermouth.formats.avro import Avro


def amount(name, **more):
    return record(("amount", "int"), name=name) | more


def kind(name, kind, **more):
    return {"type": kind, "name": name, **more}


CASH, CARD = amount("shop.Cash"), amount("shop.Card")
KIND, MAC = kind("shop.Kind", "enum", symbols=["A", "B"]), kind("shop.Mac", "fixed", size=2)
TABLE = record(
    ("id", "int"),
    ("pay", ["null", CASH, CARD], None),
    ("gift", maybe(amount("shop.Voucher")), None),
    ("at", amount("shop.Place"), {"amount": 0}),
    ("kind", maybe(KIND), None),
    ("mac", maybe(MAC), None),
    ("twin", ["null", amount("a.Twin"), amount("b.Twin")], None),
    name="shop.Order",
) | {"aliases": ["OrderV1", "old.Purchase"]}


def order(*fields, name="shop.Order"):
    return record(("id", "int"), *fields, name=name)


def members(place, value, count=2):
    return {f"member{each}": value if each == place else None for each in range(count)}


# The writer's schema, the record, and what the columns have besides the defaults.
READ = [
    (order(), {"id": 1}, {}),
    (order(name="sales.Order"), {"id": 1}, {}),
    (order(name="Order"), {"id": 1}, {}),
    (order(name="shop.OrderV1"), {"id": 1}, {}),
    (order(name="old.Purchase"), {"id": 1}, {}),
    (order(("pay", [CARD, "null"])), {"id": 1, "pay": {"amount": 5}}, {"pay": members(1, {"amount": 5})}),
    (order(("pay", CASH)), {"id": 1, "pay": {"amount": 5}}, {"pay": members(0, {"amount": 5})}),
    (order(("pay", amount("new.Card"))), {"id": 1, "pay": {"amount": 5}}, {"pay": members(1, {"amount": 5})}),
    (
        order(("pay", [amount("shop.Cheque"), CARD])),
        {"id": 1, "pay": ("shop.Card", {"amount": 5})},
        {"pay": members(1, {"amount": 5})},
    ),
    (order(("gift", amount("new.Voucher"))), {"id": 1, "gift": {"amount": 5}}, {"gift": {"amount": 5}}),
    (order(("gift", ["null", amount("shop.Coupon")])), {"id": 1, "gift": None}, {}),
    (order(("at", amount("new.Place"))), {"id": 1, "at": {"amount": 5}}, {"at": {"amount": 5}}),
    (order(("kind", kind("new.Kind", "enum", symbols=["B"]))), {"id": 1, "kind": "B"}, {"kind": "B"}),
    (order(("mac", kind("new.Mac", "fixed", size=2))), {"id": 1, "mac": b"ab"}, {"mac": bytearray(b"ab")}),
    # The full name counts before the place.
    (
        order(("twin", [amount("b.Twin"), amount("a.Twin")])),
        {"id": 1, "twin": ("b.Twin", {"amount": 5})},
        {"twin": members(1, {"amount": 5})},
    ),
]
MISFIT = "the writer's schema does not resolve: Found {}, expecting {}"
# The writer's schema, the record, the field that is refused, the message.
REFUSED = [
    (record(("at_ms", "long"), name="shop.Heartbeat"), {"at_ms": 1}, None, "shop.Heartbeat"),
    (order(name="shop.OrderShipped"), {"id": 1}, None, "shop.OrderShipped"),
    (order(name="other.OrderV1"), {"id": 1}, None, "other.OrderV1"),
    (
        order(("pay", [amount("shop.Cheque"), CARD])),
        {"id": 1, "pay": ("shop.Cheque", {"amount": 5})},
        "pay",
        MISFIT.format("shop.Cheque", "union[null, shop.Cash, shop.Card]"),
    ),
    (
        order(("gift", ["null", amount("shop.Coupon")])),
        {"id": 1, "gift": {"amount": 5}},
        "gift",
        MISFIT.format("shop.Coupon", "union[null, shop.Voucher]"),
    ),
    (
        order(("at", amount("shop.Site"))),
        {"id": 1, "at": {"amount": 5}},
        "at",
        MISFIT.format("shop.Site", "shop.Place"),
    ),
    (
        order(("kind", kind("shop.Sort", "enum", symbols=["B"]))),
        {"id": 1, "kind": "B"},
        "kind",
        MISFIT.format("shop.Sort", "union[null, shop.Kind]"),
    ),
    (
        order(("mac", kind("shop.Id", "fixed", size=2))),
        {"id": 1, "mac": b"ab"},
        "mac",
        MISFIT.format("shop.Id", "union[null, shop.Mac]"),
    ),
    (
        order(("mac", kind("shop.Mac", "fixed", size=3))),
        {"id": 1, "mac": b"abc"},
        "mac",
        MISFIT.format("shop.Mac", "shop.Mac of 2 bytes"),
    ),
    # Which of two it is nobody knows.
    (
        order(("twin", amount("c.Twin"))),
        {"id": 1, "twin": {"amount": 5}},
        "twin",
        MISFIT.format("c.Twin", "union[null, a.Twin, b.Twin]"),
    ),
]


@pytest.fixture(scope="module")
def registry():
    with SchemaRegistry() as running:
        yield running


def sent(registry, writer, content):
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(writer, {}, _force=True), content)
    return struct.pack(">bI", 0, registry.register("s", writer)) + body.getvalue()


def form_of(registry, schema, **more):
    form = Avro.model_validate({"type": "avro", "schema": schema, "framing": "confluent", **more})
    return form.with_registry(RegistryAccess(url=registry.url))


def test_which_types_of_a_writer_are_those_of_the_table(spark, registry):
    values = [sent(registry, writer, content) for writer, content, *_ in READ + REFUSED]
    found = outcomes(spark, form_of(registry, TABLE), values)
    blank = {"id": 1, "pay": None, "gift": None, "at": {"amount": 0}, "kind": None, "mac": None, "twin": None}
    for (_, _, columns), outcome in zip(READ, found, strict=False):
        assert (outcome.reason, outcome.data) == (None, blank | columns), outcome
    other = "the value was written as record {}, the flow reads shop.Order"
    refused = [
        ("SCHEMA_MISMATCH", field, told) if field else ("RECORD_NAME", None, other.format(told))
        for _, _, field, told in REFUSED
    ]
    assert [(each.reason, each.field, each.message) for each in found[len(READ) :]] == refused


def test_avros_own_library_says_the_same_of_the_schemas(spark, registry):
    """Whether all records of a writer can be read: of unions the library wants each branch to be."""
    avro = spark._jvm.org.apache.avro
    parsed = lambda schema: avro.Schema.Parser().parse(json.dumps(schema))  # noqa: E731
    table = {each: value for each, value in TABLE.items() if each != "aliases"}

    def fits(writer):
        pair = avro.SchemaCompatibility.checkReaderWriterCompatibility(parsed(table), parsed(writer))
        return pair.getType().toString() == "COMPATIBLE"

    by_alias = [order(name="shop.OrderV1"), order(name="old.Purchase")]
    in_part = [order(("pay", [amount("shop.Cheque"), CARD])), order(("gift", ["null", amount("shop.Coupon")]))]
    # The library takes the first of two of one name.
    ambiguous = [order(("twin", amount("c.Twin")))]
    known = [writer for writer, *_ in READ if writer not in by_alias + in_part]
    assert [writer for writer in known if not fits(writer)] == []
    assert [writer for writer, *_ in REFUSED if writer not in in_part and fits(writer)] == ambiguous


def test_records_of_named_writers_are_read_and_others_are_skipped(spark, registry):
    table = {"type": "record", "name": "ConnectDefault", "fields": [{"name": "id", "type": "int"}]}
    values = [
        sent(registry, order(name=name), {"id": 1})
        for name in ("shop.Order", "new.Order", "Line", "x.Line", "ConnectDefault")
    ]
    values += [
        b"\1",
        sent(registry, order(name="x.Line"), {"id": 1})[:-1],
        sent(registry, order(name="shop.Order"), {"id": 1})[:-1],
        None,
    ]
    form = form_of(registry, table, record_names=["shop.Order", "Line"])
    made = form.decode(frame(spark, values))
    told = made.select(names.OFFSET, names.DECODED, f"{names.DATA}.id", f"{names.VERDICT}.*").collect()
    skipped, cut = (True, None, True, None, None, None), "the value ends before what its schema announces"
    magic = "the value does not begin with a zero and the id of a schema, and no header __value_schema_id has one"
    assert [tuple(row)[1:] for row in sorted(told)] == [
        (True, 1, None, None, None, None),
        skipped,
        (True, 1, None, None, None, None),
        (True, 1, None, None, None, None),
        skipped,
        (False, None, False, "WRONG_MAGIC", None, magic),
        (False, None, False, "TRUNCATED", "id", cut),
        (False, None, False, "TRUNCATED", "id", cut),
        (True, None, None, None, None, None),
    ]


def test_a_table_does_not_grow_by_records_of_other_names(spark, registry):
    declared = record(
        ("id", "int"), ("at", amount("shop.Place")), ("gift", maybe(amount("shop.Voucher")), None), name="shop.Order"
    )
    table = Evolving(spark, registry, declared, on_new_column="evolve", on_type_change="widen")
    other = record(("id", "int"), ("carrier", "string"), name="shop.OrderShipped")
    coupon = record(("code", "string"), name="shop.Coupon")
    inner = record(
        ("id", "int"), ("at", amount("shop.Place")), ("gift", maybe(coupon)), ("tag", "int"), name="shop.Order"
    )
    wider = record(("id", "int"), ("at", record(("amount", "long"), name="new.Place")), name="new.Order")
    assert table.grow(table.sent(other, {"id": 1, "carrier": "dhl"})) == ()
    values = [
        table.sent(other, {"id": 1, "carrier": "dhl"}),
        table.sent(inner, {"id": 2, "at": {"amount": 1}, "gift": None, "tag": 3}),
        table.sent(inner, {"id": 2, "at": {"amount": 1}, "gift": {"code": "x"}, "tag": 3}),
        table.sent(wider, {"id": 3, "at": {"amount": 1 << 40}}),
    ]
    assert table.grow(*values) == ("adds column tag int", "widens at.amount to bigint")
    named, whole, coupon, other = table.outcomes(*values)
    assert (named.reason, named.message) == (
        "RECORD_NAME",
        "the value was written as record shop.OrderShipped, the flow reads shop.Order",
    )
    assert whole.data == {"id": 2, "at": {"amount": 1}, "gift": None, "tag": 3}
    assert (coupon.reason, coupon.field) == ("SCHEMA_MISMATCH", "gift")
    assert coupon.message == MISFIT.format("shop.Coupon", "shop.Voucher")
    assert other.data == {"id": 3, "at": {"amount": 1 << 40}, "gift": None, "tag": None}


def test_one_writer_of_another_name_is_refused_before_a_record_is(spark):
    form = Avro.model_validate({"type": "avro", "schema": order(), "writer_schemas": [order(name="shop.Old")]})
    told = (
        "^writer_schemas has the record shop.Old, and the table's schema the record shop.Order: "
        r'add "aliases": \["shop.Old"\] to the table\'s schema$'
    )
    with pytest.raises(ValueError, match=told):
        form.columns(spark)
    again = form.model_copy(update={"declared": order() | {"aliases": ["shop.Old"]}})
    assert outcomes(spark, again, [b"\2"])[0].data == {"id": 1}


def test_names_are_chosen_where_records_have_some():
    plain = "plain records are all of one schema, so record_names chooses none of them: leave it out"
    with pytest.raises(ValueError, match=plain):
        Avro.model_validate({"type": "avro", "schema": order(), "record_names": ["shop.Order"]})
    with pytest.raises(ValueError, match="String should match pattern"):
        Avro.model_validate({"type": "avro", "schema": order(), "framing": "confluent", "record_names": ["shop.*"]})
