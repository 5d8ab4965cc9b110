"""Python's door: a counterpart for each command, and errors of ours alone for whatever is called wrongly."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import click
import pytest
from pydantic import ValidationError

import rivermouth
from rivermouth.cli.main import cli
from rivermouth.errors import ArgumentInvalid, RivermouthError
from rivermouth.formats.json import Json
from rivermouth.project.api import Project
from rivermouth.sinks.history import History
from rivermouth.sinks.upsert import Upsert
from rivermouth.spec import (
    Catalog,
    Expectation,
    Flow,
    KafkaCluster,
    Lookup,
    Maintenance,
    Pipeline,
    ProjectSpec,
    StartingOffsets,
    Table,
    Trigger,
)

PAGE = Path(__file__).parents[2] / "docs/how-to/use-from-python.md"
# Commands about a machine or a new project: the page names them as those of the shell alone.
SHELL = ("init", "demo", "convert", "kinds", "schema json", "jars", "dev")
COUNTERPARTS = {
    "run": "project.run",
    "validate": "project.validate",
    "plan": "project.plan",
    "check-records": "project.check_records",
    "status": "project.status",
    "audit": "project.audit",
    "doctor": "project.doctor",
    "rebuild": "project.rebuild",
    "checkpoint show": "project.checkpoints",
    "dead-letters list": "project.list_dead_letters",
    "dead-letters show": "project.show_dead_letters",
    "dead-letters replay": "project.replay_dead_letters",
    "dead-letters discard": "project.discard_dead_letters",
    "tables describe": "project.describe_tables",
    "tables read": "project.read_table",
    "tables optimize": "project.optimize_tables",
    "tables vacuum": "project.vacuum_tables",
    "tables forget": "project.forget",
    "schema show": "project.schema_versions",
    "schema infer": "project.infer_schema",
    "topics create": "project.create_topics",
    "topics read": "rivermouth.read_topic",
    "ingest": "rivermouth.ingest",
}


def commands(group=cli, path=()):
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name))


def test_each_command_has_a_counterpart_that_the_page_names():
    page = PAGE.read_text()
    of_shell = [each for each in commands() if each.startswith(SHELL)]
    assert sorted({*commands()} - {*of_shell}) == sorted(COUNTERPARTS)
    for command, called in COUNTERPARTS.items():
        home, name = called.split(".")
        function = getattr(Project if home == "project" else rivermouth, name)
        assert inspect.getdoc(function), called
        (line,) = (line for line in page.splitlines() if line.startswith(f"| `{command}` |"))
        assert f"`{called}(" in line
    (told,) = re.findall(r"The shell alone has (.*?):", page, re.DOTALL)
    assert re.findall(r"`([a-z ]+)`", told) == list(SHELL)


CHECKED = [
    each
    for each in (
        *(getattr(Project, name) for name in dir(Project) if not name.startswith("_")),
        *(rivermouth.ingest, rivermouth.read_topic, rivermouth.infer_schema),
    )
    if hasattr(each, "__wrapped__")
]


def parameters():
    for function in CHECKED:
        for name, each in inspect.signature(function).parameters.items():
            if name not in ("self", "cls", "records") and each.kind is not inspect.Parameter.VAR_KEYWORD:
                yield pytest.param(function, name, id=f"{function.__qualname__}-{name}")


def test_each_public_method_is_checked():
    names = {each.__name__ for each in CHECKED}
    methods = {called.split(".")[1] for called in COUNTERPARTS.values()}
    assert (
        methods | {"load", "from_spec", "flow", "places", "create_temp_views", "update_schema", "broken_rules"} == names
    )


@pytest.mark.parametrize(("function", "name"), [*parameters()])
def test_an_argument_of_no_type_at_all_is_named(function, name, tmp_path):
    project = Project.from_spec({"lake": str(tmp_path)})
    given = inspect.signature(function).parameters
    values = {"name": "x", "flow": "x", "records": [], "topic": "x", "spec": {}}
    needed = {each: values[each] for each, kind in given.items() if kind.default is kind.empty and each in values}
    bound = [project] if "self" in given else []
    if given[name].kind is inspect.Parameter.VAR_POSITIONAL:
        call = lambda: function(*bound, object(), **needed)  # noqa: E731
    else:
        call = lambda: function(*bound, **{**needed, name: object()})  # noqa: E731
    with pytest.raises(ArgumentInvalid) as raised:
        call()
    error = raised.value
    assert error.facts["argument"] == name
    assert error.message.endswith("found object; nothing was run")
    assert error.next_step == f"help(rivermouth.{function.__qualname__})"


def test_hints_name_what_help_explains():
    for function in CHECKED:
        home, _, name = function.__qualname__.rpartition(".")
        assert inspect.getdoc(getattr(getattr(rivermouth, home) if home else rivermouth, name))


ARGUMENT = "[ARGUMENT_INVALID] {}; nothing was run\n  hint: {}"
WRONG = {
    "ProjectSpec(topic=...)": (
        lambda _: ProjectSpec(lake="./lake", topic="x"),
        (
            "[UNKNOWN_KEY] unknown key 'topic' in ProjectSpec; nothing was run\n"
            "  hint: known: catalog, flows, kafka, lake, maintenance, name, pipelines, places, schema_registry, spark"
        ),
    ),
    "ProjectSpec(flow=...)": (
        lambda _: ProjectSpec(lake="./lake", flow={}),
        "[UNKNOWN_KEY] unknown key 'flow' in ProjectSpec; nothing was run\n  hint: did you mean 'flows'?",
    ),
    "ProjectSpec, two problems": (
        lambda _: ProjectSpec(lake=5, kafka={"password": ["secret"], "options": {}, "servers": "x"}),
        (
            "[PROJECT_INVALID] 3 problems in ProjectSpec; nothing was run\n"
            "[PROJECT_INVALID] ProjectSpec: lake: Input should be a valid string; nothing was run\n"
            "  hint: help(rivermouth.spec.ProjectSpec)\n"
            "[PROJECT_INVALID] ProjectSpec: kafka.password: Input should be a valid string; nothing was run\n"
            "  hint: help(rivermouth.spec.ProjectSpec)\n"
            "[UNKNOWN_KEY] unknown key 'servers' in ProjectSpec.kafka; nothing was run\n"
            "  hint: remove it"
        ),
    ),
    "Flow without a table": (
        lambda _: Flow(name="orders", topics=["orders"], format="raw"),
        "[PROJECT_INVALID] Flow: table: it is missing; nothing was run\n  hint: help(rivermouth.spec.Flow)",
    ),
    "from_spec of a mapping": (
        lambda _: Project.from_spec({"lake": "./lake", "flows": {"orders": {"topics": "orders", "format": "raw"}}}),
        "[PROJECT_INVALID] flows.orders: table is missing; nothing was run\n  hint: table: bronze.orders",
    ),
    "from_spec of nothing": (
        lambda _: Project.from_spec(None),
        ARGUMENT.format(
            "spec: expected ProjectSpec or Mapping[str, Any], found NoneType", "help(rivermouth.Project.from_spec)"
        ),
    ),
    "ingest(wrong=...)": (
        lambda _: rivermouth.ingest("orders", lakes="./lake"),
        ARGUMENT.format("lakes: ingest has no such argument", "did you mean 'lake'?"),
    ),
    "ingest of a number": (
        lambda _: rivermouth.ingest("orders", kafka_options=5),
        ARGUMENT.format(
            "kafka_options: expected Mapping[str, str | int | bool] or None, found int", "help(rivermouth.ingest)"
        ),
    ),
    "read_topic(sink=...)": (
        lambda _: rivermouth.read_topic("orders", sink="append"),
        ARGUMENT.format(
            "sink: read_topic has no such argument",
            "known: base, bootstrap_servers, compression, environ, format, kafka_options, key_format, keys, schema, "
            "sequence_by, starting_offsets",
        ),
    ),
    "infer_schema(sample=...)": (
        lambda _: rivermouth.infer_schema("orders", sample="all"),
        ARGUMENT.format("sample: expected int or None, found str", "help(rivermouth.infer_schema)"),
    ),
    "dead letters by a wrong word": (
        lambda project: project.list_dead_letters(reasons="EXPECTATION"),
        ARGUMENT.format("reasons: Project.list_dead_letters has no such argument", "did you mean 'reason'?"),
    ),
    "dead letters by a wrong time": (
        lambda project: project.show_dead_letters(since="today"),
        ARGUMENT.format("since: expected dt.datetime or None, found str", "help(rivermouth.Project.show_dead_letters)"),
    ),
    "a list where names are arguments": (
        lambda project: project.run(["orders"]),
        ARGUMENT.format("names: expected str, found list", "help(rivermouth.Project.run)"),
    ),
    "a text where a list is meant": (
        lambda project: project.optimize_tables("orders", zorder="id"),
        ARGUMENT.format("zorder: expected Sequence[str], found str", "help(rivermouth.Project.optimize_tables)"),
    ),
    "a reason that is none": (
        lambda project: project.replay_dead_letters(reason="INVALID_JSN"),
        ARGUMENT.format("reason: 'INVALID_JSN' is no reason of a dead letter", "did you mean 'INVALID_JSON'?"),
    ),
    "a stage that is none": (
        lambda project: project.list_dead_letters(stage="parse"),
        ARGUMENT.format("stage: 'parse' is no stage of a dead letter", "known: conform, decode, expectation, lookup"),
    ),
    "a status that is none": (
        lambda project: project.show_dead_letters(status="all"),
        ARGUMENT.format("status: 'all' is no status of a dead letter", "known: discarded, open, replayed"),
    ),
    "a flow that is not there": (
        lambda project: project.check_records("orders", []),
        "[FLOW_UNKNOWN] ...",
    ),
}


@pytest.mark.parametrize("call", WRONG)
def test_what_is_called_wrongly_is_an_error_of_ours(call, tmp_path):
    wrong, text = WRONG[call]
    with pytest.raises(RivermouthError) as raised:
        wrong(Project.from_spec({"lake": str(tmp_path)}))
    if text.endswith("..."):
        assert str(raised.value).startswith(text.removesuffix("..."))
    else:
        assert str(raised.value) == text


def test_a_call_that_python_refuses_names_the_method(tmp_path):
    project = Project.from_spec({"lake": str(tmp_path)})
    with pytest.raises(TypeError, match=r"^Project\.run\(\) got an unexpected keyword argument 'folow'$"):
        project.run(folow=True)
    with pytest.raises(TypeError, match=r"^Project\.read_table\(\) missing 1 required positional argument: 'name'$"):
        project.read_table()


def test_a_mapping_a_spec_and_a_file_are_one_project(tmp_path):
    flows = {"orders": {"topics": ["orders"], "format": "raw", "table": "bronze.orders"}}
    body = {"lake": "./lake", "flows": flows}
    file = tmp_path / "rivermouth.yml"
    file.write_text(
        "lake: ./lake\nflows:\n  orders:\n    topics: [orders]\n    format: raw\n    table: bronze.orders\n"
    )
    spec = ProjectSpec(**body)
    flow = Flow(name="orders", **flows["orders"])
    of_nouns = Project.from_spec({"lake": "./lake", "flows": {"orders": flow}})
    assert Project.from_spec(body).spec == spec == Project.load(file).spec == of_nouns.spec


def test_nouns_within_a_mapping_are_what_they_are_in_a_spec():
    orders = Flow(
        name="orders",
        topics=["orders"],
        format=Json(schema="id bigint, at timestamp, items array<struct<id: int>>"),
        sink=History(**{"keys": ["id"], "sequence_by": "kafka_offset", "from": "snapshot", "rows": "items"}),
        lookup=Lookup(table="silver.customers", on="id", columns=["name"]),
        trigger=Trigger(every="2 seconds"),
        table=Table(name="silver.orders", partition_by=({"day": "date(kafka_timestamp)"},)),
    )
    visits = {"name": "visits", "topics": ["visits"], "table": "silver.visits"}
    parts = {
        "format": Json(schema="id bigint"),
        "sink": Upsert(keys=["id"]),
        "starting_offsets": StartingOffsets(kind="latest"),
    }
    parts["expectations"] = (Expectation(name="known", condition="id > 0", action="drop"),)
    body = {
        "lake": "./lake",
        "kafka": KafkaCluster(bootstrap_servers="broker:9092", options={"client.id": "a"}),
        "catalog": Catalog(name="spark_catalog", schema="{schema}_x"),
        "maintenance": Maintenance(optimize="daily"),
        "flows": {"orders": orders, "visits": {**visits, **parts}},
        "pipelines": {"p": Pipeline(name="p", files=["a.sql"], schema="silver", configuration={"k": 1})},
    }
    assert Project.from_spec(body).spec == ProjectSpec(**body)


def test_what_is_refused_of_a_noun_is_not_quoted():
    for make in (
        lambda: KafkaCluster(password=48151623),
        lambda: KafkaCluster(options={"a": [48151623]}),
        lambda: ProjectSpec(lake="x", kafka={"password": 48151623}),
        lambda: Project.from_spec({"lake": "x", "kafka": {"password": 48151623}}),
    ):
        with pytest.raises((ValidationError, RivermouthError)) as raised:
            make()
        assert "password" in str(raised.value) or "options" in str(raised.value)
        assert "48151623" not in str(raised.value)


def test_variables_in_a_mapping_are_those_of_a_file():
    body = {"lake": "./${LAKE}", "flows": {"orders": {"topics": "o", "format": "raw", "table": "${STAGE}.orders"}}}
    project = Project.from_spec(body, environ={"STAGE": "test", "LAKE": "lake"})
    assert project.spec.flows["orders"].table.name == "test.orders"
    assert project.spec.lake == "./${LAKE}"
    with pytest.raises(RivermouthError) as raised:
        Project.from_spec(body, environ={})
    assert (raised.value.code, raised.value.at) == ("ENVIRONMENT_MISSING", None)
