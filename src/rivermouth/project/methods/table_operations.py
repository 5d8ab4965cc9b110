"""What can be done with a project's tables in Python: a method for each command of the shell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rivermouth.project.methods.letter_operations import LetterOperations
from rivermouth.project.resolved.arguments import checked

if TYPE_CHECKING:
    import datetime as dt

    from pyspark.sql import DataFrame, SparkSession

    from rivermouth.domain.delta.maintenance import MaintenanceReport
    from rivermouth.domain.ledger.erasure import ForgetReport
    from rivermouth.engine.table.describe_tables import TableDescription

WEEK_S: Final = 7 * 24 * 3600.0


class TableOperations(LetterOperations):
    """The methods. A table is named ``schema.table``; the name of a flow means its table."""

    @checked
    def describe_tables(self, *names: str) -> list[TableDescription]:
        """What the tables of these names, or all, consist of, and what would help them, without a Spark session.

        Raises:
            TableUnknown: No flow writes a table of that name.
            RivermouthError: The project itself is wrong, or the lake does not answer.
        """
        from rivermouth.project.resolved import tables  # noqa: PLC0415

        return tables.described(self, names)

    @checked
    def read_table(
        self,
        name: str,
        columns: Sequence[str] | None = None,
        *,
        spark: SparkSession | None = None,
        version: int | None = None,
        timestamp: dt.datetime | None = None,
    ) -> DataFrame:
        """A table of a flow as a frame of Spark; see ``project.commands.maintenance.read_table``.

        Args:
            name: The table.
            columns: Names; all where None.
            spark: A session; ``self.spark()`` by default.
            version: An older version of the table.
            timestamp: The table as it was then.

        Raises:
            TableMissing: It is not made yet.
            VersionMissing: The log tells nothing of that version or time.
        """
        from rivermouth.project.commands import maintenance  # noqa: PLC0415

        return maintenance.read_table(self, name, columns=columns, spark=spark, version=version, timestamp=timestamp)

    @checked
    def create_temp_views(self, *names: str, spark: SparkSession | None = None) -> dict[str, str]:
        """Temporary views of these tables, or of all that are there; the view's name by table.

        ``silver.orders`` is ``silver_orders`` in the session.

        Args:
            names: Tables.
            spark: The session that gets them, ``self.spark()`` by default.

        Raises:
            ViewsCollide: Two tables would be one view.
        """
        from rivermouth.project.commands import maintenance  # noqa: PLC0415

        return maintenance.create_temp_views(self, names, spark)

    @checked
    def optimize_tables(
        self, *names: str, where: str | None = None, zorder: Sequence[str] = ()
    ) -> list[MaintenanceReport]:
        """Puts the small files of these tables, or of all that are there, together: also while their flows run.

        Args:
            names: Tables.
            where: A condition over the partition columns of the one table that is named.
            zorder: Columns of the one table that is named.

        Raises:
            ArgumentInvalid: A condition or columns without one table.
            MaintenanceConflict: A writer changed the same files first.

        Guarantees:
            No row changes. Stopped half-way: the table in hand is as it was.
        """
        from rivermouth.project.commands import maintenance  # noqa: PLC0415

        return maintenance.optimized(self, names, where=where, zorder=zorder)

    @checked
    def vacuum_tables(
        self, *names: str, retain_s: float = WEEK_S, even_below_168_hours: bool = False, dry_run: bool = False
    ) -> list[MaintenanceReport]:
        """Deletes the files of these tables, or of all that are there, that only older versions need.

        Args:
            names: Tables.
            retain_s: How long files are kept, in seconds; 7 days by default.
            even_below_168_hours: Let it be less than that. No flow may write the tables meanwhile.
            dry_run: Only say what would go, without a Spark session.

        Raises:
            RetentionTooShort: So short a time without the explicit word; nothing was deleted.

        Guarantees:
            Run twice: the second time finds nothing. Stopped half-way: the rest goes the next time.
        """
        from rivermouth.project.commands import maintenance  # noqa: PLC0415

        wanted = maintenance.Vacuum(retain_s, even_below_168_hours=even_below_168_hours, dry_run=dry_run)
        return maintenance.vacuumed(self, names, wanted)

    @checked
    def forget(
        self,
        name: str,
        *,
        where: str | None = None,
        dead_letters: str | None = None,
        why: str = "",
        dry_run: bool = False,
    ) -> ForgetReport:
        """Erases rows and dead letters of a flow's table; see ``project.commands.forget.forgotten``.

        Args:
            name: The table.
            where: SQL over the table's columns.
            dead_letters: SQL over the columns of its dead letters.
            why: The reason; it is kept, so it should name nobody.
            dry_run: Only say what would go.

        Raises:
            TableUnknown: No flow writes a table of that name.
            ForgetRefused: A condition is none, or the table's rows cannot be erased.

        Guarantees:
            Run twice: the second time finds nothing. Stopped half-way: nothing is erased, or the next run of the flow,
            or of this, does the rest.
        """
        from rivermouth.domain.ledger.erasure import ForgetRequest  # noqa: PLC0415
        from rivermouth.project.commands import forget  # noqa: PLC0415

        return forget.forgotten(self, name, ForgetRequest(where, dead_letters, why=why), dry_run=dry_run)
