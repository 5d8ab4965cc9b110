"""``rivermouth topics``: look into a topic, without a table."""

from __future__ import annotations

from typing import Any

import click

from rivermouth.cli.attend import hooks
from rivermouth.cli.options import (
    WholeNumber,
    cluster,
    format_with,
    listed,
    pairs,
    settings,
    speaking,
    with_project,
    with_topic,
)
from rivermouth.cli.output import Output
from rivermouth.cli.tables import show_rows


@click.group("topics", short_help="Topics: create them, look into them.")
def topics() -> None:
    """The topics themselves, before anything is made of them."""


@topics.command(short_help="Create topics.")
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...")
@click.option("--partitions", type=WholeNumber(min=1), default=1, show_default=True, help="Of each topic.")
@click.option("--replication-factor", type=WholeNumber(min=1), help="Copies of each; the broker's default.")
@click.option("--config", multiple=True, metavar="NAME=VALUE", help="A setting, for example cleanup.policy=compact.")
@click.option("--bootstrap-servers", help="Kafka's brokers; else those of the project file, else localhost:9092.")
@with_project
def create(
    output: Output,
    topics: tuple[str, ...],
    file: str,
    config: tuple[str, ...],
    bootstrap_servers: str | None,
    **asked: Any,
) -> None:
    """Create topics; one that exists stays as it is."""
    from rivermouth.project.commands.topics import TopicSettings, created

    servers, options = cluster(file, bootstrap_servers)
    done = created(servers, options, topics, TopicSettings(config=settings(config), **asked))
    made = {True: "created", False: "exists already, and stays as it is"}
    output.result("\n".join(f"{name}: {made[is_new]}" for name, is_new in done.items()), {"created": done})


@topics.command(short_help="Print records of a topic as rows.")
@with_topic
@click.option("--latest-per-key", is_flag=True, help="Only the newest record of each key; deleted keys are left out.")
@click.option("--columns", "wanted", metavar="NAME,...", help="Only these columns.")
@click.option("--limit", type=WholeNumber(min=1), default=20, show_default=True, help="The most rows that are printed.")
@speaking
def read(output: Output, topic: str, format_: Any, wanted: str | None, limit: int, **arguments: Any) -> None:
    """Print records of TOPIC as the rows that they would be in a table, in no order; nothing is written.

    Records that would be dead letters there, and those without a value, are left out. This prints what the records
    hold: with --output json one line a row, with bytes as base64; in text, bytes that are no UTF-8 are hexadecimal
    digits.
    """
    from rivermouth.project.commands import topics as of_project

    options, keys = pairs(arguments.pop("kafka_options")), listed(arguments.pop("keys"))
    format_ = format_with(format_, arguments.pop("format_options"))
    with hooks(output) as given:
        found = of_project.rows(
            topic,
            columns=listed(wanted) or None,
            limit=limit,
            as_json=output.json,
            hooks=given,
            format=format_,
            keys=keys,
            kafka_options=options,
            **arguments,
        )
    show_rows(output, found)
