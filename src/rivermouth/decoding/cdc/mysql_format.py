"""What the formats of change envelopes share that may come from MySQL: its dates whose year, month or day is zero."""

from __future__ import annotations

from rivermouth.decoding.cdc.change_format import ChangeFormat
from rivermouth.decoding.cdc.null_or_refuse import NullOrRefuse


class MySqlFormat(ChangeFormat):
    """Base of the formats whose dates and times may be zero.

    Attributes:
        zero_dates: What happens to MySQL's zero dates (``0000-00-00``, ``2026-00-15 00:00:00``) in columns of dates and
            timestamps: ``refuse`` refuses the record with ``FIELD_ZERO_DATE``, ``null`` stores NULL, as Debezium does.
    """

    zero_dates: NullOrRefuse = "refuse"

    @property
    def nulls_zero_dates(self) -> bool | None:
        """Whether NULL is stored for them."""
        return self.zero_dates == "null"
