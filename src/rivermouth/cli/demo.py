"""``rivermouth demo``: all of it at once, with a broker of its own and real records."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import shlex
import shutil
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from rivermouth.cli.attend import Interrupted, hooks, run_interruptible
from rivermouth.cli.hints import naming
from rivermouth.cli.options import FILE_NAME, speaking
from rivermouth.cli.output import Output, plain
from rivermouth.cli.pipelines import speaker
from rivermouth.cli.pipelines import summary_json as update_json
from rivermouth.cli.pipelines import summary_text as update_text
from rivermouth.cli.run import failures_told
from rivermouth.cli.text_table import columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rivermouth.pipelines.running.pipeline import Pipeline
    from rivermouth.pipelines.running.update import DatasetOutcome
    from rivermouth.project.commands.demo import Demo
    from rivermouth.project.commands.managed_session import RunHooks

    Update = tuple[Pipeline, Sequence[DatasetOutcome]]

FOLDER: Final = "rivermouth-demo"
_LOOKED_AT: Final = "zeek_dns"
_WHOLE: Final = "SELECT * FROM t"
_QUERY: Final = "SELECT query, count(*) FROM dns GROUP BY 1 ORDER BY 2 DESC LIMIT 10"


@click.command(short_help="Show all of it: a Kafka broker, real records, tables.")
@click.argument("folder", default=FOLDER, type=click.Path(path_type=Path))
@speaking
def demo(output: Output, folder: Path) -> None:
    """Show it: a Kafka broker, real records, tables.

    Starts a broker on a free port. Sends network logs of Zeek, events of GitHub and a few documents that are not JSON.
    Writes them into a bronze table of bytes and silver tables of columns, and runs a pipeline over these. FOLDER
    (rivermouth-demo) keeps all of it, with rivermouth.yml and lookups.sql to be changed and run again.
    """
    from rivermouth.cli.progress import progress
    from rivermouth.pipelines import commands as pipelines
    from rivermouth.project.commands import demo as demonstration
    from rivermouth.project.commands import run_flows

    began_at = time.monotonic()
    root = click.get_current_context().find_root().command
    if isinstance(root, click.Group):
        output = replace(output, hinted=naming(root, _shown(folder / FILE_NAME)))
    shown = progress(output)
    with hooks(output, shown) as given:
        try:
            done = run_interruptible(lambda: demonstration.demo(folder, given), given.stop, shown.echo)
        finally:
            shown.close()
        if given.stop.asked:
            output.note(f"stopped; to go on: {_rivermouth()} demo {shlex.quote(_shown(done.folder))}")
            raise Interrupted(signal.SIGINT)
        failed = any(each.error is not None for each in done.outcomes)
        updates = [] if failed else _updates(done, output, given)
        seconds = time.monotonic() - began_at
        output.result(demo_text(done, updates, seconds), demo_json(done, updates, seconds))
        failures_told(done.outcomes, output)
        run_flows.raise_failures(done.outcomes)
        for _pipeline, outcomes in updates:
            pipelines.raise_failures(outcomes)


def _updates(done: Demo, output: Output, given: RunHooks) -> list[Update]:
    """Runs the pipelines over the tables of the flows, and gives what each came to."""
    from rivermouth.pipelines import commands as pipelines

    options = pipelines.UpdateOptions(listener=speaker(output))
    found: list[Update] = []
    for pipeline in pipelines.pipelines(done.folder / FILE_NAME):
        outcomes = run_interruptible(
            functools.partial(pipelines.run, pipeline, options, given), given.stop, output.note
        )
        found.append((pipeline, outcomes))
    return found


def demo_json(done: Demo, updates: Sequence[Update], seconds: float) -> dict[str, object]:
    """What the demonstration came to, for a program."""
    from rivermouth.cli.progress import summary_json

    return {
        **summary_json(done.outcomes, stopped=False),
        "pipelines": [update_json(*each) for each in updates],
        "event": "demo_finished",
        "folder": str(done.folder),
        "sent": plain(done.sent),
        "seconds": round(seconds, 1),
        "tables": {name: done.project.places(name).table for name in done.project.spec.flows},
        "next": commands(done),
    }


def demo_text(done: Demo, updates: Sequence[Update], seconds: float) -> str:
    """What the demonstration came to, for a person: every line after a colon can be pasted."""
    from rivermouth.cli.progress import SUMMARY_HEAD, summary_row

    sent = " and ".join(f"{number:,} to {topic}" for topic, number in done.sent.items())
    places = [done.project.places(name) for name in done.project.spec.flows]
    tables = [
        (each.flow, place) for each in places for place in (each.table, each.dead_letter_table) if Path(place).is_dir()
    ]
    lines = [
        f"Sent {sent}; written in {seconds:.0f} s in total.",
        "",
        columns(SUMMARY_HEAD, [summary_row(outcome) for outcome in done.outcomes]),
        *(line for _pipeline, outcomes in updates for line in ("", update_text(outcomes))),
        "",
        columns(("flow", "table"), tables),
    ]
    titles = {
        "spark": "Look at a table with Spark:",
        "duckdb": "Look at it with duckdb:",
        "dead_letters": "See what did not fit, and why:",
        "broker": "Run it again: its broker, in a terminal of its own,",
        "run": f"and then, after a change of {_shown(done.folder / FILE_NAME)}, or records of your own:",
    }
    for name, command in commands(done).items():
        lines += ["", titles[name], f"  {command}"]
    if not all(importlib.util.find_spec(name) for name in ("deltalake", "duckdb")):
        lines += ["", "The line with duckdb needs: pip install deltalake duckdb"]
    return "\n".join(lines)


def commands(done: Demo) -> dict[str, str]:
    """Lines for a shell in this folder, by what they are for."""
    file = _shown(done.folder / FILE_NAME)
    table = _shown(Path(done.project.places(_LOOKED_AT).table))
    # Double quotes within, so that the shell's single ones around it need no escapes.
    spark = (
        f'import rivermouth; rivermouth.Project.load({json.dumps(file)}).spark().read.format("delta")'
        f'.load({json.dumps(table)}).groupBy("query").count().orderBy("count", ascending=False).show(10)'
    )
    duckdb = (
        f"import duckdb, deltalake as d; t = d.DeltaTable({json.dumps(table)}); "
        f'dns = d.QueryBuilder().register("t", t).execute("{_WHOLE}").read_all(); duckdb.sql("{_QUERY}").show()'
    )
    rivermouth = _rivermouth()
    broker = _shown(done.folder / "broker")
    return {
        "spark": shlex.join([_shown(Path(sys.executable)), "-c", spark]),
        "duckdb": shlex.join([_shown(Path(sys.executable)), "-c", duckdb]),
        "dead_letters": f"{rivermouth} dead-letters list -f {shlex.quote(file)}",
        "broker": f"{rivermouth} dev kafka --port {done.port} --data-dir {shlex.quote(broker)}",
        "run": f"{rivermouth} run -f {shlex.quote(file)}",
    }


def _rivermouth() -> str:
    """How this command is called from here."""
    own = Path(sys.executable).with_name("rivermouth")
    found = shutil.which("rivermouth")
    if found is not None and own.exists() and Path(found).samefile(own):
        return "rivermouth"
    return shlex.quote(_shown(own)) if own.exists() else f"{shlex.quote(_shown(Path(sys.executable)))} -m rivermouth"


def _shown(path: Path) -> str:
    """``path`` from this folder on, where it lies in it: shorter to read and to paste."""
    text = os.path.relpath(path)
    return str(path) if text.startswith("..") else text
