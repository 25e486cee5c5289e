"""A Slack of our own: a process that serves a workspace over HTTP, as the Web API does.

Rule: it says what Slack says, in pages, with cursors, and newest first; and it fails as it is told.

    GET, POST /api/<method>   the Web API, for whoever has the token
    POST /control        {"workspace": …} replaces what it serves and forgets the rest
    GET  /control        {"calls": [[method, params], …], …} since then
                         ?until=<method>&calls=<n>: once there were so many calls of it
    POST /upload/<file>  where a file is brought to

Faults are taken in the order they are given; each one applies to the calls of its method (or of its
channel) after the first ``after`` ones, ``times`` times (-1: for ever).
"""

import asyncio
import base64
import sys
from dataclasses import asdict, dataclass, field
from typing import Any

from aiohttp import web

from support.channelstats.fake_posting import FakePosting, Refuse

Raw = dict[str, Any]

TOKEN = "xoxp-1-fake-token"


@dataclass
class Fault:
    """``do``: `rate` (429), `error` (`ok: false`), `expire` (of a cursor that is sent), `status`,
    `cut` (in mid-page; it is done all the same), `drop` (no answer, nothing done),
    `html`, `text`.

    ``value``: seconds of Retry-After ("" for no such header), the error's code, the status.
    """

    do: str
    value: str = ""
    method: str = ""
    channel: str = ""
    after: int = 0
    times: int = 1
    more: Raw = field(default_factory=dict)

    def takes(self, method: str, params: Raw) -> bool:
        if self.method not in ("", method) or self.channel not in ("", params.get("channel")):
            return False
        if self.do == "expire" and "cursor" not in params:
            return False
        if self.after:
            self.after -= 1
            return False
        if self.times:
            self.times -= 1
            return True
        return False


@dataclass
class Served:
    """A workspace as the server has it. ``most``: the largest page, whatever is asked for.
    ``members`` are those of a channel, by ID. ``scopes`` are those of the token; a ``bot``'s token
    reads the channels that it is a member of (`is_member`) alone.
    """

    users: list[Raw] = field(default_factory=list)
    channels: list[Raw] = field(default_factory=list)
    members: dict[str, list[str]] = field(default_factory=dict)
    messages: dict[str, list[Raw]] = field(default_factory=dict)
    faults: list[Raw] = field(default_factory=list)
    most: int = 999
    limited: bool = False
    scopes: str = "channels:read,channels:history,users:read"
    bot: bool = False
    longest: int = 13_000
    now: int = 1_711_000_000


class FakeSlack:
    def __init__(self) -> None:
        self.served = Served()
        self.faults: list[Fault] = []
        self.calls: list[tuple[str, Raw]] = []
        self.posting = self.empty_posting()
        self.called = asyncio.Event()

    def empty_posting(self) -> FakePosting:
        served = self.served
        channels = {channel["id"]: channel for channel in served.channels}
        users = {user["id"]: user for user in served.users}
        return FakePosting(
            channels,
            served.messages,
            served.members,
            users,
            served.scopes,
            served.bot,
            served.longest,
            served.now,
        )

    async def set(self, request: web.Request) -> web.Response:
        self.served = Served(**await request.json())
        self.faults = [Fault(**fault) for fault in self.served.faults]
        self.calls = []
        self.posting = self.empty_posting()
        return web.json_response({})

    async def told(self, request: web.Request) -> web.Response:
        method, calls = request.query.get("until"), int(request.query.get("calls", "0"))
        while [name for name, _ in self.calls].count(str(method)) < calls:
            await self.called.wait()
        served, posting = self.served, self.posting
        return web.json_response(
            {
                "calls": self.calls,
                "messages": served.messages,
                "channels": posting.channels,
                "members": served.members,
                "files": posting.files,
            }
        )

    async def upload(self, request: web.Request) -> web.StreamResponse:
        file, data = request.match_info["file"], await request.read()
        secret = "Authorization" in request.headers
        self.calls.append(("upload", {"file": file, "length": len(data), "token": secret}))
        for fault in self.faults:
            if fault.takes("upload", {}):
                return await self.fail(fault, request, "upload", {})
        return web.Response(status=200 if self.posting.uploaded(file, data) else 400)

    async def api(self, request: web.Request) -> web.StreamResponse:
        method, params = request.match_info["method"], dict(request.query)
        if request.content_type == "application/json":
            params |= await request.json()
        self.calls.append((method, params))
        self.called.set()
        self.called = asyncio.Event()
        self.posting.url = f"{request.scheme}://{request.host}"
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return web.json_response({"ok": False, "error": "invalid_auth"})
        for fault in self.faults:
            if fault.takes(method, params):
                return await self.fail(fault, request, method, params)
        headers = {"X-OAuth-Scopes": self.served.scopes}
        return web.json_response(self.answer(method, params), headers=headers)

    async def fail(
        self, fault: Fault, request: web.Request, method: str, params: Raw
    ) -> web.StreamResponse:
        match fault.do:
            case "rate":
                headers = {"Retry-After": fault.value} if fault.value else {}
                body = {"ok": False, "error": "ratelimited"}
                return web.json_response(body, status=429, headers=headers)
            case "expire":
                return web.json_response({"ok": False, "error": "invalid_cursor"})
            case "error":
                return web.json_response({"ok": False, "error": fault.value, **fault.more})
            case "status":
                return web.Response(status=int(fault.value), text="<html>sorry</html>")
            case "html":
                return web.Response(text="<html>sorry</html>", content_type="text/html")
            case "text":
                return web.Response(text="sorry")
            case "drop":
                assert request.transport is not None
                request.transport.abort()
                return web.Response()
            case "cut":
                whole = web.json_response(self.answer(method, params)).body
                assert isinstance(whole, bytes)
                response = web.StreamResponse(headers={"Content-Type": "application/json"})
                response.content_length = len(whole)
                await response.prepare(request)
                await response.write(whole[: len(whole) // 2])
                assert request.transport is not None
                request.transport.abort()
                return response
            case unknown:
                raise ValueError(unknown)

    def answer(self, method: str, params: Raw) -> Raw:
        try:
            if method in ("auth.test", "conversations.join"):
                return {"ok": True, **self.done(method, params)}
            written = self.posting.answer(method, params)
            if written is not None:
                return {"ok": True, **written}
            key, items = self.listing(method, params)
            return {"ok": True, **self.page(method, params, key, items)}
        except Refuse as error:
            return {"ok": False, "error": str(error)}

    def done(self, method: str, params: Raw) -> Raw:
        if method == "auth.test":
            own = {"team": "Example", "user": "stats", "user_id": "USTATS"}
            more = {"bot_id": "BSTATS"} if self.served.bot else {}
            return {"url": "https://example.slack.com/", **own, **more}
        if (channel := self.channel(params)).get("is_archived"):
            raise Refuse("is_archived")
        channel["is_member"] = True
        return {"channel": channel}

    def listing(self, method: str, params: Raw) -> tuple[str, list[Raw] | list[str]]:
        match method:
            case "users.list":
                return "members", self.served.users
            case "conversations.list":
                return "channels", self.listed(params)
            case "conversations.members":
                return "members", self.served.members.get(self.channel(params)["id"], [])
            case "conversations.history":
                return "messages", self.history(params)
            case "conversations.replies":
                return "messages", self.thread(params)
        raise Refuse("unknown_method")

    def listed(self, params: Raw) -> list[Raw]:
        types = params.get("types", "public_channel").split(",")
        return [
            channel
            for channel in self.served.channels
            if ("private_channel" if channel.get("is_private") else "public_channel") in types
            and not (params.get("exclude_archived") == "1" and channel.get("is_archived"))
        ]

    def channel(self, params: Raw) -> Raw:
        return self.posting.channel(params)

    def history(self, params: Raw) -> list[Raw]:
        """Newest first, no replies but broadcasts, `oldest` exclusive unless `inclusive`."""
        if self.served.bot and not self.channel(params).get("is_member"):
            raise Refuse("not_in_channel")
        oldest = params.get("oldest", "0")
        found = [
            raw
            for raw in self.served.messages.get(self.channel(params)["id"], [])
            if raw.get("thread_ts", raw["ts"]) == raw["ts"]
            or raw.get("subtype") == "thread_broadcast"
        ]
        inclusive = params.get("inclusive") == "1"
        found = [raw for raw in found if raw["ts"] > oldest or (inclusive and raw["ts"] == oldest)]
        return sorted(found, key=lambda raw: str(raw["ts"]), reverse=True)

    def thread(self, params: Raw) -> list[Raw]:
        """The head, then the replies, oldest first."""
        messages = self.served.messages.get(self.channel(params)["id"], [])
        head = [raw for raw in messages if raw["ts"] == params.get("ts")]
        if not head:
            raise Refuse("thread_not_found")
        ts = head[0]["ts"]
        replies = [raw for raw in messages if raw.get("thread_ts") == ts and raw["ts"] != ts]
        return head + sorted(replies, key=lambda raw: str(raw["ts"]))

    def page(self, method: str, params: Raw, key: str, items: list[Raw] | list[str]) -> Raw:
        limit = min(int(params.get("limit", "100")), self.served.most)
        first = 0
        if cursor := params.get("cursor"):
            name, _, number = base64.b64decode(cursor).decode().partition(":")
            if name != method:
                raise Refuse("invalid_cursor")
            first = int(number)
        after = first + limit
        following = base64.b64encode(f"{method}:{after}".encode()).decode()
        body: Raw = {
            key: items[first:after],
            "other_list": [],
            "response_metadata": {"next_cursor": following if after < len(items) else ""},
        }
        if key == "messages" and params.get("include_all_metadata") != "1":
            found = [raw for raw in body[key] if isinstance(raw, dict)]
            body[key] = [{k: v for k, v in raw.items() if k != "metadata"} for raw in found]
        if method == "conversations.history":
            body["is_limited"] = self.served.limited
        return body


def as_json(served: Served) -> Raw:
    return asdict(served)


async def main() -> None:
    """Serve until the standard input ends; print the port."""
    slack = FakeSlack()
    app = web.Application(client_max_size=1 << 30)
    app.router.add_route("*", "/api/{method}", slack.api)
    app.router.add_post("/control", slack.set)
    app.router.add_get("/control", slack.told)
    app.router.add_post("/upload/{file}", slack.upload)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(main())
