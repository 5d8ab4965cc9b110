"""Messages to people and services, by Apprise."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from typing import Any

from rivermouth.errors import NotificationFailed, NotifierMissing, SinkOptionRefused


class Notifier:
    """Sends messages to all addresses of a sink.

    Args:
        sink: Named in errors.
        urls: Addresses in Apprise's notation. They may hold tokens, and are in no message.

    Raises:
        NotifierMissing: Apprise is not installed.
        SinkOptionRefused: Apprise does not know an address.
    """

    def __init__(self, sink: str, urls: Sequence[str]) -> None:
        if importlib.util.find_spec("apprise") is None:
            raise NotifierMissing(sink=sink)
        apprise = importlib.import_module("apprise")
        self._sink = sink
        self._services: list[Any] = []
        for place, url in enumerate(urls, 1):
            service = apprise.Apprise.instantiate(url)
            if service is None:
                detail = f"has an address that Apprise does not know: the {_ordinal(place)}"
                fix = "https://github.com/caronc/apprise/wiki lists addresses: slack://..., mailto://..., json://..."
                raise SinkOptionRefused(sink=sink, option="urls", detail=detail, fix=fix)
            self._services.append(service)

    def send(self, title: str, body: str) -> None:
        """Sends one message to each address.

        Raises:
            NotificationFailed: A service did not take it; those before it have it.
        """
        for service in self._services:
            if not service.notify(body=body, title=title):
                raise NotificationFailed(sink=self._sink, service=str(service.service_name))


def _ordinal(place: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(place, f"{place}th")
