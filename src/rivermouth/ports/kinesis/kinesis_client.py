"""Calls of Kinesis by boto3: tried again while Kinesis throttles, and its errors as typed ones."""

from __future__ import annotations

import importlib
import importlib.util
import random
import threading
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Any, Final

from rivermouth.domain.kinesis.options import KinesisOptions
from rivermouth.errors import KinesisClientMissing, KinesisSourceUnreadable, KinesisThrottled

_THROTTLES: Final = frozenset(
    [
        "ProvisionedThroughputExceededException",
        "LimitExceededException",
        "ThrottlingException",
        "Throttling",
        "RequestLimitExceeded",
        "KMSThrottlingException",
    ]
)
_FIRST_WAIT_S: Final = 0.2
_LONGEST_WAIT_S: Final = 5.0
_SERVER_ERROR: Final = 500
_CREDENTIALS: Final = '.option("awsAccessKey", ...).option("awsSecretKey", ...) by dbutils.secrets.get, or AWS_PROFILE'
_REFUSALS: Final = {
    "AccessDeniedException": "has no permission",
    "AccessDenied": "has no permission",
    "UnrecognizedClientException": "has keys that Amazon does not know",
    "InvalidClientTokenId": "has keys that Amazon does not know",
    "IncompleteSignatureException": "has keys that Amazon does not take",
    "InvalidSignatureException": "has keys that Amazon does not take",
    "SignatureDoesNotMatch": "has keys that Amazon does not take",
    "MissingAuthenticationTokenException": "has keys that Amazon does not take",
    "ExpiredTokenException": "has a session token that has expired",
    "ExpiredToken": "has a session token that has expired",
}
_EXPIRED: Final = ("ExpiredTokenException", "ExpiredToken")
_ABOUT_PLACES: Final = frozenset(["ResourceNotFoundException", "InvalidArgumentException", "ExpiredIteratorException"])


class CallRefused(Exception):
    """Kinesis does not know a stream, a shard or a place in it.

    Attributes:
        code: Amazon's.
    """

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class KinesisClient:
    """Calls Kinesis for a query. Several threads may use it.

    Args:
        options: Of the query.
        where: The machine on which boto3 is missing, for messages.

    Raises:
        KinesisClientMissing: boto3 is not installed.
        KinesisSourceUnreadable: No region is known.

    Attributes:
        now_ms: Kinesis' own time at its last answer, in ms since 1970; 0 before the first.
    """

    def __init__(self, options: KinesisOptions, where: str = "") -> None:
        if importlib.util.find_spec("boto3") is None:
            raise KinesisClientMissing(source=options.name, where=where)
        self.options = options
        self.now_ms = 0
        self._lock = threading.Lock()
        self._next_fetch: dict[tuple[str, str], float] = {}
        self._client = self._made()

    def call(self, operation: str, stream: str, **arguments: Any) -> dict[str, Any]:
        """The answer of one operation, for example ``list_shards``.

        Args:
            operation: Its name in boto3.
            stream: For messages.
            **arguments: Of the operation.

        Raises:
            CallRefused: Kinesis does not know what is asked for.
            KinesisThrottled: There are too many calls, for longer than ``retry_timeout_s``.
            KinesisSourceUnreadable: Kinesis does not answer, or refuses who asks.
        """
        started, tries, renewed = time.monotonic(), 0, False
        while True:
            tries += 1
            code, status = self._tried(operation, arguments)
            if isinstance(code, dict):
                return code
            if code in _EXPIRED and self.options.role and not renewed:
                self._client, renewed = self._made(), True
                continue
            is_throttled = code in _THROTTLES
            if not is_throttled and code and status < _SERVER_ERROR:
                raise self._refused(stream, code)
            waited = time.monotonic() - started
            if waited >= self.options.retry_timeout_s:
                source = f"kinesis {stream}"
                if is_throttled:
                    call = _name(operation)
                    raise KinesisThrottled(source=source, call=call, seconds=round(waited), tries=tries)
                raise KinesisSourceUnreadable(source=source, detail=self._silence(code), fix=self._reach())
            longest = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2 ** (tries - 1))
            time.sleep(min(random.uniform(longest / 2, longest), self.options.retry_timeout_s - waited))  # noqa: S311

    def fetch(self, stream: str, shard: str, iterator: str, limit: int) -> dict[str, Any]:
        """Records of a shard. Waits so long that calls for one shard are ``min_fetch_period_s`` apart.

        Raises:
            CallRefused: As ``call``; with ``ExpiredIteratorException`` where the iterator is too old.
            KinesisThrottled: As ``call``.
            KinesisSourceUnreadable: As ``call``.
        """
        with self._lock:
            now = time.monotonic()
            at = max(now, self._next_fetch.get((stream, shard), 0.0))
            self._next_fetch[stream, shard] = at + self.options.min_fetch_period_s
        time.sleep(at - now)
        return self.call("get_records", stream, ShardIterator=iterator, Limit=limit)

    def _tried(self, operation: str, arguments: dict[str, Any]) -> tuple[dict[str, Any] | str, int]:
        """An answer; or the code of an error with its HTTP status, empty where nobody answers."""
        exceptions = importlib.import_module("botocore.exceptions")
        try:
            found: dict[str, Any] = getattr(self._client, operation)(**arguments)
        except exceptions.ClientError as error:
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            return str(error.response["Error"]["Code"]), status
        except (exceptions.NoCredentialsError, exceptions.PartialCredentialsError, exceptions.CredentialRetrievalError):
            return _NO_CREDENTIALS, 0
        except (exceptions.HTTPClientError, exceptions.BotoCoreError):
            return "", 0
        if date := found["ResponseMetadata"]["HTTPHeaders"].get("date"):
            self.now_ms = int(parsedate_to_datetime(date).timestamp() * 1000)
        return found, 0

    def _refused(self, stream: str, code: str) -> Exception:
        source = f"kinesis {stream}"
        if code == _NO_CREDENTIALS:
            detail = "there are no credentials in the options, in the environment, in a profile or of this machine"
            return KinesisSourceUnreadable(source=source, detail=detail, fix=_CREDENTIALS)
        if code in _REFUSALS:
            detail = f"Amazon answers {code}: who reads it {_REFUSALS[code]}"
            fix = _CREDENTIALS
            if "permission" in _REFUSALS[code]:
                fix = "allow DescribeStreamSummary, ListShards, GetShardIterator and GetRecords of kinesis"
            return KinesisSourceUnreadable(source=source, detail=detail, fix=fix)
        if code in _ABOUT_PLACES:
            return CallRefused(code)
        fix = "correct the options of the source, or what its stream is encrypted with"
        return KinesisSourceUnreadable(source=source, detail=f"Kinesis refuses it with {code}", fix=fix)

    def _silence(self, code: str) -> str:
        place = self.options.endpoint or f"Kinesis of {self.options.region or 'the region'}"
        return f"{place} answers with {code}" if code else f"{place} gives no answer"

    def _reach(self) -> str:
        streams, region = self.options.streams[0], self.options.region
        command = f"aws kinesis describe-stream-summary --stream-name {streams}"
        command += f" --region {region}" if region else ""
        return command + (f" --endpoint-url {self.options.endpoint}" if self.options.endpoint else "")

    def _made(self) -> Any:
        boto3 = importlib.import_module("boto3")
        exceptions = importlib.import_module("botocore.exceptions")
        config = importlib.import_module("botocore.config").Config(
            retries={"mode": "standard", "total_max_attempts": 1}
        )
        options, keys = self.options, self.options.keys or {}
        login = _login(keys.get("awsAccessKey"), keys.get("awsSecretKey"), keys.get("sessionToken"))
        session = boto3.session.Session(region_name=options.region)
        source = options.name
        try:
            if options.role:
                login = _assumed(session, options.role, login, config)
            return session.client("kinesis", endpoint_url=options.endpoint, config=config, **login)
        except exceptions.NoRegionError:
            detail = "no region is known, by the option region or by AWS_REGION"
            fix = '.option("region", "eu-central-1")'
            raise KinesisSourceUnreadable(source=source, detail=detail, fix=fix) from None
        except ValueError:
            detail, fix = (
                "its endpoint is no address",
                '.option("endpoint", "https://kinesis.eu-central-1.amazonaws.com")',
            )
            raise KinesisSourceUnreadable(source=source, detail=detail, fix=fix) from None
        except exceptions.ClientError as error:
            code = error.response["Error"]["Code"]
            detail = f"Amazon answers {code}: the role of roleArn cannot be assumed"
            fix = "allow sts:AssumeRole of the role to who reads"
            raise KinesisSourceUnreadable(source=source, detail=detail, fix=fix) from None
        except exceptions.NoCredentialsError:
            raise self._refused(", ".join(options.streams), _NO_CREDENTIALS) from None
        except (exceptions.HTTPClientError, exceptions.EndpointConnectionError):
            detail, fix = "the service that gives roles does not answer", "correct the option stsEndpoint"
            raise KinesisSourceUnreadable(source=source, detail=detail, fix=fix) from None


_NO_CREDENTIALS: Final = "no credentials"


def _login(key: str | None, secret: str | None, token: str | None) -> dict[str, str | None]:
    return {"aws_access_key_id": key, "aws_secret_access_key": secret, "aws_session_token": token}


def _assumed(session: Any, role: Any, login: dict[str, str | None], config: Any) -> dict[str, str | None]:
    """The keys of a role, which hold for an hour."""
    client: Callable[..., Any] = session.client
    sts = client("sts", endpoint_url=role.get("stsEndpoint"), config=config, **login)
    external = {"ExternalId": role["roleExternalId"]} if "roleExternalId" in role else {}
    name = role.get("roleSessionName", "rivermouth")
    found = sts.assume_role(RoleArn=role["roleArn"], RoleSessionName=name, **external)["Credentials"]
    return _login(found["AccessKeyId"], found["SecretAccessKey"], found["SessionToken"])


def _name(operation: str) -> str:
    return "".join(part.capitalize() for part in operation.split("_"))
