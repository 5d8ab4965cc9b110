"""How schemas grow, by hostile documents too; what an edited declaration makes of what has grown; no value is cut."""

from __future__ import annotations

import pytest
from pyspark.sql.types import StructField, StructType
from tests.plans import plan_text
from tests.rows.formats import frame, outcomes

from rivermouth import names
from rivermouth.decoding.json import undeclared_fields
from rivermouth.formats.json import Json
from rivermouth.names import folded
from rivermouth.schemas.evolution import GROWN, GrowthBounds, grown, narrowed, overlaid
from rivermouth.schemas.inference import Shape
from rivermouth.schemas.inferred import schema_of
from rivermouth.sinks.upsert import Upsert
from rivermouth.spec import Evolution, Flow, Table

# Spark reads the DDL.
pytestmark = pytest.mark.usefixtures("spark")
GROWS = Evolution(on_new_column="evolve", on_type_change="widen")


def ddl(text: str, *new: str) -> StructType:
    fields = StructType.fromDDL(text).fields if text else []
    return StructType([StructField(f.name, f.dataType, True, {GROWN: True} if f.name in new else None) for f in fields])


def growth(declared: str, *documents: bytes, table: str = "", taken: tuple[str, ...] = ()):
    shape, schema = Shape(), ddl(declared)
    for offset, each in enumerate(documents):
        shape.add(each, ("t", 0, offset))
    for each in schema:
        if each.name in shape.documents.fields:
            narrowed(shape.documents.fields[each.name], each.dataType)
    found = schema_of(shape)
    return grown(
        schema, found.found, found.numbers, GROWS, GrowthBounds(table=ddl(table), is_taken=lambda name: name in taken)
    )


@pytest.mark.parametrize("name", ["\u017f", "S", "\u017f_2"])
def test_names_that_are_one_to_delta_make_two_columns(name):
    found = growth("s string, s_2 int", f'{{"s": "a", "{name}": 1}}'.encode())
    names = [folded(each) for each in found.schema.names]
    assert len(set(names)) == len(names) == 3
    assert found.schema[-1].metadata == {"json_name": name}


def test_names_are_folded_as_java_ignores_case():
    same = [
        ("s", "\u017f"),
        ("i", "\u0131"),
        ("i", "\u0130"),
        ("k", "\u212a"),
        ("\u03c3", "\u03c2"),
        ("ß", "\u1e9e"),
        ("Ab", "aB"),
    ]
    assert [folded(one) == folded(other) for one, other in same] == [True] * len(same)
    assert len({folded(each) for each in ("ss", "ß", "ä", "a")}) == 4


def test_a_record_that_does_not_fit_keeps_no_other_from_growing_the_schema():
    found = growth(
        "place struct<city: string>, n int, tags array<struct<a: int>>, free map<string, int>",
        b'{"place": {"City": "x", "": 1}, "n": "text", "tags": "none", "free": [1]}',
        b'{"place": "Ulm", "n": {"x": 1}, "tags": [5], "free": {"a": "x"}}',
        b'{"place": {"zip": 1, "Zip": 2}, "n": 5000000000, "tags": [{"b": 1}], "free": {"a": 5000000000}}',
    )
    assert found.changes == (
        "widens free[] to bigint",
        "widens n to bigint",
        "adds place.Zip bigint",
        "adds tags[].b bigint",
    )


def test_a_column_that_holds_all_numbers_stays_as_it_is():
    columns = "a tinyint, b smallint, c int, d float, e decimal(4,1), f array<struct<g: int>>"
    fit = b'{"a": 127, "b": -32767, "c": 2147483647, "d": 1.5, "e": 999.5, "f": [{"g": 7}]}'
    assert growth(columns, fit, b'{"d": 7, "new": 1}').changes == ("adds column new bigint",)
    beyond = growth(columns, b'{"a": 128, "b": -32769, "c": 2147483648, "d": 1e39}', fit)
    assert beyond.changes == tuple(
        f"widens {each}" for each in ("a to bigint", "b to bigint", "c to bigint", "d to double")
    )


@pytest.mark.parametrize(
    ("there", "column"),
    [
        ("colour bigint", "colour bigint"),
        ("COLOUR int", "colour bigint"),
        ("colour decimal(12,2)", "colour decimal(12,2)"),
        ("colour string", "colour string"),
        ("colour date", "colour_2 bigint"),
        ("colour date, colour_2 boolean", "colour_3 bigint"),
    ],
)
def test_a_column_that_only_the_table_has_is_taken_where_it_holds_the_new_field(there, column):
    found = growth("id int", b'{"colour": 5}', table=there)
    assert found.changes == (f"adds column {column}",)
    assert found.schema[-1].metadata.get("json_name", "colour") == "colour"


def test_a_new_name_is_not_one_of_the_tables_own():
    assert growth("id int", b'{"ID": 5}', taken=("ID_2",)).changes == ("adds column ID_3 bigint",)


@pytest.mark.parametrize(
    ("declared", "kept", "new", "laid"),
    [
        ("id int", "id bigint, colour string", ["colour"], "id bigint, colour string"),
        # Somebody took it out of the declaration.
        ("id int", "id bigint, note string", [], "id bigint"),
        ("id int, colour string", "id int, colour string", ["colour"], "id int, colour string"),
        ("id string", "id bigint", [], "id string"),
        ("id bigint", "id int", [], "id bigint"),
        (
            "p struct<a: int, c: string>",
            "p struct<a: bigint, b: int>",
            [],
            "p struct<a: bigint, b: int, c: string>",
        ),
        ("p array<struct<b: int, a: int>>", "p array<struct<a: int, b: int>>", [], "p array<struct<a: int, b: int>>"),
        ("p map<string, int>", "p map<string, bigint>", [], "p map<string, bigint>"),
        ("p struct<B: int>", "p struct<a: int, b: int>", [], "p struct<B: int>"),
    ],
)
def test_what_has_grown_lies_over_what_is_declared_by_now(declared, kept, new, laid):
    found = overlaid(ddl(declared), ddl(kept, *new))
    assert [(f.name, f.dataType) for f in found] == [(f.name, f.dataType) for f in ddl(laid)]
    assert overlaid(found, ddl(kept, *new)) == found


def test_of_an_inferred_schema_all_that_is_kept_counts():
    assert overlaid(ddl("id int"), ddl("id int, a int"), whole=True).names == ["id", "a"]


def test_what_is_rescued_is_text_and_of_a_document_in_utf_8(spark):
    form = Json(schema="id int, tags array<int>").with_policies(
        Evolution(on_new_column="rescue", on_type_change="rescue", columns={"id": {"on_new_column": "rescue"}})
    )
    values = {
        b'{"id": "\xc0\x80"}': "INVALID_UTF8",
        b'{"tags": {"x": "\xed\xa0\x80"}}': "INVALID_UTF8",
        b'{"id": "\\ud800"}': "LONE_SURROGATE",
        b'\xef\xbb\xbf{"id": "x"}': "INVALID_JSON",
        '{"id": "x"}'.encode("utf-16-le"): "INVALID_JSON",
        '{"id": "x"}'.encode("utf-16"): "INVALID_UTF8",
        '{"id": "x"}'.encode("utf-32-be"): "INVALID_JSON",
        b'{"id": "\\ud83d\\ude00", "n": 1}': None,
    }
    found = outcomes(spark, form, list(values))
    assert [each.reason for each in found] == list(values.values())
    assert found[-1].data["_rescued"] == '{"/id":"\\ud83d\\ude00","/n":1}'


def test_a_number_beyond_all_counting_keeps_no_other_from_widening_its_column(spark):
    schema = ddl("q decimal(5,2), price decimal(5,2)")
    documents = [
        b'{"q": 1e2147483648, "price": 123456.789}',
        b'{"q": 1e2147483647, "price": 123456.789}',
        b'{"q": 1e2147483647, "price": 1.5}',
    ]
    wider = undeclared_fields.wider_numbers(spark, schema, GROWS, names.VALUE)
    assert [row.wider for row in frame(spark, documents).select(wider.alias("wider")).collect()] == [True, True, False]


def test_documents_are_scanned_only_where_a_policy_asks_for_it(spark):
    rows = frame(spark, [b"{}"])

    def scans(**policies):
        form = Json(schema="id int").with_policies(Evolution(**policies).with_defaults(infers=False))
        return "__sur" in plan_text(form.decode(rows), "analyzed")

    assert not scans()
    assert not scans(on_type_change="fail", on_missing_column="fail")
    assert scans(on_new_column="dead_letter")
    assert scans(columns={"id": {"on_new_column": "fail"}})


@pytest.mark.parametrize(
    ("policies", "told"),
    [
        (
            {"columns": {"place.zip": {"on_new_column": "ignore"}}},
            "evolution.columns names 'place.zip': policies are for whole columns, so name 'place'",
        ),
        (
            {"columns": {"amout": {"on_type_change": "fail"}}},
            "evolution.columns names 'amout', which is no column: did you mean 'amount'?",
        ),
        ({"columns": {"later": {"on_new_column": "evolve", "on_type_change": "fail"}}}, None),
        ({"columns": {"AMOUNT": {"on_missing_column": "fail"}, "note": {"on_new_column": "rescue"}}}, None),
        ({"on_type_change": "rescue"}, "a column is named _rescued, and that is the column of rescued fields"),
    ],
)
def test_a_policy_that_would_wait_for_ever_is_refused(spark, policies, told):
    more = ", _RESCUED string" if "on_type_change" in policies else ""
    form = Json(schema=f"amount int, place struct<zip: int>{more}")
    form = form.with_policies(Evolution(**policies).with_defaults(infers=False))
    if told is None:
        assert form.columns(spark).names[:2] == ["amount", "place"]
    else:
        with pytest.raises(ValueError, match=r"evolution|_rescued") as refused:
            form.columns(spark)
        assert str(refused.value) == told


def test_a_column_by_which_a_keyed_table_finds_its_rows_stays_what_it_is():
    sink = Upsert(keys=["id", {"k": "hash(`part no`)"}, "date(at)"], sequence_by="v", apply_as_deletes="op = 'D'")
    flow = Flow(
        name="orders",
        topics=("orders",),
        format=Json(schema="id int"),
        evolution=Evolution(on_type_change="widen_or_rescue"),
        table=Table(name="silver.orders"),
        sink=sink,
    )
    found = {name: flow.policies.type_change(name) for name in ("ID", "v", "op", "part no", "at", "k", "amount")}
    computed, read, free = "dead_letter", "widen", "widen_or_rescue"
    assert found == {
        "ID": read,
        "v": read,
        "op": read,
        "part no": computed,
        "at": computed,
        "k": free,
        "amount": free,
    }


def test_each_digit_counts_in_what_was_inferred_and_where_it_is_said():
    declared = "a double, s struct<x:double>, i int, t timestamp"
    wider = "a double, s struct<x:double,y:array<double>>, i double, t timestamp, new map<string,double>"
    kept = ddl(wider, "new")
    form = Json(schema=declared)
    assert form._exact == {}
    grown = form.with_schema(kept)
    y, double, time = {"items": {"exact": "double"}}, {"exact": "double"}, {"exact": "timestamp"}
    new = {"values": double}
    assert grown._exact == {"fields": {"s": {"fields": {"y": y}}, "i": double, "new": new}}
    assert grown.with_schema(kept)._exact == grown._exact
    said = grown.with_policies(Evolution(on_new_column="evolve").with_defaults(infers=False))
    assert said._exact == grown._exact
    for policies in ({"columns": {"A": {"on_type_change": "rescue"}}}, {"on_type_change": "dead_letter"}):
        said = grown.with_policies(Evolution(**policies).with_defaults(infers=False))
        assert said._exact["fields"]["a"] == double
        assert said._exact["fields"].get("t") == (None if "columns" in policies else time)
    inferred = Json(schema="infer", schema_hints="A double").with_schema(kept)
    assert inferred._exact["fields"].keys() == {"s", "i", "t", "new"}
