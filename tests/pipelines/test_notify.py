"""Sinks of notifications: rows become messages at a real server, up to a number a minute."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from rivermouth.domain.query.notifications import NotifyOptionInvalid, Pace, filled, read_notify_options
from rivermouth.errors import RivermouthError

FILES = """
from pyspark import pipelines as dp

dp.create_sink("alerts", "notify", {options!r})

@dp.append_flow(target="alerts")
def offline():
    rows = spark.readStream.format("json").schema("camera string, minutes int").load("in")
    return rows.where("minutes > 10")
"""


@pytest.fixture
def server():
    """A server that keeps what is posted to it, and answers with its ``status``."""

    class Keeping(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            made.messages.append((body["title"], body["message"]))
            self.send_response(made.status)
            self.end_headers()

        def log_message(self, *_):
            """Nothing on the terminal."""

    made = ThreadingHTTPServer(("127.0.0.1", 0), Keeping)
    made.messages, made.status = [], 200
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def pipeline(folder, server, **more):
    url = f"json://127.0.0.1:{server.server_port}/alerts"
    options = {"urls": url, "title": "{camera}", "body": "{camera} is offline for {minutes} minutes", **more}
    folder.write("src/a.py", FILES.format(options=options))
    return folder


def test_rows_that_a_query_finds_are_messages(folder, server):
    pipeline(folder, server)
    folder.feed("in/1.json", {"camera": "door", "minutes": 12}, {"camera": "hall", "minutes": 3})
    assert folder.run()["alerts"].error is None
    assert server.messages == [("door", "door is offline for 12 minutes")]
    # Nothing comes twice; what a service does not take comes again.
    folder.feed("in/2.json", {"camera": "yard", "minutes": 30})
    server.status = 500
    assert str(folder.run()["alerts"].error) == (
        "[NOTIFICATION_FAILED] sink alerts: JSON did not take a message; the batch will be sent again, from its "
        "beginning\n  at: src/a.py:6\n  hint: rivermouth run, when the service answers again"
    )
    server.status, server.messages[:] = 200, []
    assert folder.run()["alerts"].counts.written == 1
    assert server.messages == [("yard", "yard is offline for 30 minutes")]


@pytest.mark.long
def test_what_is_over_the_number_of_a_minute_is_counted(folder, server):
    pipeline(folder, server, maxPerMinute="2")
    folder.feed("in/1.json", *({"camera": f"c{number}", "minutes": 20} for number in range(5)))
    assert folder.run()["alerts"].error is None
    assert server.messages[:2] == [(f"c{number}", f"c{number} is offline for 20 minutes") for number in range(2)]
    assert server.messages[2:] == [("alerts", "3 more, over 2 in a minute")]


def test_what_cannot_be_sent_is_refused_by_plan(folder, server):
    folder.feed("in/1.json", {"camera": "door"})
    for more, text in (
        (
            {"urls": "nonsense://token@x json://x"},
            (
                "[SINK_OPTION_REFUSED] sink alerts: option urls has an address that Apprise does not know: the first; "
                "the pipeline was not run\n  at: src/a.py:4\n  hint: https://github.com/caronc/apprise/wiki lists "
                "addresses: slack://..., mailto://..., json://..."
            ),
        ),
        (
            {"body": "{kamera}"},
            (
                "[SINK_COLUMNS_INVALID] flow offline into sink alerts: its query has no column kamera, which the "
                "message names; the pipeline was not run\n  at: src/a.py:6\n  hint: known: camera, minutes"
            ),
        ),
        (
            {"maxPerHour": "1"},
            (
                "[SINK_OPTION_REFUSED] sink alerts: option maxPerHour is unknown; the pipeline was not run\n"
                "  at: src/a.py:4\n  hint: known: urls, title, body, maxPerMinute"
            ),
        ),
    ):
        pipeline(folder, server, **more)
        with pytest.raises(RivermouthError) as error:
            folder.plan()
        assert str(error.value) == text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"body": "x"}, "urls is missing"),
        ({"urls": "json://x"}, "body is missing"),
        ({"urls": "json://x", "body": "{a.b}"}, "body names {a.b}, which is no column"),
        ({"urls": "json://x", "body": "{a[0]}"}, "body names {a[0]}, which is no column"),
        ({"urls": "json://x", "body": "{a:>9999999}"}, "body names {a}, which is no column"),
        ({"urls": "json://x", "body": "{}"}, "body names {}, which is no column"),
        ({"urls": "json://x", "body": "{"}, "body is no template: Single '{' encountered in format string"),
        ({"urls": "json://x", "body": "x", "maxPerMinute": "0"}, "maxPerMinute is no whole number above zero"),
    ],
)
def test_options_that_cannot_be(options, said):
    with pytest.raises(NotifyOptionInvalid) as error:
        read_notify_options(options)
    assert str(error.value) == said


def test_texts_and_the_pace():
    options = read_notify_options({"URLs": "json://x, mailto://y", "body": "{a} {{b}} {a}", "title": "{c}"})
    assert (options.urls, options.columns) == (("json://x", "mailto://y"), ("c", "a"))
    assert filled(options.body, {"a": None, "c": 1}) == " {b} "
    pace = Pace(2)
    assert [pace.allows(now_s) for now_s in (0, 30, 59, 60, 61, 90)] == [True, True, False, True, False, True]
