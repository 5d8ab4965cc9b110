"""Hints can be pasted: commands exist with the options that are named, and what is YAML leads on."""

from __future__ import annotations

import ast
import json
import re
import shlex
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from tests.doors.test_project_broken import ENVIRON, cases

import rivermouth
from rivermouth.cli.hints import naming, naming_file, without_file
from rivermouth.cli.live import LiveTable
from rivermouth.cli.main import cli, invoke
from rivermouth.cli.output import Output
from rivermouth.cli.pipelines import speaker, speaking_of
from rivermouth.cli.progress import JsonLines, PlainLines
from rivermouth.engine.events import DeadLettersMany, FlowFailed
from rivermouth.engine.query.query_events import Note
from rivermouth.errors import ProjectProblems, RefreshWouldLose, RivermouthError
from rivermouth.names import did_you_mean
from rivermouth.project.api import Project
from rivermouth.project.resolved.static_checks import validate_static

PACKAGE = Path(rivermouth.__file__).parent
COMMAND = re.compile(r"\brivermouth((?: (?:[a-z][a-z-]+|[A-Z_]+|--?[a-z0-9-]+))+)")


def texts() -> list[str]:
    """Every text in the code but for docstrings; what is filled in is X."""
    found = []
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Expr):
                continue
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.JoinedStr):
                    parts = (each.value if isinstance(each, ast.Constant) else "X" for each in child.values)
                    found.append("".join(str(part) for part in parts))
                elif isinstance(child, ast.Constant) and isinstance(child.value, str):
                    found.append(re.sub(r"\{\w+(?:!q)?\}", "X", child.value))
    return found


def quoted_commands() -> list[str]:
    return sorted({match[1].strip() for text in texts() for match in COMMAND.finditer(text)})


def taken_by(command: click.Command, words: list[str]) -> bool:
    """Whether the words are a command with options that it has; ``X`` is one of a group's commands."""
    if isinstance(command, click.Group):
        first, *rest = words or [""]
        wanted = command.commands.values() if first == "X" else filter(None, [command.commands.get(first)])
        return any(taken_by(each, rest) for each in wanted)
    known = {"--help", *(option for each in command.params for option in (*each.opts, *each.secondary_opts))}
    return {word for word in words if word.startswith("-")} <= known


def is_prose(words: list[str]) -> bool:
    """``rivermouth is`` and ``rivermouth for``: a sentence about the program."""
    return words[0] not in cli.commands


def test_commands_that_texts_quote_exist_with_their_options():
    quoted = [words for command in quoted_commands() if not is_prose(words := shlex.split(command))]
    assert len(quoted) > 30
    groups = [["dev"], ["schema"], ["tables"], ["dead-letters"]]
    assert [words for words in quoted if words not in groups and not taken_by(cli, words)] == []


NAMED = re.compile(r"^did you mean '([^']+)'\?$")
YAML = re.compile(r"^(?:write )?([a-z_]+): (\S.*)$")


def pasted(text: str, error: RivermouthError) -> str | None:
    """The file with the hint in it; None where the hint is no word and no line of YAML."""
    lines, at = text.split("\n"), int((error.at or ":0").rpartition(":")[2]) - 1
    hint = error.next_step
    if meant := NAMED.match(hint):
        wrong = [word for word in re.findall(r"'([^']+)'|\{(\w+)\}", error.message) for word in word if word]
        for word in wrong:
            if re.search(rf"(?<![\w.-]){re.escape(word)}(?![\w.-])", lines[at]):
                lines[at] = lines[at].replace(word, meant[1], 1)
                return "\n".join(lines)
        return None
    found = YAML.match(hint)
    if not found or " or " in hint or ", and " in hint or "..." in hint or "{topic" in hint:
        return None
    if error.message.startswith("the file holds "):
        return hint
    key, value = found[1], found[2]
    value = value.partition(" in the ")[0]
    written = re.compile(rf"(?<!\w){key}:(?: [^,{{}}\[\]]*| \{{[^{{}}]*\}}| \[[^\[\]]*\]|$)")
    if written.search(lines[at]):
        lines[at] = written.sub(lambda _: f"{key}: {value}", lines[at], count=1)
        return "\n".join(lines)
    if key in ("lake", "flows"):
        return f"{text}{key}: {value}\n"
    return None


def problems_of(text: str) -> list[RivermouthError]:
    Path("rivermouth.yml").write_text(text, encoding="utf-8")
    try:
        validate_static(Project.load("rivermouth.yml", ENVIRON))
    except ProjectProblems as several:
        return list(several.problems)
    except RivermouthError as error:
        return [error]
    return []


def pasted_hints(found) -> int:
    """How many of the cases have a hint to paste; each leads on."""
    count = 0
    for case in found:
        for error in problems_of(case.values[0]):
            text = pasted(case.values[0], error)
            if text is None:
                continue
            count += 1
            left = [(each.code, each.message) for each in problems_of(text)]
            assert (error.code, error.message) not in left, (case.id, text)
    return count


ALL_CASES = (*cases("broken.txt"), *cases("refused.txt"))


@pytest.mark.long
def test_a_pasted_hint_leads_on(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert pasted_hints(ALL_CASES) >= 60


def test_the_pasted_hint_of_some_cases_leads_on(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert pasted_hints(ALL_CASES[::8]) >= 8


A_FLOW = "flows: {events: {topics: [events], format: raw, table: bronze.events}}"


@pytest.mark.parametrize(
    ("before", "told", "hint"),
    [
        pytest.param(None, "no project file at rivermouth.yml", "rivermouth init", id="none"),
        pytest.param("", "the file is empty", "rivermouth init", id="empty"),
        pytest.param("# mine\n", "the file holds nothing but comments", "lake: ./lake", id="comments"),
        pytest.param("lake: ./lake\n", "the project has no flow", A_FLOW, id="no flow"),
    ],
)
def test_from_nothing_to_a_project_by_hints(tmp_path, monkeypatch, capsys, before, told, hint):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "rivermouth.yml"
    if before is not None:
        file.write_text(before)
    assert invoke(["status"]) == 1
    err = capsys.readouterr().err
    assert f"] {told}; nothing was r" in err
    assert err.endswith(f"  hint: {hint}\n")
    if hint.startswith("rivermouth "):
        assert invoke(hint.split()[1:]) == 0
    else:
        file.write_text(f"{file.read_text()}{hint}\n")
    left = [str(error) for error in problems_of(file.read_text())]
    assert told not in "".join(left)
    assert len(left) == (before == "# mine\n")


@pytest.mark.parametrize(
    ("arguments", "hint", "typed"),
    [
        (["-f", "a.yml"], "rivermouth plan orders", "rivermouth plan -f a.yml orders"),
        (["--file=b c.yml"], "rivermouth run {x} --why", "rivermouth run -f 'b c.yml' {x} --why"),
        (["-fa.yml"], "rivermouth dead-letters list", "rivermouth dead-letters list -f a.yml"),
        (["-f", "a.yml"], "rivermouth init", "rivermouth init -f a.yml"),
        (["-f", "a.yml"], "rivermouth init -f new.yml", "rivermouth init -f new.yml"),
        (["-f", "a.yml"], "rivermouth dev kafka", "rivermouth dev kafka"),
        (["-f", "a.yml"], "start rivermouth again", "start rivermouth again"),
        (["--output", "json"], "rivermouth plan orders", "rivermouth plan orders"),
        (["a b.sql", "c.py"], "rivermouth run --refresh x", "rivermouth run 'a b.sql' c.py --refresh x"),
        (["a.sql", "-fp.yml"], "rivermouth tables read x", "rivermouth tables read -f p.yml a.sql x"),
        (["--profile=prod"], "rivermouth run --refresh x", "rivermouth run --profile prod --refresh x"),
        (["--param", "pin=1"], "rivermouth status", "rivermouth status --param pin=VALUE"),
        (["--profile", "prod"], "rivermouth rebuild x", "rivermouth rebuild x"),
        (["-f", "etl"], "rivermouth run etl/b.py", "rivermouth run etl/b.py"),
        (["-f", "etl", "--param", "a=b"], "rivermouth run 'b c.py'", "rivermouth run --param a=VALUE 'b c.py'"),
    ],
)
def test_commands_in_hints_name_the_file_that_was_given(arguments, hint, typed):
    named = naming_file(cli, ["plan", *arguments])
    assert (named(hint), named(named(hint))) == (typed, typed)


MANY = DeadLettersMany("orders", 4, 5, (), table="/lake/silver/orders__dead_letters", debug=False)
FAILED = FlowFailed("orders", "[X] it broke\n  hint: rivermouth run orders")


@pytest.mark.parametrize(
    ("hinted", "shown"),
    [
        (
            naming(cli, "b c.yml"),
            ("rivermouth dead-letters show -f 'b c.yml' orders", "rivermouth run -f 'b c.yml' orders"),
        ),
        (
            without_file(cli, "rivermouth ingest orders ... --save"),
            tuple(
                f"{command} (needs a project file; to write it first: rivermouth ingest orders ... --save)"
                for command in ("rivermouth dead-letters show orders", "rivermouth run orders")
            ),
        ),
    ],
)
def test_commands_in_events_can_be_pasted(capsys, hinted, shown):
    for way in (PlainLines, LiveTable):
        listener = way(hinted)
        for event in (MANY, FAILED):
            listener.hear(event)
        listener.close()
        said = " ".join(capsys.readouterr().err.split())
        assert [each in said for each in shown] == [True, True], said
    JsonLines(hinted).hear(FAILED)
    assert json.loads(capsys.readouterr().out)["error"] == FAILED.error.replace("rivermouth run orders", shown[1])
    PlainLines(hinted).hear(replace(MANY, debug=True))
    assert capsys.readouterr().err == (
        "orders: WARNING: 4 of 5 records went to the dead letters; they are in /lake/silver/orders__dead_letters\n"
    )


def test_the_next_step_after_init_names_the_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert invoke(["init", "-f", "other.yml"]) == 0
    assert capsys.readouterr().out == "other.yml is written. Change it, and then: rivermouth validate -f other.yml\n"
    assert invoke(["validate", "-f", "other.yml"]) == 0


def run_of(pipeline, dataset):
    """A run that says something and then fails."""
    with speaking_of(pipeline, Output()) as told:
        speaker(told)(Note("", "", "stops then: rivermouth run --full-refresh orders"))
        raise RefreshWouldLose(dataset=dataset, detail="a topic is shorter")


def test_commands_in_hints_name_a_pipeline_among_several(capsys):
    pipeline = SimpleNamespace(name="the shop", is_alone=False)
    hint = "rivermouth run 'the shop' --full-refresh 'daily orders' --accept-data-loss"
    with pytest.raises(RefreshWouldLose) as raised:
        run_of(pipeline, "daily orders")
    assert capsys.readouterr().err == "stops then: rivermouth run 'the shop' --full-refresh orders\n"
    Output().error(raised.value)
    assert capsys.readouterr().err.endswith(f"  hint: {hint}\n")
    Output(json=True).error(raised.value)
    assert json.loads(capsys.readouterr().err)["hint"] == hint
    pipeline.is_alone = True
    with pytest.raises(RefreshWouldLose) as raised:
        run_of(pipeline, "orders")
    Output().error(raised.value)
    assert capsys.readouterr().err.endswith("  hint: rivermouth run --full-refresh orders --accept-data-loss\n")


@pytest.mark.parametrize("output", [[], ["--output", "json"]])
def test_a_hint_of_an_error_names_the_file_that_was_given(tmp_path, monkeypatch, capsys, output):
    monkeypatch.chdir(tmp_path)
    assert invoke(["run", "-f", "other.yml", *output]) == 1
    assert "rivermouth init -f other.yml" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("written", "known", "hint"),
    [
        ("amont", ["amount", "id"], "did you mean 'amount'?"),
        ("ID", ["amount", "id"], "did you mean 'id'?"),
        ("lake_path", ["lake", "name"], "did you mean 'lake'?"),
        ("enabled", ["table", "topics"], "known: table, topics"),
        ("options", ["expectations", "sink"], "known: expectations, sink"),
        ("rename", ["name", "lake"], "known: lake, name"),
        ("x", [], "known: "),
    ],
)
def test_what_is_offered_is_what_may_be_meant(written, known, hint):
    assert did_you_mean(written, known) == hint
