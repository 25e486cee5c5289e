"""docs/openapi.yaml describes the service: a running one gives each of its responses."""

import json
import re
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import jsonschema
import yaml

from autopush.api.matrix import MAX_BODY
from autopush.keys import node_keys
from autopush.net.node_auth import REQUEST_HEADER, RESPONSE_HEADER, CallerSession
from autopush.store.tables import router_table
from autopush.webpush.tokens import EndpointTokens, KeyRing, new_key
from keytables.stores import open_engine
from support.application_server import Answer, ApplicationServer, application_server, claims
from support.paths import ROOT
from support.senders import Sender
from support.service import Service, service
from support.user_agent import SimplePushAgent, UserAgent


class NodeCaller:
    """A node that calls another one, whose node ID it has from a router record."""

    def __init__(self, server: ApplicationServer, node_id: str, keys: Sequence[bytes]) -> None:
        parts = urlsplit(node_id)
        self._server = server
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self.base = parts.path
        """What the paths of its calls begin with."""
        self._keys = keys
        self._session: CallerSession | None = None

    async def request(self, method: str, path: str, body: bytes = b"", **headers: str) -> Answer:
        """An authentic call; the response is checked to be authentic too."""
        if self._session is None:
            self._session = session = CallerSession(self._keys, self.base)
            opening, signature = session.opening()
            answer = await self._send("GET", opening, b"", {REQUEST_HEADER: signature})
            proof = answer.headers.get(RESPONSE_HEADER, "")
            session.opened(answer.status, answer.body, proof)
        number, signature = self._session.sign(method, self.base + path, body)
        signed = {**headers, REQUEST_HEADER: signature}
        answer = await self._send(method, self.base + path, body, signed)
        proof = answer.headers.get(RESPONSE_HEADER, "")
        assert self._session.is_authentic(number, answer.status, answer.body, proof)
        return answer

    async def _send(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        return await self._server.request(method, self._origin + path, headers=headers, body=body)


async def node_id_of(data: Path, uaid: str) -> str:
    """The node ID on record of a user agent of a service with the embedded store."""
    engine = await open_engine(f"sqlite://{data}/autopush.sqlite", clock=time.time)
    try:
        table = await engine.open_table(router_table("router"))
        record = await table.get((uaid,))
        assert record is not None
        node_id = record["node_id"]
        assert isinstance(node_id, str)
        return node_id
    finally:
        await engine.close()


DOCUMENT: dict[str, Any] = yaml.load(
    (ROOT / "docs" / "openapi.yaml").read_text("utf-8"), Loader=yaml.CSafeLoader
)
METHODS = {"get", "put", "post", "delete"}
KEY = new_key()
NOBODY = "0" * 31 + "1"

FAILING_STORE = {
    ("put", "/spush/{version}/{token}", "503"),
    ("put", "/spush/{token}", "503"),
    ("delete", "/m/{message_id}", "503"),
    ("get", "/m/{message_id}", "503"),
    ("get", "/r/{token}", "503"),
    ("get", "/r/{token}", "429"),  # with 1,000 requests that wait
    ("post", "/_matrix/push/v1/notify", "503"),
    ("get", "/health", "503"),
    ("get", "/__heartbeat__", "503"),
    *(
        (method, f"/v1/{{type}}/{{app_id}}/registration{rest}", "503")
        for rest, methods in {
            "": ["post"],
            "/{uaid}": ["get", "put", "post", "delete"],
            "/{uaid}/subscription": ["post"],
            "/{uaid}/subscription/{channel_id}": ["delete"],
        }.items()
        for method in methods
    ),
}
"""What only a store that fails, or an overload, brings about: tests of their own do."""


def resolved(node: Any) -> Any:
    """The node, or what it refers to."""
    while "$ref" in node:
        target: Any = DOCUMENT
        for name in node["$ref"].removeprefix("#/").split("/"):
            target = target[name]
        node = target
    return node


def with_definitions(schema: Any) -> dict[str, Any]:
    """A schema that stands by itself."""
    return {**schema, "components": {"schemas": DOCUMENT["components"]["schemas"]}}


def documented() -> Iterator[tuple[str, str, str]]:
    for path, item in DOCUMENT["paths"].items():
        for method in METHODS & item.keys():
            for status in item[method]["responses"]:
                yield method, path, status


class Checked:
    """Sends requests, and holds each response against the document."""

    def __init__(self, server: ApplicationServer, running: Service) -> None:
        self.server = server
        self._running = running
        self.node: NodeCaller | None = None
        """Makes the calls of nodes, once there is one."""
        self.seen: set[tuple[str, str, str]] = set()

    async def __call__(
        self, method: str, path: str, status: int, body: bytes = b"", **headers: str
    ) -> Answer:
        template = matching(path)
        item = DOCUMENT["paths"][template]
        base = self._running.node_api if "servers" in item else self._running.endpoint
        if self.node is not None and path.startswith(self.node.base):
            own_path = path.removeprefix(self.node.base)
            answer = await self.node.request(method.upper(), own_path, body)
        else:
            answer = await self.server.request(
                method.upper(),
                base + path,
                headers={name.replace("_", "-"): value for name, value in headers.items()},
                body=body,
            )
        where = f"{method} {template} {answer.status}"
        assert answer.status == status, (where, answer.body)
        response = resolved(item[method]["responses"][str(status)])
        for name, header in response.get("headers", {}).items():
            if header["required"]:
                jsonschema.validate(answer.headers[name], header["schema"])
        content = response.get("content", {})
        given = answer.headers.get("Content-Type", "").partition(";")[0]
        assert (given in content) if content else not answer.body, where
        if given == "application/json":
            schema = with_definitions(resolved(content[given]["schema"]))
            jsonschema.validate(answer.document, schema)
        self.seen.add((method, template, str(status)))
        return answer


def matching(path: str) -> str:
    """The template with the fewest parameters that the path is one of."""
    templates: list[str] = [
        template
        for template in DOCUMENT["paths"]
        if re.fullmatch(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(template)), path)
    ]
    return min(templates, key=lambda template: template.count("{"))


@asynccontextmanager
async def checked(
    data: Path, options: Sequence[str] = ("--stub-router", "--receipts", "--max-unacked", "1")
) -> AsyncIterator[tuple[Checked, Service]]:
    options = (*options, "--crypto-key", KEY)
    async with service(data, *options) as running, application_server() as server:
        yield Checked(server, running), running


async def pushes(request: Checked, running: Service) -> None:
    agent = await UserAgent.connect(running.websocket)
    await agent.hello()
    channel, endpoint = await agent.register()
    path = urlsplit(endpoint).path
    sender = Sender()
    key = await agent.register(key=sender.key_text)
    signed = urlsplit(key[1]).path
    for each in (path, path.replace("/v1/", "/")):
        await request("post", each, 201, TTL="60")
        await request("post", each, 400)
        await request("post", each, 401, TTL="60", Authorization="vapid t=a.b.c,k=x")
        await request("post", each, 413, b"x" * 5000, TTL="60", Content_Encoding="aes128gcm")
        parts = each.split("/")
        await request("post", "/".join([*parts[:-1], "nonsense"]), 404, TTL="60")
    await request("post", signed, 401, TTL="60")
    token = sender.vapid(claims(key[1]))
    pushed = await request("post", signed, 201, TTL="60", Authorization=token)
    await request("delete", f"/m/{pushed.message_id}", 204)
    await request("delete", "/m/nonsense", 400)
    await agent.unregister(channel)
    for each in (path, path.replace("/v1/", "/")):
        await request("post", each, 410, TTL="60")
    await agent.close()


async def receipts(request: Checked, running: Service) -> None:
    agent = await running.connect()
    path = urlsplit((await agent.register())[1]).path
    pushed = await request("post", path, 201, TTL="60")
    await request("get", f"/m/{pushed.message_id}", 200)
    await request("get", "/m/nonsense", 400)
    for each in (path, path.replace("/v1/", "/")):
        pushed = await request("post", each, 202, TTL="60", Prefer="respond-async")
    await agent.close()
    await request("get", urlsplit(pushed.headers["Location"]).path, 200)
    subscription = urlsplit(pushed.headers["Link"].partition(">")[0].removeprefix("<")).path
    known = (await request("get", subscription, 200)).headers["ETag"]
    await request("get", subscription, 304, If_None_Match=known)
    await request("get", "/r/nonsense", 404)


async def notifications(request: Checked, running: Service) -> None:
    agent = await running.connect()
    pushkey = (await agent.register())[1]
    await agent.close()
    path = "/_matrix/push/v1/notify"
    body = json.dumps({"notification": {"devices": [{"pushkey": pushkey}]}}).encode()
    await request("get", path, 200)
    await request("post", path, 200, body)
    await request("post", path, 400, b"{")
    await request("post", path, 413, b" " * (MAX_BODY + 1))


async def versions(request: Checked, running: Service) -> None:
    agent = await SimplePushAgent.connect(running.websocket)
    await agent.hello()
    _, endpoint = await agent.register()
    path = urlsplit(endpoint).path
    both = (path, path.replace("/v1/", "/"))
    for each in both:
        await request("put", each, 200, b"version=1")
        await request("put", each, 400, b"version=x")
        await request("put", each, 413, b"version=2&data=" + b"x" * 5000)
    await agent.close()
    for each in both:
        await request("put", each, 202, b"version=3")
    tokens = EndpointTokens(KeyRing([KEY]), running.endpoint)
    unknown = urlsplit(tokens.url(NOBODY, str(uuid4()), None)).path
    for each in (unknown.replace("wpush", "spush"), unknown.replace("wpush/v1", "spush")):
        await request("put", each, 410, b"version=1")


async def registrations(request: Checked) -> None:
    base = "/v1/stub/app/registration"

    def body(**members: str) -> bytes:
        return json.dumps(members).encode()

    registered = (await request("post", base, 200, body(token="success-1"))).document
    await request("post", base, 400, b"{")
    await request("post", base, 413, b" " * 20_000)
    bearer = {"Authorization": f"Bearer {registered['secret']}"}
    user = f"{base}/{registered['uaid']}"
    subscribed = await request("post", f"{user}/subscription", 200, b"{}", **bearer)
    channel = f"{user}/subscription/{subscribed.document['channelID']}"
    await request("get", user, 200, b"", **bearer)
    await request("put", user, 200, body(token="success-1"), **bearer)
    await request("post", user, 200, body(token="busy-001"), **bearer)
    endpoint = urlsplit(registered["endpoint"]).path
    for each in (endpoint, endpoint.replace("/v1/", "/")):
        await request("post", each, 503, TTL="60")
    operations = [
        ("get", user),
        ("put", user),
        ("post", user),
        ("post", f"{user}/subscription"),
        ("delete", channel),
        ("delete", user),
    ]
    for method, path in operations:
        await request(method, path, 401, b"{}")
        await request(method, path.replace(registered["uaid"], "nobody"), 410, b"{}", **bearer)
        await request(method, path.replace("/app/", "/other/"), 308, b"{}", **bearer)
        await request(method, path.replace("/stub/", "/none/"), 400, b"{}", **bearer)
    await request("delete", f"{user}/subscription/none", 404, b"", **bearer)
    await request("delete", channel, 200, b"", **bearer)
    await request("delete", user, 200, b"", **bearer)
    for method, path in operations:
        await request(method, path, 410, b"{}", **bearer)


async def limited_rates(data: Path) -> set[tuple[str, str, str]]:
    """What more than one push an hour to an endpoint are answered."""
    async with checked(data, ("--endpoint-rate", "1/h")) as (request, running):
        agent = await UserAgent.connect(running.websocket)
        await agent.hello()
        path = urlsplit((await agent.register())[1]).path
        pushed = await request("post", path, 201, TTL="60")
        for each in (path, path.replace("/v1/", "/")):
            await request("post", each, 429, TTL="60")
        body = json.dumps({"notification": {"devices": [{"pushkey": path}]}}).encode()
        await request("post", "/_matrix/push/v1/notify", 429, body)
        await request("delete", f"/m/{pushed.message_id}", 204)
        await request("delete", f"/m/{pushed.message_id}", 429)
        await agent.close()
        older = await SimplePushAgent.connect(running.websocket)
        await older.hello()
        path = urlsplit((await older.register())[1]).path
        await request("put", path, 200, b"version=1")
        for each in (path, path.replace("/v1/", "/")):
            await request("put", each, 429, b"version=2")
        await older.close()
    return request.seen


async def listed_senders(data: Path) -> set[tuple[str, str, str]]:
    """What senders are answered that are not among those that alone may send."""
    sender, stranger = Sender(), Sender()
    async with checked(data, ("--allowed-senders", sender.key_text)) as (request, running):
        agent = await UserAgent.connect(running.websocket)
        await agent.hello()
        endpoint = (await agent.register())[1]
        path = urlsplit(endpoint).path
        token, other = sender.vapid(claims(endpoint)), stranger.vapid(claims(endpoint))
        await request("post", path, 201, TTL="60", Authorization=token)
        for each in (path, path.replace("/v1/", "/")):
            await request("post", each, 401, TTL="60")
            await request("post", each, 403, TTL="60", Authorization=other)
            await request("put", each.replace("wpush", "spush"), 401, b"version=1")
        await agent.close()
    return request.seen


async def limited_registrations(data: Path) -> set[tuple[str, str, str]]:
    """What more than one new device and one change an hour are answered."""
    rates = ("--new-user-agents-rate", "1/h", "--registration-rate", "1/h")
    options = ("--stub-router", "--trusted-proxies", "none", *rates)
    async with checked(data, options) as (request, _):
        base, body = "/v1/stub/app/registration", b'{"token": "success-1"}'
        registered = (await request("post", base, 200, body)).document
        await request("post", base, 429, body)
        bearer = {"Authorization": f"Bearer {registered['secret']}"}
        user = f"{base}/{registered['uaid']}"
        await request("put", user, 200, body, **bearer)
        await request("put", user, 429, body, **bearer)
        await request("post", user, 429, body, **bearer)
        await request("post", f"{user}/subscription", 429, b"{}", **bearer)
        channel = registered["channelID"]
        await request("delete", f"{user}/subscription/{channel}", 429, b"", **bearer)
        await request("delete", user, 429, b"", **bearer)
        await request("get", user, 200, b"", **bearer)
    return request.seen


async def accounts(data: Path) -> set[tuple[str, str, str]]:
    """What devices without a user's token are answered."""
    async with checked(data, ("--stub-router", "--accounts-required")) as (request, _):
        base, body = "/v1/stub/app/registration", b'{"token": "success-1"}'
        await request("post", base, 401, body)
        await request("post", base, 403, body, Authorization="Bearer " + "x" * 43)
    return request.seen


async def status_pages(request: Checked) -> None:
    for path in ("/status", "/health", "/__heartbeat__", "/__lbheartbeat__", "/__version__"):
        await request("get", path, 200)
    for path in ("/", "/errors"):
        await request("get", path, 200)
    await request("get", "/ws", 426)
    for path in ("/v1/err", "/v1/err/crit", "/__error__"):
        await request("get", path, 418)
    await request("get", "/v1/err/other", 404)


async def calls_of_nodes(request: Checked, running: Service) -> None:
    for path in ("/metrics", "/senders"):
        await request("get", path, 200)
    agent = await UserAgent.connect(running.websocket)
    uaid = (await agent.hello())["uaid"]
    channel, endpoint = await agent.register()
    document = {"channelID": channel, "version": "1", "ttl": 0, "timestamp": int(time.time())}
    body = json.dumps(document).encode()
    keys = node_keys([KEY])
    node = NodeCaller(request.server, await node_id_of(running.data, uaid), keys)
    base = node.base
    await request("put", f"{base}/push/{uaid}", 401, body)
    await request("put", f"{base}/notif/{uaid}", 401)
    await request("get", f"{base}/notif/{uaid}", 401)
    await request("delete", f"{base}/notif/{uaid}/1", 401)
    await request("get", f"{base}/session", 401)
    for instance, status in ((base, 200), ("/i/another", 404)):
        path, signature = CallerSession(keys, instance).opening()
        await request("get", path, status, authorization=signature)
    request.node = node
    await request("put", f"{base}/push/{uaid}", 200, body)
    await request("put", f"{base}/push/{uaid}", 400, b"{")
    await request("put", f"{base}/push/{NOBODY}", 404, b"{}")
    await request("get", f"{base}/notif/{uaid}", 200)
    await request("get", f"{base}/notif/{NOBODY}", 404)
    await request("put", f"{base}/notif/{NOBODY}", 404)
    await request("put", f"{base}/notif/{uaid}", 200)
    await request("post", urlsplit(endpoint).path, 201, TTL="60")
    # Its one message is not acked: it takes no more.
    await request("put", f"{base}/notif/{uaid}", 202)
    await request("put", f"{base}/push/{uaid}", 503, body)
    await request("delete", f"{base}/notif/{uaid}/1", 200)
    await agent.close()


async def test_a_running_service_gives_every_documented_response_in_its_documented_form(
    tmp_path: Path,
) -> None:
    async with checked(tmp_path) as (request, running):
        await pushes(request, running)
        await receipts(request, running)
        await notifications(request, running)
        await versions(request, running)
        await registrations(request)
        await status_pages(request)
        await calls_of_nodes(request, running)
    seen = set(request.seen)
    for limited in (limited_rates, listed_senders, limited_registrations, accounts):
        seen |= await limited(tmp_path)
    assert set(documented()) - FAILING_STORE - seen == set()
