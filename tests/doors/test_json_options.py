"""Options of the format json at the command line: from a topic into a table, what is refused, and replayed."""

from __future__ import annotations

import datetime as dt

import pytest
from tests.doors.one_topic import OneFlow


@pytest.fixture
def project(tmp_path, monkeypatch, capsys, broker, topic, spark):
    """A project with one flow: ``send`` puts values into its topic, ``say`` runs a command over it."""
    monkeypatch.chdir(tmp_path)
    return OneFlow(tmp_path, capsys, broker.bootstrap_servers, topic())


def test_times_by_a_pattern(project):
    form = "type: json, schema: 'id int, at timestamp, day date', timestamp_format: '{at}', date_format: dd.MM.yyyy"
    project.write("format: {" + form.format(at="dd/MMM/yyyy:HH:mm:ss Z") + "}")
    project.send(
        b'{"id":1,"at":"31/Jan/2026:12:11:12 +0200","day":"31.01.2026"}',
        b'{"id":2,"at":"31/Feb/2026:12:11:12 +0200"}',
        b'{"id":3,"day":"2026-01-31"}',
        b'{"id":4,"at":1769854272}',
        b'{"id":5}',
    )
    code, said = project.say("run")
    assert code == 0, said
    at = dt.datetime(2026, 1, 31, 10, 11, 12, tzinfo=dt.UTC)
    assert project.rows("id", "at", "day") == [(0, 1, at, at.date()), (4, 5, None, None)]
    assert project.letters("reason", "field") == [
        (1, "FIELD_TYPE", "at"),
        (2, "FIELD_TYPE", "day"),
        (3, "FIELD_TYPE", "at"),
    ]
    # What a corrected form takes comes into the table.
    project.write("format: {" + form.format(at="epoch_s") + "}")
    assert project.say("dead-letters", "replay", "orders")[0] == 0
    assert project.rows("id", "at")[1:] == [(3, 4, at), (4, 5, None)]


def test_a_form_without_its_column_is_refused_before_anything_is_read(project):
    project.write("format: {type: json, schema: id int, timestamp_format: epoch_ms}")
    code, said = project.say("plan")
    assert code == 1
    assert (
        "[SCHEMA_INVALID] flow orders: the schema cannot be used: timestamp_format is about timestamps, and no column "
        "is one: declare one, or leave it out; nothing was run\n"
    ) in said


def test_times_by_a_pattern_where_the_schema_is_inferred_and_grows(project):
    settings = "type: json, schema: infer, schema_hints: 'at timestamp', timestamp_format: dd.MM.yyyy"
    project.write("format: {" + settings + "}", "evolution: {on_type_change: widen_or_rescue}")
    project.send(b'{"id":1,"at":"31.01.2026","other":"2026-01-31T10:00:00Z"}')
    code, said = project.say("run")
    assert code == 0, said
    at = dt.datetime(2026, 1, 31, tzinfo=dt.UTC)
    assert project.rows("id", "at", "other") == [(0, 1, at, "2026-01-31T10:00:00Z")]
    # What does not fit is rescued, and a new field is text: only the hint says which column has the form.
    project.send(b'{"id":2,"at":"2026-01-31"}', b'{"id":3,"at":"01.02.2026","seen":"31.01.2026"}')
    code, said = project.say("run")
    assert code == 0, said
    assert project.rows("at", "seen", "_rescued")[1:] == [
        (1, None, None, '{"/at":"2026-01-31"}'),
        (2, dt.datetime(2026, 2, 1, tzinfo=dt.UTC), "31.01.2026", None),
    ]
