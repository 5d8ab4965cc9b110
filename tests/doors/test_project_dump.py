"""A spec written as YAML loads back to an equal one, and reads like one that a person wrote."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rivermouth.names import COORDINATES, METADATA_COLUMNS
from rivermouth.project.file import yaml_source
from rivermouth.project.file.dump import to_yaml
from rivermouth.project.file.validation import validate_document
from rivermouth.spec import (
    EndingOffsets,
    Expectation,
    Flow,
    KafkaCluster,
    Maintenance,
    Optimize,
    Places,
    ProjectSpec,
    SchemaRegistry,
    SparkSettings,
    StartingOffsets,
    Table,
    Trigger,
    Vacuum,
)

# What YAML can hold; a byte order mark inside a text is none of ours.
CHARACTERS = st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cn"], exclude_characters="\ufeff")
TEXT = st.one_of(
    st.text(CHARACTERS, max_size=15),
    st.sampled_from(
        ["no", "on", "010", "1:30", "1e6", "~", "null", "true", "123", "{lake}", "*a", "a: b", "x #y", "<<"]
    ),
    st.text("ab \n\t'\"\\:#-{}[],&*!|>%@`=", max_size=10),
)
NAME = st.from_regex(r"\A[A-Za-z][A-Za-z0-9_-]{0,8}\Z")
OFFSETS = st.dictionaries(
    TEXT.filter(lambda topic: topic not in ("kind", "group")),
    st.dictionaries(st.integers(0, 99), st.integers(-2, 2**40), min_size=1, max_size=2),
    min_size=1,
    max_size=2,
)
TIMES = st.datetimes(
    min_value=dt.datetime(1970, 1, 1),
    max_value=dt.datetime(2100, 1, 1),
    timezones=st.sampled_from([dt.UTC, dt.timezone(dt.timedelta(hours=5, minutes=30))]),
)
SCALARS = st.one_of(TEXT, st.integers(), st.booleans())
SECONDS = st.floats(min_value=1e-6, max_value=1e9)


def optional(strategy):
    return st.none() | strategy


@st.composite
def offsets(draw, model, words):
    kind = draw(st.sampled_from([*words, "offsets", "timestamp"]))
    if kind == "offsets":
        return model(kind=kind, offsets=draw(OFFSETS))
    if kind == "timestamp":
        return model(kind=kind, timestamp=draw(TIMES))
    return model(kind=kind, group=draw(TEXT)) if kind == "group" else model(kind=kind)


@st.composite
def triggers(draw):
    few, many = sorted(draw(st.tuples(st.integers(1, 10**6), st.integers(1, 10**6))))
    waits = draw(st.booleans())
    return Trigger(
        every=draw(SECONDS),
        max_offsets=draw(optional(st.just(many))),
        min_offsets=few if waits else None,
        max_delay=draw(optional(SECONDS)) if waits else None,
        min_partitions=draw(optional(st.integers(1, 99))),
    )


@st.composite
def maintenance(draw):
    optimize = Optimize(every=draw(SECONDS | st.just(604800.0)), zorder=draw(st.lists(TEXT, max_size=2)))
    vacuum = Vacuum(every=draw(SECONDS), retain=draw(SECONDS), even_below_168_hours=True)
    return Maintenance(optimize=draw(optional(st.just(optimize))), vacuum=draw(optional(st.just(vacuum))))


@st.composite
def tables(draw):
    columns = st.lists(TEXT | st.dictionaries(TEXT, TEXT, max_size=2), max_size=2)
    return Table(
        name=".".join(draw(st.lists(st.from_regex(r"\A[A-Za-z0-9_{}-]{1,6}\Z"), min_size=2, max_size=3))),
        partition_by=draw(columns),
        properties=draw(st.dictionaries(TEXT, SCALARS, max_size=2)),
        comment=draw(optional(TEXT)),
        column_comments=draw(st.dictionaries(TEXT, TEXT, max_size=2)),
    )


@st.composite
def lines(draw):
    signs = [None, "'", '"', "\\"]
    dialect = {"quote": draw(st.sampled_from(signs)), "escape": draw(st.sampled_from(signs))}
    left_out = draw(st.sets(st.sampled_from([*dialect, "null_value"])))
    dialect["null_value"] = draw(st.sampled_from([None, "", "NULL", "null", "~", "a: b"]))
    said = {name: value for name, value in dialect.items() if name not in left_out}
    return {"type": "csv", "schema": "id bigint", "delimiter": draw(st.sampled_from([",", "\t", "||", "|"])), **said}


@st.composite
def flows(draw, name):
    source = draw(st.sampled_from(["topics", "topic_pattern", "assign", "source"]))
    sources = {
        "topics": st.lists(TEXT, min_size=1, max_size=3),
        "topic_pattern": TEXT.filter(bool),
        "assign": st.dictionaries(TEXT, st.lists(st.integers(0, 9), max_size=3), min_size=1, max_size=2),
        "source": TEXT.map(lambda table: {"table": table}),
    }
    plain = st.sampled_from(["raw", "text"]) | lines() | TEXT.map(lambda ddl: {"type": "json", "schema": ddl})
    form = draw(plain | TEXT.map(lambda ddl: {"type": "debezium", "schema": ddl, "decimals": "base64"}))
    changes = isinstance(form, dict) and form["type"] == "debezium"
    told = METADATA_COLUMNS if changes else METADATA_COLUMNS[:-4]
    exploded = None if changes else draw(st.sampled_from([None, "items AS item", "tags AS (name, `a tag`)"]))
    told = [each for each in told if exploded or each != "kafka_position"]
    picked = draw(st.lists(st.sampled_from(told), unique=True))
    renamed = draw(st.booleans())
    # An append of changes must list the operation.
    listed = dict.fromkeys([*picked, "operation"] if changes else picked)
    columns = {column: f"{column}_" if renamed else column for column in listed}
    body = {
        "name": name,
        source: draw(sources[source]),
        "starting_offsets": draw(offsets(StartingOffsets, ("earliest", "latest", "group"))),
        "ending_offsets": draw(optional(offsets(EndingOffsets, ("latest",)))),
        "group_id": draw(optional(TEXT)),
        "format": form,
        "key_format": draw(st.sampled_from([None, "raw", "text"])),
        "null_values": draw(st.sampled_from(["drop", "dead_letter", *([] if exploded else ["keep"])])),
        "explode": exploded,
        "expectations": [
            Expectation(name=f"e{index}", condition=draw(TEXT.filter(bool)), action=action)
            for index, action in enumerate(draw(st.lists(st.sampled_from(["warn", "drop", "fail"]), max_size=2)))
        ],
        "table": draw(tables()),
        "places": Places(table=draw(optional(TEXT)), bucket_prefix=draw(optional(TEXT))),
        "trigger": draw(triggers()),
        "maintenance": draw(optional(maintenance())),
        "previously": draw(optional(TEXT)),
    }
    if source == "source":
        # Only Kafka could say more.
        body |= {"starting_offsets": "latest", "ending_offsets": None, "group_id": None, "trigger": {"every": 5.0}}
    return Flow.model_validate(body | ({"metadata_columns": columns} if changes or draw(st.booleans()) else {}))


@st.composite
def specs(draw):
    names = draw(st.lists(NAME, max_size=2, unique=True))
    return ProjectSpec(
        name=draw(TEXT),
        lake=draw(TEXT),
        kafka=KafkaCluster(bootstrap_servers=draw(TEXT), options=draw(st.dictionaries(TEXT, SCALARS, max_size=3))),
        schema_registry=draw(optional(st.builds(SchemaRegistry, url=TEXT.filter(bool), password=optional(TEXT)))),
        spark=SparkSettings(
            conf=draw(st.dictionaries(TEXT, SCALARS | st.floats(allow_nan=False, allow_infinity=False), max_size=3))
        ),
        places=Places(checkpoint=draw(optional(TEXT))),
        flows={name: draw(flows(name)) for name in names},
    )


@settings(max_examples=10)
@given(specs())
def test_law_what_is_written_of_a_few_loads_back_to_equal_specs(spec):
    loads_back(spec)


@pytest.mark.long
@given(specs())
def test_law_what_is_written_loads_back_to_an_equal_spec(spec):
    loads_back(spec)


def loads_back(spec):
    text = to_yaml(spec)
    loaded, problems = validate_document(yaml_source.read(text, "rivermouth.yml"), "rivermouth.yml")

    assert [str(problem) for problem in problems] == []
    assert loaded == spec
    assert to_yaml(loaded) == text


def test_what_is_written_reads_like_a_file_by_hand():
    spec = ProjectSpec.model_validate(
        {
            "name": "shop",
            "lake": "s3a://lake/shop",
            "kafka": {"bootstrap_servers": "${KAFKA}", "options": {"ssl.key.password": "${PASSWORD}"}},
            "flows": {
                "orders": {
                    "topics": ["orders"],
                    "format": {"type": "json", "schema": "id bigint, at timestamp"},
                    "starting_offsets": {"orders": {0: 23}},
                    "metadata_columns": ["kafka_offset", "kafka_headers"],
                    "expectations": [{"name": "positive", "condition": "amount > 0", "action": "drop"}],
                    "table": "silver.orders",
                    "trigger": {"every": "30 seconds"},
                },
                "raw": {"topics": ["no", "123"], "format": "raw", "table": {"name": "x.y", "comment": "all"}},
            },
        }
    )

    assert to_yaml(spec) == (
        "name: shop\n"
        "lake: s3a://lake/shop\n"
        "kafka:\n"
        "  bootstrap_servers: ${KAFKA}\n"
        "  options: {ssl.key.password: '${PASSWORD}'}\n"
        "flows:\n"
        "  orders:\n"
        "    topics: [orders]\n"
        "    starting_offsets:\n"
        "      orders: {0: 23}\n"
        "    format: {type: json, schema: 'id bigint, at timestamp'}\n"
        "    metadata_columns: [kafka_topic, kafka_partition, kafka_offset, kafka_headers]\n"
        "    expectations:\n"
        "      - {name: positive, condition: amount > 0, action: drop}\n"
        "    table: silver.orders\n"
        "    trigger: {every: 30 seconds}\n"
        "  raw:\n"
        "    topics: ['no', '123']\n"
        "    format: raw\n"
        "    table: {name: x.y, comment: all}\n"
    )


def test_coordinates_are_always_written():
    assert set(COORDINATES) <= set(METADATA_COLUMNS)
