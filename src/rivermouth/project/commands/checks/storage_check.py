"""Whether the stores of a project take what a run would write, tried by Spark as a run tries it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rivermouth.ports.lake.storage_checks import check_fenced, stores_of
from rivermouth.project.commands.managed_session import NO_HOOKS, ManagedSession, RunHooks
from rivermouth.project.resolved.settings import located_errors

if TYPE_CHECKING:
    from rivermouth.project.resolved.resolved_project import ResolvedProject


def tried(project: ResolvedProject, hooks: RunHooks = NO_HOOKS) -> list[str]:
    """The stores that are not on this machine: each can be written, and of two writers it refuses the second.

    Args:
        project: Its flows, whose places are tried.
        hooks: Gets what Spark says.

    Raises:
        LakeNotWritable: A store takes no file.
        LakeNotFenced: A store overwrites what it was told not to, or Delta would not tell it.
        RivermouthError: What else is wrong with the project, or keeps Spark from starting.

    Guarantees:
        Leaves nothing behind; stopped half-way, a file of a few bytes whose name begins with ``_rivermouth-probe``.
        Spark runs on this machine alone, whatever master the project names.
    """
    found = {
        frozenset(stores_of(places)): places
        for places in (project.places_of(flow) for flow in project.stand_ins())
        if stores_of(places)
    }
    if found:
        alone = project.spec.spark.model_copy(update={"master": "local[1]"})
        here = replace(project, spec=project.spec.model_copy(update={"spark": alone}))
        with located_errors(project.at("lake")), ManagedSession(here, hooks) as spark:
            for places in found.values():
                check_fenced(spark, places)
    return sorted({store for stores in found for store in stores})
