"""Kinesis: a batch is a range of each shard that can be read again, whatever Kinesis does meanwhile. Without Spark."""

import hashlib
import importlib.util
import json
import time
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.kinesis.server import KEYS, gate, kinesis

from rivermouth.domain.kinesis.options import read_options
from rivermouth.domain.kinesis.positions import ShardPosition, StreamPosition, readable, with_children
from rivermouth.errors import RivermouthError
from rivermouth.ports.kinesis.data_source import KinesisSource, KinesisStreamReader
from rivermouth.ports.kinesis.failures import failure
from rivermouth.ports.kinesis.kinesis_client import KinesisClient
from rivermouth.ports.kinesis.shards import describe, retention_text, text_of

KEY, SECRET = KEYS


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with kinesis(tmp_path_factory.mktemp("kinesis")) as running:
        yield running


@pytest.fixture(scope="module")
def behind(server):
    with gate(server) as found:
        yield found


@pytest.fixture
def stream(server, request):
    """A stream of one shard."""
    name = request.node.name.replace("[", "-").replace("]", "")[:100]
    server.create(name)
    return name


@pytest.fixture
def before(behind, server, stream):
    """The stream behind a gate, and how it is read: ``(stream, gate, options)``."""
    behind.reset()
    yield stream, behind, {**server.options(stream), "endpoint": behind.url, "retryTimeout": "1s"}
    behind.reset()


def reader(options):
    """As Spark makes it of a query's options."""
    return KinesisSource({key: str(value) for key, value in options.items()}).streamReader(None)


def planned(options, start=None):
    """The ranges of one batch after another until there is nothing new, as ``(start, end)``."""
    found = reader(options)
    found.prepareForTriggerAvailableNow()
    start, batches = start or found.initialOffset(), []
    while (end := json.loads(json.dumps(found.latestOffset(start, None)))) != start:
        batches.append((start, end))
        start = end
    return batches


def read(options, batch):
    """The values that a batch brings, by its shards, each read by a reader of its own, as Spark does."""
    found = {}
    for part in reader(options).partitions(*batch):
        rows = [row for rows in reader(options).read(part) for row in rows.to_pylist()]
        assert {(row["stream"], row["shardId"]) for row in rows} <= {(part.value.stream, part.value.shard)}
        found[part.value.shard[-1]] = [row["data"].decode() for row in rows]
    return found


def values(options, batches):
    return [value for batch in batches for rows in read(options, batch).values() for value in rows]


def refused(function, *args):
    """The whole text of a typed error, also of one that Spark would hand on as text."""
    try:
        function(*args)
    except RivermouthError as error:
        return str(error)
    except RuntimeError as error:
        return str(failure(f"Traceback ...\nRuntimeError: {error}\n\tat org.apache.spark"))
    raise AssertionError("it is not refused")


def test_columns_are_those_of_databricks(server, stream):
    server.put(stream, "a")
    (batch,) = planned(server.options(stream))
    (part,) = reader(server.options(stream)).partitions(*batch)
    (rows,) = list(reader(server.options(stream)).read(part))
    (row,) = rows.to_pylist()
    raw = server.client.get_records(
        ShardIterator=server.client.get_shard_iterator(
            StreamName=stream, ShardId="shardId-000000000000", ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
    )["Records"][0]
    assert row == {
        "partitionKey": "a",
        "data": b"a",
        "stream": stream,
        "shardId": "shardId-000000000000",
        "sequenceNumber": raw["SequenceNumber"],
        "approximateArrivalTimestamp": raw["ApproximateArrivalTimestamp"],
    }


def test_a_parent_is_read_to_its_end_before_its_children(server, stream):
    options = server.options(stream)
    server.put(stream, "1")
    server.split(stream, 0)
    server.put(stream, "low", shard=0)
    batches = planned(options)
    assert [read(options, batch) for batch in batches] == [{"0": ["1"]}, {"1": ["low"]}]


@pytest.mark.long
def test_parents_are_read_to_their_end_before_their_children(server, stream):
    options = server.options(stream)
    server.put(stream, "1", "2", shard=0)
    (first,) = planned(options)
    server.put(stream, "3", shard=0)
    server.split(stream, 0)
    server.put(stream, "low", shard=0)
    server.put(stream, "high", shard=1)
    server.merge(stream, 0)
    server.put(stream, "merged", shard=0)
    batches = planned(options, first[1])
    assert [read(options, batch) for batch in [first, *batches]] == [
        {"0": ["1", "2"]},
        {"0": ["3"]},
        {"1": ["low"], "2": ["high"]},
        {"3": ["merged"]},
    ]
    # What was planned gives the same again, also the first batch, whose beginning Spark asks for once more.
    assert [read(options, batch) for batch in [(reader(options).initialOffset(), first[1]), *batches]] == [
        {"0": ["1", "2"]},
        {"0": ["3"]},
        {"1": ["low"], "2": ["high"]},
        {"3": ["merged"]},
    ]
    assert planned(options, batches[-1][1]) == []


def aggregate(*records):
    """What the Kinesis Producer Library makes of records, by Google's own library's rules for the bytes."""

    def field(number, value):
        head = bytes([number << 3 | (0 if isinstance(value, int) else 2)])
        if isinstance(value, int):
            return head + bytes([value])
        return (
            head
            + (bytes([len(value)]) if len(value) < 128 else bytes([len(value) % 128 | 128, len(value) // 128]))
            + value
        )

    keys = sorted({key for key, _ in records})
    message = b"".join(field(1, key.encode()) for key in keys)
    for key, data in records:
        message += field(3, field(1, keys.index(key)) + field(2, 0) + field(3, data))
    return b"\xf3\x89\x9a\xc2" + message + hashlib.md5(message).digest()


def test_aggregated_records_are_taken_apart(server, stream):
    long = b"x" * 300
    whole = aggregate(("a", b"1"), ("b", b"2"), ("a", long), ("c", b""))
    for data in (whole, whole[:-1], whole[:4] + b"\x0a\x05a" + hashlib.md5(b"\x0a\x05a").digest(), aggregate()):
        server.client.put_record(StreamName=stream, PartitionKey="outer", Data=data)
    (batch,) = planned(server.options(stream))
    (part,) = reader(server.options(stream)).partitions(*batch)
    rows = [row for each in reader(server.options(stream)).read(part) for row in each.to_pylist()]
    assert [(row["partitionKey"], row["data"]) for row in rows[:5]] == [
        ("a", b"1"),
        ("b", b"2"),
        ("a", long),
        ("c", b""),
        ("outer", whole[:-1]),
    ]
    assert len({row["sequenceNumber"] for row in rows[:4]}) == 1
    assert [row["partitionKey"] for row in rows[5:]] == ["outer", "outer"]


@pytest.mark.long
def test_a_batch_has_at_most_so_much_time(server, stream):
    options = server.options(stream, maxBatchDuration="1s")
    for value in ("1", "2", "3", "4", "5"):
        server.put(stream, value)
        time.sleep(0.6)
    time.sleep(1)
    batches = planned(options)
    assert [read(options, batch) for batch in batches] == [{"0": ["1", "2", "3"]}, {"0": ["4", "5"]}]
    assert values(options, planned(server.options(stream, maxRecordsPerFetch=2))) == ["1", "2", "3", "4", "5"]


def test_a_query_begins_at_the_latest_or_the_earliest(server, stream):
    server.put(stream, "old")
    time.sleep(2.1)  # Kinesis tells whole seconds of its clock
    start = json.loads(json.dumps(reader(server.options(stream, initialPosition="latest")).initialOffset()))
    server.put(stream, "new")
    assert values(server.options(stream), planned(server.options(stream), start)) == ["new"]
    assert values(server.options(stream), planned(server.options(stream, initialPosition="EARLIEST"))) == ["old", "new"]


@pytest.mark.long
def test_where_a_query_begins(server, stream):
    server.put(stream, "old")
    time.sleep(2.1)  # Kinesis tells whole seconds of its clock
    latest = reader(server.options(stream, initialPosition="latest"))
    start = json.loads(json.dumps(latest.initialOffset()))
    (record,) = [
        row
        for batch in planned(server.options(stream))
        for part in reader(server.options(stream)).partitions(*batch)
        for rows in reader(server.options(stream)).read(part)
        for row in rows.to_pylist()
    ]
    server.put(stream, "new")
    assert values(server.options(stream), planned(server.options(stream), start)) == ["new"]
    assert values(server.options(stream), planned(server.options(stream, initialPosition="EARLIEST"))) == ["old", "new"]
    behind = record["approximateArrivalTimestamp"] + timedelta(seconds=1)
    at = json.dumps({"at_timestamp": behind.isoformat()})
    options = server.options(stream, initialPosition=at)
    server.split(stream, 0)
    server.put(stream, "child", shard=0)
    batches = planned(options)
    assert values(options, batches) == ["new", "child"]
    # The first batch again, for which Spark asks where the query begins.
    again = reader(server.options(stream, initialPosition="latest")).initialOffset()
    assert read(options, (again, batches[0][1])) == {"0": ["new"]}


@pytest.mark.parametrize("sent", [["1"], pytest.param(["1", "2", "3"], marks=pytest.mark.long)], ids=len)
def test_a_query_that_goes_on_hears_of_new_records_and_shards(server, stream, sent):
    options = server.options(stream)
    following = reader(options)
    start, found = following.initialOffset(), []
    for value in sent:
        server.put(stream, value)
        server.split(stream, 0)
        while (end := following.latestOffset(start, None)) != start:
            found += values(options, [(start, end)])
            start = json.loads(json.dumps(end))
        assert found[-1] == value
    assert found == sent


def test_two_streams_are_one_source(server, stream):
    other = f"{stream}-other"
    server.create(other)
    for each in (stream, other):
        server.put(each, "1")
    options = server.options(f"{stream}, {other}")
    (batch,) = planned(options)
    assert [part.value.stream for part in reader(options).partitions(*batch)] == [stream, other]


@pytest.mark.long
def test_several_streams_are_one_source(server, stream):
    other = f"{stream}-other"
    server.create(other)
    server.put(stream, "1")
    server.put(other, "2")
    options = server.options(f"{stream}, {other}")
    (batch,) = planned(options)
    parts = reader(options).partitions(*batch)
    found = [row for part in parts for rows in reader(options).read(part) for row in rows.to_pylist()]
    assert [(row["stream"], row["data"]) for row in found] == [(stream, b"1"), (other, b"2")]
    # A stream that joins later begins where the option says.
    (later,) = planned(options, planned(server.options(stream))[-1][1])
    assert values(options, [later]) == ["2"]


def test_a_throttled_call_is_tried_again_and_loses_nothing(before, server):
    stream, gate, options = before
    server.put(stream, "1", "2", "3")
    gate.refusals = {
        "ListShards": ["LimitExceededException"],
        "GetRecords": ["ProvisionedThroughputExceededException", "ExpiredIteratorException", "InternalFailure", "cut"],
        "GetShardIterator": ["ProvisionedThroughputExceededException"],
    }
    patient = options | {"retryTimeout": "20s"}
    batches = planned(patient)
    gate.refusals = {"GetRecords": ["ProvisionedThroughputExceededException", "ExpiredIteratorException"]}
    assert values(patient | {"maxRecordsPerFetch": 1}, batches) == ["1", "2", "3"]
    assert gate.refusals["GetRecords"] == []
    gate.for_ever, gate.refusals = True, {"GetRecords": ["ProvisionedThroughputExceededException"]}
    gate.calls.clear()
    text = refused(values, options, batches)
    tries = gate.calls.count("GetRecords")
    assert tries > 2
    assert text == (
        f"[KINESIS_THROTTLED] kinesis {stream}: Kinesis refused GetRecords as too frequent for 1 s, in {tries} tries; "
        "nothing was written\n"
        '  hint: rivermouth run, when fewer others read the stream, or with .option("retryTimeout", "10m")'
    )
    gate.reset()
    assert values(options, batches) == ["1", "2", "3"]


def test_a_record_that_may_be_gone_stops_the_query_or_is_left_out_by_choice(before, server):
    stream, gate, options = before
    server.put(stream, "1")
    first = planned(options)
    server.put(stream, "2", "3")
    gate.ahead_s, gate.trimmed = 2 * 86400.0, {"1", "2"}
    seen = first[0][1]["streams"][stream]["shards"]["shardId-000000000000"]["seen"]
    assert refused(planned, options, first[0][1]) == (
        f"[KINESIS_DATA_LOST] kinesis {stream}: shard shardId-000000000000 was last read at {text_of(seen)}, and its "
        "records are kept for 1 day: records that came since may be gone; nothing was written\n"
        '  hint: to go on with what is left: .option("failOnDataLoss", "false")'
    )
    choice = options | {"failOnDataLoss": "false"}
    assert values(choice, planned(choice, first[0][1])) == ["3"]


@pytest.mark.long
def test_records_that_may_be_gone_stop_the_query_or_are_left_out_by_choice(before, server):
    stream, gate, options = before
    server.put(stream, "1", "2")
    first = planned(options)
    server.put(stream, "3", "4", "5")
    batches = planned(options, first[0][1])
    choice = options | {"failOnDataLoss": "false"}
    gate.ahead_s, gate.trimmed = 2 * 86400.0, {"1"}
    # The record that was read last is there still: so nothing behind it is gone.
    assert values(options, batches) == values(options, planned(options, first[0][1])) == ["3", "4", "5"]
    gate.trimmed = {"1", "2", "3"}
    when = describe(KinesisClient(read_options(server.options(stream))), stream)
    seen = first[0][1]["streams"][stream]["shards"]["shardId-000000000000"]["seen"]
    assert when.retention_hours == 24
    told = (
        f"[KINESIS_DATA_LOST] kinesis {stream}: shard shardId-000000000000 was last read at {text_of(seen)}, and its "
        "records are kept for 1 day: records that came since may be gone; nothing was written\n"
        '  hint: to go on with what is left: .option("failOnDataLoss", "false")'
    )
    assert refused(planned, options, first[0][1]) == refused(values, options, batches) == told
    assert values(choice, planned(choice, first[0][1])) == values(choice, batches) == ["4", "5"]
    # All of a batch that was planned is gone, in a time in which it could not be.
    gate.ahead_s, gate.trimmed = 0.0, {"1", "2", "3", "4", "5"}
    assert refused(values, options, batches) == (
        f"[KINESIS_DATA_LOST] kinesis {stream}: shard shardId-000000000000 no longer has the last record of a batch "
        "that was planned; nothing was written\n"
        '  hint: to go on with what is left: .option("failOnDataLoss", "false")'
    )
    assert values(choice, batches) == []


@pytest.mark.long
def test_a_quiet_shard_is_not_taken_for_a_loss(before, server):
    stream, gate, options = before
    server.put(stream, "1")
    start = planned(options)[-1][1]
    # It is looked at each twelve hours, and gets no record for days; each look is in the position.
    for hours in range(12, 72, 12):
        gate.ahead_s, gate.trimmed = hours * 3600.0, {"1"} if hours > 24 else set()
        ((_, end),) = planned(options, start)
        assert values(options, [(start, end)]) == []
        start = end
    gate.ahead_s += 3600.0
    assert planned(options, start) == []


def test_the_quiet_shards_of_each_stream_are_looked_at_within_its_own_retention(before, server):
    stream, gate, options = before
    short = f"{stream[:90]}-short"
    server.create(short)
    server.client.increase_stream_retention_period(StreamName=stream, RetentionPeriodHours=168)
    options["streamName"] = f"{stream},{short}"
    for each in (stream, short):
        server.put(each, "1")
    start = planned(options)[-1][1]
    gate.ahead_s = 5 * 3600.0
    assert planned(options, start) == []
    gate.ahead_s = 7 * 3600.0
    ((_, end),) = planned(options, start)
    shards = [end["streams"][short]["shards"], start["streams"][short]["shards"]]
    looked, before_that = (found["shardId-000000000000"]["seen"] for found in shards)
    assert looked - before_that > 6 * 3_600_000


def test_a_shard_that_is_gone_is_typed(before, server):
    stream, _, options = before
    server.put(stream, "1")
    position = json.loads(json.dumps(planned(options)[0][1]))
    shards = position["streams"][stream]["shards"]
    shards["shardId-000000000007"] = shards.pop("shardId-000000000000")
    assert refused(planned, options, position).startswith(
        f"[KINESIS_DATA_LOST] kinesis {stream}: shard shardId-000000000007 is gone, and was last read at 20"
    )


@pytest.mark.long
def test_a_position_that_a_stream_does_not_know_is_typed(before, server):
    stream, _, options = before
    server.put(stream, "1", "2")
    batches = planned(options)
    position = json.loads(json.dumps(batches[0][1]))
    shards = position["streams"][stream]["shards"]
    shards["shardId-000000000000"]["after"] = "49680591772105800080879168046015455474946140060459728899"
    text = (
        f"[KINESIS_DATA_LOST] kinesis {stream}: shard shardId-000000000000 no longer knows the record that was read "
        "last (ResourceNotFoundException); nothing was written\n"
        '  hint: to go on with what is left: .option("failOnDataLoss", "false")'
    )
    assert refused(planned, options, position) == text
    choice = options | {"failOnDataLoss": "false"}
    assert values(choice, planned(choice, position)) == ["1", "2"]
    end = json.loads(json.dumps(batches[0][1]))
    assert refused(values, options, [(position, end)]) == text.replace("the record that was read last", "its position")
    gone = json.loads(json.dumps([position, end]).replace("shardId-000000000000", "shardId-000000000007"))
    assert refused(values, options, [gone]) == text.replace(
        "shardId-000000000000 no longer knows the record that was read last",
        "shardId-000000000007 no longer knows its position",
    )
    assert values(choice, [gone]) == []
    shards["shardId-000000000007"] = shards.pop("shardId-000000000000")
    assert refused(planned, options, position).startswith(
        f"[KINESIS_DATA_LOST] kinesis {stream}: shard shardId-000000000007 is gone, and was last read at 20"
    )
    assert values(choice, planned(choice, position)) == ["1", "2"]


def test_another_stream_of_the_same_name_is_told(before, server):
    stream, _, options = before
    server.put(stream, "1")
    position = planned(options)[-1][1]
    position["streams"][stream]["created"] = 1_700_000_000_000
    found = describe(KinesisClient(read_options(server.options(stream))), stream)
    assert refused(planned, options, position) == (
        f"[KINESIS_SOURCE_UNREADABLE] kinesis {stream} cannot be read: it was made at {text_of(found.created)}, and "
        "its position is of a stream of this name that was made at 2023-11-14 22:13:20 UTC; nothing was written\n"
        "  hint: rivermouth run --reset-checkpoint DATASET"
    )


def test_what_kinesis_refuses_is_said_without_secrets(before, server, monkeypatch):
    stream, gate, options = before
    head = f"[KINESIS_SOURCE_UNREADABLE] kinesis {stream} cannot be read: "

    def asked(**more):
        return refused(
            lambda: describe(KinesisClient(read_options({**options, **more})), more.get("streamName", stream))
        )

    assert asked(streamName="nowhere") == (
        "[KINESIS_SOURCE_UNREADABLE] kinesis nowhere cannot be read: there is no such stream; nothing was written\n"
        "  hint: aws kinesis create-stream --stream-name nowhere --shard-count 1"
    )
    gate.for_ever, operation = True, "DescribeStreamSummary"
    keys = '.option("awsAccessKey", ...).option("awsSecretKey", ...) by dbutils.secrets.get, or AWS_PROFILE'
    for code, told, fix in (
        (
            "AccessDeniedException",
            "who reads it has no permission",
            "allow DescribeStreamSummary, ListShards, GetShardIterator and GetRecords of kinesis",
        ),
        ("UnrecognizedClientException", "who reads it has keys that Amazon does not know", keys),
        ("InvalidSignatureException", "who reads it has keys that Amazon does not take", keys),
        ("ExpiredTokenException", "who reads it has a session token that has expired", keys),
    ):
        gate.refusals = {operation: [code]}
        text = asked(sessionToken="token-of-kinesis")
        assert text == f"{head}Amazon answers {code}: {told}; nothing was written\n  hint: {fix}"
    gate.refusals = {operation: ["InvalidArgumentException"]}
    assert asked() == (
        f"{head}Kinesis refuses it with InvalidArgumentException; nothing was written\n"
        "  hint: correct the options of the source"
    )
    gate.refusals = {operation: ["KMSDisabledException"]}
    assert asked() == (
        f"{head}Kinesis refuses it with KMSDisabledException; nothing was written\n"
        "  hint: correct the options of the source, or what its stream is encrypted with"
    )
    gate.refusals = {operation: ["InternalFailure"]}
    look = f"aws kinesis describe-stream-summary --stream-name {stream} --region eu-central-1 --endpoint-url "
    assert asked() == (f"{head}{gate.url} answers with InternalFailure; nothing was written\n  hint: {look}{gate.url}")
    assert asked(endpoint="http://127.0.0.1:1") == (
        f"{head}http://127.0.0.1:1 gives no answer; nothing was written\n  hint: {look}http://127.0.0.1:1"
    )
    assert asked(endpoint="kinesis") == (
        f"{head}its endpoint is no address; nothing was written\n"
        '  hint: .option("endpoint", "https://kinesis.eu-central-1.amazonaws.com")'
    )
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/nowhere")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    given = {key: value for key, value in options.items() if key not in ("awsAccessKey", "awsSecretKey")}
    missing = (
        f"{head}there are no credentials in the options, in the environment, in a profile or of this machine; "
        f"nothing was written\n  hint: {keys}"
    )
    assert refused(lambda: describe(KinesisClient(read_options(given)), stream)) == missing
    assert refused(lambda: KinesisClient(read_options({**given, "roleArn": "arn:aws:iam::1:role/reader"}))) == missing
    del given["region"]
    assert refused(lambda: KinesisClient(read_options(given))) == (
        f"{head}no region is known, by the option region or by AWS_REGION; nothing was written\n"
        '  hint: .option("region", "eu-central-1")'
    )


def test_a_role_is_assumed_and_renewed(before, server):
    stream, gate, options = before
    role = {"roleArn": "arn:aws:iam::123456789012:role/reader", "roleExternalId": "shop", "stsEndpoint": gate.url}
    gate.refusals = {"DescribeStreamSummary": ["ExpiredTokenException"]}
    found = describe(KinesisClient(read_options(options | role)), stream)
    assert (found.open_shards, gate.calls) == (
        1,
        ["AssumeRole", "DescribeStreamSummary", "AssumeRole", "DescribeStreamSummary"],
    )
    assert refused(lambda: KinesisClient(read_options(options | role | {"stsEndpoint": "http://127.0.0.1:1"}))) == (
        f"[KINESIS_SOURCE_UNREADABLE] kinesis {stream} cannot be read: the service that gives roles does not answer; "
        "nothing was written\n  hint: correct the option stsEndpoint"
    )


def test_without_boto3_it_is_said_what_to_install(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "boto3" else found(name))
    options = read_options({"streamName": "orders"})
    assert refused(lambda: KinesisClient(options)) == (
        "[KINESIS_CLIENT_MISSING] kinesis orders cannot be read: the package boto3 is not installed; nothing was read\n"
        "  hint: pip install 'rivermouth[kinesis]'"
    )
    assert refused(KinesisStreamReader(options).initialOffset) == refused(lambda: KinesisClient(options))
    assert "is not installed on a machine of Spark's workers;" in refused(
        lambda: next(KinesisStreamReader(options).read(None))
    )


EXAMPLE = '.option("initialPosition", \'{"at_timestamp": "2026-01-31T12:00:00Z"}\')'


@pytest.mark.parametrize(
    ("given", "detail", "fix"),
    [
        ({"streamName": None}, "option streamName is missing", '.option("streamName", "orders")'),
        ({"initialPositon": "latest"}, "option initialPositon is unknown", "did you mean 'initialPosition'?"),
        (
            {"shardsPerTask": "5"},
            ("option shardsPerTask is refused: rivermouth reads Kinesis in another way and does not have it"),
            "remove the option shardsPerTask",
        ),
        (
            {"registeredConsumerId": "a"},
            "option registeredConsumerId is refused: enhanced fan-out is not supported",
            "remove the option registeredConsumerId",
        ),
        (
            {"serviceCredential": "a"},
            ("option serviceCredential is refused: there are no service credentials outside of Databricks"),
            "remove the option serviceCredential",
        ),
        (
            {"consumerMode": "efo"},
            "option consumerMode is polling: enhanced fan-out is not supported",
            "remove the option consumerMode",
        ),
        (
            {"initialPosition": "begin"},
            ("option initialPosition is latest, trim_horizon, earliest, or an object with at_timestamp"),
            EXAMPLE,
        ),
        (
            {"initialPosition": '{"at_timestamp": "06/25/2020 10:23:45 PDT", "format": "MM/dd/yyyy HH:mm:ss ZZZ"}'},
            "option initialPosition is an object with at_timestamp alone, an ISO 8601 time",
            EXAMPLE,
        ),
        (
            {"initialPosition": '{"at_timestamp": "yesterday"}'},
            "option initialPosition has an at_timestamp that is no ISO 8601 time",
            EXAMPLE,
        ),
        (
            {"initialPosition": '{"at_timestamp": "2026-01-31 12:00"}'},
            "option initialPosition has an at_timestamp without a time zone",
            EXAMPLE,
        ),
        (
            {"initialPosition": '{"at_timestamp": "2999-01-31T12:00:00Z"}'},
            "option initialPosition has an at_timestamp in the future",
            EXAMPLE,
        ),
        (
            {"maxRecordsPerFetch": "10001"},
            "option maxRecordsPerFetch is a whole number from 1 to 10000",
            '.option("maxRecordsPerFetch", 10000)',
        ),
        (
            {"minFetchPeriod": "soon"},
            "option minFetchPeriod is a duration, such as 500ms, 10s or 5m",
            '.option("minFetchPeriod", "400ms")',
        ),
        ({"maxBatchDuration": "100ms"}, "option maxBatchDuration is at least 1s", '.option("maxBatchDuration", "10m")'),
        ({"failOnDataLoss": "no"}, "option failOnDataLoss is true or false", '.option("failOnDataLoss", "false")'),
        (
            {"awsAccessKey": "key-of-kinesis"},
            "option awsSecretKey is missing: both keys belong together",
            '.option("awsSecretKey", dbutils.secrets.get(...))',
        ),
        ({"roleSessionName": "a"}, "option roleSessionName needs roleArn", '.option("roleArn", "arn:aws:iam::...")'),
    ],
)
def test_options_that_cannot_be_honoured_are_refused(given, detail, fix):
    options = {key: value for key, value in {"streamName": "orders", **given}.items() if value is not None}
    source = f"kinesis {options.get('streamName', '')}".strip()
    assert refused(read_options, options) == (
        f"[KINESIS_SOURCE_INVALID] {source} cannot be read: {detail}; nothing was read\n  hint: {fix}"
    )


def test_options_have_their_values_in_any_letter_case():
    given = {"STREAMNAME": "a, b,a", "maxrecordsperfetch": "5", "minFetchPeriod": "1 s", "consumerMode": "Polling"}
    found = read_options(given | {"initialPosition": "Trim_Horizon", "maxBatchDuration": "2h"})
    assert (found.streams, found.max_records_per_fetch, found.min_fetch_period_s) == (("a", "b"), 5, 1.0)
    assert (found.begin, found.max_batch_duration_s, found.name) == ("TRIM_HORIZON", 7200.0, "kinesis a, b")


def test_times_are_said_in_days_where_they_are_whole_ones():
    assert [retention_text(hours) for hours in (1, 24, 36, 168)] == ["1 hour", "1 day", "36 hours", "7 days"]


def test_a_child_waits_for_both_of_its_parents():
    listed = {"0": (), "1": (), "2": ("0", "1"), "3": ("gone",), "4": ("2",)}
    shards = with_children(listed, {"0": ShardPosition("5", 100, ended=True), "1": ShardPosition("6", 90)})
    assert shards["2"] == shards["4"] == ShardPosition(seen=90)
    stream = StreamPosition(1, "LATEST", 1, shards)
    assert readable(listed, stream) == ["1", "3"]
    ended = replace(stream, shards={**shards, "1": ShardPosition("6", 90, ended=True)})
    assert readable(listed, ended) == ["2", "3"]
    # A shard that ended and is gone is forgotten, and no parent any more.
    assert set(with_children({"2": ("0", "1")}, ended.shards)) == {"2", "3", "4"}
