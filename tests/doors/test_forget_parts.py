"""``rivermouth tables forget`` where a record is of several keys: change envelopes, and snapshots."""

from __future__ import annotations

import json
import shutil

import pytest
from confluent_kafka import Producer
from tests.crashes.oracle import rows_of
from tests.doors.test_cli_run import Shop
from tests.doors.test_forget import ANN, AT_ONCE, BOB, done, holding

CANAL = """\
lake: ./lake
kafka:
  bootstrap_servers: {servers}
flows:
  rows:
    topics: [{topic}]
    format: {{type: canal, schema: "id bigint, email string, amount int"}}
    table: gold.rows
    sink: {{type: upsert, keys: [id]}}
    expectations: [{{name: small, condition: amount < 100, action: dead_letter}}]
  versions:
    topics: [{topic}]
    format: {{type: canal, schema: "id bigint, email string, amount int"}}
    table: gold.versions
    sink: {{type: history, keys: [id], sequence_by: kafka_offset}}
"""
SNAPSHOTS = """\
lake: ./lake
kafka:
  bootstrap_servers: {servers}
flows:
  rows:
    topics: [{topic}]
    format: {{type: json, schema: "id bigint, email string, amount int"}}
    table: gold.rows
    sink: {{type: upsert, from: snapshot, keys: [id]}}
  versions:
    topics: [{topic}]
    format: {{type: json, schema: "id bigint, email string, amount int"}}
    table: gold.versions
    sink: {{type: history, from: snapshot, keys: [id], sequence_by: kafka_offset}}
"""
PEOPLE = {1: ANN, 2: BOB, 3: "carl@example.com"}


@pytest.fixture
def shop_of(spark, broker, topic, tmp_path, monkeypatch, capsys):
    def make(project):
        monkeypatch.chdir(tmp_path)
        made = Shop(tmp_path, broker.bootstrap_servers, topic(), capsys)
        made.file.write_text(project.format(servers=made.servers, topic=made.topic))
        return made

    return make


def send(shop, *values):
    producer = Producer({"bootstrap.servers": shop.servers})
    for value in values:
        producer.produce(shop.topic, json.dumps(value).encode())
    assert producer.flush(10) == 0


def row(number, amount):
    return {"id": number, "email": PEOPLE[number], "amount": amount}


def canal(kind, *rows, old=None):
    texts = [{name: str(part) for name, part in each.items()} for each in rows]
    return {"type": kind, "isDdl": False, "data": texts, "old": old}


def found(shop, table):
    """(id, amount) of each row."""
    return sorted((each["id"], each["amount"]) for each in rows_of(shop.folder / "lake/gold" / table))


def forget(shop, flow, where):
    """Rows, records as a whole and in part."""
    (report,) = shop.json("tables", "forget", flow, "--where", where, "--yes")
    return tuple(report[name] for name in ("rows", "records", "in_part"))


def again(shop, *flows):
    for flow in flows:
        done(shop, "run", flow, "--rewind", f"{shop.topic}-0:earliest", "--why", "a try")


def anew(shop):
    """Another table of each name, from the first record on."""
    for folder in ("gold", "_rivermouth/ledger", "_rivermouth/tombstones"):
        shutil.rmtree(shop.folder / "lake" / folder, ignore_errors=True)
    done(shop, "run")


MESSAGES = (
    canal("INSERT", row(1, 5), row(2, 5), row(3, 5)),
    canal("UPDATE", row(1, 6), old=[{"amount": "5"}]),
    canal("UPDATE", row(1, 50), row(2, 7), old=[{"amount": "6"}, {"amount": "5"}]),
    canal("DELETE", row(3, 5)),
)


@pytest.mark.long
def test_of_a_record_with_changes_of_several_keys_one_is_erased(shop_of):
    shop = shop_of(CANAL)
    send(shop, *MESSAGES)
    done(shop, "run")
    foreseen = done(shop, "tables", "forget", "rows", "--where", f"email = '{ANN}'", "--dry-run")
    assert foreseen == (
        "gold.rows: 1 row and 0 dead letters would be erased\n"
        "  older versions, up to 1, would hold them until VACUUM\n"
        "  of 2 records, which have others too, only the changes of these rows are left out when read again\n"
    )
    assert forget(shop, "rows", f"email = '{ANN}'") == (1, 1, 2)
    assert forget(shop, "versions", f"email = '{ANN}'") == (3, 1, 2)
    told = "4 records in Kafka: 3 in the table, 0 in the dead letters, 1 erased, 0 in neither"
    assert told in done(shop, "audit", "rows")
    assert (found(shop, "rows"), found(shop, "versions")) == ([(2, 7)], [(2, 5), (2, 7), (3, 5)])


@pytest.mark.long
@pytest.mark.timeout(600)
def test_what_was_erased_in_part_is_in_no_file_and_does_not_come_again(shop_of):
    shop = shop_of(CANAL)
    send(shop, *MESSAGES)
    done(shop, "run")
    assert forget(shop, "rows", f"email = '{ANN}'") == (1, 1, 2)
    assert forget(shop, "versions", f"email = '{ANN}'") == (3, 1, 2)
    again(shop, "rows", "versions")
    assert (found(shop, "rows"), found(shop, "versions")) == ([(2, 7)], [(2, 5), (2, 7), (3, 5)])
    told = "3 records in Kafka: 3 in the table, 0 in the dead letters, 0 in neither"
    assert told in done(shop, "audit", "versions")
    done(shop, "tables", "vacuum", "rows", "versions", *AT_ONCE)
    assert holding(shop.folder / "lake", ANN) == []


@pytest.mark.long
@pytest.mark.timeout(600)
def test_what_was_erased_in_part_is_no_dead_letter_and_goes_with_its_last_change(shop_of):
    shop = shop_of(CANAL)
    send(shop, *MESSAGES)
    done(shop, "run")
    assert forget(shop, "rows", "id = 1") == (1, 1, 2)
    # By stricter rules the record of both would be a dead letter, and would hold what was erased.
    shop.edit("amount < 100", "amount <> 7")
    again(shop, "rows")
    assert rows_of(shop.folder / "lake/gold/rows__dead_letters") == []
    out = done(shop, "audit", "rows")
    assert "3 records in Kafka: 2 in the table, 0 in the dead letters, 1 in neither (1 counted as dropped)" in out
    # What comes later is another record. Of the one of both nothing is left once the other goes too.
    send(shop, canal("INSERT", row(1, 9), row(3, 9)))
    done(shop, "run")
    assert forget(shop, "versions", "id = 1") == (4, 1, 3)
    assert forget(shop, "versions", "id = 2") == (2, 1, 1)
    anew(shop)
    assert (found(shop, "rows"), found(shop, "versions")) == ([(1, 9), (2, 5), (3, 9)], [(3, 5), (3, 9)])
    done(shop, "audit", "rows")
    done(shop, "audit", "versions")


@pytest.mark.long
@pytest.mark.timeout(600)
def test_of_snapshots_a_row_is_erased_and_one_that_comes_later_has_it_again(shop_of):
    shop = shop_of(SNAPSHOTS)
    send(shop, [row(1, 5), row(2, 5)], [row(1, 6), row(2, 5), row(3, 5)])
    done(shop, "run")
    assert forget(shop, "rows", f"email = '{ANN}'") == (1, 0, 2)
    assert forget(shop, "versions", f"email = '{ANN}'") == (2, 0, 2)
    again(shop, "rows", "versions")
    assert (found(shop, "rows"), found(shop, "versions")) == ([(2, 5), (3, 5)], [(2, 5), (3, 5)])
    told = "2 records in Kafka: 2 in the table, 0 in the dead letters, 0 in neither"
    assert told in done(shop, "audit", "rows")
    done(shop, "tables", "vacuum", "rows", "versions", *AT_ONCE)
    assert holding(shop.folder / "lake", ANN) == []
    send(shop, [row(1, 7), row(3, 5)])
    anew(shop)
    assert (found(shop, "rows"), found(shop, "versions")) == ([(1, 7), (3, 5)], [(1, 7), (2, 5), (3, 5)])
