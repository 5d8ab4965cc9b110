"""Where ``starting_offsets: latest`` lay when a run began."""

import pytest

from rivermouth.domain.kafka.latest_start import LatestStart
from rivermouth.domain.kafka.source_topics import Topic

BEGAN = LatestStart(
    {"t": Topic("t", "id-1", (0, 1)), "gone": Topic("gone", "id-2", (0,))}, {"t": {0: 5, 1: 0}, "gone": {0: 2}}
)


@pytest.mark.parametrize(
    ("case", "topics", "first", "start"),
    [
        ("the same", {"t": Topic("t", "id-1", (0, 1))}, {"t": {0: 1, 1: 0}}, {"t": {0: 5, 1: 0}}),
        ("a new partition", {"t": Topic("t", "id-1", (0, 1, 2))}, {"t": {0: 1, 1: 0, 2: 0}}, {"t": {0: 5, 1: 0, 2: 0}}),
        ("another topic of that name", {"t": Topic("t", "id-3", (0,))}, {"t": {0: 0}}, {"t": {0: 0}}),
        ("a new topic", {"new": Topic("new", "id-4", (0,))}, {"new": {0: 3}}, {"new": {0: 3}}),
    ],
)
def test_records_that_came_since_are_not_passed_over(case, topics, first, start):
    assert BEGAN.offsets(topics, first) == start, case
