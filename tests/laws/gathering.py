"""Examples for laws that are one Spark job over all of them."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings


def gathered(strategy, number):
    """A number of examples of a strategy, the same in each run with the same seed."""
    found = []

    @settings(max_examples=number, suppress_health_check=list(HealthCheck))
    @given(strategy)
    def gather(example):
        found.append(example)

    gather()
    return found
