"""Which options of Kafka a user may set, and the same in librdkafka's words."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.domain.kafka.jaas import parse_jaas
from rivermouth.domain.kafka.kafka_options import checked, iam_login, isolation_level, java_options, problems, resolve
from rivermouth.domain.kafka.librdkafka_options import client_options
from rivermouth.errors import KafkaClientUnable, KafkaOptionRefused

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="p;w=\\"d";'
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required username='ann' password='secret';"
OAUTH = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    'clientId="ann" clientSecret="secret" scope="read";'
)
KERBEROS = 'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="/k" principal="p@R";'
JNDI = 'com.sun.security.auth.module.JndiLoginModule required user.provider.url="ldap://x";'
JAAS_FIX = (
    "sasl.jaas.config: org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="${USER}" password="${PASSWORD}";'
)


def told(option: str, reason: str, fix: str) -> str:
    return f"[KAFKA_OPTION_REFUSED] kafka option {option!r} is refused: {reason}; nothing was run\n  hint: {fix}"


REFUSED = [
    ("bootstrap.servers", "the project names the brokers", "use kafka: {bootstrap_servers: ...}"),
    ("auto.offset.reset", "the flow says where it starts", "use starting_offsets:"),
    ("kafka.group.id", "the flow names its group", "use group_id:"),
    ("key.deserializer", "the flow's format decodes the records", "use format: and key_format:"),
    ("kafka.value.deserializer", "the flow's format decodes the records", "use format: and key_format:"),
    ("key.serializer", "it belongs to a producer, and rivermouth only reads", "remove it"),
    ("value.serializer", "it belongs to a producer, and rivermouth only reads", "remove it"),
    (
        "enable.auto.commit",
        "the ledger in the table keeps the offsets",
        "remove it; group_id: shows progress to Kafka's tools",
    ),
    (
        "auto.commit.interval.ms",
        "the ledger in the table keeps the offsets",
        "remove it; group_id: shows progress to Kafka's tools",
    ),
    ("partition.assignment.strategy", "Spark assigns the partitions itself", "remove it"),
    ("group.instance.id", "Spark assigns the partitions itself", "remove it"),
    ("sasl.kerberos.kinit.cmd", "it starts a program", "remove it"),
    ("startingOffsets", "it is an option of Spark's source, not of Kafka", "use starting_offsets:"),
    ("startingoffsets", "it is an option of Spark's source, not of Kafka", "use starting_offsets:"),
    ("endingOffsets", "it is an option of Spark's source, not of Kafka", "use ending_offsets:"),
    ("subscribe", "it is an option of Spark's source, not of Kafka", "use topics:"),
    ("subscribePattern", "it is an option of Spark's source, not of Kafka", "use topic_pattern:"),
    ("assign", "it is an option of Spark's source, not of Kafka", "use assign:"),
    (
        "failOnDataLoss",
        "it is an option of Spark's source, not of Kafka",
        "write on_data_loss in the flow: fail or record",
    ),
    ("maxOffsetsPerTrigger", "it is an option of Spark's source, not of Kafka", "use trigger: {max_offsets: ...}"),
    (
        "includeHeaders",
        "it is an option of Spark's source, not of Kafka",
        "use metadata_columns: with kafka_headers",
    ),
    ("security.protcol", "Kafka's consumer has no option of this name", "did you mean 'security.protocol'?"),
    ("enable.autocommit", "Kafka's consumer has no option of this name", "did you mean 'enable.auto.commit'?"),
    *(
        (name, "it loads code into the client", "remove it")
        for name in (
            "interceptor.classes",
            "metric.reporters",
            "sasl.client.callback.handler.class",
            "sasl.login.callback.handler.class",
            "sasl.login.class",
            "ssl.engine.factory.class",
            "security.providers",
            "config.providers",
            "config.providers.file.class",
            "config.providers.file.param.x",
            "something.new.class",
        )
    ),
]


@pytest.mark.parametrize(("option", "reason", "fix"), REFUSED, ids=[row[0] for row in REFUSED])
def test_a_refused_option_is_told_in_whole(option, reason, fix):
    with pytest.raises(KafkaOptionRefused) as caught:
        checked({option: "the value"})

    assert str(caught.value) == told(option, reason, fix)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (
            JNDI,
            (
                "its login module is none of PlainLoginModule, ScramLoginModule, OAuthBearerLoginModule, "
                "Krb5LoginModule, IAMLoginModule"
            ),
        ),
        (PLAIN + SCRAM, "it must name one login module and names 2"),
        ("", "it must name one login module and names 0"),
        (PLAIN.rstrip(";"), "it does not end with a ';'"),
        ("PlainLoginModule;", 'it is not written as: module required name="value" ...;'),
        (PLAIN.replace("username=", "username "), 'an option in it is not written as name="value"'),
        (
            PLAIN.rstrip(";") + '"',
            "a quote in it is not closed, or a value with other characters than letters and digits is not quoted",
        ),
        (
            f"{PLAIN.rstrip(';')} // {JNDI}",
            "a quote in it is not closed, or a value with other characters than letters and digits is not quoted",
        ),
    ],
)
def test_a_refused_login_is_told_in_whole_and_not_quoted(config, reason):
    with pytest.raises(KafkaOptionRefused) as caught:
        checked({"kafka.sasl.jaas.config": config})

    assert str(caught.value) == told("kafka.sasl.jaas.config", reason, JAAS_FIX)


def test_an_option_with_and_without_prefix_is_told_in_whole():
    with pytest.raises(KafkaOptionRefused) as caught:
        checked({"client.id": "a", "kafka.client.id": "b"})

    assert str(caught.value) == told("kafka.client.id", "it is also here as 'client.id'", "keep one: client.id")


def test_an_isolation_that_kafka_does_not_have_is_told_in_whole():
    with pytest.raises(KafkaOptionRefused) as caught:
        checked({"isolation.level": "serializable"})

    assert str(caught.value) == told(
        "isolation.level", "it is neither read_committed nor read_uncommitted", "isolation.level: read_committed"
    )


def test_all_refusals_are_found_in_order():
    options = {"group.id": "g", "client.id": "c", "subscribe": "t"}

    assert [problem.facts["option"] for problem in problems(options)] == ["group.id", "subscribe"]


def test_options_come_out_as_each_client_writes_them():
    options = {"kafka.security.protocol": "SSL", "max.poll.records": 500, "check.crcs": True, "a.new.option": "x"}

    assert checked(options) == {
        "isolation.level": "read_committed",
        "security.protocol": "SSL",
        "max.poll.records": "500",
        "check.crcs": "true",
        "a.new.option": "x",
    }
    assert isolation_level({"kafka.isolation.level": "read_uncommitted"}) == "read_uncommitted"


@pytest.mark.parametrize(
    ("java", "librdkafka"),
    [
        pytest.param({}, {}, id="nothing"),
        pytest.param(
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN},
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "ann",
                "sasl.password": 'p;w="d',
            },
            id="plain",
        ),
        pytest.param(
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": SCRAM},
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": "ann",
                "sasl.password": "secret",
            },
            id="scram",
        ),
        pytest.param(
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.jaas.config": OAUTH,
                "sasl.oauthbearer.token.endpoint.url": "https://login.example.com/token",
            },
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.token.endpoint.url": "https://login.example.com/token",
                "sasl.oauthbearer.client.id": "ann",
                "sasl.oauthbearer.client.secret": "secret",
                "sasl.oauthbearer.scope": "read",
            },
            id="oauth",
        ),
        pytest.param(
            {
                "request.timeout.ms": 1000,
                "receive.buffer.bytes": 65536,
                "client.id": "c",
                "max.poll.records": 500,
                "fetch.max.wait.ms": 100,
                "isolation.level": "read_uncommitted",
            },
            {"socket.timeout.ms": "1000", "socket.receive.buffer.bytes": "65536", "client.id": "c"},
            id="tuning",
        ),
    ],
)
def test_options_in_the_words_of_librdkafka_are_taken_by_it(java, librdkafka):
    found = client_options(java)

    assert found == librdkafka
    Consumer({"bootstrap.servers": "localhost:1", "group.id": "g", **found}).close()


@pytest.mark.parametrize("with_endpoint", [True, False])
def test_kafkas_java_client_is_told_to_ask_for_tokens(with_endpoint):
    endpoint = {"kafka.sasl.oauthbearer.token.endpoint.url": "https://login.example.com/token"} if with_endpoint else {}
    told = java_options({"sasl.mechanism": "OAUTHBEARER", **endpoint})
    handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
    assert told.get("sasl.login.callback.handler.class") == (handler if with_endpoint else None)
    assert java_options({"sasl.mechanism": "PLAIN"}) == checked({"sasl.mechanism": "PLAIN"})


def iam(options="", mechanism="AWS_MSK_IAM", module="software.amazon.msk.auth.iam.IAMLoginModule"):
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f"{module} required{options};",
    }


def test_msk_knows_both_clients_by_iam():
    assert client_options(iam()) == {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    handler = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
    assert java_options(iam())["sasl.client.callback.handler.class"] == handler
    assert iam_login(iam(' awsProfileName="dev"')) == {"awsProfileName": "dev"}
    assert iam_login({"sasl.mechanism": "PLAIN"}) is None


@pytest.mark.parametrize(
    ("java", "reason", "fix"),
    [
        (
            iam(' awsDebugCreds="true"'),
            "it does not take IAMLoginModule's option awsDebugCreds",
            "remove awsDebugCreds from sasl.jaas.config",
        ),
        (
            iam(mechanism="OAUTHBEARER"),
            "sasl.mechanism AWS_MSK_IAM and IAMLoginModule only work together",
            "kafka: {preset: msk-iam}",
        ),
        (
            iam(module="org.apache.kafka.common.security.plain.PlainLoginModule"),
            "sasl.mechanism AWS_MSK_IAM and IAMLoginModule only work together",
            "kafka: {preset: msk-iam}",
        ),
    ],
)
def test_a_login_by_iam_that_only_one_client_would_understand(java, reason, fix):
    with pytest.raises(KafkaClientUnable) as caught:
        client_options(java)
    assert str(caught.value) == (
        "[KAFKA_CLIENT_UNABLE] kafka option 'sasl.jaas.config' cannot be handed to librdkafka, by which rivermouth "
        f"asks for topics and offsets: {reason}; nothing was run\n  hint: {fix}"
    )


@pytest.mark.parametrize(
    ("java", "librdkafka"),
    [
        (
            {"ssl.truststore.location": "/ca.pem", "ssl.truststore.type": "PEM"},
            {"ssl.ca.location": "/ca.pem"},
        ),
        ({"ssl.truststore.certificates": "A", "ssl.truststore.type": "PEM"}, {"ssl.ca.pem": "A"}),
        (
            {"ssl.keystore.location": "/me.pem", "ssl.keystore.type": "pem", "ssl.key.password": "x"},
            {"ssl.certificate.location": "/me.pem", "ssl.key.location": "/me.pem", "ssl.key.password": "x"},
        ),
        (
            {"ssl.keystore.certificate.chain": "C", "ssl.keystore.key": "K"},
            {"ssl.certificate.pem": "C", "ssl.key.pem": "K"},
        ),
        (
            {"ssl.keystore.location": "/me.p12", "ssl.keystore.type": "PKCS12", "ssl.keystore.password": "x"},
            {"ssl.keystore.location": "/me.p12", "ssl.keystore.password": "x"},
        ),
        ({"ssl.endpoint.identification.algorithm": ""}, {"ssl.endpoint.identification.algorithm": "none"}),
    ],
)
def test_certificates_in_the_words_of_librdkafka(java, librdkafka):
    assert client_options(java) == librdkafka


@pytest.mark.parametrize(
    ("java", "option", "reason", "fix"),
    [
        (
            {"ssl.truststore.location": "/trust.jks"},
            "ssl.truststore.location",
            "it reads PEM stores only",
            "ssl.truststore.type: PEM, with ssl.truststore.location: a .pem file",
        ),
        (
            {"ssl.keystore.location": "/me.jks", "ssl.keystore.type": "JKS"},
            "ssl.keystore.location",
            "it reads PEM and PKCS12 stores only",
            "ssl.keystore.type: PEM, with ssl.keystore.location: a .pem file",
        ),
        (
            {"security.protocol": "SASL_SSL", "sasl.jaas.config": KERBEROS},
            "sasl.mechanism",
            "it is built without Kerberos",
            "sasl.mechanism: SCRAM-SHA-512, with sasl.jaas.config",
        ),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"},
            "sasl.jaas.config",
            "it is not set here, and a JAAS file of the JVM is not read",
            "sasl.mechanism: SCRAM-SHA-512, with sasl.jaas.config",
        ),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": OAUTH},
            "sasl.jaas.config",
            "for OAUTHBEARER it needs a client id, a client secret and the address of the token endpoint",
            'clientId="..." clientSecret="..." in sasl.jaas.config, and sasl.oauthbearer.token.endpoint.url',
        ),
    ],
)
def test_security_that_librdkafka_cannot_take_is_told_in_whole_and_never_dropped(java, option, reason, fix):
    with pytest.raises(KafkaClientUnable) as caught:
        client_options(java)

    assert str(caught.value) == (
        f"[KAFKA_CLIENT_UNABLE] kafka option {option!r} cannot be handed to librdkafka, by which rivermouth asks for "
        f"topics and offsets: {reason}; nothing was run\n  hint: {fix}"
    )


def test_a_login_shows_no_secrets():
    assert repr(parse_jaas(SCRAM)) == (
        "[Login('org.apache.kafka.common.security.scram.ScramLoginModule', options of password, username)]"
    )


@given(st.dictionaries(st.from_regex(r"\A[a-z][A-Za-z.]{0,8}\Z"), st.text(max_size=15), max_size=4))
def test_law_whatever_a_reference_holds_stays_one_option_of_one_module(options):
    environ = {f"V_{name.replace('.', '_')}": value for name, value in options.items()}
    options = {name: environ[f"V_{name.replace('.', '_')}"] for name in options}
    written = " ".join(f'{name}="${{V_{name.replace(".", "_")}}}"' for name in options)

    text = resolve("sasl.jaas.config", f"a.b.C required {written} ;", environ)

    assert [(login.module, login.options) for login in parse_jaas(text)] == [("a.b.C", options)]


def test_a_whole_login_in_one_variable_is_taken_as_it_is():
    assert resolve("sasl.jaas.config", "${LOGIN}", {"LOGIN": SCRAM}) == SCRAM
    assert resolve("sasl.jaas.config", "a.B required x='${X}';", {"X": """it's "\\" """}) == (
        """a.B required x='it\\'s \\"\\\\\\" ';"""
    )
