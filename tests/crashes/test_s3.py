"""A lake on S3: the same promises, also when the server is away, says no, or a writer comes back from the dead."""

from __future__ import annotations

import itertools
import statistics
import threading
import time

import pytest
from tests.crashes import oracle
from tests.crashes.conftest import Child
from tests.crashes.deciding import GOOD, NOBODY
from tests.crashes.scene import Scene
from tests.ports.s3_proxy import S3Proxy

from rivermouth.engine.events import BatchDone
from rivermouth.errors import LakeNotFenced
from rivermouth.ports.dev.s3_server import S3Server
from rivermouth.ports.lake.storage_checks import CONDITIONAL_LOG_STORE

SMALL = {"every": "200 ms", "max_offsets": 150}


@pytest.fixture
def make_remote(broker, bucket, tmp_path):
    """Makes scenes whose lake is a bucket of its own: ``make_remote()``, ``make_remote(endpoint)``."""

    def make(endpoint=None, **options):
        scene = Scene.make(broker, tmp_path / "scene", trigger=SMALL, **options)
        scene.folder.mkdir()
        scene.lake = f"s3a://{bucket(endpoint)}/lake"
        return scene

    return make


def batches(number):
    """Says so at the so-manieth batch."""
    done = []

    def until(event):
        done.extend([event] if isinstance(event, BatchDone) else [])
        return len(done) >= number

    return until


def test_a_lake_on_s3_has_rows_and_dead_letters_of_a_run_and_of_one_that_follows(make_remote, s3, spark):
    """The short form of the next one: few records, and one batch a run."""
    scene = make_remote(partitions=1)
    scene.send(GOOD, NOBODY, b"{bad")
    assert scene.drain(spark).error is None
    scene.send(GOOD)
    assert scene.follow(spark, until=batches(1)).error is None
    found = scene.fetched(s3.store).audit()
    assert found.is_clean, str(found)


@pytest.mark.long
def test_a_lake_on_s3_holds_what_a_lake_on_a_disk_would(make_remote, s3, spark):
    scene = make_remote()
    scene.produce(200)
    assert scene.drain(spark).error is None
    assert sum(batch.counts.dead_lettered for batch in scene.told(BatchDone)) > 0
    scene.produce(100, seed=2)
    assert scene.follow(spark, until=batches(1)).error is None
    scene.produce(100, seed=3)
    assert scene.follow(spark, until=batches(1)).error is None
    assert scene.drain(spark).error is None
    assert scene.fetched(s3.store).audit().is_clean


@pytest.mark.long
def test_the_checkpoint_may_lie_on_this_machine(make_remote, s3, spark, tmp_path):
    scene = make_remote(places={"checkpoint": str(tmp_path / "checkpoint")})
    scene.produce(300)
    assert scene.follow(spark, until=batches(2)).error is None
    assert (tmp_path / "checkpoint/offsets/1").exists()
    assert scene.drain(spark).error is None
    assert scene.fetched(s3.store).audit().is_clean


@pytest.mark.long
def test_a_batch_costs_few_requests(make_remote, s3, spark):
    with S3Proxy(s3.port) as proxy:
        scene = make_remote(proxy.endpoint)
        seen = []

        def until(event):
            if isinstance(event, BatchDone):
                seen.append(len(proxy.requests))
                scene.send(b'{"id": 1, "amount": 1, "name": "ann"}')
            return len(seen) == 8

        scene.send(b'{"id": 1, "amount": 1, "name": "ann"}')
        assert scene.follow(spark, until=until).error is None
    # The last ones; a renewal of the lease and a look for requests of others may be among them.
    costs = [after - before for before, after in itertools.pairwise(seen[3:])]
    assert statistics.median(costs) <= 26, costs


@pytest.mark.long
def test_refusals_for_lack_of_room_are_waited_out(make_remote, s3, spark):
    with S3Proxy(s3.port) as proxy:
        scene = make_remote(proxy.endpoint)
        scene.produce(500)

        def hear(event):
            if isinstance(event, BatchDone):
                proxy.busy = 3

        outcome = scene.drain(spark, hear)
        assert outcome.error is None
        assert outcome.batches > 2
        assert proxy.refused >= 3 * (outcome.batches - 1)
    assert scene.fetched(s3.store).audit().is_clean


@pytest.mark.long
def test_a_server_that_was_away_for_a_while_costs_nothing_but_time(broker, bucket, spark, tmp_path):
    with S3Server.start(data_dir=tmp_path / "s3") as first:
        port, name = first.port, bucket(server=first)
        scene = Scene.make(broker, tmp_path / "scene", trigger=SMALL)
        scene.lake = f"s3a://{name}/lake"
        scene.produce(500)
        back = []

        def away():
            time.sleep(2)
            back.append(S3Server.start(port, tmp_path / "s3"))

        def hear(event):
            if isinstance(event, BatchDone) and first.running:
                first.kill()
                threading.Thread(target=away).start()

        try:
            outcome = scene.drain(spark, hear)
            while not back:
                time.sleep(0.1)
            assert outcome.error is None
            assert scene.fetched(back[0].store).audit().is_clean
        finally:
            for server in back:
                server.stop()


@pytest.mark.long  # ports/test_log_store.py lets the store's own writer sleep
def test_of_two_drivers_the_one_that_slept_in_mid_commit_loses_and_no_commit_is_lost(
    make_remote, s3, spark, tmp_path, request
):
    scene = make_remote()
    scene.produce(300)
    with S3Proxy(s3.port) as proxy:
        sleeper = Child(tmp_path, conf={**s3.spark_conf, "spark.hadoop.fs.s3a.endpoint": proxy.endpoint})
        request.addfinalizer(sleeper.cleanup)
        sleeper.wait_until_ready()
        # Version 0 is the empty table, 1 the first batch.
        proxy.holds_back = f"_delta_log/{1:020d}.json"
        sleeper.begin(scene)
        assert proxy.held.wait(120), sleeper.said()
        # Its lease would be given up for lost by another machine; this one sees that it lives.
        s3.store.delete_file(scene.places.lease_file.removeprefix("s3a://"))
        assert scene.drain(spark).error is None
        before = scene.fetched(s3.store)
        assert before.audit().is_clean
        number = len(oracle.ledger_of(before.table))
        proxy.let_go()
        sleeper.wait()
    # Its commit is refused; then it finds that the table is not its own any more.
    assert sleeper.error.partition("]")[0] in {"[COMMIT_LOST", "[LEASE_LOST", "[LEASE_FILE_LOST"}, sleeper.error
    after = scene.fetched(s3.store)
    assert after.audit().is_clean
    assert len(oracle.ledger_of(after.table)) == number


@pytest.mark.parametrize("named", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_session_with_deltas_own_log_store_is_refused(named, make_remote, spark):
    scene = make_remote()
    scene.produce(10)
    word = "spark.delta.logStore.s3a.impl"
    conf, system = spark.sparkContext._jsc.sc().conf(), spark._jvm.System
    if named:
        conf.set(word, "io.delta.storage.S3SingleDriverLogStore")
    else:
        conf.remove(word)
        system.clearProperty(word)
    try:
        error = scene.drain(spark).error
    finally:
        conf.set(word, CONDITIONAL_LOG_STORE)
        system.setProperty(word, CONDITIONAL_LOG_STORE)
    assert isinstance(error, LakeNotFenced)
    assert str(error) == (
        "[LAKE_NOT_FENCED] flow shop: Delta's own log store for s3a:// looks for a commit and then overwrites it, "
        "so that two writers could lose each other's commits; nothing was written\n"
        "  hint: start Spark with --conf spark.delta.logStore.s3a.impl=rivermouth.store.ConditionalLogStore "
        "and the jars that this prints: rivermouth jars paths --s3"
    )


def test_a_store_that_overwrites_what_it_was_told_to_make_once_is_refused(make_remote, s3, spark):
    with S3Proxy(s3.port) as proxy:
        proxy.deaf = True
        scene = make_remote(proxy.endpoint)
        scene.produce(10)
        error = scene.drain(spark).error
    assert isinstance(error, LakeNotFenced)
    assert str(error) == (
        f"[LAKE_NOT_FENCED] flow shop: the store of {scene.places.state} overwrites a file that it should create "
        "only once, so that two writers could lose each other's commits; nothing was written\n"
        "  hint: set lake: to a store with conditional writes (If-None-Match)"
    )
