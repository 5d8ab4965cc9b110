"""References to environment variables in what a user writes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.domain.project.references import expand, expand_flow, references
from rivermouth.errors import EnvironmentMissing, ProjectInvalid
from rivermouth.spec import Flow

ENVIRON = {
    "HOST": "broker",
    "EMPTY": "",
    "NESTED": "${HOST}",
    "file:/run/x y": "${HOST}{{secrets/a/b}}",
    "databricks:kafka/pass word": "hunter2",
}
NAMES = st.from_regex(r"\A[A-Za-z_][A-Za-z0-9_]{0,8}\Z")
TEXTS = st.text(max_size=12)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain $5 {lake}", "plain $5 {lake}"),
        ("${HOST}:9092", "broker:9092"),
        ("${HOST}${HOST}", "brokerbroker"),
        ("${PORT:-9092}", "9092"),
        ("${HOST:-other}", "broker"),
        ("${EMPTY}", ""),
        ("${EMPTY:-other}", "other"),
        ("${PORT:-}", ""),
        ("$${HOST}", "${HOST}"),
        ("$$${HOST}", "$${HOST}"),
        ("$$HOST", "$$HOST"),
        # What a variable holds is text, not another reference.
        ("${NESTED}", "${HOST}"),
        ("a ${file:/run/x y} b", "a ${HOST}{{secrets/a/b}} b"),
        ("a {{secrets/kafka/pass word}} b", "a hunter2 b"),
        ("$${file:/run/x y}", "${file:/run/x y}"),
        ("{{secrets/kafka}} {{ secrets/kafka/x }}", "{{secrets/kafka}} {{ secrets/kafka/x }}"),
    ],
)
def test_references_are_replaced(text, expected):
    assert expand(text, ENVIRON) == expected


def test_a_missing_variable_is_told_in_whole():
    with pytest.raises(EnvironmentMissing) as caught:
        expand("a ${PORT} b", ENVIRON)

    assert str(caught.value) == (
        "[ENVIRONMENT_MISSING] environment variable PORT is not set; nothing was run\n"
        "  hint: export PORT=..., or write ${PORT:-default}"
    )


@pytest.mark.parametrize(
    "text",
    ["${", "${}", "${1A}", "${A B}", "${HOST", "${HOST-x}", "${A:-${HOST}}", "${A:-{x}}", "${file:}", "${File:x}"],
)
def test_what_only_looks_like_a_reference_is_told_in_whole_and_not_quoted(text):
    with pytest.raises(ProjectInvalid) as caught:
        expand(f"secret{text}", ENVIRON)

    assert str(caught.value) == (
        "[PROJECT_INVALID] a '${' begins no reference; nothing was run\n"
        "  hint: write ${NAME}, ${NAME:-default} or ${file:PATH}; for a plain '${' write $${"
    )


def test_references_are_listed_in_order():
    text = "${A} $${B} ${C:-d} ${A} ${file:/a/b} {{secrets/scope/key}}"
    assert list(references(text)) == ["A", "C", "A", "file:/a/b", "databricks:scope/key"]


@given(st.lists(st.tuples(TEXTS.map(lambda text: text.replace("$", "")), NAMES, TEXTS), max_size=5))
def test_law_text_between_references_stays_and_values_are_taken_as_they_are(parts):
    environ = {name: value for _, name, value in parts}
    written = "".join(f"{text}${{{name}}}" for text, name, _ in parts)

    assert expand(written, environ) == "".join(text + environ[name] for text, name, _ in parts)


def test_all_fields_of_a_flow_that_name_topics_or_groups_are_resolved():
    flow = Flow.model_validate(
        {
            "name": "orders",
            "assign": {"${P}orders": [0]},
            "starting_offsets": {"${P}orders": {0: 5}},
            "ending_offsets": {"${P}orders": {0: 9}},
            "group_id": "${P}group",
            "format": "raw",
            "table": "bronze.orders",
        }
    )

    resolved = expand_flow(flow, {"P": "shop."})

    assert resolved.assign == {"shop.orders": (0,)}
    assert resolved.starting_offsets.offsets == {"shop.orders": {0: 5}}
    assert resolved.ending_offsets.offsets == {"shop.orders": {0: 9}}
    assert resolved.group_id == "shop.group"


def test_a_flow_without_references_is_the_same_flow():
    flow = Flow.model_validate({"name": "a", "topics": ["a"], "format": "raw", "table": "x.a"})

    assert expand_flow(flow, {}) is flow


def test_a_group_to_take_over_is_resolved():
    flow = Flow.model_validate(
        {
            "name": "a",
            "topic_pattern": "${P}.*",
            "starting_offsets": {"group": "${P}old"},
            "format": "raw",
            "table": "x.a",
        }
    )

    resolved = expand_flow(flow, {"P": "shop-"})

    assert resolved.topic_pattern == "shop-.*"
    assert resolved.starting_offsets.group == "shop-old"
