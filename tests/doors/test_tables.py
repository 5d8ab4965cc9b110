"""The tables of a project looked at, read and looked after: the command line and Python, over real tables."""

from __future__ import annotations

import datetime as dt
import json
import time

import pytest
from tests.crashes.oracle import rows_of
from tests.doors.test_cli_run import Shop

from rivermouth.errors import TableMissing, VersionMissing, ViewsCollide
from rivermouth.ports.lake.lake_files import LocalFiles
from rivermouth.ports.lake.lease import TableLease
from rivermouth.ports.spark.session import for_flow
from rivermouth.project.api import Project

PROJECT = """\
name: shop
lake: ./lake
kafka:
  bootstrap_servers: {servers}
flows:
  raw:
    topics: [{topic}]
    format: raw
    table: bronze.orders
  orders:
    topics: [{topic}]
    format: {{type: json, schema: "id bigint, amount decimal(10,2), at timestamp, day int"}}
    expectations:
      - {{name: positive, condition: amount > 0, action: dead_letter}}
    table: {{name: silver.orders, partition_by: [day]}}
    trigger: {{max_offsets: 2}}
  keyed:
    topics: [{topic}]
    format: {{type: json, schema: "id bigint, amount decimal(10,2), at timestamp"}}
    table: {{name: gold.orders, cluster_by: [id]}}
    sink: {{type: upsert, keys: [id]}}
"""
AT = "2026-01-31T12:00:00.123456Z"


def value(number, amount="1.50"):
    return json.dumps({"id": number, "amount": amount and float(amount), "at": AT, "day": number % 2}).encode()


@pytest.fixture
def shop(spark, broker, topic, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    made = Shop(tmp_path, broker.bootstrap_servers, topic(), capsys)
    made.file.write_text(PROJECT.format(servers=made.servers, topic=made.topic))
    return made


@pytest.fixture(scope="module")
def lake(spark, broker, topic, tmp_path_factory):
    """A lake, made once for all tests that look at it; and its topic."""
    made = Shop(tmp_path_factory.mktemp("shop"), broker.bootstrap_servers, topic(), None)
    made.file.write_text(PROJECT.format(servers=made.servers, topic=made.topic))
    made.send(*(value(number) for number in range(7)), value(7, "-1"))
    Project.load(made.file).run("orders", "keyed")
    return made


@pytest.fixture
def full(lake, copied, capsys):
    """A copy of that lake: eight records by two a batch, one of them a dead letter."""
    made = Shop(copied(lake.folder), lake.servers, lake.topic, capsys)
    made.file.write_text(lake.file.read_text())
    return made


@pytest.mark.long
def test_tables_are_told_without_spark_and_wherever_they_are_made(full, monkeypatch):
    monkeypatch.setattr("rivermouth.ports.spark.session.start", None)
    (found,) = full.json("tables", "describe")
    raw, orders, letters, keyed = found["tables"]
    assert (raw["table"], raw["exists"]) == ("bronze.orders", False)
    assert (letters["table"], letters["rows"]) == ("silver.orders__dead_letters", 1)
    assert (keyed["table"], keyed["rows"], keyed["cluster_by"]) == ("gold.orders", 8, ["id"])
    assert {name: orders[name] for name in ("rows", "version", "operation", "entry", "partition_by", "advice")} == {
        "rows": 7,
        "version": 4,
        "operation": "WRITE",
        "entry": 4,
        "partition_by": ["day"],
        "advice": [],
    }
    parquet = list((full.folder / "lake/silver/orders").rglob("*.parquet"))
    assert orders["files"] == len(parquet)
    assert orders["stored_bytes"] == orders["live_bytes"] == sum(path.stat().st_size for path in parquet)
    code, out, err = full.say("tables", "describe", "orders", "bronze.orders")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[:2] == ["bronze.orders: not made yet", "  hint: rivermouth run raw"]
    at = dt.datetime.fromtimestamp(orders["committed_at"], dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    assert lines[3:7] == [
        f"silver.orders: version 4, WRITE at {at}",
        f"  at {full.folder}/lake/silver/orders",
        "  7 rows",
        "  partitioned by day",
    ]
    assert "  ledger entry 4; never optimized, never vacuumed" in lines
    assert lines[-1].split() == ["under", "1", "MiB", str(len(parquet)), *lines[-1].split()[-2:]]
    assert Project.load(full.file).describe_tables("silver.orders")[0].rows == 7


def test_rows_are_read_as_text_and_as_json(full):
    code, out, _ = full.say("tables", "read", "silver.orders", "--columns", "id,amount,at", "--limit", "100")
    head, *lines = out.splitlines()
    assert (code, head.split()) == (0, ["id", "amount", "at"])
    assert sorted(line.split(maxsplit=2) for line in lines) == [
        [str(number), "1.50", "2026-01-31 12:00:00.123456"] for number in range(7)
    ]
    found = full.json("tables", "read", "orders", "--limit", "3")
    assert len(found) == 3
    assert found[0]["at"] == "2026-01-31T12:00:00.123456Z"
    assert (found[0]["amount"], found[0]["kafka_topic"]) == (1.5, full.topic)
    (letter,) = full.json("tables", "read", "silver.orders__dead_letters", "--columns", "kafka_value,reason")
    assert letter["reason"] == "EXPECTATION"
    assert full.say("tables", "read", "silver.orders", "--version", "0")[1] == "no rows\n"


def test_what_a_terminal_would_obey_is_printed_as_text(shop):
    shop.send(b"\xff\x1b[31m" + b"x" * 200)
    shop.send("\x1b[2Jé\n".encode())
    assert shop.say("run", "raw")[0] == 0
    _, out, _ = shop.say("tables", "read", "bronze.orders", "--columns", "value")
    assert sorted(out.splitlines()) == sorted(["value", "\\x1b[2Jé\\n", "0xff1b5b33316d" + "78" * 42 + "7…"])
    found = shop.json("tables", "read", "bronze.orders", "--columns", "value,kafka_key")
    assert {each["value"] for each in found} >= {"G1sySsOpCg=="}
    assert found[0]["kafka_key"] == "aw=="


def test_a_view_of_a_table_is_read_and_what_is_none_is_refused(full, spark):
    project, session = Project.load(full.file), for_flow(spark)
    now = dt.datetime.now(dt.UTC)
    with pytest.raises(VersionMissing, match="is after the table's latest version"):
        project.read_table("orders", spark=session, timestamp=now + dt.timedelta(days=1))
    assert project.create_temp_views("silver.orders", spark=session) == {"silver.orders": "silver_orders"}
    assert sorted(row.id for row in session.sql("SELECT id FROM silver_orders").collect()) == list(range(7))
    with pytest.raises(TableMissing):
        project.create_temp_views("bronze.orders", spark=session)
    full.edit("bronze.orders", "silver_orders.x")
    full.edit("gold.orders", "silver.orders_x")
    with pytest.raises(ViewsCollide) as found:
        Project.load(full.file).create_temp_views("raw", "keyed", spark=session)
    assert str(found.value) == (
        "[VIEWS_COLLIDE] tables silver_orders.x and silver.orders_x would both be the view silver_orders_x; "
        "no view was made\n"
        "  hint: name one of them: project.create_temp_views('silver_orders.x')"
    )


@pytest.mark.long
def test_python_reads_tables_as_frames_and_as_views(full, spark):
    project, session = Project.load(full.file), for_flow(spark)
    frame = project.read_table("silver.orders", columns=["id"], spark=session)
    assert sorted(row.id for row in frame.collect()) == list(range(7))
    assert project.read_table("orders", spark=session, version=1).count() == 2
    now = dt.datetime.now(dt.UTC)
    with pytest.raises(VersionMissing, match="is after the table's latest version"):
        project.read_table("orders", spark=session, timestamp=now + dt.timedelta(days=1))
    assert project.create_temp_views(spark=session) == {
        "silver.orders": "silver_orders",
        "silver.orders__dead_letters": "silver_orders__dead_letters",
        "gold.orders": "gold_orders",
    }
    joined = session.sql("SELECT o.id FROM silver_orders o JOIN gold_orders USING (id) WHERE o.id > 4")
    assert sorted(row.id for row in joined.collect()) == [5, 6]
    with pytest.raises(TableMissing):
        project.create_temp_views("bronze.orders", spark=session)


def test_an_older_version_is_read_by_number_and_time(full):
    assert len(full.json("tables", "read", "orders", "--version", "2")) == 4
    commit = full.folder / "lake/silver/orders/_delta_log/00000000000000000003.json"
    at = dt.datetime.fromtimestamp(commit.stat().st_mtime_ns // 10**6 / 1000, dt.UTC).isoformat()
    assert len(full.json("tables", "read", "orders", "--timestamp", at)) == 6


REFUSED = {
    ("read", "silver.ordrs"): (
        "[TABLE_UNKNOWN] nothing in the project writes a table 'silver.ordrs'; nothing was done\n"
        "  hint: did you mean 'silver.orders'?\n"
    ),
    ("describe", "bronze.orders", "x.y"): (
        "[TABLE_UNKNOWN] nothing in the project writes a table 'x.y'; nothing was done\n"
        "  hint: known: bronze.orders, bronze.orders__dead_letters, gold.orders, gold.orders__dead_letters, keyed, "
        "orders, raw, silver.orders, silver.orders__dead_letters\n"
    ),
    ("read", "bronze.orders"): (
        "[TABLE_MISSING] table bronze.orders is not made yet; nothing was read\n  hint: rivermouth run raw\n"
    ),
    ("read", "orders", "--columns", "id,amuont"): (
        "[ARGUMENT_INVALID] --columns: silver.orders has no column 'amuont'; nothing was run\n"
        "  hint: did you mean 'amount'?\n"
    ),
    ("read", "orders", "--version", "99"): (
        "[VERSION_MISSING] table silver.orders cannot be read as of version 99: [DELTA_VERSION_NOT_FOUND] Cannot time "
        "travel Delta table to version 99. Available versions: [0, 4].\n"
        "  hint: rivermouth tables describe silver.orders, for its newest version; without --version that one is read\n"
    ),
    ("read", "orders", "--version", "1", "--timestamp", "2026-01-31"): (
        "[ARGUMENT_INVALID] --timestamp: a version is named too, and one is enough; nothing was run\n"
        "  hint: rivermouth tables read silver.orders --version 1\n"
    ),
    ("optimize", "--where", "day = 1"): (
        "[ARGUMENT_INVALID] --where: it is about one table, and none or several are named; nothing was run\n"
        "  hint: rivermouth tables optimize TABLE --where ...\n"
    ),
    ("optimize", "orders", "--where", "id = 1"): (
        "[OPTIMIZE_REFUSED] table silver.orders: --where: [UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or "
        "function parameter with name `id` cannot be resolved. Did you mean one of the following? [`day`]. "
        "SQLSTATE: 42703; line 2 pos 0; it was not optimized\n"
        "  hint: write a condition over day\n"
    ),
    ("optimize", "orders", "--where", "day"): (
        "[OPTIMIZE_REFUSED] table silver.orders: --where is of type int, not boolean; it was not optimized\n"
        "  hint: write a condition over day\n"
    ),
    ("optimize", "orders", "--where", "reflect('java.lang.System', 'exit', 1) IS NULL"): (
        "[OPTIMIZE_REFUSED] table silver.orders: --where: it calls reflect(), which could run any code; it was not "
        "optimized\n"
        "  hint: write a condition over day\n"
    ),
    ("optimize", "keyed", "--where", "id = 1"): (
        "[OPTIMIZE_REFUSED] table gold.orders: --where chooses partitions, and it is clustered by id; it was not "
        "optimized\n"
        "  hint: rivermouth tables optimize gold.orders, without --where\n"
    ),
    ("optimize", "keyed", "--zorder", "id"): (
        "[OPTIMIZE_REFUSED] table gold.orders: it is clustered by id, and ZORDER is another order; it was not "
        "optimized\n"
        "  hint: rivermouth tables optimize gold.orders, without --zorder\n"
    ),
    ("optimize", "orders", "--zorder", "day"): (
        "[OPTIMIZE_REFUSED] table silver.orders: ZORDER orders rows within partitions, and day is a partition column; "
        "it was not optimized\n"
        "  hint: choose of: id, amount, at, kafka_topic, kafka_partition, kafka_offset, kafka_timestamp, kafka_key, "
        "ingested_at\n"
    ),
    ("optimize", "orders", "--zorder", "amuont"): (
        "[OPTIMIZE_REFUSED] table silver.orders: ZORDER names 'amuont', which is no column; it was not optimized\n"
        "  hint: did you mean 'amount'?\n"
    ),
    ("optimize", "silver.orders__dead_letters", "--zorder", "kafka_key"): (
        "[OPTIMIZE_REFUSED] table silver.orders__dead_letters: ZORDER by kafka_key has no effect: Delta keeps no "
        "bounds of a binary; it was not optimized\n"
        "  hint: choose of: kafka_topic, kafka_partition, kafka_offset, kafka_timestamp, kafka_timestamp_type, "
        "topic_id, flow, target, stage, reason, field, message, schema_version, batch, attempt, status, "
        "dead_lettered_at\n"
    ),
    ("optimize", "orders", "--zorder", "at,amount"): (
        "[OPTIMIZE_REFUSED] table silver.orders: ZORDER by amount has no effect: the table keeps no statistics of "
        "it; it was not optimized\n"
        "  hint: ALTER TABLE delta.`{lake}/silver/orders` SET TBLPROPERTIES ('delta.dataSkippingStatsColumns' = "
        "'`at`,`kafka_offset`,`kafka_timestamp`,`amount`')\n"
    ),
    ("vacuum", "orders", "--retain", "167h"): (
        "[RETENTION_TOO_SHORT] VACUUM of table silver.orders would keep files for 167 hours only: under 168 "
        "hours, in which a reader may still need them, or a writer may not have committed them yet; nothing was "
        "deleted\n"
        "  hint: --retain 7d; or --even-below-168-hours, when no program reads older versions\n"
    ),
}


def test_what_cannot_be_done_is_refused_with_a_step_that_can(full):
    for arguments, text in REFUSED.items():
        code, out, err = full.say("tables", *arguments)
        assert (code, out) == (1, ""), arguments
        assert err.replace("starting Spark …\n", "") == text.replace("{lake}", f"{full.folder}/lake"), arguments
    assert full.say("tables", "vacuum", "--retain", "soon")[0] == 2


def reports_of(shop, table):
    """What the lake keeps of maintenance of a table, oldest first."""
    return [
        json.loads(path.read_text())
        for path in sorted((shop.folder / "lake/_rivermouth/maintenance" / table).glob("*"))
    ]


@pytest.mark.long
def test_optimize_and_vacuum_lose_nothing_and_the_flows_go_on(full):
    before = {name: rows_of(full.folder / f"lake/{name}") for name in ("silver/orders", "gold/orders")}
    code, out, err = full.say("tables", "optimize")
    assert code == 0, err
    head, *lines, total = out.splitlines()
    assert head.split() == ["table", "bytes", "before", "bytes", "after", "saved", "%"]
    assert [line.split()[0] for line in lines] == ["silver.orders", "silver.orders__dead_letters", "gold.orders"]
    assert total.split()[0] == "sum"
    numbers = [[int(text.replace(",", "")) for text in line.split()[1:4]] for line in (*lines, total)]
    assert [sum(column) for column in zip(*numbers[:-1], strict=True)] == numbers[-1]
    assert all(old - new == saved for old, new, saved in numbers)
    (report,) = reports_of(full, "silver.orders")
    assert report["after"]["files"] == 2 < report["before"]["files"]
    assert f"silver.orders: optimize: {report['before']['files']} files of " in err
    (again,) = full.json("tables", "optimize", "orders")
    assert again["maintenance"][0]["after"] == again["maintenance"][0]["before"] | {"version": 5}
    time.sleep(1.1)  # the clocks of files are as coarse as that

    # The old files are there still; nobody says that they may go.
    code, out, err = full.say("tables", "vacuum", "orders")
    assert code == 0
    assert "silver.orders: every version that can be read stays so\n" in err
    word = ("--retain", "0h", "--even-below-168-hours")
    code, out, err = full.say("tables", "vacuum", "orders", *word, "--dry-run")
    assert (code, err.splitlines()[0]) == (0, "silver.orders: versions that become unreadable: 1 to 4")
    (found,) = full.json("tables", "vacuum", "orders", "keyed", *word)
    orders, keyed = found["maintenance"]
    assert (orders["unreadable"], orders["after"]["stored_bytes"]) == ([[1, 4]], orders["after"]["live_bytes"])
    assert out.splitlines()[1].split()[2] == f"{orders['after']['stored_bytes']:,}"  # as the dry run said
    assert found["sum"]["saved_bytes"] == orders["saved_bytes"] + keyed["saved_bytes"] > 0
    code, _, err = full.say("tables", "read", "orders", "--version", "2")
    assert code == 1
    assert "[VERSION_MISSING] table silver.orders cannot be read as of version 2: files of it are gone (" in err
    for name, rows in before.items():
        assert sorted(map(str, rows_of(full.folder / f"lake/{name}"))) == sorted(map(str, rows))

    (described,) = full.json("tables", "describe", "orders")[0]["tables"]
    assert described["entry"] == 4
    assert [each["operation"] for each in described["reports"]] == ["vacuum", "vacuum", "optimize", "optimize"]
    assert described["reports"][0] == orders
    assert dt.datetime.fromtimestamp(described["vacuumed_at"], dt.UTC).isoformat()[:23] == orders["at"][:23]
    # The newest entry of the ledger comes after all this.
    for flow in full.json("status", "orders", "keyed")[0]["flows"]:
        assert (flow["code"], flow["lag"], flow["totals"]["consumed"]) == (None, 0, 8)
    full.send(value(8), value(9, "-2"))
    full.edit("lake: ./lake\n", "lake: ./lake\nmaintenance: {optimize: weekly, after_run: true}\n")
    events = full.json("run", "orders", "keyed")
    told = {each["report"]["table"]: each for each in events if each["event"] == "maintained"}
    assert told.keys() >= {"silver.orders", "gold.orders"}
    told = told["silver.orders"]
    assert (told["flow"], told["report"]["after"]["files"]) == ("orders", 2)
    assert told["report"]["saved_bytes"] < 0  # the old files are kept for older versions
    assert sorted(row["id"] for row in rows_of(full.folder / "lake/silver/orders")) == [*range(7), 8]
    assert sorted(row["id"] for row in rows_of(full.folder / "lake/gold/orders")) == list(range(10))
    assert full.say("audit", "orders")[0] == 0


def test_partitions_and_zorder_are_optimized_alone(full):
    (found,) = full.json("tables", "optimize", "orders", "--where", "day = 1", "--zorder", "kafka_offset")
    (report,) = found["maintenance"]
    assert report["after"]["files"] == len(list((full.folder / "lake/silver/orders/day=0").glob("*.parquet"))) + 1


def test_a_vacuum_that_a_running_flow_may_feel_is_refused(full):
    places = Project.load(full.file).places("orders")
    with TableLease(LocalFiles(), places.lease_file, flow="orders", table=places.table):
        code, _, err = full.say("tables", "vacuum", "orders", "--retain", "0h", "--even-below-168-hours")
    assert (code, err.split()[0]) == (1, "[TABLE_BUSY]")


@pytest.mark.long
def test_a_table_of_a_running_flow_is_not_vacuumed_of_what_it_may_need(full):
    places = Project.load(full.file).places("orders")
    with TableLease(LocalFiles(), places.lease_file, flow="orders", table=places.table):
        code, _, err = full.say("tables", "vacuum", "orders", "--retain", "0h", "--even-below-168-hours")
        assert (code, err.split()[0]) == (1, "[TABLE_BUSY]")
        assert full.say("tables", "vacuum", "orders", "--retain", "168h")[0] == 0


def test_what_the_table_promises_is_kept(full, spark):
    location = full.folder / "lake/silver/orders"
    spark.sql(
        f"ALTER TABLE delta.`{location}` SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval 30 days')"
    )
    code, _, err = full.say("tables", "vacuum", "--retain", "8 days")
    assert code == 1
    assert err == (
        "[RETENTION_TOO_SHORT] VACUUM of table silver.orders would keep files for 192 hours only: its property "
        "delta.deletedFileRetentionDuration promises 30 days; nothing was deleted\n"
        "  hint: --retain '30 days', or --even-below-168-hours\n"
    )


def test_a_flow_orders_its_rows_by_what_it_names(shop):
    for number in range(3):
        shop.send(value(number))
    shop.edit(
        "    format: raw\n", "    format: raw\n    maintenance: {optimize: {zorder: [kafka_ofset]}, after_run: true}\n"
    )
    code, _, err = shop.say("run", "raw")
    assert code == 1
    assert (
        "[LAYOUT_INVALID] flow raw: the table's layout cannot be used: zorder: there is no column 'kafka_ofset' within "
        "the partitions; nothing was run\n"
    ) in err
    shop.edit("kafka_ofset", "kafka_partition")
    code, _, err = shop.say("run", "raw")
    assert code == 0
    assert "raw: bronze.orders: optimize: 1 file of " in err
    info = json.loads(
        (shop.folder / "lake/bronze/orders/_delta_log/00000000000000000002.json").read_text().splitlines()[0]
    )
    assert info["commitInfo"]["operationParameters"]["zOrderBy"] == '["kafka_partition"]'
    # By hand with another column, for which the table keeps no statistics.
    code, _, err = shop.say("tables", "optimize", "raw", "--zorder", "kafka_topic")
    assert (code, err.split()[0]) == (1, "[OPTIMIZE_REFUSED]")
