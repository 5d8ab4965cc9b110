"""Several environments side by side, each in a process of its own: a good part of a round is waiting."""

from __future__ import annotations

import contextlib
import multiprocessing
import queue
import signal
import sys
from collections.abc import Iterator
from typing import Any

from tests.audit.environment import Environment
from tests.audit.episode import Report, play
from tests.audit.plan import Plan, shrunk

_PATIENCE_S = 60.0


def played(plans: Iterator[Plan], jobs: int) -> Iterator[tuple[Report, Plan | None]]:
    """The report of each plan as soon as it is there, with the shortest plan that still fails where it failed.

    A plan is taken only when an environment is free for it, so that ``plans`` may go by the reports so far.
    """
    context = multiprocessing.get_context("spawn")
    wanted, told = context.Queue(), context.Queue()
    workers = [context.Process(target=_work, args=(wanted, told)) for _ in range(jobs)]
    for each in workers:
        each.start()
    try:
        out = 0
        for _ in workers:
            out += _handed_out(plans, wanted)
        while out:
            report, shorter = _next(told, workers)
            out -= 1
            yield report, shorter
            out += _handed_out(plans, wanted)
        for _ in workers:
            wanted.put(None)
    except BaseException:
        # Each closes its environment, whatever it is at.
        for each in workers:
            each.terminate()
        raise
    finally:
        for each in workers:
            each.join(_PATIENCE_S)
            each.kill()


def _handed_out(plans: Iterator[Plan], wanted: Any) -> int:
    plan = next(plans, None)
    if plan is not None:
        wanted.put(plan)
    return int(plan is not None)


def _next(told: Any, workers: Any) -> tuple[Report, Plan | None]:
    while all(each.is_alive() for each in workers):
        try:
            found: tuple[Report, Plan | None] = told.get(timeout=5)
        except queue.Empty:
            continue
        return found
    message = "a process of the audit has died"
    raise RuntimeError(message)


def _work(wanted: Any, told: Any) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with contextlib.suppress(KeyboardInterrupt), Environment() as environment:
        while (plan := wanted.get()) is not None:
            report = play(plan, environment)
            shorter = None
            if report.problem and len(plan.rounds) > 1:
                print(f"seed {plan.seed}: {report.problem}; is made shorter now", file=sys.stderr, flush=True)
                shorter = shrunk(plan, lambda each: bool(play(each, environment).problem))
            told.put((report, shorter))
