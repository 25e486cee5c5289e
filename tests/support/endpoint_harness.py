"""The endpoint and a connection node: one whole worker without sockets."""

import json
from collections.abc import Mapping, Sequence
from functools import cache

from autopush.admission import AccountLimits
from autopush.api.app import CommonHeaders, EndpointApp, ListedClients
from autopush.api.matrix import MatrixGateway
from autopush.api.pages import Pages
from autopush.api.push import DeleteHandler, PushHandler, PushMetrics, SimplePushHandler
from autopush.api.receipts import ReceiptHandler
from autopush.api.registration import RegistrationHandler
from autopush.api.request_log import RequestLog
from autopush.api.responses import ErrorResponses
from autopush.api.status_pages import LogCheck
from autopush.delivery.bridge_contract import Router
from autopush.delivery.bridged import Bridges
from autopush.delivery.placement import Placement
from autopush.delivery.router import UserAgentRouter
from autopush.limits import GoneLimits, LimitRefusals, PushLimits, StoredLimits, TokenBuckets
from autopush.net.client_limits import ConnectionLimits, TrustedProxies
from autopush.net.http_messages import Request, Response
from autopush.settings.value_types import Rate
from autopush.webpush.errors import Errno
from autopush.webpush.tokens import EndpointTokens, RegistrationSecrets
from autopush.webpush.vapid import Verifier
from support.connection_harness import CHANNEL, ENDPOINT, ERRORS, UAID, Harness

WEBSOCKET = "wss://push.example/"
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


IMPLIED = {
    401: ("www-authenticate", "vapid"),
    410: ("cache-control", "max-age=86400"),
    503: ("retry-after", "120"),
}


def refusal(response: Response) -> tuple[int, int]:
    """Status and errno of a refusal, which must have the documented shape in every point."""
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
    for status, (name, value) in IMPLIED.items():
        is_implied = response.status == status and document["errno"] != Errno.RETRY
        assert headers.get(name) == (value if is_implied else None)
    return response.status, document["errno"]


class Endpoint:
    """Asked with method, path, headers (lower-case names) and body."""

    def __init__(
        self,
        harness: Harness,
        *,
        cors: bool = True,
        hsts_max_age: int = 0,
        max_requests: int = 100,
        new_user_agents_rate: Rate | None = None,
        store_first: bool = True,
        routers: Mapping[str, Router] | None = None,
        auth_keys: Sequence[str] = ("auth-key",),
        limits: PushLimits | None = None,
        stored_limits: StoredLimits | None = None,
        changes_rate: Rate | None = None,
        clients: ListedClients | None = None,
        matrix: bool = True,
        gone: GoneLimits | None = None,
        receipt_rate: Rate | None = None,
        max_waiting: int = 10,
        accounts: AccountLimits | None = None,
        trusted_proxies: Sequence[str] = (),
    ) -> None:
        self.harness = harness
        self.tokens = EndpointTokens(harness.ring, ENDPOINT)
        errors = ErrorResponses(ERRORS)
        self.requests = RequestLog(
            self.tokens,
            errors,
            harness.store.uaid_hash,
            ami_id="ami-1",
            certificate_fields=clients.log_fields if clients else None,
            monotonic=harness.clock,
        )
        headers = CommonHeaders(cors=cors, hsts_max_age=hsts_max_age)
        self.secrets = RegistrationSecrets(auth_keys)
        self.bridges = bridges = Bridges(routers or {}, harness.store, harness.metrics)
        router = UserAgentRouter(
            harness.store,
            harness.registry,
            harness.nodes,
            bridges,
            harness.metrics,
            store_first=store_first,
            limits=stored_limits,
            ack_timeout=0.02,
        )
        refusals = LimitRefusals(harness.metrics)
        limits = limits or PushLimits(refusals)
        self.receipts = ReceiptHandler(
            harness.store,
            self.tokens,
            harness.clock,
            refusals,
            ConnectionLimits(),
            rate=receipt_rate,
            max_waiting=max_waiting,
            poll_interval=0.01,
        )
        metrics = PushMetrics(harness.metrics)
        pushes = PushHandler(
            tokens=self.tokens,
            verifier=Verifier(ENDPOINT),
            router=router,
            bridges=bridges,
            limits=limits,
            gone=gone or GoneLimits(refusals, None),
            ring=harness.ring,
            ids=harness.ids,
            clock=harness.clock,
            metrics=metrics,
            requests=self.requests,
            max_ttl=MAX_TTL,
            max_data=MAX_DATA,
            block=headers.push,
            receipts=self.receipts,
        )
        self.app = EndpointApp(
            push=pushes,
            simplepush=SimplePushHandler(
                tokens=self.tokens,
                limits=limits,
                router=router,
                clock=harness.clock,
                metrics=metrics,
                requests=self.requests,
                max_data=MAX_DATA,
                block=headers.simplepush,
            ),
            receipts=self.receipts,
            delete=DeleteHandler(harness.store, limits, harness.ring, headers.delete),
            registration=RegistrationHandler(
                routers=bridges.routers,
                store=harness.store,
                nodes=harness.nodes,
                placement=Placement(harness.store),
                tokens=self.tokens,
                secrets=self.secrets,
                metrics=harness.metrics,
                proxies=TrustedProxies(trusted_proxies),
                new_user_agents=TokenBuckets(new_user_agents_rate),
                changes_rate=changes_rate,
                refusals=refusals,
                accounts=accounts,
            ),
            dockerflow=harness.status_pages(),
            log_check=LogCheck(errors, self.requests, TokenBuckets(None), refusals),
            pages=pages(),
            requests=self.requests,
            headers=headers,
            clients=clients,
            websocket_url=WEBSOCKET,
            max_requests=max_requests,
            matrix=MatrixGateway(harness.metrics, max_data=MAX_DATA) if matrix else None,
        )

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
        answer = await self.app(request)
        assert isinstance(answer, Response)
        return answer

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
