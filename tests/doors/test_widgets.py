"""The widgets of a Databricks job as arguments of ``ingest``."""

from __future__ import annotations

import sys
import types

import pytest
from tests.crashes.oracle import rows_of

import rivermouth
from rivermouth.cli.main import invoke
from rivermouth.errors import ArgumentInvalid, WidgetsMissing
from rivermouth.project.resolved.widgets import NAMES, with_widgets


@pytest.fixture
def job(monkeypatch):
    """Makes this process a notebook of Databricks with these widgets: ``job(topic="orders")``."""

    def job(**values):
        return _install(monkeypatch, lambda: values)

    return job


def _install(monkeypatch, get_all):
    runtime = types.ModuleType("databricks.sdk.runtime")
    runtime.dbutils = types.SimpleNamespace(widgets=types.SimpleNamespace(getAll=get_all))
    for name, module in {
        "databricks": types.ModuleType("databricks"),
        "databricks.sdk": types.ModuleType("databricks.sdk"),
        "databricks.sdk.runtime": runtime,
    }.items():
        monkeypatch.setitem(sys.modules, name, module)


def test_widgets_are_arguments_by_name(job, spark, broker, topic, tmp_path):
    name = topic()
    rows = tmp_path / "rows.txt"
    rows.write_text("one\ntwo\n")
    assert invoke(["dev", "produce", name, str(rows), "--bootstrap-servers", broker.bootstrap_servers]) == 0
    job(
        topic=name,
        bootstrap_servers=broker.bootstrap_servers,
        lake=str(tmp_path / "elsewhere"),
        format="text",
        sink="append",
        table="bronze.lines",
        follow="false",
        maintenance="never",
        cost_center="4711",
    )
    outcome = rivermouth.ingest(widgets=True, lake=str(tmp_path / "lake"))
    assert outcome.counts.written == 2
    assert len(rows_of(tmp_path / "lake/bronze/lines")) == 2
    assert not (tmp_path / "elsewhere").exists()


def test_only_names_that_ingest_knows_are_taken(job):
    job(topic="orders", Topic="x", environ="production", base="/", hooks="x", widgets="x", run_date="2026-01-31")
    assert with_widgets({}) == {"topic": "orders"}
    assert {"topic", "lake", "schema", "update_schema"} <= NAMES


def test_an_argument_wins_over_its_widget_also_where_it_is_none(job):
    job(topic="orders", schema="main", lake="s3a://x/y", table=" silver.orders ")
    assert with_widgets({"topic": "clicks", "schema": None}) == {
        "topic": "clicks",
        "schema": None,
        "lake": "s3a://x/y",
        "table": "silver.orders",
    }


def test_an_empty_widget_says_nothing(job):
    job(topic="orders", table="", schema="  ", follow="")
    assert with_widgets({}) == {"topic": "orders"}


@pytest.mark.parametrize("word", ["follow", "once", "streaming"])
def test_an_argument_about_the_mode_wins_over_all_widgets_about_it(word, job):
    job(follow="true", once="true", streaming="yes", debug="1")
    assert with_widgets({word: True}) == {word: True, "debug": "1"}


def test_mappings_and_lists_are_json(job):
    options = '{"security.protocol": "SASL_SSL"}'
    job(format='{"type": "python", "function": "decode:orders"}', sequence_by='["at", "id"]', kafka_options=options)
    assert with_widgets({}) == {
        "format": {"type": "python", "function": "decode:orders"},
        "sequence_by": ["at", "id"],
        "kafka_options": {"security.protocol": "SASL_SSL"},
    }


@pytest.mark.parametrize(
    ("widget", "told"),
    [
        (
            {"kafka_options": '{"sasl.jaas.config": hunter2}'},
            (
                "[ARGUMENT_INVALID] widget kafka_options: it begins as JSON and is none; nothing was run\n"
                "  hint: print(json.dumps(...)) in Python writes it"
            ),
        ),
        (
            {"kafka_options": "security.protocol=SASL_SSL"},
            (
                "[ARGUMENT_INVALID] widget kafka_options: options of Kafka's client are a JSON object; "
                "nothing was run\n"
                '  hint: {"security.protocol": "SASL_SSL"}'
            ),
        ),
        (
            {"lake": "/lake"},
            (
                "[ARGUMENT_INVALID] topic: it is neither an argument nor a widget; nothing was run\n"
                '  hint: rivermouth.ingest("orders", ...)'
            ),
        ),
    ],
)
def test_what_no_widget_can_be(widget, told, job):
    job(**widget)
    with pytest.raises(ArgumentInvalid) as caught:
        rivermouth.ingest(widgets=True)
    assert str(caught.value) == told


def test_a_topic_is_needed_without_widgets_too():
    with pytest.raises(ArgumentInvalid) as caught:
        rivermouth.ingest()
    assert str(caught.value) == (
        '[ARGUMENT_INVALID] topic: it is missing; nothing was run\n  hint: rivermouth.ingest("orders", ...)'
    )


def test_elsewhere_there_are_no_widgets(monkeypatch):
    monkeypatch.setitem(sys.modules, "databricks", None)
    with pytest.raises(WidgetsMissing) as caught:
        rivermouth.ingest("orders", widgets=True)
    assert str(caught.value) == (
        "[WIDGETS_MISSING] the widgets of this job cannot be read: this does not run on Databricks; nothing was run\n"
        "  hint: give the arguments themselves, without widgets=True"
    )


def test_a_refusal_is_told_without_its_text(monkeypatch):
    def refuse():
        message = "hunter2"
        raise PermissionError(message)

    _install(monkeypatch, refuse)
    with pytest.raises(WidgetsMissing) as caught:
        rivermouth.ingest("orders", widgets=True)
    assert str(caught.value) == (
        "[WIDGETS_MISSING] the widgets of this job cannot be read: Databricks refuses them (PermissionError); "
        "nothing was run\n"
        "  hint: try dbutils.widgets.getAll() in a cell of its own, or give the arguments themselves"
    )
