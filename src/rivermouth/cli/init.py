"""``rivermouth init``: a project file to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from rivermouth.cli.ingest import write_new
from rivermouth.cli.options import with_project
from rivermouth.cli.output import Output

STARTER: Final = """\
# A rivermouth project: https://yaml.org, one flow a table. `rivermouth validate` says what is wrong with it,
# `rivermouth plan` what a run would do, `rivermouth schema json` gives editors its JSON Schema.
name: {name}
lake: ./lake                  # or s3a://bucket/prefix, abfss://, hdfs://

kafka:
  bootstrap_servers: ${{KAFKA:-localhost:9092}}
  options: {{}}                 # any option of Kafka's client, without "kafka.": security.protocol: SASL_SSL

flows:
  # Every record as it came, as bytes.
  events_raw:
    topics: [events]
    starting_offsets: earliest    # the default; or latest, a timestamp, {{events: {{0: 23}}}}, {{group: name}}
    format: raw
    table: bronze.events

  # The same records as columns; what does not fit is kept as a dead letter.
  events:
    topics: [events]
    format:
      type: json
      schema: "id bigint, name string, at timestamp"
    expectations:
      - {{name: has_id, condition: id IS NOT NULL, action: dead_letter}}    # or warn, drop, fail
    table: silver.events
    trigger: {{every: 10 seconds}}    # with `rivermouth run --follow`
"""


@click.command(short_help="Write a project file to start from.")
@with_project
def init(output: Output, file: str) -> None:
    """Write a project file to start from; one that holds something is left as it is."""
    path = Path(file)
    write_new(path, STARTER.format(name=_name(path.absolute().parent.name)))
    text = f"{file} is written. Change it, and then: rivermouth validate"
    output.result(output.hinted(text), {"file": file})


def _name(folder: str) -> str:
    """The folder's name as one that needs no quotes in YAML."""
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "-" for c in folder).strip("-_")
    return kept if kept[:1].isalpha() else f"project-{kept}".rstrip("-")
