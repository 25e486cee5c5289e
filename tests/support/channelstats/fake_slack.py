"""A Slack of our own: serves a workspace over HTTP, as the Web API does, in a thread.

Rule: it says what Slack says, in pages, with cursors, and newest first; it keeps what Slack would
keep and refuses what Slack would refuse; and it fails as it is told.

    GET, POST /api/<method>   the Web API, for whoever has the token
    POST /upload/<file>       where a file is brought to

Faults are taken in the order they are given; each one applies to the calls of its method (or of its
channel) after the first ``after`` ones, ``times`` times (-1: for ever).
"""

import base64
import html
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from support.aiohttp_server import served

Raw = dict[str, Any]

TOKEN = "xoxp-1-fake-token"
OWN = "USTATS"
MOST_BLOCKS, MOST_CHARACTERS = 50, 13_000
NOW = 1_711_000_000
"""The time of the first message that is posted."""


class Refuse(Exception):
    """The code of an error."""


@dataclass
class Fault:
    """``do``: `rate` (429), `error` (`ok: false`), `expire` (of a cursor that is sent), `status`,
    `cut` (in mid-page; it is done all the same), `html`, `text`.

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
    faults: list[Fault] = field(default_factory=list)
    most: int = 999
    limited: bool = False
    scopes: str = "channels:read,channels:history,users:read"
    bot: bool = False


class FakeSlack:
    """``calls`` are those since the workspace was served, with their parameters."""

    def __init__(self) -> None:
        self.called = threading.Condition()
        self.serve(Served())

    def serve(self, workspace: Served) -> None:
        """Serve a workspace from now on, and forget everything else."""
        self.served, self.faults = workspace, workspace.faults
        self.channels = {channel["id"]: channel for channel in workspace.channels}
        self.calls: list[tuple[str, Raw]] = []
        self.files: dict[str, Raw] = {}

    # ── requests ─────────────────────────────────────────────────────────────────────────────────

    async def upload(self, request: web.Request) -> web.StreamResponse:
        file, data = self.files[request.match_info["file"]], await request.read()
        about = {"length": len(data), "token": "Authorization" in request.headers}
        self.calls.append(("upload", {"file": request.match_info["file"], **about}))
        for fault in self.faults:
            if fault.takes("upload", {}):
                return await self.fail(fault, request, "upload", {})
        if len(data) != file["length"]:
            return web.Response(status=400)
        file["text"] = data.decode()
        return web.Response(text=f"OK - {len(data)}")

    async def api(self, request: web.Request) -> web.StreamResponse:
        method, params = request.match_info["method"], dict(request.query)
        if request.content_type == "application/json":
            params |= await request.json()
        with self.called:
            self.calls.append((method, params))
            self.called.notify_all()
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return web.json_response({"ok": False, "error": "invalid_auth"})
        for fault in self.faults:
            if fault.takes(method, params):
                return await self.fail(fault, request, method, params)
        headers = {"X-OAuth-Scopes": self.served.scopes}
        answer = self.answer(method, params, f"{request.scheme}://{request.host}")
        return web.json_response(answer, headers=headers)

    async def fail(
        self, fault: Fault, request: web.Request, method: str, params: Raw
    ) -> web.StreamResponse:
        assert request.transport is not None
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
        assert fault.do == "cut"
        whole = json.dumps(self.answer(method, params)).encode()
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.content_length = len(whole)
        await response.prepare(request)
        await response.write(whole[: len(whole) // 2])
        request.transport.abort()
        return response

    def answer(self, method: str, params: Raw, url: str = "") -> Raw:
        methods = {
            "auth.test": self.identity,
            "conversations.join": self.join,
            "conversations.info": lambda given: {"channel": self.channel(given)},
            "conversations.leave": self.leave,
            "conversations.setTopic": self.set_topic,
            "chat.postMessage": self.post,
            "chat.getPermalink": self.permalink,
            "files.getUploadURLExternal": lambda given: self.upload_url(given, url),
            "files.completeUploadExternal": self.complete,
        }
        try:
            if method in methods:
                return {"ok": True, **methods[method](params)}
            return {"ok": True, **self.page(method, params)}
        except Refuse as error:
            return {"ok": False, "error": str(error)}

    def identity(self, _: Raw) -> Raw:
        own = {"team": "Example", "user": "stats", "user_id": OWN}
        more = {"bot_id": "BSTATS"} if self.served.bot else {}
        return {"url": "https://example.slack.com/", **own, **more}

    # ── listings ─────────────────────────────────────────────────────────────────────────────────

    def page(self, method: str, params: Raw) -> Raw:
        key, items = self.listing(method, params)
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
        if method == "conversations.history":
            body["is_limited"] = self.served.limited
        return body

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

    def history(self, params: Raw) -> list[Raw]:
        """Newest first, no replies but broadcasts, `oldest` exclusive unless `inclusive`."""
        if self.served.bot and not self.channel(params).get("is_member"):
            raise Refuse("not_in_channel")
        oldest, inclusive = params.get("oldest", "0"), params.get("inclusive") == "1"
        messages = [
            raw
            for raw in self.served.messages.get(self.channel(params)["id"], [])
            if raw.get("thread_ts", raw["ts"]) == raw["ts"]
            or raw.get("subtype") == "thread_broadcast"
            if raw["ts"] > oldest or (inclusive and raw["ts"] == oldest)
        ]
        return sorted(messages, key=lambda raw: str(raw["ts"]), reverse=True)

    def thread(self, params: Raw) -> list[Raw]:
        """The head, then the replies, oldest first."""
        messages = self.served.messages.get(self.channel(params)["id"], [])
        head = [raw for raw in messages if raw["ts"] == params.get("ts")]
        if not head:
            raise Refuse("thread_not_found")
        ts = head[0]["ts"]
        replies = [raw for raw in messages if raw.get("thread_ts") == ts and raw["ts"] != ts]
        return head + sorted(replies, key=lambda raw: str(raw["ts"]))

    # ── channels ─────────────────────────────────────────────────────────────────────────────────

    def channel(self, params: Raw) -> Raw:
        if (cid := params.get("channel")) not in self.channels:
            raise Refuse("channel_not_found")
        return self.channels[str(cid)]

    def living(self, params: Raw) -> Raw:
        if (channel := self.channel(params)).get("is_archived"):
            raise Refuse("is_archived")
        return channel

    def join(self, params: Raw) -> Raw:
        (channel := self.living(params))["is_member"] = True
        return {"channel": channel}

    def leave(self, params: Raw) -> Raw:
        channel = self.living(params)
        if not channel.get("is_member"):
            return {"not_in_channel": True}
        channel["is_member"] = False
        return {}

    def set_topic(self, params: Raw) -> Raw:
        if not (channel := self.living(params)).get("is_member"):
            raise Refuse("not_in_channel")
        channel["topic"] = {"value": html.escape(params["topic"], quote=False)}
        return {}

    # ── messages and files ───────────────────────────────────────────────────────────────────────

    def post(self, params: Raw) -> Raw:
        cid = params["channel"]
        if cid.startswith("U"):
            cid = self.direct(cid)
        channel = self.living({"channel": cid})
        public = "chat:write.public" in self.served.scopes and not channel.get("is_private")
        if self.served.bot and not (channel.get("is_member") or channel.get("is_im") or public):
            raise Refuse("not_in_channel")
        blocks = params.get("blocks", [])
        if len(blocks) > MOST_BLOCKS:
            raise Refuse("invalid_blocks")
        if sum(map(_characters, blocks)) > MOST_CHARACTERS:
            raise Refuse("msg_blocks_too_long")
        there = self.served.messages.setdefault(cid, [])
        number = sum(map(len, self.served.messages.values()))
        ts = f"{NOW + number:010d}.{number:06d}"
        parts: Raw = {name: params[name] for name in ("text", "blocks") if name in params}
        there.append({"type": "message", "user": OWN, "ts": ts, **parts})
        return {"channel": cid, "ts": ts}

    def permalink(self, params: Raw) -> Raw:
        cid, ts = self.channel(params)["id"], params["message_ts"]
        return {"permalink": f"https://example.slack.com/archives/{cid}/p{ts.replace('.', '')}"}

    def direct(self, uid: str) -> str:
        user = next((user for user in self.served.users if user["id"] == uid), None)
        if user is None:
            raise Refuse("user_not_found")
        if user.get("is_bot"):
            raise Refuse("cannot_dm_bot")
        cid = f"D{uid[1:]}"
        self.channels.setdefault(
            cid, {"id": cid, "is_im": True, "is_private": True, "is_member": True}
        )
        return cid

    def upload_url(self, params: Raw, url: str) -> Raw:
        file = f"F{len(self.files) + 1}"
        self.files[file] = {"name": params["filename"], "length": int(params["length"])}
        return {"upload_url": f"{url}/upload/{file}", "file_id": file}

    def complete(self, params: Raw) -> Raw:
        self.living({"channel": params["channel_id"]})
        given = json.loads(params["files"])
        for uploaded in given:
            file = self.files.get(uploaded["id"])
            if file is None or "text" not in file:
                raise Refuse("file_not_found")
            file |= {"title": uploaded["title"], "thread_ts": params["thread_ts"]}
            file["channel"] = params["channel_id"]
        return {"files": given}


def _characters(block: Raw) -> int:
    texts = [block["text"]] if "text" in block else []
    return sum(len(text["text"]) for text in [*texts, *block.get("fields", [])])


@asynccontextmanager
async def serving(slack: FakeSlack) -> AsyncIterator[str]:
    """Serve it; the origin of its URLs."""
    app = web.Application(client_max_size=1 << 30)
    app.router.add_route("*", "/api/{method}", slack.api)
    app.router.add_post("/upload/{file}", slack.upload)
    async with served(app) as origin:
        yield origin
