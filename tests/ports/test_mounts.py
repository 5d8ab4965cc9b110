"""Folders that are mounted buckets: known by what serves them, and not taken for disks."""

from __future__ import annotations

import pytest

from rivermouth.errors import PlaceAmbiguous
from rivermouth.ports import java, mounts, session, session_conf
from rivermouth.ports.fencing import check_fenced
from rivermouth.ports.storage import is_local_disk
from rivermouth.project.load import Project
from rivermouth.spec import ProjectSpec, SparkSettings

MOUNTS = r"""22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
31 22 0:50 / /data rw,nosuid,nodev - fuse.s3fs s3fs rw,user_id=0
32 31 0:51 / /data/disk rw - ext4 /dev/vdb rw
33 22 0:52 / /with\040space rw - fuse.gcsfuse bucket rw
34 22 0:53 / /Volumes rw - fuse dbfs rw
35 22 0:54 / /usb rw - fuseblk /dev/sdb1 rw
36 22 0:55 / /twice rw - fuse.rclone remote rw
37 22 0:56 / /twice rw - tmpfs tmpfs rw
"""


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
        ("/home", None),
    ],
)
def test_what_serves_a_folder(path, served, mounted):
    assert mounts.bucket_mounted_at(mounts.Path(path)) == served
    assert is_local_disk(path) == (served is None)
    assert is_local_disk(f"file://{path.replace(' ', '%20')}") == (served is None)


def test_where_the_system_does_not_tell_its_mounts(mounted):
    mounted.unlink()
    assert mounts.bucket_mounted_at(mounts.Path("/data")) is None


def test_this_machines_own_disk_is_one(tmp_path):
    assert is_local_disk(str(tmp_path))
    assert not is_local_disk("s3a://bucket/lake")


@pytest.mark.parametrize(
    ("lake", "places", "schemes"),
    [
        ("/home/lake", {}, set()),
        ("/data/lake", {}, {"fuse"}),
        ("s3a://bucket/lake", {}, {"s3a"}),
        ("s3a://bucket/lake", {"checkpoint": "/data/checkpoints/{table}"}, {"s3a", "fuse"}),
    ],
)
def test_a_projects_places_say_so(lake, places, schemes, mounted):
    flow = {"topics": "t", "format": "text", "table": "bronze.t", **({"places": places} if places else {})}
    spec = ProjectSpec(lake=lake, kafka={"bootstrap_servers": "localhost:1"}, flows={"f": flow})
    assert Project.from_spec(spec).schemes == schemes


def test_settings_for_a_local_disk_stay_off():
    def conf(*schemes):
        return session_conf.new_session_conf(SparkSettings(master="local[2]"), java.find(), "test", {}, schemes)

    of_a_disk = {name for name in conf() if name not in conf("fuse")}
    assert of_a_disk == {
        "spark.hadoop.fs.file.impl",
        "spark.hadoop.fs.AbstractFileSystem.file.impl",
        "spark.sql.streaming.checkpointFileManagerClass",
        "spark.delta.logStore.file.impl",
    }


def test_a_spark_that_looks_for_a_path_elsewhere_is_refused(spark, tmp_path):
    elsewhere = session.for_flow(spark)
    elsewhere.conf.set("fs.defaultFS", "hdfs://namenode:8020/")
    spec = ProjectSpec(
        lake=str(tmp_path / "lake"),
        kafka={"bootstrap_servers": "localhost:1"},
        flows={"f": {"topics": "t", "format": "text", "table": "bronze.t"}},
    )
    places = Project.from_spec(spec).places("f")
    with pytest.raises(PlaceAmbiguous) as error:
        check_fenced(elsewhere, places)
    table = tmp_path / "lake/bronze/t"
    assert str(error.value) == (
        f"[PLACE_AMBIGUOUS] flow f: {table} has no scheme, and this Spark would look for it on hdfs://namenode:8020; "
        "nothing was written\n"
        f"  hint: write hdfs://namenode:8020{table}; for a folder of this machine, "
        "spark: {conf: {spark.hadoop.fs.defaultFS: 'file:///'}}"
    )
    elsewhere.conf.set("fs.defaultFS", "file:///")
    check_fenced(elsewhere, places)
