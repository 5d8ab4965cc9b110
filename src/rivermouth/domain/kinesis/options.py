"""The options of a query over Kinesis, in the terms of Databricks' source."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from rivermouth.errors import KinesisSourceInvalid
from rivermouth.names import did_you_mean

LATEST: Final = "LATEST"
TRIM_HORIZON: Final = "TRIM_HORIZON"
SECRETS: Final = ("awsAccessKey", "awsSecretKey", "sessionToken")
"""Options whose values are in no message."""

_POSITIONS: Final = {"latest": LATEST, "trim_horizon": TRIM_HORIZON, "earliest": TRIM_HORIZON}
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION: Final = re.compile(r"(\d+)\s*(ms|s|m|h)")
_MOST_PER_FETCH: Final = 10_000
_TUNING: Final = "rivermouth reads Kinesis in another way and does not have it"
_REFUSED: Final = {
    **dict.fromkeys(
        [
            "maxfetchrate",
            "maxfetchduration",
            "fetchbuffersize",
            "shardspertask",
            "coalescethresholdblocksize",
            "coalesce",
            "coalescebinsize",
            "reusekinesisclient",
            "clientretries",
            "avoidemptypartition",
        ],
        _TUNING,
    ),
    **dict.fromkeys(
        [
            "registeredconsumerid",
            "registeredconsumeridtype",
            "registerconsumertimeoutinterval",
            "requireconsumerderegistration",
            "deregisterconsumertimeoutinterval",
            "consumernameprefix",
            "consumerrefreshinterval",
        ],
        "enhanced fan-out is not supported",
    ),
    "servicecredential": "there are no service credentials outside of Databricks",
    "streamarn": "streams are found by streamName",
}


@dataclass(frozen=True, slots=True)
class KinesisOptions:
    """What a query asks of Kinesis.

    Attributes:
        streams: Names of streams.
        region: Of the streams; None for the one that the environment says.
        endpoint: Address of another service than Amazon's; None for Amazon's.
        begin: Where a query begins that has read nothing: ``LATEST``, ``TRIM_HORIZON``, or a time in ms since 1970.
        max_records_per_fetch: Records of one call.
        min_fetch_period_s: Between two calls for records of one shard.
        shard_fetch_interval_s: Between two calls for the shards of a stream.
        max_batch_duration_s: A batch has at most the records of so much time of each shard.
        retry_timeout_s: So long calls are tried again that Kinesis throttles or does not answer.
        fail_on_data_loss: Whether the query stops where records may be gone that it has not read.
        keys: ``awsAccessKey``, ``awsSecretKey`` and ``sessionToken``, as far as they are given.
        role: ``roleArn``, ``roleExternalId``, ``roleSessionName`` and ``stsEndpoint``, as far as they are given.
    """

    streams: tuple[str, ...]
    region: str | None = None
    endpoint: str | None = None
    begin: str | int = LATEST
    max_records_per_fetch: int = _MOST_PER_FETCH
    min_fetch_period_s: float = 0.4
    shard_fetch_interval_s: float = 1.0
    max_batch_duration_s: float = 600.0
    retry_timeout_s: float = 60.0
    fail_on_data_loss: bool = True
    keys: Mapping[str, str] | None = None
    role: Mapping[str, str] | None = None

    @property
    def name(self) -> str:
        """What the source is called in messages."""
        return f"kinesis {', '.join(self.streams)}"


def read_options(given: Mapping[str, str]) -> KinesisOptions:
    """The options of a query.

    Args:
        given: As the query writes them; names in any letter case.

    Raises:
        KinesisSourceInvalid: One is unknown, missing, or has a value that it cannot have.
    """
    known = {name.lower(): name for name in _READERS}
    by_name: dict[str, str] = {}
    for option, value in given.items():
        name = known.get(option.lower())
        if name is None:
            raise _unknown(given, option)
        by_name[name] = value
    found: dict[str, Any] = {}
    for name, value in by_name.items():
        field, read = _READERS[name]
        try:
            found[field] = {**found.get(field, {}), name: value} if field in ("keys", "role") else read(value)
        except _Wrong as error:
            raise _invalid(given, f"option {name} {error}", error.fix) from None
    found.pop("", None)  # of consumerMode, which has one value
    if not found.get("streams"):
        raise _invalid(given, "option streamName is missing", '.option("streamName", "orders")')
    if ("awsAccessKey" in by_name) != ("awsSecretKey" in by_name):
        missing = "awsSecretKey" if "awsAccessKey" in by_name else "awsAccessKey"
        fix = f'.option("{missing}", dbutils.secrets.get(...))'
        raise _invalid(given, f"option {missing} is missing: both keys belong together", fix)
    if "role" in found and "roleArn" not in found["role"]:
        raise _invalid(
            given, f"option {next(iter(found['role']))} needs roleArn", '.option("roleArn", "arn:aws:iam::...")'
        )
    return KinesisOptions(**found)


class _Wrong(Exception):
    """A value that an option cannot have, and one that it can."""

    def __init__(self, detail: str, fix: str) -> None:
        super().__init__(detail)
        self.fix = fix


def _invalid(given: Mapping[str, str], detail: str, fix: str) -> KinesisSourceInvalid:
    streams = next((value for key, value in given.items() if key.lower() == "streamname"), "")
    return KinesisSourceInvalid(source=f"kinesis {streams}".strip(), detail=detail, fix=fix)


def _unknown(given: Mapping[str, str], option: str) -> KinesisSourceInvalid:
    reason = _REFUSED.get(option.lower())
    if reason is not None:
        return _invalid(given, f"option {option} is refused: {reason}", f"remove the option {option}")
    return _invalid(given, f"option {option} is unknown", did_you_mean(option, list(_READERS)))


def _streams(value: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.strip() for each in value.split(",") if each.strip()))


def _begin(value: str) -> str | int:
    example = '.option("initialPosition", \'{"at_timestamp": "2026-01-31T12:00:00Z"}\')'
    if value.lower() in _POSITIONS:
        return _POSITIONS[value.lower()]
    try:
        body = json.loads(value)
    except ValueError:
        raise _Wrong("is latest, trim_horizon, earliest, or an object with at_timestamp", example) from None
    if not isinstance(body, dict) or set(body) != {"at_timestamp"}:
        raise _Wrong("is an object with at_timestamp alone, an ISO 8601 time", example)
    try:
        at = datetime.fromisoformat(str(body["at_timestamp"]))
    except ValueError:
        raise _Wrong("has an at_timestamp that is no ISO 8601 time", example) from None
    if at.tzinfo is None:
        raise _Wrong("has an at_timestamp without a time zone", example)
    if at > datetime.now(UTC):
        raise _Wrong("has an at_timestamp in the future", example)
    return int(at.timestamp() * 1000)


def _duration(name: str, least_s: float, example: str) -> Callable[[str], float]:
    def read(value: str) -> float:
        found = _DURATION.fullmatch(value.strip().lower())
        fix = f'.option("{name}", "{example}")'
        if found is None:
            raise _Wrong("is a duration, such as 500ms, 10s or 5m", fix)
        seconds = int(found[1]) * _UNITS[found[2]]
        if seconds < least_s:
            raise _Wrong(f"is at least {least_s:g}s", fix)
        return seconds

    return read


def _records(value: str) -> int:
    if not value.strip().isdecimal() or not 1 <= int(value) <= _MOST_PER_FETCH:
        raise _Wrong(f"is a whole number from 1 to {_MOST_PER_FETCH}", '.option("maxRecordsPerFetch", 10000)')
    return int(value)


def _is_true(value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise _Wrong("is true or false", '.option("failOnDataLoss", "false")')
    return value.lower() == "true"


def _mode(value: str) -> None:
    if value.lower() != "polling":
        raise _Wrong("is polling: enhanced fan-out is not supported", "remove the option consumerMode")


_READERS: Final[dict[str, tuple[str, Callable[[str], Any]]]] = {
    "streamName": ("streams", _streams),
    "region": ("region", str),
    "endpoint": ("endpoint", str),
    "initialPosition": ("begin", _begin),
    "maxRecordsPerFetch": ("max_records_per_fetch", _records),
    "minFetchPeriod": ("min_fetch_period_s", _duration("minFetchPeriod", 0.0, "400ms")),
    "shardFetchInterval": ("shard_fetch_interval_s", _duration("shardFetchInterval", 0.0, "1s")),
    "maxBatchDuration": ("max_batch_duration_s", _duration("maxBatchDuration", 1.0, "10m")),
    "retryTimeout": ("retry_timeout_s", _duration("retryTimeout", 0.0, "60s")),
    "failOnDataLoss": ("fail_on_data_loss", _is_true),
    "consumerMode": ("", _mode),
    "awsAccessKey": ("keys", str),
    "awsSecretKey": ("keys", str),
    "sessionToken": ("keys", str),
    "roleArn": ("role", str),
    "roleExternalId": ("role", str),
    "roleSessionName": ("role", str),
    "stsEndpoint": ("role", str),
}
