"""A schema registry: how it is reached and asked, and what its failures are."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from rivermouth.decoding.jvm import jvm_classes
from rivermouth.decoding.jvm.jvm_classes import JAVA_ERRORS
from rivermouth.errors import SchemaRegistryFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rivermouth.spec import SchemaRegistry

_FAILURE: Final = "rivermouth.avro.RegistryFailure: "
NEWEST: Final = -1
"""The version of a subject that was registered last."""

# What an address consists of, by RFC 3986: host and port, and a path.
_ADDRESS: Final = re.compile(
    r"[a-z]+://(?:[\w.~:@!$&'()*+,;=\[\]-]|%[0-9a-f]{2})+(?:[\w.~:/?#@!$&'()*+,;=-]|%[0-9a-f]{2})*",
    re.ASCII | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class RegistryAccess:
    """How to reach a schema registry, with all references resolved.

    Attributes:
        url: Where it is, without a login.
        username: Who logs in; empty for nobody.
        password: The password that goes with it.
        authorities: Certificates that it is trusted by, as PEM; empty for those of Java.
        timeout_s: Bound on one question, repetitions included.
        max_bytes: Bound on one answer.
    """

    url: str
    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    authorities: str = field(default="", repr=False)
    timeout_s: float = 30.0
    max_bytes: int = 1 << 20


def problems(spec: SchemaRegistry, url: str) -> Iterator[tuple[str, str, str]]:
    """(field, what is wrong with it, what to write) of a project's ``schema_registry``.

    Args:
        spec: As the project has it.
        url: Its address with references resolved.
    """
    if problem := address_problem(url):
        yield ("url", *problem)
    if (spec.username is None) != (spec.password is None):
        yield "username", "username and password go together", "password: ${REGISTRY_PASSWORD}"


def address_problem(url: str) -> tuple[str, str] | None:
    """What is wrong with the address of a registry, and what to write; None if nothing is."""
    example = "url: https://registry.example:8081"
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        known = False
    if not known or not _ADDRESS.fullmatch(url):
        return "it is no address of a registry", example
    if parts.username is not None or parts.password is not None:
        return "a login does not belong into the address", "write username and password next to it"
    if parts.query or parts.fragment:
        return "it has more than host, port and path", example
    return None


def failure(text: str) -> SchemaRegistryFailed | None:
    """The typed error behind a failure of Spark whose text contains a registry's failure; None if it is another one."""
    _, found, rest = text.partition(_FAILURE)
    return SchemaRegistryFailed(detail=rest.splitlines()[0].strip()) if found else None


def client(spark: SparkSession, access: RegistryAccess) -> Any:
    """Our class in Spark's JVM that asks a registry: an ``avro.Registry``."""
    login = (access.username, access.password, access.authorities)
    bounds = (round(access.timeout_s * 1000), access.max_bytes)
    return jvm_classes.found(spark, "avro.Registry")(access.url, *login, *bounds)


def version_of(
    spark: SparkSession, registry: RegistryAccess, subject: str, version: int, form: str
) -> dict[str, Any] | None:
    """What a registry says of a version of a subject; None if it has none.

    Args:
        spark: Any session.
        registry: How it is reached.
        subject: The subject.
        version: Its version, or ``NEWEST``.
        form: How the schema shall be written in it: ``serialized``.

    Raises:
        SchemaRegistryFailed: It does not say.
    """
    try:
        answer = client(spark, registry).said(subject, version, form)
    except JAVA_ERRORS as error:
        raise translated(error) from None
    return None if answer is None else dict(json.loads(answer))


def id_of(spark: SparkSession, registry: RegistryAccess, subject: str, version: int) -> int:
    """The id of a version of a subject.

    Raises:
        SchemaRegistryFailed: The registry has none, or does not say.
    """
    found = version_of(spark, registry, subject, version, "serialized")
    number = None if found is None else found.get("id")
    if not isinstance(number, int):
        raise SchemaRegistryFailed(detail=f"it does not say which id version {version} of subject {subject} has")
    return number


def newest(spark: SparkSession, registry: RegistryAccess, subject: str) -> tuple[int, int]:
    """The newest version of a subject, and its id.

    Raises:
        SchemaRegistryFailed: The registry has none, or does not say.
    """
    match version_of(spark, registry, subject, NEWEST, "serialized"):
        case {"version": int(version), "id": int(number)}:
            return version, number
    raise SchemaRegistryFailed(detail=f"it does not say which version of subject {subject} is the newest")


def written_id(
    spark: SparkSession, access: Callable[[], RegistryAccess], subject: str | None, version: int | None
) -> int | None:
    """The id that values carry which are written by a version of a subject; None where no subject is named.

    Args:
        spark: Any session.
        access: How the registry is reached; asked only where a subject is named.
        subject: The subject.
        version: Its version.

    Raises:
        SchemaRegistryFailed: The registry has none, or does not say.
    """
    return None if subject is None else id_of(spark, access(), subject, version or 0)


def translated(error: Exception) -> Exception:
    """An error of our classes as one of Python's; others are what they are."""
    java = jvm_classes.java_error(error)
    failed = None if java is None else failure(str(java.toString()))
    return jvm_classes.translated(error) if failed is None else failed
