"""``rivermouth check-records``: what a flow's rules say of sample records, without Kafka and without writing."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import click

from rivermouth.cli.attend import hooks
from rivermouth.cli.options import with_project
from rivermouth.cli.output import Output, count, echo_json, plain, to_json
from rivermouth.cli.text_table import columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rivermouth.domain.project.sample_records import RecordVerdict

_SUMS: Final = {
    "table": ("in the table", "in the table"),
    "dropped": ("dropped", "dropped"),
    "dead_letter": ("dead letter", "dead letters"),
    "fail": ("would stop the flow", "would stop the flow"),
}


@click.command("check-records", short_help="Say what a flow's rules make of sample records.")
@click.argument("flow")
@click.argument("source", metavar="FILE", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option(
    "--lines",
    type=click.Choice(["values", "records"]),
    default="values",
    show_default=True,
    help="What a line of FILE is: the value of a record, or a JSON object with value, key, headers and timestamp.",
)
@with_project
def check_records(output: Output, flow: str, source: str, lines: str, file: str) -> None:
    """Say what the rules of FLOW make of the records in FILE; - is standard input.

    Each line is the value of a record. The rules are those of a run: format, schema, keys and expectations. Kafka is
    not asked, and nothing is written. With --output json each verdict is a line, with the row that the table would
    have. With --lines records a line describes a whole record: value, key, headers, timestamp, topic, partition and
    offset, or value_base64 and key_base64 for bytes.

    Exit code 1 if a record would be a dead letter or would stop the flow.
    """
    from rivermouth.project.api import Project
    from rivermouth.project.commands.checks.sample_verdicts import check_records, raise_refused, read_records

    project = Project.load(file)
    given = list(read_records(source, whole=lines == "records"))
    with hooks(output) as opened:
        found = check_records(project, flow, [record for _, record in given], opened)
    numbers = [number for number, _ in given]
    if output.json:
        for each in found:
            echo_json(to_json(verdict_json(each, numbers[each.record])))
    else:
        output.result(verdicts_text(found, numbers), None)
    raise_refused(flow, found)


def verdicts_text(found: Sequence[RecordVerdict], lines: Sequence[int]) -> str:
    """The verdicts for a person, and their sum."""
    several = any(each.position is not None for each in found)
    head = ["line", *(["row"] if several else []), "verdict", "reason", "field", "message"]
    rows = [
        [
            str(lines[each.record]),
            *([None if each.position is None else str(each.position)] if several else []),
            each.change if each.change in ("delete", "truncate") else each.verdict,
            each.reason,
            each.field,
            _message(each),
        ]
        for each in found
    ]
    counted = Counter(each.verdict for each in found)
    sums = [f"{counted[name]:,} {words[counted[name] != 1]}" for name, words in _SUMS.items() if counted[name]]
    records = count(len({each.record for each in found}), "record")
    of_rows = f" of {len(found):,} rows" if len(found) != len({each.record for each in found}) else ""
    changing = sum(each.changes_schema for each in found)
    note = f"\n{changing:,} would be looked at for a change of the schema first" if changing else ""
    return f"{columns(head, rows)}\n{records}{of_rows}: {', '.join(sums)}{note}"


def verdict_json(verdict: RecordVerdict, line: int) -> dict[str, Any]:
    """A verdict for a program; its row with the columns of the table."""
    body: dict[str, Any] = plain(verdict)
    text = body.pop("row_json")
    return {"line": line, **body, "row": None if text is None else json.loads(text)}


def _message(verdict: RecordVerdict) -> str | None:
    warned = verdict.verdict == "table" and verdict.failed_expectations
    if warned:
        return f"warned: {', '.join(verdict.failed_expectations)}"
    return verdict.message
