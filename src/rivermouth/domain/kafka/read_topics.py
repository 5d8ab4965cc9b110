"""The Kafka topics that queries of a pipeline read, as they can be kept in the lake: without passwords."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_KAFKA: Final = "kafka."
_SECURITY: Final = ("security.", "sasl.", "ssl.")


@dataclass(frozen=True, slots=True)
class ReadTopics:
    """Topics that a query reads.

    Attributes:
        servers: The cluster; empty where it is the project's, which is asked by the project's options.
        subscribe: Names, separated by commas.
        pattern: A regular expression of names.
        assign: JSON of partitions by topic.
        isolation: Kafka's ``isolation.level``; empty where it is not set.
        known: Whether the cluster can be asked: its options are the project's, or have no passwords.
    """

    servers: str = ""
    subscribe: str = ""
    pattern: str = ""
    assign: str = ""
    isolation: str = ""
    known: bool = True

    def has(self, topic: str) -> bool:
        """Whether the topic is one of them."""
        if self.pattern:
            try:
                return re.search(self.pattern, topic) is not None
            except re.error:  # Java's expressions are not all Python's
                return False
        if self.assign:
            return topic in json.loads(self.assign)
        return topic in [each.strip() for each in self.subscribe.split(",")]


def read_topics(
    options: Mapping[str, str], project_servers: str, project_options: Mapping[str, str]
) -> ReadTopics | None:
    """The topics that a source of Spark's with these options reads; None where it reads none.

    Args:
        options: Of the source.
        project_servers: The project's cluster.
        project_options: Its client options.
    """
    given = {name.lower(): value for name, value in options.items()}
    subscribe, pattern, assign = (given.get(name, "") for name in ("subscribe", "subscribepattern", "assign"))
    if not (subscribe or pattern or assign):
        return None
    client = {name.removeprefix(_KAFKA): value for name, value in given.items() if name.startswith(_KAFKA)}
    servers, isolation = client.get("bootstrap.servers", ""), client.get("isolation.level", "")
    secured = _security(client)
    of_project = servers == project_servers and secured == _security(project_options)
    known = of_project or (not secured and bool(servers))
    return ReadTopics("" if of_project or not known else servers, subscribe, pattern, assign, isolation, known)


def _security(client: Mapping[str, str]) -> dict[str, str]:
    found = {name: value for name, value in client.items() if name.startswith(_SECURITY)}
    return {} if found == {"security.protocol": "PLAINTEXT"} else found
