"""XML: what columns hold, what is refused, with which reason, field and message."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
from tests.rows.formats import Outcome, outcomes

from rivermouth.formats.xml import Xml

SCHEMA = (
    "_id bigint NOT NULL, _VALUE string, price decimal(10,2), at timestamp, line array<struct<_no:int,sku:string>>, "
    "buyer struct<name:string,_vip:boolean>, extra map<string,string>, tag array<string>"
)
NONE = {"_VALUE": None, "price": None, "at": None, "line": None, "buyer": None, "extra": None, "tag": None}
MANY = "a number with more digits than that, before or after the point"


def all_of(spark, *values, **settings):
    return outcomes(spark, Xml(schema=SCHEMA, **settings), list(values))


def field(name, text, more=""):
    return f'<o _="" id="1"><{name}{more}>{text}</{name}></o>'.encode()


def test_elements_attributes_and_texts_are_columns(spark):
    order = b"""<?xml version="1.0" encoding="ISO-8859-1"?>
<shop:order xmlns:shop="urn:shop" id=" 7 " more="x">
  <shop:price> 12.5 </shop:price><at>2026-01-31T10:00:00+01:00</at>
  <line no="1"><sku>a&amp;b</sku></line><line no="2"><sku><![CDATA[<c>]]></sku><qty>3</qty></line>
  <buyer vip="1"><name>J\xfcrgen</name></buyer>
  <extra><color>red</color><size/></extra><tag>x</tag>
</shop:order>
<!-- the end -->"""
    mixed = b'<o id="1">a<tag>x</tag>b<tag/></o>'
    first, second = all_of(spark, order, mixed)
    assert first.data == {
        "_id": 7,
        "_VALUE": None,
        "price": Decimal("12.50"),
        "at": dt.datetime(2026, 1, 31, 9),
        "line": [{"_no": 1, "sku": "a&b"}, {"_no": 2, "sku": "<c>"}],
        "buyer": {"name": "J\xfcrgen", "_vip": True},
        "extra": {"color": "red", "size": ""},
        "tag": ["x"],
    }
    assert second.data == {"_id": 1, **NONE, "_VALUE": "ab", "tag": ["x", ""]}


def test_what_is_null(spark):
    nil = b'<o xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" id="1"><price xsi:nil="true"/></o>'
    empty = field("price", "")
    assert all_of(spark, nil)[0].data == {"_id": 1, **NONE}
    assert all_of(spark, empty)[0].reason == "FIELD_TYPE"
    assert all_of(spark, empty, null_value="")[0].data == {"_id": 1, **NONE}
    assert all_of(spark, field("price", "n/a"), null_value="n/a")[0].data == {"_id": 1, **NONE}


def test_what_is_refused_and_why(spark):
    bomb = b'<!DOCTYPE o [<!ENTITY a "aaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><o id="1"><tag>&b;</tag></o>'
    told = {
        b"": ("INVALID_XML", None, "the value is no well-formed XML: see line 1, column 1"),
        b'<o id="1"><price></o>': ("INVALID_XML", None, "the value is no well-formed XML: see line 1, column 20"),
        b'<o id="1"><tag>\xff</tag></o>': ("INVALID_UTF8", None, "the value is not valid UTF-8"),
        b"<?xml version='1.0' encoding='us-ascii'?><o id='1'><tag>\xff</tag></o>": (
            "INVALID_XML",
            None,
            "the value is not in the encoding that it names",
        ),
        b'<?xml encoding="utf-8"?><o id="1"/>': ("INVALID_XML", None, "the value has an XML declaration that is none"),
        b'<?xml version="1.0" encoding="klingon"?><o id="1"/>': (
            "INVALID_XML",
            None,
            "the value names an encoding that Java does not know",
        ),
        b'<o id="1"/>x': ("INVALID_XML", None, "the value is no well-formed XML: see line 1, column 12"),
        b'<o id="1" id="2"/>': ("INVALID_XML", None, "the value is no well-formed XML: see line 1, column 19"),
        bomb: ("INVALID_XML", None, "the value has a DTD, which is not read"),
        b'<o id="1">&nbsp;</o>': ("INVALID_XML", None, "the value is no well-formed XML: see line 1, column 17"),
        b'<o xmlns:a="urn:a" id="1" a:id="2"/>': (
            "INVALID_XML",
            None,
            "an element has two attributes whose names differ in their namespace only",
        ),
        b"<o>" * 1001 + b"</o>" * 1001: ("TOO_DEEP", None, "elements are nested more than 1000 deep"),
        b"<o/>": ("FIELD_MISSING", "_id", "field _id is declared NOT NULL and is null"),
        b'<o id="1"><price>1</price><price>2</price></o>': (
            "FIELD_TYPE",
            "price",
            "field price is declared decimal(10,2) and holds several elements of that name",
        ),
        field("price", "1.555"): ("FIELD_TYPE", "price", f"field price is declared decimal(10,2) and holds {MANY}"),
        field("price", "1,5"): (
            "FIELD_TYPE",
            "price",
            "field price is declared decimal(10,2) and holds a text that does not fit",
        ),
        field("tag", "<b/>"): (
            "FIELD_TYPE",
            "tag[]",
            "field tag[] is declared string and holds an element with elements in it",
        ),
        field("line", "", " no='x'"): (
            "FIELD_TYPE",
            "line[]._no",
            "field line[]._no is declared int and holds a text that does not fit",
        ),
        field("extra", "text"): (
            "FIELD_TYPE",
            "extra",
            "field extra is declared map<string,string> and holds a text that does not fit",
        ),
    }
    found = all_of(spark, *told)
    assert dict(zip(told, found, strict=True)) == {value: Outcome(None, *why) for value, why in told.items()}
    other = all_of(spark, b'<o id="1"/>', row_tag="order")
    assert other == [Outcome(None, "NOT_AN_OBJECT", None, "the value's root is not the element order")]


def test_an_array_of_arrays_is_no_type_of_xml():
    with pytest.raises(
        ValueError, match=r"column a\.b: an array in XML is an element that is repeated, and so is none"
    ):
        Xml(schema="a struct<b: array<array<int>>>").schema_as_declared()
