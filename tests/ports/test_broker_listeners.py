"""The development broker's listeners with passwords and certificates, entered by both clients of a flow."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.crashes.oracle import rows_of
from tests.ports.freezing import assert_unreachable_while_frozen

import rivermouth
from rivermouth.errors import CryptographyMissing, KafkaRefused, SecurityProtocolWrong
from rivermouth.ports.dev.broker import Broker
from rivermouth.ports.kafka.kafka_cluster import Kafka
from rivermouth.ports.kafka.kafka_produce import produce
from rivermouth.spec import ProjectSpec

LISTENERS = (
    "a password",
    "a password, by SCRAM",
    "a password, over TLS",
    "a password, by SCRAM over TLS",
    "a certificate",
)


@pytest.fixture(scope="module")
def guarded():
    with Broker.start(secure=True, heap="512m") as broker:
        yield broker


def listener(broker, about):
    [found] = [each for each in broker.listeners if each.about == about]
    return found


# Each way once: the others are made of the same parts.
SHORT = {"a password, by SCRAM over TLS", "a certificate", "redpanda"}


def in_turn(names):
    return [pytest.param(name, marks=() if name in SHORT else pytest.mark.long) for name in names]


@pytest.mark.parametrize("about", in_turn(LISTENERS))
def test_a_flow_comes_in_by_each_door(about, guarded, spark, tmp_path):
    way, topic = listener(guarded, about), f"t{LISTENERS.index(about)}"
    produce(way.bootstrap_servers, way.options, topic, [b"one", b"two"])
    spec = ProjectSpec(
        lake=str(tmp_path / "lake"),
        kafka={"bootstrap_servers": way.bootstrap_servers, "options": dict(way.options)},
        flows={"things": {"topics": topic, "format": "text", "table": "bronze.things"}},
    )
    [outcome] = rivermouth.Project.from_spec(spec).run()
    assert outcome.error is None
    assert sorted(row["value"] for row in rows_of(tmp_path / "lake/bronze/things")) == ["one", "two"]


@pytest.mark.parametrize("preset", in_turn(["confluent-cloud", "msk-scram", "redpanda", "strimzi"]))
def test_a_preset_with_a_login_comes_in(preset, guarded, spark, tmp_path):
    # By one name for all, as at Event Hubs, this broker lets nobody in.
    way, topic = listener(guarded, "a password, over TLS"), f"p-{preset}"
    trust = {name: value for name, value in way.options.items() if "truststore" in name}
    spec = ProjectSpec(
        lake=str(tmp_path / "lake"),
        kafka={
            "bootstrap_servers": way.bootstrap_servers,
            "preset": preset,
            "username": "rivermouth",
            "password": "${PASSWORD}",
            "options": trust,
        },
        flows={"things": {"topics": topic, "format": "text", "table": "bronze.things"}},
    )
    project = rivermouth.Project.from_spec(spec, environ={"PASSWORD": "rivermouth"})
    produce(way.bootstrap_servers, project.kafka_options(), topic, [b"one"])
    [outcome] = project.run()
    assert outcome.error is None
    assert [row["value"] for row in rows_of(tmp_path / "lake/bronze/things")] == ["one"]


@pytest.mark.parametrize("about", in_turn(LISTENERS[:-1]))
def test_a_wrong_password_opens_none(about, guarded):
    way = listener(guarded, about)
    options = {**way.options, "sasl.jaas.config": way.options["sasl.jaas.config"].replace('password="r', 'password="x')}
    with Kafka(way.bootstrap_servers, options) as kafka, pytest.raises(KafkaRefused, match="SASL"):
        kafka.describe(["any"])


def test_a_wrong_password_is_told_as_what_it_is_of_each_request(guarded):
    way = listener(guarded, "a password")
    options = {**way.options, "sasl.jaas.config": way.options["sasl.jaas.config"].replace('password="r', 'password="x')}
    refused = (
        "[KAFKA_REFUSED] the broker refused {}: SASL authentication error: Authentication failed: "
        "Invalid username or password; nothing was read\n"
        "  hint: check the credentials and the access rights of this client"
    )
    with Kafka(way.bootstrap_servers, options, timeout_s=120) as kafka:
        for request, what in (
            (lambda: kafka.describe(["orders"]), "to describe topic orders"),
            (kafka._client.all_names, "the list of topics"),
        ):
            with pytest.raises(KafkaRefused) as error:
                request()
            assert str(error.value) == refused.format(what)
        told = kafka.commit("group", {"orders": {0: 1}})
    assert told.detail.startswith("the broker refused to commit to consumer group 'group': SASL authentication error: ")
    with pytest.raises(KafkaRefused, match=r"^\[KAFKA_REFUSED\] the broker refused to create topic other: SASL "):
        produce(way.bootstrap_servers, options, "other", [b"{}"])


def test_without_a_certificate_nobody_comes_in(guarded):
    way = listener(guarded, "a certificate")
    options = {name: value for name, value in way.options.items() if "keystore" not in name}
    with Kafka(way.bootstrap_servers, options, timeout_s=2) as kafka, pytest.raises(KafkaRefused) as error:
        kafka.describe(["any"])
    assert str(error.value).startswith("[KAFKA_REFUSED] the broker refused to describe topic any: ")
    assert "alert bad certificate" in str(error.value)


@pytest.mark.parametrize(
    ("about", "protocol", "speaks", "right"),
    [
        ("a certificate", "PLAINTEXT", "speaks TLS", "SSL"),
        pytest.param("a password, over TLS", "SASL_PLAINTEXT", "speaks TLS", "SASL_SSL", marks=pytest.mark.long),
        pytest.param("a password", "SSL", "does not speak TLS", "PLAINTEXT", marks=pytest.mark.long),
        ("a password", "SASL_SSL", "does not speak TLS", "SASL_PLAINTEXT"),
        ("a password", "PLAINTEXT", "closes the connection of a client without login", "SASL_PLAINTEXT"),
    ],
)
def test_another_protocol_than_the_listeners_is_told_with_the_right_one(about, protocol, speaks, right, guarded):
    server = listener(guarded, about).bootstrap_servers
    same = [way for way in guarded.listeners if way.options["security.protocol"] == protocol]
    options = same[0].options if same else {"security.protocol": protocol}
    with Kafka(server, options, timeout_s=2) as kafka, pytest.raises(SecurityProtocolWrong) as error:
        kafka.cluster_id()
    assert str(error.value) == (
        f"[SECURITY_PROTOCOL_WRONG] the broker at {server} {speaks}, and security.protocol is {protocol}; "
        "nothing was read\n"
        f"  hint: kafka: {{options: {{security.protocol: {right}}}}}"
    )


@pytest.mark.long
def test_a_broker_that_nobody_knows_is_not_believed(guarded, tmp_path):
    way = listener(guarded, "a password, over TLS")
    with Broker.start(data_dir=tmp_path / "other", secure=True, heap="512m") as other:
        options = {**way.options, "ssl.truststore.location": str(other.data_dir / "ca.pem")}
        with (
            Kafka(way.bootstrap_servers, options) as kafka,
            pytest.raises(KafkaRefused, match="certificate verify failed"),
        ):
            kafka.describe(["any"])
        keys = {path.name: path.stat().st_mode & 0o777 for path in other.data_dir.glob("*.pem")}
    assert keys == {"ca.pem": 0o644, "broker.pem": 0o600, "client.pem": 0o600}


def test_a_frozen_broker_is_unreachable_and_when_it_is_stopped_nothing_is_left(guarded):
    """The last one of those that ask it."""
    way = listener(guarded, "a password")
    assert_unreachable_while_frozen(guarded, way.bootstrap_servers, way.options)
    guarded.pause()
    guarded.stop(timeout_s=20)
    assert not guarded.running
    assert not Path(f"/proc/{guarded.pid}").exists()
    assert not guarded.data_dir.exists()
    guarded.stop()


def test_without_the_library_nothing_is_started(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives", None)
    with pytest.raises(CryptographyMissing) as error:
        Broker.start(data_dir=tmp_path / "data", secure=True)
    assert str(error.value) == (
        "[CRYPTOGRAPHY_MISSING] certificates need the package cryptography, which is not installed; "
        "nothing was started\n"
        "  hint: pip install cryptography"
    )
