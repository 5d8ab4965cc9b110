"""When dead letters are tried again by themselves."""

from __future__ import annotations

from rivermouth.domain.ledger.retries import FIRST_PAUSE_S, LONGEST_PAUSE_S, Retries


def test_letters_of_earlier_are_tried_at_once_and_then_ever_less_often():
    times, now, tried = Retries(), 1000.0, []
    for _ in range(9):
        assert times.is_due(now, written=0)
        times.tried(now, left=True)
        tried.append(times.due_at - now)
        assert not times.is_due(times.due_at - 1, written=0)
        now = times.due_at
    assert tried == [60, 120, 240, 480, 960, 1920, 3600, 3600, LONGEST_PAUSE_S]


def test_where_none_is_left_new_ones_are_waited_for():
    times = Retries()
    times.tried(1000.0, left=False)
    assert not times.is_due(1e12, written=0)
    assert not times.is_due(2000.0, written=1)
    assert not times.is_due(2000.0 + FIRST_PAUSE_S - 1, written=1)
    assert times.is_due(2000.0 + FIRST_PAUSE_S, written=1)


def test_new_ones_make_the_pauses_short_again():
    times = Retries()
    for now in (1000.0, 2000.0, 4000.0):
        times.tried(now, left=True)
    assert times.due_at == 4240.0
    assert not times.is_due(4050.0, written=3)
    assert times.due_at == 4110.0
    times.tried(4110.0, left=True)
    assert times.due_at == 4110.0 + FIRST_PAUSE_S
