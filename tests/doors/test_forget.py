"""``rivermouth tables forget``: a person's rows and dead letters go for good, over real tables and topics."""

from __future__ import annotations

import json
import os
import shutil

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from delta.tables import DeltaTable
from tests.crashes.oracle import rows_of
from tests.doors.test_cli_run import Shop

from rivermouth.errors import MaintenanceConflict
from rivermouth.ports.spark.session import for_flow
from rivermouth.project.api import Project

PROJECT = """\
name: shop
lake: ./lake
kafka:
  bootstrap_servers: {servers}
flows:
  orders:
    topics: [{topic}]
    format: {{type: json, schema: "id bigint, amount int, email string"}}
    expectations:
      - {{name: positive, condition: amount > 0, action: dead_letter}}
      - {{name: small, condition: amount < 100, action: drop}}
    table: {{name: silver.orders, properties: {{delta.enableChangeDataFeed: true}}}}
  keyed:
    topics: [{topic}]
    format: {{type: json, schema: "id bigint, amount int, email string"}}
    table: gold.orders
    sink: {{type: upsert, keys: [email], apply_as_deletes: amount = 0}}
    maintenance: {{vacuum: daily}}
  versions:
    topics: [{topic}]
    format: {{type: json, schema: "id bigint, amount int, email string"}}
    table: gold.versions
    sink: {{type: history, keys: [id], sequence_by: [kafka_timestamp, kafka_offset]}}
"""
ANN, OLD_ANN, BOB = "ann@example.com", "old-ann@example.com", "bob@example.com"
RECORDS = [
    (b"k-ann", 1, 5, ANN),
    (b"k-bob", 2, 5, BOB),
    (b"k-ann", 3, -5, ANN),  # a dead letter of the same key
    (b"k-bob", 4, 500, BOB),  # dropped
    (b"k-all", 5, 7, ANN),
    (b"k-all", 6, -2, BOB),  # a dead letter of a key that others have too
    (None, 7, -1, ANN),  # a dead letter without a key
    (b"k-all", 8, 8, BOB),
]
AT_ONCE = ("--retain", "0h", "--even-below-168-hours")


@pytest.fixture
def shop(spark, broker, topic, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    made = Shop(tmp_path, broker.bootstrap_servers, topic(), capsys)
    made.file.write_text(PROJECT.format(servers=made.servers, topic=made.topic))
    return made


def send(shop, *records):
    """(Kafka key, id, amount, e-mail) each."""
    producer = Producer({"bootstrap.servers": shop.servers})
    for key, number, amount, email in records:
        value = json.dumps({"id": number, "amount": amount, "email": email}).encode()
        producer.produce(shop.topic, value, key=key)
    assert producer.flush(10) == 0


def done(shop, *arguments):
    """What a command says that succeeds."""
    code, out, err = shop.say(*arguments)
    assert code == 0, out + err
    return out


def holding(folder, marker):
    """Folders below one whose files contain a marker, in their bytes or in the rows of a Parquet file."""

    def holds(path):
        if marker.encode() in path.read_bytes():
            return True
        return path.suffix == ".parquet" and marker in str(pq.ParquetFile(path).read().to_pylist())

    found = {path.parent for path in folder.rglob("*") if path.is_file() and holds(path)}
    return sorted(str(path.relative_to(folder)) for path in found)


def ids(shop, table):
    return sorted(row["id"] for row in rows_of(shop.folder / "lake" / table))


@pytest.mark.long
def test_a_persons_rows_and_dead_letters_go_for_good(shop, spark):
    send(shop, *RECORDS)
    done(shop, "run", "orders")
    lake = shop.folder / "lake"
    assert holding(lake, ANN) == ["silver/orders", "silver/orders__dead_letters"]
    downstream = lake / "silver/orders", shop.folder / "copied"
    assert copied(spark, *downstream) == 4

    where = ("silver.orders", "--where", f"email = '{ANN}'")
    assert done(shop, "tables", "forget", *where, "--dry-run") == (
        "silver.orders: 2 rows and 1 dead letter would be erased\n"
        "  older versions, up to 1, would hold them until VACUUM\n"
        "  dead letters were not searched by 1 Kafka key of theirs, which other rows have too; name them with "
        "--dead-letters\n"
        "  of 1 dead letter that stays no Kafka key says whose they are; choose with --dead-letters CONDITION, after:\n"
        "  rivermouth dead-letters show orders\n"
    )
    assert ids(shop, "silver/orders") == [1, 2, 5, 8]
    letters = ("--dead-letters", f"CAST(kafka_value AS STRING) LIKE '%{ANN}%'")
    (report,) = shop.json("tables", "forget", *where, *letters, "--why", "ticket 7", "--yes")
    numbers = {name: report[name] for name in ("rows", "dead_letters", "records", "entry", "last_version", "why")}
    assert numbers == {
        "rows": 2,
        "dead_letters": 2,
        "records": 4,
        "entry": 2,
        "last_version": 1,
        "why": "ticket 7",
    }
    (kept,) = lake.glob("_rivermouth/erased/silver.orders/reports/*.json")
    assert json.loads(kept.read_text()) == report | {"done": True, "dry_run": False}
    assert ids(shop, "silver/orders") == [2, 8]
    assert [json.loads(row["kafka_value"])["id"] for row in rows_of(lake / "silver/orders__dead_letters")] == [6]
    assert done(shop, "tables", "forget", *where, "--yes") == "silver.orders: nothing fits, so nothing was erased\n"

    # A plain reader goes on over the commit, if it says that it may.
    with pytest.raises(Exception, match="DELTA_SOURCE_TABLE_IGNORE_CHANGES"):
        copied(spark, *downstream)
    send(shop, (b"eve", 9, 1, "eve@example.com"))
    done(shop, "run", "orders")
    assert copied(spark, *downstream, skipChangeCommits=True) == 5

    assert "  9 records in Kafka: 3 in the table, 1 in the dead letters, 4 erased, 1 in neither" in done(
        shop, "audit", "orders"
    )
    assert "  erased: 4 records\n" in done(shop, "status", "orders")
    # Only files of older versions hold them now: rows, dead letters, and what the change feed tells of them.
    assert holding(lake, ANN) == ["silver/orders", "silver/orders/_change_data", "silver/orders__dead_letters"]
    done(shop, "tables", "vacuum", "orders", "silver.orders__dead_letters", *AT_ONCE)
    assert holding(lake, ANN) == []
    assert holding(lake, BOB) == ["silver/orders", "silver/orders__dead_letters"]


def copied(spark, table, target, **options):
    """How many rows a plain stream from the table has brought into another one."""
    stream = for_flow(spark).readStream.format("delta").options(**options).load(str(table))
    writer = stream.writeStream.format("delta").option("checkpointLocation", f"{target}-checkpoint")
    query = writer.trigger(availableNow=True).start(str(target))
    query.awaitTermination()
    return len(rows_of(target))


@pytest.mark.long
def test_no_rewind_and_no_replay_brings_them_back_and_the_audit_sees_who_does(shop, spark):
    send(shop, *RECORDS)
    done(shop, "run", "orders")
    done(shop, "tables", "forget", "orders", "--where", f"email = '{ANN}'", "--yes")
    # Somebody takes all rows away, and has them read again, with rules that would let all of them pass.
    location = str(shop.folder / "lake/silver/orders")
    table = DeltaTable.forPath(spark, location)
    table.delete()
    shop.edit("amount > 0", "amount > -100")
    done(shop, "run", "orders", "--rewind", f"{shop.topic}-0:earliest", "--why", "rows were deleted")
    done(shop, "dead-letters", "replay", "orders")
    # The dead letter of no key was not erased, and is no letter by the new rules.
    assert ids(shop, "silver/orders") == [2, 6, 7, 8]
    out = done(shop, "audit", "orders")
    assert "5 records in Kafka: 4 in the table, 0 in the dead letters, 1 in neither (1 counted as dropped)" in out

    # A letter that the rewind gave up is not all that is left of its record.
    letters = ("--dead-letters", "status = 'discarded' AND kafka_offset = 5", "--yes")
    assert "1 dead letter" in done(shop, "tables", "forget", "orders", *letters)
    assert "5 records in Kafka: 4 in the table, 0 in the dead letters, 1 in neither" in done(shop, "audit", "orders")

    done(shop, "tables", "forget", "orders", "--where", "id = 7", "--yes")
    erased = table.history(1).collect()[0]
    before = spark.read.format("delta").option("versionAsOf", erased.version - 1).load(location)
    again = before.where("id = 7").write.format("delta").mode("append")
    again.option("userMetadata", erased.userMetadata).save(location)
    code, out, _ = shop.say("audit", "orders")
    assert code == 1
    assert "  problem: erased, and there again: 1 record\n" in out
    assert f"  for example: {shop.topic}-0:6\n" in out

    # A table that is created again does not get them either.
    for folder in ("silver", "_rivermouth/ledger"):
        shutil.rmtree(shop.folder / "lake" / folder)
    done(shop, "run", "orders")
    assert ids(shop, "silver/orders") == [2, 6, 8]
    assert "4 records in Kafka: 3 in the table, 0 in the dead letters, 1 in neither" in done(shop, "audit", "orders")


@pytest.mark.long
def test_the_audit_knows_how_many_records_were_erased_though_the_list_of_them_was_deleted(shop):
    send(shop, *RECORDS)
    done(shop, "run", "orders", "keyed")
    letters = ("--dead-letters", f"CAST(kafka_value AS STRING) LIKE '%{ANN}%'")
    for flow, more in (("orders", letters), ("keyed", ())):
        (report,) = shop.json("tables", "forget", flow, "--where", f"email = '{ANN}'", *more, "--yes")
        assert report["records"] == 4
    shutil.rmtree(shop.folder / "lake/_rivermouth")
    # Before and after a batch that follows.
    for records in ((), ((b"eve", 9, 1, "eve@example.com"),)):
        send(shop, *records)
        done(shop, "run", "orders", "keyed")
        out, more = done(shop, "audit", "orders", "keyed"), len(records)
        assert (
            f"{8 + more} records in Kafka: {2 + more} in the table, 1 in the dead letters, 4 erased, 1 in neither"
            in out
        )
        assert (
            f"{8 + more} records in Kafka: {4 + more} in the table, 0 in the dead letters, 4 erased, 0 in neither"
            in out
        )
        assert "not known any more: which records were erased (a rewind brings them back)\n" in out


def conflict(_spark, table, _location):
    """Somebody comes first."""
    raise MaintenanceConflict(table=table, detail="ConcurrentDeleteReadException")


UNFINISHED = (
    "[ERASURE_UNFINISHED] flow keyed: rows of table gold.orders are erased, but somebody commits changes of its files "
    "again and again (ConcurrentDeleteReadException); their bytes are still in files of the newest version\n"
    "  hint: rivermouth run keyed, when no other program optimizes the table: it does the rest\n"
)


@pytest.mark.long
def test_of_a_keyed_table_all_records_of_a_key_go_and_its_memory(shop, spark, monkeypatch):
    ann = [(b"a", 1, 5, ANN), (b"a", 1, 0, ANN), (b"a", 1, 6, ANN)]
    send(shop, *ann, (b"b", 2, 9, BOB), (b"b", 2, 8, BOB), (b"c", 3, 1, "carl"), (b"c", 3, 0, "carl"))
    done(shop, "run", "keyed")
    lake = shop.folder / "lake"
    (memory,) = (lake / "_rivermouth/tombstones/gold.orders").iterdir()

    def remembered():
        # It has widened types, which nothing but Spark reads.
        return sorted(row.email for row in spark.read.format("delta").load(str(memory)).collect())

    assert remembered() == ["carl"]
    before = memory.with_name("of-a-table-that-was-here-before")
    before.mkdir()
    (before / "keys").write_text(ANN)
    # A condition about keys alone finds deleted ones too. Somebody optimizes the table again and again meanwhile.
    with monkeypatch.context() as patched:
        patched.setattr("rivermouth.ports.delta.delta_maintenance.purge", conflict)
        code, _, err = shop.say("tables", "forget", "keyed", "--where", f"email IN ('{ANN}', 'carl')", "--yes")
    assert (code, err.replace("starting Spark …\n", "")) == (1, UNFINISHED)
    assert not before.exists()
    # The flow's own maintenance looks after that memory too.
    shutil.rmtree(lake / "_rivermouth/maintenance")
    orphan = memory / "part-of-a-writer-that-died.parquet"
    orphan.write_bytes(b"x")
    os.utime(orphan, (0, 0))
    done(shop, "run", "keyed")
    assert not orphan.exists()
    (kept,) = (lake / "_rivermouth/erased/gold.orders/reports").iterdir()
    report = json.loads(kept.read_text())
    assert report["done"]
    assert {name: report[name] for name in ("rows", "remembered", "records")} == {
        "rows": 1,
        "remembered": 1,
        "records": 5,
    }
    assert (ids(shop, "gold/orders"), remembered()) == ([2], [])
    assert "7 records in Kafka: 2 in the table, 0 in the dead letters, 5 erased, 0 in neither" in done(
        shop, "audit", "keyed"
    )
    # A rewind is no way back, and what comes later is another record.
    send(shop, (b"c", 3, 4, "carl"))
    done(shop, "run", "keyed", "--rewind", f"{shop.topic}-0:earliest", "--why", "a try")
    assert ids(shop, "gold/orders") == [2, 3]
    done(shop, "audit", "keyed")
    done(shop, "tables", "vacuum", "keyed", *AT_ONCE)
    # Least and greatest values of keys stand in the log until Delta cleans it.
    assert holding(lake, ANN) == ["gold/orders/_delta_log"]
    # The memory of deleted keys has no statistics of them.
    assert holding(memory, "carl") == []


@pytest.mark.long
def test_of_a_history_all_versions_of_a_key_go(shop):
    send(shop, (b"a", 1, 5, OLD_ANN), (b"a", 1, 6, ANN), (b"b", 2, 7, BOB), (b"b", 2, 9, BOB))
    done(shop, "run", "versions")
    (report,) = shop.json("tables", "forget", "versions", "--where", f"email = '{ANN}'", "--yes")
    assert (report["rows"], report["records"]) == (2, 2)
    send(shop, (b"b", 2, 10, BOB))
    done(shop, "run", "versions")
    assert ids(shop, "gold/versions") == [2, 2, 2]
    assert "5 records in Kafka: 3 in the table, 0 in the dead letters, 2 erased, 0 in neither" in done(
        shop, "audit", "versions"
    )
    done(shop, "tables", "vacuum", "versions", *AT_ONCE)
    assert holding(shop.folder / "lake", ANN) == holding(shop.folder / "lake", OLD_ANN) == []


COLUMNS = "id, amount, email, kafka_topic, kafka_partition, kafka_offset, kafka_timestamp, kafka_key, ingested_at"
REFUSED = {
    ("orders", "--where", "id = 1"): (
        "[ARGUMENT_INVALID] --yes: erasing cannot be undone, and there is no terminal to ask on; nothing was run\n"
        "  hint: rivermouth tables forget orders ... --dry-run, then with --yes\n"
    ),
    ("silver.ordrs", "--where", "id = 1", "--yes"): (
        "[TABLE_UNKNOWN] nothing in the project writes a table 'silver.ordrs'; nothing was done\n"
        "  hint: did you mean 'silver.orders'?\n"
    ),
    ("silver.orders__dead_letters", "--where", "reason = 'X'", "--yes"): (
        "[ARGUMENT_INVALID] TABLE: silver.orders__dead_letters holds dead letters, which go with the rows of their "
        "table; nothing was run\n"
        "  hint: rivermouth tables forget silver.orders --dead-letters CONDITION\n"
    ),
    ("orders", "--yes"): (
        "[ARGUMENT_INVALID] --where: nothing says what is to be erased; nothing was run\n"
        "  hint: rivermouth tables forget silver.orders --where CONDITION\n"
    ),
    ("keyed", "--where", "id = 1", "--yes"): (
        "[FORGET_REFUSED] table gold.orders: it is not made yet; nothing was erased\n  hint: rivermouth run keyed\n"
    ),
    ("orders", "--where", "id", "--yes"): (
        "[FORGET_REFUSED] table silver.orders: --where is of type bigint, not boolean; nothing was erased\n"
        f"  hint: write a condition over {COLUMNS}\n"
    ),
    ("orders", "--where", "idd = 1", "--yes"): (
        "[FORGET_REFUSED] table silver.orders: --where: [UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or "
        "function parameter with name `idd` cannot be resolved. Did you mean one of the following? [`id`, `email`, "
        "`amount`, `ingested_at`, `kafka_key`]. SQLSTATE: 42703; line 2 pos 0; nothing was erased\n"
        f"  hint: write a condition over {COLUMNS}\n"
    ),
    ("orders", "--where", "reflect('java.lang.System', 'exit', 1) IS NULL", "--yes"): (
        "[FORGET_REFUSED] table silver.orders: --where: it calls reflect(), which could run any code; nothing was "
        "erased\n"
        f"  hint: write a condition over {COLUMNS}\n"
    ),
    ("orders", "--where", "id IN (SELECT 1)", "--yes"): (
        "[FORGET_REFUSED] table silver.orders: --where: it holds a subquery, which Spark would run again with every "
        "batch; nothing was erased\n"
        f"  hint: write a condition over {COLUMNS}\n"
    ),
}


def test_what_cannot_be_erased_is_refused_and_all_stays(shop, spark):
    send(shop, *RECORDS[:2])
    done(shop, "run", "orders")
    for arguments, text in REFUSED.items():
        code, out, err = shop.say("tables", "forget", *arguments)
        assert (code, out, err.replace("starting Spark …\n", "")) == (1, "", text), arguments
    assert Project.load(shop.file).forget("orders", where="id = 99").found is False
    location = shop.folder / "lake/silver/orders"
    entry = DeltaTable.forPath(spark, str(location)).history(1).collect()[0].userMetadata
    others = spark.read.format("delta").load(str(location)).where("id = 1")
    others = others.selectExpr("* EXCEPT (id, kafka_offset)", "7L AS id", "CAST(NULL AS BIGINT) AS kafka_offset")
    others.write.format("delta").mode("append").option("userMetadata", entry).save(str(location))
    code, _, err = shop.say("tables", "forget", "orders", "--where", "id > 1", "--yes")
    refused = (
        "[FORGET_REFUSED] table silver.orders: 1 of the rows have no coordinates, because another "
        "program wrote them; nothing was erased\n"
        "  hint: delete these in Spark, then: rivermouth run orders, which says how it goes on\n"
    )
    assert (code, err.replace("starting Spark …\n", "")) == (1, refused)
    spark.sql(f"ALTER TABLE delta.`{location}` SET TBLPROPERTIES ('delta.appendOnly' = 'true')")
    code, _, err = shop.say("tables", "forget", "orders", "--where", "id = 1", "--yes")
    refused = "[FORGET_REFUSED] table silver.orders: its property delta.appendOnly lets no row go; nothing was erased\n"
    hint = f"  hint: ALTER TABLE delta.`{location}` UNSET TBLPROPERTIES ('delta.appendOnly')\n"
    assert (code, err.replace("starting Spark …\n", "")) == (1, refused + hint)
    assert ids(shop, "silver/orders") == [1, 2, 7]
    assert not (shop.folder / "lake/_rivermouth/erased").exists()
