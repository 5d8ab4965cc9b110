"""Why no broker answered: each cause has words and a next step of its own, found with plain sockets."""

from __future__ import annotations

import contextlib
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from rivermouth.errors import BrokerUnreachable
from rivermouth.ports.dev.local_ports import free_port
from rivermouth.ports.kafka.kafka_cluster import Kafka
from rivermouth.ports.kafka.kafka_reach import Reach, look, look_at, why

BOUND_S = 1.0


@contextlib.contextmanager
def nothing():
    yield free_port()


@contextlib.contextmanager
def web_server():
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        server.RequestHandlerClass.log_message = lambda *_: None
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@contextlib.contextmanager
def silent():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


CASES = {
    "nothing": (nothing, "nothing listens there", "rivermouth dev kafka --port {port}"),
    "web server": (
        web_server,
        "what listens there is no Kafka broker",
        "correct kafka: {{bootstrap_servers: ...}}: another port",
    ),
    "silent": (silent, "it accepts connections and does not answer", "see the log of the broker"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_cause_and_the_next_step_are_told(case):
    place, reason, hint = CASES[case]
    with place() as port, Kafka(f"127.0.0.1:{port}", timeout_s=BOUND_S) as kafka:
        with pytest.raises(BrokerUnreachable) as error:
            kafka.cluster_id()
        assert str(error.value) == (
            f"[BROKER_UNREACHABLE] no Kafka broker answered at 127.0.0.1:{port} within 1 s: {reason}; "
            "nothing was read\n"
            f"  hint: {hint.format(port=port)}"
        )


def test_a_name_that_nobody_knows():
    with Kafka("broker.invalid:9092", timeout_s=BOUND_S) as kafka, pytest.raises(BrokerUnreachable) as error:
        kafka.cluster_id()
    assert str(error.value) == (
        "[BROKER_UNREACHABLE] no Kafka broker answered at broker.invalid:9092 within 1 s: the host name "
        "broker.invalid is not known to DNS; nothing was read\n"
        "  hint: correct kafka: {bootstrap_servers: ...}; what DNS says of the name: getent hosts broker.invalid"
    )


def test_of_several_addresses_each_is_told():
    with nothing() as port:
        found = look(f"broker.invalid:9092, 127.0.0.1:{port}", timeout_s=BOUND_S)
    assert [each.kind for each in found] == ["unknown_name", "nothing_listens"]
    reason, hint = why(found)
    assert reason == (
        "broker.invalid:9092: the host name broker.invalid is not known to DNS, "
        f"127.0.0.1:{port}: nothing listens there"
    )
    assert hint.endswith("getent hosts broker.invalid")


@pytest.mark.parametrize(
    ("server", "hint"),
    [
        ("localhost:9092", "rivermouth dev kafka"),
        ("127.0.0.1:9093", "rivermouth dev kafka --port 9093"),
        ("PLAINTEXT://[::1]:9093", "rivermouth dev kafka --port 9093"),
        (
            "10.1.2.3:9092",
            "start the broker at 10.1.2.3, or correct the port in kafka: {bootstrap_servers: ...}",
        ),
    ],
)
def test_a_broker_of_our_own_is_offered_on_this_machine_alone(server, hint, monkeypatch):
    def refused(*_arguments, **_settings):
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "create_connection", refused)
    assert look_at(server, timeout_s=BOUND_S) == Reach(server, "nothing_listens", "nothing listens there", hint)


@pytest.mark.parametrize(
    ("server", "detail", "hint"),
    [
        (
            "http://127.0.0.1:9092",
            "a broker is written as host:port, without http://",
            "bootstrap_servers: 127.0.0.1:9092",
        ),
        ("127.0.0.1:9092/x", "each broker is written as host:port", "bootstrap_servers: localhost:9092"),
        ("127.0.0.1", "each broker is written as host:port", "bootstrap_servers: localhost:9092"),
    ],
)
def test_what_is_no_address_is_told_before_anything_is_asked(server, detail, hint, monkeypatch):
    monkeypatch.setattr(socket, "create_connection", None)
    assert look_at(server, timeout_s=BOUND_S) == Reach(server, "no_address", detail, hint)


def test_a_machine_that_does_not_answer(monkeypatch):
    def late(*_arguments, **_settings):
        raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", late)
    assert look_at("10.1.2.3:9092", timeout_s=BOUND_S) == Reach(
        "10.1.2.3:9092",
        "no_connection",
        "no connection could be opened (a firewall, a VPN, or a wrong address)",
        "correct kafka: {bootstrap_servers: ...}; to try the connection: nc -vz -w 5 10.1.2.3 9092",
    )


def test_a_broker_answers(broker):
    assert look_at(broker.bootstrap_servers, timeout_s=3).kind == "answers"
