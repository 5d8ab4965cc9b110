"""The schema registry as our classes in Spark's JVM reach it: what it gives, and every way in which it does not."""

from __future__ import annotations

import base64
import datetime as dt
import json
import struct
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from tests.ports.schema_registry import PASSWORD, USERNAME, SchemaRegistry

from rivermouth.decoding.avro import avro_document
from rivermouth.decoding.protobuf import protobuf_registry
from rivermouth.decoding.registry.schema_registry import RegistryAccess
from rivermouth.errors import SchemaRegistryFailed

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
        ("dripping", "it does not answer (SocketTimeoutException), for 0.6 s"),
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
    begun = time.monotonic()
    assert asked(spark, registry) == detail
    assert time.monotonic() - begun < 4
    assert not any("elsewhere" in path for path in registry.asked)


def decoder(spark, registry, **settings):
    """Our class, of a flow with this registry."""
    access = RegistryAccess(url=registry.url, **{"timeout_s": 30.0, **settings})
    return avro_document._decoder(spark, avro_document.Encoding(json.dumps(SCHEMA), "confluent", (), access))


def verdict(decoder, number):
    """Why a record of the writer with the id is refused; None if it is not."""
    row = decoder.explain(struct.pack(">bI", 0, number) + b"\x02")
    return None if row is None else (row.getUTF8String(1).toString(), row.getUTF8String(3).toString())


def test_what_it_has_and_nobody_can_use_refuses_the_records_alone(spark, registry):
    field = {"name": "id", "type": "int", "default": "none"}
    old = registry.register("old", {"type": "record", "name": "a.R", "fields": [field]})
    missing = {"name": "b.B", "subject": "none", "version": 1}
    circle = {"name": "c.C", "subject": "circle", "version": 1}
    numbers = [
        registry.register("no", {"type": "reccord"}),
        registry.register("text", "...", kind="JSON"),
        registry.register("dangling", SCHEMA, references=(missing,)),
        registry.register("circle", SCHEMA, references=(circle,)),
    ]
    ours = decoder(spark, registry)
    assert verdict(ours, old) is None
    none = [f"the schema registry has no Avro schema with the id {number}" for number in numbers]
    usable = [f"{each} that can be used: schema {number}" for each, number in zip(none, numbers, strict=True)]
    dangling = f"{usable[2]} refers to version 1 of subject none, which is no Avro schema of it"
    deep = f"{none[3]} that can be used: version 1 of subject circle refers to others more than 16 deep"
    told = [f"{usable[0]} is no Avro schema", none[1], dangling, deep]
    assert [verdict(ours, number) for number in numbers] == [("UNKNOWN_SCHEMA", each) for each in told]


def test_bytes_of_others_are_no_flood_of_questions(spark, registry):
    number = registry.register("s", SCHEMA)
    ours = decoder(spark, registry)
    assert verdict(ours, number) is None
    told = [verdict(ours, 1000 + other) for other in range(300)]
    assert told[0] == ("UNKNOWN_SCHEMA", "the schema registry has no Avro schema with the id 1000")
    assert told[299] == (
        "UNKNOWN_SCHEMA",
        "the schema registry was not asked for the id 1299: it had none of 100 others within 10 s",
    )
    assert registry.asked.total() == 101
    # What is known serves on; a new start asks again.
    assert verdict(ours, number) is None
    assert verdict(decoder(spark, registry), 1299) == (
        "UNKNOWN_SCHEMA",
        "the schema registry has no Avro schema with the id 1299",
    )


def test_no_task_waits_for_the_question_of_another(spark, registry):
    numbers = [registry.register("s", {**SCHEMA, "doc": str(number)}) for number in range(2)]
    ours = decoder(spark, registry)
    registry.order("slow", times=1)
    with ThreadPoolExecutor(4) as tasks:
        same = [tasks.submit(verdict, ours, numbers[0]) for _ in range(3)]
        while registry.faults:
            time.sleep(0.01)
        assert tasks.submit(verdict, ours, numbers[1]).result() is None
        assert not any(task.done() for task in same)
        assert [task.result() for task in same] == [None] * 3
    # The slow answer was none, so that one of them asked twice.
    assert dict(registry.asked) == {f"/schemas/ids/{numbers[0]}": 2, f"/schemas/ids/{numbers[1]}": 1}


def test_who_waits_for_an_outage_shares_it(spark, registry):
    number = registry.register("s", SCHEMA)
    ours = decoder(spark, registry, timeout_s=1.0)
    registry.order("500")
    begun = time.monotonic()
    with ThreadPoolExecutor(8) as tasks:
        found = [tasks.submit(verdict, ours, number) for _ in range(8)]
        assert all("RegistryFailure: it answers with status 500" in str(task.exception()) for task in found)
    assert time.monotonic() - begun < 4


@pytest.mark.parametrize(
    ("url", "detail"),
    [
        ("http://localhost:1/a|b", "schema_registry.url is no address"),
        ("file:///nowhere", "it cannot be asked (ClassCastException)"),
    ],
)
def test_an_address_that_is_none_refuses_no_record(spark, url, detail):
    access = RegistryAccess(url=url)
    with pytest.raises(SchemaRegistryFailed) as caught:
        avro_document.of_registry(spark, access, "s", 1)
    assert caught.value.facts["detail"] == detail


def test_what_passes_is_waited_for(spark, registry):
    registry.order("500", times=2)
    assert asked(spark, registry, timeout_s=10.0) == asked(spark, registry)


def test_a_registry_that_is_not_there(spark):
    with SchemaRegistry() as gone:
        pass
    assert asked(spark, gone) == "it does not answer (ConnectException), for 0.6 s"


def test_a_host_may_have_an_underscore_as_in_a_compose_file(spark):
    access = RegistryAccess(url="http://schema_registry.invalid:8081", timeout_s=0.6)
    with pytest.raises(SchemaRegistryFailed) as caught:
        avro_document.of_registry(spark, access, "s", 1)
    assert caught.value.facts["detail"] == "it does not answer (UnknownHostException), for 0.6 s"


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


# --- Protobuf: descriptors, asked for by the driver alone ------------------------------------------------


def descriptor(spark, registry, subject):
    """The messages of a subject's descriptor, or why there is none."""
    access = RegistryAccess(url=registry.url, timeout_s=5.0, max_bytes=100_000)
    try:
        found = FileDescriptorSet.FromString(protobuf_registry.descriptor_set(spark, access, subject, 1))
    except SchemaRegistryFailed as error:
        return error.facts["detail"]
    return {each.name: [message.name for message in each.message_type] for each in found.file}


def test_a_protobuf_schema_with_what_it_refers_to(spark, registry):
    def register(subject, name, *references):
        file = FileDescriptorProto(name="default", dependency=[each["name"] for each in references])
        file.message_type.add(name=name)
        text = base64.b64encode(file.SerializeToString()).decode()
        registry.register(subject, text, kind="PROTOBUF", references=references)

    def to(name, subject, version=1):
        return {"name": name, "subject": subject, "version": version}

    register("base", "Base")
    register("middle", "Middle", to("base.proto", "base"))
    register("top", "Top", to("middle.proto", "middle"), to("base.proto", "base"))
    found = {"the schema": ["Top"], "middle.proto": ["Middle"], "base.proto": ["Base"]}
    assert descriptor(spark, registry, "top") == found
    register("dangling", "D", to("none.proto", "none"))
    register("old", "O", to("base.proto", "base", version=7))
    register("odd", "Odd", {"name": "x.proto"} | to("x.proto", "base", version="x"))
    registry.register("text", "no descriptor", kind="PROTOBUF")
    none = "it has no Protobuf schema as version {} of subject {}"
    assert descriptor(spark, registry, "dangling") == none.format(1, "none")
    assert descriptor(spark, registry, "old") == none.format(7, "base")
    assert descriptor(spark, registry, "orders/ä b") == none.format(1, "orders/ä b")
    assert descriptor(spark, registry, "odd") == "its answer to version 1 of subject odd has references that are none"
    told = "it does not give version 1 of subject text as a descriptor (format=serialized)"
    assert descriptor(spark, registry, "text") == told
    registry.order("500")
    assert descriptor(spark, registry, "top").startswith("it answers with status 500")


def test_protobuf_schemas_that_refer_to_each_other_without_end(spark, registry):
    for place in range(20):
        reference = {"name": f"{place}.proto", "subject": f"s{place + 1}", "version": 1}
        text = base64.b64encode(FileDescriptorProto(name=f"f{place}").SerializeToString()).decode()
        registry.register(f"s{place}", text, kind="PROTOBUF", references=(reference,))
    assert descriptor(spark, registry, "s0") == "version 1 of subject s17 is referred to more than 16 deep"
