"""pytest's plugin: ``run_pipeline`` and ``run_flow`` as fixtures, and a Spark session for tests that have none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rivermouth.testing.flows import FlowTest
    from rivermouth.testing.pipelines import PipelineTest


@pytest.fixture(scope="session")
def rivermouth_spark() -> Iterator[SparkSession]:
    """The Spark session for ``run_pipeline`` and ``run_flow``: the one of this process, or a new one with two cores.

    A session that the fixture has started ends after the last test. Override it in ``conftest.py`` to give another.
    """
    from rivermouth.ports.spark import session  # noqa: PLC0415 - pytest starts without Spark
    from rivermouth.testing.sessions import session_for_tests  # noqa: PLC0415

    is_ours = not session.is_given()
    found = session_for_tests()
    yield found
    if is_ours:
        session.end(found)


@pytest.fixture
def run_pipeline(rivermouth_spark: SparkSession) -> Iterator[Callable[..., PipelineTest]]:
    """``rivermouth.testing.run_pipeline`` in the session ``rivermouth_spark``; lakes are removed after the test."""
    from rivermouth.testing import pipelines  # noqa: PLC0415 - as above

    made: list[PipelineTest] = []

    def run(place: Any, **arguments: Any) -> PipelineTest:
        made.append(pipelines.run_pipeline(place, **{"spark": rivermouth_spark, **arguments}))
        return made[-1]

    yield run
    for each in made:
        each.close()


@pytest.fixture
def run_flow(rivermouth_spark: SparkSession) -> Iterator[Callable[..., FlowTest]]:
    """``rivermouth.testing.run_flow`` in the session ``rivermouth_spark``; lakes are removed after the test."""
    from rivermouth.testing import flows  # noqa: PLC0415 - as above

    made: list[FlowTest] = []

    def run(project: Any, flow: str, records: Any = (), **arguments: Any) -> FlowTest:
        made.append(flows.run_flow(project, flow, records, **{"spark": rivermouth_spark, **arguments}))
        return made[-1]

    yield run
    for each in made:
        each.close()
