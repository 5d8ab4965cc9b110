"""``checkpoint show``: the checkpoint next to the ledger, read without Spark and without Kafka."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from rivermouth.cli.main import invoke
from rivermouth.domain.ledger.ledger import Counts, Decision, first_entry
from rivermouth.project.api import Project

PROJECT = """
lake: ./lake
kafka: {bootstrap_servers: "localhost:1"}
flows:
  shop: {topics: [t], format: raw, table: bronze.t}
"""


class Shop:
    """A table with three entries, and a checkpoint written by hand as Spark writes it."""

    def __init__(self, folder: Path) -> None:
        (folder / "rivermouth.yml").write_text(PROJECT)
        self.places = Project.load(folder / "rivermouth.yml").places("shop")
        self.checkpoint = Path(self.places.checkpoint)

    def entries(self, number=3, decisions=()):
        entry = first_entry("shop", {"t": {0: 0}}, {"t": "id"})
        for index in range(number):
            if index == number - 1:
                entry = replace(entry, decisions=decisions)
            properties = CommitProperties(custom_metadata={"userMetadata": entry.to_json()})
            write_deltalake(self.places.table, pa.table({"a": [1]}), mode="append", commit_properties=properties)
            entry = entry.after_batch({"t": {0: (index * 5, index * 5 + 5)}}, Counts(), {})

    def batches(self, *ends, done=None, owner="shop"):
        """A checkpoint whose batches end there, the last of them done or not."""
        body = {"flow": owner, "table_id": self._table_id()}
        files = {"rivermouth.json": json.dumps(body), "metadata": '{"id":"6b2a0000-0000-4000-8000-000000000000"}'}
        files["sources/0/0"] = '\0v1\n{"t":{"0":0}}'
        for number, end in enumerate(ends):
            files[f"offsets/{number}"] = f'v1\n{{}}\n{{"t":{{"0":{end}}}}}'
            if number < (len(ends) if done is None else done):
                files[f"commits/{number}"] = "v1\n{}"
        for name, text in files.items():
            (self.checkpoint / name).parent.mkdir(parents=True, exist_ok=True)
            (self.checkpoint / name).write_text(text)

    def _table_id(self):
        first = Path(self.places.table, "_delta_log", f"{0:020d}.json").read_text()
        return next(json.loads(line)["metaData"]["id"] for line in first.splitlines() if "metaData" in line)


@pytest.fixture
def shop(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Shop(tmp_path)


def shown(capsys, *options):
    capsys.readouterr()
    assert invoke(["checkpoint", "show", "shop", *options]) == 0
    return capsys.readouterr().out


def test_a_flow_that_never_ran(shop, capsys):
    assert shown(capsys) == (
        f"shop: checkpoint {shop.checkpoint}\n"
        "  state: none\n"
        "  a restart: the table is made and read from starting_offsets\n"
    )


def test_a_checkpoint_that_agrees_with_the_ledger(shop, capsys):
    shop.entries()
    shop.batches(5, 10)
    assert shown(capsys) == (
        f"shop: checkpoint {shop.checkpoint}\n"
        "  state: usable\n"
        "  query: 6b2a0000-0000-4000-8000-000000000000\n"
        "    topic  partition  committed  planned  ledger\n"
        "    t      0                 10        -      10\n"
        "  newest ledger entries:\n"
        "    entry  version  kind    offsets\n"
        "    2      2        batch   t-0:5..10\n"
        "    1      1        batch   t-0:0..5\n"
        "    0      0        create  none\n"
        "  a restart: run --follow goes on with this query; run reads from the ledger's offsets\n"
    )


def test_as_json(shop, capsys):
    shop.entries()
    shop.batches(5, 10, 12, done=2)
    found = json.loads(shown(capsys, "--output", "json"))
    assert (found["state"], found["query_id"], found["problem"]) == (
        "usable",
        "6b2a0000-0000-4000-8000-000000000000",
        None,
    )
    assert (found["committed"], found["planned"]) == ({"t": {"0": 10}}, {"t": {"0": 12}})
    assert (found["ranges"], found["next_offsets"]) == ({"t": {"0": [10, 12]}}, {"t": {"0": 10}})
    assert [entry["entry"] for entry in found["ledger"]] == [2, 1, 0]


def test_a_checkpoint_that_stands_elsewhere_or_is_damaged_is_replaced(shop, capsys):
    shop.entries()
    shop.batches(5)
    replaced = (
        "with run --follow the checkpoint is replaced (the ledger has other offsets); the ledger says where to go on"
    )
    assert shown(capsys).endswith(f"  a restart: {replaced}\n")
    (shop.checkpoint / "offsets" / "0").write_text("")
    assert "  state: damaged: offsets/0 is missing, cut short or of an unknown version\n" in shown(capsys)
    assert "the checkpoint is moved aside (offsets/0" in shown(capsys)


@pytest.mark.parametrize(
    ("topics", "restart"),
    [
        ("topics: [u]", "replaced"),
        ("topics: [t, u]", "replaced"),
        ("assign: {t: [1]}", "replaced"),
        ("assign: {t: [0]}", "goes on"),
        ("topic_pattern: 't.?'", "goes on"),
        ("topic_pattern: 'x.*'", "replaced"),
    ],
)
def test_a_checkpoint_of_other_partitions_than_the_flow_reads_is_replaced(topics, restart, shop, capsys):
    shop.entries()
    shop.batches(5, 10)
    Path("rivermouth.yml").write_text(PROJECT.replace("topics: [t]", topics))
    told = {
        "goes on": "run --follow goes on with this query; run reads from the ledger's offsets",
        "replaced": "with run --follow the checkpoint is replaced (the flow reads other partitions); "
        "the ledger says where to go on",
    }
    assert shown(capsys).endswith(f"  a restart: {told[restart]}\n")


def test_after_a_decision_a_checkpoint_is_replaced_though_its_offsets_are_the_ledgers(shop, capsys):
    shop.entries(decisions=(Decision("new_epoch", 2, "t", {0: (5, 0)}),))
    shop.batches(5, 10)
    assert "with run --follow the checkpoint is replaced (the ledger has other offsets)" in shown(capsys)


def test_a_checkpoint_of_another_flow_stops_the_start(shop, capsys):
    shop.entries()
    shop.batches(5, owner="other")
    told = f"flow shop: the checkpoint {shop.checkpoint} belongs to flow 'other'; nothing was written"
    assert shown(capsys).endswith(
        f"  problem: [CHECKPOINT_FOREIGN] {told}\n  hint: in flow shop: places: {{checkpoint: ./checkpoints/shop}}\n"
    )


def test_a_table_that_others_changed_names_what_to_do(shop, capsys):
    shop.entries()
    write_deltalake(shop.places.table, pa.table({"a": [1]}), mode="append")
    assert "  problem: [LEDGER_VOID] " in shown(capsys)
    assert 'rivermouth run shop --rewind t-0:10 --why "REASON"\n' in shown(capsys)
