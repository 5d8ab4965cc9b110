"""Which Kafka options a user may set. Pure values.

Options carry the names of Kafka's Java client, with or without Spark's ``kafka.`` prefix; values are text in
which references to environment variables are already resolved. Nothing here puts a value into a message.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Final

from rivermouth.domain.kafka.jaas import IAM_LOGIN, PLAIN_LOGIN, SCRAM_LOGIN, expand_jaas, parse_jaas
from rivermouth.domain.project.references import expand
from rivermouth.errors import KafkaOptionRefused

ISOLATION_LEVEL: Final = "read_committed"
IAM_MECHANISM: Final = "AWS_MSK_IAM"
OAUTHBEARER: Final = "OAUTHBEARER"
OAUTH_ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"

_FORMAT: Final = ("the flow's format decodes the records", "use format: and key_format:")
_OFFSETS: Final = ("the ledger in the table keeps the offsets", "remove it; group_id: shows progress to Kafka's tools")
_WRITES: Final = ("it belongs to a producer, and rivermouth only reads", "remove it")
_CODE: Final = ("it loads code into the client", "remove it")
_PROGRAM: Final = ("it starts a program", "remove it")
_SPARKS: Final = ("Spark assigns the partitions itself", "remove it")

# Decided by Spark, by rivermouth, or by nobody: the reason, and the word to use.
_REFUSED: Final[Mapping[str, tuple[str, str]]] = {
    "bootstrap.servers": ("the project names the brokers", "use kafka: {bootstrap_servers: ...}"),
    "auto.offset.reset": ("the flow says where it starts", "use starting_offsets:"),
    "group.id": ("the flow names its group", "use group_id:"),
    "key.deserializer": _FORMAT,
    "value.deserializer": _FORMAT,
    "key.serializer": _WRITES,
    "value.serializer": _WRITES,
    "enable.auto.commit": _OFFSETS,
    "auto.commit.interval.ms": _OFFSETS,
    "interceptor.classes": _CODE,
    "metric.reporters": _CODE,
    "partition.assignment.strategy": _SPARKS,
    "group.instance.id": _SPARKS,
    "group.protocol": _SPARKS,
    "group.remote.assignor": _SPARKS,
    "security.providers": _CODE,
    "sasl.kerberos.kinit.cmd": _PROGRAM,
}
# Spark's own words for what a flow says in ours; compared without regard to case, as Spark does.
_SOURCE_OPTIONS: Final[Mapping[str, str]] = {
    "startingOffsets": "use starting_offsets:",
    "startingOffsetsByTimestamp": "use starting_offsets: with a timestamp",
    "startingOffsetsByTimestampStrategy": "use starting_offsets:",
    "startingTimestamp": "use starting_offsets: with a timestamp",
    "endingOffsets": "use ending_offsets:",
    "endingOffsetsByTimestamp": "use ending_offsets: with a timestamp",
    "endingTimestamp": "use ending_offsets: with a timestamp",
    "subscribe": "use topics:",
    "subscribePattern": "use topic_pattern:",
    "assign": "use assign:",
    "topic": "use topics:",
    "failOnDataLoss": "write on_data_loss in the flow: fail or record",
    "maxOffsetsPerTrigger": "use trigger: {max_offsets: ...}",
    "minOffsetsPerTrigger": "use trigger: {min_offsets: ..., max_delay: ...}",
    "maxTriggerDelay": "use trigger: {max_delay: ...}",
    "minPartitions": "use trigger: {min_partitions: ...}",
    "maxRecordsPerPartition": "use trigger: {min_partitions: ...}",
    "includeHeaders": "use metadata_columns: with kafka_headers",
    "groupIdPrefix": "use group_id:",
    "kafkaConsumer.pollTimeoutMs": "remove it",
    "fetchOffset.numRetries": "remove it",
    "fetchOffset.retryIntervalMs": "remove it",
    "checkpointLocation": "use places: {checkpoint: ...}",
}
_SOURCE_WORDS: Final = {name.lower(): (name, fix) for name, fix in _SOURCE_OPTIONS.items()}
_LOADS_CODE: Final = re.compile(r"\.(class|classes|reporters)$|^config\.providers(\.|$)")

LOGIN_MODULES: Final = {
    PLAIN_LOGIN: "password",
    SCRAM_LOGIN: "password",
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule": "oauth",
    "com.sun.security.auth.module.Krb5LoginModule": "kerberos",
    IAM_LOGIN: "iam",
}
# Classes that a login needs in the Java client, which loads no other. Without Kafka's own it would make up a token
# instead of asking for one.
_ASKS_FOR_TOKENS: Final = {
    "sasl.login.callback.handler.class": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
}
_SIGNS_WITH_IAM: Final = {"sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler"}
# What Kafka's consumer (kafka-clients 3.9) knows and the table above does not decide; for "did you mean".
_KNOWN: Final = frozenset(
    [
        "allow.auto.create.topics",
        "auto.include.jmx.reporter",
        "check.crcs",
        "client.dns.lookup",
        "client.id",
        "client.rack",
        "connections.max.idle.ms",
        "default.api.timeout.ms",
        "enable.metrics.push",
        "exclude.internal.topics",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "heartbeat.interval.ms",
        "isolation.level",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "max.poll.records",
        "metadata.max.age.ms",
        "metadata.recovery.strategy",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "request.timeout.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "sasl.jaas.config",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.service.name",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.login.retry.backoff.max.ms",
        "sasl.login.retry.backoff.ms",
        "sasl.mechanism",
        "sasl.oauthbearer.clock.skew.seconds",
        "sasl.oauthbearer.expected.audience",
        "sasl.oauthbearer.expected.issuer",
        "sasl.oauthbearer.header.urlencode",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        "sasl.oauthbearer.jwks.endpoint.url",
        "sasl.oauthbearer.scope.claim.name",
        "sasl.oauthbearer.sub.claim.name",
        "sasl.oauthbearer.token.endpoint.url",
        "security.protocol",
        "send.buffer.bytes",
        "session.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
        "ssl.cipher.suites",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.password",
        "ssl.keymanager.algorithm",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    ]
)


def problems(options: Mapping[str, str | float | bool]) -> Iterator[KafkaOptionRefused]:
    """All refusals among ``options``, in their order; each names the option and the word to use instead."""
    seen: dict[str, str] = {}
    for written, value in options.items():
        name = plain_name(written)
        if name in seen:
            yield KafkaOptionRefused(
                option=written, reason=f"it is also here as {seen[name]!r}", fix=f"keep one: {name}"
            )
        seen[name] = written
        problem = _name_problem(name) or (_jaas_problem(str(value)) if name == "sasl.jaas.config" else None)
        if problem is None and name == "isolation.level" and text(value) not in ("read_committed", "read_uncommitted"):
            problem = ("it is neither read_committed nor read_uncommitted", "isolation.level: read_committed")
        if problem is not None:
            yield KafkaOptionRefused(option=written, reason=problem[0], fix=problem[1])


def checked(options: Mapping[str, str | float | bool]) -> dict[str, str]:
    """The options as Kafka's Java client takes them: plain names, values as text.

    ``isolation.level`` is ``read_committed`` unless the user says otherwise, so that records of aborted
    transactions are never read.

    Raises:
        KafkaOptionRefused: The first option that may not be set.
    """
    for problem in problems(options):
        raise problem
    return {"isolation.level": ISOLATION_LEVEL} | {plain_name(name): text(value) for name, value in options.items()}


def java_options(options: Mapping[str, str | float | bool]) -> dict[str, str]:
    """The checked options, with what Kafka's Java client also needs: the class that requests or creates tokens.

    Raises:
        KafkaOptionRefused: The first option that may not be set.
    """
    java = checked(options)
    asks = java.get("sasl.mechanism") == OAUTHBEARER and OAUTH_ENDPOINT in java
    signs = java.get("sasl.mechanism") == IAM_MECHANISM
    return java | (_ASKS_FOR_TOKENS if asks else {}) | (_SIGNS_WITH_IAM if signs else {})


def iam_login(options: Mapping[str, str | float | bool]) -> Mapping[str, str] | None:
    """What IAMLoginModule is told, where Amazon MSK knows this client by IAM; None elsewhere."""
    java = checked(options)
    if java.get("sasl.mechanism") != IAM_MECHANISM:
        return None
    logins = parse_jaas(java.get("sasl.jaas.config", ""))
    return logins[0].options if logins else {}


def isolation_level(options: Mapping[str, str | float | bool]) -> str:
    """``read_committed`` or ``read_uncommitted``, as the checked options say.

    Raises:
        KafkaOptionRefused: The first option that may not be set.
    """
    return checked(options)["isolation.level"]


def plain_name(name: str) -> str:
    """``name`` without Spark's ``kafka.`` prefix and without spaces around it."""
    return name.strip().removeprefix("kafka.")


def resolve(name: str, value: str | float | bool, environ: Mapping[str, str]) -> str:
    """The option ``name`` as text, with its references resolved; in a JAAS text a secret stays one value.

    Raises:
        EnvironmentMissing: A variable without default is not set.
        SecretMissing: A provider does not have the secret.
        ProjectInvalid: A ``${`` begins no reference.
    """
    return (expand_jaas if name.endswith("sasl.jaas.config") else expand)(text(value), environ)


def text(value: str | float | bool) -> str:
    """``value`` as Kafka's properties write it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _name_problem(name: str) -> tuple[str, str] | None:
    if name in _REFUSED:
        return _REFUSED[name]
    if name.lower() in _SOURCE_WORDS:
        return ("it is an option of Spark's source, not of Kafka", _SOURCE_WORDS[name.lower()][1])
    if _LOADS_CODE.search(name):
        return _CODE
    if name in _KNOWN:
        return None
    # Kafka ignores options that it does not know, so a slip of the pen would silently do nothing.
    near = difflib.get_close_matches(name, sorted(_KNOWN | set(_REFUSED)), n=1, cutoff=0.85)
    return ("Kafka's consumer has no option of this name", f"did you mean {near[0]!r}?") if near else None


def _jaas_problem(config: str) -> tuple[str, str] | None:
    modules = ", ".join(module.rpartition(".")[2] for module in LOGIN_MODULES)
    fix = f'sasl.jaas.config: {next(iter(LOGIN_MODULES))} required username="${{USER}}" password="${{PASSWORD}}";'
    try:
        logins = parse_jaas(config)
    except ValueError as error:
        return str(error), fix
    if len(logins) != 1:
        return f"it must name one login module and names {len(logins)}", fix
    if logins[0].module not in LOGIN_MODULES:
        return f"its login module is none of {modules}", fix
    return None
