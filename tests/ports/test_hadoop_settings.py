"""Of Hadoop's settings a session keeps the values, which Spark sends with every task, and not their sources."""

import pytest

from rivermouth.decoding.jvm.java_objects import java_class
from rivermouth.ports.internals import sessions
from rivermouth.ports.spark import jars

NAMES = ("io.seqfile.compress.blocksize", "mapreduce.job.maps", "yarn.nodemanager.delete.debug-delay-sec")


@pytest.fixture
def settings(spark):
    return sessions.context_hadoop_conf(spark)


def test_a_session_that_was_started_here_has_no_sources(settings):
    assert [settings.get(name) for name in NAMES] == ["1000000", "2", "0"]
    assert [settings.getPropertySources(name) for name in NAMES] == [None, None, None]


@pytest.mark.parametrize(
    "name",
    [
        "org.apache.hadoop.mapred.JobConf",
        "org.apache.hadoop.yarn.conf.YarnConfiguration",
        "org.apache.hadoop.hdfs.HdfsConfiguration",
        "org.apache.hadoop.hive.conf.HiveConf",
        "org.apache.hadoop.fs.s3a.S3AFileSystem",
    ],
)
def test_classes_that_are_loaded_later_do_not_bring_the_sources_back(name, spark, settings):
    java_class(spark, "java.lang.Class").forName(name)
    assert settings.getPropertySources(NAMES[0]) is None


def test_classes_of_jars_that_spark_brings_are_loaded_too(spark, monkeypatch):
    """As S3's on a cluster: they are in ``spark.jars``, and not on the JVM's own class path."""
    jvm, name = spark._jvm, "kafka.tools.StorageTool"
    paths = jars.classpath("broker")
    urls = spark._sc._gateway.new_array(jvm.java.net.URL, len(paths))
    for number, path in enumerate(paths):
        urls[number] = jvm.java.net.URL(path.as_uri())
    thread = jvm.java.lang.Thread.currentThread()
    before = thread.getContextClassLoader()
    monkeypatch.setattr(sessions, "_ADDS_SETTINGS_OF", {"s3a": name})
    assert java_class(spark, name) is None
    thread.setContextClassLoader(jvm.java.net.URLClassLoader(urls, before))
    try:
        assert java_class(spark, name) is not None
        sessions.forget_sources(spark, ["s3a"])
    finally:
        thread.setContextClassLoader(before)


def test_sources_of_new_settings_are_kept_until_they_are_forgotten(spark, settings):
    settings.set("rivermouth.test", "one", "somewhere")
    try:
        assert [*settings.getPropertySources("rivermouth.test")] == ["somewhere"]
        sessions.forget_sources(spark, ["s3a"])
        assert settings.getPropertySources("rivermouth.test") is None
        assert settings.get("rivermouth.test") == "one"
    finally:
        settings.unset("rivermouth.test")
