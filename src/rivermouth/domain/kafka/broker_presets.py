"""What services that run Kafka want to hear from every client, so that a project only says who it is. Pure values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rivermouth.domain.kafka.jaas import IAM_LOGIN, PASSWORD_LOGINS, password_login
from rivermouth.domain.kafka.kafka_options import IAM_MECHANISM, plain_name
from rivermouth.domain.project.references import expand

if TYPE_CHECKING:
    from rivermouth.spec import KafkaCluster

_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "sasl.mechanism": tuple(PASSWORD_LOGINS),
    "security.protocol": ("SASL_SSL", "SASL_PLAINTEXT"),
}


@dataclass(frozen=True, slots=True)
class Preset:
    """One service.

    Attributes:
        options: What a client of it says, in Kafka's words.
        username: The one that all clients have; None where each has its own.
    """

    options: Mapping[str, str]
    username: str | None = None


def _over_tls(mechanism: str) -> dict[str, str]:
    return {"security.protocol": "SASL_SSL", "sasl.mechanism": mechanism}


PRESETS: Final[Mapping[str, Preset]] = {
    "confluent-cloud": Preset(
        {**_over_tls("PLAIN"), "client.dns.lookup": "use_all_dns_ips", "session.timeout.ms": "45000"},
    ),
    "event-hubs": Preset(
        {
            **_over_tls("PLAIN"),
            # The service ends connections that were silent for four minutes.
            "metadata.max.age.ms": "180000",
            "connections.max.idle.ms": "180000",
            "request.timeout.ms": "60000",
        },
        username="$ConnectionString",
    ),
    "msk-iam": Preset(
        {**_over_tls(IAM_MECHANISM), "sasl.jaas.config": f"{IAM_LOGIN} required;"},
    ),
    "msk-scram": Preset(_over_tls("SCRAM-SHA-512")),
    "redpanda": Preset(_over_tls("SCRAM-SHA-256")),
    "strimzi": Preset(
        {**_over_tls("SCRAM-SHA-512"), "ssl.truststore.type": "PEM"},
    ),
}


def options_of(cluster: KafkaCluster) -> dict[str, str | int | bool]:
    """The options of a project's cluster: those of its preset, and its own, which win. References stay."""
    own = {plain_name(name) for name in cluster.options}
    of_preset = PRESETS[cluster.preset].options if cluster.preset is not None else {}
    return {**{name: value for name, value in of_preset.items() if name not in own}, **cluster.options}


def login_of(cluster: KafkaCluster, environ: Mapping[str, str]) -> dict[str, str]:
    """``sasl.jaas.config`` for a cluster's user name and password, with references resolved: a secret.

    Empty where the cluster has no password. ``login_problem`` must have found nothing wrong.

    Raises:
        EnvironmentMissing: A variable without default is not set.
        SecretMissing: A provider does not have the secret.
        ProjectInvalid: A ``${`` begins no reference.
    """
    if cluster.password is None:
        return {}
    username = cluster.username or PRESETS[cluster.preset or ""].username or ""
    who, password = (expand(text, environ) for text in (username, cluster.password))
    return {"sasl.jaas.config": password_login(_said(cluster)["sasl.mechanism"], who, password)}


def login_problem(cluster: KafkaCluster) -> tuple[str, str] | None:
    """What is wrong with a cluster's user name and password, and what to write; None if nothing is."""
    if cluster.username is None and cluster.password is None:
        return None
    said = _said(cluster)
    if "sasl.jaas.config" in {plain_name(name) for name in cluster.options}:
        return (
            "username and password make sasl.jaas.config, which is also under options",
            "remove sasl.jaas.config from options:",
        )
    if cluster.password is None:
        return "username has no password", "password: ${KAFKA_PASSWORD}"
    if cluster.username is None and (cluster.preset is None or PRESETS[cluster.preset].username is None):
        return "password has no username", "username: ${KAFKA_USER}"
    for name, good in _NEEDED.items():
        if said.get(name) not in good:
            found = f"it is {said[name]}" if name in said else "it is not set"
            return (
                f"username and password need a {name} of {', '.join(good)}, and {found}",
                "options: {security.protocol: SASL_SSL, sasl.mechanism: SCRAM-SHA-512}",
            )
    return None


def _said(cluster: KafkaCluster) -> dict[str, str]:
    return {plain_name(name): str(value) for name, value in options_of(cluster).items()}
