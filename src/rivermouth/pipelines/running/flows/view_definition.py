"""What decides about the rows of a materialized view besides the rows of the tables that it reads."""

from __future__ import annotations

import hashlib
import json
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rivermouth.domain.query.query_entry import fingerprint
from rivermouth.domain.query.view_rules import calls_users_code
from rivermouth.ports.internals.query_plans import analysed_plan, constants_of
from rivermouth.ports.internals.sessions import all_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

    from rivermouth.domain.query.view_tree import PlanNode
    from rivermouth.engine.query.query_run import QueryContext
    from rivermouth.pipelines.running.pipeline import Pipeline
    from rivermouth.pipelines.running.reads import Evaluated

_SETTINGS: Final = (
    "spark.sql.ansi.enabled",
    "spark.sql.caseSensitive",
    "spark.sql.decimalOperations.allowPrecisionLoss",
    "spark.sql.mapKeyDedupPolicy",
    "spark.sql.session.timeZone",
)
_LEGACY: Final = "spark.sql.legacy."


def definition_of(
    pipeline: Pipeline, evaluated: Evaluated, tree: PlanNode, judged: Sequence[PlanNode], context: QueryContext
) -> str:
    """A short text that stays the same as long as the same tables come to the same rows.

    It is made of the analysed query, its tables, the expectations, the settings of Spark that decide about values,
    Spark's version and, where a user's function is called, the pipeline's code and configuration.

    Args:
        pipeline: The pipeline.
        evaluated: The query.
        tree: The same as plain values.
        judged: Nodes that check its rows by its expectations.
        context: Its flow.
    """
    spark = evaluated.frame.sparkSession
    tables = [[each.table.path, each.table.version if each.table.fixed else None] for each in tree.walk() if each.table]
    expectations = [[each.name, each.condition, each.action] for each in context.expectations]
    code = _code(pipeline) if any(map(calls_users_code, (tree, *judged))) else ""
    rest = [constants_of(evaluated.frame), tables, expectations, spark.version, _settings(spark), code]
    return fingerprint(analysed_plan(evaluated.frame), json.dumps(rest))


def _settings(spark: SparkSession) -> dict[str, str | None]:
    legacy = {name: value for name, value in all_settings(spark).items() if name.startswith(_LEGACY)}
    return {**dict(sorted(legacy.items())), **{name: spark.conf.get(name) for name in _SETTINGS}}


def _code(pipeline: Pipeline) -> str:
    """A hash of what functions of the user are made of: files, imported modules that are not installed, values."""
    found = hashlib.sha256(json.dumps(dict(pipeline.configuration), sort_keys=True).encode())
    for path in sorted({*pipeline.settings.files, *_modules(pipeline.root)}):
        if path.is_file():
            found.update(path.read_bytes())
    return found.hexdigest()


def _modules(root: Path) -> Iterator[Path]:
    """The files of imported modules of the user: in the pipeline's folder, or in another one that is on the path."""
    installed = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if not path or "site-packages" in path or name.partition(".")[0] == "rivermouth":
            continue
        found = Path(path)
        if found.is_relative_to(root) or not any(found.is_relative_to(each) for each in installed):
            yield found
