"""The options that decide about data that is gone: read strictly, before anything is run."""

from __future__ import annotations

import getpass
import json
import os

import pytest

from rivermouth import LossDecision, Project
from rivermouth.cli.decisions import adoption, decision
from rivermouth.cli.event_text import event_json, event_text
from rivermouth.cli.main import invoke
from rivermouth.cli.status import status_text
from rivermouth.domain.ledger.decisions import text
from rivermouth.domain.ledger.ledger import EARLIEST, Decision
from rivermouth.engine.events import DecisionRecorded
from rivermouth.engine.report.flow_status import FlowStatus
from rivermouth.errors import ArgumentInvalid

LOST = Decision("accept_loss", 3, "a-b", {0: (10, 25)}, who="ann@host", at="2026-01-31T12:00:00+00:00", why="known")


def read(accept_loss=(), new_epoch=(), rewind=(), why="known", flows=("shop",)):
    return decision(accept_loss, new_epoch, rewind, why=why, flows=flows)


def test_all_of_them_together():
    found = read(["a-b-0:10-25", "a-b-12:0-1"], ["clicks"], ["t-0:7", "t-1:earliest"])
    assert found.losses == {"a-b": {0: (10, 25), 12: (0, 1)}}
    assert (found.epochs, found.rewinds) == (("clicks",), {"t": {0: 7, 1: EARLIEST}})
    assert ("@" in found.who, found.why, bool(found.at), bool(found.mark)) == (True, "known", True, True)


def test_without_one_nothing_is_decided():
    assert read(why="") is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"accept_loss": ["t:1-2"]},
            (
                "[ARGUMENT_INVALID] --accept-loss: 't:1-2' cannot be read; nothing was run\n"
                "  hint: --accept-loss orders-0:10-25"
            ),
        ),
        (
            {"accept_loss": ["t-0:5-5"]},
            (
                "[ARGUMENT_INVALID] --accept-loss: 't-0:5-5' cannot be read; nothing was run\n"
                "  hint: --accept-loss orders-0:10-25"
            ),
        ),
        (
            {"rewind": ["t-0:latest"]},
            "[ARGUMENT_INVALID] --rewind: 't-0:latest' cannot be read; nothing was run\n  hint: --rewind orders-0:10",
        ),
        (
            {"new_epoch": ["t"], "why": ""},
            '[ARGUMENT_INVALID] --new-epoch: a decision needs a reason; nothing was run\n  hint: --why "REASON"',
        ),
        (
            {"new_epoch": ["t"], "flows": ()},
            (
                "[ARGUMENT_INVALID] --new-epoch: name the one flow that it is about; nothing was run\n"
                "  hint: rivermouth run FLOW --new-epoch ..."
            ),
        ),
        (
            {"why": "because"},
            "[ARGUMENT_INVALID] --why: there is no decision to give a reason for; nothing was run\n  hint: remove it",
        ),
    ],
)
def test_what_cannot_be_read_is_refused(options, message):
    with pytest.raises(ArgumentInvalid) as caught:
        read(**options)
    assert str(caught.value) == message


def test_the_command_refuses_before_it_looks_at_the_project(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert invoke(["run", "--new-epoch", "t", "--output", "json"]) == 1
    assert json.loads(capsys.readouterr().err)["code"] == "ARGUMENT_INVALID"


def test_a_user_without_a_name_is_known_by_its_number(monkeypatch):
    def nameless():
        raise KeyError

    monkeypatch.setattr(getpass, "getuser", nameless)
    assert read(["t-0:1-2"]).who.startswith(f"{os.getuid()}@")


PROJECT = """\
lake: ./lake
kafka: {bootstrap_servers: "localhost:1"}
flows:
  orders: {topics: [orders], format: text, table: bronze.orders}
  clicks: {topics: [clicks], format: text, table: bronze.clicks}
"""


@pytest.mark.parametrize(
    ("flows", "debug", "message"),
    [
        (
            (),
            False,
            (
                "[ARGUMENT_INVALID] decision: it is about one flow, and several would run; nothing was run\n"
                "  hint: rivermouth run FLOW ..."
            ),
        ),
        (
            ("orders",),
            True,
            (
                "[ARGUMENT_INVALID] --debug: it takes no decision; nothing was run\n"
                "  hint: rivermouth run orders ..., without --debug"
            ),
        ),
    ],
)
def test_a_decision_is_for_one_flow_and_no_trial(flows, debug, message, tmp_path):
    (tmp_path / "rivermouth.yml").write_text(PROJECT)
    project = Project.load(tmp_path / "rivermouth.yml").with_debug(debug=debug)
    with pytest.raises(ArgumentInvalid) as caught:
        project.run(*flows, decision=LossDecision(epochs=("orders",), why="known"))
    assert str(caught.value) == message


def test_decisions_stand_in_the_status_beside_what_was_lost():
    rewound = Decision("rewind", 2, "t", {0: (9, 4)}, who="ann@host", at="now", why="known")
    said = status_text(FlowStatus("shop", "lake/t", entry=3, decisions=(rewound,)))
    assert "lost" not in said
    assert (
        "  1 decision in the ledger:\n    entry 2, now, ann@host: t-0 from 9 back to 4: read again from there (known)\n"
    ) in said
    assert "  lost: 5 offsets\n" in status_text(FlowStatus("shop", "lake/t", entry=3, lost=5))


def test_a_recorded_decision_as_text_and_as_json():
    event = DecisionRecorded("shop", 3, LOST)
    assert event_text(event) == "shop: recorded in ledger entry 3: offsets 10 to 25 (exclusive) of a-b-0 are lost"
    assert event_json(event) == {
        "event": "decision_recorded",
        "flow": "shop",
        "entry": 3,
        "decision": {
            "kind": "accept_loss",
            "entry": 3,
            "topic": "a-b",
            "moves": {"0": [10, 25]},
            "topic_id": None,
            "who": "ann@host",
            "at": "2026-01-31T12:00:00+00:00",
            "why": "known",
            "mark": "",
        },
    }


def test_decisions_in_words():
    assert text(Decision("new_epoch", 1, "t", {0: (5, 0)})) == "topic t is read from its beginning as another one"
    assert text(Decision("rewind", 1, "t", {0: (9, 4)})) == "t-0 from 9 back to 4: read again from there"


def test_a_table_to_be_taken_over():
    assert adoption(None, flows=(), decided=True) is None
    found = adoption("checkpoints/old", flows=("shop",), decided=False)
    assert (found.source, "@" in found.who, bool(found.at)) == (os.path.abspath("checkpoints/old"), True, True)  # noqa: PTH100
    for place in ("s3a://bucket/checkpoints/old", "table"):
        assert adoption(place, flows=("shop",), decided=False).source == place


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--adopt", "old"],
            (
                "[ARGUMENT_INVALID] --adopt: name the one flow that it is about; nothing was run\n"
                "  hint: rivermouth run FLOW --adopt CHECKPOINT\n"
            ),
        ),
        (
            ["shop", "--adopt", "old", "--new-epoch", "t", "--why", "known"],
            (
                "[ARGUMENT_INVALID] --adopt: of a table without a ledger nothing else can be decided; nothing was run\n"
                "  hint: rivermouth run shop --adopt old\n"
            ),
        ),
        (
            ["shop", "--adopt", ""],
            (
                "[ARGUMENT_INVALID] --adopt: it is empty; nothing was run\n"
                "  hint: rivermouth run shop --adopt CHECKPOINT\n"
            ),
        ),
    ],
)
def test_what_cannot_be_taken_over_so(arguments, message, capsys):
    assert invoke(["run", *arguments]) == 1
    assert capsys.readouterr().err == message
    if "--why" not in arguments:
        assert invoke(["plan", *arguments]) == 1
        assert capsys.readouterr().err == message.replace("rivermouth run", "rivermouth plan")


def test_a_table_taken_over_in_words():
    taken = Decision("adopt", 0, "t", {0: (3, 3), 1: (0, 0)}, who="ann@host", at="now", why="checkpoint /old, batch 4")
    assert text(taken) == "the table was taken over: t-0 from 3, t-1 from 0"
