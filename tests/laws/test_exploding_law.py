"""Arrays taken apart: each element is judged as if it had been sent alone, and Python finds the same elements."""

from __future__ import annotations

import json

import pytest
from hypothesis import strategies as st
from tests.laws.gathering import gathered
from tests.rows.formats import frame, outcomes

from rivermouth import names
from rivermouth.formats.json import Json
from rivermouth.rows import explode
from rivermouth.spec import Flow

FORMAT = Json.model_validate(
    {"type": "json", "schema": "id bigint NOT NULL, note string, deep struct<tags:array<int>>"}
)
FLOW = Flow.model_validate(
    {"name": "f", "topics": ["t"], "format": FORMAT, "explode": "*", "table": "s.t", "sink": "append"}
)

BLANKS = st.text(" \t\n\r", max_size=2).map(str.encode)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from([*'[]{}",\\', "],["]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
FITTING = st.fixed_dictionaries({"id": st.integers(-9, 9)}, optional={"note": VALUES, "more": VALUES, "deep": VALUES})
# What is wrong with them stays within them: their brackets and quotes are closed.
BROKEN = st.sampled_from(
    [
        *(b"{bad}", b'{"id":}', b"{'id': 1}", b'{"id": 1} {"id": 2}', b'{"id": 1}x', b"NaN", b'{"id": 01}', b"{,}"),
        *(b'"\xff"', b'{"id": 1, "note": "\xc3"}', b'{"id": 1, "note": "\\ud800"}', b'{"id": 1, "note": "\\x"}'),
        *(
            b'{"id": 1, "note": "\n"}',
            b'{"id": 1 // ,\n}',
            b'[{"id": 1}]',
            b"[[[]]]",
            b"nul",
            b"1e400",
            b"\xef\xbb\xbf{}",
        ),
    ]
)
DOCUMENTS = st.one_of(
    FITTING.map(lambda each: json.dumps(each).encode()),
    VALUES.map(lambda each: json.dumps(each, ensure_ascii=False).encode("utf-8", "replace")),
    BROKEN,
)
ARRAYS = st.lists(st.tuples(BLANKS, DOCUMENTS, BLANKS), min_size=1, max_size=6)
SCRAPS = st.lists(st.sampled_from(["[", "]", "{", "}", ",", '"', "\\", ":", " ", "1", "a", '{"id":1}']), max_size=10)


def exploded(spark, values):
    """By value: None where it cannot be split into elements, else each element with whether it is a row."""
    split = explode.split(frame(spark, values), FLOW)
    rows = FORMAT.decode(split).select(names.OFFSET, names.POSITION, names.VALUE, names.DECODED).collect()
    found = {offset: [] for offset in range(len(values))}
    for offset, position, value, decoded in sorted(rows, key=lambda row: row[:2]):
        if position == explode.WHOLE:
            assert (bytes(value), decoded) == (values[offset], False)
            found[offset] = None
        elif position >= 0:
            assert len(found[offset]) == position
            found[offset].append((bytes(value), decoded))
    return [*found.values()]


@pytest.mark.parametrize("number", [60, pytest.param(300, marks=pytest.mark.long)])
def test_each_element_is_judged_as_if_it_had_been_sent_alone(spark, number):
    arrays = gathered(ARRAYS, number)
    texts = [b"[" + b",".join(b"".join(parts) for parts in array) + b"]" for array in arrays]
    alone = [document for array in arrays for _before, document, _after in array]
    verdicts = iter([each.reason is None for each in outcomes(spark, FORMAT, alone)])
    expected = [[(document, next(verdicts)) for _before, document, _after in array] for array in arrays]
    assert exploded(spark, texts) == expected
    accepted = [each for array in expected for _document, each in array]
    assert 0.2 < sum(accepted) / len(accepted) < 0.8


@pytest.mark.parametrize("number", [300, pytest.param(1500, marks=pytest.mark.long)])
def test_python_finds_the_same_elements(spark, number):
    values = gathered(SCRAPS, number)
    texts = ["[" + "".join(scraps) for scraps in values]
    texts += ["[" + "".join(scraps) + "]" for scraps in values]
    arrays = 0
    for text, found in zip(texts, exploded(spark, [text.encode() for text in texts]), strict=True):
        try:
            elements = json.loads(text)
        except ValueError:
            # Whatever the value is, each element is a part of it, in its place.
            rest = text
            for element, _decoded in found or []:
                assert element.decode() in rest
                rest = rest.split(element.decode(), 1)[1]
            continue
        arrays += 1
        assert [json.loads(element) for element, _decoded in found] == elements
    assert arrays > number // 50
