"""Formats of text lines at the command line: from a topic into a table, what is refused, and replayed."""

from __future__ import annotations

import pytest
from tests.doors.one_topic import OneFlow


class Lines(OneFlow):
    flow = "lines"


@pytest.fixture
def project(tmp_path, monkeypatch, capsys, broker, topic, spark):
    """A project with one flow: ``send`` puts values into its topic, ``say`` runs a command over it."""
    monkeypatch.chdir(tmp_path)
    return Lines(tmp_path, capsys, broker.bootstrap_servers, topic())


@pytest.mark.long
def test_csv(project):
    project.write("format: {type: csv, schema: 'id bigint NOT NULL, note string, price decimal(6,2)', delimiter: ;}")
    project.send(b'1;"a;b";2.50', b"2;;\r\n", b"x;;", b"3;c", b"4;d;none", b'5;"e;', None)
    assert project.say("run")[0] == 0
    assert [(*row[:-1], str(row[-1])) for row in project.rows("id", "note", "price")] == [
        (0, 1, "a;b", "2.50"),
        (1, 2, None, "None"),
    ]
    assert project.letters("kafka_value", "reason", "field") == [
        (2, b"x;;", "FIELD_TYPE", "id"),
        (3, b"3;c", "FIELD_COUNT", None),
        (4, b"4;d;none", "FIELD_TYPE", "price"),
        (5, b'5;"e;', "INVALID_LINE", "note"),
    ]
    code, said = project.say("dead-letters", "list")
    assert code == 0
    assert all(word in said for word in ("FIELD_TYPE", "FIELD_COUNT", "INVALID_LINE"))
    # What corrected settings take comes into the table.
    project.write(
        "format: {type: csv, schema: 'id bigint NOT NULL, note string, price decimal(6,2)', delimiter: ;,"
        " null_value: none}"
    )
    assert project.say("dead-letters", "replay", "lines", "--reason", "FIELD_TYPE")[0] == 0
    assert project.rows("id") == [(0, 1), (1, 2), (4, 4)]
    assert project.letters("status") == [(2, "open"), (3, "open"), (4, "replayed"), (5, "open")]


def test_regex(project):
    project.write("format: {type: regex, pattern: '(?<host>[^ ]+) (?<status>.*)', schema: 'host string'}")
    code, said = project.say("validate")
    assert code == 1
    assert (
        "[PROJECT_INVALID] flows.lines.format.pattern: its group status is no column of the schema; nothing was run\n"
        "  at: rivermouth.yml:7\n"
        "  hint: write (?: for (?<status>, or declare it\n"
    ) in said
    project.write("format: {type: regex, pattern: '(?<host>[^ ]+*) .*', schema: 'host string'}")
    for command in ("validate", "plan", "run"):
        code, said = project.say(command)
        assert code == 1
        assert (
            "[PATTERN_INVALID] flow lines: the pattern of its format cannot be used: it cannot be read: Dangling meta "
            "character '*', near character 14; nothing was run\n"
            "  at: rivermouth.yml:7\n"
            "  hint: write it in the words of java.util.regex.Pattern, with a group (?<name>...) for each column\n"
        ) in said
    project.write(
        "format:",
        "  type: regex",
        r"  pattern: '(?<host>\S+) (?<status>\d+)(?: (?<user_id>(?:\w+\s?)+))?'",
        "  schema: host string, status smallint, user_id string",
    )
    project.send(b"a 200", b"b 404 ann lee", b"c", b"d 40000", b"e 1 " + b"x" * 50_000 + b"!", b"f 5")
    assert project.say("run")[0] == 0
    assert project.rows("host", "status", "user_id") == [
        (0, "a", 200, None),
        (1, "b", 404, "ann lee"),
        (5, "f", 5, None),
    ]
    assert project.letters("reason", "field") == [
        (2, "NO_MATCH", None),
        (3, "FIELD_TYPE", "status"),
        (4, "TOO_MANY_READS", None),
    ]


@pytest.mark.long
def test_key_value(project):
    settings = "format: {type: key_value, schema: 'id bigint NOT NULL, msg string, price decimal(6,2)'%s}"
    project.write(settings % "")
    project.send(
        b'level=info id=1 msg="two words" price=2.50',
        b"id=2\n",
        b"id=x",
        b"msg=a",
        b"id=4 id=4",
        b'id=5 msg="a',
        b"id=6 price=none",
        None,
    )
    assert project.say("run")[0] == 0
    assert [(*row[:-1], str(row[-1])) for row in project.rows("id", "msg", "price")] == [
        (0, 1, "two words", "2.50"),
        (1, 2, None, "None"),
    ]
    assert project.letters("kafka_value", "reason", "field") == [
        (2, b"id=x", "FIELD_TYPE", "id"),
        (3, b"msg=a", "FIELD_MISSING", "id"),
        (4, b"id=4 id=4", "FIELD_TWICE", "id"),
        (5, b'id=5 msg="a', "INVALID_LINE", "msg"),
        (6, b"id=6 price=none", "FIELD_TYPE", "price"),
    ]
    # What corrected settings take comes into the table.
    project.write(settings % ", null_value: none")
    assert project.say("dead-letters", "replay", "lines", "--reason", "FIELD_TYPE")[0] == 0
    assert project.rows("id") == [(0, 1), (1, 2), (6, 6)]
