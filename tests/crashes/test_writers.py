"""One writer a table: the second is refused, a dead one is replaced, a late one loses."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.crashes.deciding import GOOD, NOBODY

from rivermouth.engine.events import BatchDone, BatchRetried, StepReached


def test_a_second_writer_is_refused_while_the_first_is_alive(make_scene, spark):
    scene = make_scene(partitions=1)
    scene.send(GOOD, NOBODY)
    texts = []

    def second(event):
        if isinstance(event, BatchDone) and not texts:
            texts.append(str(scene.drain(spark).error))

    assert scene.drain(spark, second).error is None
    busy = (
        f"[TABLE_BUSY] flow shop: table {scene.table} is being written by process {os.getpid()} on "
        f"{socket.gethostname()}; nothing was written\n"
        "  hint: rivermouth status shop"
    )
    assert texts == [busy]
    assert scene.audit().is_clean


def test_the_lease_of_a_dead_process_is_taken_over_at_once(make_scene, spark):
    scene = make_scene()
    scene.produce(200)
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    lease = Path(scene.places.lease_file)
    lease.parent.mkdir(parents=True)
    holder = {"owner": "x", "host": socket.gethostname(), "pid": dead.pid, "started": "1", "renewed_at": 4e9}
    lease.write_text(json.dumps(holder))
    assert scene.drain(spark).error is None
    assert scene.audit().is_clean
    assert not lease.exists()


def test_a_writer_that_lost_its_lease_writes_nothing_more(make_scene, spark):
    scene = make_scene(trigger={"max_offsets": 300})
    scene.produce(600)
    lease = Path(scene.places.lease_file)

    def take_over(event):
        if isinstance(event, BatchDone) and len(scene.told(BatchDone)) == 1:
            other = json.loads(lease.read_text()) | {"owner": "another", "host": "elsewhere", "pid": 7}
            lease.write_text(json.dumps(other))

    outcome = scene.drain(spark, take_over)
    assert outcome.batches == 1
    assert str(outcome.error) == (
        f"[LEASE_LOST] flow shop: the lease on table {scene.table} was taken over by process 7 on elsewhere; "
        "the current batch was not written\n"
        "  hint: rivermouth status"
    )
    # It is the other's, and stays.
    assert json.loads(lease.read_text())["owner"] == "another"


@pytest.mark.parametrize("step", ["ledger", "write"])
@pytest.mark.long
def test_a_commit_of_a_writer_that_was_thought_dead_is_found_and_not_written_again(step, make_scene, spark):
    scene = make_scene(trigger={"max_offsets": 300})
    scene.produce(900)
    lease = Path(scene.places.lease_file)

    def another_commits(event):
        if isinstance(event, StepReached) and event.step == step and not done and scene.told(BatchDone):
            done.append(event)
            mine = lease.read_text()
            lease.unlink()
            assert other.drain(spark).error is None
            lease.write_text(mine)

    done = []
    other = type(scene)(scene.bootstrap_servers, scene.folder, scene.topics, scene.options)
    outcome = scene.drain(spark, another_commits)
    assert outcome.error is None, str(outcome.error)
    assert done
    if step == "write":
        assert [event.error.split(": ")[0] for event in scene.told(BatchRetried)] == ["[COMMIT_LOST] flow shop"]
    found = scene.audit()
    assert found.is_clean, str(found)


@pytest.mark.long  # of the second run's refusal and the dead one's lease the tests above ask in one process
def test_two_processes_at_once(make_scene, children, spark):
    scene = make_scene()
    scene.produce(900)
    with children.running(scene, own_jvm=False, follow=True, stay=True) as child:
        wait_for(lambda: Path(scene.places.lease_file).exists())
        assert str(scene.drain(spark).error) == (
            f"[TABLE_BUSY] flow shop: table {scene.table} is being written by process {child.pid} on "
            f"{socket.gethostname()}; nothing was written\n"
            f"  hint: rivermouth status shop  # to end its writer here: kill {child.pid}"
        )
    # It was killed, whatever it was doing.
    assert scene.drain(spark).error is None
    found = scene.audit()
    assert found.is_clean, str(found)


def wait_for(condition):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
