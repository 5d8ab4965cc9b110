"""The command line where neither Spark nor a broker is needed: help, usage, and what errors look like."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from pathlib import Path

import click
import py4j.java_gateway
import pytest

import rivermouth
from rivermouth.cli import kinds as kinds_command
from rivermouth.cli import main as main_module
from rivermouth.cli.main import cli, invoke
from rivermouth.cli.output import count, plain, to_json
from rivermouth.cli.pipelines import SettingsChoice, are_alone, check_selection, meant
from rivermouth.cli.synonyms import COMMANDS, OPTIONS
from rivermouth.cli.text_table import columns
from rivermouth.errors import ProjectInvalid, ProjectNotFound, ProjectProblems, RivermouthError
from rivermouth.pipelines import commands as session_module
from rivermouth.pipelines.selection import Selection
from rivermouth.project.api import Project
from rivermouth.project.commands import dead_letters as letters_module
from rivermouth.project.file.json_schema import project_schema
from rivermouth.project.resolved.static_checks import validate_static
from rivermouth.testing import run_pipeline


@pytest.fixture
def here(tmp_path, monkeypatch):
    folder = tmp_path / "shop"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def said(capsys, *arguments):
    """(exit code, standard output, standard error) of a command."""
    capsys.readouterr()
    code = invoke(arguments)
    out, err = capsys.readouterr()
    return code, out, err


def commands(group=cli, path=()):
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        yield (*path, name)


@pytest.mark.parametrize("path", [(), *commands()], ids=" ".join)
def test_every_command_explains_itself(path, capsys):
    code, out, err = said(capsys, *path, "--help")
    assert (code, err) == (0, "")
    assert out.startswith(f"Usage: rivermouth{''.join(' ' + part for part in path)}")


def test_every_command_that_does_something_speaks_json():
    silent = [
        path
        for path in commands()
        if not isinstance(command := _command(path), click.Group)
        and {"--output", "--traceback"} - {option for each in command.params for option in each.opts}
    ]
    assert silent == []


def _command(path):
    command = cli
    for part in path:
        command = command.commands[part]
    return command


def test_the_version_is_that_of_the_package(capsys):
    assert said(capsys, "--version") == (0, f"rivermouth {rivermouth.__version__}\n", "")


def test_help_needs_neither_spark_nor_kafka():
    code = "import sys; from rivermouth.cli.main import invoke; invoke(['run', '--help']); print(sorted(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert not re.search(r"'(pyspark|confluent_kafka|pydantic|pyarrow)'", out)


def test_wrong_usage_is_exit_code_2(capsys):
    code, out, err = said(capsys, "run", "--faster")
    assert (code, out) == (2, "")
    assert err == (
        "Usage: rivermouth run [OPTIONS] [FLOW]...\n"
        "Try 'rivermouth run --help' for help.\n\n"
        "Error: No such option '--faster'.\n"
    )


@pytest.mark.parametrize("spelled", [("--output", "json"), ("--output=json",)])
def test_wrong_usage_in_json(spelled, capsys):
    code, out, err = said(capsys, "run", "--faster", *spelled)
    assert (code, out) == (2, "")
    assert json.loads(err) == {
        "code": "WRONG_USAGE",
        "message": "No such option '--faster'.",
        "at": None,
        "hint": "rivermouth run --help",
    }


NAMED = "name the flows behind the command: rivermouth"


@pytest.mark.parametrize(
    ("typed", "told", "hint"),
    [
        (
            ["stop"],
            "No such command 'stop'.",
            "press Ctrl-C where it runs, or: kill PID; it ends after the current batch",
        ),
        (["metrics"], "No such command 'metrics'.", "rivermouth status --output json"),
        (["dry-run"], "No such command 'dry-run'.", "rivermouth plan"),
        (["test"], "No such command 'test'.", "rivermouth check-records FLOW FILE"),
        (
            ["run", "--select", "a"],
            "No such option '--select'.",
            "name the flows behind the command: rivermouth run FLOW",
        ),
        (
            ["run", "--overwrite"],
            "No such option '--overwrite'.",
            "rivermouth rebuild FLOW, for a flow over a table",
        ),
        (["run", "--dry-run"], "No such option '--dry-run'.", "rivermouth plan"),
        (
            ["tables", "read", "-v"],
            "No such option '-v'.",
            "as JSON, with all that is known: rivermouth tables read --output json; the trace of an error: --traceback",
        ),
        (["status", "--watch"], "No such option '--watch'.", "rivermouth run --follow"),
    ],
)
def test_words_of_other_tools_are_answered_with_ours(typed, told, hint, capsys):
    code, out, err = said(capsys, *typed)
    assert (code, out) == (2, "")
    assert err.startswith("Usage: rivermouth ")
    assert f"Error: {told}\n" in err
    assert err.endswith(f"  hint: {hint}\n")
    code, out, err = said(capsys, *typed, "--output", "json")
    assert (code, json.loads(err)["hint"]) == (2, hint)


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (["deploy"], "No such command 'deploy'."),
        (["docs"], "No such command 'docs'."),
        (["statuss"], "No such command 'statuss'. Did you mean 'status'?"),
        (["tables", "vacum"], "No such command 'vacum'. Did you mean 'vacuum'?"),
        (["run", "--folow"], "No such option '--folow'. Did you mean '--follow'?"),
    ],
)
def test_only_what_is_near_is_offered(typed, told, capsys):
    code, out, err = said(capsys, *typed)
    assert (code, out, err.splitlines()[-1]) == (2, "", f"Error: {told}")


def test_the_words_that_are_answered_are_none_of_ours():
    assert {word for word in COMMANDS if word in cli.commands} == set()
    assert {word for word in OPTIONS for each in commands() if each == ("run",) and word in _options(each)} == set()


def _options(path):
    return {option for each in _command(path).params for option in each.opts}


def test_once_is_the_default_of_a_run_and_contradicts_follow(here, capsys):
    code, out, err = said(capsys, "run", "--once", "--follow")
    assert (code, out) == (2, "")
    assert err.endswith("Error: --follow goes on and --once ends: give one of them.\n")
    code, _out, err = said(capsys, "run", "--once")
    assert (code, err.split("]")[0]) == (1, "[PROJECT_NOT_FOUND")


def test_a_timestamp_that_is_none_is_wrong_usage(here, capsys):
    code, out, err = said(capsys, "dead-letters", "list", "--since", "yesterday")
    assert (code, out) == (2, "")
    assert err.endswith(
        "Error: Invalid value for '--since': 'yesterday' is no timestamp, for example 2026-01-31T12:00:00Z.\n"
    )


@pytest.mark.parametrize("command", ["list", "show", "replay", "discard"])
def test_a_reason_that_is_none_is_wrong_usage_and_the_reasons_are_listed(command, here, capsys):
    code, out, err = said(capsys, "dead-letters", command, "--reason", "INVALID_JSN")
    assert (code, out) == (2, "")
    assert (
        "Error: Invalid value for '--reason': 'INVALID_JSN' is no reason of a dead letter. Did you mean "
        "'INVALID_JSON'? Reasons: "
    ) in err
    assert " EXPECTATION, EXPRESSION_FAILED, FIELD_AMBIGUOUS, " in err
    code, out, err = said(capsys, "dead-letters", command, "--reason", "FOO", "--output", "json")
    assert json.loads(err)["message"].startswith("Invalid value for '--reason': 'FOO' is no reason of a dead letter. ")


def test_kinds_are_the_files_in_the_folders(capsys):
    code, out, err = said(capsys, "kinds", "--output", "json")
    assert (code, err) == (0, "")
    package = Path(rivermouth.__file__).parent
    found = {(each["family"], each["name"]) for each in json.loads(out)["kinds"]}
    for family in ("formats", "actions"):
        for file in (package / family).glob("[!_]*.py"):
            assert (family, file.stem) in found
    assert all(each["about"].endswith(".") for each in json.loads(out)["kinds"])


def test_kinds_as_text(capsys):
    code, out, err = said(capsys, "kinds")
    assert (code, err) == (0, "")
    assert out.startswith("family  name          about\n")
    assert "action  drop          The record is counted and kept nowhere.\n" in out


@pytest.mark.parametrize("spoken", [(), ("--output", "json")])
def test_the_json_schema_for_editors(spoken, capsys):
    code, out, err = said(capsys, "schema", "json", *spoken)
    assert (code, err, json.loads(out)) == (0, "", project_schema())


def test_init_writes_a_project_that_is_in_order(here, capsys):
    assert said(capsys, "init") == (0, "rivermouth.yml is written. Change it, and then: rivermouth validate\n", "")
    project = Project.load("rivermouth.yml", environ={})
    validate_static(project)
    assert project.spec.name == "shop"
    assert list(project.spec.flows) == ["events_raw", "events"]


def test_init_leaves_a_file_that_is_there(here, capsys):
    (here / "rivermouth.yml").write_text("mine")
    assert said(capsys, "init") == (
        1,
        "",
        (
            "[PROJECT_EXISTS] rivermouth.yml is there already; it was not changed\n"
            "  hint: edit rivermouth.yml, or name another file: -f other.yml\n"
        ),
    )
    assert (here / "rivermouth.yml").read_text() == "mine"


def test_init_into_a_folder_that_is_not_there(here, capsys):
    assert said(capsys, "init", "-f", "no/such/rivermouth.yml") == (
        1,
        "",
        (
            "[ARGUMENT_INVALID] --file: no/such/rivermouth.yml cannot be written: No such file or directory; "
            "nothing was run\n"
            "  hint: name a file in a folder that is there\n"
        ),
    )


@pytest.mark.parametrize("folder", ["3 Größe!", "__", "shop-2"])
def test_init_names_the_project_after_any_folder(folder, tmp_path, monkeypatch, capsys):
    (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / folder)
    assert said(capsys, "init")[0] == 0
    assert Project.load("rivermouth.yml", environ={}).spec.name in {"project-3-Gr--e", "project", "shop-2"}


def test_an_error_of_ours_as_text_and_as_json(here, capsys):
    assert said(capsys, "run") == (
        1,
        "",
        "[PROJECT_NOT_FOUND] no project file at rivermouth.yml; nothing was read\n  hint: rivermouth init\n",
    )
    code, out, err = said(capsys, "run", "--output", "json")
    assert (code, out) == (1, "")
    assert json.loads(err) == {
        "code": "PROJECT_NOT_FOUND",
        "message": "no project file at rivermouth.yml; nothing was read",
        "at": None,
        "hint": "rivermouth init",
    }


def test_commands_about_flows_say_so_where_only_a_pipeline_is(here, capsys):
    (here / "pipeline.yml").write_text("name: shop\n")
    assert said(capsys, "rebuild", "orders") == (
        1,
        "",
        (
            "[FLOWS_NOT_FOUND] there are no flows here: rivermouth.yml is missing, and pipeline.yml defines a pipeline"
            "; nothing was read\n"
            "  hint: for a pipeline: rivermouth validate, plan, run, status, audit, dead-letters, tables\n"
        ),
    )


def test_settings_of_a_pipeline_that_are_named_mean_that_alone(here, capsys):
    """A project file with flows is in the same folder and gives the lake."""
    flows = "flows:\n  a: {topics: [a], format: raw, table: b.c}\n"
    (here / "rivermouth.yml").write_text(f"lake: ./lake\nkafka: {{bootstrap_servers: x:1}}\n{flows}")
    (here / "code.sql").write_text("CREATE MATERIALIZED VIEW v AS SELECT 1 AS a;\n")
    (here / "mine.yml").write_text("name: shop\nlibraries: [{file: {path: code.sql}}]\n")
    assert said(capsys, "status", "-f", "mine.yml") == (0, "pipeline shop: no update has run yet\n", "")
    assert said(capsys, "audit", "-f", "mine.yml")[1].startswith("pipeline shop: nothing to audit")
    assert said(capsys, "dead-letters", "list", "-f", "mine.yml") == (0, "no dead letters\n", "")
    pipelines, flows = meant("mine.yml", (), SettingsChoice())
    assert are_alone("mine.yml", (), pipelines, flows)
    (here / "mine.yml").rename(here / "pipeline.yml")
    assert said(capsys, "audit", "-f", ".") == (
        1,
        "",
        "[PROJECT_INVALID] . is a folder; nothing was run\n  hint: name the file in it: rivermouth.yml\n",
    )


def test_several_problems_at_once_in_json():
    problems = (ProjectNotFound(path="a.yml"), ProjectInvalid(at="b.yml:2", detail="no", fix="yes"))
    told = plain(ProjectProblems(count=2, file="b.yml", problems=problems))
    assert told["message"] == "2 problems in b.yml; nothing was run"
    assert [each["at"] for each in told["problems"]] == [None, "b.yml:2"]


def test_an_unknown_flow(here, capsys):
    said(capsys, "init")
    for command in ("run", "plan", "validate", "status"):
        assert said(capsys, command, "event") == (
            1,
            "",
            "[FLOW_UNKNOWN] no flow named 'event' in this project; nothing was run\n  hint: did you mean 'events'?\n",
        )


def test_an_option_without_its_value_leads_on(capsys):
    assert said(capsys, "run", "--full-refresh") == (
        2,
        "",
        (
            "Error: Option '--full-refresh' requires an argument.\n"
            "  hint: rivermouth run --full-refresh-all for a pipeline; "
            "rivermouth rebuild FLOW for a flow over a table\n"
        ),
    )


def test_what_is_no_address_of_a_broker_is_refused_at_once(here, capsys):
    code, out, err = said(capsys, "topics", "create", "orders", "--bootstrap-servers", "http://broker-1:9092")
    assert (code, out) == (1, "")
    assert err == (
        "[ARGUMENT_INVALID] --bootstrap-servers: a broker is written as host:port, without http://; nothing was run\n"
        "  hint: --bootstrap-servers broker-1:9092\n"
    )
    (here / "rivermouth.yml").write_text("lake: ./lake\nkafka: {bootstrap_servers: 'broker-1:9092/'}\nflows: {}\n")
    code, out, err = said(capsys, "topics", "create", "orders")
    assert (code, out) == (1, "")
    assert err == (
        "[ARGUMENT_INVALID] kafka.bootstrap_servers: each broker is written as host:port; nothing was run\n"
        "  hint: bootstrap_servers: broker-1:9092\n"
    )


def test_following_a_flow_that_ends(here, capsys):
    said(capsys, "init")
    text = (here / "rivermouth.yml").read_text().replace("format: raw", "format: raw\n    ending_offsets: latest")
    (here / "rivermouth.yml").write_text(text)
    line = text.splitlines().index("    ending_offsets: latest") + 1
    assert said(capsys, "run", "--follow") == (
        1,
        "",
        (
            "[ARGUMENT_INVALID] --follow: flow events_raw ends at ending_offsets; nothing was run\n"
            f"  at: rivermouth.yml:{line}\n"
            "  hint: rivermouth run events_raw, without --follow; or remove ending_offsets\n"
        ),
    )


def test_a_kafka_option_that_is_no_pair(here, capsys):
    code, out, err = said(capsys, "ingest", "orders", "--kafka-option", "hunter2")
    assert (code, out) == (1, "")
    assert err == (
        "[ARGUMENT_INVALID] --kafka-option: an option of Kafka is written as NAME=VALUE; nothing was run\n"
        "  hint: --kafka-option security.protocol=SASL_SSL\n"
    )


def test_switches_of_ingest_are_strict(here, capsys):
    assert said(capsys, "ingest", "orders", "--debug", "maybe") == (
        1,
        "",
        (
            "[ARGUMENT_INVALID] debug: 'maybe' is none of true, yes, 1, false, no, 0; nothing was run\n"
            "  hint: debug=true\n"
        ),
    )


def test_an_empty_topic_has_its_own_message(here, capsys):
    assert said(capsys, "ingest", "") == (
        1,
        "",
        (
            "[TOPIC_NAME_EMPTY] topic: the name of a topic is empty; nothing was run\n"
            "  hint: name a topic, for example: orders\n"
        ),
    )


def test_an_unexpected_error_is_one_line_and_a_trace_in_a_file(monkeypatch, capsys):
    def broken(family):
        raise RuntimeError("wheels came off\nand rolled away")

    monkeypatch.setattr(kinds_command, "kind_names", broken)
    code, out, err = said(capsys, "kinds")
    assert (code, out) == (1, "")
    found = re.fullmatch(r"\[UNEXPECTED\] RuntimeError: wheels came off\n  hint: less (\S+)\n", err)
    assert found, err
    trace = Path(found[1])
    assert trace.read_text().startswith("Traceback")
    assert "and rolled away" in trace.read_text()
    assert trace.stat().st_mode & 0o077 == 0
    trace.unlink()
    code, out, err = said(capsys, "kinds", "--output", "json")
    told = json.loads(err)
    assert (code, told["code"], told["message"]) == (1, "UNEXPECTED", "RuntimeError: wheels came off")
    Path(told["hint"].removeprefix("less ")).unlink()
    code, out, err = said(capsys, "kinds", "--traceback")
    assert code == 1
    assert err.startswith("Traceback")
    assert err.endswith("and rolled away\n\n")


def test_a_reader_that_has_seen_enough_is_no_error():
    command = f"{sys.executable} -m rivermouth schema json | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("{\n0\n", "")


def test_the_package_offers_what_it_says_and_imports_nothing_for_it():
    code = "import rivermouth, sys; print('pyspark' in sys.modules, dir(rivermouth)); rivermouth.nothing"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    public = ["LossDecision", "Project", "Record", "RecordVerdict", "RivermouthError", "__version__"]
    public += ["infer_schema", "ingest", "read_topic"]
    assert done.stdout == f"False {public}\n"
    assert done.stderr.endswith("AttributeError: module 'rivermouth' has no attribute 'nothing'\n")
    assert (rivermouth.Project, rivermouth.RivermouthError.__name__) == (Project, "RivermouthError")


def test_tables_of_text():
    assert columns(("name", "n"), [("a", 12000), ("long", None)]) == "name       n\na     12,000\nlong       -"
    assert columns(("x", "rate"), [("a", 12.34), ("b", 1234.5)]) == "x   rate\na   12.3\nb  1,234"
    assert [count(1, "batch"), count(2, "batch"), count(1000, "offset")] == ["1 batch", "2 batches", "1,000 offsets"]
    assert to_json({"a": b"\xff", 1: [None, 2.5]}) == '{"a": "ff", "1": [null, 2.5]}'


@pytest.mark.parametrize(("file", "passes"), [(py4j.java_gateway.__file__, False), (__file__, True)])
def test_py4j_says_nothing_of_a_jvm_that_ends_in_mid_answer(file, passes):
    """It does so through the root logger."""
    record = logging.LogRecord("root", logging.ERROR, file, 1, "Exception while sending command.", (), None)
    assert main_module._is_not_of_py4j(record) == passes


@pytest.mark.parametrize(
    ("typed", "complaint"),
    [
        (
            ["run", "--full-refresh", "orders"],
            (
                "--refresh, --full-refresh and --reset-checkpoint are about tables of a pipeline, and there is none "
                "here. Of a flow over a table: rivermouth rebuild FLOW."
            ),
        ),
        (["plan", "--param", "a=b"], "--profile and --param are about pipelines, and there is none here."),
        (["validate", "--param", "ab"], "--param ab: write it as KEY=VALUE."),
        (["run", "a.sql", "--update-schema"], "--update-schema is about flows, and a pipeline is meant."),
        (["run", "a.sql", "flow"], "flow is no source file: name files, or pipelines and flows."),
        (
            ["run", "a.sql", "--profile", "prod"],
            "--profile is about the settings of a pipeline, and a.sql is a source file.",
        ),
        (["tables", "read", "a.sql"], "name one table: its rows are printed."),
        (
            ["dead-letters", "discard", "a.sql", "b"],
            "b is no table that a has made, and no source file.",
        ),
    ],
)
def test_options_of_pipelines_and_of_flows_are_told_apart(here, capsys, typed, complaint):
    (here / "rivermouth.yml").write_text(
        "lake: ./lake\nflows:\n  orders: {topics: [orders], format: raw, table: a.b}\n"
    )
    (here / "a.sql").write_text("CREATE MATERIALIZED VIEW a AS SELECT 1 AS one;\n")
    code, out, err = said(capsys, *typed)
    assert (code, out) == (2, "")
    assert err.endswith(f"Error: {complaint}\n")


SHOPS = """
lake: ./lake
flows:
  orders: {topics: [orders], format: raw, table: a.b}
pipelines:
  one: {files: [a.sql]}
  two: {files: [b.sql]}
"""
TRIAL = "--debug is a trial of flows, and pipeline"
MANY = "is about tables of one pipeline, and more is meant: name"


@pytest.mark.parametrize(
    ("typed", "complaint"),
    [
        (["run", "--refresh", "a"], f"--refresh {MANY} one or two."),
        (["plan", "--full-refresh-all"], f"--full-refresh-all {MANY} one or two."),
        (["run", "one", "two", "--full-refresh", "a"], f"--full-refresh {MANY} one or two."),
        (["run", "one", "orders", "--reset-checkpoint", "a"], f"--reset-checkpoint {MANY} one."),
        (["run", "--debug"], f"{TRIAL} one would be refreshed: name the flows alone."),
        (["run", "two", "orders", "--debug"], f"{TRIAL} two would be refreshed: name the flows alone."),
        (["run", "one", "--refresh", ""], "--refresh names no table."),
        (["run", "one", "--full-refresh", " , "], "--full-refresh names no table."),
        (
            ["run", "one", "--accept-data-loss"],
            "--accept-data-loss is about tables that are cleared: add --full-refresh or --full-refresh-all.",
        ),
        (["plan", "orders", "--param", "a=b"], "--profile and --param are about pipelines, and orders is none."),
        (
            ["dead-letters", "discard", "--topic", "orders"],
            "--topic is about flows; dead letters of a pipeline are chosen by --expectation.",
        ),
        (
            ["dead-letters", "list", "--since", "2026-01-01"],
            (
                "--since is about flows; dead letters of a pipeline are chosen by --expectation, --reason, --field, "
                "--topic, --partition."
            ),
        ),
    ],
)
def test_what_cannot_be_done_with_all_is_not_done_with_a_part(here, capsys, monkeypatch, typed, complaint):
    (here / "rivermouth.yml").write_text(SHOPS)
    for name in ("a", "b"):
        (here / f"{name}.sql").write_text(f"CREATE MATERIALIZED VIEW {name} AS SELECT 1 AS one;\n")
    for part in (session_module, letters_module):
        monkeypatch.setattr(part, "ManagedSession", None)
    code, out, err = said(capsys, *typed)
    assert (code, out) == (2, "")
    assert err.endswith(f"Error: {complaint}\n")


def test_several_pipelines_are_cleared_where_they_are_named(here):
    (here / "rivermouth.yml").write_text(SHOPS)
    for name in ("a", "b"):
        (here / f"{name}.sql").write_text(f"CREATE MATERIALIZED VIEW {name} AS SELECT 1 AS one;\n")
    pipelines, _ = meant("rivermouth.yml", ("one", "two"), SettingsChoice())
    check_selection(Selection(full_refresh_all=True), ("one", "two"), pipelines, alone=True)
    check_selection(Selection(refresh=("a",)), ("one",), pipelines[:1], alone=True)
    assert [each.is_alone for each in pipelines] == [False, False]


def test_source_files_are_of_the_project_that_is_named(here, capsys):
    (here / "a.sql").write_text("CREATE MATERIALIZED VIEW a AS SELECT 1 AS one;\n")
    (here / "rivermouth.yml").write_text("lake: ./lake\n")
    (here / "prod").mkdir()
    (here / "prod/pipeline.yml").write_text("name: shop\n")
    missing = "no project file at prod/rivermouth.yml; nothing was read\n  hint: rivermouth init -f prod/rivermouth.yml"
    assert said(capsys, "status", "-f", "prod/rivermouth.yml", "a.sql") == (1, "", f"[PROJECT_NOT_FOUND] {missing}\n")
    for place in ("rivermouth.yml", "other.yml"):
        (here / "prod" / place).write_text("lake: ./lake\n")
    for named in ("prod", "prod/rivermouth.yml", "prod/other.yml"):
        ([pipeline], _) = meant(named, ("a.sql",), SettingsChoice())
        assert pipeline.project.lake == str(here / "prod/lake")
    ([pipeline], others) = meant("rivermouth.yml", ("a.sql", "a"), SettingsChoice())
    assert (pipeline.project.lake, others, pipeline.is_alone) == (str(here / "lake"), (), True)
    with pytest.raises(RivermouthError) as refused:
        run_pipeline([here / "a.sql"], profile="prod")
    assert str(refused.value) == (
        "[ARGUMENT_INVALID] profile: it is about the settings of a pipeline, and "
        f"{here}/a.sql is a source file; nothing was run\n  hint: name the settings file, or leave profile out"
    )
