"""The clusters of Kafka whose topics a pipeline reads and writes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rivermouth.pipelines.running.pipeline import Pipeline


class KafkaClusters:
    """What the project says of its cluster, and the options of all sources and sinks.

    Args:
        pipeline: The pipeline.

    Attributes:
        options: Of all that reads or writes topics, as Spark has them; they have passwords.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._project = pipeline.project
        self.options: list[dict[str, str]] = []

    def options_for(self, options: Mapping[str, str]) -> dict[str, str]:
        """Kafka's own classes in the place of Databricks' shaded ones, and what the project says of its cluster.

        Args:
            options: Of a source or sink, as they are written.
        """
        found = {key: value.replace("kafkashaded.", "") for key, value in options.items() if "kafkashaded." in value}
        given, servers = {key.lower() for key in options}, self._project.bootstrap_servers
        if options.get("kafka.bootstrap.servers", servers) == servers:
            known = {"bootstrap.servers": servers, **self._project.kafka_options()}
            found |= {f"kafka.{key}": value for key, value in known.items() if f"kafka.{key}" not in given}
        if (made := {**options, **found}) not in self.options:  # a query may be evaluated again and again
            self.options.append(made)
        return found

    def client_options(self, topic: str) -> dict[str, str]:
        """Options of the Kafka client with which a query reads the topic; the project's where none is known to."""
        for options in self.options:
            listed = [each.strip() for each in options.get("subscribe", "").split(",")]
            pattern = options.get("subscribePattern")
            if topic in listed or (pattern and re.fullmatch(pattern, topic)) or topic in options.get("assign", ""):
                kafka = {key: value for key, value in options.items() if key.startswith("kafka.")}
                return {key.removeprefix("kafka."): value for key, value in kafka.items()}
        return {"bootstrap.servers": self._project.bootstrap_servers, **self._project.kafka_options()}
