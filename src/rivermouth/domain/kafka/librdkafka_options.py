"""Kafka's options in librdkafka's words, for the client that asks for topics and offsets. Pure values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rivermouth.domain.kafka.jaas import IAM_LOGIN, Login, parse_jaas
from rivermouth.domain.kafka.kafka_options import IAM_MECHANISM, LOGIN_MODULES, OAUTH_ENDPOINT, OAUTHBEARER, checked
from rivermouth.errors import KafkaClientUnable

_OF_IAM: Final = frozenset({"awsProfileName", "awsRoleArn", "awsRoleSessionName"})
# librdkafka's names where it has the option; what is in neither table is tuning that it lacks.
_SAME: Final = frozenset(
    [
        "security.protocol",
        "sasl.mechanism",
        "sasl.kerberos.service.name",
        "client.id",
        "client.rack",
        "client.dns.lookup",
        "metadata.max.age.ms",
        "connections.max.idle.ms",
        "reconnect.backoff.ms",
        "reconnect.backoff.max.ms",
        "retry.backoff.ms",
        "socket.connection.setup.timeout.ms",
        "enable.metrics.push",
    ]
)
_RENAMED: Final = {
    "request.timeout.ms": "socket.timeout.ms",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
}


def client_options(options: Mapping[str, str | float | bool]) -> dict[str, str]:
    """The options in librdkafka's words, for admin requests and for reading committed offsets.

    Who one is and whom one trusts is translated or refused, never dropped. Which ciphers and versions of TLS Java
    takes, tuning of its consumer that librdkafka lacks, and
    ``isolation.level``, which admin requests take as an argument, are left out.

    Raises:
        KafkaOptionRefused: The first option that may not be set.
        KafkaClientUnable: A security option that librdkafka cannot take.
    """
    java = checked(options)
    result = {name: value for name, value in java.items() if name in _SAME}
    result |= {_RENAMED[name]: value for name, value in java.items() if name in _RENAMED}
    return result | _client_login(java) | _client_tls(java)


def _client_login(java: Mapping[str, str]) -> dict[str, str]:
    if not java.get("security.protocol", "").upper().startswith("SASL"):
        return {}
    # The Java client's default; librdkafka as shipped for Python is built without it.
    mechanism = java.get("sasl.mechanism", "GSSAPI")
    logins = parse_jaas(java.get("sasl.jaas.config", ""))
    if mechanism == "GSSAPI" or not logins:
        option, reason = (
            ("sasl.mechanism", "it is built without Kerberos")
            if mechanism == "GSSAPI"
            else ("sasl.jaas.config", "it is not set here, and a JAAS file of the JVM is not read")
        )
        by_iam = mechanism == IAM_MECHANISM
        fix = "kafka: {preset: msk-iam}" if by_iam else "sasl.mechanism: SCRAM-SHA-512, with sasl.jaas.config"
        raise KafkaClientUnable(option=option, reason=reason, fix=fix)
    options = logins[0].options
    if mechanism == IAM_MECHANISM or logins[0].module == IAM_LOGIN:
        return _client_iam(mechanism, logins[0])
    if LOGIN_MODULES[logins[0].module] == "password":
        return {"sasl.username": options.get("username", ""), "sasl.password": options.get("password", "")}
    url = java.get(OAUTH_ENDPOINT)
    if url is None or "clientId" not in options:
        raise KafkaClientUnable(
            option="sasl.jaas.config",
            reason="for OAUTHBEARER it needs a client id, a client secret and the address of the token endpoint",
            fix='clientId="..." clientSecret="..." in sasl.jaas.config, and sasl.oauthbearer.token.endpoint.url',
        )
    found = {
        "sasl.oauthbearer.method": "oidc",
        OAUTH_ENDPOINT: url,
        "sasl.oauthbearer.client.id": options["clientId"],
        "sasl.oauthbearer.client.secret": options.get("clientSecret", ""),
    }
    return found | ({"sasl.oauthbearer.scope": options["scope"]} if "scope" in options else {})


def _client_iam(mechanism: str, login: Login) -> dict[str, str]:
    reason, fix = "", ""
    others = ", ".join(sorted(login.options.keys() - _OF_IAM))
    if mechanism != IAM_MECHANISM or login.module != IAM_LOGIN:
        reason, fix = "sasl.mechanism AWS_MSK_IAM and IAMLoginModule only work together", "kafka: {preset: msk-iam}"
    elif others:
        reason, fix = f"it does not take IAMLoginModule's option {others}", f"remove {others} from sasl.jaas.config"
    if reason:
        raise KafkaClientUnable(option="sasl.jaas.config", reason=reason, fix=fix)
    return {"sasl.mechanism": OAUTHBEARER}


def _client_tls(java: Mapping[str, str]) -> dict[str, str]:
    result: dict[str, str] = {}
    if "ssl.truststore.certificates" in java:
        result["ssl.ca.pem"] = java["ssl.truststore.certificates"]
    elif "ssl.truststore.location" in java:
        _only(java, "ssl.truststore", ("PEM",))
        result["ssl.ca.location"] = java["ssl.truststore.location"]
    if "ssl.keystore.certificate.chain" in java:
        result["ssl.certificate.pem"] = java["ssl.keystore.certificate.chain"]
        result["ssl.key.pem"] = java.get("ssl.keystore.key", "")
    elif "ssl.keystore.location" in java:
        place = java["ssl.keystore.location"]
        if _only(java, "ssl.keystore", ("PEM", "PKCS12")) == "PEM":
            result |= {"ssl.certificate.location": place, "ssl.key.location": place}
        else:
            result |= {"ssl.keystore.location": place, "ssl.keystore.password": java.get("ssl.keystore.password", "")}
    if "ssl.key.password" in java:
        result["ssl.key.password"] = java["ssl.key.password"]
    if "ssl.endpoint.identification.algorithm" in java:
        # The Java client says "none" with an empty text.
        result["ssl.endpoint.identification.algorithm"] = java["ssl.endpoint.identification.algorithm"] or "none"
    return result


def _only(java: Mapping[str, str], store: str, kinds: tuple[str, ...]) -> str:
    kind = java.get(f"{store}.type", "JKS").upper()
    if kind not in kinds:
        raise KafkaClientUnable(
            option=f"{store}.location",
            reason=f"it reads {' and '.join(kinds)} stores only",
            fix=f"{store}.type: PEM, with {store}.location: a .pem file",
        )
    return kind
