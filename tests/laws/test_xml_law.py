"""What Python's own parser of XML reads is what the columns hold; what it refuses, or does not fit, is refused."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from xml.etree import ElementTree as ET

import pytest
from hypothesis import strategies as st
from tests.laws.gathering import gathered
from tests.rows.formats import outcomes

from rivermouth.formats.xml import Xml

DDL = (
    "_n int, flag boolean, big bigint, dbl double, price decimal(10,2), note string, day date, at timestamp, "
    "tags array<string>, counts map<string,int>, deep struct<x:int,_a:string,more:array<bigint>>"
)
COUNT = 1500
REFUSED = "refused"
SIGNS = st.characters(codec="utf-8", exclude_categories=("Cs", "Cc", "Cn")) | st.sampled_from("<>&'\"\t\n ]")
TEXT = st.text(SIGNS, max_size=8)
SCALARS = (
    TEXT
    | st.integers(-(2**65), 2**65).map(str)
    | st.integers(-200, 200).map(str)
    | st.floats().map(repr)
    | st.decimals(-(10**9), 10**9, places=2).map(str)
    | st.sampled_from(["true", "false", "1", "0", "TRUE", "", " 7 ", "+3", ".5", "5.", "1e3", "0x1", "1_0", "\u0663"])
    | st.dates().map(str)
    | st.datetimes(dt.datetime(2, 1, 1), dt.datetime(9998, 12, 31)).map(lambda at: at.isoformat())
)
NAMES = st.sampled_from(
    ["flag", "big", "dbl", "price", "note", "day", "at", "tags", "counts", "deep", "x", "more", "k"]
)
FITTING = {
    "flag": st.booleans().map(lambda it: str(it).lower()),
    "big": st.integers(-(2**63), 2**63 - 1).map(str),
    "dbl": st.floats(allow_infinity=False).map(repr).map(lambda text: "NaN" if text == "nan" else text),
    "price": st.decimals(-(10**8) + 1, 10**8 - 1, places=2).map(str),
    "day": st.dates().map(str),
    "at": st.datetimes(dt.datetime(2, 1, 1), dt.datetime(9998, 12, 31)).map(lambda at: at.isoformat()),
    "x": st.integers(-9, 9).map(str),
    "more": st.integers(-9, 9).map(str),
    "k": st.integers(-9, 9).map(str),
}


@st.composite
def elements(draw, name, depth=0):
    """An element, most of whose contents fit the column of its name."""
    found = ET.Element(name)
    for attribute in draw(st.lists(st.sampled_from(["n", "a", "foreign"]), max_size=2, unique=True)):
        found.set(attribute, draw(st.integers(-9, 9).map(str) if attribute == "n" else TEXT))
    if name == "o" or (name in {"counts", "deep"} and draw(st.integers(0, 9))):
        inner = {"o": NAMES, "counts": st.just("k"), "deep": st.sampled_from(["x", "more"])}[name]
        for child in draw(st.lists(inner, max_size=4, unique=name != "o" or draw(st.booleans()))):
            found.append(draw(elements(child, depth + 1)))
            found[-1].tail = draw(st.sampled_from([None, None, "\n  ", "x"]))
    else:
        fits = name in FITTING and draw(st.integers(0, 19))
        found.text = draw(FITTING[name] if fits else SCALARS)
    return found


@st.composite
def documents(draw):
    """Documents in several encodings, some of them broken."""
    encoding = draw(st.sampled_from(["utf-8", "utf-8", "us-ascii", "iso-8859-1", "utf-16"]))
    raw = ET.tostring(
        draw(elements("o")), encoding=encoding, xml_declaration=draw(st.booleans()) or encoding != "utf-8"
    )
    if draw(st.integers(0, 9)):
        return raw
    # Python takes declarations that are none, and encodings by more names than there are.
    root = "<o".encode("utf-16-le" if encoding == "utf-16" else "ascii")
    place = draw(st.integers(raw.index(root), len(raw)))
    return (
        raw[:place]
        + draw(st.sampled_from([b"", b"<", b"&", b"]]>", b"<a>", b"\xff", b"\x00", b"<!--", b"--"]))
        + raw[place + draw(st.integers(0, 2)) :]
    )


class Misfit(Exception):
    """A value is not of its column's type."""


def misfit():
    raise Misfit


def bare(text):
    return text.strip(" \t\r\n")


def matched(pattern, read):
    def of(element):
        text = bare(leaf(element))
        if not re.fullmatch(pattern, text, re.ASCII):
            misfit()
        try:
            return read(text)
        except ValueError:
            misfit()

    return of


def leaf(element):
    return misfit() if len(element) else element.text or ""


def within(least, most):
    return lambda text: int(text) if least <= int(text) <= most else misfit()


def real(text):
    found = float(text)
    return found if found not in {float("inf"), float("-inf")} else misfit()


def price(text):
    exact = Decimal(text)
    return round(exact, 2) if exact == round(exact, 2) and abs(exact) < 10**8 else misfit()


NUMBER = r"[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)"
INT = matched(r"[+-]?[0-9]+", within(-(2**31), 2**31 - 1))
LONG = matched(r"[+-]?[0-9]+", within(-(2**63), 2**63 - 1))
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d([.]\d{1,6})?)?"


def one(read):
    return lambda found: None if not found else misfit() if len(found) > 1 else read(found[0])


def entries(element):
    if not len(element):
        return misfit() if (element.text or "").strip() else {}
    return {name: one(INT)(element.findall(name)) for name in dict.fromkeys(child.tag for child in element)}


def deep(element):
    more = [LONG(each) for each in element.findall("more")]
    return {"x": one(INT)(element.findall("x")), "_a": element.get("a"), "more": more or None}


COLUMNS = {
    "flag": one(matched("true|false|1|0", lambda text: text in {"true", "1"})),
    "big": one(LONG),
    "dbl": one(matched(f"NaN|{NUMBER}([eE][+-]?[0-9]+)?", real)),
    "price": one(matched(NUMBER, price)),
    "note": one(leaf),
    "day": one(matched(r"\d{4}-\d\d-\d\d", dt.date.fromisoformat)),
    "at": one(matched(TIME, dt.datetime.fromisoformat)),
    "tags": lambda found: [leaf(each) for each in found] or None,
    "counts": one(entries),
    "deep": one(deep),
}


def of_text(text):
    element = ET.Element("n")
    element.text = text
    return element


def oracle(raw):
    """What the columns hold, by Python's parser and a line a type; REFUSED if there is a misfit."""
    try:
        root = ET.fromstring(raw)
    except (ET.ParseError, ValueError, LookupError):
        return REFUSED
    if root.get("n") is None and not any(root.findall(name) for name in COLUMNS):
        return REFUSED
    try:
        number = None if root.get("n") is None else INT(of_text(root.get("n")))
        return {"_n": number} | {name: read(root.findall(name)) for name, read in COLUMNS.items()}
    except Misfit:
        return REFUSED


def told(data):
    return REFUSED if data is None else {name: repr(value) for name, value in data.items()}


@pytest.mark.long
def test_columns_hold_what_pythons_parser_reads(spark):
    values = gathered(documents(), COUNT)
    found = outcomes(spark, Xml(schema=DDL), values)
    wanted = [oracle(raw) for raw in values]
    wrong = [
        (raw, outcome.data, outcome.reason, outcome.message, expected)
        for raw, outcome, expected in zip(values, found, wanted, strict=True)
        if told(outcome.data) != (REFUSED if expected == REFUSED else told(expected))
    ]
    assert wrong[:5] == []
    refused = [outcome for outcome in found if outcome.data is None]
    assert [o for o in refused if o.reason in {None, "UNEXPLAINED"} or not o.message] == []
    assert 100 < len(refused) < len(values) - 300
