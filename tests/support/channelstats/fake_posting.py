"""The part of the fake Slack that is written to: messages, topics, members, files.

Rule: it keeps what Slack would keep and refuses what Slack would refuse; a message is found again
by whoever asks for the history.
"""

import html
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Raw = dict[str, Any]

MOST_BLOCKS = 50
OWN = "USTATS"


class Refuse(Exception):
    """The code of an error."""


@dataclass
class FakePosting:
    """``channels`` by ID, ``messages`` by channel, ``users`` by ID. ``longest``: characters that
    blocks may have together; ``now``: the time of the first message. ``url`` is the server's.
    """

    channels: dict[str, Raw]
    messages: dict[str, list[Raw]]
    members: dict[str, list[str]]
    users: dict[str, Raw]
    scopes: str
    bot: bool
    longest: int
    now: int
    files: dict[str, Raw] = field(default_factory=dict)
    url: str = ""

    def answer(self, method: str, params: Raw) -> Raw | None:
        """The answer to a method; None to those of others."""
        known: dict[str, Callable[[Raw], Raw]] = {
            "chat.postMessage": self.post,
            "chat.getPermalink": self.permalink,
            "conversations.info": self.info,
            "conversations.leave": self.leave,
            "conversations.setTopic": self.set_topic,
            "files.getUploadURLExternal": self.upload_url,
            "files.completeUploadExternal": self.complete,
        }
        return known[method](params) if method in known else None

    def channel(self, params: Raw) -> Raw:
        if (cid := params.get("channel")) not in self.channels:
            raise Refuse("channel_not_found")
        return self.channels[str(cid)]

    def living(self, params: Raw) -> Raw:
        if (channel := self.channel(params)).get("is_archived"):
            raise Refuse("is_archived")
        return channel

    def joined(self, params: Raw) -> Raw:
        if not (channel := self.living(params)).get("is_member"):
            raise Refuse("not_in_channel")
        return channel

    # ── messages ─────────────────────────────────────────────────────────────────────────────────

    def post(self, params: Raw) -> Raw:
        cid = params["channel"]
        if cid.startswith("U"):
            cid = self.direct(cid)
        channel = self.living({"channel": cid})
        public = "chat:write.public" in self.scopes and not channel.get("is_private")
        if self.bot and not (channel.get("is_member") or channel.get("is_im") or public):
            raise Refuse("not_in_channel")
        blocks = params.get("blocks", [])
        if len(blocks) > MOST_BLOCKS:
            raise Refuse("invalid_blocks")
        if sum(map(_characters, blocks)) > self.longest:
            raise Refuse("msg_blocks_too_long")
        there = self.messages.setdefault(cid, [])
        number = sum(map(len, self.messages.values()))
        ts = f"{self.now + number:010d}.{number:06d}"
        raw: Raw = {"type": "message", "user": OWN, "ts": ts}
        for name in ("text", "blocks"):
            if name in params:
                raw[name] = params[name]
        there.append(raw)
        return {"channel": cid, "ts": ts}

    def permalink(self, params: Raw) -> Raw:
        cid, ts = self.channel(params)["id"], params["message_ts"]
        return {"permalink": f"https://example.slack.com/archives/{cid}/p{ts.replace('.', '')}"}

    def direct(self, uid: str) -> str:
        if uid not in self.users:
            raise Refuse("user_not_found")
        if self.users[uid].get("is_bot"):
            raise Refuse("cannot_dm_bot")
        cid = f"D{uid[1:]}"
        dm = {"id": cid, "is_im": True, "is_private": True, "is_member": True}
        self.channels.setdefault(cid, dm)
        return cid

    # ── channels ─────────────────────────────────────────────────────────────────────────────────

    def info(self, params: Raw) -> Raw:
        return {"channel": self.channel(params)}

    def leave(self, params: Raw) -> Raw:
        channel = self.living(params)
        if not channel.get("is_member"):
            return {"not_in_channel": True}
        channel["is_member"] = False
        return {}

    def set_topic(self, params: Raw) -> Raw:
        text = html.escape(params["topic"], quote=False)
        self.joined(params)["topic"] = {"value": text}
        return {}

    # ── files ────────────────────────────────────────────────────────────────────────────────────

    def upload_url(self, params: Raw) -> Raw:
        file = f"F{len(self.files) + 1}"
        self.files[file] = {"name": params["filename"], "length": int(params["length"])}
        return {"upload_url": f"{self.url}/upload/{file}", "file_id": file}

    def uploaded(self, file: str, data: bytes) -> bool:
        """Whether a file is as long as was said."""
        if len(data) != self.files[file]["length"]:
            return False
        self.files[file]["text"] = data.decode()
        return True

    def complete(self, params: Raw) -> Raw:
        self.living({"channel": params["channel_id"]})
        for of in params["files"]:
            file = self.files.get(of["id"])
            if file is None or "text" not in file:
                raise Refuse("file_not_found")
            file |= {"title": of["title"], "thread_ts": params["thread_ts"]}
            file["channel"] = params["channel_id"]
        return {"files": params["files"]}


def _characters(block: Raw) -> int:
    texts = [block["text"]] if "text" in block else []
    return sum(len(of["text"]) for of in [*texts, *block.get("fields", [])])
