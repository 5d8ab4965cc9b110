"""Ports for development servers: nobody listens on them, and no connection takes them before the server does."""

from __future__ import annotations

import random
import socket

import pytest

from rivermouth.ports.dev import local_ports
from rivermouth.ports.dev.local_ports import HOST, free_ports, ports_behind


@pytest.fixture
def ephemeral(tmp_path, monkeypatch):
    """Writes the range from which the system would take the ports of connections."""

    def write(low, high):
        file = tmp_path / "ip_local_port_range"
        file.write_text(f"{low}\t{high}\n")
        monkeypatch.setattr(local_ports, "_EPHEMERAL", file)

    return write


def test_they_are_free_and_all_different_and_no_connection_gets_them(ephemeral):
    ephemeral(32768, 60999)
    ports = free_ports(50)
    assert len(set(ports)) == 50
    assert all(20_000 <= port < 30_000 for port in ports)
    for port in ports:
        socket.create_server((HOST, port)).close()


def test_one_on_which_somebody_listens_is_passed_over_and_so_is_the_one_besides(monkeypatch):
    taken, chosen, *others = free_ports(4)
    monkeypatch.setattr(random, "sample", lambda *_: [taken, chosen, *others])
    with socket.create_server((HOST, taken)):
        assert free_ports(2, besides=chosen) == others
        with pytest.raises(OSError, match=rf"^fewer than 4 ports of {HOST} are free$"):
            free_ports(4)
        assert taken not in ports_behind(taken - 1, 2)


@pytest.mark.parametrize("connections", [(1024, 65535), (10_000, 20_000), (29_999, 40_000)])
def test_where_connections_may_get_them_the_system_chooses(ephemeral, connections, monkeypatch):
    ephemeral(*connections)
    monkeypatch.setattr(random, "sample", lambda *_: pytest.fail("chosen from ports of connections"))
    assert len(set(free_ports(3))) == 3


@pytest.mark.parametrize("connections", [(10_000, 19_999), (30_000, 60_999)])
def test_the_range_is_used_where_connections_leave_it_alone(ephemeral, connections):
    ephemeral(*connections)
    assert 20_000 <= free_ports(1)[0] < 30_000


def test_a_system_without_that_file_has_its_connections_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setattr(local_ports, "_EPHEMERAL", tmp_path / "missing")
    assert 20_000 <= free_ports(1)[0] < 30_000
