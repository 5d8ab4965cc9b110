"""Presets of brokers, and logins with a user name and a password."""

from __future__ import annotations

from typing import get_args

import pytest

from rivermouth.domain.kafka import kafka_options
from rivermouth.domain.kafka.broker_presets import PRESETS, options_of
from rivermouth.domain.kafka.jaas import IAM_LOGIN, parse_jaas
from rivermouth.errors import ProjectInvalid
from rivermouth.project.api import Project
from rivermouth.project.resolved.static_checks import validate_static
from rivermouth.spec import KafkaCluster, ProjectSpec

FLOWS = {"orders": {"topics": "orders", "format": "raw", "table": "bronze.orders"}}

PLAIN = {"sasl.mechanism": "PLAIN", "security.protocol": "SASL_SSL"}
MECHANISM = "username and password need a sasl.mechanism of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"
PROTOCOL = "username and password need a security.protocol of SASL_SSL, SASL_PLAINTEXT"
COMPLETE = "options: {security.protocol: SASL_SSL, sasl.mechanism: SCRAM-SHA-512}"


def project(environ=None, **kafka):
    return Project.from_spec(ProjectSpec(lake="/lake", kafka=kafka, flows=FLOWS), environ=environ or {})


def test_the_names_in_the_project_file_are_those_that_are_known():
    [names, _none] = get_args(KafkaCluster.model_fields["preset"].annotation)
    assert set(get_args(names)) == set(PRESETS)


@pytest.mark.parametrize("name", sorted(PRESETS.keys() - {"msk-iam"}))
def test_a_preset_with_a_login_is_all_that_both_clients_need(name):
    found = project({"SECRET": 'a"b\\c;d'}, preset=name, username="me", password="${SECRET}")
    validate_static(found)
    options = found.kafka_options()
    [login] = parse_jaas(options["sasl.jaas.config"])
    assert login.options == {"username": "me", "password": 'a"b\\c;d'}
    assert options["security.protocol"] == "SASL_SSL"
    client = found.client_options()
    assert (client["sasl.username"], client["sasl.password"]) == ("me", 'a"b\\c;d')
    assert client["sasl.mechanism"] == PRESETS[name].options["sasl.mechanism"]
    assert list(kafka_options.problems(options)) == []


def test_event_hubs_know_all_clients_by_one_name():
    found = project(preset="event-hubs", password="Endpoint=sb://x/;SharedAccessKey=a=")
    [login] = parse_jaas(found.kafka_options()["sasl.jaas.config"])
    assert login.options == {"username": "$ConnectionString", "password": "Endpoint=sb://x/;SharedAccessKey=a="}


def test_msk_knows_a_client_by_iam():
    found = project(preset="msk-iam")
    validate_static(found)
    options = found.kafka_options()
    [login] = parse_jaas(options["sasl.jaas.config"])
    assert (options["sasl.mechanism"], login.module) == ("AWS_MSK_IAM", IAM_LOGIN)
    role = {"sasl.jaas.config": f'{IAM_LOGIN} required awsRoleArn="arn:x";'}
    assert kafka_options.iam_login(project(preset="msk-iam", options=role).kafka_options()) == {"awsRoleArn": "arn:x"}


def test_ones_own_options_win():
    own = {"kafka.sasl.mechanism": "PLAIN", "request.timeout.ms": 7}
    found = project(preset="strimzi", username="u", password="p", options=own).kafka_options()
    assert (found["sasl.mechanism"], found["request.timeout.ms"]) == ("PLAIN", "7")
    assert "PlainLoginModule" in found["sasl.jaas.config"]


def test_a_login_without_a_preset():
    own = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256"}
    found = project(username="u", password="p", options=own).kafka_options()
    assert "ScramLoginModule" in found["sasl.jaas.config"]


def test_without_a_login_nothing_is_added():
    assert options_of(KafkaCluster(options={"client.id": "x"})) == {"client.id": "x"}
    assert "sasl.jaas.config" not in project(preset="strimzi").kafka_options()


def test_a_password_is_not_in_what_is_printed_of_a_cluster():
    assert "hidden" not in repr(KafkaCluster(preset="redpanda", username="u", password="hidden"))


@pytest.mark.parametrize(
    ("kafka", "detail", "fix"),
    [
        (
            {"preset": "msk-iam", "username": "u", "password": "p"},
            f"{MECHANISM}, and it is AWS_MSK_IAM",
            COMPLETE,
        ),
        ({"username": "u"}, "username has no password", "password: ${KAFKA_PASSWORD}"),
        (
            {"password": "p", "options": PLAIN},
            "password has no username",
            "username: ${KAFKA_USER}",
        ),
        ({"preset": "redpanda", "password": "p"}, "password has no username", "username: ${KAFKA_USER}"),
        ({"username": "u", "password": "p"}, f"{MECHANISM}, and it is not set", COMPLETE),
        (
            {"username": "u", "password": "p", "options": {"sasl.mechanism": "GSSAPI"}},
            f"{MECHANISM}, and it is GSSAPI",
            COMPLETE,
        ),
        (
            {"username": "u", "password": "p", "options": {"sasl.mechanism": "PLAIN"}},
            f"{PROTOCOL}, and it is not set",
            COMPLETE,
        ),
        (
            {"preset": "redpanda", "username": "u", "password": "p", "options": {"security.protocol": "SSL"}},
            f"{PROTOCOL}, and it is SSL",
            COMPLETE,
        ),
        (
            {"preset": "redpanda", "username": "u", "password": "p", "options": {"kafka.sasl.jaas.config": "x"}},
            "username and password make sasl.jaas.config, which is also under options",
            "remove sasl.jaas.config from options:",
        ),
    ],
)
def test_a_login_that_cannot_be_one(kafka, detail, fix):
    expected = f"[PROJECT_INVALID] kafka: {detail}; nothing was run\n  hint: {fix}"
    with pytest.raises(ProjectInvalid) as error:
        validate_static(project(**kafka))
    assert str(error.value) == expected
    with pytest.raises(ProjectInvalid) as error:
        project(**kafka).kafka_options()
    assert str(error.value) == expected


@pytest.mark.parametrize("secret", ["a'b", 'a"b', "a\\b", "${X}", "$$", "a;b=c"])
def test_a_secret_stays_one_value_whatever_it_is(secret):
    found = project({"P": secret}, preset="redpanda", username="u", password="${P}")
    [login] = parse_jaas(found.kafka_options()["sasl.jaas.config"])
    assert login.options["password"] == secret
    found = project(preset="redpanda", username="u", password="${P:-a'b}")
    [login] = parse_jaas(found.kafka_options()["sasl.jaas.config"])
    assert login.options["password"] == "a'b"


def test_a_slip_of_the_pen_is_told(tmp_path):
    file = tmp_path / "rivermouth.yml"
    file.write_text(
        "lake: ./lake\nkafka:\n  preset: confluent_cloud\nflows: {a: {topics: a, format: raw, table: b.a}}\n"
    )
    with pytest.raises(ProjectInvalid) as error:
        Project.load(file)
    assert "confluent-cloud" in str(error.value)
    assert "rivermouth.yml:3" in str(error.value)
