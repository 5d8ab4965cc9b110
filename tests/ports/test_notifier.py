"""Messages of sinks, where the library that sends them is missing."""

from __future__ import annotations

import sys

import pytest

from rivermouth.errors import NotifierMissing
from rivermouth.ports.notifier import Notifier


def test_a_sink_says_which_package_it_needs(monkeypatch):
    monkeypatch.setitem(sys.modules, "apprise", None)
    with pytest.raises(NotifierMissing) as refused:
        Notifier("alerts", ["json://localhost"])
    assert str(refused.value) == (
        "[NOTIFIER_MISSING] sink alerts: notifications need the package apprise, which is not installed; "
        "the pipeline was not run\n"
        "  hint: pip install 'rivermouth[notify]'"
    )
