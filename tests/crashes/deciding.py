"""How a crash test decides, and what it finds decided."""

from __future__ import annotations

import shlex
from collections import Counter

from tests.crashes import oracle
from tests.crashes.scene import EXPECTATIONS, RULES

from rivermouth.engine.report.status import project_status

GOOD = b'{"id": 1, "amount": 1, "name": "x"}'
NOBODY = b'{"id": 2, "amount": 1, "name": "nobody"}'
RECORD = "set on_data_loss: record to accept this loss and later ones; or accept only this one: "
CLUSTER = "check that bootstrap_servers names the right cluster; then "
MENDED = tuple(each for each in EXPECTATIONS if each["name"] != "known_name")


def decided(scene, spark, **decision):
    """A run that decides; the outcome."""
    scene.decision = {"why": "we know", **decision}
    try:
        return scene.drain(spark)
    finally:
        scene.decision = {}


def hinted(error):
    """The decision in an error's hint, as the command would read it."""
    words = shlex.split(str(error).partition("hint: ")[2].partition("rivermouth ")[2])
    decision = {"accept_loss": [], "new_epoch": [], "rewind": []}
    assert words[:2] == ["run", "shop"]
    for option, value in zip(words[2::2], words[3::2], strict=True):
        if option != "--why":
            decision[option.removeprefix("--").replace("-", "_")].append(value)
    return decision


def settle(scene, spark):
    """Does what the errors' hints say until there is none; how many commands that took."""
    outcome = scene.drain(spark)
    for times in range(4):
        if outcome.error is None:
            return times
        outcome = decided(scene, spark, **hinted(outcome.error))
    raise outcome.error


def decisions(scene):
    """The decisions in the newest entry, and the entries that recorded them."""
    entries = oracle.ledger_of(scene.table)
    kept, made = entries[-1]["decisions"], [each["entry"] for each in entries if each["kind"] == "decision"]
    assert sorted({each["entry"] for each in kept}) == made
    return kept


def status_of(scene):
    (status,) = project_status([(scene.flow, scene.places)], bootstrap_servers=scene.bootstrap_servers, options={})
    return status


def counted(scene):
    return oracle.counted(scene.table, scene.side_file)


def epochs_of(scene):
    return Counter((row.get("kafka_epoch") or 0, row["kafka_offset"]) for row in oracle.rows_of(scene.table))


def at_of(row):
    return row["kafka_topic"], row["kafka_partition"], row["kafka_offset"]


def holds_epoch(scene, epoch, records):
    """Whether the table and its dead letters have exactly these records in that epoch, each once."""
    places = {at: oracle.expected(record, RULES).place for at, record in records.items()}
    rows = [at_of(row) for row in oracle.rows_of(scene.table) if (row.get("kafka_epoch") or 0) == epoch]
    begun = [0, *(each["entry"] for each in decisions(scene) if each["kind"] == "new_epoch"), 10**9]
    letters = [
        at_of(each) for each in oracle.rows_of(scene.dead_letters) if begun[epoch] <= each["batch"] < begun[epoch + 1]
    ]
    assert Counter(rows) == Counter(at for at, place in places.items() if place == "table")
    assert Counter(letters) == Counter(at for at, place in places.items() if place == "dead_letter")
    return True
