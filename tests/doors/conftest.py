"""What tests of commands over a project file share."""

from __future__ import annotations

import shutil

import pytest

from rivermouth.cli.main import invoke


@pytest.fixture
def orders(topic):
    """A topic with one partition."""
    return topic(partitions=1)


@pytest.fixture
def echo_over(tmp_path, monkeypatch, capsys, broker, orders, spark):
    """Runs a command over a project file: exit code, what it prints, what it complains of.

    The text has ``{servers}`` and ``{topic}`` in it, and what else is given by name.
    """
    monkeypatch.chdir(tmp_path)

    def echo_over(project, *arguments, **named):
        text = project.format(servers=broker.bootstrap_servers, topic=orders, **named)
        (tmp_path / "rivermouth.yml").write_text(text)
        code = invoke(list(arguments))
        out, err = capsys.readouterr()
        return code, out, err

    return echo_over


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """Makes a copy of a folder, with the project and the lake in it, the working folder.

    A module makes a lake once, and each test that changes it takes a copy: paths in it are relative, and tables keep
    their ids and ledgers. Tests that only read need none.
    """

    def copy(folder):
        monkeypatch.chdir(tmp_path)
        return shutil.copytree(folder, tmp_path, dirs_exist_ok=True)

    return copy
