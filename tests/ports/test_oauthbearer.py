"""A broker that wants tokens, an endpoint that hands them out, and both clients of a flow between them."""

from __future__ import annotations

import base64
import sys
import time

import pytest
from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
from tests.crashes.oracle import rows_of
from tests.ports.token_endpoint import CLIENT_ID, CLIENT_SECRET, TokenEndpoint

import rivermouth
from rivermouth.errors import KafkaClientUnable, KafkaRefused, MskSignerMissing, TokenNotMade
from rivermouth.ports.dev.broker import Broker
from rivermouth.ports.dev.local_ports import HOST, free_ports
from rivermouth.ports.kafka.kafka_cluster import Kafka
from rivermouth.ports.kafka.kafka_produce import produce
from rivermouth.ports.kafka.msk_iam import TokenSource
from rivermouth.spec import ProjectSpec

LOGIN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


@pytest.fixture(scope="module")
def endpoint():
    with TokenEndpoint() as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def address(endpoint, tmp_path_factory):
    """Of a listener that lets in every client with a token of the endpoint."""
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


IAM = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "AWS_MSK_IAM",
    "sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
}


def project(address, endpoint, folder, secret="${SECRET}"):
    spec = ProjectSpec(
        lake=str(folder / "lake"),
        kafka=cluster(address, endpoint, secret),
        flows={"things": {"topics": "things", "format": "text", "table": "bronze.things"}},
    )
    return rivermouth.Project.from_spec(spec, environ={"SECRET": CLIENT_SECRET})


@pytest.mark.long
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


@pytest.mark.long
def test_with_a_wrong_secret_nobody_comes_in(address, endpoint, tmp_path):
    with pytest.raises(KafkaRefused) as error:
        project(address, endpoint, tmp_path, "${WRONG:-no}").run()
    assert str(error.value) == (
        "[KAFKA_REFUSED] the broker refused the id of the cluster: Failed to acquire SASL OAUTHBEARER token: "
        '{"error": "invalid_client"}; nothing was read\n'
        "  hint: check the credentials and the access rights of this client"
    )
    assert not (tmp_path / "lake").exists()


@pytest.mark.long
def test_a_refusal_that_comes_before_the_first_request_is_its_answer(address, endpoint):
    wrong = cluster(address, endpoint, "wrong")["options"]
    with Kafka(address, wrong, timeout_s=2) as kafka:
        refused_before = endpoint.refused
        assert kafka._client.admin is not None
        # librdkafka asks again only after 10 s, longer than the request waits.
        while endpoint.refused == refused_before:
            time.sleep(0.1)
        time.sleep(0.5)
        with pytest.raises(KafkaRefused, match="Failed to acquire SASL OAUTHBEARER token"):
            kafka.describe(["any"])


def test_a_wrong_secret_is_told_before_a_broker_is_asked(endpoint):
    with Kafka(f"{HOST}:1", cluster("", endpoint, "wrong")["options"], timeout_s=2) as kafka:
        refused_before = endpoint.refused
        with pytest.raises(KafkaRefused) as error:
            kafka.cluster_id()
        assert endpoint.refused > refused_before
    assert str(error.value) == (
        "[KAFKA_REFUSED] the broker refused the id of the cluster: Failed to acquire SASL OAUTHBEARER token: "
        '{"error": "invalid_client"}; nothing was read\n'
        "  hint: check the credentials and the access rights of this client"
    )


@pytest.fixture
def role(monkeypatch):
    """Credentials as a machine's role gives them; the signature needs no network."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, f"of-{name}")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def signed(token):
    return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()


def test_a_token_for_msk_is_a_request_signed_for_the_region_of_the_brokers(role):
    servers = "b-1.shop.abc123.c2.kafka.us-east-2.amazonaws.com:9098"
    token, ends_s = TokenSource(servers, {})("")
    url = signed(token)
    assert url.startswith("https://kafka.us-east-2.amazonaws.com/?Action=kafka-cluster%3AConnect")
    assert "of-AWS_ACCESS_KEY_ID%2F" in url
    assert "of-AWS_SECRET_ACCESS_KEY" not in url
    assert 600 < ends_s - time.time() < 1000
    token, _ends_s = TokenSource("localhost:9098", {})("")
    assert signed(token).startswith("https://kafka.eu-central-1.amazonaws.com/")


@pytest.mark.parametrize(
    ("login", "called", "told"),
    [
        ({"awsProfileName": "dev"}, "generate_auth_token_from_profile", ("eu-central-1", "dev")),
        ({"awsRoleArn": "arn:x"}, "generate_auth_token_from_role_arn", ("eu-central-1", "arn:x", "rivermouth")),
        (
            {"awsRoleArn": "arn:x", "awsRoleSessionName": "me"},
            "generate_auth_token_from_role_arn",
            ("eu-central-1", "arn:x", "me"),
        ),
    ],
)
def test_credentials_of_a_profile_and_of_a_role(login, called, told, role, monkeypatch):
    asked = []
    monkeypatch.setattr(MSKAuthTokenProvider, called, lambda *how: asked.append(how) or ("token", 7000))
    assert TokenSource("localhost:9098", login)("") == ("token", 7.0)
    assert asked == [told]


@pytest.mark.long
def test_by_iam_the_broker_gets_the_token(address, endpoint, role, monkeypatch):
    with Kafka(address, IAM) as kafka, pytest.raises(KafkaRefused) as error:
        kafka.describe(["any"])
    # It is no cluster of Amazon's, and does not take it for a token.
    assert "SASL authentication error" in str(error.value)
    assert "of-AWS" not in str(error.value)
    ends_ms = int((time.time() + 900) * 1000)
    monkeypatch.setattr(MSKAuthTokenProvider, "generate_auth_token", lambda _region: (endpoint.token("read"), ends_ms))
    with Kafka(address, IAM) as kafka:
        assert kafka.describe(["any"]) == {}


def test_without_credentials_nobody_comes_in(role, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    with Kafka("localhost:1", IAM, timeout_s=2) as kafka, pytest.raises(TokenNotMade) as error:
        kafka.describe(["any"])
    assert str(error.value) == (
        "[TOKEN_NOT_MADE] no token for a login by IAM could be made: there are no credentials in the environment, in a "
        "profile or of this machine; nothing was read\n"
        "  hint: aws sts get-caller-identity"
    )


@pytest.mark.long
def test_a_token_that_is_not_made_anew_for_once_ends_nothing(address, endpoint, role, monkeypatch):
    made = []

    def generate(_region):
        made.append(1)
        if len(made) == 3:
            raise OSError("no answer")
        return endpoint.token("read"), int((time.time() + 4) * 1000)

    monkeypatch.setattr(MSKAuthTokenProvider, "generate_auth_token", generate)
    with Kafka(address, IAM) as kafka:
        deadline = time.monotonic() + 60
        # The first is only looked at, the second lives for four seconds, the third fails, and so on.
        while len(made) < 4:
            assert time.monotonic() < deadline
            assert kafka.describe(["any"]) == {}
            time.sleep(0.2)


def test_while_no_token_is_made_an_error_says_why(role, monkeypatch):
    with Kafka("localhost:1", IAM, timeout_s=1) as kafka:
        assert kafka._client.admin is not None
        monkeypatch.setattr(MSKAuthTokenProvider, "generate_auth_token", lambda _region: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            kafka._client._tokens("")
        with pytest.raises(TokenNotMade, match="could be made: division by zero; nothing was read"):
            kafka.describe(["any"])


def test_a_region_that_nobody_tells(monkeypatch):
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(KafkaClientUnable) as error:
        Kafka("localhost:9098", IAM)
    assert str(error.value) == (
        "[KAFKA_CLIENT_UNABLE] kafka option 'sasl.mechanism' cannot be handed to librdkafka, by which rivermouth asks "
        "for topics and offsets: the address of the brokers does not tell their region, nor does AWS_REGION; "
        "nothing was run\n  hint: export AWS_REGION=eu-central-1"
    )


def test_without_amazons_library_nothing_is_run(role, monkeypatch):
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    with pytest.raises(MskSignerMissing) as error:
        Kafka("localhost:9098", IAM)
    assert str(error.value) == (
        "[MSK_SIGNER_MISSING] IAM needs the package aws-msk-iam-sasl-signer-python, which is not installed; "
        "nothing was run\n  hint: pip install aws-msk-iam-sasl-signer-python"
    )
