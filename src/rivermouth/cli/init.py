"""``rivermouth init``: a project file, or a pipeline, to start from."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

import click

from rivermouth.cli.ingest import write_new
from rivermouth.cli.options import FILE_NAME, with_project
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


@click.command(short_help="Write a project file, or a pipeline, to start from.")
@click.option("--pipeline", is_flag=True, help="Write a pipeline in Python and SQL, and records to try it with.")
@with_project
def init(output: Output, file: str, *, pipeline: bool) -> None:
    """Write a project file to start from; one that holds something is left as it is.

    With --pipeline the files are pipeline.yml, or the one that --file names, transformations/orders.py,
    transformations/daily.sql, and orders.jsonl.
    """
    path = Path(file)
    if pipeline:
        _init_pipeline(output, path)
        return
    write_new(path, STARTER.format(name=_name(path.absolute().parent.name)))
    text = f"{file} is written. Change it, and then: rivermouth validate"
    output.result(output.hinted(text), {"file": file})


def _init_pipeline(output: Output, path: Path) -> None:
    from rivermouth.pipelines.starter import RECORDS, SETTINGS, TOPIC, write_starter

    settings = path.with_name(SETTINGS) if path.name == FILE_NAME else path
    written = [str(each) for each in write_starter(settings, _name(settings.absolute().parent.name))]
    lines = [
        *(f"{each} is written" for each in written),
        "With a broker (rivermouth dev kafka, in a terminal of its own):",
        *([f"  cd {shlex.quote(str(path.parent))}"] if path.parent != Path() else []),
        f"  rivermouth dev produce {TOPIC} {RECORDS}",
        "  rivermouth run",
    ]
    output.result("\n".join(lines), {"files": written})


def _name(folder: str) -> str:
    """The folder's name as one that needs no quotes in YAML."""
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "-" for c in folder).strip("-_")
    return kept if kept[:1].isalpha() else f"project-{kept}".rstrip("-")
