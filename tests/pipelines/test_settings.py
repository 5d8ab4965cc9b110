"""Which pipelines a folder has: each kind of settings, what it means, and what is refused with its line."""

from __future__ import annotations

import getpass
import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from rivermouth.errors import RivermouthError, SecretMissing
from rivermouth.pipelines import commands
from rivermouth.pipelines.settings import EventLog, expanded_configuration, find_pipelines, single_files
from rivermouth.project.api import Project
from rivermouth.project.file.dump import to_yaml
from rivermouth.project.file.json_schema import project_schema
from rivermouth.project.resolved.secrets import Environment
from rivermouth.project.resolved.static_checks import validate_static

USER = getpass.getuser()


@pytest.fixture
def make(tmp_path):
    """A folder of files by name; a list of names makes empty ones."""

    def made(files: dict[str, str], *empty: str) -> Path:
        folder = tmp_path / "shop"
        for name, text in {**dict.fromkeys(empty, ""), **files}.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        folder.mkdir(exist_ok=True)
        return folder

    return made


def one(folder, **options):
    (found,) = find_pipelines(folder, environ={}, **options)
    return found


def names(settings):
    return [settings.shown(path) for path in settings.files]


def refused(folder, **options):
    with pytest.raises(RivermouthError) as raised:
        find_pipelines(folder, **{"environ": {}, **options})
    return str(raised.value)


SPARK = """\
name: orders
storage: file:///state
catalog: main
database: silver
configuration:
  spark.sql.shuffle.partitions: 010
  greeting: yes
  empty: ""
libraries:
  - glob:
      include: transformations/**
"""


# --- Spark's settings ---


@pytest.mark.parametrize("name", ["spark-pipeline.yml", "spark-pipeline.yaml", "pipeline.yml", "pipeline.yaml"])
def test_settings_of_spark(make, name):
    folder = make({name: SPARK}, "transformations/b.sql", "transformations/a.py", "transformations/deep/c.ipynb")
    found = one(folder)
    assert found == one(folder / name)
    assert names(found) == ["transformations/a.py", "transformations/b.sql", "transformations/deep/c.ipynb"]
    assert (found.name, found.folder, str(found.at)) == ("orders", folder, f"{name}:1")
    assert (found.catalog, found.schema, found.storage) == ("main", "silver", "file:///state")
    assert (found.continuous, found.profile, found.notes, found.is_project) == (False, None, (), False)
    # Values are the texts that are written: what they mean is up to Spark.
    assert found.configuration == {"spark.sql.shuffle.partitions": "010", "greeting": "yes", "empty": ""}


@pytest.mark.parametrize(
    ("library", "expected"),
    [
        ("glob: {include: src/**}", ["src/a.py", "src/b.sql", "src/sub/c.py"]),
        ("glob: {include: ./src/**/*.py}", ["src/a.py", "src/sub/c.py"]),
        ("glob: {include: src/*}", ["src/a.py", "src/b.sql"]),
        ("glob: {include: 'src/[a]*'}", ["src/a.py"]),
        ("glob: {include: src/a.py}", ["src/a.py"]),
        ("glob: {include: '**'}", ["src/a.py", "src/b.sql", "src/sub/c.py"]),
        ("file: {path: src/b.sql}", ["src/b.sql"]),
        ("notebook: {path: ./src/b}", ["src/b.sql"]),
        ("notebook: {path: /Repos/ann@example.com/shop/src/sub/c}", ["src/sub/c.py"]),
        ("notebook: {path: src/b}\n  - glob: {include: src/**}", ["src/b.sql", "src/a.py", "src/sub/c.py"]),
    ],
)
def test_libraries(make, library, expected):
    others = ("src/__pycache__/a.py", "src/.ipynb_checkpoints/a.ipynb", "src/readme.md", "src/data.csv")
    folder = make({"pipeline.yml": f"name: a\nlibraries:\n  - {library}\n"}, *expected, *others, "src/b.sql")
    for name in ("src/a.py", "src/sub/c.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    assert names(one(folder)) == expected


def test_a_path_of_a_workspace_is_found_below_the_folder_and_noted(make):
    text = "name: a\nroot_path: /Workspace/x/src\nlibraries:\n  - glob: {include: /Workspace/x/src/**}\n"
    found = one(make({"pipeline.yml": text}, "src/a.py"))
    assert names(found) == ["src/a.py"]
    assert found.root_path == found.folder / "src"
    assert [(str(at), sentence) for at, sentence in found.notes] == [
        ("pipeline.yml:4", "/Workspace/x/src does not exist here; src is used"),
        ("pipeline.yml:2", "/Workspace/x/src does not exist here; src is used"),
    ]


def test_params_win(make):
    folder = make({"pipeline.yml": SPARK}, "transformations/a.py")
    assert one(folder, params={"greeting": "no", "new": "1"}).configuration == {
        "spark.sql.shuffle.partitions": "010",
        "greeting": "no",
        "empty": "",
        "new": "1",
    }


def test_what_is_true_to_each_reader_of_yaml_is_true_in_any_letter_case(make):
    said = "{a: True, b: 'True', c: FALSE, d: yes, e: \"FALSE\", f: true, g: tRUE}"
    text = f"name: a\ncontinuous: TRUE\nconfiguration: {said}\nlibraries: [{{file: {{path: a.py}}}}]\n"
    found = one(make({"pipeline.yml": text}, "a.py"))
    assert found.continuous
    assert list(found.configuration.values()) == ["true", "True", "false", "yes", "FALSE", "true", "tRUE"]


def test_parameters_are_values_of_the_configuration(make):
    text = SPARK + "parameters: {greeting: no, source: dev, 'start-date': 2026-01-01}\n"
    found = one(make({"pipeline.yml": text}, "transformations/a.py"), params={"source": "prod"})
    assert found.configuration == {
        "spark.sql.shuffle.partitions": "010",
        "greeting": "no",
        "empty": "",
        "source": "prod",
        "start-date": "2026-01-01",
    }
    assert found.notes == ()


def test_values_of_the_configuration_are_not_shown(make):
    assert "010" not in repr(one(make({"pipeline.yml": SPARK}, "transformations/a.py")))


@pytest.mark.parametrize("seconds", ["2 days", "-1", "nan", "inf"])
def test_how_long_deleted_keys_are_remembered_is_a_number(make, seconds):
    name = "pipelines.cdc.tombstoneGCThresholdInSeconds"
    folder = make(
        {"pipeline.yml": SPARK.replace("greeting", name).replace("yes", f"'{seconds}'")}, "transformations/a.py"
    )
    with pytest.raises(RivermouthError) as raised:
        commands.pipelines(folder)
    assert str(raised.value) == (
        f"[PIPELINE_SETTINGS_INVALID] configuration: {name} is no number of seconds; nothing was run\n"
        f"  at: pipeline.yml:1\n  hint: {name} = 172800, for two days"
    )


# --- settings of Databricks ---

ONE_BUNDLE = """\
bundle: {name: shop}
include:
  - resources/*.yml
variables:
  catalog: {default: main}
  schema: {description: of the tables}
  size: {default: 7}
  tags: {type: complex, default: {a: b, c: "${var.size}"}}
targets:
  dev:
    mode: development
    default: true
    variables: {schema: "dev_${workspace.current_user.short_name}"}
  prod:
    variables:
      schema: prod
      catalog: {default: live}
      tags: {d: e}
    resources:
      pipelines:
        orders:
          continuous: true
          configuration: {size: 9}
          libraries:
            - notebook: {path: src/extra}
resources:
  schemas:
    raw: {name: raw_zone}
"""
PIPELINE_PART = """\
resources:
  pipelines:
    orders:
      name: "${bundle.name} orders ${bundle.target}"
      catalog: ${var.catalog}
      schema: ${var.schema}
      serverless: true
      photon: false
      root_path: ../src
      configuration:
        size: ${var.size}
        path: ${workspace.file_path}/src
        raw: ${resources.schemas.raw.name}
        secret: "{{secrets/scope/key}}"
        plain: ${NAME} ${secrets/x}
      event_log: {catalog: "${var.catalog}", schema: ops, name: events}
      environment: {dependencies: [--editable x, faker==1.0, 'a[b]', ./wheels/a.whl]}
      libraries:
        - notebook: {path: ../src/bronze}
        - glob: {include: ../src/sub/**}
  jobs:
    nightly: {tasks: ["${resources.pipelines.orders.id}"]}
"""
SOURCES = ("src/bronze.py", "src/sub/silver.sql", "src/extra.ipynb")


def test_a_bundle_with_its_default_target(make):
    folder = make({"databricks.yml": ONE_BUNDLE, "resources/orders.pipeline.yml": PIPELINE_PART}, *SOURCES)
    found = one(folder)
    assert found == one(folder / "databricks.yml") == one(folder / "resources" / "orders.pipeline.yml")
    assert (found.name, found.profile, found.folder) == ("shop orders dev", "dev", folder)
    assert (found.catalog, found.schema, found.continuous) == ("main", f"dev_{USER}", False)
    assert found.event_log == EventLog("events", "main", "ops")
    assert found.root_path == folder / "src"
    assert names(found) == ["src/bronze.py", "src/sub/silver.sql"]
    assert found.configuration == {
        "size": "7",
        "path": f"{folder}/src",
        "raw": "raw_zone",
        "secret": "{{secrets/scope/key}}",
        "plain": "${NAME} ${secrets/x}",
    }
    assert [(str(at), sentence) for at, sentence in found.notes] == [
        ("resources/orders.pipeline.yml:7", "serverless has no effect: rivermouth starts its own Spark session"),
        (
            "resources/orders.pipeline.yml:17",
            "environment has no effect: packages are not installed: pip install faker==1.0 'a[b]'",
        ),
        (
            "resources/orders.pipeline.yml:17",
            "environment: x is no folder here; no modules are imported from it",
        ),
        ("databricks.yml:13", f"${{workspace.current_user.short_name}} is {USER!r} here, the user of this machine"),
        ("resources/orders.pipeline.yml:12", "${workspace.file_path} is the folder of the bundle here"),
    ]


@pytest.mark.parametrize(
    ("entry", "folder", "note"),
    [
        ("--editable ${workspace.file_path}", "src", None),
        ("-e ..", "src", None),
        ("-e ..[dev]", "src", None),
        ("--editable='../lib'", "lib", None),
        ("../lib", "lib", None),
        ("/Workspace/Users/ann/shop/lib", "lib", "/Workspace/Users/ann/shop/lib does not exist here; lib is used"),
        ("-e git+https://host/x.git", None, None),
        ("../dist/x-1.whl", None, None),
        ("-r requirements.txt", None, None),
        ("../gone", None, "environment: ../gone is no folder here; no modules are imported from it"),
    ],
)
def test_packages_of_folders_are_imported_from_them(make, entry, folder, note):
    text = PIPELINE_PART.replace("--editable x, faker==1.0, 'a[b]', ./wheels/a.whl", json.dumps(entry) + ", faker")
    files = {
        "databricks.yml": ONE_BUNDLE,
        "resources/orders.pipeline.yml": text,
        "lib/x.py": "",
        "requirements.txt": "",
    }
    found = one(make(files, *SOURCES))
    assert found.packages == (() if folder is None else (found.folder / folder,))
    said = [sentence for at, sentence in found.notes if at.line == 17]
    effect = "environment has no effect:" if folder is None else f"environment: modules are imported from {folder};"
    assert said[0] == f"{effect} packages are not installed: pip install faker"
    assert said[1:] == ([] if note is None else [note])


def test_logins_of_addresses_of_packages_are_not_told(make):
    text = PIPELINE_PART.replace("--editable x", "git+https://ann:hunter2@host/x.git")
    found = one(make({"databricks.yml": ONE_BUNDLE, "resources/orders.pipeline.yml": text}, *SOURCES))
    (said,) = (sentence for _, sentence in found.notes if "packages" in sentence)
    assert said.endswith(" packages are not installed: pip install git+https://...@host/x.git faker==1.0 'a[b]'")


def test_a_target_adds_libraries_and_replaces_values(make):
    folder = make({"databricks.yml": ONE_BUNDLE, "resources/orders.pipeline.yml": PIPELINE_PART}, *SOURCES)
    found = one(folder, profile="prod")
    assert (found.name, found.catalog, found.schema, found.continuous) == ("shop orders prod", "live", "prod", True)
    assert found.configuration["size"] == "9"
    assert names(found) == ["src/bronze.py", "src/sub/silver.sql", "src/extra.ipynb"]


def test_params_and_the_environment_give_values_of_references(make):
    folder = make({"databricks.yml": ONE_BUNDLE, "resources/orders.pipeline.yml": PIPELINE_PART}, *SOURCES)
    params = {"var.catalog": "mine", "workspace.current_user.short_name": "ann", "size": "8", "more": "1"}
    (found,) = find_pipelines(folder, params=params, environ={"BUNDLE_VAR_size": "6", "BUNDLE_VAR_catalog": "theirs"})
    assert (found.catalog, found.schema) == ("mine", "dev_ann")
    assert (found.configuration["size"], found.configuration["more"]) == ("8", "1")
    assert "var.catalog" not in found.configuration
    (found,) = find_pipelines(folder, environ={"BUNDLE_VAR_size": "6"})
    assert found.configuration["size"] == "6"


# By what is written in a part of a bundle: what is written instead, its line, and what is told.
OF_A_VARIABLE = {
    "../src/bronze": (
        "'../${var.catalog}/bronze'",
        19,
        (
            "[PIPELINE_FILE_MISSING] {}: there is no file ../${var.catalog}/bronze; nothing was run\n{}\n"
            "  hint: write a path relative to resources"
        ),
    ),
    "../src/sub/**": (
        "'${var.catalog}/**'",
        20,
        (
            "[PIPELINE_GLOB_EMPTY] {}: no .py, .sql or .ipynb file matches ${var.catalog}/**; nothing was run\n{}\n"
            "  hint: write a pattern relative to resources"
        ),
    ),
    "root_path: ../src": (
        "root_path: ${var.catalog}",
        9,
        (
            "[PIPELINE_FILE_MISSING] {}: there is no file ${var.catalog}; nothing was run\n{}\n"
            "  hint: write a folder, relative to the file with the settings"
        ),
    ),
    "notebook: {path: ../src/bronze}": (
        "whl: '${var.catalog}'",
        19,
        (
            "[PIPELINE_LIBRARY_REFUSED] {}: a library of kind whl cannot be run; nothing was run\n{}\n"
            "  hint: install the wheel, and remove the entry: pip install ${var.catalog}"
        ),
    ),
}


@pytest.mark.parametrize("written", OF_A_VARIABLE)
def test_values_that_no_file_has_are_not_told(make, written):
    instead, line, text = OF_A_VARIABLE[written]
    part = PIPELINE_PART.replace(written, instead)
    folder = make({"databricks.yml": ONE_BUNDLE, "resources/orders.pipeline.yml": part}, *SOURCES)
    at = f"  at: resources/orders.pipeline.yml:{line}"
    told = text.replace("{}", "pipeline shop orders dev", 1).replace("{}", at, 1)
    assert refused(folder, params={"var.catalog": "hunter2"}) == told
    assert refused(folder, environ={"BUNDLE_VAR_catalog": "hunter2"}) == told


def test_a_param_for_a_variable_that_is_not_there(make):
    folder = make({"databricks.yml": ONE_BUNDLE, "resources/orders.pipeline.yml": PIPELINE_PART}, *SOURCES)
    assert refused(folder, params={"var.catalogs": "x"}) == (
        "[ARGUMENT_INVALID] --param var.catalogs: the bundle has no such variable; nothing was run\n"
        "  hint: did you mean 'var.catalog'?"
    )
    assert refused(make({"databricks.yml": "bundle: {name: b}\n"}), params={"var.x": "x"}) == (
        "[ARGUMENT_INVALID] --param var.x: the bundle has no such variable; nothing was run\n  hint: leave out var.x"
    )


def test_a_variable_may_be_a_mapping(make):
    text = (
        ONE_BUNDLE + "  pipelines:\n    p:\n      configuration: ${var.tags}\n      libraries: [{file: {path: a.py}}]\n"
    )
    found = one(make({"databricks.yml": text}, "a.py"))
    assert (found.name, found.configuration) == ("p", {"a": "b", "c": "7"})
    # That of a target takes its place.
    text = text.replace("        orders:", "        p:").replace("          configuration: {size: 9}\n", "")
    assert one(make({"databricks.yml": text}, "a.py", "src/extra.py"), profile="prod").configuration == {"d": "e"}


def test_a_part_without_a_bundle(make):
    text = "resources:\n  pipelines:\n    p:\n      name: orders\n      target: raw\n"
    text += "      libraries:\n        - file: {path: ../a.sql}\n"
    folder = make({"resources/p.pipeline.yml": text, "resources/other.yml": "# nothing\n"}, "a.sql")
    found = one(folder)
    assert (found.name, found.schema, found.profile, found.files) == ("orders", "raw", None, (folder / "a.sql",))


def test_a_connector_is_left_out_and_noted(make):
    text = (
        "bundle: {name: b}\nresources:\n  pipelines:\n    crm:\n      name: crm\n      ingestion_definition: {x: y}\n"
        "    p:\n      libraries: [{file: {path: a.py}}]\n"
    )
    found = one(make({"databricks.yml": text}, "a.py"))
    assert found.name == "p"
    assert [sentence for _, sentence in found.notes] == ["pipeline crm is left out: it is a connector of Databricks"]


def test_a_connector_alone_is_refused(make):
    text = "resources:\n  pipelines:\n    crm: {name: crm, gateway_definition: {x: y}}\n"
    assert refused(make({"databricks.yml": text})) == (
        "[PIPELINE_SETTINGS_INVALID] pipeline crm is a connector of Databricks, which has no source files; "
        "nothing was run\n  at: databricks.yml:3\n  hint: add a pipeline with libraries:"
    )


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("indent", [2, "\t"])
def test_settings_that_were_saved_as_json(make, wrapped, indent):
    value = {
        "id": "8ad1",
        "name": "Orders",
        "edition": "ADVANCED",
        "clusters": [{"label": "default"}],
        "libraries": [{"notebook": {"path": "/Users/ann@example.com/shop/bronze"}}],
        "target": "raw",
        "continuous": True,
        "configuration": {"a/b": "1", "url": "http://x\\y"},
    }
    text = json.dumps({"pipeline_id": "8ad1", "spec": value, "name": "Orders"} if wrapped else value, indent=indent)
    folder = make({"dlt.json": text, "package.json": '{"name": "x"}', "broken.json": "{"}, "bronze.py")
    found = one(folder)
    assert (found.name, found.schema, found.continuous) == ("Orders", "raw", True)
    assert found.configuration == {"a/b": "1", "url": "http://x\\y"}
    assert names(found) == ["bronze.py"]
    assert [sentence.split(":")[0] for _, sentence in found.notes] == [
        "edition has no effect",
        "clusters has no effect",
        "/Users/ann@example.com/shop/bronze does not exist here; bronze.py is used",
    ]


# --- a project of rivermouth ---

PROJECT = """\
lake: ./lake
pipelines:
  orders:
    files: [transformations/**, notebooks/extra]
    configuration:
      topic: ${TOPIC:-orders}
      password: ${file:password}
      size: 7
      strict: true
    catalog: main
    schema: silver
    trigger: {every: 30 seconds}
    profiles:
      dev:
        configuration: {size: 1}
        schema: dev
      prod:
        continuous: true
        catalog: live
        trigger: {every: 1 minute}
"""


def test_pipelines_of_a_project(make):
    folder = make({"rivermouth.yml": PROJECT, "password": "hush"}, "transformations/a.sql", "notebooks/extra.py")
    found = one(folder)
    assert found == one(folder / "rivermouth.yml") == one(folder, profile="dev")
    assert names(found) == ["transformations/a.sql", "notebooks/extra.py"]
    assert (found.name, str(found.at), found.profile, found.is_project) == ("orders", "rivermouth.yml:3", "dev", True)
    assert (found.catalog, found.schema, found.continuous) == ("main", "dev", False)
    assert found.configuration == {
        "pipelines.trigger.interval": "30 seconds",
        "topic": "${TOPIC:-orders}",
        "password": "${file:password}",
        "size": "1",
        "strict": "true",
    }
    environ = Environment({"TOPIC": "carts"}, folder)
    assert expanded_configuration(found, environ) == {
        **found.configuration,
        "topic": "carts",
        "password": "hush",
    }


def test_a_project_file_of_any_name_is_the_project_of_its_pipelines(make):
    text = "lake: ./{}\nkafka: {{bootstrap_servers: '{}:9092'}}\npipelines:\n  orders: {{files: [a.sql]}}\n"
    folder = make({"rivermouth.yml": text.format("one", "a"), "prod.yml": text.format("two", "b")}, "a.sql")
    for place, lake, host in (("prod.yml", "two", "b"), ("rivermouth.yml", "one", "a"), (".", "one", "a")):
        (found,) = commands.pipelines(folder / place)
        assert found.project.lake.removeprefix("file:") == str(folder / lake)
        assert found.project.spec.kafka.bootstrap_servers == f"{host}:9092"


def test_a_profile_of_a_project(make):
    folder = make({"rivermouth.yml": PROJECT}, "transformations/a.sql", "notebooks/extra.py")
    found = one(folder, profile="prod", params={"topic": "${x}"})
    assert (found.catalog, found.schema, found.continuous, found.profile) == ("live", "silver", True, "prod")
    assert found.configuration["pipelines.trigger.interval"] == "60 seconds"
    assert (found.configuration["size"], found.configuration["topic"]) == ("7", "$${x}")


def test_secrets_of_databricks_are_resolved_where_they_are_used(make):
    text = "name: a\nconfiguration: {a: 'x{{secrets/s/k}}', b: '${y}'}\nlibraries: [{file: {path: a.py}}]\n"
    found = one(make({"pipeline.yml": text}, "a.py"))
    assert expanded_configuration(found, {"databricks:s/k": "hush"}) == {"a": "xhush", "b": "${y}"}
    with pytest.raises(SecretMissing):
        expanded_configuration(found, Environment({}, found.folder))


def test_a_project_of_pipelines_alone_is_valid_and_written_as_it_was_read(make):
    folder = make({"rivermouth.yml": PROJECT, "password": "hush"}, "transformations/a.sql", "notebooks/extra.py")
    project = Project.load(folder / "rivermouth.yml")
    validate_static(project)
    again = folder / "again.yml"
    again.write_text(to_yaml(project.spec))
    assert Project.load(again).spec == project.spec
    assert "name: orders" not in again.read_text()


def test_the_json_schema_takes_what_is_read():
    value = yaml.safe_load(PROJECT)
    for schema in (project_schema(), project_schema(variables=False)):
        jsonschema.validate(value, schema)
    value["pipelines"]["orders"]["libraries"] = []
    with pytest.raises(jsonschema.ValidationError, match="'libraries' was unexpected"):
        jsonschema.validate(value, project_schema())


def test_a_flow_and_a_pipeline_have_different_names(make):
    flows = "flows:\n  orders: {topics: a, format: raw, table: b.a}\n"
    folder = make({"rivermouth.yml": PROJECT + flows, "password": "hush"})
    with pytest.raises(RivermouthError) as raised:
        validate_static(Project.load(folder / "rivermouth.yml"))
    assert str(raised.value) == (
        "[PROJECT_INVALID] pipelines.orders: a flow has this name too; nothing was run\n"
        f"  at: {folder}/rivermouth.yml:3\n  hint: give it another name"
    )


def test_flows_alone_are_no_pipelines_and_their_neighbours_are_none(make):
    flows = "lake: ./lake\nflows:\n  a: {topics: a, format: raw, table: b.a}\n"
    assert find_pipelines(make({"rivermouth.yml": flows, "a.py": "import dlt\n"})) == []


def test_several_kinds_of_settings_in_one_folder(make):
    files = {"rivermouth.yml": PROJECT, "pipeline.yml": SPARK.replace("orders", "other")}
    folder = make(files, "transformations/a.sql", "notebooks/extra.py")
    assert [each.name for each in find_pipelines(folder)] == ["orders", "other"]


# --- files on the command line ---


def test_single_files(make):
    folder = make({}, "a.py", "sub/b.sql")
    found = single_files([folder / "a.py"], params={"x": "1"})
    assert (found.name, found.folder, found.configuration, found.at) == ("a", folder, {"x": "1"}, None)
    found = single_files([folder / "sub" / "b.sql", folder / "a.py", folder / "a.py"])
    assert (found.name, found.folder, names(found)) == ("shop", folder, ["sub/b.sql", "a.py"])


def test_spark_has_the_classes_for_stores_that_files_or_settings_name(make, monkeypatch):
    folder = make({}, "a.py", "b.sql")
    monkeypatch.chdir(folder)

    def schemes():
        return [each.project.schemes for each in commands.pipelines(files=["a.py", "b.sql"], params=params)]

    params = {"place": "hdfs://not/s3"}
    assert schemes() == [frozenset()]
    params = {"place": "s3://bucket/in"}
    assert schemes() == [{"s3a"}]
    params = {}
    text = b"-- s3://old/in \xff\nCREATE STREAMING TABLE t AS SELECT * FROM STREAM read_files('S3A://bucket/in');"
    (folder / "b.sql").write_bytes(text)
    assert schemes() == [{"s3a"}]
    params = {"rivermouth.paths.S3A://bucket": "./data"}
    assert schemes() == [frozenset()]
    params = {"rivermouth.paths.S3A://buck": "./data"}
    assert schemes() == [{"s3a"}]
    params = {}
    (folder / "b.sql").write_text(
        "-- Databricks notebook source\n-- MAGIC %python\n-- MAGIC spark.read.json('s3n://b/x')\n"
    )
    assert schemes() == [{"s3a"}]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "gone.py",
            "[PIPELINE_FILE_MISSING] pipeline gone: there is no file {0}; nothing was run\n  hint: check the path",
        ),
        (
            "sub",
            (
                "[PIPELINE_FILE_MISSING] pipeline sub: there is no file {0}; nothing was run\n"
                "  hint: name files, not folders"
            ),
        ),
        (
            "a.txt",
            (
                "[NOTEBOOK_INVALID] {0}: it is no Python, SQL or Jupyter file; nothing was run\n"
                "  hint: name a file that ends in .py, .sql, .ipynb"
            ),
        ),
    ],
)
def test_single_files_that_are_none(make, name, text):
    path = make({}, "a.txt", "sub/b.sql") / name
    with pytest.raises(RivermouthError) as raised:
        single_files([path])
    assert str(raised.value) == text.format(path)


# --- what is refused ---

A = "name: a\n"
LIBRARY = "libraries: [{file: {path: a.py}}]\n"
BAD = {
    "no name": (
        LIBRARY,
        (
            "[PIPELINE_SETTINGS_INVALID] the pipeline has no name; nothing was run\n  at: pipeline.yml:1\n"
            "  hint: name: orders"
        ),
    ),
    "no libraries": (
        A,
        (
            "[PIPELINE_SETTINGS_INVALID] pipeline a: it has no libraries; nothing was run\n  at: pipeline.yml:1\n"
            "  hint: libraries: [{glob: {include: transformations/**}}]"
        ),
    ),
    "an empty file": (
        "# name: a\n",
        (
            "[PIPELINE_SETTINGS_INVALID] pipeline.yml is empty; nothing was run\n  at: pipeline.yml:1\n"
            "  hint: write name: and libraries:"
        ),
    ),
    "no mapping": (
        "name:a",
        (
            "[PIPELINE_SETTINGS_INVALID] pipeline.yml holds no mapping of keys to values; nothing was run\n"
            "  at: pipeline.yml:1\n  hint: write a space after each ':'"
        ),
    ),
    "no YAML": (
        A + "\tcatalog: main\n",
        (
            "[PIPELINE_SETTINGS_INVALID] a tab indents this line, and YAML takes only spaces; nothing was run\n"
            "  at: pipeline.yml:2\n  hint: replace each tab by two spaces"
        ),
    ),
    "a key twice": (
        A + A + LIBRARY,
        (
            "[PIPELINE_SETTINGS_INVALID] the key 'name' is there twice in one mapping; nothing was run\n"
            "  at: pipeline.yml:2\n  hint: keep one of them; the first is at pipeline.yml:1"
        ),
    ),
    "a key that is near another": (
        A + LIBRARY + "catalogue: main\n",
        (
            "[PIPELINE_SETTINGS_INVALID] unknown key 'catalogue'; nothing was run\n  at: pipeline.yml:3\n"
            "  hint: catalog: ..."
        ),
    ),
    "a list for a text": (
        A + LIBRARY + "catalog: [main]\n",
        (
            "[PIPELINE_SETTINGS_INVALID] catalog: expected text, found a list; nothing was run\n  at: pipeline.yml:3\n"
            "  hint: write text"
        ),
    ),
    "a text for a list": (
        A + "libraries: a.py\n",
        (
            "[PIPELINE_SETTINGS_INVALID] libraries: expected a list; nothing was run\n  at: pipeline.yml:2\n"
            "  hint: write one '- ' line for each, indented under it"
        ),
    ),
    "a text for a mapping": (
        A + "libraries: [a.py]\n",
        (
            "[PIPELINE_SETTINGS_INVALID] libraries: expected a mapping; nothing was run\n  at: pipeline.yml:2\n"
            "  hint: write key: value lines, indented under it"
        ),
    ),
    "a value without a text": (
        A + LIBRARY + "configuration:\n  a:\n",
        (
            "[PIPELINE_SETTINGS_INVALID] configuration.a: expected text, found null; nothing was run\n"
            "  at: pipeline.yml:4\n  hint: write text"
        ),
    ),
    "a parameter without a text": (
        A + LIBRARY + "parameters:\n  a: [b]\n",
        (
            "[PIPELINE_SETTINGS_INVALID] parameters.a: expected text, found a list; nothing was run\n"
            "  at: pipeline.yml:4\n  hint: write text"
        ),
    ),
    "neither true nor false": (
        A + LIBRARY + "continuous: yes\n",
        (
            "[PIPELINE_SETTINGS_INVALID] continuous: expected true or false; nothing was run\n  at: pipeline.yml:3\n"
            "  hint: write true or false"
        ),
    ),
    "an event log without a name": (
        A + LIBRARY + "event_log: {schema: x}\n",
        (
            "[PIPELINE_SETTINGS_INVALID] event_log: name is missing; nothing was run\n  at: pipeline.yml:3\n"
            "  hint: event_log: {name: events}"
        ),
    ),
    "an empty entry": (
        A + "libraries:\n  -\n",
        (
            "[PIPELINE_SETTINGS_INVALID] libraries: an entry is empty; nothing was run\n  at: pipeline.yml:3\n"
            "  hint: - glob: {include: transformations/**}"
        ),
    ),
    "an entry without a path": (
        A + "libraries:\n  - file: {include: a.py}\n",
        (
            "[PIPELINE_SETTINGS_INVALID] libraries.file: path is missing; nothing was run\n  at: pipeline.yml:3\n"
            "  hint: - file: {path: ...}"
        ),
    ),
    "a missing file": (
        A + "libraries:\n  - file: {path: src/bronce.py}\n",
        (
            "[PIPELINE_FILE_MISSING] pipeline a: there is no file src/bronce.py; nothing was run\n"
            "  at: pipeline.yml:3\n  hint: did you mean 'bronze.py'?"
        ),
    ),
    "a missing file with no neighbours": (
        A + "libraries:\n  - file: {path: gone/b.py}\n",
        (
            "[PIPELINE_FILE_MISSING] pipeline a: there is no file gone/b.py; nothing was run\n  at: pipeline.yml:3\n"
            "  hint: write a path relative to the folder of the settings"
        ),
    ),
    "a folder": (
        A + "libraries:\n  - file: {path: ./src/}\n",
        (
            "[PIPELINE_FILE_MISSING] pipeline a: there is no file ./src/; nothing was run\n  at: pipeline.yml:3\n"
            "  hint: glob: {include: ./src/**}"
        ),
    ),
    "a missing root": (
        A + LIBRARY + "root_path: gone\n",
        (
            "[PIPELINE_FILE_MISSING] pipeline a: there is no file gone; nothing was run\n  at: pipeline.yml:3\n"
            "  hint: write a folder, relative to the file with the settings"
        ),
    ),
    "another language": (
        A + "libraries:\n  - notebook: {path: src/c.scala}\n",
        (
            "[NOTEBOOK_INVALID] src/c.scala: it is no Python, SQL or Jupyter file; nothing was run\n"
            "  at: pipeline.yml:3\n  hint: name a file that ends in .py, .sql, .ipynb"
        ),
    ),
    "a pattern that nothing matches": (
        A + "libraries:\n  - glob: {include: src/*.ipynb}\n",
        (
            "[PIPELINE_GLOB_EMPTY] pipeline a: no .py, .sql or .ipynb file matches src/*.ipynb; nothing was run\n"
            "  at: pipeline.yml:3\n  hint: put a source file into src"
        ),
    ),
    "a pattern of a folder that is missing": (
        A + "libraries:\n  - glob: {include: ../gone/**}\n",
        (
            "[PIPELINE_GLOB_EMPTY] pipeline a: no .py, .sql or .ipynb file matches ../gone/**; nothing was run\n"
            "  at: pipeline.yml:3\n  hint: write a pattern relative to the folder of the settings"
        ),
    ),
    "a wheel": (
        A + "libraries:\n  - whl: https://ann:hunter2@host/a.whl\n",
        (
            "[PIPELINE_LIBRARY_REFUSED] pipeline a: a library of kind whl cannot be run; nothing was run\n"
            "  at: pipeline.yml:3\n"
            "  hint: install the wheel, and remove the entry: pip install https://...@host/a.whl"
        ),
    ),
    "a package": (
        A + "libraries:\n  - pypi: {package: faker}\n",
        (
            "[PIPELINE_LIBRARY_REFUSED] pipeline a: a library of kind pypi cannot be run; nothing was run\n"
            "  at: pipeline.yml:3\n"
            "  hint: install the package, and remove the entry: pip install faker"
        ),
    ),
    "a jar": (
        A + "libraries:\n  - jar: x.jar\n",
        (
            "[PIPELINE_LIBRARY_REFUSED] pipeline a: a library of kind jar cannot be run; nothing was run\n"
            "  at: pipeline.yml:3\n"
            "  hint: write it as spark: {conf: {spark.jars: ...}} in rivermouth.yml, and remove the entry"
        ),
    ),
    "coordinates of Maven": (
        A + "libraries:\n  - maven: {coordinates: 'a:b:1'}\n",
        (
            "[PIPELINE_LIBRARY_REFUSED] pipeline a: a library of kind maven cannot be run; nothing was run\n"
            "  at: pipeline.yml:3\n"
            "  hint: write it as spark: {conf: {spark.jars.packages: ...}} in rivermouth.yml, and remove the entry"
        ),
    ),
    "another kind": (
        A + "libraries:\n  - egg: x\n",
        (
            "[PIPELINE_LIBRARY_REFUSED] pipeline a: a library of kind egg cannot be run; nothing was run\n"
            "  at: pipeline.yml:3\n  hint: known: file, glob, notebook"
        ),
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_settings_that_are_refused(make, case):
    settings, text = BAD[case]
    folder = make({"pipeline.yml": settings}, "a.py", "src/bronze.py", "src/c.scala")
    assert refused(folder) == text


def test_json_that_is_none_is_refused_with_its_line(make):
    folder = make({"a.json": '{"name": "a",\n "libraries": [}'})
    assert refused(folder) == (
        "[PIPELINE_SETTINGS_INVALID] no JSON: Expecting value; nothing was run\n  at: a.json:2\n"
        "  hint: correct it there; python -m json.tool shows the same place"
    )


def test_a_file_of_settings_that_is_missing(make):
    assert refused(make({}) / "pipeline.yml") == (
        "[PIPELINE_SETTINGS_INVALID] there is no file pipeline.yml; nothing was run\n  hint: check the path"
    )


def test_one_name_twice(make):
    folder = make({"pipeline.yml": A + LIBRARY, "spark-pipeline.yaml": "\n" + A + LIBRARY}, "a.py")
    assert refused(folder) == (
        "[PIPELINE_NAME_TWICE] two pipelines are named 'a', here and at spark-pipeline.yaml:2; neither was run\n"
        "  at: pipeline.yml:1\n  hint: give one of them another name"
    )


@pytest.mark.parametrize(
    ("files", "profile", "text"),
    [
        (
            {"pipeline.yml": A + LIBRARY},
            "prod",
            "[PROFILE_UNKNOWN] pipeline.yml has no profile 'prod'; nothing was run\n  hint: leave out --profile",
        ),
        (
            {"rivermouth.yml": PROJECT.replace("[transformations/**, notebooks/extra]", "[a.py]")},
            "production",
            "[PROFILE_UNKNOWN] rivermouth.yml has no profile 'production'; nothing was run\n  hint: known: dev, prod",
        ),
        (
            {"databricks.yml": "bundle: {name: b}\ntargets:\n  dev: {default: true}\n  staging:\n"},
            "stagin",
            (
                "[PROFILE_UNKNOWN] databricks.yml has no profile 'stagin'; nothing was run\n"
                "  hint: did you mean 'staging'?"
            ),
        ),
        (
            {"databricks.yml": "bundle: {name: b}\ntargets:\n  dev:\n  prod:\n"},
            None,
            (
                "[PROFILE_UNKNOWN] the bundle has the targets dev, prod, and none of them is the default; "
                "nothing was run\n"
                "  at: databricks.yml:2\n  hint: --profile dev"
            ),
        ),
    ],
)
def test_profiles_that_are_refused(make, files, profile, text):
    assert refused(make(files, "a.py"), profile=profile) == text


@pytest.mark.parametrize(
    ("setting", "reference"),
    [
        ("catalog: ${var.gone}", "var.gone"),
        ("catalog: ${var.undefined}", "var.undefined"),
        ("catalog: ${var.found}", "var.found"),
        ("catalog: ${var.itself}", "var.itself"),
        ("catalog: ${resources.jobs.a.id}", "resources.jobs.a.id"),
        ("catalog: ${workspace.host}", "workspace.host"),
        ("catalog: 'x_${bundle.git.branch}'", "bundle.git.branch"),
    ],
)
def test_references_without_a_value(make, setting, reference):
    text = (
        "bundle: {name: b}\nvariables:\n  undefined: {description: x}\n  found: {lookup: {warehouse: x}}\n"
        "  itself: {default: '${var.itself}'}\nresources:\n  pipelines:\n    p:\n"
        f"      {setting}\n      libraries: [{{file: {{path: a.py}}}}]\n"
    )
    line = 5 if reference == "var.itself" else 9
    assert refused(make({"databricks.yml": text}, "a.py")) == (
        f"[PIPELINE_REFERENCE_UNKNOWN] catalog: ${{{reference}}} has no value here; nothing was run\n"
        f"  at: databricks.yml:{line}\n  hint: --param {reference}=VALUE"
    )


PARTS = """\
bundle: {name: b}
variables:
  env:
    type: complex
    default:
      catalog: main
      zones: [raw, {name: "${var.env.catalog}_ops", sizes: [1, 2]}]
  other: {default: "${var.env}"}
  plain: {default: x}
resources:
  pipelines:
    p:
      catalog: ${var.env.catalog}
      schema: s_${var.other.zones[1].name}
      configuration: {first: "${var.env.zones[0]}", size: "${var.env.zones[1].sizes[1]}"}
      libraries: [{file: {path: a.py}}]
"""


def test_parts_of_a_variable_have_values(make):
    folder = make({"databricks.yml": PARTS}, "a.py")
    found = one(folder)
    assert (found.catalog, found.schema, found.configuration) == ("main", "s_main_ops", {"first": "raw", "size": "2"})
    found = one(folder, params={"var.env.catalog": "live", "var.env.zones[0]": "cold"})
    assert (found.catalog, found.schema, found.configuration["first"]) == ("live", "s_live_ops", "cold")
    # They are in the mapping too, where it is meant as a whole.
    text = PARTS.replace("catalog: main\n", "catalog: main\n      region: {name: north}\n")
    text = re.sub("configuration: {.*}", "configuration: ${var.env.region}", text)
    params = {"var.env.region.name": "south"}
    assert one(make({"databricks.yml": text}, "a.py"), params=params).configuration == {"name": "south"}


@pytest.mark.parametrize(
    ("reference", "params"),
    [
        ("var.env.gone", {}),
        ("var.plain.key", {}),
        ("var.env.zones[2]", {}),
        ("var.env.catalog.key", {}),
        ("var.env.catalog", {"var.env": "text"}),
    ],
)
def test_parts_without_a_value(make, reference, params):
    text = PARTS.replace("catalog: ${var.env.catalog}", f"catalog: ${{{reference}}}")
    assert refused(make({"databricks.yml": text}, "a.py"), params=params) == (
        f"[PIPELINE_REFERENCE_UNKNOWN] catalog: ${{{reference}}} has no value here; nothing was run\n"
        f"  at: databricks.yml:13\n  hint: --param {reference}=VALUE"
    )


def test_files_without_settings_are_not_guessed_about(make, monkeypatch):
    sources = {
        "etl/b.py": "from pyspark import pipelines as dp\n",
        "etl/c d.sql": "-- x\ncreate or refresh streaming table t as select 1",
        "etl/helpers.py": "x = 1",
        "q.sql": "CREATE TABLE t (a int)",
        ".venv/d.py": "import dlt",
    }
    folder = make(sources)
    monkeypatch.chdir(folder.parent)
    assert refused(folder) == (
        "[PIPELINE_SETTINGS_MISSING] shop has files that define tables (etl/b.py, etl/c d.sql), and no pipeline.yml, "
        "spark-pipeline.yml, databricks.yml or rivermouth.yml in it declares a pipeline; nothing was run\n"
        "  hint: rivermouth run shop/etl/b.py"
    )
    monkeypatch.chdir(folder)
    assert "hint: rivermouth run 'etl/c d.sql'" in refused(make({"etl/b.py": ""}))


def test_a_folder_with_nothing(make):
    assert find_pipelines(make({"a.py": "x = 1"})) == []


PROBLEMS = {
    "pipelines: {a: {}}": (
        "[PROJECT_INVALID] pipelines.a: files is missing; nothing was run\n  at: rivermouth.yml:2\n"
        "  hint: files: [transformations/**]"
    ),
    "pipelines: {a: {files: [x.py], target: s}}": (
        "[UNKNOWN_KEY] unknown key 'target' in pipelines.a; nothing was run\n  at: rivermouth.yml:2\n"
        "  hint: did you mean 'schema'?"
    ),
    "pipelines: {a: {files: [x.py], profiles: {dev: {files: [y.py]}}}}": (
        "[UNKNOWN_KEY] unknown key 'files' in pipelines.a.profiles.dev; nothing was run\n  at: rivermouth.yml:2\n"
        "  hint: known: catalog, configuration, continuous, schema, trigger"
    ),
    "pipelines: {1a: {files: [x.py]}}": (
        "[PROJECT_INVALID] pipelines.1a: '1a' is no pipeline name; nothing was run\n  at: rivermouth.yml:2\n"
        "  hint: use letters, digits, _ and -, beginning with a letter"
    ),
    "pipelines: {a: {name: b, files: [x.py]}}": (
        "[PROJECT_INVALID] pipelines.a: the pipeline is also called by another name; nothing was run\n"
        "  at: rivermouth.yml:2\n  hint: remove name:, or write b: instead of a:"
    ),
}


@pytest.mark.parametrize("text", PROBLEMS)
def test_pipelines_of_a_project_that_are_refused(make, text):
    assert refused(make({"rivermouth.yml": f"lake: ./lake\n{text}\n"}, "x.py")) == PROBLEMS[text]
