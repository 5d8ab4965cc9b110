"""What Spark finds in a flow: all of it at once, each at its own line, with a hint that leads on when it is pasted."""

from __future__ import annotations

import json
import re

import pytest

from rivermouth.errors import ProjectProblems, RivermouthError
from rivermouth.project.api import Project
from rivermouth.project.commands import run_flows

ONE = "select one column of each record; for a row of each element of an array write explode:"
HEAD = "lake: ./lake\nflows:\n  orders:\n    topics: [orders]\n    table: silver.orders\n"
SCHEMA = '    format: {type: json, schema: "id bigint, amount double, items array<string>"}\n'


@pytest.fixture
def problems_of(spark, tmp_path, monkeypatch):
    """(code, line, message, hint) of each problem that ``validate`` reports, in the order in which it does."""
    monkeypatch.chdir(tmp_path)

    def problems_of(text):
        (tmp_path / "rivermouth.yml").write_text(text)
        try:
            run_flows.validate(Project.load("rivermouth.yml", {}))
        except ProjectProblems as several:
            found = several.problems
        except RivermouthError as error:
            found = (error,)
        else:
            found = ()
        return [(e.code, int(str(e.at).rpartition(":")[2]), e.message, e.next_step) for e in found]

    return problems_of


def test_all_problems_of_all_flows_are_reported_at_their_lines(problems_of):
    text = (
        HEAD
        + SCHEMA
        + """\
    select:
      - id
      - amuont AS amount
      - count(*) AS n
      - items
    expectations:
      - {name: one, condition: id > 0}
      - name: two
        condition: >-
          idd
          IS NULL
      - {name: three, condition: id}
      - {name: four, condition: amount > n}
  second:
    topics: [second]
    table: {name: silver.second, partition_by: [{day: date(kafka_timestmp)}, id], cluster_by: []}
    format: {type: json, schema: "id bigint, at timestamp"}
    key_format: {type: json, schema: "id bigin"}
  third:
    topics: [third]
    table: {name: silver.third, partition_by: [{day: date(kafka_timestmp)}]}
    format: {type: json, schema: "id bigint"}
    sink: append
    expectations: [{name: one, condition: idd > 0}, {name: two, condition: "day = '2026-01-01'"}]
  fourth:
    topics: [fourth]
    table: {name: silver.fourth, cluster_by: [att]}
    format: {type: json, schema: "id bigint, at timestamp"}
    expectations: [{name: one, condition: idd > 0}]
    sink:
      type: upsert
      keys: [idd]
      sequence_by: att
      apply_as_deletes: id
"""
    )
    found = problems_of(text)
    assert [(line, code, hint) for code, line, _, hint in found] == [
        (9, "SELECT_INVALID", "did you mean 'amount'?"),
        (10, "SELECT_INVALID", ONE),
        (15, "EXPECTATION_INVALID", "did you mean 'id'?"),
        (18, "EXPECTATION_INVALID", "condition: id IS NOT NULL"),
        (24, "SCHEMA_INVALID", "did you mean 'bigint'?"),
        (27, "LAYOUT_INVALID", "did you mean 'kafka_timestamp'?"),
        (30, "EXPECTATION_INVALID", "did you mean 'id'?"),
        (33, "LAYOUT_INVALID", "did you mean 'at'?"),
        (35, "EXPECTATION_INVALID", "did you mean 'id'?"),
        (38, "KEYS_INVALID", "did you mean 'id'?"),
        (39, "KEYS_INVALID", "did you mean 'at'?"),
        (40, "KEYS_INVALID", "write a condition: apply_as_deletes: op = 'D'"),
    ]


def test_a_wrong_name_or_explode_hides_no_other_problem(problems_of):
    text = (
        HEAD
        + """\
    format: {type: json, schema: "id bigint, ingested_at string, __delete boolean, amount double"}
    expectations:
      - {name: one, condition: idd > 0}
      - {name: two, condition: ingested_at IS NOT NULL OR __delete}
  second:
    topics: [second]
    table: silver.second
    format: {type: json, schema: "id bigint, kafka_offset bigint, items array<struct<name: string>>"}
    explode: itms AS item
    select:
      - id
      - item.name AS name
      - amuont AS amount
    expectations:
      - {name: one, condition: name IS NOT NULL AND amount > 0}
      - {name: two, condition: item.price > 0}
      - {name: three, condition: ix > 0}
"""
    )
    assert [(line, code) for code, line, _, _ in problems_of(text)] == [
        (6, "COLUMN_COLLISION"),
        (6, "COLUMN_RESERVED"),
        (8, "EXPECTATION_INVALID"),
        (13, "COLUMN_COLLISION"),
        (14, "EXPLODE_INVALID"),
        (18, "SELECT_INVALID"),
        (22, "EXPECTATION_INVALID"),
    ]


LED_ON = [
    pytest.param(SCHEMA + "    select: [id, amuont]\n", "amuont", None, id="select"),
    pytest.param(SCHEMA + "    select: [id, 'amount +']\n", "select: [id, 'amount +']", None, id="select of no SQL"),
    pytest.param(SCHEMA + "    select: [id, amount + 1]\n", "amount + 1", None, id="select without a name"),
    pytest.param(SCHEMA + "    select: [id, amount AS ID]\n", "amount AS ID", None, id="select twice"),
    pytest.param(SCHEMA + "    select: [id, NULL AS a]\n", "NULL AS a", None, id="select of no type"),
    pytest.param(SCHEMA + "    explode: itmes AS item\n", "itmes", None, id="explode"),
    pytest.param(SCHEMA + "    explode: id AS item\n", "explode: id AS item", None, id="explode of no array"),
    pytest.param(SCHEMA + "    expectations: [{name: a, condition: idd > 0}]\n", "idd", None, id="condition"),
    pytest.param(SCHEMA + "    expectations: [{name: a, condition: id >}]\n", "condition: id >", None, id="no SQL"),
    pytest.param(
        SCHEMA + "    expectations: [{name: a, condition: id}]\n", "condition: id", None, id="condition of numbers"
    ),
    pytest.param(
        SCHEMA + "    sink: {type: upsert, keys: [id], sequence_by: nothing}\n",
        "nothing",
        "kafka_timestamp",
        id="an order that is not there",
    ),
    pytest.param(
        SCHEMA + "    sink: {type: upsert, keys: [id], sequence_by: amount +}\n",
        "sequence_by: amount +",
        None,
        id="an order that is no SQL",
    ),
    pytest.param(
        SCHEMA + "    sink: {type: upsert, keys: [id], apply_as_deletes: op =}\n",
        "apply_as_deletes: op =",
        None,
        id="deletes that are no SQL",
    ),
    pytest.param('    format: {type: json, schema: "id bigin"}\n', "bigin", None, id="a type"),
    pytest.param('    format: {type: json, schema: "id decimal(40,2)"}\n', "decimal(40,2)", None, id="too many digits"),
    pytest.param('    format: {type: json, schema: "id"}\n', 'schema: "id"', None, id="no DDL"),
    pytest.param("    format: {type: avro, schema: '{}'}\n", "schema: '{}'", None, id="no Avro"),
    pytest.param("    format: {type: avro, schema: orders.avcs}\n", "orders.avcs", None, id="a file of Avro"),
    pytest.param("    format: {type: json, schema: oders.json}\n", "oders.json", None, id="a file of JSON"),
    pytest.param(
        '    format: {type: json, schema: "id bigint, kafka_offset bigint"}\n', "json, ", None, id="a metadata column"
    ),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "wrong", "meant"), LED_ON)
def test_a_hint_leads_on(problems_of, tmp_path, lines, wrong, meant):
    fields = [{"name": "id", "type": "long"}]
    (tmp_path / "orders.avsc").write_text(json.dumps({"type": "record", "name": "Order", "fields": fields}))
    (tmp_path / "orders.json").write_text(json.dumps({"type": "object", "properties": {"id": {"type": "integer"}}}))
    if wrong == "orders.avcs":
        (tmp_path / "x.avcs").write_text("")

    ((code, _, message, hint),) = problems_of(HEAD + lines)
    right = hint.removeprefix("write it like this: ")
    if right.startswith("did you mean "):
        right = right.split("'")[1]
    if meant is not None:
        assert meant in right
        right = meant
    if right.startswith("metadata_columns: "):
        text = f"{HEAD}{lines}    {right}\n"
    else:
        assert wrong in lines
        text = HEAD + lines.replace(wrong, right)
    assert (code, message) not in [(each[0], each[2]) for each in problems_of(text)], text


UNUSABLE = "flow orders: the schema cannot be used: "


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        pytest.param(
            '    format: {type: json, schema: "id decimal(40,2)"}\n',
            (
                (
                    f"{UNUSABLE}[DECIMAL_PRECISION_EXCEEDS_MAX_PRECISION] Decimal precision 40 exceeds max precision "
                    "38. SQLSTATE: 22003; nothing was run"
                ),
                "did you mean 'decimal(38, 0)'?",
            ),
            id="too many digits",
        ),
        pytest.param(
            '    format: {type: json, schema: "id bigint, Name string, name string"}\n',
            (
                f"{UNUSABLE}columns 'Name' and 'name' are the same to Spark and Delta; nothing was run",
                "remove the column name, or give it another name",
            ),
            id="two columns of one name",
        ),
        pytest.param(
            SCHEMA + "    expectations: [{name: a, condition: price > 0}]\n",
            (
                (
                    "flow orders: expectation 'a' cannot be used: [UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, "
                    "variable, or function parameter with name `price` cannot be resolved. Did you mean one of the "
                    "following? [...]. SQLSTATE: 42703; line 1 pos 0; nothing was run"
                ),
                (
                    "known: amount, id, ingested_at, items, kafka_key, kafka_offset, kafka_partition, "
                    "kafka_timestamp, kafka_topic"
                ),
            ),
            id="a column that is not there",
        ),
    ],
)
def test_what_cannot_be_used_is_told_in_whole(problems_of, lines, told):
    # Names that are equally near come in no order.
    found = [(re.sub(r"\[`.*`\]", "[...]", message), hint) for _, _, message, hint in problems_of(HEAD + lines)]
    assert found == [told]


def test_names_that_are_no_words_of_sql_are_columns(problems_of):
    schema = '"`@id` bigint, `@timestamp` timestamp, `is-valid` boolean, `@items` array<string>, `@deleted` boolean"'
    form = f"    format: {{type: json, schema: {json.dumps(schema)[1:-1]}}}\n".replace('\\"', '"')
    keyed = (
        '    sink: {type: upsert, keys: ["@id", {at: "@timestamp"}], sequence_by: "@timestamp", '
        'apply_as_deletes: "@deleted"}\n'
    )
    chosen = '    select: ["@id", "@timestamp", "is-valid"]\n    explode: "@items AS item"\n'
    valid = '    expectations: [{name: a, condition: is-valid}, {name: b, condition: "`@id` > 0"}]\n'
    parts = HEAD.replace("silver.orders", '{name: silver.orders, partition_by: ["@id", {day: "@timestamp"}]}')
    assert problems_of(HEAD + form + keyed + valid) == []
    assert problems_of(parts + form + chosen + valid) == []
    history = '    sink: {type: history, keys: "@id", sequence_by: "@timestamp", track_history_columns: [is-valid]}\n'
    assert problems_of(HEAD + form + history) == []
    (found,) = problems_of(HEAD + form.replace("`@timestamp`", "`@time`") + keyed.replace(', {at: "@timestamp"}', ""))
    assert found[:2] == ("KEYS_INVALID", 7)


def test_a_condition_on_a_source_is_judged_with_the_rest(problems_of):
    text = """\
lake: ./lake
flows:
  raw:
    topics: [orders]
    format: raw
    table: bronze.orders
  orders:
    source:
      table: bronze.orders
      where: {}
    format: {{type: json, schema: "id bigint"}}
    table: silver.orders
"""
    assert problems_of(text.format("kafka_offset > 5")) == []
    ((code, line, _, hint),) = problems_of(text.format("kafka_ofset > 5"))
    assert (code, line, hint) == ("SOURCE_WHERE_INVALID", 10, "did you mean 'kafka_offset'?")


def test_no_files_are_told_apart_by_a_column_of_which_delta_keeps_no_bounds(problems_of):
    text = (
        HEAD.replace("table: silver.orders", "table: {name: silver.orders, cluster_by: [kafka_key, id]}")
        + """\
    format: raw
    select: ["*", "1 AS id"]
  second:
    topics: [second]
    table: {name: silver.second, cluster_by: [at, is_paid]}
    format: {type: json, schema: "is_paid boolean, at date, note string"}
    metadata_columns: [kafka_topic, kafka_partition, kafka_offset]
  third:
    topics: [third]
    table: {name: silver.third, partition_by: [is_paid]}
    format: {type: json, schema: "is_paid boolean, photo binary, note string"}
    metadata_columns: [kafka_topic, kafka_partition, kafka_offset]
    maintenance: {optimize: {zorder: [photo]}}
"""
    )
    what = "flow {}: the table's layout cannot be used: column {!r} is of type {}, which cannot separate files; "
    assert [(line, code, message, hint) for code, line, message, hint in problems_of(text)] == [
        (
            *(5, "LAYOUT_INVALID", what.format("orders", "kafka_key", "binary") + "nothing was run"),
            "key_format: text, if keys are texts",
        ),
        (
            *(10, "LAYOUT_INVALID", what.format("second", "is_paid", "boolean") + "nothing was run"),
            "name another column: at, note, kafka_topic, kafka_partition, kafka_offset",
        ),
        (
            *(18, "LAYOUT_INVALID", what.format("third", "photo", "binary") + "nothing was run"),
            "name another column: note, kafka_topic, kafka_partition, kafka_offset",
        ),
    ]
