"""The fake Slack from the side of tests: started, told what to serve, and synced from."""

import copy
import json
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from channelstats.counting import Counting
from channelstats.ingest.runs import OnEvent, SyncOptions, SyncResult, ignore_event
from channelstats.ingest.sync import ALL, Part, Sync
from channelstats.slack.client import SlackClient
from channelstats.slack.rate_limits import AppKind
from channelstats.slack.transport import SdkTransport
from channelstats.slack.web_api import WebApi
from support.channelstats.fake_slack import TOKEN, Fault, Served, as_json
from support.channelstats.house import House
from support.channelstats.workspace import Raw, Workspace
from support.clocks import ManualClock
from support.paths import TESTS

EVERYTHING = SyncOptions(max_age=20_000, refetch=20_000)


class Waits:
    """A clock that goes on only while somebody sleeps; how long each sleep was."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@dataclass
class Slack:
    """The fake Slack, running."""

    url: str
    waits: Waits = field(default_factory=Waits)

    def serve(self, workspace: Workspace, *faults: Fault, **options: Any) -> None:
        """Serve a workspace (of `consistent`) from now on, and fail as told."""
        served = Served(
            users=workspace.users,
            channels=[_listed(channel) for channel in workspace.channels],
            members={channel["id"]: channel.get("members", []) for channel in workspace.channels},
            messages={
                cid: [_of_api(raw) for raw in raws] for cid, raws in workspace.messages.items()
            },
            **options,
        )
        body = as_json(served) | {"faults": [vars(fault) for fault in faults]}
        self._control(json.dumps(body).encode())

    def calls(self, method: str = "") -> list[Raw]:
        """The parameters of the calls since the workspace was served."""
        return [asked for name, asked in self._control(None)["calls"] if method in ("", name)]

    def methods(self) -> list[str]:
        return [name for name, _ in self._control(None)["calls"]]

    def told(self) -> Any:
        """Everything the server has: `calls`, `messages`, `channels`, `members`, `files`."""
        return self._control(None)

    def wait_for(self, method: str, calls: int) -> None:
        """Wait until a method was called so often."""
        self._control(None, f"?until={method}&calls={calls}")

    def _control(self, body: bytes | None, query: str = "") -> Any:
        url = f"{self.url}/control{query}"
        with urllib.request.urlopen(url, data=body, timeout=60) as answer:
            return json.load(answer)

    @asynccontextmanager
    async def api(
        self, token: str = TOKEN, kind: AppKind = AppKind.INTERNAL
    ) -> AsyncIterator[WebApi]:
        waits = self.waits
        async with SdkTransport.open(token, base_url=f"{self.url}/api/") as transport:
            yield WebApi(SlackClient(transport, kind, clock=waits.clock, sleep=waits.sleep))

    async def sync(
        self,
        into: House,
        *,
        now: float,
        options: SyncOptions = EVERYTHING,
        counting: Counting = Counting(),  # noqa: B008 - it is frozen
        token: str = TOKEN,
        kind: AppKind = AppKind.INTERNAL,
        parts: frozenset[Part] = ALL,
        on_event: OnEvent = ignore_event,
    ) -> SyncResult:
        """One run."""
        async with self.api(token, kind) as api:
            run = Sync(
                api,
                into.tables,
                clock=ManualClock(now),
                counting=counting,
                options=options,
                parts=parts,
                on_event=on_event,
            )
            return await run.run()


@contextmanager
def running_slack() -> Iterator[Slack]:
    process = subprocess.Popen(
        [sys.executable, "-m", "support.channelstats.fake_slack"],
        cwd=TESTS,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield Slack(f"http://127.0.0.1:{int(process.stdout.readline())}")
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(30)


def _listed(channel: Raw) -> Raw:
    """A channel as `conversations.list` has it."""
    listed = {name: value for name, value in channel.items() if name != "members"}
    listed.setdefault("num_members", len(channel.get("members", [])))
    if listed["num_members"] is None:
        del listed["num_members"]
    return listed


def _of_api(raw: Raw) -> Raw:
    """A message as the Web API has it: a head does not list its replies."""
    return {name: value for name, value in raw.items() if name != "replies"}


def consistent(of: Workspace) -> Workspace:
    """The workspace as Slack could have it: one message of a timestamp, no reply without a head,
    heads that know their replies, nobody in archived channels.
    """
    made = copy.deepcopy(of)
    made.deleted = set()
    for channel in made.channels:
        if channel.get("is_archived"):
            channel["members"] = []
    for cid, raws in made.messages.items():
        made.messages[cid] = threaded({raw["ts"]: raw for raw in raws})
    return made


def threaded(messages: dict[str, Raw]) -> list[Raw]:
    """Messages by timestamp, in order, with the threads that their `thread_ts` mean."""
    for ts, raw in sorted(messages.items()):
        head = messages.get(raw.get("thread_ts", ""))
        if head is None or (head is not raw and head.get("thread_ts", head["ts"]) != head["ts"]):
            raw.pop("thread_ts", None)
        for name in ("replies", "reply_count", "latest_reply", "parent_user_id"):
            raw.pop(name, None)
        if raw.get("subtype") == "thread_broadcast" and raw.get("thread_ts", ts) == ts:
            del raw["subtype"]
    for ts, head in messages.items():
        replies = [raw for raw in messages.values() if raw.get("thread_ts") == ts != raw["ts"]]
        if not replies:
            head.pop("thread_ts", None) if head.get("thread_ts") == ts else None
            continue
        replies.sort(key=lambda raw: str(raw["ts"]))
        head |= {
            "thread_ts": ts,
            "reply_count": len(replies),
            "latest_reply": replies[-1]["ts"],
            "replies": [{"user": raw.get("user"), "ts": raw["ts"]} for raw in replies],
        }
        for reply in replies:
            if "user" in head:
                reply["parent_user_id"] = head["user"]
    return [raw for _, raw in sorted(messages.items())]
