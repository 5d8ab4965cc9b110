"""The schema registry as our classes in Spark's JVM reach it: what it gives, and every way in which it does not."""

from __future__ import annotations

import datetime as dt
import json

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.ports.schema_registry import PASSWORD, USERNAME, SchemaRegistry

from rivermouth.errors import SchemaRegistryFailed
from rivermouth.rows import avro_document
from rivermouth.rows.schema_registry import RegistryAccess

SCHEMA = {"type": "record", "name": "a.R", "fields": [{"name": "id", "type": "int"}]}


@pytest.fixture
def registry():
    with SchemaRegistry() as running:
        running.register("orders/ä b", SCHEMA)
        yield running


def certificates(folder):
    """The file of an authority, and those of a certificate by it for localhost alone and of its key."""
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    found = []
    for name, key, issuer in (("authority", keys[0], True), ("localhost", keys[1], False)):
        builder = x509.CertificateBuilder().serial_number(x509.random_serial_number()).public_key(key.public_key())
        builder = builder.subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]))
        builder = builder.issuer_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "authority")]))
        now = dt.datetime.now(dt.UTC)
        builder = builder.not_valid_before(now - dt.timedelta(days=1)).not_valid_after(now + dt.timedelta(days=1))
        builder = builder.add_extension(x509.BasicConstraints(ca=issuer, path_length=None), critical=True)
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        pem = builder.sign(keys[0], hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        found.append(folder / f"{name}.pem")
        found[-1].write_bytes(pem)
    private = folder / "key.pem"
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    private.write_bytes(keys[1].private_bytes(*form))
    return found[0], (found[1], private)


def asked(spark, registry, subject="orders/ä b", version=1, **settings):
    """The schema that is found, or why there is none."""
    access = RegistryAccess(url=registry.url, **{"timeout_s": 0.6, "max_bytes": 100_000, **settings})
    try:
        return json.loads(avro_document.of_registry(spark, access, subject, version))
    except SchemaRegistryFailed as error:
        return error.facts["detail"]


def test_a_version_of_a_subject(spark, registry):
    assert asked(spark, registry) == {**SCHEMA, "name": "R", "namespace": "a"}
    absent = "it has no Avro schema as version {} of subject {}"
    assert asked(spark, registry, version=2) == absent.format(2, "orders/ä b")
    assert asked(spark, registry, subject="none") == absent.format(1, "none")
    registry.register("text", "...", kind="JSON")
    assert asked(spark, registry, subject="text") == absent.format(1, "text")


def test_a_schema_that_refers_to_others(spark, registry):
    registry.register("inner", SCHEMA)
    outer = {"type": "record", "name": "Outer", "fields": [{"name": n, "type": "a.R"} for n in "xy"]}
    references = ({"name": "a.R", "subject": "inner", "version": 1},)
    registry.register("outer", outer, references=references)
    found = asked(spark, registry, subject="outer")
    assert found["fields"][0]["type"]["fields"] == SCHEMA["fields"]
    registry.register("broken", outer, references=({"name": "a.R", "subject": "none", "version": 1},))
    assert asked(spark, registry, subject="broken") == (
        "version 1 of subject broken refers to version 1 of subject none, which is no Avro schema of it"
    )
    circle = {"name": "c.C", "subject": "circle", "version": 1}
    registry.register("circle", outer, references=(circle,))
    assert asked(spark, registry, subject="circle") == (
        "version 1 of subject circle refers to others more than 16 deep"
    )


@pytest.mark.parametrize(
    ("fault", "detail"),
    [
        ("slow", "it does not answer (SocketTimeoutException), for 0.6 s"),
        ("500", "it answers with status 500, for 0.6 s"),
        ("404", "its answer to version 1 of subject orders/ä b is no JSON object"),
        ("another_404", "it answers 404 to version 1 of subject orders/ä b, and not as a schema registry"),
        ("redirect", "it sends elsewhere with status 302, and no redirect is followed"),
        ("oversized", "its answer has more than 100000 bytes"),
        ("garbage", "its answer to version 1 of subject orders/ä b is no JSON object"),
        ("no_schema", "its answer to version 1 of subject orders/ä b has no schema"),
        ("no_avro", "version 1 of subject orders/ä b is no Avro schema"),
        ("nested", "its answer to version 1 of subject orders/ä b is no JSON object"),
    ],
)
def test_what_it_should_not_answer(spark, registry, fault, detail):
    registry.order(fault)
    assert asked(spark, registry) == detail
    assert not any("elsewhere" in path for path in registry.asked)


def test_what_passes_is_waited_for(spark, registry):
    registry.order("500", times=2)
    assert asked(spark, registry, timeout_s=10.0) == asked(spark, registry)


def test_a_registry_that_is_not_there(spark):
    with SchemaRegistry() as gone:
        pass
    assert asked(spark, gone) == "it does not answer (ConnectException), for 0.6 s"


def test_a_login(spark):
    with SchemaRegistry(login=True) as registry:
        registry.register("s", SCHEMA)
        login = {"username": USERNAME, "password": PASSWORD}
        assert asked(spark, registry, subject="s", **login)["name"] == "R"
        for wrong in ({}, {**login, "password": "no"}):
            assert asked(spark, registry, subject="s", **wrong) == "it refuses the login with status 401"
        assert PASSWORD not in repr(RegistryAccess(url=registry.url, **login))


def test_tls_by_its_own_authority(spark, tmp_path):
    authority, certificate = certificates(tmp_path)
    with SchemaRegistry(certificate=certificate) as registry:
        registry.register("s", SCHEMA)
        trusted = asked(spark, registry, subject="s", authorities=authority.read_text(), timeout_s=30.0)
        assert trusted["name"] == "R"
        untrusted = "its certificate or its TLS is not accepted"
        assert asked(spark, registry, subject="s", timeout_s=30.0) == untrusted
        named = RegistryAccess(url=registry.url.replace("localhost", "127.0.0.1"), authorities=authority.read_text())
        with pytest.raises(SchemaRegistryFailed, match=untrusted):
            avro_document.of_registry(spark, named, "s", 1)
        no_pem = "schema_registry.ca_file holds no certificates"
        assert asked(spark, registry, subject="s", authorities="nothing") == no_pem
