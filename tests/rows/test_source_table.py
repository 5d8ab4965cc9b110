"""Which table a flow may read instead of Kafka; what is refused is told in tests/data/projects."""

from __future__ import annotations

from rivermouth.domain.project.source_table import owner_of, problems
from rivermouth.spec import Flow


def flow(name, **body):
    body = {"name": name, "format": "raw", "table": f"lake.{name}", **body}
    return Flow.model_validate(body)


def found(*flows):
    by_name = {each.name: each for each in flows}
    tables = {each.table.name: each.name for each in flows}
    return {each.name: [problem.field for problem in problems(each, by_name, tables)] for each in flows}


def test_raw_tables_may_be_read_one_behind_the_other():
    raw = flow("raw", topics=["t"])
    copy = flow("copy", source={"table": "lake.raw"})
    text = flow("text", source={"table": "lake.copy"}, format="text")
    assert found(text, copy, raw) == {"text": [], "copy": [], "raw": []}
    assert owner_of(text, {"lake.copy": "copy"}) == "copy"
    assert owner_of(raw, {"lake.copy": "copy"}) is None


def test_a_flow_behind_a_ring_is_not_in_it():
    one, two = flow("one", source={"table": "lake.two"}), flow("two", source={"table": "lake.one"})
    behind = flow("behind", source={"table": "lake.one"})
    assert found(one, two, behind) == {"one": ["source"], "two": ["source"], "behind": []}


def test_what_a_keyed_table_needs_of_null_values():
    drop, keep = flow("drop", topics=["t"], null_values="drop"), flow("keep", topics=["t"])
    keyed = {"format": "text", "sink": {"type": "upsert"}}
    ignoring = {"format": "text", "sink": {"type": "upsert", "tombstones": "ignore"}}
    readers = [
        flow("a", source={"table": "lake.drop"}, **keyed),
        flow("b", source={"table": "lake.drop"}, **ignoring),
        flow("c", source={"table": "lake.keep"}, **keyed),
        flow("d", source={"table": "lake.keep"}, null_values="dead_letter"),
    ]
    told = found(drop, keep, *readers)
    assert {name: told[name] for name in "abcd"} == {"a": ["sink"], "b": [], "c": [], "d": []}


def test_the_default_of_null_values_is_keep_where_all_records_are_kept():
    by_default = {
        "raw": flow("a", topics=["t"]),
        "raw as a mapping": flow("a", topics=["t"], format={"type": "raw"}),
        "raw, said otherwise": flow("a", topics=["t"], null_values="drop"),
        "raw, of which rows are made": flow("a", topics=["t"], explode="split(CAST(value AS STRING), ',') AS part"),
        "text": flow("a", topics=["t"], format="text"),
        "a reader of a raw table": flow("a", source={"table": "lake.raw"}, format="text"),
    }
    assert {what: each.null_values for what, each in by_default.items()} == {
        "raw": "keep",
        "raw as a mapping": "keep",
        "raw, said otherwise": "drop",
        "raw, of which rows are made": "drop",
        "text": "drop",
        "a reader of a raw table": "drop",
    }
