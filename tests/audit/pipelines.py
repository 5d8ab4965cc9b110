"""Episodes of pipelines: runs that end at random steps, whose checkpoints are then kept, older, deleted or damaged.

Afterwards each table must hold what plain Python makes of the rows that were given, and `rivermouth audit` agrees.
"""

from __future__ import annotations

import contextlib
import random
import tempfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from confluent_kafka.admin import AdminClient, NewTopic
from tests.audit.environment import Environment
from tests.crashes.feed import HARMS, STEPS, Feed, run_to_the_end_of_each

from rivermouth.side_tables.row_dead_letters import RowDeadLetters

ROUNDS = 4


@dataclass(frozen=True)
class PipelineReport:
    """What an episode came to.

    Attributes:
        seed: What was played.
        rounds: The steps at which its runs ended.
        harm: What became of the checkpoints.
        problem: In words; empty if all is well.
        audited: Rows that were given, and found where they belong.
    """

    seed: int
    rounds: tuple[tuple[str, ...], ...]
    harm: str
    problem: str = ""
    audited: int = 0
    duration_s: float = 0.0

    def __str__(self) -> str:
        ends = ", ".join("+".join(steps) for steps in self.rounds)
        verdict = f"NOT clean: {self.problem}" if self.problem else "clean"
        return (
            f"pipeline, seed {self.seed}: ended at {ends}; checkpoints {self.harm}; "
            f"{self.audited:,} rows audited, {self.duration_s:.0f} s: {verdict}"
        )


def play_pipeline(seed: int, environment: Environment, *, rounds: int = ROUNDS, few: bool = False) -> PipelineReport:
    """Plays the episode of a seed: runs that end, rows between them, and a look at everything."""
    chance, started = random.Random(seed), time.monotonic()
    ends = tuple(tuple(chance.sample(STEPS, chance.randint(1, 3))) for _ in range(rounds))
    if few:  # without AUTO CDC some steps are never reached
        ends = tuple((*steps, "written") for steps in ends)
    harm = chance.choice(HARMS)
    with tempfile.TemporaryDirectory(prefix="rivermouth-audit-pipeline-") as folder:
        feed, problem = _feed(Path(folder), environment, few=few), ""
        try:
            run_to_the_end_of_each(feed, ends, harm)
        except AssertionError as error:
            problem = f"{type(error).__name__}: {str(error)[:500]}"
        given = sum(map(len, feed.given.values()))
    audited = 0 if problem else given
    return PipelineReport(seed, ends, harm, problem, audited, time.monotonic() - started)


def _feed(folder: Path, environment: Environment, *, few: bool) -> Feed:
    if few:
        return Feed(folder, environment.spark, few=True)
    topic = f"pipeline-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": environment.direct})
    admin.create_topics([NewTopic(topic, num_partitions=2, replication_factor=1)])[topic].result(30)
    return Feed(folder, environment.spark, environment.direct, topic)


@contextlib.contextmanager
def planted_pipeline_bug() -> Iterator[None]:
    """In the block nobody writes dead letters of queries."""
    with mock.patch.object(RowDeadLetters, "write", return_value=None):
        yield
