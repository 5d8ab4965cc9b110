"""What compaction takes away between two looks at a batch is neither lost nor uncounted."""

from __future__ import annotations

import time

import pytest
from tests.audit.environment import Environment
from tests.audit.plan import Plan
from tests.audit.scenario import Scenario
from tests.crashes import oracle

from rivermouth.engine.batch import recover_counts, recover_keyed, recovery
from rivermouth.engine.events import StepReached
from rivermouth.errors import ArgumentInvalid

GOOD, BROKEN = b'{"id": 1, "amount": 1, "name": "x"}', b"{broken"


@pytest.fixture(scope="module")
def environment(spark):
    with Environment(spark) as environment:
        yield environment


def wait_for_compaction(scenario: Scenario, facts: str) -> None:
    deadline = time.monotonic() + 60
    held = 40
    while held > 5:
        assert time.monotonic() < deadline
        # The newest segment stays as it is: a record that begins another one lets the others be compacted.
        scenario.scene.send(GOOD, topic=facts, key=b"other")
        time.sleep(1)
        held = sum(1 for record in oracle.visible(scenario.environment.direct, [facts]).values() if record.key == b"k")


@pytest.mark.long
@pytest.mark.parametrize(
    ("step", "during"), [("dead_letters", False), ("complete", False), ("complete", True)], ids=str
)
def test_a_batch_that_is_counted_anew_after_compaction(step, during, environment, spark, tmp_path, monkeypatch):
    scenario = Scenario(environment, Plan(1, 1, 1000, ()), tmp_path)
    facts = scenario.scene.topics[1]
    scenario.scene.send(*[GOOD, BROKEN] * 20, topic=facts)

    def fail(event):
        if isinstance(event, StepReached) and event.step in {step, "recover"}:
            raise ArgumentInvalid(argument="test", detail="cut off", fix="")

    assert scenario.scene.drain(spark, fail).error is not None
    if during:
        honest = recover_counts.with_dead_letters

        def completed(*arguments):
            wait_for_compaction(scenario, facts)
            return honest(*arguments)

        for module in (recovery, recover_keyed):
            monkeypatch.setattr(module, "with_dead_letters", completed)
    else:
        wait_for_compaction(scenario, facts)
    outcome = scenario.scene.drain(spark)
    assert outcome.error is None, str(outcome.error)
    rows, letters = oracle.rows_of(scenario.scene.table), oracle.rows_of(scenario.scene.dead_letters)
    counts = oracle.counted(scenario.scene.table, scenario.scene.side_file)
    assert (counts["written"], counts["dead_lettered"]) == (len(rows), len(letters))
    assert counts["consumed"] == len(rows) + len(letters)
    assert sum(1 for row in rows if row["kafka_key"] == "k") == 20
    # Those that were buried before they vanished are kept.
    assert len(letters) == 20 if step == "complete" else len(letters) < 20
    scenario.close()
