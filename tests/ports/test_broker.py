"""The development broker, started for real."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from rivermouth.errors import DevFolderTaken, DevPortTaken, DevServerFailed
from rivermouth.ports.dev.broker import Broker, ReadyCheck
from rivermouth.ports.spark import jars

PARENT = """
import signal, sys, time
from pathlib import Path
from rivermouth.ports.dev.{module} import {server}
signal.signal(signal.SIGINT, signal.SIG_IGN)
running = {server}.start(data_dir=Path(sys.argv[1]) if sys.argv[1:] else None)
print(running.pid, running.data_dir, flush=True)
time.sleep(600 if sys.argv[1:] else 0)
"""
BROKER = {"module": "broker", "server": "Broker"}


def send(servers, topic, values):
    producer = Producer({"bootstrap.servers": servers})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(30) == 0


def receive(servers, topic, count):
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "unused", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        return [message.value() for message in consumer.consume(count, timeout=30)]
    finally:
        consumer.close()


def create(servers, topic):
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def gone(pid, timeout_s=20):
    end = time.monotonic() + timeout_s
    while alive(pid) and time.monotonic() < end:
        time.sleep(0.05)
    return not alive(pid)


@pytest.fixture
def no_jvm(monkeypatch):
    def refuse(*_, **__):
        pytest.fail("a JVM was about to be started")

    monkeypatch.setattr(subprocess, "Popen", refuse)


def test_what_is_sent_comes_back(broker, topic):
    name = topic()
    send(broker.bootstrap_servers, name, [b"a", b"b"])
    assert receive(broker.bootstrap_servers, name, 2) == [b"a", b"b"]


def test_topics_have_the_partitions_and_the_configuration_asked_for(broker, topic):
    name = topic(partitions=3, **{"cleanup.policy": "compact"})
    listed = AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics(name, timeout=30)
    assert len(listed.topics[name].partitions) == 3


def test_records_with_old_timestamps_are_kept(broker, topic):
    name = topic()
    resource = ConfigResource(ConfigResource.Type.TOPIC, name)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    assert admin.describe_configs([resource])[resource].result(30)["retention.ms"].value == "-1"


def test_it_listens_on_this_machine_only(broker):
    assert broker.bootstrap_servers == f"127.0.0.1:{broker.port}"
    with socket.socket() as other:
        assert other.connect_ex(("127.0.0.2", broker.port)) != 0


def test_its_jvm_has_the_options_of_kafkas_own_variable(broker):
    arguments = Path(f"/proc/{broker.pid}/cmdline").read_text().split("\0")
    assert os.environ["KAFKA_OPTS"] != ""
    assert set(os.environ["KAFKA_OPTS"].split()) < set(arguments)


def test_a_taken_port_is_refused_before_a_jvm_starts(no_jvm, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(DevPortTaken) as caught:
            Broker.start(port, tmp_path / "data")
    assert str(caught.value) == (
        f"[DEV_PORT_TAKEN] port {port} of 127.0.0.1 is in use by another process; the Kafka broker was not started\n"
        f"  hint: rivermouth dev kafka --port {caught.value.free_port}"
    )
    assert not (tmp_path / "data").exists()


@pytest.mark.long
def test_a_folder_keeps_its_records_whatever_the_port(tmp_path):
    folder = tmp_path / "some data"
    # After a kill, the controller waits for the end of the broker's session before it takes it back.
    soon = {"broker.session.timeout.ms": "1500", "broker.heartbeat.interval.ms": "300"}
    with Broker.start(data_dir=folder, properties=soon) as first:
        create(first.bootstrap_servers, "kept")
        send(first.bootstrap_servers, "kept", [b"1", b"2"])
    with Broker.start(data_dir=folder, properties=soon) as second:
        assert second.port != first.port
        assert receive(second.bootstrap_servers, "kept", 2) == [b"1", b"2"]
        second.kill()
        second.stop()
    port = second.port
    with Broker.start(port, folder, properties=soon) as third:
        assert third.bootstrap_servers == second.bootstrap_servers
        send(third.bootstrap_servers, "kept", [b"3"])
        assert receive(third.bootstrap_servers, "kept", 3) == [b"1", b"2", b"3"]
    assert folder.is_dir()


@pytest.mark.long
def test_stop_leaves_nothing_behind():
    broker = Broker.start()
    assert broker.running
    broker.pause()
    broker.stop(timeout_s=20)
    assert not broker.running
    assert not alive(broker.pid)
    assert not broker.data_dir.exists()
    broker.stop()


def test_a_start_that_fails_shows_the_end_of_the_log(tmp_path):
    with pytest.raises(DevServerFailed) as caught:
        Broker.start(data_dir=tmp_path / "data", properties={"log.retention.ms": "never"})
    log = tmp_path / "data" / "kafka.log"
    telling = [line for line in log.read_text().splitlines(keepends=True) if not line.startswith("\tat ")]
    tail = "".join(telling[-20:]).rstrip()
    assert "log.retention.ms" in tail
    assert str(caught.value) == (
        f"[DEV_SERVER_FAILED] the Kafka broker could not format its folder; its log {log} ends with:\n{tail}\n"
        f"  hint: less {log}"
    )


@pytest.mark.long
def test_two_brokers_cannot_share_a_folder(tmp_path):
    folder = tmp_path / "data"
    with Broker.start(data_dir=folder) as first:
        with pytest.raises(DevFolderTaken) as caught:
            Broker.start(data_dir=folder)
        assert str(caught.value) == (
            f"[DEV_FOLDER_TAKEN] {folder} is in use by another Kafka broker; nothing was started\n"
            "  hint: rivermouth dev kafka --data-dir ANOTHER_FOLDER"
        )
        assert first.running
    with Broker.start(data_dir=folder) as next_one:
        assert next_one.running


@pytest.mark.long
@pytest.mark.parametrize(
    "server",
    [{"module": "s3_server", "server": "S3Server"}, BROKER],
    ids=lambda server: server["server"],
)
def test_a_server_hears_no_ctrl_c_and_ends_with_its_python(server, tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", PARENT.format(**server), tmp_path / "data"],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as parent:
        pid = int(parent.stdout.readline().split()[0])
        os.killpg(parent.pid, signal.SIGINT)  # as a terminal does
        time.sleep(0.5)
        assert alive(pid)
        parent.kill()
    assert gone(pid)


@pytest.mark.long
def test_a_script_that_forgets_to_stop_it_leaves_nothing_behind():
    told = subprocess.run(
        [sys.executable, "-c", PARENT.format(**BROKER)], capture_output=True, text=True, check=True
    ).stdout
    pid, folder = told.split()
    assert not alive(int(pid))
    assert not Path(folder).exists()


@pytest.mark.long
def test_a_jvm_that_does_not_answer_in_time_is_ended(tmp_path, monkeypatch):
    folder = tmp_path / "data"
    with pytest.raises(DevServerFailed) as caught:
        Broker.start(data_dir=folder, ready=ReadyCheck(timeout_s=0.01))
    assert caught.value.message.startswith("the Kafka broker did not answer within 0.01 s; its log ")
    assert caught.value.next_step == f"less {folder / 'kafka.log'}"
    with Broker.start(data_dir=folder) as again:
        assert again.running


def test_the_brokers_jars_bring_a_logging_backend():
    names = " ".join(path.name for path in jars.classpath("broker"))
    assert "log4j-slf4j2-impl" in names
