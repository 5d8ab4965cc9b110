"""What a project file means, where each field is, and what the environment adds."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rivermouth.domain.kafka.jaas import parse_jaas
from rivermouth.errors import EnvironmentMissing, FlowUnknown, KafkaClientUnable, PlaceInvalid, TableShared
from rivermouth.project.api import Project
from rivermouth.project.file.dump import to_yaml
from rivermouth.project.file.reading import FILE_NAME
from rivermouth.project.resolved.jobs import order_of
from rivermouth.project.resolved.static_checks import validate_static
from rivermouth.spec import Flow, KafkaCluster, ProjectSpec

TEXT = """\
# a comment
name: shop
lake: ${LAKE:-./lake}
kafka:
  bootstrap_servers: ${KAFKA}
  options:
    security.protocol: SASL_PLAINTEXT
    sasl.mechanism: PLAIN
    sasl.jaas.config: >-
      org.apache.kafka.common.security.plain.PlainLoginModule required
      username="reader" password="${PASSWORD}";
flows:
  orders:
    topics: ["${PREFIX:-}orders"]
    format: raw
    table: bronze.orders
    trigger: {every: 500 ms, max_offsets: 500_000}
"""
ENVIRON = {"KAFKA": "broker:9092", "PASSWORD": 'p"ss; \\word', "PREFIX": "shop."}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / FILE_NAME
    path.write_text(TEXT, encoding="utf-8")
    return path


def load(tmp_path, text: str, **environ: str) -> Project:
    path = tmp_path / "project.yml"
    path.write_text(text, encoding="utf-8")
    return Project.load(path, environ)


def test_a_file_and_python_build_equal_specs(file):
    flow = {
        "name": "orders",
        "topics": ["${PREFIX:-}orders"],
        "format": "raw",
        "table": "bronze.orders",
        "trigger": {"every": 0.5, "max_offsets": 500000},
    }
    loaded = Project.load(file, ENVIRON).spec

    assert loaded == ProjectSpec(
        name="shop",
        lake="${LAKE:-./lake}",
        kafka=KafkaCluster(bootstrap_servers="${KAFKA}", options=loaded.kafka.options),
        flows={"orders": Flow.model_validate(flow)},
    )


def test_each_field_knows_its_line(file):
    project = Project.load(file, ENVIRON)

    assert project.at() == f"{file}:2"
    assert project.at("lake") == f"{file}:3"
    assert project.at("kafka", "options", "sasl.jaas.config") == f"{file}:9"
    assert project.at("flows", "orders", "trigger", "max_offsets") == f"{file}:17"
    assert project.at("flows", "orders", "topics", 0) == f"{file}:14"
    # What does not stand in the file is told at what holds it.
    assert project.at("flows", "orders", "places", "table") == f"{file}:13"


def test_a_project_made_in_python_has_no_lines(file):
    assert Project.from_spec(ProjectSpec(lake="./lake")).at("lake") is None


def test_references_are_resolved_only_where_they_are_used(file):
    project = Project.load(file, ENVIRON)

    assert project.bootstrap_servers == "broker:9092"
    assert project.flow("orders").topics == ("shop.orders",)
    assert project.lake == str(file.parent / "lake")
    assert project.spec.kafka.bootstrap_servers == "${KAFKA}"
    assert "broker:9092" not in repr(project)


def test_a_quote_in_a_password_cannot_become_another_login_module(file):
    evil = 'p"; com.sun.security.auth.module.JndiLoginModule required x="\\'
    project = Project.load(file, {**ENVIRON, "PASSWORD": evil})

    (login,) = parse_jaas(project.kafka_options()["sasl.jaas.config"])

    assert login.options["password"] == evil
    assert project.client_options()["sasl.password"] == evil


def test_options_go_to_both_clients(file):
    project = Project.load(file, {**ENVIRON, "PASSWORD": "hunter2"})

    assert project.kafka_options()["isolation.level"] == "read_committed"
    assert project.client_options() == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "reader",
        "sasl.password": "hunter2",
    }
    assert "hunter2" not in repr(project)


def test_the_client_options_that_librdkafka_cannot_take_are_told_in_whole(tmp_path):
    text = "lake: ./lake\nkafka: {options: {ssl.truststore.location: /trust.jks}}\n"

    with pytest.raises(KafkaClientUnable) as caught:
        load(tmp_path, text).client_options()

    assert str(caught.value) == (
        "[KAFKA_CLIENT_UNABLE] kafka option 'ssl.truststore.location' cannot be handed to librdkafka, by which "
        "rivermouth asks for topics and offsets: it reads PEM stores only; nothing was run\n"
        "  hint: ssl.truststore.type: PEM, with ssl.truststore.location: a .pem file"
    )


def test_a_missing_variable_is_told_with_its_line(file):
    with pytest.raises(EnvironmentMissing) as caught:
        _ = Project.load(file, {}).bootstrap_servers

    assert str(caught.value) == (
        "[ENVIRONMENT_MISSING] environment variable KAFKA is not set; nothing was run\n"
        f"  at: {file}:5\n"
        "  hint: export KAFKA=..., or write ${KAFKA:-default}"
    )


def test_an_unknown_flow_is_told_in_whole(file):
    with pytest.raises(FlowUnknown) as caught:
        Project.load(file, ENVIRON).flow("order")

    assert str(caught.value) == (
        "[FLOW_UNKNOWN] no flow named 'order' in this project; nothing was run\n  hint: did you mean 'orders'?"
    )


def test_flows_come_in_the_order_of_the_file(tmp_path):
    body = "".join(f"  {name}: {{topics: {name}, format: raw, table: x.{name}}}\n" for name in ("b", "a", "c"))
    project = load(tmp_path, f"lake: ./lake\nflows:\n{body}")

    assert [flow.name for flow in project.flows()] == ["b", "a", "c"]
    assert [flow.name for flow in project.flows(("c", "b"))] == ["b", "c"]


def test_plain_scalars_mean_what_a_reader_sees(tmp_path):
    text = (
        "lake: ./lake\nflows:\n  a:\n    topics: [2026-01-31, y, 1e, 'no', \"123\"]\n    format: raw\n"
        "    starting_offsets: 2026-01-31\n    table: x.a\n    trigger: {max_offsets: 1e6}\n"
    )
    flow = load(tmp_path, text).flow("a")

    assert flow.topics == ("2026-01-31", "y", "1e", "no", "123")
    assert flow.starting_offsets.text() == "2026-01-31T00:00:00+00:00"
    assert flow.trigger.max_offsets == 1_000_000


def test_anchors_and_merge_keys_work_and_keep_their_lines(tmp_path):
    text = (
        "lake: ./lake\n"
        "flows:\n"
        "  a: &a\n"
        "    topics: [orders]\n"
        "    format: raw\n"
        "    table: x.a\n"
        "  b:\n"
        "    <<: *a\n"
        "    table: x.b\n"
    )
    project = load(tmp_path, text)

    assert project.flow("b").topics == ("orders",)
    assert project.flow("b").table.name == "x.b"
    assert project.at("flows", "b", "table").endswith(":9")


@pytest.mark.parametrize("encode", [lambda text: "\ufeff" + text, lambda text: text.replace("\n", "\r\n")])
def test_a_byte_order_mark_and_line_ends_of_windows_change_nothing(tmp_path, encode):
    text = "name: shop\nlake: ./lake\n"
    path = tmp_path / FILE_NAME
    path.write_bytes(encode(text).encode())

    project = Project.load(path, {})

    assert project.spec == ProjectSpec(name="shop", lake="./lake")
    assert project.at("lake") == f"{path}:2"


def test_a_schema_file_lies_beside_the_project_file(tmp_path):
    flow = "{topics: a, format: {type: json, schema: schemas/a.json}, table: x.a}"
    project = load(tmp_path, f"lake: ./lake\nflows:\n  a: {flow}\n")

    assert project.flow("a").format.declared == f"{tmp_path}/schemas/a.json"
    assert project.spec.flows["a"].format.declared == "schemas/a.json"


def test_a_place_of_the_project_is_told_once_at_its_own_line(tmp_path):
    text = (
        "lake: ./lake\nplaces:\n  table: '{lake}/{tble}'\nflows:\n"
        "  a: {topics: a, format: raw, table: x.a}\n  b: {topics: b, format: raw, table: x.b}\n"
    )
    project = load(tmp_path, text)

    with pytest.raises(PlaceInvalid) as caught:
        validate_static(project)

    assert str(caught.value) == (
        "[PLACE_INVALID] places.table: unknown placeholder {tble}; nothing was run\n"
        f"  at: {tmp_path}/project.yml:3\n"
        "  hint: did you mean 'table'?"
    )


@pytest.mark.parametrize(
    "part",
    [
        "topics: a, sink: {type: files, format: json, path: 's3a://bucket/a'}",
        "source: {versions_of: 's3a://bucket/a'}, sink: {type: upsert, from: snapshot, keys: [id]}",
        "source: {files: 's3a://bucket/{version}.json'}, sink: {type: upsert, from: snapshot, keys: [id]}",
    ],
)
def test_stores_that_no_table_is_in_are_known_to_spark_too(tmp_path, part):
    form = 'format: {type: json, schema: "id bigint"}'
    project = load(tmp_path, f"lake: ./lake\nflows:\n  a: {{{part}, {form}, table: x.a}}\n")

    assert project.schemes == {"s3a"}


def test_a_trial_commits_no_offsets_to_the_group(tmp_path):
    project = load(tmp_path, "lake: ./lake\nflows:\n  a: {topics: a, format: raw, table: x.a, group_id: g}\n")
    found = [order_of(each, each.flow("a")).flow.group_id for each in (project, project.with_debug())]

    assert found == ["g", None]


def test_a_trial_never_writes_where_a_flow_does(tmp_path):
    text = (
        "lake: ./lake\nflows:\n  a: {topics: a, format: raw, table: x.a}\n"
        "  b: {topics: b, format: raw, table: x.a_debug}\n"
    )
    project = load(tmp_path, text)
    validate_static(project)

    with pytest.raises(TableShared) as caught:
        validate_static(project.with_debug())

    assert str(caught.value) == (
        f"[TABLE_SHARED] flows 'a' and 'b' share the table {tmp_path}/lake/x/a_debug; neither was run\n"
        f"  at: {tmp_path}/project.yml:4\n"
        "  hint: give each flow its own table"
    )


def test_a_flow_of_snapshots_is_judged_before_there_is_a_spark(tmp_path):
    text = (
        "lake: ./lake\nflows:\n  stock:\n    topics: [stock]\n    table: silver.stock\n"
        '    format: {type: json, schema: "id bigint"}\n    sink: {type: upsert, keys: [id], from: snapshot}\n'
    )
    (tmp_path / "rivermouth.yml").write_text(text)
    code = (
        "from rivermouth.project.api import Project; "
        "from rivermouth.project.resolved.static_checks import validate_static; "
        "project = Project.load('rivermouth.yml'); validate_static(project); print(*project.spec.flows)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("stock\n", "")


def test_variables_stand_in_every_value(file):
    file.write_text(
        """\
name: shop-${STAGE}
lake: ./lake
spark: {master: "${MASTER:-local[2]}", driver_memory: "${HEAP:-3g}"}
flows:
  orders:
    topics: [orders]
    format: {type: "${FORMAT}", schema: "id ${ID_TYPE}"}
    on_data_loss: ${ON_LOSS}
    expectations:
      - {name: a, condition: "id > ${LEAST:-0} AND note <> '$${STAGE}'", action: "${ACTION:-drop}"}
    table:
      name: silver.orders_${STAGE}
      comment: $${STAGE}
    trigger: {every: "${EVERY}", max_offsets: "${MAX}"}
"""
    )
    environ = {"STAGE": "dev", "FORMAT": "json", "ID_TYPE": "bigint", "ON_LOSS": "record", "EVERY": "5 s", "MAX": "9"}
    project = Project.load(file, environ)
    flow = project.spec.flows["orders"]
    spark = project.spec.spark
    assert (project.spec.name, spark.master, spark.driver_memory) == ("shop-dev", "local[2]", "3g")
    assert (flow.table.name, flow.table.comment) == ("silver.orders_dev", "${STAGE}")
    assert (flow.format.type, flow.format.declared, flow.on_data_loss) == ("json", "id bigint", "record")
    assert flow.expectations[0].condition == "id > 0 AND note <> '${STAGE}'"
    assert (flow.expectations[0].action, flow.trigger.every, flow.trigger.max_offsets) == ("drop", 5.0, 9)
    validate_static(project)
    assert project.places("orders").table.endswith("/lake/silver/orders_dev")
    again = file.with_name("again.yml")
    again.write_text(to_yaml(project.spec))
    assert Project.load(again, {}).spec == project.spec
