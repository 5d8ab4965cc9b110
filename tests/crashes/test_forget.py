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

from rivermouth.domain.ledger.erasure import ForgetRequest
from rivermouth.engine.audit.audit import audit_flow
from rivermouth.engine.run.requests import Request, execute, handle_pending
from rivermouth.errors import ForgetRefused

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
    # It holds the condition, and is for a writer that follows: a process that still waits asks again.
    assert not request.exists()
    answer = with_flow(scene, spark, lambda run: execute(run, Request("forget", erasure=HERS)))
    numbers = (answer["rows"], answer["dead_letters"], answer["records"], answer["done"], answer["entry"])
    assert numbers == (len(rows), len(letters), len(rows) + len(letters), True, 2)
    assert (there(scene.table), there(scene.dead_letters)) == (before[0] - rows, before[1] - letters)
    found = audit_flow(spark, scene.order)
    assert (found.problems, found.found.erased) == ((), len(rows) + len(letters))
    assert oracle.counted(scene.table, scene.side_file)["erased"] == len(rows) + len(letters)


def row(number, v):
    return {"id": number, "name": {1: "eve", 2: "bob", 3: "carl"}[number], "v": v}


def canal(kind, *rows, old=None):
    texts = [{name: str(part) for name, part in each.items()} for each in rows]
    return {"type": kind, "isDdl": False, "data": texts, "old": old}


# What is sent, what the flow is, her rows and those of the others, (id, v), her dead letters and those of the others,
# and how many of her records go as a whole and in part.
IN_PART = {
    "envelopes": (
        (
            canal("INSERT", row(1, 5), row(2, 5), row(3, 5)),
            canal("UPDATE", row(1, 6), old=[{"v": "5"}]),
            canal("UPDATE", row(1, 50), row(2, 7), old=[{"v": "6"}, {"v": "5"}]),
            canal("DELETE", row(3, 5)),
            canal("INSERT", row(1, 500)),
            canal("INSERT", row(2, 500)),
        ),
        {
            "format": {"type": "canal", "schema": "id bigint, name string, v int"},
            "expectations": [{"name": "small", "condition": "v < 100", "action": "dead_letter"}],
            "sink": {"type": "upsert", "keys": ["id"]},
        },
        ([(1, 50)], [(2, 7)], [4], [5], (2, 2)),
    ),
    "snapshots": (
        (
            [row(1, 5), row(2, 5)],
            [row(1, 6), row(2, 5), row(3, 5)],
            [row(1, "x")],
            [row(2, "x")],
        ),
        {
            "format": {"type": "json", "schema": "id bigint, name string, v int"},
            "expectations": [],
            "sink": {"type": "history", "from": "snapshot", "keys": ["id"], "sequence_by": "kafka_offset"},
        },
        ([(1, 5), (1, 6)], [(2, 5), (3, 5)], [2], [3], (1, 2)),
    ),
}


@pytest.fixture(scope="module")
def of_several(broker, spark, tmp_path_factory):
    """A scene that has carried records of several people, by what its records are."""
    scenes = {}
    for kind, (records, options, _) in IN_PART.items():
        scene = scenes[kind] = Scene.make(broker, tmp_path_factory.mktemp(kind), partitions=1, **options)
        scene.send(*(json.dumps(each).encode() for each in records), key=None)
        assert scene.drain(spark).error is None
    return scenes


def in_part(scene):
    """(id, v) of the rows, and the offsets of the dead letters."""
    rows = sorted((each["id"], each["v"]) for each in oracle.rows_of(scene.table))
    return rows, sorted(at[2] for at in there(scene.dead_letters))


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("kind", "step", "erased"),
    [
        pytest.param("envelopes", "forget_remember", False, marks=pytest.mark.long),
        pytest.param("envelopes", "forget_write", False, marks=pytest.mark.long),
        pytest.param("envelopes", "forgotten", True, marks=pytest.mark.long),
        pytest.param("snapshots", "forget_remember", False, marks=pytest.mark.long),
        pytest.param("snapshots", "forget_write", False, marks=pytest.mark.long),
    ],
)
def test_killed_in_the_middle_of_an_erasure_in_part(kind, step, erased, of_several, tmp_path, children, spark):
    scene = of_several[kind].copy(tmp_path)
    hers, theirs, her_letters, their_letters, records = IN_PART[kind][-1]
    assert in_part(scene) == (sorted(hers + theirs), sorted(her_letters + their_letters))
    request = Path(scene.places.requests, "asked.json")
    request.parent.mkdir(parents=True)
    asked = Request("forget", erasure=dataclasses.replace(HERS, where="id = 1"))
    request.write_text(asked.to_json())
    child = children.run(scene, own_jvm=False, follow=True, stay=True, kill={"on": step, "nth": 1, "who": "python"})
    assert child.code == -signal.SIGKILL, child.said()
    # The flow alone ends what was begun, and asked again it is done once.
    assert scene.drain(spark).error is None
    left = (theirs, their_letters) if erased else (sorted(hers + theirs), sorted(her_letters + their_letters))
    assert in_part(scene) == left
    assert audit_flow(spark, scene.order).problems == ()
    for _ in range(2):
        answer = with_flow(scene, spark, lambda run: execute(run, asked))
        told = tuple(answer[name] for name in ("rows", "dead_letters", "records", "in_part", "done", "entry"))
        assert told == (len(hers), len(her_letters), *records, True, 2)
        assert in_part(scene) == (theirs, their_letters)
    assert [each["kind"] for each in oracle.ledger_of(scene.table)].count("forget") == 1
    assert [each.name for each in Path(scene.places.erased, "reports").iterdir()] == [f"{HERS.mark}.json"]
    found = audit_flow(spark, scene.order)
    assert (found.problems, found.found.erased) == ((), records[0])
    assert oracle.counted(scene.table, scene.side_file)["erased"] == records[0]
    # What is read again brings back what is left of her records, and nothing of hers.
    outcome = decided(scene, spark, rewind=[f"{scene.topic}-0:0"])
    assert outcome.error is None, str(outcome.error)
    assert in_part(scene) == (theirs, their_letters)
    assert audit_flow(spark, scene.order).problems == ()


@pytest.mark.long
def test_one_that_fails_is_told_and_the_flow_goes_on(drained, tmp_path, spark):
    scene = drained.copy(tmp_path)
    request = Path(scene.places.requests, "asked.json")
    request.parent.mkdir(parents=True)
    broken = ForgetRequest(where="nmae = 'eve'", mark="7e1f")
    request.write_text(Request("forget", erasure=broken).to_json())
    with_flow(scene, spark, handle_pending)
    answer = json.loads(Path(scene.places.requests, "asked.answer.json").read_text())
    assert answer["error"].startswith("table silver.orders: --where: [UNRESOLVED_COLUMN.WITH_SUGGESTION] ")
    assert scene.audit().is_clean


@pytest.mark.long
def test_one_that_meets_a_change_of_somebody_else_is_refused(drained, tmp_path, spark, monkeypatch):
    scene = drained.copy(tmp_path)

    def lost(*_arguments, **_named):
        raise ConcurrentDeleteReadException("the file was optimized")

    monkeypatch.setattr("rivermouth.engine.erasure.forget.delete", lost)
    before = there(scene.table)
    asked = Request("forget", erasure=HERS)

    def act(run):
        try:
            return execute(run, asked)
        except ForgetRefused as error:
            return str(error)

    assert with_flow(scene, spark, act) == (
        "[FORGET_REFUSED] table silver.orders: somebody committed a change of the same files first "
        "(ConcurrentDeleteReadException); nothing was erased\n"
        "  hint: rivermouth tables forget silver.orders --where CONDITION"
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
    assert with_flow(scene, spark, lambda run: execute(run, asked))["records"] == 2
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
