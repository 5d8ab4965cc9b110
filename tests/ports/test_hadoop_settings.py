"""Of Hadoop's settings a session keeps the values, which Spark sends with every task, and not their sources."""

import pytest

from rivermouth.ports.internals import sessions


@pytest.fixture
def settings(spark):
    return sessions.context_hadoop_conf(spark)


def test_a_session_that_was_started_here_has_no_sources(settings):
    names = ("io.seqfile.compress.blocksize", "mapreduce.job.maps", "fs.s3a.connection.ssl.enabled")
    assert [settings.get(name) for name in names] == ["1000000", "2", "true"]
    assert [settings.getPropertySources(name) for name in names] == [None, None, None]


def test_sources_of_new_settings_are_kept_until_they_are_forgotten(spark, settings):
    settings.set("rivermouth.test", "one", "somewhere")
    try:
        assert [*settings.getPropertySources("rivermouth.test")] == ["somewhere"]
        sessions.forget_sources(spark)
        assert settings.getPropertySources("rivermouth.test") is None
        assert settings.get("rivermouth.test") == "one"
    finally:
        settings.unset("rivermouth.test")
