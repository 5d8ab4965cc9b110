"""Listeners of the development broker that ask who comes: passwords, TLS, and certificates of clients."""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rivermouth.domain.kafka.jaas import PASSWORD_LOGINS, PLAIN_LOGIN, password_login
from rivermouth.errors import CryptographyMissing
from rivermouth.ports.dev.local_ports import HOST

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

USER: Final = "rivermouth"
# No secret: it opens a broker on this machine only, and `dev kafka --secure` prints it.
PASSWORD: Final = "rivermouth"  # noqa: S105

# In Kafka's words: the name of the listener and its protocol.
_LISTENERS: Final[Mapping[str, str]] = {
    "LOGIN": "SASL_PLAINTEXT",
    "TLSLOGIN": "SASL_SSL",
    "MUTUAL": "SSL",
}
PORTS: Final = len(_LISTENERS)
"""How many ports they need."""
_VALID_FOR: Final = dt.timedelta(days=365)


@dataclass(frozen=True, slots=True)
class Listener:
    """One way into a broker.

    Attributes:
        about: What it asks for, in words.
        bootstrap_servers: Its address.
        options: What a project says under ``kafka: options`` to come in.
    """

    about: str
    bootstrap_servers: str
    options: Mapping[str, str]


def listeners(folder: Path, ports: Sequence[int]) -> tuple[Listener, ...]:
    """The secured listeners of a broker, on these ports: for passwords, for passwords over TLS, for certificates."""
    login, tls_login, mutual = (f"{HOST}:{port}" for port in ports)
    trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(folder / "ca.pem")}
    key = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(folder / "client.pem")}
    return (
        Listener("a password", login, _login("SASL_PLAINTEXT", "PLAIN")),
        Listener("a password, by SCRAM", login, _login("SASL_PLAINTEXT", "SCRAM-SHA-512")),
        Listener("a password, over TLS", tls_login, _login("SASL_SSL", "PLAIN") | trust),
        Listener("a password, by SCRAM over TLS", tls_login, _login("SASL_SSL", "SCRAM-SHA-512") | trust),
        Listener("a certificate", mutual, {"security.protocol": "SSL", **trust, **key}),
    )


def properties(folder: Path) -> dict[str, str]:
    """What ``server.properties`` says about the listeners; the certificates are made in ``folder``.

    Args:
        folder: The broker's; ``ca.pem`` and ``client.pem`` are for clients.

    Raises:
        CryptographyMissing: The library that makes certificates is not installed.

    Guarantees:
        Run twice: certificates that are there are kept.
    """
    if not (folder / "client.pem").is_file():
        _make_certificates(folder)
    found = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
        "listener.name.mutual.ssl.client.auth": "required",
    }
    for listener in ("login", "tlslogin"):
        found[f"listener.name.{listener}.sasl.enabled.mechanisms"] = ",".join(PASSWORD_LOGINS)
        for mechanism, module in PASSWORD_LOGINS.items():
            # SCRAM's passwords are set in the running broker.
            users = f' user_{USER}="{PASSWORD}"' if module == PLAIN_LOGIN else ""
            config = f"{module} required{users};"
            found[f"listener.name.{listener}.{mechanism.lower()}.sasl.jaas.config"] = config
    return found


def addresses(ports: Sequence[int]) -> str:
    """The listeners as they follow the open one in ``listeners``; the ports in the order of ``listeners()``."""
    return "".join(f",{name}://{HOST}:{port}" for name, port in zip(_LISTENERS, ports, strict=True))


def protocols() -> str:
    """The listeners as they follow the others in ``listener.security.protocol.map``."""
    return "".join(f",{name}:{protocol}" for name, protocol in _LISTENERS.items())


def add_user(client_config: Mapping[str, str | int], timeout_s: float = 30.0) -> None:
    """Sets the user's password for SCRAM in a broker, by its open listener."""
    from confluent_kafka.admin import (  # type: ignore[attr-defined]  # noqa: PLC0415 - most brokers need none of it
        AdminClient,
        ScramCredentialInfo,
        ScramMechanism,
        UserScramCredentialUpsertion,
    )

    admin = AdminClient(dict(client_config))
    for way in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        # One a request: a broker takes no two for one user.
        wanted = [UserScramCredentialUpsertion(USER, ScramCredentialInfo(way, 4096), PASSWORD.encode())]
        admin.alter_user_scram_credentials(wanted)[USER].result(timeout_s)  # type: ignore[arg-type]


def _login(protocol: str, mechanism: str) -> dict[str, str]:
    return {
        "security.protocol": protocol,
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": password_login(mechanism, USER, PASSWORD),
    }


def _make_certificates(folder: Path) -> None:
    try:
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
    except ImportError as error:
        raise CryptographyMissing from error

    def pem(certificate: x509.Certificate, key: EllipticCurvePrivateKey | None = None) -> str:
        text = certificate.public_bytes(serialization.Encoding.PEM)
        if key is not None:
            form = serialization.PrivateFormat.PKCS8
            text += key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
        return text.decode("ascii")

    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = _certificate("rivermouth dev kafka", authority_key, None, authority_key)
    (folder / "ca.pem").write_text(pem(authority), encoding="ascii")
    # The client's last: if it is there, all are there.
    for name in ("broker", "client"):
        key = ec.generate_private_key(ec.SECP256R1())
        file = folder / f"{name}.pem"
        file.touch(mode=0o600)
        file.write_text(pem(_certificate(name, key, authority, authority_key), key), encoding="ascii")


def _certificate(
    name: str, key: EllipticCurvePrivateKey, issuer: x509.Certificate | None, issuer_key: EllipticCurvePrivateKey
) -> x509.Certificate:
    from cryptography import x509  # noqa: PLC0415 - of an extra
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415

    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    places = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address(HOST))]
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + _VALID_FOR)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(places), critical=False)
    )
    return builder.sign(issuer_key, hashes.SHA256())
