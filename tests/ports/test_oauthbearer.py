"""A broker that wants tokens, an endpoint that hands them out, and both clients of a flow between them."""

from __future__ import annotations

import pytest
from tests.crashes.oracle import rows_of
from tests.ports.token_endpoint import CLIENT_ID, CLIENT_SECRET, TokenEndpoint

import rivermouth
from rivermouth.errors import KafkaRefused
from rivermouth.ports.broker import Broker
from rivermouth.ports.dev_server import HOST, free_ports
from rivermouth.ports.kafka_produce import produce
from rivermouth.spec import ProjectSpec

LOGIN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


@pytest.fixture(scope="module")
def endpoint():
    with TokenEndpoint() as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def address(endpoint, tmp_path_factory):
    """Of a listener that lets in whoever has a token of the endpoint's."""
    folder = tmp_path_factory.mktemp("tokens")
    keys = endpoint.write_keys(folder / "keys.json")
    plain, tokens, controller = free_ports(3)
    kafka = "org.apache.kafka.common.security.oauthbearer"
    properties = {
        "listeners": f"PLAINTEXT://{HOST}:{plain},TOKENS://{HOST}:{tokens},CONTROLLER://{HOST}:{controller}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{plain},TOKENS://{HOST}:{tokens}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,TOKENS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.quorum.voters": f"1@{HOST}:{controller}",
        "listener.name.tokens.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.tokens.oauthbearer.sasl.jaas.config": f"{LOGIN};",
        "listener.name.tokens.oauthbearer.sasl.server.callback.handler.class": (
            f"{kafka}.OAuthBearerValidatorCallbackHandler"
        ),
        "listener.name.tokens.sasl.oauthbearer.jwks.endpoint.url": keys,
        "listener.name.tokens.sasl.oauthbearer.expected.audience": "kafka",
    }
    with pytest.MonkeyPatch.context() as patch:
        # A broker reads keys only from where its JVM was told that it may.
        patch.setenv("JAVA_TOOL_OPTIONS", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys}")
        broker = Broker.start(plain, properties=properties, heap="512m")
    with broker:
        yield f"{HOST}:{tokens}"


def cluster(address, endpoint, secret):
    return {
        "bootstrap_servers": address,
        "options": {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": endpoint.url,
            "sasl.jaas.config": f'{LOGIN} clientId="{CLIENT_ID}" clientSecret="{secret}" scope="read";',
        },
    }


def project(address, endpoint, folder, secret="${SECRET}"):
    spec = ProjectSpec(
        lake=str(folder / "lake"),
        kafka=cluster(address, endpoint, secret),
        flows={"things": {"topics": "things", "format": "text", "table": "bronze.things"}},
    )
    return rivermouth.Project.from_spec(spec, environ={"SECRET": CLIENT_SECRET})


def test_a_flow_asks_for_tokens_and_comes_in(address, endpoint, spark, tmp_path):
    things = project(address, endpoint, tmp_path)
    produce(address, things.kafka_options(), "things", [b"one", b"two"])
    endpoint.asked.clear()
    [outcome] = things.run()
    assert outcome.error is None
    assert sorted(row["value"] for row in rows_of(tmp_path / "lake/bronze/things")) == ["one", "two"]
    # Of librdkafka, which asks for offsets, and of Spark's consumers.
    assert len(endpoint.asked) >= 2
    assert set(endpoint.asked) == {"read"}


def test_with_a_wrong_secret_nobody_comes_in(address, endpoint, tmp_path):
    with pytest.raises(KafkaRefused) as error:
        project(address, endpoint, tmp_path, "${WRONG:-no}").run()
    assert str(error.value).splitlines()[0] == (
        "[KAFKA_REFUSED] the broker refused the id of the cluster: Failed to acquire SASL OAUTHBEARER token: "
        '{"error": "invalid_client"}; nothing was read'
    )
    assert not (tmp_path / "lake").exists()
