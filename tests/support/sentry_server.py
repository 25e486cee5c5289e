"""Sentry's endpoint for envelopes, for tests."""

import json
from typing import Any, Self

from support.collecting_server import Collected, CollectingServer

KEY = "0123456789abcdef0123456789abcdef"
PROJECT = "7"


class SentryServer:
    """`status`: what envelopes are answered."""

    def __init__(self) -> None:
        self.status = 200
        self.server = CollectingServer(self._respond)

    def __enter__(self) -> Self:
        self.server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.__exit__()

    @property
    def dsn(self) -> str:
        return f"http://{KEY}@127.0.0.1:{self.server.port}/{PROJECT}"

    @property
    def text(self) -> str:
        """All that was received."""
        return "".join(request.body.decode() for request in self.server.requests)

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events received so far, without reports of the SDK about itself."""
        found = []
        for request in self.server.requests:
            lines = [json.loads(line) for line in request.body.splitlines() if line]
            found += [
                body
                for head, body in zip(lines[1::2], lines[2::2], strict=True)
                if head["type"] == "event"
            ]
        return found

    @property
    def exceptions(self) -> list[tuple[str, str]]:
        """Type and text of the exception of each event."""
        last = [event["exception"]["values"][-1] for event in self.events]
        return [(each["type"], each["value"]) for each in last]

    def _respond(self, request: Collected) -> tuple[int, bytes]:
        assert request.path == f"/api/{PROJECT}/envelope/"
        assert f"sentry_key={KEY}" in request.headers["x-sentry-auth"]
        return self.status, b"{}"
