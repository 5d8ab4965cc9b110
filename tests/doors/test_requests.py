"""What is asked of a flow's writer: who waits for an answer, and what is left of a request that nobody waits for."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from rivermouth.domain.ledger.erasure import ForgetRequest
from rivermouth.domain.project.locations import resolve
from rivermouth.engine.run.requests import Request, clear_pending, handle_pending, submit
from rivermouth.errors import RequestUnanswered
from rivermouth.ports.lake.lake_files import LocalFiles
from rivermouth.spec import Flow, ProjectSpec

HERS = Request("forget", erasure=ForgetRequest(where="email = 'ann@example.com'", mark="7e1f"))


@pytest.fixture
def places(tmp_path):
    flow = Flow(name="shop", topics=("orders",), format="text", table="silver.orders")
    return resolve(ProjectSpec(lake=str(tmp_path)), flow, base=tmp_path, environ={})


@pytest.fixture
def left(places):
    """The names of what lies in the folder of requests."""
    return lambda: LocalFiles().names(places.requests)


def answered(places, text):
    """A writer that answers as soon as it is looked for."""

    def is_running():
        (name,) = LocalFiles().names(places.requests)
        Path(places.requests, name.replace(".json", ".answer.json")).write_text(text)
        return True

    return is_running


OF_FORGET = (
    "[REQUEST_FAILED] flow shop: its writer could not erase what it was asked to: the disk is full; it is not done, or "
    "not wholly\n"
    "  hint: rivermouth tables forget silver.orders ... --dry-run, which says what is left of it"
)
OF_DISCARD = (
    "[REQUEST_FAILED] flow shop: its writer could not discard the dead letters: the disk is full; nothing was marked\n"
    "  hint: rivermouth status shop"
)


@pytest.mark.parametrize(("request_", "text"), [(HERS, OF_FORGET), (Request("discard"), OF_DISCARD)])
def test_an_error_says_what_was_asked(request_, text, places, left):
    with pytest.raises(RequestUnanswered) as error:
        submit(LocalFiles(), places, request_, is_running=answered(places, '{"error": "the disk is full"}'))
    assert str(error.value) == text
    assert left() == []


def test_of_an_erasure_nothing_is_left_where_nobody_follows_and_whoever_waits_knows(places, left):
    writer = SimpleNamespace(files=LocalFiles(), places=places)

    def another_opens_the_flow():
        clear_pending(writer)
        return True

    assert submit(LocalFiles(), places, HERS, is_running=another_opens_the_flow) is None
    # Of askers that were killed.
    LocalFiles().write(f"{places.requests}/a.json", HERS.to_json())
    told = '{"kind": "forget", "error": "email = \'ann@example.com\'"}'
    LocalFiles().write(f"{places.requests}/a.answer.json", told)
    # Its asker may not have seen it yet.
    LocalFiles().write(f"{places.requests}/d.answer.json", '{"kind": "replay", "replayed": 3}')
    LocalFiles().write(f"{places.requests}/b.json", Request("replay").to_json())
    LocalFiles().write(f"{places.requests}/c.json", "no request")
    clear_pending(writer)
    assert left() == ["b.json", "c.json", "d.answer.json"]


@pytest.mark.parametrize(
    "text", ["[]", "{", '{"kind": "compact", "wanted": {}, "dry_run": false}', '{"kind": "replay"}']
)
def test_what_is_no_request_is_answered_and_does_not_stay(text, places, left):
    LocalFiles().write(f"{places.requests}/a.json", text)
    handle_pending(SimpleNamespace(files=LocalFiles(), places=places))
    assert left() == ["a.answer.json"]
    answer = LocalFiles().read(f"{places.requests}/a.answer.json")
    assert "it cannot be read" in json.loads(answer)["error"]
