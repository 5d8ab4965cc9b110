"""What is said of changes and rows of Kafka Connect that do not fit: what they have, and what would fit."""

from __future__ import annotations

import datetime as dt
import json
from operator import itemgetter

import pytest
from tests.rows.test_change_envelopes import DECIMAL, GONE, SOURCE

from rivermouth import names
from rivermouth.decoding.json import no_declared_field
from rivermouth.extend import find_kind
from rivermouth.rows import envelope

HEADER = "the value begins with a zero byte and the id of a schema, as the serializers of a schema registry write"
UNEXPLAINED = "holds a string that no schema block explains: write decimals: string, or decimals: base64, in the format"


def sent_as(name, value, hint=None):
    """An event of Debezium with one column, and its part of the schema block."""
    event = {"op": "c", "after": {name: value}}
    if hint is None:
        return event
    return {"schema": {"fields": [{"field": "after", "fields": [{"field": name, **hint}]}]}, "payload": event}


FITS = {
    "decimal": "what fits is a number, or text as the schema block or decimals says, with no more digits than that",
    "date": "what fits is a number of days since 1970, or text like 2026-01-31",
    "time": "what fits is text as ISO 8601 has it, or a number whose unit the schema block or time_precision says",
}
KEEPS = "or declare it as string to keep any text"
TOLD = [
    ("debezium", "bigint", sent_as("c", "x"), "holds a string"),
    ("debezium", "decimal(9,2)", sent_as("c", True), f"holds a boolean; {FITS['decimal']}"),
    (
        "debezium",
        "decimal(9,2)",
        sent_as("c", "1.5"),
        UNEXPLAINED,
    ),
    (
        "debezium",
        "timestamp",
        sent_as("c", 1, {"type": "int64", "name": "io.debezium.time.MicroTime"}),
        f"holds a whole number that its schema block calls io.debezium.time.MicroTime; {FITS['time']}",
    ),
    (
        "debezium",
        "timestamp",
        sent_as("c", 1),
        (
            "holds a whole number whose unit is in no schema block: write time_precision: millis, micros or "
            "nanos in the format"
        ),
    ),
    (
        "debezium",
        "date",
        sent_as("c", 10**7),
        "holds a number beyond the years 1 to 9999: declare it as bigint to keep such numbers",
    ),
    (
        "debezium",
        "binary",
        sent_as("c", "AAE=", {"type": "string"}),
        (
            "holds a string, as which its schema block does not say how bytes are written: write binaries: base64, or "
            "binaries: hex"
        ),
    ),
    (
        "debezium",
        "string",
        sent_as("c", "AwI=", DECIMAL),
        "holds a decimal, as its schema block says: declare it as decimal",
    ),
    ("debezium", "array<date>", sent_as("c", "2026-01-31"), "holds a string"),
    (
        "debezium",
        "map<string,string>",
        sent_as("c", '[{"k": "v"}]'),
        "holds a string that is no JSON object; what fits is an object, or the JSON text of one",
    ),
    (
        "debezium",
        "map<string,string>",
        sent_as("c", 1),
        "holds a whole number; what fits is an object, or the JSON text of one",
    ),
    (
        "debezium",
        "map<string,int>",
        sent_as("c", "{}"),
        "holds a string: JSON text is read as map<string,string> alone",
    ),
    (
        "debezium",
        "timestamp",
        sent_as("c", "infinity"),
        (
            "holds a string that is no timestamp (YYYY-MM-DDThh:mm:ss, with an offset or in UTC); "
            f"{FITS['time']}, {KEEPS}"
        ),
    ),
    (
        "debezium",
        "timestamp",
        sent_as("c", 2**62, {"name": "io.debezium.time.MicroTimestamp"}),
        "holds a number beyond the years 1 to 9999: declare it as bigint to keep such numbers",
    ),
    ("connect_json", "int", {"schema": {}, "payload": {"c": "x"}}, "holds a string"),
    ("connect_json", "date", {"schema": {}, "payload": {"c": True}}, f"holds a boolean; {FITS['date']}"),
    ("maxwell", "int", {"type": "insert", "data": {"c": "x"}}, "holds a string"),
    ("maxwell", "date", {"type": "insert", "data": {"c": "x"}}, "holds a string that is no date (YYYY-MM-DD)"),
    (
        "maxwell",
        "decimal(9,2)",
        {"type": "insert", "data": {"c": 1.555}},
        "holds a number with more digits than that, before or after the point",
    ),
    ("canal", "int", {"type": "INSERT", "data": [{"c": "x"}]}, "holds text that is no whole number"),
    ("canal", "int", {"type": "INSERT", "data": [{"c": "9999999999"}]}, "holds a whole number beyond its range"),
    ("canal", "boolean", {"type": "INSERT", "data": [{"c": "2"}]}, "holds text other than true, false, 1 and 0"),
    ("canal", "decimal(9,2)", {"type": "INSERT", "data": [{"c": "x"}]}, "holds text that is no decimal number"),
    ("ogg", "date", {"op_type": "I", "after": {"c": "x"}}, "holds text that is no date (YYYY-MM-DD)"),
    (
        "ogg",
        "double",
        {"op_type": "I", "after": {"c": "x"}},
        "holds text that is no number, or a number beyond its range",
    ),
    ("ogg", "int", {"op_type": "I", "after": {"c": [1]}}, "holds an array"),
]
PARTS = [
    (
        sent_as("c", [0, "x"]),
        "array<date>",
        f"field c[] is declared date and holds a string that is no date (YYYY-MM-DD); {FITS['date']}, {KEEPS}",
    ),
    (
        sent_as("c", {"d": ["1.5"]}),
        "struct<d: array<decimal(9,2)>>",
        f"field c.d[] is declared decimal(9,2) and {UNEXPLAINED}",
    ),
]
WHOLE = [
    (
        b"\x00\x00\x00\x00\x01\x02abc",
        (
            f"{HEADER} Avro: the format debezium reads JSON alone; set the connector's value.converter to "
            "org.apache.kafka.connect.json.JsonConverter, or read the fields of the envelope as columns with format: "
            "avro"
        ),
    ),
    (
        b'\x00\x00\x00\x00\x01{"op": "c"}',
        f"{HEADER} JSON Schema: the format debezium reads JSON without such a header",
    ),
    (
        b'{"schema": {}, "payload": {"c": 1}}',
        (
            "the value is an object, and not a change in the format's envelope: the format connect_json reads rows in "
            "schema and payload without one, the format json plain rows"
        ),
    ),
    (
        json.dumps(sent_as("c", GONE)).encode(),
        (
            "the source did not send the value of field c, which the change left as it was: set REPLICA IDENTITY FULL "
            "in Postgres; only sink: upsert keeps the stored value, if no key and no order is made of it"
        ),
    ),
    (b"{", "the value is not JSON: expecting property name enclosed in double quotes at character 1"),
]


def messages_of(spark, kind, columns, values):
    form = find_kind("formats", kind).model_validate({"type": kind, "schema": columns})
    rows = [("t", 0, number, dt.datetime(2026, 1, 1), 0, None, value) for number, value in enumerate(values)]
    explained = form.explain(form.decode(envelope.read(spark.createDataFrame(rows, SOURCE)))).collect()
    return [row[names.MESSAGE] for row in sorted(explained, key=itemgetter(names.OFFSET))]


@pytest.mark.long
def test_a_value_that_does_not_fit_is_told_with_what_would(spark):
    wrong = []
    cases = {}
    for kind, declared, document, told in TOLD:
        cases.setdefault(kind, []).append((declared, document, f"field c is declared {declared} and {told}"))
    for document, declared, told in PARTS:
        cases["debezium"].append((declared, document, told))
    for kind, mine in cases.items():
        # A column for each case: its name is that of the case there alone.
        columns = ", ".join(f"c{n} {declared}" for n, (declared, _, _) in enumerate(mine))
        sent = [
            json.dumps(document).replace('"c":', f'"c{n}":').replace('"field": "c"', f'"field": "c{n}"')
            for n, (_, document, _) in enumerate(mine)
        ]
        got = messages_of(spark, kind, columns, [each.encode() for each in sent])
        wanted = [told.replace("field c", f"field c{n}", 1) for n, (_, _, told) in enumerate(mine)]
        wrong += [pair for pair in zip(wanted, got, strict=True) if pair[0] != pair[1]]
    assert wrong == []
    assert messages_of(spark, "debezium", "c string", [value for value, _ in WHOLE]) == [told for _, told in WHOLE]


def test_plain_json_that_is_a_row_of_kafka_connect_is_told():
    told = "the value has none of the declared columns: the format connect_json reads rows in schema and payload"
    assert no_declared_field.verdict(["id"], ["schema", "payload"]) == (None, told)
    assert no_declared_field.verdict(["id"], ["schema"]) == (None, "the value has none of the declared columns")
