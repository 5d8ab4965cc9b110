"""The handle on a Kafka cluster: requests within a bound, and Kafka's errors as ours.

librdkafka retries for ever and reports refused credentials by a callback, not as the answer of the request that waits.
Here a request ends: with its answer, with a refusal as soon as one is known, or at the bound.
"""

from __future__ import annotations

import concurrent.futures
import logging
import re
import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from rivermouth.domain.kafka.kafka_options import iam_login
from rivermouth.domain.kafka.librdkafka_options import client_options
from rivermouth.errors import (
    BrokerUnreachable,
    KafkaOptionRefused,
    KafkaRefused,
    RivermouthError,
    SecurityProtocolWrong,
    TokenNotMade,
)
from rivermouth.ports.kafka import kafka_reach
from rivermouth.ports.kafka.msk_iam import TokenSource

Key = TypeVar("Key", bound=Hashable)

# Kafka's names of errors that more waiting does not mend.
_REFUSALS: Final = frozenset(
    {
        "_AUTHENTICATION",
        "_SSL",
        "SASL_AUTHENTICATION_FAILED",
        "ILLEGAL_SASL_STATE",
        "UNSUPPORTED_SASL_MECHANISM",
    }
)
# Those of a request that found nobody to answer it.
_UNREACHABLE: Final = frozenset(
    {
        "_TIMED_OUT",
        "_TIMED_OUT_QUEUE",
        "_TRANSPORT",
        "_RESOLVE",
        "_ALL_BROKERS_DOWN",
        "REQUEST_TIMED_OUT",
        "BROKER_NOT_AVAILABLE",
    }
)
# Of a listener without login, about a client that logs in.
_NO_LOGIN: Final = "Request not valid in current SASL state"
# How often events are looked at while a request is under way; its answer itself wakes the wait at once.
_SLICE_S: Final = 0.05
_DEFAULTS: Final = {"client.id": "rivermouth"}
_RECONNECT_MS: Final = "1000"
_CLOSES: Final = "it closes the connection without an answer"
# Bound on finding out why nobody answered.
_LOOK_S: Final = 1.0


class KafkaClient:
    """One librdkafka admin handle, made at the first request; several threads may share it.

    Args:
        bootstrap_servers: ``host:port``, several are separated by commas.
        options: Options as a user writes them, in the Java client's words, references already expanded.
        timeout_s: Bound on each request, in seconds.

    Raises:
        KafkaOptionRefused: An option that may not be set.
        KafkaClientUnable: A security option that librdkafka cannot take.
        MskSignerMissing: IAM is wanted, and the library for it is not installed.
    """

    def __init__(self, bootstrap_servers: str, options: Mapping[str, str], timeout_s: float) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.timeout_s = timeout_s
        self._options = client_options(options)
        login = iam_login(options)
        self._tokens = None if login is None else TokenSource(bootstrap_servers, login)
        self._lock = threading.Lock()
        self._admin: AdminClient | None = None
        self._refusal: KafkaError | None = None
        self._suspicion: str | None = None
        self._asked = False

    @property
    def config(self) -> dict[str, Any]:
        """What librdkafka is given; holds secrets, so never print it."""
        # A broker that comes up within the bound must be found within it; librdkafka waits up to 10 s.
        hasty = {} if "reconnect.backoff.ms" in self._options else {"reconnect.backoff.max.ms": _RECONNECT_MS}
        return {
            **_DEFAULTS,
            **hasty,
            **self._options,
            **({} if self._tokens is None else {"oauth_cb": self._tokens}),
            "bootstrap.servers": self.bootstrap_servers,
            "error_cb": self._on_error,
            "logger": _ClientLines(self._on_line),
        }

    @property
    def admin(self) -> AdminClient:
        """The admin handle.

        Raises:
            KafkaOptionRefused: librdkafka does not take one of the options.
            TokenNotMade: There are no credentials for a token of IAM.
        """
        with self._lock:
            if self._admin is None:
                if self._tokens is not None:
                    # librdkafka would wait for one, and then not say what is wrong.
                    self._tokens.check()
                self._refusal = self._suspicion = None
                self._asked = False
                try:
                    self._admin = AdminClient(self.config)
                except KafkaException as error:
                    if self._tokens is not None and self._tokens.failure is not None:
                        raise TokenNotMade(detail=self._tokens.failure) from error
                    raise option_refused(error) from None
            return self._admin

    def close(self) -> None:
        """Ends the connections. A later request opens new ones."""
        with self._lock:
            self._admin = None

    def answers(
        self, futures: Mapping[Key, concurrent.futures.Future[Any]], request: str
    ) -> dict[Key, Any | KafkaError]:
        """The answers to one admin call: for each key its result, or the broker's error about that key.

        Args:
            futures: As the admin handle returned them.
            request: What was asked, for error texts; no secrets.

        Raises:
            BrokerUnreachable: No answer within ``timeout_s``.
            KafkaRefused: The broker does not let this client in.
        """
        self._wait(set(futures.values()), request)
        results: dict[Key, Any | KafkaError] = {}
        for key, future in futures.items():
            error = future.exception()
            if error is None:
                results[key] = future.result()
            elif isinstance(error, KafkaException) and isinstance(error.args[0], KafkaError):
                results[key] = self._about_key(error.args[0], request)
            else:
                raise KafkaRefused(request=request, detail=type(error).__name__) from error
        return results

    def all_names(self) -> list[str]:
        """The names of all topics that this client may see, sorted; internal ones among them.

        Raises:
            BrokerUnreachable: No answer within ``timeout_s``.
            KafkaRefused: The broker does not let this client in.
        """
        # The metadata call blocks without looking at events, so the door is tried with one that does not.
        self.answers({None: self.admin.describe_cluster(request_timeout=self.timeout_s)}, "the list of topics")
        try:
            return sorted(self.admin.list_topics(timeout=self.timeout_s).topics)
        except KafkaException as error:
            raise self.failure(error.args[0], "the list of topics") from error

    def cluster_id(self) -> str | None:
        """The cluster's id; None where the service has none.

        Raises:
            BrokerUnreachable: No answer within ``timeout_s``.
            KafkaRefused: The broker does not let this client in.
        """
        futures = {None: self.admin.describe_cluster(request_timeout=self.timeout_s)}
        answer = self.answers(futures, "the id of the cluster")[None]
        if isinstance(answer, KafkaError):
            raise self.failure(answer, "the id of the cluster")
        found: str | None = answer.cluster_id
        return found or None

    def failure(self, error: KafkaError, request: str) -> RivermouthError:
        """Kafka's error as ours; to be raised by the caller."""
        if error.name() in _UNREACHABLE:
            return self.unanswered(request)
        return self._refused(error, request)

    def _refused(self, error: KafkaError, request: str) -> RivermouthError:
        protocol = self._protocol()
        if _NO_LOGIN in error.str() and protocol.startswith("SASL_"):
            server, right = self.bootstrap_servers, protocol.removeprefix("SASL_")
            return SecurityProtocolWrong(server=server, speaks="asks for no login", protocol=protocol, right=right)
        return KafkaRefused(request=request, detail=plain(error))

    def _protocol(self) -> str:
        return str(self._options.get("security.protocol", "plaintext")).upper()

    def unanswered(self, request: str) -> RivermouthError:
        """Why nobody answered, as an error to be raised by the caller; looks at the addresses with plain sockets."""
        if self._tokens is not None and self._tokens.failure is not None:
            return TokenNotMade(detail=self._tokens.failure)
        if self._refusal is not None:
            return self._refused(self._refusal, request)
        found = kafka_reach.look(self.bootstrap_servers, timeout_s=min(self.timeout_s, _LOOK_S))
        wrong = self._wrong_protocol(found)
        if wrong is not None:
            return wrong
        if self._suspicion is not None and any(each.kind in {"tls", "answers"} for each in found):
            return KafkaRefused(request=request, detail=self._suspicion)
        whole = int(self.timeout_s) == self.timeout_s
        bound_s = int(self.timeout_s) if whole else self.timeout_s
        reason, fix = kafka_reach.why(found)
        servers = self.bootstrap_servers
        return BrokerUnreachable(bootstrap_servers=servers, timeout_s=bound_s, reason=reason, fix=fix)

    def _wrong_protocol(self, found: Sequence[kafka_reach.Reach]) -> SecurityProtocolWrong | None:
        protocol = self._protocol()
        login, secure = protocol.startswith("SASL_"), protocol.endswith("SSL")
        for each in found:
            if each.kind == "tls" and not secure:
                speaks, right = "speaks TLS", "SASL_SSL" if login else "SSL"
            elif each.kind == "answers" and secure:
                speaks, right = "does not speak TLS", "SASL_PLAINTEXT" if login else "PLAINTEXT"
            elif each.kind == "answers" and self._suspicion == _CLOSES and not login:
                speaks, right = "closes the connection of a client without login", "SASL_PLAINTEXT"
            else:
                continue
            return SecurityProtocolWrong(server=each.server, speaks=speaks, protocol=protocol, right=right)
        return None

    def _wait(self, pending: set[concurrent.futures.Future[Any]], request: str) -> None:
        deadline = time.monotonic() + self.timeout_s
        self.admin.poll(0)
        if self._asked:
            # What happened between two requests says nothing about the second. A new handle fetches its first token at
            # once, and the next one only after 10 s: that one's fate is the first request's.
            self._refusal = self._suspicion = None
        self._asked = True
        while pending:
            left_s = deadline - time.monotonic()
            _done, pending = concurrent.futures.wait(pending, timeout=max(0.0, min(_SLICE_S, left_s)))
            if pending:
                self.admin.poll(0)
                if self._refusal is not None:
                    raise self.failure(self._refusal, request)
                if left_s <= 0:
                    raise self.unanswered(request)
        self.admin.poll(0)

    def _about_key(self, error: KafkaError, request: str) -> KafkaError:
        if error.name() in _UNREACHABLE | _REFUSALS:
            raise self.failure(error, request)
        return error

    def _on_error(self, error: KafkaError) -> None:
        if self._tokens is not None and self._tokens.failure is not None:
            # The last token may still be good, and the next one may be made.
            return
        if error.name() in _REFUSALS:
            self._refusal = error
        elif "listener?" in error.str() or ": SSL alert number" in error.str():
            self._suspicion = plain(error)
        elif "Connect to" in error.str():
            # It is down, whatever it did before.
            self._suspicion = None

    def _on_line(self, line: str) -> None:
        # The only trace of a client that talks plainly to a listener that wants a login. May also be a broker
        # that is going down: believed only if nothing better follows until the bound.
        if "Disconnected: connection closed by peer" in line and self._suspicion is None:
            self._suspicion = _CLOSES


def plain(error: KafkaError) -> str:
    """Kafka's own words, without the parts that differ from time to time; they hold no secrets."""
    text = re.sub(r"\s*\(after \d+ms in state [^)]*\)", "", error.str())
    return re.sub(r"^(\w+://\S+?|Unable to produce message): ", "", text)


def option_refused(error: KafkaException) -> RivermouthError:
    """An option that librdkafka did not take, as our error: its name and never its value."""
    text = error.args[0].str() if error.args and isinstance(error.args[0], KafkaError) else ""
    found = re.search(r'configuration property[: ]+"([^"]+)"', text) or re.search(r'property "([^"]+)"', text)
    unknown = text.startswith("No such configuration property")
    return KafkaOptionRefused(
        option=found.group(1) if found else "kafka.options",
        reason="the client does not know it" if unknown else "the client cannot use its value",
        fix="remove it from kafka: options" if unknown else "correct its value in kafka: options",
    )


class _ClientLines(logging.LoggerAdapter[logging.Logger]):
    """Where librdkafka's own lines go: the logger ``rivermouth.kafka``, all at debug level.

    What matters in them reaches the user as a typed error; raw lines must not run over a progress display.
    """

    def __init__(self, on_line: Callable[[str], None]) -> None:
        super().__init__(logging.getLogger("rivermouth.kafka"), {})
        self._on_line = on_line

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Logs the line at debug level, whatever level librdkafka gave it."""
        del level
        self._on_line(" ".join(str(arg) for arg in args))
        super().log(logging.DEBUG, msg, *args, **kwargs)
