"""The fake Slack from the side of tests: started, told what to serve, and synced from."""

import copy
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from channelstats.counting import Counting
from channelstats.ingest.runs import OnEvent, SyncOptions, SyncResult, ignore_event
from channelstats.ingest.sync import ALL, Part, Sync
from channelstats.slack.client import SlackClient
from channelstats.slack.rate_limits import AppKind
from channelstats.slack.web_api import WebApi
from support.channelstats.fake_slack import TOKEN, FakeSlack, Fault, Served, serving
from support.channelstats.house import House
from support.channelstats.workspace import Raw, Workspace
from support.clocks import ManualClock
from support.event_loops import LoopThread

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
    server: FakeSlack = field(default_factory=FakeSlack)
    waits: Waits = field(default_factory=Waits)

    def serve(self, workspace: Workspace, *faults: Fault, **options: Any) -> None:
        """Serve a workspace (of `consistent`) from now on, and fail as told."""
        channels, messages = copy.deepcopy((workspace.channels, workspace.messages))
        self.server.serve(
            Served(
                users=copy.deepcopy(workspace.users),
                channels=[_listed(channel) for channel in channels],
                members={channel["id"]: channel.get("members", []) for channel in channels},
                messages={cid: [_of_api(raw) for raw in raws] for cid, raws in messages.items()},
                faults=[copy.copy(fault) for fault in faults],
                **options,
            )
        )

    def calls(self, method: str = "") -> list[Raw]:
        """The parameters of the calls since the workspace was served."""
        return [params for name, params in self.server.calls if method in ("", name)]

    def methods(self) -> list[str]:
        return [name for name, _ in self.server.calls]

    @property
    def messages(self) -> dict[str, list[Raw]]:
        """Those of each channel, posted ones among them."""
        return self.server.served.messages

    def wait_for(self, method: str, calls: int) -> None:
        """Wait until a method was called so often."""
        with self.server.called:
            assert self.server.called.wait_for(lambda: self.methods().count(method) >= calls, 60)

    def client(self, token: str = TOKEN, kind: AppKind = AppKind.INTERNAL) -> SlackClient:
        url, clock, sleep = f"{self.url}/api/", self.waits.clock, self.waits.sleep
        return SlackClient(token=token, kind=kind, base_url=url, clock=clock, sleep=sleep)

    @asynccontextmanager
    async def api(
        self, token: str = TOKEN, kind: AppKind = AppKind.INTERNAL
    ) -> AsyncIterator[WebApi]:
        async with self.client(token, kind) as client:
            yield WebApi(client)

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
    server = FakeSlack()
    with LoopThread() as loop:
        running = serving(server)
        yield Slack(loop.run(running.__aenter__()), server)
        loop.run(running.__aexit__(None, None, None))


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
