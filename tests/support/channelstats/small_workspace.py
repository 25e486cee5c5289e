"""Small workspaces for the fake Slack, and time as their messages count it: in days."""

from typing import Any

from support.channelstats.slack_house import threaded
from support.channelstats.workspace import Raw, Workspace

A, B, C = "UALICE", "UBOB", "UCARA"
DAY = 86_400
START = 1_700_000_000


def at(day: float) -> float:
    """The time of a run, so many days after the start."""
    return START + day * DAY


def ts(day: float) -> str:
    return f"{int(at(day)):010d}.000100"


def said(day: float, user: str | None = A, **fields: Any) -> Raw:
    """A message of that day; ``thread`` is the day of its head."""
    raw: Raw = {"type": "message", "ts": ts(day), "text": "a b", **fields}
    if "thread" in raw:
        raw["thread_ts"] = ts(raw.pop("thread"))
    return raw if user is None else {**raw, "user": user}


def workspace(**messages: list[Raw]) -> Workspace:
    """Channels by name, with their messages; each channel's ID is C and its name in capitals."""
    channels = [
        {"id": f"C{name.upper()}", "name": name, "created": START, "members": [A, B]}
        for name in messages
    ]
    users = [{"id": uid, "name": uid.lower()} for uid in (A, B)]
    made = Workspace(users=users, channels=channels)
    for name, raws in messages.items():
        made.messages[f"C{name.upper()}"] = threaded({raw["ts"]: raw for raw in raws})
    return made


def three() -> Workspace:
    """Three channels with eleven messages, one of them an answer."""
    return workspace(
        one=[said(1), said(2, B, thread=1)], two=[said(n / 10) for n in range(1, 9)], zoo=[said(3)]
    )
