"""Random workspaces, full of what statistics stumble over.

Few people, few words and few emoji, so that there are ties everywhere; times at the very edges of
the periods; bots of every kind, heads that are gone, replies that are not there, zones that do not
exist.
"""

import random
from collections.abc import Iterator
from datetime import date, timedelta
from zoneinfo import ZoneInfo

from channelstats.days import midnight
from support.channelstats.slow import Settings
from support.channelstats.workspace import Raw, Workspace

STARTS = ("2024-03-03", "2024-03-10", "2024-03-31", "2024-10-27", "2024-11-03", "2024-02-26")
ZONES = (
    "UTC",
    "America/Los_Angeles",
    "Europe/Berlin",
    "Asia/Kolkata",
    "America/Havana",
    "Pacific/Kiritimati",
)
TIMEZONES = (
    *((name, offset) for name in ZONES for offset in (-25200, 3600, 19800)),
    ("Mars/Olympus", 3600),
    ("Europe/Berlin", None),
    (None, 3600),
    (None, None),
)
EMOJI = ("+1", "+1::skin-tone-2", "+1::skin-tone-4", "wave", "tada", "a")
SUBTYPES = (
    "channel_join",
    "channel_topic",
    "thread_broadcast",
    "me_message",
    "file_share",
    "bot_message",
    "tombstone",
    "huddle_thread",
    "sh_room_created",
)


def settings(rng: random.Random) -> Settings:
    return Settings(
        start=date.fromisoformat(rng.choice(STARTS)),
        days=rng.choice((1, 3, 7, 7, 7, 28)),
        zone=rng.choice(ZONES),
        include_bots=rng.random() < 0.3,
        default_timezone=rng.choice(("", "", "Asia/Kolkata", "Mars/Olympus")),
        merge_skin_tones=rng.random() < 0.3,
    )


class Maker:
    """Makes one workspace around the period of the settings."""

    def __init__(self, rng: random.Random, of: Settings) -> None:
        self.rng = rng
        zone, length = ZoneInfo(of.zone), timedelta(days=of.days)
        begins = [of.start - length, of.start, of.start + length]
        self.edges = [midnight(day, zone) for day in begins]
        self.people = [f"U{letter}" for letter in "ABCDE"[: rng.randint(1, 5)]] + ["WX"]
        self.bots = ["UBOT", "USLACKBOT"]

    def workspace(self, most: int) -> Workspace:
        rng = self.rng
        channels = [self.channel(cid) for cid in ("C1", "C2", "C3")[: rng.randint(1, 3)]]
        made = Workspace(users=list(self.users()), channels=channels)
        for channel in channels:
            messages = self.messages(channel["id"], rng.randint(0, most))
            made.messages[channel["id"]] = messages
            made.deleted |= {
                (channel["id"], message["ts"]) for message in messages if rng.random() < 0.03
            }
        return made

    def users(self) -> Iterator[Raw]:
        rng = self.rng
        for uid in [*self.people, *self.bots, "USILENT"]:
            if rng.random() < 0.1:
                continue  # known by messages alone
            tz, offset = rng.choice(TIMEZONES)
            user: Raw = {"id": uid, "name": uid.lower(), "deleted": rng.random() < 0.1}
            user["is_bot"] = uid == "UBOT"
            user |= {"tz": tz} if tz else {}
            user |= {"tz_offset": offset} if offset is not None else {}
            yield user

    def channel(self, cid: str) -> Raw:
        rng = self.rng
        return {
            "id": cid,
            "name": f"name-{cid.lower()}",
            "created": rng.choice([0, *self.edges, self.edges[1] + 1, self.edges[2] + 99]),
            "is_archived": rng.random() < 0.2,
            "members": rng.sample(self.people, rng.randint(0, len(self.people))),
        }

    def time(self) -> str:
        rng = self.rng
        if rng.random() < 0.15:  # the last of one period, the first of the next
            at = rng.choice(self.edges) * 1_000_000 + rng.choice((-1, 0, 1))
        elif rng.random() < 0.7:
            at = rng.randint(self.edges[0] * 1_000_000, self.edges[2] * 1_000_000)
        else:
            month = 30 * 86_400
            at = rng.randint(self.edges[0] - month, self.edges[2] + month) * 1_000_000
        return f"{at // 1_000_000:010d}.{at % 1_000_000:06d}"

    def messages(self, cid: str, number: int) -> list[Raw]:
        rng = self.rng
        times = sorted({self.time() for _ in range(number)})
        made = [self.message(ts) for ts in times]
        for message in made:
            self.put_in_thread(message, made)
        self.list_replies(made)
        for message in rng.sample(made, len(made) // 10):  # the same again, or an older state of it
            again = dict(message)
            for name in rng.choice(((), ("reactions",), ("replies",))):
                again.pop(name, None)
            made.append(again)
        rng.shuffle(made)
        return made

    def message(self, ts: str) -> Raw:
        rng = self.rng
        message: Raw = {"type": "message", "ts": ts, "text": self.text()}
        kind = rng.random()
        if kind < 0.8:
            message["user"] = rng.choice(self.people)
        elif kind < 0.87:
            message |= {"user": rng.choice(self.bots), "bot_id": "BX"}
        elif kind < 0.97:
            message["bot_id"] = "BHOOK"
        if rng.random() < 0.2:
            message["subtype"] = rng.choice(SUBTYPES)
        if message.get("subtype") == "huddle_thread":
            message["room"] = {
                "participant_history": rng.sample(self.people, 1),
                "date_start": rng.choice((0, 100)),
                "date_end": rng.choice((0, 160, 400)),
            }
        if rng.random() < 0.4:
            message["reactions"] = [
                self.reaction(name) for name in rng.sample(EMOJI, rng.randint(1, 3))
            ]
        return message

    def text(self) -> str:
        rng = self.rng
        words = ["word"] * rng.choice((0, 1, 1, 2, 3))
        if rng.random() < 0.3:
            words += rng.choices([f"<@{uid}>" for uid in [*self.people, "UZ"]] + ["<@UA|ann>"], k=2)
        return " ".join(words)

    def reaction(self, name: str) -> Raw:
        rng = self.rng
        others = [*self.people, "BHOOK", "UBOT", "UZ"]
        users = rng.sample(others, rng.randint(0, min(3, len(others))))
        made: Raw = {"name": name, "users": users}
        if rng.random() < 0.9:
            made["count"] = len(users) + rng.choice((0, 0, 0, 2))
        return made

    def put_in_thread(self, message: Raw, others: list[Raw]) -> None:
        rng = self.rng
        ts = message["ts"]
        earlier = [other["ts"] for other in others if other["ts"] < ts]
        if earlier and rng.random() < 0.4:
            # mostly in few threads; the heads among them may be replies themselves, or tombstones
            message["thread_ts"] = rng.choice(earlier[:3] if rng.random() < 0.7 else earlier)
        elif rng.random() < 0.1:
            message["thread_ts"] = "1577836800.000000"  # a head that is not there
        elif rng.random() < 0.15:
            message["thread_ts"] = ts
        if "thread_ts" in message and rng.random() < 0.8:
            message["parent_user_id"] = rng.choice(self.people)

    def list_replies(self, made: list[Raw]) -> None:
        rng = self.rng
        for head in made:
            named = [other for other in made if other.get("thread_ts") == head["ts"]]
            if head.get("thread_ts", head["ts"]) == head["ts"] and (named or "thread_ts" in head):
                head["thread_ts"] = head["ts"]
                listed = [
                    {"ts": reply["ts"], "user": reply.get("user")}
                    for reply in named
                    if reply is not head and rng.random() < 0.6
                ]
                if rng.random() < 0.2:
                    listed.append({"ts": f"{int(head['ts'][:10]) + 5}.999999", "user": "UGONE"})
                head["replies"] = listed
