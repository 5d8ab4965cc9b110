"""What tests of commands over a project file share."""

from __future__ import annotations

import pytest

from rivermouth.cli.main import invoke


@pytest.fixture
def orders(topic):
    """A topic with one partition."""
    return topic(partitions=1)


@pytest.fixture
def say_over(tmp_path, monkeypatch, capsys, broker, orders, spark):
    """Runs a command over a project file: exit code, what it prints, what it complains of.

    The text has ``{servers}`` and ``{topic}`` in it, and what else is given by name.
    """
    monkeypatch.chdir(tmp_path)

    def say_over(project, *arguments, **named):
        text = project.format(servers=broker.bootstrap_servers, topic=orders, **named)
        (tmp_path / "rivermouth.yml").write_text(text)
        code = invoke(list(arguments))
        out, err = capsys.readouterr()
        return code, out, err

    return say_over
