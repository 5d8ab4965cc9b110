"""Routing: one word a record, never null, that says where it goes; and the counts of those words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.domain.ledger.ledger import Counts
from rivermouth.errors import ExpectationFailed
from rivermouth.rows import envelope, explode, partition_values
from rivermouth.rows.checks import failed_column
from rivermouth.rows.columns.aggregates import BETWEEN_MEMBERS, Aggregate
from rivermouth.rows.columns.table_columns import derived_columns
from rivermouth.rows.split_changes import once

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from rivermouth.domain.ledger.offset_ranges import Ranges
    from rivermouth.spec import Flow

TABLE: Final = "table"
DROPPED: Final = "dropped"
DEAD_LETTER: Final = "dead_letter"

_NULL_VALUE_ROUTES = {"drop": DROPPED, "keep": TABLE, "dead_letter": DEAD_LETTER}
_FAIL_MARK = "RIVERMOUTH_EXPECTATION_FAILED"
_FAILURE = re.compile(_FAIL_MARK + r"\|(\d+)\|([A-Za-z0-9._-]+)\|(\d+)\|(\d+)\|")

_MAX_BLOCKS = 1 << 17
# A list in the query spares a small batch the job of a join. Names of topics hold nothing to be escaped.
_FEW_BLOCKS = 500


def route(rows: DataFrame, flow: Flow) -> DataFrame:
    """Adds ``__route``: table, dropped or dead_letter; the strongest failed action wins.

    A failed expectation whose action is ``fail`` ends the Spark job; ``expectation_failure`` reads its error.
    """
    cases = [f"WHEN {names.SKIPPED} THEN '{DROPPED}'"] if flow.value_format.has_verdict else []
    cases.append(f"WHEN NOT ({names.DECODED} AND {names.KEY_VALID}) THEN '{DEAD_LETTER}'")
    if flow.change_envelope:
        cases.append(f"WHEN {names.OPERATION} = '{names.SKIP}' THEN '{DROPPED}'")
    if partition_values.are_judged(flow):
        cases.append(f"WHEN {names.PARTITION_PROBLEM} IS NOT NULL THEN '{DEAD_LETTER}'")
    if flow.keyed is None:
        cases.append(f"WHEN {names.VALUE} IS NULL THEN '{_NULL_VALUE_ROUTES[flow.null_values]}'")
    else:
        if not flow.keyed.tombstones_delete:
            cases.append(f"WHEN {names.VALUE} IS NULL THEN '{DROPPED}'")
        cases.append(f"WHEN {names.PROBLEM} IS NOT NULL THEN '{DEAD_LETTER}'")
    if flow.explosion is not None:
        cases.append(f"WHEN {names.POSITION} = {explode.NONE} THEN '{DROPPED}'")
    for action in ("fail", DEAD_LETTER, DROPPED):
        for index, each in enumerate(flow.all_expectations):
            if each.route == action:
                outcome = _raise(index) if action == "fail" else f"'{action}'"
                cases.append(f"WHEN {failed_column(index)} THEN {outcome}")
    return rows.selectExpr("*", f"CASE {' '.join(cases)} ELSE '{TABLE}' END AS {names.ROUTE}")


def counting(flow: Flow, block_offsets: int) -> dict[str, Aggregate]:
    """What is counted of routed rows, by the name of the count; ``counted`` reads it.

    ``blocks`` marks where the dead letters lie: the set of ``partition:offset div block_offsets:topic``, so that
    only those neighbourhoods are looked at again. Its size is bounded by the batch's offsets over
    ``block_offsets``, however many dead letters there are. ``dead_mark`` tells which they are.
    A flow that can have none does without both.
    """
    record = once(flow)
    dead = f"{names.ROUTE} = '{DEAD_LETTER}' AND {record}"
    conditions = {
        "consumed": record,
        "written": f"{names.ROUTE} = '{TABLE}' AND {record}",
        "dropped": f"{names.ROUTE} = '{DROPPED}' AND {record}",
        "dead_lettered": dead,
        "null_values": f"{names.VALUE} IS NULL AND {names.ROUTE} = '{DROPPED}'",
    }
    if flow.explosion is not None:
        conditions |= {
            "consumed": explode.FIRST,
            "exploded": f"NOT ({explode.FIRST})",
            "no_elements": f"{names.POSITION} = {explode.NONE} AND {names.ROUTE} = '{DROPPED}'",
        }
    failed = (failed_column(index) for index in range(len(flow.all_expectations)))
    conditions |= {name: f"{name} AND {record}" for name in failed}
    aggregates = {name: Aggregate("count_if", condition) for name, condition in conditions.items()}
    if may_dead_letter(flow):
        aggregates["blocks"] = Aggregate("collect_set", f"CASE WHEN {dead} THEN {block_mark(block_offsets)} END")
        aggregates["dead_mark"] = mark_of(*explode.identity(flow), among=dead)
    undeclared = flow.value_format.undeclared_names()
    if undeclared is not None:
        undeclared = _of_values(flow, undeclared)
        aggregates["undeclared_fields"] = Aggregate("sum", f"array_size({undeclared})")
        aggregates["undeclared_names"] = Aggregate("count_each", undeclared)
    return aggregates


def may_dead_letter(flow: Flow) -> bool:
    """Whether a record of the flow can become a dead letter."""
    by_rule = flow.null_values == DEAD_LETTER or DEAD_LETTER in {each.route for each in flow.all_expectations}
    by_envelope = flow.keys_are_judged or envelope.stores_timestamp(flow)
    by_expression = bool(derived_columns(flow) or flow.select or flow.explode)
    by_place = flow.keyed is not None or partition_values.are_judged(flow)
    return not flow.format.accepts_all or by_envelope or by_expression or by_rule or by_place


def _of_values(flow: Flow, summand: str) -> str:
    """A summand over values that counts each value once, and none that is only an array without elements."""
    if flow.explosion is None:
        return f"CASE WHEN {once(flow)} THEN {summand} END" if flow.splits else summand
    once_each = f"{names.POSITION} <> {explode.NONE}" if flow.explosion.is_whole else explode.FIRST
    return f"CASE WHEN {once_each} THEN {summand} END"


def mark_of(*identity: str, among: str = "true") -> Aggregate:
    """Over what identifies rows: a number that differs between different sets of them, null for no rows."""
    return Aggregate("bit_xor", f"CASE WHEN {among} THEN xxhash64({', '.join(identity)}) END")


def counted(flow: Flow, observed: Mapping[str, Any]) -> Counts:
    """The counts that ``counting`` observed."""
    taken = "written" if flow.keyed is None else "merged"
    return Counts(
        consumed=observed["consumed"],
        **{taken: observed["written"]},
        dropped=observed["dropped"],
        dead_lettered=observed["dead_lettered"],
        null_values=observed["null_values"],
        exploded=observed.get("exploded", 0),
        no_elements=observed.get("no_elements", 0),
        expectations={each.name: observed[failed_column(i)] for i, each in enumerate(flow.all_expectations)},
        undeclared_fields=observed.get("undeclared_fields") or 0,
    )


def block_mark(block_offsets: int) -> str:
    """SQL: ``partition:block:topic`` of an envelope row; the topic comes last."""
    return f"concat({names.PARTITION}, ':', {names.OFFSET} DIV {block_offsets}, ':', {names.TOPIC})"


def marked(ranges: Ranges, blocks: str, block_offsets: int) -> Ranges:
    """The parts of ``ranges`` from the first to the last marked block of each partition."""
    found: Ranges = {}
    for mark in blocks.split(BETWEEN_MEMBERS):
        number, block, topic = mark.split(":", 2)
        partition, offset = int(number), int(block) * block_offsets
        start, end = ranges[topic][partition]
        first, last = max(start, offset), min(end, offset + block_offsets)
        known = found.setdefault(topic, {}).get(partition, (first, last))
        found[topic][partition] = (min(known[0], first), max(known[1], last))
    return found


def nearby(rows: DataFrame, blocks: str, block_offsets: int) -> DataFrame:
    """The envelope rows that lie in a marked block."""
    marks = blocks.split(BETWEEN_MEMBERS)
    if len(marks) <= _FEW_BLOCKS:
        listed = ", ".join(f"'{mark}'" for mark in marks)
        return rows.where(f"{block_mark(block_offsets)} IN ({listed})")
    placed = rows.selectExpr("*", f"{block_mark(block_offsets)} AS __mark")
    table = rows.sparkSession.range(1).select(F.explode(F.split(F.lit(blocks), BETWEEN_MEMBERS)).alias("__mark"))
    return placed.join(F.broadcast(table), "__mark", "left_semi").drop("__mark")


def block_size(offsets: int) -> int:
    """How many neighbouring offsets share a mark, so that a batch has at most some 130,000 marks.

    A power of two: another number would be another query, which Spark would compile again.
    """
    blocks = -(-offsets // _MAX_BLOCKS)
    return 1 << max(0, blocks - 1).bit_length()


def expectation_failure(flow: Flow, error_text: str) -> ExpectationFailed | None:
    """The typed error behind a Spark job that ``route`` ended; None if it ended for another reason."""
    match = _FAILURE.search(error_text)
    if match is None:
        return None
    index, topic, partition, offset = match.groups()
    return ExpectationFailed(
        flow=flow.name,
        name=flow.expectations[int(index)].name,
        topic=topic,
        partition=int(partition),
        offset=int(offset),
    )


def _raise(index: int) -> str:
    coordinates = f"concat_ws('|', {names.TOPIC}, {names.PARTITION}, {names.OFFSET})"
    return f"CAST(raise_error(concat('{_FAIL_MARK}|{index}|', {coordinates}, '|')) AS STRING)"
