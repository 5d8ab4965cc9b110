"""Folders that are mounted buckets: known by what serves them, and not taken for disks."""

from __future__ import annotations

import pytest

from rivermouth.engine.audit.audit import audit_flow
from rivermouth.engine.flow.jobs import FlowJob
from rivermouth.engine.report.plan import plan_flow
from rivermouth.errors import PlaceAmbiguous
from rivermouth.ports.lake import mounts
from rivermouth.ports.lake.lake_files import is_local_disk
from rivermouth.ports.lake.storage_checks import check_fenced, check_same_place
from rivermouth.ports.spark import session
from rivermouth.project.api import Project
from rivermouth.spec import Flow, ProjectSpec

MOUNTS = r"""30 22 0:49 / /before rw - fuse.gcsfuse bucket rw
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
31 22 0:50 / /data rw,nosuid,nodev - fuse.s3fs s3fs rw,user_id=0
32 31 0:51 / /data/disk rw - ext4 /dev/vdb rw
33 22 0:52 / /with\040space rw - fuse.gcsfuse bucket rw
34 22 0:53 / /Volumes rw - fuse dbfs rw
35 22 0:54 / /usb rw - fuseblk /dev/sdb1 rw
36 22 0:55 / /twice rw - fuse.rclone remote rw
37 36 0:56 / /twice rw - tmpfs tmpfs rw
38 22 0:57 / /over/disk rw - ext4 /dev/vdc rw
39 22 0:58 / /over rw - fuse.s3fs s3fs rw
cut short
"""
PLACES = ("table", "dead_letter_table", "checkpoint")


@pytest.fixture
def mounted(tmp_path, monkeypatch):
    """As if the machine had these mounts."""
    told = tmp_path / "mountinfo"
    told.write_text(MOUNTS)
    monkeypatch.setattr(mounts, "_MOUNTS", told)
    return told


@pytest.mark.parametrize(
    ("path", "served"),
    [
        ("/data", "fuse.s3fs"),
        ("/data/lake/silver", "fuse.s3fs"),
        ("/database", None),
        ("/data/disk/lake", None),
        ("/data/lake/../disk", None),
        ("/with space/lake", "fuse.gcsfuse"),
        ("/Volumes/main/default/lake", "fuse"),
        ("/usb/lake", None),
        ("/twice/lake", None),
        ("/over/disk/lake", "fuse.s3fs"),
        ("/before/lake", "fuse.gcsfuse"),
        ("/home", None),
    ],
)
def test_what_serves_a_folder(path, served, mounted):
    assert mounts.served_by(mounts.Path(path)) == served
    assert is_local_disk(path) == (served is None)
    assert is_local_disk(f"file://{path.replace(' ', '%20')}") == (served is None)


def test_where_the_system_does_not_tell_its_mounts(mounted):
    mounted.unlink()
    assert mounts.served_by(mounts.Path("/data")) is None


def test_links_in_a_circle_are_served_by_nobody(mounted, tmp_path):
    (tmp_path / "one").symlink_to(tmp_path / "two")
    (tmp_path / "two").symlink_to(tmp_path / "one")
    assert mounts.served_by(tmp_path / "one") is None


def places_of(folder, places, sink="append"):
    flow = {
        "topics": "t",
        "format": "text",
        "table": "bronze.t",
        "sink": sink,
        **({"places": places} if places else {}),
    }
    spec = ProjectSpec(lake=str(folder / "lake"), kafka={"bootstrap_servers": "localhost:1"}, flows={"f": flow})
    return Project.from_spec(spec).places("f")


def test_this_machines_own_disk_is_one(tmp_path):
    assert is_local_disk(str(tmp_path))
    assert not is_local_disk("s3a://bucket/lake")


@pytest.mark.parametrize(
    ("default", "places", "place", "instead"),
    [
        ("hdfs://namenode:8020/", {}, "{base}/lake/bronze/t", "hdfs://namenode:8020{base}/lake/bronze/t"),
        (
            "hdfs://namenode:8020",
            {"table": "hdfs://namenode:8020/t"},
            "{base}/lake/bronze/t__dead_letters",
            "hdfs://namenode:8020{base}/lake/bronze/t__dead_letters",
        ),
        (
            "hdfs://namenode:8020",
            {"table": "hdfs://namenode:8020/t", "dead_letter_table": "hdfs://namenode:8020/d"},
            "{base}/lake/_rivermouth/checkpoints/bronze.t",
            "hdfs://namenode:8020{base}/lake/_rivermouth/checkpoints/bronze.t",
        ),
        (
            "hdfs://namenode:8020",
            {each: f"hdfs://namenode:8020/{each}" for each in PLACES},
            "{base}/lake/files",
            "hdfs://namenode:8020{base}/lake/files",
        ),
        ("dbfs:/", {"table": "/dbfs/mnt/t"}, "/dbfs/mnt/t", "dbfs:/mnt/t"),
    ],
)
def test_a_spark_that_looks_for_a_path_elsewhere_is_refused(default, places, place, instead, spark, tmp_path):
    elsewhere = session.for_flow(spark)
    elsewhere.conf.set("fs.defaultFS", default)
    with pytest.raises(PlaceAmbiguous) as error:
        check_fenced(elsewhere, places_of(tmp_path, places, {"type": "files", "format": "json", "path": "files"}))
    place, instead = place.format(base=tmp_path), instead.format(base=tmp_path)
    assert str(error.value) == (
        f"[PLACE_AMBIGUOUS] flow f: {place} is on this machine, and Spark would look for it on "
        f"{default.rstrip('/')}; nothing was written\n"
        f"  hint: write {instead} for this place in rivermouth.yml; if every machine has this folder, "
        "spark: {conf: {spark.hadoop.fs.defaultFS: 'file:///'}}"
    )


@pytest.mark.parametrize(
    ("default", "places"),
    [
        ("file:///", {}),
        # What only Python reads and writes may lie here.
        ("dbfs:/", {each: "/Volumes/main/{schema}/{table}/" + each for each in PLACES}),
    ],
)
def test_a_place_that_is_the_same_for_all_is_not(default, places, spark, tmp_path):
    elsewhere = session.for_flow(spark)
    elsewhere.conf.set("fs.defaultFS", default)
    check_same_place(elsewhere, places_of(tmp_path, places))


def test_neither_plan_nor_audit_looks_at_two_places(spark, tmp_path):
    elsewhere = session.for_flow(spark)
    elsewhere.conf.set("fs.defaultFS", "hdfs://namenode:8020")
    flow = Flow.model_validate({"name": "f", "topics": "t", "format": "text", "table": "bronze.t"})
    order = FlowJob(flow, places_of(tmp_path, {}), "localhost:1", {})
    assert plan_flow(elsewhere, order).problem.code == "PLACE_AMBIGUOUS"
    with pytest.raises(PlaceAmbiguous):
        audit_flow(elsewhere, order)
