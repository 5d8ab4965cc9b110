"""What the doctor finds, and that each finding says how it is mended."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import shutil
import socket
from collections import namedtuple
from pathlib import Path

import pytest
from pyarrow.fs import FileSelector
from tests.ports.s3_proxy import S3Proxy

from rivermouth.cli.main import invoke
from rivermouth.errors import LakeNotWritable
from rivermouth.ports import java
from rivermouth.ports.dev.local_ports import free_port
from rivermouth.ports.spark import class_archive, jars
from rivermouth.project.api import Project
from rivermouth.project.commands.checks import doctor
from rivermouth.project.commands.checks.storage_check import tried

PROJECT = """\
name: shop
lake: ./lake
kafka:
  bootstrap_servers: {servers}
flows:
  orders:
    topics: [{topic}]
    format: raw
    table: bronze.orders
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def dev_port(monkeypatch):
    """A port that is free now, in the place of the usual one, which may be anybody's."""
    port = free_port()
    monkeypatch.setattr(doctor, "DEV_PORT", port)
    return port


def said(capsys, *arguments):
    """(exit code, lines of standard output, standard error) of ``rivermouth doctor``."""
    capsys.readouterr()
    code = invoke(["doctor", *arguments])
    out, err = capsys.readouterr()
    return code, [" ".join(line.split()) for line in out.splitlines()], err


def line_about(lines, thing):
    (found,) = (line for line in lines if line.startswith((f"ok {thing} ", f"problem {thing}")))
    return found


def test_a_machine_where_all_is_well(here, capsys, dev_port):
    code, lines, err = said(capsys)
    assert (code, err) == (0, "no rivermouth.yml here: the machine alone is looked at\n")
    found = java.find()
    assert [line.split()[:2] for line in lines] == [
        ["ok", "packages"],
        ["ok", "Java"],
        ["ok", "jars"],
        ["ok", "classes"],
        ["ok", "Spark's"],
        ["ok", "dev"],
    ]
    assert f"pyspark {importlib.metadata.version('pyspark')}, delta-spark" in lines[0]
    assert lines[1] == f"ok Java {found.version}, from {found.origin}: {found.home}"
    count = len(jars.locked()["spark"])
    assert lines[2] == f"ok jars all {count} of Spark's are here, in {jars.classpath('spark')[0].parent}"
    assert lines[5] == f"ok dev kafka port {dev_port} is free, the broker's jars are here"


def test_a_project_with_its_broker_and_lake(here, capsys, broker, topic, dev_port):
    (here / "rivermouth.yml").write_text(PROJECT.format(servers=broker.bootstrap_servers, topic=topic()))
    code, lines, err = said(capsys)
    assert (code, err) == (0, "")
    assert line_about(lines, "project") == "ok project rivermouth.yml, flows: orders"
    assert line_about(lines, "lake").startswith(f"ok lake {here / 'lake'} can be made, ")
    told = line_about(lines, "broker")
    assert told.startswith(f"ok broker {broker.bootstrap_servers} answers, cluster ")
    assert told.endswith("; 1 of the flows' topics are there")
    assert [path.name for path in here.iterdir()] == ["rivermouth.yml"]


def test_the_same_as_json(here, capsys, dev_port):
    capsys.readouterr()
    assert invoke(["doctor", "--output", "json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    checks = json.loads(out)["checks"]
    assert [(each["about"], each["problem"]) for each in checks] == [
        ("packages", None),
        ("Java", None),
        ("jars", None),
        ("classes", None),
        ("Spark's disk", None),
        ("dev kafka", None),
    ]


def test_what_is_wrong_is_told_one_by_one_and_the_rest_too(here, capsys, dev_port, monkeypatch):
    port = free_port()
    (here / "rivermouth.yml").write_text(PROJECT.format(servers=f"localhost:{port}", topic="orders"))
    (here / "lake").write_text("a file")
    code, lines, err = said(capsys)
    assert code == 1
    at = lines.index("problem lake")
    assert lines[at + 1 : at + 4] == [
        f"[LAKE_NOT_WRITABLE] cannot write into the lake {here / 'lake'}: Not a directory; nothing was written",
        "at: rivermouth.yml:2",
        "hint: check the owner and the free space of the folder, or set lake: to another one",
    ]
    at = lines.index("problem broker")
    told = f"[BROKER_UNREACHABLE] no Kafka broker answered at localhost:{port} within 1 s: nothing listens there; "
    assert lines[at + 1].startswith(told)
    assert lines[at + 2] == "at: rivermouth.yml:4"
    assert line_about(lines, "Java").startswith("ok")
    assert err == (
        "[NOT_READY] 2 of 9 checks failed: lake, broker\n"
        "  hint: rivermouth doctor, when the first of them is corrected\n"
    )


def test_a_topic_that_is_missing(here, capsys, broker, topic, dev_port):
    name = topic()
    (here / "rivermouth.yml").write_text(PROJECT.format(servers=broker.bootstrap_servers, topic=f"{name}s"))
    code, lines, err = said(capsys)
    assert code == 1
    at = lines.index("problem broker")
    assert lines[at + 1 : at + 4] == [
        f"[TOPIC_MISSING] flow orders: topic '{name}s' does not exist on the broker; nothing was read",
        "at: rivermouth.yml:4",
        f"hint: did you mean '{name}'?",
    ]
    assert err == (
        "[NOT_READY] 1 of 9 checks failed: broker\n  hint: rivermouth doctor, when the first of them is corrected\n"
    )


def test_a_project_file_that_cannot_be_read(here, capsys):
    code, lines, err = said(capsys, "-f", "other.yml")
    assert (code, lines) == (1, [])
    assert (
        err
        == "[PROJECT_NOT_FOUND] no project file at other.yml; nothing was read\n  hint: rivermouth init -f other.yml\n"
    )


def test_jars_that_are_missing_are_not_fetched(here, capsys, dev_port, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(here / "cache"))
    monkeypatch.delenv(jars.FOLDER_VARIABLE, raising=False)
    code, lines, err = said(capsys)
    assert code == 1
    count = len(jars.locked()["spark"])
    folder = Path(jars.cache_folder())
    at = lines.index("problem jars")
    assert lines[at + 1 : at + 3] == [
        (
            f"[JARS_MISSING] {count} of {count} spark jars are not in {folder}: downloads are switched off; "
            "nothing was started"
        ),
        "hint: rivermouth jars fetch, where the network or the mirror in RIVERMOUTH_MAVEN_URL can be reached",
    ]
    assert line_about(lines, "dev") == (
        f"ok dev kafka port {dev_port} is free; the broker's jars are fetched at its first start"
    )
    assert "[NOT_READY] 1 of 6 checks failed: jars\n" in err
    assert not folder.exists()


def test_another_pyspark_than_that_of_the_jars(here, capsys, dev_port, monkeypatch):
    real = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "4.1.0" if name == "pyspark" else real(name))
    code, lines, _err = said(capsys)
    assert code == 1
    wanted = real("pyspark")
    assert lines[1:3] == [
        f"[VERSIONS_DISAGREE] pyspark 4.1.0 is installed, and the jars are those of {wanted}; nothing was started",
        f"hint: pip install 'pyspark=={wanted}'",
    ]


def test_classes_that_are_archived_or_not(here, capsys, dev_port, monkeypatch):
    monkeypatch.setenv(jars.FOLDER_VARIABLE, str(jars.cache_folder()))
    monkeypatch.setenv("XDG_CACHE_HOME", str(here))
    none = "ok classes not archived: rivermouth jars archive lets Spark start some seconds faster"
    assert line_about(said(capsys)[1], "classes") == none
    bare = dataclasses.replace(java.find(), home=here)
    with monkeypatch.context() as patched:
        patched.setattr(java, "find", lambda: bare)
        never = "ok classes not archived: this Java makes no archive; Spark starts without one"
        assert line_about(said(capsys)[1], "classes") == never
    class_archive.folder().mkdir(parents=True)
    kept = f"{class_archive._environment()}-{class_archive._content(java.find())}.{3 << 20}.jsa"
    (class_archive.folder() / kept).write_bytes(bytes(3 << 20))
    archived = f"ok classes archived for a faster start, 3 MiB in {class_archive.folder()}"
    assert line_about(said(capsys)[1], "classes") == archived


def test_a_disk_without_room(here, capsys, dev_port, monkeypatch):
    usage = namedtuple("usage", "total used free")  # noqa: PYI024 - as shutil's own
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: usage(2 << 30, (2 << 30) - (5 << 20), 5 << 20))
    monkeypatch.setattr(doctor.tempfile, "gettempdir", lambda: str(here))
    code, lines, err = said(capsys)
    assert code == 1
    at = lines.index("problem Spark's disk")
    assert lines[at + 1 : at + 3] == [
        f"[DISK_NEARLY_FULL] 5 MiB are free at {here}, 1024 are wanted at the least; nothing was written",
        f"hint: du -xh --max-depth=2 {here} | sort -h | tail",
    ]
    assert "[NOT_READY] 1 of 6 checks failed: Spark's disk\n" in err


def test_a_port_that_is_taken_stops_no_flow(here, capsys, dev_port):
    with socket.create_server(("127.0.0.1", dev_port)):
        code, lines, _err = said(capsys)
    assert code == 0
    assert line_about(lines, "dev").startswith(f"ok dev kafka port {dev_port} is in use: rivermouth dev kafka --port ")


def test_a_lake_in_a_mounted_bucket(here, capsys, broker, topic, dev_port, monkeypatch):
    monkeypatch.setattr(doctor, "served_by", lambda folder: "fuse.s3fs" if folder == here / "lake" else None)
    (here / "rivermouth.yml").write_text(PROJECT.format(servers=broker.bootstrap_servers, topic=topic()))
    _code, lines, _err = said(capsys)
    told = line_about(lines, "lake")
    assert told.startswith(f"ok lake {here / 'lake'} can be made, ")
    assert told.endswith("; it is served by fuse.s3fs: only one machine may write there")


@pytest.fixture
def remote(here, s3, spark, broker, topic):
    """Writes a project whose lake is on S3: ``remote("s3a://doctors/lake")``, ``remote(lake, proxy.endpoint)``."""
    name = topic()

    def remote(lake, endpoint=None):
        options = {**s3.spark_conf, **({"spark.hadoop.fs.s3a.endpoint": endpoint} if endpoint else {})}
        conf = "".join(f'    {name}: "{value}"\n' for name, value in options.items())
        text = PROJECT.format(servers=broker.bootstrap_servers, topic=name) + f"spark:\n  conf:\n{conf}"
        (here / "rivermouth.yml").write_text(text.replace("./lake", lake))

    return remote


def test_a_lake_on_s3(capsys, dev_port, s3, remote):
    s3.store.create_dir("doctors")
    remote("s3a://doctors/lake")
    code, lines, err = said(capsys)
    assert (code, err) == (0, "")
    assert line_about(lines, "lake") == "ok lake s3a://doctors/lake answers"
    assert line_about(lines, "stores") == (
        "ok stores s3a://doctors: can be written, and of two who make one file the second is refused"
    )
    assert s3.store.get_file_info(FileSelector("doctors", recursive=True)) == []
    count = sum(len(jars.locked()[group]) for group in ("spark", "s3"))
    assert line_about(lines, "jars").startswith(f"ok jars all {count} of Spark's are here")


def test_without_spark_no_store_is_tried(capsys, dev_port, s3, remote):
    s3.store.create_dir("untried")
    remote("s3a://untried/lake")
    code, lines, err = said(capsys, "--no-spark")
    assert (code, err) == (0, "")
    assert line_about(lines, "lake") == (
        "ok lake s3a://untried/lake answers; whether it can be written and keeps two writers apart: not tried"
    )
    assert not [line for line in lines if line.startswith("ok stores")]


def test_a_bucket_that_is_not_there_is_not_tried(capsys, dev_port, remote):
    remote("s3a://nobodys/lake")
    code, lines, err = said(capsys)
    assert code == 1
    at = lines.index("problem lake")
    assert lines[at + 1 : at + 4] == [
        "[LAKE_NOT_READABLE] cannot read s3a://nobodys/lake: there is no bucket nobodys",
        "at: rivermouth.yml:2",
        "hint: check the credentials and the address of the lake, in spark: conf for object stores",
    ]
    assert err.startswith("[NOT_READY] 1 of 9 checks failed: lake\n")


def test_a_store_that_takes_nothing(capsys, dev_port, s3, remote):
    s3.store.create_dir("readable")
    with S3Proxy(s3.port) as proxy:
        proxy.denies = True
        remote("s3a://readable/lake", proxy.endpoint)
        code, lines, err = said(capsys)
    assert code == 1
    at = lines.index("problem stores")
    assert lines[at + 1].startswith("[LAKE_NOT_WRITABLE] cannot write into the lake s3a://readable/lake: ")
    assert "Access Denied" in lines[at + 1]
    assert lines[at + 1].endswith("; nothing was written")
    assert lines[at + 2 : at + 4] == [
        "at: rivermouth.yml:2",
        (
            "hint: let its keys or role s3:Get*, s3:Put* and s3:Delete* in s3a://readable/lake/*, "
            "and s3:ListBucket in s3a://readable"
        ),
    ]
    assert err.startswith("[NOT_READY] 1 of 10 checks failed: stores\n")


def test_a_store_that_does_not_keep_two_writers_apart(capsys, dev_port, s3, remote):
    s3.store.create_dir("deaf")
    with S3Proxy(s3.port) as proxy:
        proxy.deaf = True
        remote("s3a://deaf/lake", proxy.endpoint)
        code, lines, _err = said(capsys)
    assert code == 1
    at = lines.index("problem stores")
    assert lines[at + 1 : at + 4] == [
        (
            "[LAKE_NOT_FENCED] flow orders: the store of s3a://deaf/lake/_rivermouth overwrites a file that it should "
            "create only once, so that two writers could lose each other's commits; nothing was written"
        ),
        "at: rivermouth.yml:2",
        "hint: set lake: to a store with conditional writes (If-None-Match)",
    ]


def test_a_store_whose_connector_is_not_there(capsys, spark, here, broker, topic):
    text = PROJECT.format(servers=broker.bootstrap_servers, topic=topic()).replace("./lake", "gs://nobodys/lake")
    (here / "rivermouth.yml").write_text(text)
    with pytest.raises(LakeNotWritable) as caught:
        tried(Project.load("rivermouth.yml"))
    assert str(caught.value) == (
        "[LAKE_NOT_WRITABLE] cannot write into the lake gs://nobodys/lake: "
        "java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.gs.GoogleHadoopFileSystem not found; "
        "nothing was written\n"
        "  at: rivermouth.yml:2\n"
        "  hint: check the credentials in spark: conf, and that the store's connector is in spark.jars"
    )


def test_a_store_without_tables_is_not_tried(here):
    """One in which only archives are, or sources of flows."""
    sink = "    sink: {type: files, format: json, path: 's3a://nobodys/files'}\n"
    (here / "rivermouth.yml").write_text(PROJECT.format(servers="localhost:1", topic="orders") + sink)
    project = Project.load("rivermouth.yml")
    told = "no table is there; whether archives can be written and sources can be read: not tried"
    assert (project.schemes, doctor._stores(tried(project))) == ({"s3a"}, told)
