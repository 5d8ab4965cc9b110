"""Records that were made to do something to a terminal: whatever a command says of them, on a real one, is text."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import threading
import time

import click
import pytest

from rivermouth.cli import live, output, progress
from rivermouth.cli.live import waiting
from rivermouth.cli.main import cli, invoke
from rivermouth.cli.output import Output, echo, echo_json, echo_over, to_json
from rivermouth.cli.text_table import columns, width_of
from rivermouth.engine import events
from rivermouth.errors import SchemaChanged
from rivermouth.names import printable
from rivermouth.ports.kafka.kafka_produce import produce

# Clears the screen, sets a colour in two ways, turns what follows around, and begins a line of its own.
NAME = "\x1b[2J\x9b31m\x1b]0;title\x07\u202e\u2028x\n[OK] all is well\ty"
SHOWN = r"\x1b[2J\x9b31m\x1b]0;title\x07\u202e\u2028x\n[OK] all is well\ty"
OBEYED = ("\x1b[2J", "\x9b", "\x1b]0;", "\x07", "\u202e", "\u2028")
PROJECT = """\
lake: ./lake
kafka: {{bootstrap_servers: "{servers}"}}
flows:
  strict:
    topics: [{topic}]
    format: {{type: json, schema: "id bigint"}}
    evolution: {{on_new_column: dead_letter}}
    table: silver.strict
  stops:
    topics: [{topic}]
    format: {{type: json, schema: "id bigint"}}
    evolution: {{on_new_column: fail}}
    table: silver.stops
  grows:
    topics: [{topic}]
    format: {{type: json, schema: "id bigint"}}
    evolution: {{on_new_column: evolve}}
    table: silver.grows
  inferred:
    topics: [{topic}]
    format: {{type: json, schema: infer}}
    table: silver.inferred
  own:
    topics: [{topic}]
    format: {{type: python, function: "quoting:quote", schema: "id bigint"}}
    table: silver.own
"""
FUNCTION = "import json\n\ndef quote(value):\n    raise ValueError(next(iter(json.loads(value))))\n"


class Terminal:
    """A pseudo terminal in place of standard output and standard error, and what came to it."""

    def __init__(self, monkeypatch) -> None:
        self._monkeypatch = monkeypatch

    def seen(self, work):
        """What ``work`` returns, and what it says."""
        ours, theirs = pty.openpty()
        got = []
        reader = threading.Thread(target=self._read, args=(ours, got))
        reader.start()
        with os.fdopen(theirs, "w", encoding="utf-8") as stream, self._monkeypatch.context() as patch:
            patch.setattr("sys.stdout", stream)
            patch.setattr("sys.stderr", stream)
            assert output.is_terminal()
            done = work()
        reader.join(30)
        os.close(ours)
        return done, b"".join(got).decode().replace("\r\n", "\n")

    @staticmethod
    def _read(end, got) -> None:
        # Once the other end is closed, reading fails.
        with contextlib.suppress(OSError):
            while part := os.read(end, 65536):
                got.append(part)

    def echo(self, *arguments, code=0):
        """What a command says."""
        found, said = self.seen(lambda: invoke(arguments))
        assert found == code, said
        return said

    def json(self, *arguments, code=0):
        """The same as JSON; each line can be printed."""
        lines = self.echo(*arguments, "--output", "json", code=code).splitlines()
        assert all(line.isprintable() for line in lines)
        return [json.loads(line) for line in lines]


@pytest.fixture
def terminal(monkeypatch):
    """One that is wide enough for a row on a line."""
    monkeypatch.setenv("COLUMNS", "500")
    return Terminal(monkeypatch)


@pytest.fixture
def shop(spark, broker, topic, tmp_path, monkeypatch):
    """A project, and a topic with one record whose field's name is ``NAME``."""
    monkeypatch.chdir(tmp_path)
    name = topic()
    (tmp_path / "rivermouth.yml").write_text(PROJECT.format(servers=broker.bootstrap_servers, topic=name))
    (tmp_path / "quoting.py").write_text(FUNCTION)
    produce(broker.bootstrap_servers, {}, name, [json.dumps({NAME: 1}).encode()])
    return name


def is_text(said):
    return all(character.isprintable() or character == "\n" for character in said)


def is_obeyed(said):
    return [each for each in OBEYED if each in said]


def lines_with(text, said):
    return [line for line in said.splitlines() if text in line]


def test_a_run_its_dead_letters_and_its_status(shop, terminal, monkeypatch, capsys):
    said = terminal.echo("run", "strict")
    assert is_obeyed(said) == []
    for line in (
        "strict: new table",
        "strict: batch 1: 1 consumed, 0 written, 1 dead-lettered, ",
        "strict: done, 1 batch",
    ):
        assert line in said
    counted = terminal.echo("dead-letters", "list")
    assert is_text(counted)
    assert len(lines_with(f"FIELD_UNDECLARED  /{SHOWN}", counted)) == 1
    monkeypatch.setenv("COLUMNS", str(NARROW))
    narrow = terminal.echo("status", "strict")
    assert invoke(["status", "strict"]) == 0
    words = capsys.readouterr().out.split()
    assert narrow.split()[-len(words) :] == words


@pytest.mark.long
def test_dead_letters(shop, terminal):
    terminal.json("run", "strict", "own")
    counted = terminal.echo("dead-letters", "list")
    assert is_text(counted)
    assert len(lines_with(f"FIELD_UNDECLARED  /{SHOWN}", counted)) == 1
    shown = terminal.echo("dead-letters", "show")
    assert is_text(shown)
    assert len(lines_with(f"FIELD_UNDECLARED in /{SHOWN}", shown)) == 1
    assert lines_with("FUNCTION_FAILED", shown) == [f"  decode: FUNCTION_FAILED: ValueError: {SHOWN}"]
    (told,) = terminal.json("dead-letters", "show", "strict")
    assert told["dead_letters"][0]["field"] == f"/{NAME}"


@pytest.mark.long
def test_a_policy_that_stops_the_flow(shop, terminal):
    said = terminal.echo("run", "stops", code=1)
    assert is_obeyed(said) == []
    change = f"flow stops: a field is not in the schema, /{SHOWN}: {shop}-0 offset 0; the batch was not written"
    (line,) = lines_with("[OK] all is well", said)
    assert line.endswith(f"stops: failed: [SCHEMA_CHANGED] {change}")
    *_, told = terminal.json("run", "stops", code=1)
    assert told["code"] == "FLOWS_FAILED"


def test_a_schema_that_grows(shop, terminal):
    said = terminal.echo("run", "grows")
    assert is_obeyed(said) == []
    assert len(lines_with(f"grows: schema evolved: version 1 adds column {SHOWN} bigint", said)) == 1
    shown = terminal.echo("schema", "show", "grows")
    assert is_text(shown)
    assert shown.splitlines()[1:] == ["  id bigint", f"  {SHOWN} bigint"]


@pytest.mark.long
def test_schemas_that_grow(shop, terminal):
    said = terminal.echo("run", "grows")
    assert is_obeyed(said) == []
    assert len(lines_with(f"grows: schema evolved: version 1 adds column {SHOWN} bigint", said)) == 1
    shown = terminal.echo("schema", "show", "grows")
    assert is_text(shown)
    assert shown.splitlines()[1:] == ["  id bigint", f"  {SHOWN} bigint"]
    versions = terminal.echo("schema", "show", "grows", "--history")
    assert is_text(versions)
    assert lines_with(f"adds column {SHOWN} bigint", versions) == versions.splitlines()[1:]
    read = terminal.echo("tables", "read", "grows")
    assert is_text(read)
    assert read.splitlines()[0].endswith(f"  {SHOWN}")
    (row,) = terminal.json("tables", "read", "grows")
    assert (row["id"], row[NAME]) == (None, 1)
    (told,) = terminal.json("schema", "show", "grows")
    assert told["changes"] == [f"adds column {NAME} bigint"]


@pytest.mark.long
def test_schemas_that_are_inferred(shop, broker, terminal):
    planned = terminal.echo("plan", "inferred")
    assert is_text(planned)
    assert len(lines_with(f"    {SHOWN}  bigint", planned)) == 1
    terminal.json("run", "inferred")
    others = [{NAME: 1, f"new{NAME}": value} for value in (1, "text")]
    produce(broker.bootstrap_servers, {}, shop, [json.dumps(each).encode() for each in others])
    found = terminal.echo("schema", "infer", "inferred")
    assert is_text(found)
    assert len(lines_with(f"  new{SHOWN}: number 1 ({shop}-0 offset 1), string 1", found)) == 1
    assert [line.split("  ")[0] for line in found.splitlines()[1:3]] == [SHOWN, f"new{SHOWN}"]
    said = terminal.echo("run", "inferred", "--update-schema")
    assert is_obeyed(said) == []
    assert len(lines_with(f"version 2 adds column new{SHOWN} string", said)) == 1


CHANGED = SchemaChanged(
    flow="f", change=NAME, topic="t", partition=0, offset=1, policy="on_new_column", other="evolve", at=NAME
)
EVENTS = (
    events.Warned("f", NAME),
    events.SchemaEvolved("f", version=2, changes=(NAME,), records=1, seconds=0.1),
    events.FlowFailed("f", f"[SOME_CODE] {NAME}"),
    events.FlowRestarted("f", error=NAME, delay_s=1),
)


@pytest.mark.parametrize(
    "work",
    [
        pytest.param(lambda: echo(NAME), id="text"),
        pytest.param(lambda: echo_over(NAME), id="a count that goes on"),
        pytest.param(lambda: Output().result(NAME, None), id="a result"),
        pytest.param(lambda: Output().note(NAME), id="a note"),
        pytest.param(lambda: Output().error(CHANGED), id="an error"),
        pytest.param(lambda: Output(traceback=True).unexpected(ValueError(NAME)), id="an error of others"),
        pytest.param(lambda: Output().result(columns([NAME], [[NAME]]), None), id="a table"),
        *(pytest.param(lambda each=each: progress.PlainLines().hear(each), id=type(each).__name__) for each in EVENTS),
        pytest.param(lambda: progress.PlainLines().echo(NAME), id="progress in lines"),
        pytest.param(lambda: live.LiveTable().echo(NAME), id="progress before the table"),
    ],
)
def test_each_way_out_for_people(work, terminal):
    _, said = terminal.seen(work)
    assert is_text(said.replace("\t", "").replace("\r", ""))
    assert r"\x1b[2J\x9b31m\x1b]0;title\x07\u202e\u2028x" in said


def test_a_live_table_keeps_its_own_colours(terminal):
    def shows():
        shown = live.LiveTable()
        for event in EVENTS:
            shown.hear(event)
        shown.echo(f"{NAME} :warning: [red]")
        shown.close()

    _, said = terminal.seen(shows)
    assert is_obeyed(said) == []
    assert said.count("title") == len(EVENTS) + 1
    assert "y :warning: [red]" in said
    assert "\x1b[2mflow" in said


def test_json_means_what_it_meant(terminal):
    value = {"name": f"{NAME}\U000e0041\x7fü"}
    _, said = terminal.seen(lambda: echo_json(to_json(value)))
    assert said.rstrip("\n").isprintable()
    assert "ü" in said
    assert json.loads(said) == value
    _, said = terminal.seen(lambda: Output(json=True).error(CHANGED))
    assert json.loads(said)["message"] == CHANGED.message


def test_a_row_is_a_line_whatever_is_in_it():
    assert columns(["a\nb"], [["c\x85d"], [1], [None]]) == "a\\nb\nc\\x85d\n1\n-"


@pytest.mark.parametrize(
    ("text", "line", "lines"),
    [
        ("Grüße, 東京 … 😀 e\u0301", "Grüße, 東京 … 😀 e\u0301", "Grüße, 東京 … 😀 e\u0301"),
        ("a\n\tb\r", r"a\n\tb\r", "a\n\tb\\r"),
        ("\x1b[m\x7f\x9b\u2066\ud800", r"\x1b[m\x7f\x9b\u2066\ud800", r"\x1b[m\x7f\x9b\u2066\ud800"),
        (r"C:\x1b", r"C:\x1b", r"C:\x1b"),
    ],
)
def test_what_prints_stays_and_what_does_not_is_told(text, line, lines):
    assert (printable(text), printable(text, lines=True)) == (line, lines)


NARROW = 80
LONG = "a_flow_with_a_name_that_is_longer_than_any_terminal_of_eighty_columns_could_show_on_one_line"
TYPE = f"struct<{','.join(f'field_{number}:bigint' for number in range(20))}>"
# Head and rows of tables, and what of it is longer than a line by itself.
TABLES = {
    "summary": (progress.SUMMARY_HEAD, [(LONG, *[123456789] * 7), ("short", *[1] * 7)], [LONG]),
    "dead letters": (
        ("flow", "status", "stage", "reason", "field or expectations", "count", "for example"),
        [("orders", "open", "decode", "FIELD_UNDECLARED", "a.b.c", 12, "orders-of-the-shop partition 0 offset 123456")],
        [],
    ),
    "columns": (("name", "type"), [("id", "bigint"), ("payload", TYPE)], []),
    "paths": (("flow", "table"), [("orders", "/lake" * 30)], ["/lake" * 30]),
    "kinds": (("family", "name", "about"), [("format", "json", "Values are JSON documents; " * 8)], []),
    "wide letters": (("flow", "about"), [("東京" * 8, "値 は 文 字 " * 20)], []),
    "no rows": (("flow", "about " * 20), [], []),
    "many columns": ([f"column_{number}" for number in range(20)], [[f"value_{n}" for n in range(20)]], []),
}


@pytest.mark.parametrize("width", [40, NARROW, 132])
@pytest.mark.parametrize("called", TABLES)
def test_no_word_of_a_table_is_broken(called, width, terminal, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    head, rows, longer = TABLES[called]
    _, said = terminal.seen(lambda: echo(columns(head, rows, indent="  ")))
    lines = said.splitlines()
    words = {word for line in [head, *rows] for cell in line for word in re.findall(r"[^\s,]+,*", str(cell))}
    shown = " ".join(lines)
    for word in words - {"123456789", "1"}:
        assert word in shown, word
    too_wide = [line for line in lines if width_of(line) > width]
    assert all(any(word in line for word in (*longer, *words)) and len(line.split()) <= 2 for line in too_wide)
    assert width < NARROW or len(too_wide) <= len(longer)
    assert all(line.startswith("  ") or not line for line in lines)


def test_where_it_is_not_for_a_terminal_a_row_is_a_line():
    for head, rows, _ in TABLES.values():
        assert len(columns(head, rows).splitlines()) == 1 + len(rows)


def test_a_table_that_does_not_fit_goes_on_below_itself(terminal, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    rows = [("a", "one two three four five six", 1), ("b" * 20, "seven", 22)]
    _, said = terminal.seen(lambda: echo(columns(("name", "some words", "n"), rows)))
    assert said == (
        "name                  some words       n\n"
        "a                     one two three    1\n"
        "                      four five six\n"
        "bbbbbbbbbbbbbbbbbbbb  seven           22\n"
    )
    _, said = terminal.seen(lambda: echo(columns(("name", "n"), [("b" * 40, 1), ("c", 22)])))
    assert said == f"{'name':<36}   n\n{'b' * 40}\n{'':<36}   1\n{'c':<36}  22\n"
    _, said = terminal.seen(lambda: echo(columns(("name", "path"), [("a", "b" * 40), ("c d", "e f")])))
    assert said == f"name: a\npath:\n{'b' * 40}\n\nname: c d\npath: e f\n"


def test_lines_are_broken_between_words_and_hints_are_not(terminal, monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    text = f"orders: new table {'/lake' * 8}, starts at earliest\n  hint: rivermouth run orders --follow"

    def shows():
        shown = live.LiveTable()
        shown.hear(events.FlowFailed("orders", f"[CODE] {text}"))
        shown.close()

    _, said = terminal.seen(shows)
    lines = [line.rstrip() for line in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", said).splitlines()]
    assert lines[:4] == ["orders: failed: [CODE]", "  orders: new table", f"  {'/lake' * 8},", "  starts at earliest"]
    assert "  hint: rivermouth run orders --follow" in lines


PASTED = ("hint:", "at:", "rivermouth ")
ORDINARY = f"""\
orders: {"so and so many words, " * 8}
  table: {"/lake" * 30}
    last batch: entry 1, took 17.097 s, done at 2026-11-26 04:46:46 UTC, \U0001f600 (trigger: every 10 s)
  at: {"/lake" * 30} or so
  hint: rivermouth run {LONG} --follow, as long as it takes
  hint: write it as expectations: [{{name: {LONG}, condition: true, action: drop}}]
  rivermouth tables vacuum {LONG} {LONG}"""
# Hints of words alone.
SAID = """\
  hint: correct the rules of flow orders, or what sends such records; then check it again
  hint: known: avro, canal, connect_json, csv, debezium, int, json, jvm, key_value, long, maxwell, msgpack"""


def test_ordinary_lines_are_broken_between_words_on_a_terminal_alone(terminal, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(NARROW))
    _, said = terminal.seen(lambda: (echo(ORDINARY), echo(ORDINARY, err=True)))
    assert said.split() == [*ORDINARY.split(), *ORDINARY.split()]
    for line in said.splitlines():
        assert width_of(line) <= NARROW or len(line.split()) == 1 or line.lstrip().startswith(PASTED), line
    assert ", so\n  and so many words" in said
    assert "04:46:46 UTC,\n      \U0001f600 (trigger: every 10 s)\n" in said
    echo(ORDINARY)
    assert capsys.readouterr().out == f"{ORDINARY}\n"
    _, said = terminal.seen(lambda: Output().result(ORDINARY, None, whole=True))
    assert said == f"{ORDINARY}\n"
    _, said = terminal.seen(lambda: echo(SAID))
    assert said == (
        "  hint: correct the rules of flow orders, or what sends such records; then\n    check it again\n"
        "  hint: known: avro, canal, connect_json, csv, debezium, int, json, jvm,\n"
        "    key_value, long, maxwell, msgpack\n"
    )


@pytest.mark.parametrize(
    ("line", "broken"),
    [
        (
            "  warning: 3 of 6 records are dead letters; to see them: rivermouth dead-letters show orders",
            "  warning: 3 of 6 records are dead letters; to see them:\n    rivermouth dead-letters show orders\n",
        ),
        (
            'orders: undeclared fields: note, buyer.phone, a; "rivermouth schema infer orders" shows all fields',
            'orders: undeclared fields: note, buyer.phone, a;\n  "rivermouth schema infer orders" shows all fields\n',
        ),
    ],
)
def test_a_command_within_a_line_is_not_broken(line, broken, terminal, monkeypatch):
    monkeypatch.setenv("COLUMNS", "72")
    _, said = terminal.seen(lambda: echo(line))
    assert said == broken


def test_wrong_usage_is_told_in_words_and_broken_between_them(terminal, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(NARROW))
    said = terminal.echo("status", "--max-lag", "ten", code=2)
    assert said.endswith("\nError: Invalid value for '--max-lag': 'ten' is not a valid integer.\n")
    said = terminal.echo("dead-letters", "list", "--reason", "FOO", code=2)
    assert [line for line in said.splitlines() if width_of(line) > NARROW] == []
    assert "WRONG_LENGTH, WRONG_MAGIC." in " ".join(said.split())
    assert "\n  " in said.partition("Error: ")[2]


def test_summaries_in_help_are_whole(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    groups = [(), *((name,) for name, command in cli.commands.items() if isinstance(command, click.Group))]
    for group in groups:
        assert invoke([*group, "--help"]) == 0
        listed = capsys.readouterr().out.partition("Commands:")[2].strip("\n").splitlines()
        assert len(listed) == len((cli.commands[group[0]] if group else cli).commands)
        assert [line for line in listed if "..." in line or len(line) > NARROW] == []


def test_what_takes_its_time_is_shown_with_seconds_and_its_line_stays(terminal):
    def waits():
        with waiting(Output(), "starting Spark"):
            time.sleep(1.1)

    _, said = terminal.seen(waits)
    assert "starting Spark … 0 s" in said
    assert said.rstrip().splitlines()[-1].endswith("starting Spark … 1 s") or "starting Spark … 1 s\n" in said


@pytest.mark.long
def test_the_lines_that_others_see_are_there_on_a_terminal(shop, terminal, monkeypatch, capsys):
    said = terminal.echo("run", "strict")
    for line in (
        "strict: new table",
        "strict: batch 1: 1 consumed, 0 written, 1 dead-lettered, ",
        "strict: done, 1 batch",
    ):
        assert line in said
    monkeypatch.setenv("COLUMNS", str(NARROW))
    for command in ("status", "audit"):
        narrow = terminal.echo(command, "strict")
        assert invoke([command, "strict"]) == 0
        words = capsys.readouterr().out.split()
        assert narrow.split()[-len(words) :] == words
        lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", narrow).splitlines()
        assert [line for line in lines if width_of(line) > NARROW and len(line.split()) > 1] == []
