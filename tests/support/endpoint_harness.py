"""The endpoint and a connection node: one whole worker without sockets."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from autopush.api.pages import Pages
from autopush.delivery.bridge_contract import Router
from autopush.net.http_messages import Answer, Request, Response, Upgrade
from autopush.service.compose import compose
from autopush.webpush.errors import Errno
from support.connection_harness import CHANNEL, ENDPOINT, ERRORS, UAID, WEBSOCKET, Harness

MAX_TTL, MAX_DATA = 2_592_000, 4096
AES128GCM = {"ttl": "60", "content-encoding": "aes128gcm"}


@cache
def pages() -> Pages:
    """Rendered once: they are the same for all."""
    return Pages(endpoint_url=ENDPOINT, websocket_url=WEBSOCKET)


def headers_of(response: Response) -> dict[str, str]:
    """All headers of a response by lower-case name; none may occur twice."""
    lines = [line.split(": ", 1) for line in str(response.block).splitlines()]
    pairs = [(name.lower(), value) for name, value in (*response.headers, *lines)]
    assert len(dict(pairs)) == len(pairs), "a header occurs twice"
    if response.content_type is not None:
        pairs.append(("content-type", response.content_type))
    return dict(pairs)


IMPLIED = {410: ("cache-control", "max-age=86400"), 503: ("retry-after", "120")}


def refusal(response: Response, scheme: str = "vapid") -> tuple[int, int]:
    """Status and errno of a refusal, which must have the documented shape in every point. `scheme`:
    of the challenge of a 401.
    """
    document = json.loads(response.body)
    headers = headers_of(response)
    assert headers["content-type"] == "application/json"
    assert document["code"] == response.status
    assert document.keys() - {"errors"} == {"code", "errno", "error", "message", "more_info"}
    assert isinstance(document["errno"], int)
    assert all(document[name] for name in ("error", "message"))
    assert document["more_info"] == f"{ERRORS}#errno-{document['errno']}"
    if response.status == 429:
        assert int(headers.pop("retry-after")) > 0
    if response.status == 502 and "retry-after" in headers:  # an outage of a bridge
        assert int(headers.pop("retry-after")) > 0
    for status, (name, value) in {**IMPLIED, 401: ("www-authenticate", scheme)}.items():
        is_implied = response.status == status and document["errno"] != Errno.RETRY
        assert headers.get(name) == (value if is_implied else None)
    return response.status, document["errno"]


class Endpoint:
    """The endpoint of a harness or, if that has none, one beside its connection node, composed as
    in production. Asked with method, path, headers (lower-case names) and body.
    """

    def __init__(
        self,
        harness: Harness,
        *,
        routers: Mapping[str, Router] | None = None,
        auth_keys: Sequence[str] = ("auth-key",),
        store_first: bool = True,
        **options: Any,
    ) -> None:
        """`options`: of the settings, in place of those of the harness."""
        self.harness = harness
        harness.status_pages()  # the worker serves
        delivery = "store-first" if store_first else "bypass"
        chosen = {"direct_delivery": delivery, "receipts": harness.store.receipts is not None}
        settings = replace(harness.parts.settings, command="endpoint", **{**chosen, **options})
        io = replace(
            harness.io,
            store=harness.store,
            keys=replace(harness.io.keys, auth=tuple(auth_keys)),
            make_nodes=lambda *_, **__: harness.nodes,
            make_routers=lambda *_: routers or {},
        )
        self.parts = harness.parts
        if self.parts.endpoint is None:
            self.parts = compose(settings, io, harness.registry)
        assert self.parts.endpoint is not None
        self.app, self.bridges = self.parts.endpoint.app, self.parts.endpoint.bridges
        self.router, self.receipts = self.parts.endpoint.router, self.parts.endpoint.receipts
        self.tokens, self.requests = self.parts.tokens, self.parts.requests
        self.secrets = self.app.registration.secrets
        self.router.ack_timeout = 0.02
        self.receipts.max_waiting = 10
        if self.receipts._polls is not None:
            self.receipts._polls._interval = 0.01
        self.app.push.ids = harness.ids

    async def ask(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        certificate: bytes = b"",
    ) -> Response:
        request = Request(method, path, "", dict(headers or {}), "::1", body=body)
        request.certificate = certificate
        answer = await self.handle(request)
        assert isinstance(answer, Response)
        return answer

    async def handle(self, request: Request) -> Answer:
        answer = self.app(request)
        return answer if isinstance(answer, Response | Upgrade) else await answer

    def path(self, uaid: str = UAID, channel: str = CHANNEL, key: bytes | None = None) -> str:
        """The path of a channel's endpoint."""
        return self.tokens.url(uaid, channel, key).removeprefix(ENDPOINT)

    async def push(
        self,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        uaid: str = UAID,
        channel: str = CHANNEL,
        key: bytes | None = None,
    ) -> Response:
        """Send a message; without `headers`, with a TTL of a minute."""
        path = self.path(uaid, channel, key)
        return await self.ask("POST", path, AES128GCM if headers is None else headers, body)
