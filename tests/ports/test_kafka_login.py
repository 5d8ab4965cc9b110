"""A broker that wants a login: who is let in, and how soon the others hear that they are not."""

from __future__ import annotations

import pytest
from tests.ports.freezing import assert_unreachable_while_frozen

from rivermouth.errors import KafkaRefused, SecurityProtocolWrong
from rivermouth.ports.dev.broker import Broker, ReadyCheck
from rivermouth.ports.kafka.kafka_cluster import Kafka
from rivermouth.ports.kafka.kafka_produce import ProduceSettings, produce

LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
PASSWORD = "correct-horse"
WRONG = "battery-staple"


def options(password=PASSWORD):
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{LOGIN} required username="reader" password="{password}";',
    }


@pytest.fixture(scope="module")
def guarded():
    """A broker with SASL/PLAIN on the listener that its clients use."""
    server = f'{LOGIN} required username="reader" password="{PASSWORD}" user_reader="{PASSWORD}";'
    properties = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": server,
    }
    client = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "reader",
        "sasl.password": PASSWORD,
    }
    with Broker.start(properties=properties, ready=ReadyCheck(client), heap="512m") as broker:
        yield broker


@pytest.mark.long
def test_with_the_right_password_topics_are_seen_and_written(guarded):
    told = produce(guarded.bootstrap_servers, options(), "orders", [b"{}"] * 3)
    with Kafka(guarded.bootstrap_servers, options()) as kafka:
        topics = kafka.describe(["orders"])
        assert kafka.end_offsets(topics) == {"orders": {0: 3}}
    assert (told.created, told.delivered) == (True, 3)


@pytest.mark.long
def test_a_wrong_password_is_told_long_before_the_bound(guarded):
    with Kafka(guarded.bootstrap_servers, options(WRONG), timeout_s=120) as kafka:
        with pytest.raises(KafkaRefused) as described:
            kafka.describe(["orders"])
        with pytest.raises(KafkaRefused) as listed:
            kafka._client.all_names()
        told = kafka.commit("group", {"orders": {0: 1}})
    text = (
        "[KAFKA_REFUSED] the broker refused {}: SASL authentication error: Authentication failed: "
        "Invalid username or password; nothing was read\n"
        "  hint: check the credentials and the access rights of this client"
    )
    assert str(described.value) == text.format("to describe topic orders")
    assert str(listed.value) == text.format("the list of topics")
    assert told.detail == (
        "the broker refused to commit to consumer group 'group': SASL authentication error: Authentication failed: "
        "Invalid username or password; nothing was read"
    )
    assert WRONG not in str(described.value) + str(listed.value) + told.detail


@pytest.mark.long
def test_a_wrong_password_keeps_records_from_being_sent(guarded):
    with pytest.raises(KafkaRefused, match=r"^\[KAFKA_REFUSED\] the broker refused to create topic other: SASL "):
        produce(guarded.bootstrap_servers, options(WRONG), "other", [b"{}"], how=ProduceSettings(timeout_s=120))
    with Kafka(guarded.bootstrap_servers, options()) as kafka:
        assert kafka.describe(["other"]) == {}


@pytest.mark.long
def test_no_login_at_all_is_told_as_a_wrong_security_protocol(guarded):
    with Kafka(guarded.bootstrap_servers, timeout_s=1) as kafka, pytest.raises(SecurityProtocolWrong) as error:
        kafka.cluster_id()
    assert str(error.value) == (
        f"[SECURITY_PROTOCOL_WRONG] the broker at {guarded.bootstrap_servers} closes the connection of a client "
        "without login, and security.protocol is PLAINTEXT; nothing was read\n"
        "  hint: kafka: {options: {security.protocol: SASL_PLAINTEXT}}"
    )


def test_a_login_where_none_is_wanted_is_told_as_a_wrong_security_protocol(broker):
    with Kafka(broker.bootstrap_servers, options()) as kafka, pytest.raises(SecurityProtocolWrong) as error:
        kafka.cluster_id()
    assert str(error.value) == (
        f"[SECURITY_PROTOCOL_WRONG] the broker at {broker.bootstrap_servers} asks for no login, and security.protocol "
        "is SASL_PLAINTEXT; nothing was read\n"
        "  hint: kafka: {options: {security.protocol: PLAINTEXT}}"
    )


@pytest.mark.long
def test_a_frozen_broker_is_unreachable_and_answers_again_afterwards(guarded):
    assert_unreachable_while_frozen(guarded, guarded.bootstrap_servers, options())
