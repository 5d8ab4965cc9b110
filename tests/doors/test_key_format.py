"""``key_format`` with columns: keys are read as values are, and a keyed table goes by them."""

from __future__ import annotations

import json

import pytest
from tests.doors.one_topic import OneFlow
from tests.doors.test_avro import encoded, framed
from tests.doors.test_protobuf import told as text_of
from tests.ports.schema_registry import SchemaRegistry
from tests.rows.protobuf_files import descriptor_set

from rivermouth.decoding.protobuf.protobuf_descriptor import message_class

KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}, {"name": "shop", "type": "string"}]}


class Keys(OneFlow):
    def send_pair(self, key, value):
        self.send(value if value is None else json.dumps(value).encode(), key=key)


@pytest.fixture
def project(tmp_path, monkeypatch, capsys, broker, topic, spark):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "key.avsc").write_text(json.dumps(KEY))
    return Keys(tmp_path, capsys, broker.bootstrap_servers, topic())


def avro(number, shop="Ulm"):
    return encoded(KEY, {"id": number, "shop": shop})


def test_keys_of_an_append_are_a_column_or_a_dead_letter(project):
    project.write(
        'format: {type: json, schema: "note string"}',
        'key_format: {type: json, schema: "id bigint NOT NULL, place struct<city: string>"}',
    )
    project.send_pair(b'{"id": 1, "place": {"city": "Ulm"}, "more": 1}', {"note": "a"})
    project.send_pair(None, {"note": "b"})
    project.send_pair(b'{"id": "x"}', {"note": "c"})
    project.send_pair(b"\xff", {"note": 5})
    project.send_pair(b'{"place": null}', {"note": "e"})
    project.send(b"{", key=b"{")
    code, out = project.say("run")
    assert code == 0, out
    assert project.rows("note", "kafka_key") == [
        (0, "a", {"id": 1, "place": {"city": "Ulm"}}),
        (1, "b", None),
    ]
    assert project.letters("stage", "reason", "field", "message") == [
        (
            2,
            "decode",
            "KEY_INVALID",
            "kafka_key.id",
            "as the value of a key: FIELD_TYPE: field id is declared bigint and holds a string",
        ),
        (3, "decode", "KEY_INVALID", "kafka_key", "as the value of a key: INVALID_UTF8: the value is not valid UTF-8"),
        (
            4,
            "decode",
            "KEY_INVALID",
            "kafka_key.id",
            "as the value of a key: FIELD_MISSING: field id is declared NOT NULL and is missing",
        ),
        (5, "decode", "INVALID_JSON", None, project.letters("message")[-1][1]),
    ]
    project.write('format: {type: json, schema: "note string"}', "key_format: raw")
    code, out = project.say("run")
    assert (code, "TABLE_MISMATCH" in out) == (1, True), out


@pytest.mark.long
@pytest.mark.parametrize("framing", ["plain", "confluent"])
def test_a_keyed_table_goes_by_keys_in_avro_and_tombstones_find_them(project, framing):
    with SchemaRegistry() as registry:
        number = registry.register(f"{project.topic}-key", KEY)
        told, head = "{type: avro, schema: key.avsc}", b""
        if framing == "confluent":
            told, head = f"{{type: avro, framing: confluent, subject: {project.topic}-key, version: 1}}", b"\0"
            head += number.to_bytes(4, "big")
        project.write(
            'format: {type: json, schema: "id bigint, shop string, amount int"}',
            f"key_format: {told}",
            "sink: {type: upsert, keys: [id, shop]}",
        )
        text = (project.folder / "rivermouth.yml").read_text()
        if framing == "confluent":
            code, out = project.say("validate")
            assert (code, "the project names none" in out) == (1, True), out
            project.save(f'schema_registry: {{url: "{registry.url}"}}\n{text}')
        for each in (1, 2, 3):
            project.send_pair(head + avro(each), {"id": each, "shop": "Ulm", "amount": each})
        project.send_pair(head + avro(2), None)
        project.send_pair(head + avro(3, "Bonn"), None)
        project.send_pair(head + avro(1)[:-1], None)
        code, out = project.say("run")
        assert code == 0, out
        assert project.rows("id", "amount", "kafka_key") == [
            (0, 1, 1, {"id": 1, "shop": "Ulm"}),
            (2, 3, 3, {"id": 3, "shop": "Ulm"}),
        ]
        assert [row[:3] for row in project.letters("reason", "field")] == [(5, "KEY_INVALID", "kafka_key.shop")]
        project.send_pair(head + avro(3), None)
        assert project.say("run")[0] == 0
        assert project.rows("id") == [(0, 1)]


def test_a_part_of_a_key_is_a_key_of_the_table(project):
    project.write(
        'format: {type: json, schema: "amount int"}',
        "key_format: {type: avro, schema: key.avsc}",
        "sink: {type: upsert, keys: [{number: kafka_key.id}]}",
    )
    project.send_pair(avro(1), {"amount": 1})
    project.send_pair(avro(2), {"amount": 2})
    project.send_pair(avro(1, "Bonn"), {"amount": 3})
    project.send_pair(avro(2), None)
    assert project.say("run")[0] == 0
    assert project.rows("number", "amount") == [(2, 1, 3)]


@pytest.mark.long
def test_a_key_of_one_value_is_a_column_of_its_type_and_the_key_of_the_table(project):
    with SchemaRegistry() as registry:
        number, other = registry.register(f"{project.topic}-key", "long"), registry.register("of-others", "int")
        project.write(
            'format: {type: json, schema: "amount int"}',
            f"key_format: {{type: avro, framing: confluent, subject: {project.topic}-key, version: 1}}",
            "sink: upsert",
        )
        project.save(f'schema_registry: {{url: "{registry.url}"}}\n{(project.folder / "rivermouth.yml").read_text()}')

        def key(value, schema=number):
            return framed(schema, encoded("long", value))

        project.send_pair(key(1), {"amount": 1})
        project.send_pair(key(1 << 40), {"amount": 2})
        project.send_pair(key(-3, other), {"amount": 3})
        project.send_pair(key(-3), {"amount": 4})
        project.send_pair(key(1 << 40), None)
        project.send_pair(key(1 << 40, other), {"amount": 5})
        project.send_pair(key(7)[:-1], None)
        project.send_pair(key(1) + b"x", {"amount": 6})
        project.send_pair(None, {"amount": 7})
        code, out = project.say("run")
        assert code == 0, out
        assert project.rows("kafka_key", "amount") == [(0, 1, 1), (3, -3, 4)]
        assert project.letters("reason", "field", "message") == [
            (
                5,
                "KEY_INVALID",
                "kafka_key",
                "as the value of a key: INVALID_AVRO: an int has more than 32 bits",
            ),
            (
                6,
                "KEY_INVALID",
                "kafka_key",
                "as the value of a key: TRUNCATED: the value ends before what its schema announces",
            ),
            (7, "KEY_INVALID", "kafka_key", "as the value of a key: TRAILING_BYTES: bytes follow the record"),
            (8, "KEY_NULL", None, project.letters("message")[-1][1]),
        ]
        project.send_pair(key(-3), None)
        code, out = project.say("run")
        assert code == 0, out
        assert project.rows("kafka_key") == [(0, 1)]
        assert project.say("audit")[0] == 0


@pytest.mark.long
def test_a_key_of_one_value_finds_the_row_by_the_column_that_is_the_key(project):
    project.write(
        'format: {type: json, schema: "id bigint, amount int"}',
        "key_format: {type: avro, schema: string}",
        "sink: {type: upsert, keys: [id]}",
    )
    for each in (1, 2):
        project.send_pair(encoded("string", str(each)), {"id": each, "amount": each})
    project.send_pair(encoded("string", "1"), None)
    project.send_pair(encoded("string", "x"), None)
    code, out = project.say("run")
    assert code == 0, out
    assert project.rows("id", "kafka_key") == [(1, 2, "2")]
    assert [row[:2] for row in project.letters("reason")] == [(3, "KEY_NULL")]


NO_KEYS = "[SCHEMA_INVALID] flow orders: the schema cannot be used: {}; nothing was run\n  at: rivermouth.yml:{}\n"
REFUSED = [
    (
        "key_format: {type: avro, schema: {type: array, items: long}}",
        "",
        NO_KEYS.format("the schema is of type array: a table takes the fields of a record", 8),
    ),
    (
        'key_format: {type: avro, schema: "[\\"long\\", \\"string\\"]"}',
        "",
        NO_KEYS.format("the schema is of type union: a table takes the fields of a record", 8),
    ),
    (
        "key_format: {type: avro, schema: key.avsc}",
        "sink: upsert",
        (
            "[KEYS_INVALID] flow orders: sink upsert: key 'kafka_key' is of type struct<id:bigint,shop:string>, "
            "which cannot be a key; nothing was run\n  at: rivermouth.yml:9\n"
            "  hint: name its parts: keys: [{id: kafka_key.id}]\n"
        ),
    ),
    (
        "key_format: {type: avro, schema: bytes}",
        "sink: {type: upsert, keys: [id]}",
        (
            "[KEYS_INVALID] flow orders: sink upsert: key 'id' is of type bigint, and kafka_key, that of a record "
            "without a value, binary; nothing was run\n  at: rivermouth.yml:9\n"
            "  hint: go by the key itself: keys: [{id_key: kafka_key}]\n"
        ),
    ),
]


@pytest.mark.parametrize(("key_format", "sink", "told"), REFUSED)
def test_keys_that_no_table_can_have_are_refused(project, key_format, sink, told):
    project.write('format: {type: json, schema: "id bigint"}', key_format, sink)
    code, out = project.say("validate")
    assert (code, out[: len(told)]) == (1, told)


def test_values_are_of_no_schema_that_is_for_keys(project):
    project.write("format: {type: avro, schema: long}")
    code, out = project.say("validate")
    told = NO_KEYS.format("the schema is of type long: a table takes the fields of a record", 7)
    assert (code, out[: len(told)]) == (1, told)


CONTENT = descriptor_set({"Key": ["int64 id = 1", "string shop = 2"], "Order": ["int32 amount = 1"]})


@pytest.fixture(params=["descriptor", "registry"])
def protobuf_keys(request, project):
    """How keys in Protobuf are described, the registry's line in the project, and the bytes before each key."""
    if request.param == "descriptor":
        yield "descriptor: shop.desc", "", b""
        return
    with SchemaRegistry() as registry:
        number = registry.register("orders-key", text_of(CONTENT), kind="PROTOBUF")
        line = f'schema_registry: {{url: "{registry.url}"}}\n'
        yield "framing: confluent, subject: orders-key, version: 1", line, framed(number, b"\0")


@pytest.mark.long
def test_keys_in_protobuf_are_structs_and_tell_beside_values_why_they_are_refused(project, protobuf_keys):
    described, registry, head = protobuf_keys
    (project.folder / "shop.desc").write_bytes(CONTENT)
    key, order = message_class(CONTENT, "shop.Key"), message_class(CONTENT, "shop.Order")
    project.write(
        "format: {type: protobuf, descriptor: shop.desc, message: shop.Order}",
        f"key_format: {{type: protobuf, message: shop.Key, {described}}}",
        "sink: {type: upsert, keys: [{id: kafka_key.id}]}",
        "expectations: [{name: paid, condition: amount > 0, action: dead_letter}]",
    )
    project.save(registry + (project.folder / "rivermouth.yml").read_text())

    def send(number, amount, cut=None):
        value = None if amount is None else order(amount=amount).SerializeToString()
        project.send(value, key=head + key(id=number, shop="Ulm").SerializeToString()[:cut])

    send(1, 5)
    send(2, 5)
    send(2, None)
    send(3, 5, -1)
    send(4, 0)
    project.send(b"\xff", key=head + key(id=5).SerializeToString())
    code, out = project.say("run")
    assert code == 0, out
    assert project.rows("id", "amount", "kafka_key") == [(0, 1, 5, {"id": 1, "shop": "Ulm"})]
    cut = "the value ends before what a length in it announces"
    assert project.letters("reason", "field", "message") == [
        (3, "KEY_INVALID", "kafka_key.shop", f"as the value of a key: TRUNCATED: {cut}"),
        (4, "EXPECTATION", None, "failed: paid"),
        (5, "TRUNCATED", None, project.letters("message")[-1][1]),
    ]


@pytest.mark.long
def test_whoever_is_forgotten_is_found_among_the_dead_letters_by_the_key_that_both_have(project):
    project.write(
        'format: {type: json, schema: "amount int"}',
        "key_format: {type: avro, schema: key.avsc}",
    )
    for shop in ("Ulm", "Bonn"):
        project.send_pair(avro(1, shop), {"amount": 1})
        project.send_pair(avro(1, shop), {"amount": "x"})
    project.send_pair(b"", {"amount": 1})
    code, out = project.say("run")
    assert code == 0, out
    code, out = project.say("tables", "forget", "orders", "--where", "kafka_key.shop = 'Ulm'", "--yes")
    assert code == 0, out
    assert [row[1]["shop"] for row in project.rows("kafka_key")] == ["Bonn"]
    assert [row[:2] for row in project.letters("reason")] == [(3, "FIELD_TYPE"), (4, "KEY_INVALID")]
    assert project.say("audit")[0] == 0


def test_whole_numbers_are_keys(project):
    project.write('format: {type: json, schema: "id bigint, amount int"}', "key_format: long", "sink: {type: upsert}")
    longs = [5, -1, -(2**63), 2**63 - 1]
    for number in longs:
        project.send_pair(number.to_bytes(8, "big", signed=True), {"id": 1, "amount": 2})
    project.send_pair((-1).to_bytes(8, "big", signed=True), None)
    project.send_pair(b"5", {"id": 1})
    code, out = project.say("run")
    assert code == 0, out
    assert sorted(row[1] for row in project.rows("kafka_key")) == sorted({*longs} - {-1})
    assert project.letters("reason", "field", "message") == [
        (
            5,
            "KEY_INVALID",
            "kafka_key",
            "as the value of a key: WRONG_LENGTH: the value is of length 1, and long has 8 bytes",
        )
    ]


def test_a_deserializer_reads_keys_and_a_null_of_it_is_no_key(project):
    of_int = "{type: jvm, class: org.apache.kafka.common.serialization.IntegerDeserializer, schema: number int}"
    project.write('format: {type: json, schema: "id bigint"}', f"key_format: {of_int}")
    project.send_pair((-7).to_bytes(4, "big", signed=True), {"id": 1})
    project.send_pair(None, {"id": 2})
    project.send_pair(b"5", {"id": 3})
    code, out = project.say("run")
    assert code == 0, out
    assert project.rows("id", "kafka_key") == [(0, 1, {"number": -7}), (1, 2, None)]
    assert [row[:3] for row in project.letters("reason", "field")] == [(2, "KEY_INVALID", "kafka_key")]


@pytest.mark.parametrize("size", [pytest.param(4, marks=pytest.mark.long), 8])
def test_keys_that_look_like_numbers_are_noticed_in_the_first_batch(project, size):
    project.write('format: {type: json, schema: "id bigint"}')
    for number in (5, 0, 70_000):
        project.send_pair(number.to_bytes(size, "big"), {"id": number})
    project.send_pair(None, {"id": 4})
    code, out = project.say("run")
    kind = {8: "long", 4: "int"}[size]
    warned = (
        f"orders: warning: all keys have {size} bytes and look like whole numbers, and are read as text; key_format: "
    )
    assert (code, f"{warned}{kind} reads numbers" in out) == (0, True), out
    project.send_pair((1).to_bytes(size, "big"), {"id": 5})
    code, out = project.say("run")
    assert (code, "look like whole numbers" in out) == (0, False)


def test_a_key_that_is_no_text_is_told_what_it_may_be(project):
    project.write('format: {type: json, schema: "id bigint"}')
    for key in (b"\xff" * 8, b"\xff" * 4, b"\xff"):
        project.send_pair(key, {"id": 1})
    assert project.say("run")[0] == 0
    assert [row[1].partition("the key is not valid UTF-8; ")[2] for row in project.letters("message")] == [
        "it has 8 bytes: key_format: long reads such whole numbers, and raw keeps the bytes",
        "it has 4 bytes: key_format: int reads such whole numbers, and raw keeps the bytes",
        "key_format: raw keeps the bytes, and avro, protobuf, jvm and others read them",
    ]


@pytest.mark.long
def test_a_column_with_any_name_orders_and_deletes(project):
    schema = "'`@id` bigint, `@timestamp` bigint, `is-gone` boolean'"
    sink = '{type: upsert, keys: ["@id"], sequence_by: "@timestamp", apply_as_deletes: is-gone}'
    project.write(f"format: {{type: json, schema: {schema}}}", f"sink: {sink}")
    for number, at, gone in ((1, 5, False), (1, 4, False), (2, 1, False), (2, 2, True), (3, 1, False)):
        project.send_pair(str(number).encode(), {"@id": number, "@timestamp": at, "is-gone": gone})
    code, out = project.say("run")
    assert code == 0, out
    assert sorted(row[1:] for row in project.rows("@id", "@timestamp")) == [(1, 5), (3, 1)]


@pytest.mark.parametrize("layout", ['partition_by: ["@id"]', 'cluster_by: ["@timestamp"]'])
def test_columns_with_any_name_are_selected_and_give_the_table_its_layout(project, layout):
    schema = "'`@id` bigint, `@timestamp` timestamp, `is-good` boolean'"
    project.write(
        f"format: {{type: json, schema: {schema}}}",
        'select: ["@id", "@timestamp"]',
        "expectations: [{name: dated, condition: \"`@timestamp` > '2026-01-01'\"}]",
        "maintenance: {optimize: {every: daily, zorder: []}}",
    )
    text = (project.folder / "rivermouth.yml").read_text()
    project.save(text.replace("table: silver.orders", f"table: {{name: silver.orders, {layout}}}"))
    for number in (1, 2):
        project.send_pair(b"a", {"@id": number, "@timestamp": "2026-01-31T12:00:00Z", "is-good": True})
    code, out = project.say("run")
    assert code == 0, out
    assert sorted(row[1] for row in project.rows("@id")) == [1, 2]
