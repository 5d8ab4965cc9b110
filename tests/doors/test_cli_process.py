"""The command line as processes: their terminals, their signals, their JVMs, and what is left of them."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from rivermouth.cli.main import invoke
from rivermouth.ports.dev.local_ports import free_port

RIVERMOUTH = (sys.executable, "-m", "rivermouth")
PROJECT = """\
lake: ./lake
kafka: {{bootstrap_servers: "{servers}"}}
spark: {{master: "local[1]", driver_memory: 1g}}
flows:
  orders: {{topics: [{topic}], format: raw, table: bronze.orders, trigger: {{every: 500 ms}}}}
"""
BOUND_S = 120


class Command:
    """A running command; ended with everything that it started when the test is over."""

    def __init__(self, arguments, folder) -> None:
        environ = {**os.environ, "TMPDIR": str(folder / "tmp")}
        (folder / "tmp").mkdir(exist_ok=True)
        self.folder = folder
        self.out, self.err = folder / "out.txt", folder / "err.txt"
        with self.out.open("w") as out, self.err.open("w") as err:
            self.process = subprocess.Popen(
                [*RIVERMOUTH, *arguments], cwd=folder, env=environ, stdout=out, stderr=err, start_new_session=True
            )

    def wait_for(self, text, where="out"):
        deadline = time.monotonic() + BOUND_S
        while text not in getattr(self, where).read_text():
            assert self.process.poll() is None, self.err.read_text()
            assert time.monotonic() < deadline, self.err.read_text()
            time.sleep(0.05)

    def end(self):
        code = self.process.wait(BOUND_S)
        return code, self.out.read_text(), self.err.read_text()

    @property
    def jvms(self):
        """Process ids of the JVMs that the command started and that live."""
        return self.children("java")

    def children(self, program):
        """Process ids of what the command started of this name, and that lives."""
        found = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                name, _, rest = stat.read_text().partition("(")[2].rpartition(")")
            except (FileNotFoundError, ProcessLookupError):
                continue
            state, parent = rest.split()[:2]
            if name == program and int(parent) == self.process.pid and state != "Z":
                found.append(int(stat.parent.name))
        return found

    @property
    def left_behind(self):
        """Files of ours in the folder for temporary files."""
        return sorted(path.name for path in (self.folder / "tmp").glob("rivermouth-*"))


def gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.fixture
def command(tmp_path):
    started = []

    def start(*arguments):
        started.append(Command(arguments, tmp_path))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
            each.process.wait()


@pytest.fixture
def project(tmp_path, broker, topic):
    name = topic()
    (tmp_path / "rivermouth.yml").write_text(PROJECT.format(servers=broker.bootstrap_servers, topic=name))
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(100):
        producer.produce(name, f"{number}")
    assert producer.flush(10) == 0
    return name


@pytest.mark.long
def test_a_run_leaves_a_clean_terminal_and_no_jvm(project, command):
    run = command("run")
    run.wait_for("starting Spark …", "err")
    while not (jvms := run.jvms):
        time.sleep(0.05)
    code, out, err = run.end()
    assert code == 0, err
    assert [line.split()[:3] for line in out.splitlines()] == [
        ["flow", "consumed", "written"],
        ["orders", "100", "100"],
    ]
    told = [re.sub(r"[\d.,]+ rows/s|in [\d.]+ s", "~", line) for line in err.splitlines()]
    assert told == [
        "starting Spark …",
        f"orders: new table {run.folder}/lake/bronze/orders, starts at starting_offsets: earliest",
        "orders: batch 1: 100 consumed, 100 written, ~",
        "orders: done, 1 batch ~",
    ]
    assert all(gone(pid) for pid in jvms)
    assert run.left_behind == []
    kept = {"lake", "out.txt", "err.txt", "rivermouth.yml", "tmp"}
    assert {path.name for path in run.folder.iterdir()} == kept


@pytest.mark.parametrize(
    ("arguments", "number", "code", "told"),
    [
        pytest.param(
            *(("run",), signal.SIGINT, 0, "stopped before the first batch; nothing was read\n"), marks=pytest.mark.long
        ),
        (("run", "--follow"), signal.SIGTERM, 0, "stopped before the first batch; nothing was read\n"),
        pytest.param(("demo",), signal.SIGINT, 130, "stopped\n", marks=pytest.mark.long),
        pytest.param(("plan",), signal.SIGINT, 130, "stopped\n", marks=pytest.mark.long),
        pytest.param(("audit",), signal.SIGTERM, 143, "not audited: orders\nstopped\n", marks=pytest.mark.long),
    ],
)
def test_a_signal_while_spark_starts_ends_at_once_with_no_result(arguments, number, code, told, project, command):
    run = command(*arguments)
    run.wait_for("starting Spark …", "err")
    while not (jvms := run.jvms):
        time.sleep(0.05)
    began_at = time.monotonic()
    os.killpg(run.process.pid, number)
    assert run.end()[:2] == (code, "")
    assert time.monotonic() - began_at < 30
    # click ends the terminal's ^C with a blank line.
    assert run.end()[2].replace("\n\n", "\n").endswith(f"starting Spark …\n{told}")
    while not all(gone(pid) for pid in jvms):
        assert time.monotonic() - began_at < 60
        time.sleep(0.1)
    assert run.left_behind == []
    assert not (run.folder / "lake").exists()


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_run_that_follows_and_its_jvm_has_no_secret_as_argument(
    number, project, command, tmp_path, monkeypatch
):
    monkeypatch.setenv("LAKE_SECRET", "hunter2")
    file = tmp_path / "rivermouth.yml"
    conf = 'conf: {spark.hadoop.fs.s3a.secret.key: "${LAKE_SECRET}", spark.ui.port: 4444}, driver_memory'
    file.write_text(file.read_text().replace("driver_memory", conf))
    run = command("run", "--follow", "--output", "json")
    run.wait_for('"event": "batch_done"')
    (jvm,) = jvms = run.jvms
    arguments = Path(f"/proc/{jvm}/cmdline").read_text()
    assert "spark.ui.port=4444" in arguments
    assert "hunter2" not in arguments
    # To all of them at once, as a terminal and a service manager do.
    os.killpg(run.process.pid, number)
    code, out, err = run.end()
    assert (code, err) == (0, "")
    assert "hunter2" not in out
    *_, end = [json.loads(line) for line in out.splitlines()]
    assert (end["event"], end["stopped"], end["flows"][0]["error"]) == ("run_finished", True, None)
    assert end["flows"][0]["counts"]["written"] == 100
    assert all(gone(pid) for pid in jvms)
    assert run.left_behind == []


@pytest.mark.long
def test_a_second_signal_ends_it_at_once(project, command):
    run = command("run", "--follow")
    run.wait_for("batch 1", "err")
    jvms = run.jvms
    run.process.send_signal(signal.SIGINT)
    run.wait_for("press Ctrl-C again to stop at once", "err")
    run.process.send_signal(signal.SIGTERM)
    code, _out, err = run.end()
    assert code == 0
    assert "stopping after the current batch; press Ctrl-C again to stop at once\n" in err
    assert "Traceback" not in err
    assert "py4j" not in err
    assert all(gone(pid) for pid in jvms)


@pytest.mark.long
def test_a_service_manager_that_ends_spark_too_is_no_failure(project, command):
    run = command("run", "--follow")
    run.wait_for("batch 1", "err")
    (jvm,) = run.jvms
    run.process.send_signal(signal.SIGTERM)
    os.kill(jvm, signal.SIGTERM)
    code, _out, err = run.end()
    assert code == 0, err
    assert not re.search("Traceback|py4j|failed", err)
    assert gone(jvm)


PIPELINES = """\
lake: ./lake
spark: {master: "local[1]", driver_memory: 1g}
pipelines: {first: {files: [first.py]}, second: {files: [second.sql]}}
"""
SLOW = """
import time
from pyspark import pipelines as dp
from pyspark.sql.functions import udf

@udf("bigint")
def slow(id):
    time.sleep(600)
    return id

@dp.materialized_view
def view():
    return spark.range(1).select(slow("id").alias("id"))
"""


@pytest.mark.long
def test_a_second_signal_ends_a_pipeline_at_once_and_no_other_begins(command, tmp_path):
    (tmp_path / "rivermouth.yml").write_text(PIPELINES)
    (tmp_path / "first.py").write_text(SLOW)
    (tmp_path / "second.sql").write_text("CREATE MATERIALIZED VIEW second AS SELECT 1 AS id;\n")
    run = command("run")
    run.wait_for("view: refresh full", "err")
    jvms = run.jvms
    run.process.send_signal(signal.SIGINT)
    run.wait_for("press Ctrl-C again to stop at once", "err")
    run.process.send_signal(signal.SIGTERM)
    code, out, err = run.end()
    assert code == 0, err
    assert [line.split()[:2] for line in out.splitlines()] == [["dataset", "result"], ["view", "skipped"]]
    assert "view: not refreshed: the update was stopped\n" in err
    assert not re.search("Traceback|py4j|failed", err)
    assert all(gone(pid) for pid in jvms)


@pytest.mark.long
def test_a_pipeline_that_follows_ends_with_its_jvm_so_that_it_is_started_again(command, tmp_path):
    (tmp_path / "rivermouth.yml").write_text(PIPELINES)
    (tmp_path / "first.py").write_text(SLOW)
    (tmp_path / "second.sql").write_text("-- nothing\n")
    run = command("run", "first", "--follow")
    run.wait_for("view: refresh full", "err")
    (jvm,) = run.jvms
    os.kill(jvm, signal.SIGKILL)
    code, out, err = run.end()
    assert code == 1, err
    assert [line.split()[:2] for line in out.splitlines()] == [["dataset", "result"], ["view", "failed"]]
    assert "[PIPELINE_FAILED] 1 of 1 datasets failed: view\n" in err
    assert not re.search("Traceback|tried again", err)


NO_MASTER = (
    'Exception in thread "main" org.apache.spark.SparkException: '
    "Master must either be yarn or start with spark, k8s, or local"
)
NO_HEARTBEAT = (
    "org.apache.spark.SparkIllegalArgumentException: [INVALID_SPARK_CONFIG.INVALID_EXECUTOR_HEARTBEAT_INTERVAL] "
    "Invalid Spark config: The value of spark.network.timeout=1000ms must be greater than the value of "
    "spark.executor.heartbeatInterval=2000ms. SQLSTATE: 42616"
)


@pytest.mark.long
@pytest.mark.parametrize(
    ("master", "said"),
    [
        ('"nonsense"', NO_MASTER),
        ('"local[1]", conf: {"spark.network.timeout": "1s"}', NO_HEARTBEAT),
        (
            '"local[1]", conf: {"spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:+UseParallelGC"}',
            "Multiple garbage collectors selected",
        ),
    ],
    ids=["by its launcher", "by the context", "by Java"],
)
def test_spark_that_does_not_start_is_one_clear_error(master, said, project, command, tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dsaid.by.java=first")
    file = tmp_path / "rivermouth.yml"
    file.write_text(file.read_text().replace('"local[1]"', master))
    run = command("run")
    code, out, err = run.end()
    assert (code, out) == (1, "")
    found = re.fullmatch(
        r"starting Spark …\n"
        rf"\[SPARK_NOT_STARTED\] Spark did not start: {re.escape(said)}; nothing was read\n"
        r"  hint: less (\S+/rivermouth-spark-\S+\.log)\n",
        err,
    )
    assert found, err
    assert said.partition(": ")[2] in Path(found[1]).read_text()
    assert run.jvms == []


@pytest.mark.long
def test_a_wrong_setting_of_its_sql_is_told_as_it_starts(project, command, tmp_path):
    file = tmp_path / "rivermouth.yml"
    conf = '"local[1]", conf: {"spark.sql.maxMetadataStringLength": "1"}'
    file.write_text(file.read_text().replace('"local[1]"', conf))
    run = command("run")
    assert run.end() == (
        1,
        "",
        (
            "starting Spark …\n"
            "[SPARK_NOT_STARTED] Spark did not start: org.apache.spark.SparkIllegalArgumentException: "
            "[INVALID_CONF_VALUE.REQUIREMENT] The value '1' in the config \"spark.sql.maxMetadataStringLength\" is "
            "invalid. This value must be bigger than 3. SQLSTATE: 22022; nothing was read\n"
            "  hint: correct what it names under spark: conf\n"
        ),
    )
    assert run.jvms == []


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_broker_of_ones_own_until_a_signal(number, command, tmp_path):
    port = free_port()
    broker = command("dev", "kafka", "--port", str(port), "--data-dir", "records")
    broker.wait_for(f"Kafka answers at 127.0.0.1:{port}; Ctrl-C ends it\n")
    jvms = broker.jvms
    lines = tmp_path / "lines.jsonl"
    lines.write_text('{"id": "a"}\n\n{"id": null}\nno json\n')
    sent = subprocess.run(
        [
            *RIVERMOUTH,
            "dev",
            "produce",
            "things",
            "lines.jsonl",
            "--key",
            "id",
            "--partitions",
            "2",
            "--bootstrap-servers",
            f"127.0.0.1:{port}",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (sent.returncode, sent.stderr) == (0, "")
    assert re.fullmatch(
        r"3 records sent to things in [\d.]+ s\n"
        r"made topic things with 2 partitions\n"
        r"2 records had no field 'id': sent without a key\n",
        sent.stdout,
    )
    assert read(f"127.0.0.1:{port}", "things", 3) == {
        (b"a", b'{"id": "a"}'),
        (None, b'{"id": null}'),
        (None, b"no json"),
    }
    broker.process.send_signal(number)
    code, _out, err = broker.end()
    assert (code, err) == (0, "starting the broker …\nthe broker has ended\n")
    assert jvms
    assert all(gone(pid) for pid in jvms)


@pytest.mark.long
def test_what_a_secured_broker_prints_is_a_project_that_comes_in(command, tmp_path):
    port = 9592  # the three behind it are free too
    broker = command("dev", "kafka", "--port", str(port), "--secure")
    broker.wait_for("client.pem")
    flows = "flows: {things: {topics: things, format: raw, table: bronze.things}}\n"
    printed = broker.out.read_text().split("# with ")[1:]
    assert len(printed) == 5
    servers = [re.search("bootstrap_servers: 127.0.0.1:([0-9]+)", text)[1] for text in printed]
    assert servers == [str(port + behind) for behind in (1, 1, 2, 2, 3)]
    for text in printed:
        (tmp_path / "rivermouth.yml").write_text("lake: ./lake\n" + text.partition("\n")[2] + flows)
        code, out, _err = command("doctor").end()
        assert code == 1
        assert "TOPIC_MISSING" in out, out
    broker.process.send_signal(signal.SIGTERM)
    assert broker.end()[0] == 0


def test_an_s3_server_of_ones_own_until_a_signal(command):
    port = free_port()
    server = command("dev", "s3", "--port", str(port), "--bucket", "one", "--bucket", "two")
    server.wait_for("secret.key")
    server.process.send_signal(signal.SIGTERM)
    code, out, err = server.end()
    assert (code, err) == (0, "starting the S3 server …\nthe S3 server has ended\n")
    assert out == (
        f"S3 answers at http://127.0.0.1:{port}; Ctrl-C ends it\n"
        "lake: s3a://one\n"
        "spark:\n"
        "  conf:\n"
        f"    spark.hadoop.fs.s3a.endpoint: http://127.0.0.1:{port}\n"
        "    spark.hadoop.fs.s3a.endpoint.region: us-east-1\n"
        "    spark.hadoop.fs.s3a.path.style.access: true\n"
        "    spark.hadoop.fs.s3a.access.key: rivermouth\n"
        "    spark.hadoop.fs.s3a.secret.key: rivermouth\n"
    )


def test_a_bucket_that_cannot_be_one(capsys):
    assert invoke(["dev", "s3", "--bucket", "No"]) == 1
    assert capsys.readouterr() == (
        "",
        (
            "[ARGUMENT_INVALID] --bucket: 'No' is no name of a bucket: 3 to 63 of a-z, 0-9, dot and hyphen; "
            "nothing was run\n"
            "  hint: rivermouth dev s3 --bucket lake\n"
        ),
    )


def test_the_jars_for_a_spark_of_ones_own(capsys):
    assert invoke(["jars", "paths"]) == 0
    found = [Path(path) for path in capsys.readouterr().out.strip().split(",")]
    assert invoke(["jars", "paths", "--s3"]) == 0
    with_s3 = [Path(path) for path in capsys.readouterr().out.strip().split(",")]
    assert all(path.is_file() for path in with_s3)
    assert with_s3[: len(found)] == found
    assert "hadoop-aws-3.5.0.jar" in {path.name for path in with_s3} - {path.name for path in found}


def read(servers, topic, count):
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "test", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found, deadline = set(), time.monotonic() + BOUND_S
    while len(found) < count and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.add((message.key(), message.value()))
    consumer.close()
    return found


def test_a_port_that_is_taken(capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert invoke(["dev", "kafka", "--port", str(port)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(
        r"starting the broker …\n"
        rf"\[DEV_PORT_TAKEN\] port {port} of 127\.0\.0\.1 is in use by another process; "
        r"the Kafka broker was not started\n"
        r"  hint: rivermouth dev kafka --port \d+\n",
        err,
    )


@pytest.mark.long
def test_a_server_that_dies_by_itself_is_told(command):
    port = free_port()
    server = command("dev", "s3", "--port", str(port), "--output", "json")
    server.wait_for("endpoint")
    (pid,) = server.children("weed")
    os.kill(pid, signal.SIGKILL)
    code, out, err = server.end()
    assert (code, json.loads(out)["endpoint"]) == (1, f"http://127.0.0.1:{port}")
    told = json.loads(err)
    assert told["code"] == "DEV_SERVER_FAILED"
    assert re.fullmatch(
        r"the S3 server ended by itself with exit code -9; its log /\S+/s3\.log ends with:\n.+",
        told["message"],
        re.DOTALL,
    )
    assert told["hint"] == "rivermouth dev s3 --data-dir FOLDER, where its log is kept"


@pytest.mark.long
def test_a_broker_that_dies_by_itself_is_told(command):
    port = free_port()
    broker = command("dev", "kafka", "--port", str(port), "--output", "json")
    broker.wait_for("bootstrap_servers")
    (jvm,) = broker.jvms
    os.kill(jvm, signal.SIGKILL)
    code, out, err = broker.end()
    assert (code, json.loads(out)) == (1, {"bootstrap_servers": f"127.0.0.1:{port}", "data_dir": None})
    told = json.loads(err)
    assert told["code"] == "DEV_SERVER_FAILED"
    assert re.fullmatch(
        r"the Kafka broker ended by itself with exit code -9; its log /\S+/kafka\.log ends with:\n.+",
        told["message"],
        re.DOTALL,
    )
    # That log lay in a folder that is gone by now.
    assert told["hint"] == "rivermouth dev kafka --data-dir FOLDER, where its log is kept"


def test_records_go_to_the_brokers_of_the_project(project, broker, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "more.jsonl").write_text("more\n")
    assert invoke(["dev", "produce", project, "more.jsonl", "--output", "json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    told = json.loads(out)
    assert (told["topic"], told["created"], told["delivered"], told["without_key"]) == (project, False, 1, 0)


def test_lines_are_sent_to_a_topic_that_is_made_with_a_field_as_key(broker, capsys, tmp_path):
    name, lines = f"made-{tmp_path.name}-{os.getpid()}", tmp_path / "lines.jsonl"
    lines.write_text('{"id": "a"}\n\n{"id": null}\nno json\n')
    to = ("--key", "id", "--partitions", "2", "--bootstrap-servers", broker.bootstrap_servers)
    assert invoke(["dev", "produce", name, str(lines), *to]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert re.fullmatch(
        rf"3 records sent to {name} in [\d.]+ s\n"
        rf"made topic {name} with 2 partitions\n"
        r"2 records had no field 'id': sent without a key\n",
        out,
    )
    assert read(broker.bootstrap_servers, name, 3) == {
        (b"a", b'{"id": "a"}'),
        (None, b'{"id": null}'),
        (None, b"no json"),
    }


def test_records_for_a_topic_that_cannot_be(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "more.jsonl").write_text("more\n")
    assert invoke(["dev", "produce", "a/b", "more.jsonl"]) == 1
    assert capsys.readouterr() == (
        "",
        (
            "[TOPIC_NAME_INVALID] topic: 'a/b' is no name of a Kafka topic: only letters, digits, '.', '_' and '-' are "
            "allowed; nothing was run\n"
            "  hint: name a topic, for example: orders\n"
        ),
    )
