"""Real documents of 57 types in one table of several thousand fields, with the schema that is inferred of them."""

import gzip
import json
from pathlib import Path

import pytest
from tests.crashes.oracle import rows_of
from tests.doors.one_topic import OneFlow

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

HOOKS = Path(__file__).parents[1] / "data/github-webhooks/webhooks.jsonl.gz"


@pytest.fixture
def hooks(tmp_path, monkeypatch, capsys, broker, orders, spark):
    monkeypatch.chdir(tmp_path)
    return OneFlow(tmp_path, capsys, broker.bootstrap_servers, orders)


def test_every_webhook_is_in_the_table_or_among_the_dead_letters(hooks):
    lines = gzip.decompress(HOOKS.read_bytes()).splitlines()
    hooks.send(*lines)
    hooks.write("format: {type: json, schema: infer}")
    code, out = hooks.say("schema", "infer", "orders", "--save", "hooks.json")
    assert code == 0, out
    assert f"{len(lines)} records read in " in out
    assert " (all), 0 corrupt, 0 without a value" in out
    hooks.write("format: {type: json, schema: hooks.json}")
    code, out = hooks.say("run", "--output", "json")
    assert code == 0, out
    (flow,) = json.loads(out.splitlines()[-1])["flows"]
    counts = flow["counts"]
    # What is inferred of all records takes all of them.
    assert (counts["consumed"], counts["written"], counts["dead_lettered"]) == (len(lines), len(lines), 0)
    code, out = hooks.say("audit")
    assert code == 0, out
    assert "every record is in exactly one place" in out

    kept = {row["kafka_offset"]: row for row in rows_of(hooks.folder / "lake/silver/orders")}
    letters = {row["kafka_offset"] for row in rows_of(hooks.folder / "lake/silver/orders__dead_letters")}
    assert (len(kept), sorted([*kept, *letters])) == (counts["written"], list(range(len(lines))))
    for offset, row in kept.items():
        sent = json.loads(lines[offset])
        assert (row["event"], row["file"]) == (sent["event"], sent["file"])
        assert row["payload"]["action"] == sent["payload"].get("action")
        # Where a push has a number, and all else has text, both are kept as they were written.
        repository = sent["payload"].get("repository")
        assert (row["payload"]["repository"] or {}).get("created_at") == (repository and text(repository["created_at"]))


def text(value):
    """A value as a column of text has it."""
    return value if value is None or isinstance(value, str) else json.dumps(value)
