"""An erasure is done once and whole, wherever its process dies, and by the flow's own writer while that runs."""

from __future__ import annotations

import dataclasses
import json
import shutil
import signal
from pathlib import Path

import pytest
from delta.exceptions import ConcurrentDeleteReadException
from tests.crashes import oracle
from tests.crashes.deciding import decided
from tests.crashes.scene import RULES, Scene
from tests.crashes.test_replay import with_flow

from rivermouth.engine.audit import audit_flow
from rivermouth.engine.requests import Request, perform, serve
from rivermouth.errors import ForgetRefused
from rivermouth.rows.erasure import ForgetRequest

HERS = ForgetRequest(
    where="name = 'eve'",
    dead_letters="CAST(kafka_value AS STRING) LIKE '%eve%'",
    who="ann@host",
    at="2026-01-31T12:00:00+00:00",
    why="ticket 7",
    mark="7e1f",
)


@pytest.fixture(scope="module")
def drained(broker, spark, tmp_path_factory):
    scene = Scene.make(broker, tmp_path_factory.mktemp("forget"), partitions=2)
    scene.produce(300)
    # One of hers that does not fit.
    scene.send(b'{"id": "seven", "name": "eve"}')
    assert scene.drain(spark).error is None
    return scene


def of_eve(scene):
    """Coordinates of her rows, and of her dead letters and those of keys that no other row has; by the oracle."""
    records = scene.records()
    places = {at: oracle.expected(record, RULES).place for at, record in records.items()}
    hers = {at for at, record in records.items() if b'"eve"' in (record.value or b"")}
    rows = {at for at in hers if places[at] == "table"}
    others = {records[at].key for at, place in places.items() if place == "table" and at not in rows}
    keys = {records[at].key for at in rows} - others - {None}
    letters = {at for at, place in places.items() if place == "dead_letter"}
    return rows, {at for at in letters if at in hers or records[at].key in keys}


def there(location):
    return {(row["kafka_topic"], row["kafka_partition"], row["kafka_offset"]) for row in oracle.rows_of(location)}


@pytest.mark.parametrize(
    ("step", "erased"),
    [
        pytest.param("forget_remember", False, marks=pytest.mark.long),
        pytest.param("forget_write", False, marks=pytest.mark.long),
        pytest.param("forgotten", True, marks=pytest.mark.long),
        pytest.param("forget_purge", True, marks=pytest.mark.long),
    ],
)
def test_killed_in_the_middle(step, erased, drained, tmp_path, children, spark):
    scene = drained.copy(tmp_path)
    rows, letters = of_eve(scene)
    before = there(scene.table), there(scene.dead_letters)
    assert rows
    assert 0 < len(letters) < len(before[1])
    request = Path(scene.places.requests, "asked.json")
    request.parent.mkdir(parents=True)
    request.write_text(Request("forget", erasure=HERS).to_json())
    kill = {"on": step, "nth": 1, "who": "python"}
    child = children.run(scene, own_jvm=False, follow=True, stay=True, kill=kill)
    assert child.code == -signal.SIGKILL, child.said()
    # Nobody asks again: opening the flow ends what was begun, and leaves alone what was not.
    assert scene.drain(spark).error is None
    after = (before[0] - rows, before[1] - letters) if erased else before
    assert (there(scene.table), there(scene.dead_letters)) == after
    assert audit_flow(spark, scene.order).problems == ()
    # It holds the condition, and is for a writer that follows: whoever still waits asks again.
    assert not request.exists()
    answer = with_flow(scene, spark, lambda run: perform(run, Request("forget", erasure=HERS)))
    numbers = (answer["rows"], answer["dead_letters"], answer["records"], answer["done"], answer["entry"])
    assert numbers == (len(rows), len(letters), len(rows) + len(letters), True, 2)
    assert (there(scene.table), there(scene.dead_letters)) == (before[0] - rows, before[1] - letters)
    found = audit_flow(spark, scene.order)
    assert (found.problems, found.found.erased) == ((), len(rows) + len(letters))
    assert oracle.counted(scene.table, scene.side_file)["erased"] == len(rows) + len(letters)


@pytest.mark.long
def test_one_that_fails_is_told_and_the_flow_goes_on(drained, tmp_path, spark):
    scene = drained.copy(tmp_path)
    request = Path(scene.places.requests, "asked.json")
    request.parent.mkdir(parents=True)
    broken = ForgetRequest(where="nmae = 'eve'", mark="7e1f")
    request.write_text(Request("forget", erasure=broken).to_json())
    with_flow(scene, spark, serve)
    answer = json.loads(Path(scene.places.requests, "asked.answer.json").read_text())
    assert answer["error"].startswith("table silver.orders: --where: [UNRESOLVED_COLUMN.WITH_SUGGESTION] ")
    assert scene.audit().is_clean


@pytest.mark.long
def test_one_that_meets_a_change_of_somebody_else_is_refused(drained, tmp_path, spark, monkeypatch):
    scene = drained.copy(tmp_path)

    def lost(*_arguments, **_named):
        raise ConcurrentDeleteReadException("the file was optimized")

    monkeypatch.setattr("rivermouth.engine.forget.delete", lost)
    before = there(scene.table)
    asked = Request("forget", erasure=HERS)

    def act(run):
        try:
            return perform(run, asked)
        except ForgetRefused as error:
            return str(error)

    assert with_flow(scene, spark, act) == (
        "[FORGET_REFUSED] table silver.orders: somebody committed a change of the same files first "
        "(ConcurrentDeleteReadException); nothing was erased\n"
        "  hint: rivermouth tables forget silver.orders, once more"
    )
    assert there(scene.table) == before
    # What was remembered for it says nothing, although the next batch has the number of its entry.
    scene.produce(50, seed=2)
    assert scene.drain(spark).error is None
    found = audit_flow(spark, scene.order)
    assert (found.problems, found.found.erased) == ((), 0)
    monkeypatch.undo()
    assert with_flow(scene, spark, act)["done"]
    assert audit_flow(spark, scene.order).problems == ()


@pytest.mark.long
def test_what_a_keyed_table_forgot_stays_away_in_a_new_epoch_and_in_a_new_table(make_scene, spark):
    scene = make_scene(partitions=1, sink={"type": "upsert", "keys": ["id"]})
    scene.send(
        *(b'{"id": %d, "name": "eve", "amount": 1.5, "at": "2026-01-31T12:00:00Z"}' % each for each in (1, 1, 2))
    )
    assert scene.drain(spark).error is None
    asked = Request("forget", erasure=dataclasses.replace(HERS, where="id = 1", dead_letters=None))
    assert with_flow(scene, spark, lambda run: perform(run, asked))["records"] == 2
    # The log was cut, and what is before that is still there.
    scene.pretend_the_ledger_is_at(99, instead_of=3)
    outcome = decided(scene, spark, rewind=[f"{scene.topic}-0:0"])
    assert outcome.error is None, str(outcome.error)
    assert [row["id"] for row in oracle.rows_of(scene.table)] == [2]
    assert audit_flow(spark, scene.order).problems == ()
    shutil.rmtree(scene.table)
    scene.side_file.unlink()
    assert scene.drain(spark).error is None
    assert [row["id"] for row in oracle.rows_of(scene.table)] == [2]
