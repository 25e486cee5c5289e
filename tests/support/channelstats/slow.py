"""The report document once more, slowly: straight from the definitions, in plain Python, from what
an export holds. It shares no code with what it checks.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from support.channelstats.workspace import Raw, Workspace

DAY = timedelta(days=1)
ID = re.compile(r"[UWB][A-Z0-9]+")
ZONES = available_timezones()


@dataclass
class Settings:
    start: date
    days: int
    zone: str
    include_bots: bool = False
    default_timezone: str = ""
    merge_skin_tones: bool = False


@dataclass(eq=False)
class Message:
    cid: str
    ts: str
    author: str = ""
    bot_only: bool = False
    words: int = 0
    mentions: list[str] = field(default_factory=list)
    reactions: list[tuple[str, list[str]]] = field(default_factory=list)
    reaction_count: int = 0
    thread: str = ""
    own_parent: str = ""
    parent: str = ""
    listed: dict[str, str] = field(default_factory=dict)
    reply_count: int = 0
    subtype: str = ""
    room: Raw | None = None
    deleted: bool = False

    @property
    def at(self) -> Fraction:
        return Fraction(self.ts)

    @property
    def is_reply(self) -> bool:
        return self.thread not in ("", self.ts)

    @property
    def is_head(self) -> bool:
        return self.thread == self.ts


def read(cid: str, raw: Raw) -> Message:
    user, bot = raw.get("user") or "", raw.get("bot_id") or ""
    author = user or bot
    text = raw.get("text") or ""
    mentions = re.findall(r"<@([UW][A-Z0-9]+)(?:\|[^>]*)?>", text)
    found = Message(cid, raw["ts"], author, bool(bot) and not user, len(text.split()))
    found.mentions = [uid for uid in mentions if uid != author]
    for reaction in raw.get("reactions", []):
        found.reactions.append((reaction["name"], reaction["users"]))
        found.reaction_count += max(reaction.get("count", 0), len(reaction["users"]))
    found.thread = raw.get("thread_ts") or ""
    found.own_parent = raw.get("parent_user_id") or ""
    found.listed = {r["ts"]: r["user"] for r in raw.get("replies", []) if r.get("user")}
    found.subtype = raw.get("subtype") or ""
    found.room = raw.get("room")
    return found


def messages_of(workspace: Workspace) -> list[Message]:
    """Every message once, with its thread."""
    found: list[Message] = []
    for cid, raws in workspace.messages.items():
        by_ts: dict[str, Message] = {}
        for raw in raws:
            new = read(cid, raw)
            old = by_ts.get(new.ts)
            if old is None or (len(old.listed), old.reaction_count) < (
                len(new.listed),
                new.reaction_count,
            ):
                by_ts[new.ts] = new
        threads: dict[str, list[Message]] = defaultdict(list)
        for message in by_ts.values():
            if message.is_reply:
                threads[message.thread].append(message)
        for ts, head in by_ts.items():
            if not head.is_reply and (head.is_head or ts in threads):
                head.thread = ts
                head.parent = "" if head.subtype == "tombstone" else head.author
                by_people = {r.ts for r in threads[ts] if r.author and not r.bot_only}
                head.reply_count = len({*head.listed, *by_people})
        for ts, replies in threads.items():
            head_or_none = by_ts.get(ts)
            for reply in replies:
                if head_or_none is not None and head_or_none.subtype == "tombstone":
                    reply.parent = ""
                elif head_or_none is not None and head_or_none.author:
                    reply.parent = head_or_none.author
                else:
                    reply.parent = reply.own_parent
        for message in by_ts.values():
            message.deleted = (cid, message.ts) in workspace.deleted
        found += by_ts.values()
    return found


def midnight(day: date, zone: ZoneInfo) -> Fraction:
    return Fraction(datetime.combine(day, time(), zone).timestamp())


def by_count(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def pair_order(item: tuple[str, list[int]]) -> tuple[int, int, str]:
    """Words, then messages, then the name."""
    return (-item[1][1], -item[1][0], item[0])


class Pairs(defaultdict[Any, list[int]]):
    """Messages and words by something."""

    def __init__(self) -> None:
        super().__init__(lambda: [0, 0])

    def add(self, key: Any, message: Message) -> None:
        self[key][0] += 1
        self[key][1] += message.words

    def ranked(self) -> dict[str, list[int]]:
        return dict(sorted(self.items(), key=pair_order))

    def by_number(self) -> dict[str, list[int]]:
        return {str(key): self[key] for key in sorted(self)}


def share(part: int | Fraction, whole: int) -> Fraction:
    return Fraction(part) / Fraction(whole) if whole else Fraction(0)


class Week:
    """One period, looked at with the patience of a loop."""

    def __init__(
        self, workspace: Workspace, messages: list[Message], start: date, settings: Settings
    ) -> None:
        self.workspace, self.settings, self.start = workspace, settings, start
        self.zone = ZoneInfo(settings.zone)
        self.users = {user["id"]: user for user in reversed(workspace.users)}
        self.channels = {channel["id"]: channel for channel in workspace.channels}
        self.last = start + (settings.days - 1) * DAY
        self.begin, self.end = midnight(start, self.zone), midnight(self.last + DAY, self.zone)
        self.everything = messages
        self.counted = [message for message in messages if self.counts(message)]
        self.said = [message for message in self.counted if self.begin <= message.at < self.end]

    # ── who and what counts ──────────────────────────────────────────────────────────────────────

    def is_bot(self, uid: str) -> bool:
        return (
            uid.startswith("B") or uid == "USLACKBOT" or bool(self.users.get(uid, {}).get("is_bot"))
        )

    @property
    def talk(self) -> set[str]:
        return {"thread_broadcast", "me_message", "file_share"}

    def counts(self, message: Message) -> bool:
        allowed = {"", *self.talk}
        if self.settings.include_bots:
            allowed.add("bot_message")
        if message.deleted or not message.author or message.subtype not in allowed:
            return False
        return self.settings.include_bots or not self.is_bot(message.author)

    def local(self, message: Message) -> tuple[str, int, int] | None:
        """Zone, weekday and hour of the author's clock."""
        user = self.users.get(message.author)
        if user is None:
            return None
        name = user.get("tz") or self.settings.default_timezone
        if name not in ZONES:
            return None
        then = datetime.fromtimestamp(int(message.at), ZoneInfo(name))
        return name, then.weekday(), then.hour

    # ── single statistics ────────────────────────────────────────────────────────────────────────

    def authors(self) -> dict[str, list[int]]:
        found = Pairs()
        for message in self.said:
            found.add(message.author, message)
        return found.ranked()

    def first_posts(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for message in self.counted:
            at = int(message.at)
            found[message.author] = min(at, found.get(message.author, at))
        return found

    def statistics(self) -> dict[str, Any]:
        authors = self.authors()
        messages = sum(m for m, _ in authors.values())
        words = sum(w for _, w in authors.values())
        posters = len(authors)
        active = [user for user in self.users.values() if not user.get("deleted")]
        by_words = list(authors)
        by_messages = sorted(authors, key=lambda uid: (-authors[uid][0], -authors[uid][1], uid))
        m_each = [authors[uid][0] for uid in by_messages]
        w_each = [authors[uid][1] for uid in by_words]

        def middle(falling: list[int]) -> int:
            return falling[len(falling) // 2] if falling else 0

        def half(falling: list[int]) -> int:
            total, reached, number = sum(falling), 0, 0
            while total and 2 * reached < total:
                reached += falling[number]
                number += 1
            return number

        def half_of(names: list[str], falling: list[int]) -> list[str]:
            total, reached, found = sum(falling), 0, []
            for name, number in zip(names, falling, strict=True):
                if total == 0 or 2 * reached > total:
                    break
                found.append(name)
                reached += number
            return found

        return {
            "posters": posters,
            "active_users": len(active),
            "all_users": len(self.users),
            "% posting": 100 * share(sum(user["id"] in authors for user in active), len(active)),
            "messages": messages,
            "words": words,
            "average messages": share(messages, posters),
            "average words": share(words, posters),
            "median messages": middle(m_each),
            "median words": middle(w_each),
            "topten messages": 100 * share(sum(m_each[:10]), messages),
            "topten words": 100 * share(sum(w_each[:10]), words),
            "50percent of messages": half(m_each),
            "50percent of words": half(w_each),
            "pages": words // 500,
            "words per message": share(words, messages),
            "words per poster": share(words, posters),
            "messages per poster": share(messages, posters),
            "first-time posters": sum(
                self.begin <= at < self.end for at in self.first_posts().values()
            ),
            "50percent users for messages": half_of(by_messages, m_each),
            "50percent users for words": half_of(by_words, w_each),
        }

    def posting(self, key: Callable[[Message], str]) -> dict[str, tuple[Pairs, Pairs]]:
        found: dict[str, tuple[Pairs, Pairs]] = defaultdict(lambda: (Pairs(), Pairs()))
        for message in self.said:
            local = self.local(message)
            if local is not None:
                days, hours = found[key(message)]
                days.add(local[1], message)
                if local[1] < 5:
                    hours.add(local[2], message)
        return found

    def user_stats(self) -> dict[str, Any]:
        authors = self.authors()
        messages = sum(m for m, _ in authors.values())
        words = sum(w for _, w in authors.values())
        by_messages = sorted(authors, key=lambda uid: (-authors[uid][0], -authors[uid][1], uid))
        by_words = list(authors)
        answered = Counter(
            message.parent
            for message in self.said
            if message.parent and message.parent != message.author
        )
        given = Counter(uid for message in self.said for _, uid in self.reactions(message))
        posting = self.posting(lambda message: message.author)
        found: dict[str, Any] = {}
        for uid in [*by_words, *sorted(set(answered) - set(authors))]:
            m, w = authors.get(uid, [0, 0])
            own = [message for message in self.said if message.author == uid]
            reactions = sum(message.reaction_count for message in own)
            m_before = by_messages[: by_messages.index(uid) + 1] if m else []
            w_before = by_words[: by_words.index(uid) + 1] if m else []
            days, hours = posting.get(uid, (Pairs(), Pairs()))
            found[uid] = {
                "count": [m, w],
                "percent_of_messages": 100 * share(m, messages),
                "percent_of_words": 100 * share(w, words),
                "cum_percent_of_messages": 100
                * share(sum(authors[x][0] for x in m_before), messages),
                "cum_percent_of_words": 100 * share(sum(authors[x][1] for x in w_before), words),
                "rank": by_words.index(uid) + 1 if m else None,
                "reactions": reactions,
                "replies": sum(message.reply_count for message in own if message.is_head),
                "thread_messages": answered[uid],
                "rphw": share(100 * reactions, w),
                "posting_days": days.by_number(),
                "posting_hours": hours.by_number(),
                "reactions_given": given[uid],
                "replies_in_period": answered[uid],
            }
        return found

    # ── people ───────────────────────────────────────────────────────────────────────────────────

    def emoji(self, name: str) -> str:
        return re.sub("::skin-tone-[0-9]+$", "", name) if self.settings.merge_skin_tones else name

    def reactions(self, message: Message) -> list[tuple[str, str]]:
        """The emoji and who gave it, of each listed person; a merged one once."""
        found = [(self.emoji(name), uid) for name, users in message.reactions for uid in users]
        return list(dict.fromkeys(found)) if self.settings.merge_skin_tones else found

    def people(self) -> dict[str, dict[str, Counter[str]]]:
        groups: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))

        def met(kind: tuple[str, str, str], doer: str, done_to: str) -> None:
            doing, done, both = kind
            groups[doer][doing][done_to] += 1
            groups[done_to][done][doer] += 1
            groups[doer][both][done_to] += 1
            groups[done_to][both][doer] += 1

        for message in self.said:
            author = message.author
            for emoji, uid in self.reactions(message):
                kind = ("reacted_to", "reactions_from", "reactions_combined")
                met(kind, uid, author)
                groups[author]["reaction_popularity"][emoji] += 1
            for uid in message.mentions:
                met(("you_mentioned", "mentioned_you", "mentions_combined"), author, uid)
            if message.parent and message.parent != author:
                kind = ("author_thread_responded", "thread_responders", "threads_combined")
                met(kind, author, message.parent)
        return groups

    def top(self, count: Callable[[Message], int], messages: Iterable[Message]) -> list[list[Any]]:
        listed = sorted(
            (message for message in messages if count(message)),
            key=lambda message: (-count(message), message.ts, message.cid),
        )
        return [[count(of), of.ts, of.cid, of.author, of.thread or None] for of in listed[:10]]

    def lists(self, messages: list[Message]) -> tuple[list[list[Any]], list[list[Any]]]:
        return (
            self.top(lambda message: message.reaction_count, messages),
            self.top(lambda message: message.reply_count * message.is_head, messages),
        )

    def rates(self, counts: dict[str, int], words: int) -> dict[str, Fraction]:
        return {name: 1000 * share(number, words) for name, number in counts.items()}

    def enriched_users(self) -> dict[str, Any]:
        groups, authors = self.people(), self.authors()
        in_channels = self.channel_users()
        found: dict[str, Any] = {}
        for uid in sorted({*groups, *authors}):
            own = [message for message in self.said if message.author == uid]
            popularity = by_count(groups[uid]["reaction_popularity"])
            reactions, replies = self.lists(own)
            homes = Pairs()
            for message in own:
                homes.add(message.cid, message)
            channels: dict[str, Any] = {}
            for cid, (m, w) in homes.ranked().items():
                if w > 0:
                    ranks = list(in_channels[cid])
                    words = sum(pair[1] for pair in in_channels[cid].values())
                    channels[cid] = {
                        "slack_cid": cid,
                        "name": self.channels[cid]["name"],
                        "rank": ranks.index(uid) + 1,
                        "words": w,
                        "messages": m,
                        "percent": 100 * share(w, words),
                    }
            found[uid] = {
                **{name: by_count(groups[uid][name]) for name in PEOPLE},
                "reaction_popularity": popularity,
                "reaction_count": sum(popularity.values()),
                "emoji_rate": self.rates(popularity, authors.get(uid, [0, 0])[1]),
                "reactions": reactions,
                "replies": replies,
                "enriched_channels": channels,
            }
        return found

    # ── channels ─────────────────────────────────────────────────────────────────────────────────

    def channel_pairs(self) -> dict[str, list[int]]:
        found = Pairs()
        for message in self.said:
            found.add(message.cid, message)
        return found.ranked()

    def channel_users(self) -> dict[str, dict[str, list[int]]]:
        found: dict[str, dict[str, list[int]]] = {}
        for cid in self.channel_pairs():
            users = Pairs()
            for message in self.said:
                if message.cid == cid:
                    users.add(message.author, message)
            found[cid] = users.ranked()
        return found

    def channel_stats(self) -> dict[str, Any]:
        pairs, users = self.channel_pairs(), self.channel_users()
        words = sum(w for _, w in pairs.values())
        found, running = {}, 0
        for cid, (_, w) in pairs.items():
            running += w
            channel = self.channels[cid]
            found[cid] = {
                "percent": 100 * share(w, words),
                "cpercent": 100 * share(running, words),
                "posters": len(users[cid]),
                "words_per_poster": share(w, len(users[cid])),
                "new": channel["created"] > self.begin,
                "members": 0 if channel.get("is_archived") else len(set(channel["members"])),
            }
        return found

    def enriched_channels(self) -> dict[str, Any]:
        posting = self.posting(lambda message: message.cid)
        found = {}
        for cid, (_, words) in self.channel_pairs().items():
            own = [message for message in self.said if message.cid == cid]
            emoji: Counter[str] = Counter()
            for message in own:
                emoji.update(name for name, _ in self.reactions(message))
            counts = by_count(+emoji)
            reacted, replied = self.lists(own)
            days, hours = posting.get(cid, (Pairs(), Pairs()))
            found[cid] = {
                "reaction_count": sum(message.reaction_count for message in own),
                "reactions": counts,
                "emoji_rate": self.rates(counts, words),
                "most_reacted": reacted,
                "most_replied": replied,
                "posting_days": days.by_number(),
                "posting_hours": hours.by_number(),
            }
        return found

    # ── time ─────────────────────────────────────────────────────────────────────────────────────

    def time(self) -> dict[str, Any]:
        weekday, hour, user_weekday, user_hour, zones = (Pairs() for _ in range(5))
        posters: dict[str, dict[str, int]] = defaultdict(dict)
        each: dict[str, Counter[int]] = defaultdict(Counter)
        for message in self.said:
            utc = datetime.fromtimestamp(int(message.at), UTC)
            weekday.add(utc.weekday(), message)
            hour.add(utc.hour, message)
            local = self.local(message)
            if local is None:
                continue
            zone, local_weekday, local_hour = local
            user_weekday.add(local_weekday, message)
            zones.add(zone, message)
            posters[zone][message.author] = 1
            if local_weekday < 5:
                user_hour.add(local_hour, message)
                each[message.author][local_hour] += 1
        shares = {
            str(at): share(
                sum((100 * share(of[at], of.total()) for of in each.values()), Fraction(0)),
                len(each),
            )
            for at in range(24)
        }
        thirds = {
            str(third): sum(
                (shares[str(at)] for at in range(8 * third, 8 * third + 8)), Fraction(0)
            )
            for third in range(3)
        }
        return {
            "weekday": weekday.by_number(),
            "hour": hour.by_number(),
            "user_weekday": user_weekday.by_number(),
            "user_weekday_hour": user_hour.by_number(),
            "weekday_activity_percentage": shares,
            "weekday_activity_percentage_periods": thirds,
            "weekday_actity_percentage_periods": thirds,
            "timezone": zones.ranked(),
            "posters_per_timezone": {
                zone: dict(sorted(posters[zone].items())) for zone in zones.ranked()
            },
        }

    # ── new statistics ───────────────────────────────────────────────────────────────────────────

    def first_answer(self, top: Message) -> Fraction | None:
        """When somebody else first replied."""
        found = [
            message.at
            for message in self.counted
            if message.is_reply
            and (message.cid, message.thread) == (top.cid, top.ts)
            and message.author != top.author
        ]
        return min(found, default=None)

    def new_statistics(self, before: "Week") -> dict[str, Any]:
        authors = self.authors()
        waits = []
        for message in self.said:
            answer = self.first_answer(message) if message.is_head else None
            if answer is not None:
                waits.append(math.floor(answer - message.at))
        waits.sort()
        top = [message for message in self.said if not message.is_reply]
        unanswered = sum(
            self.first_answer(message) is None
            and not any(
                uid != message.author and not self.is_bot(uid)
                for _, users in message.reactions
                for uid in users
            )
            for message in top
        )
        words = sorted(w for _, w in authors.values())
        gini = share(
            sum((2 * i - len(words) - 1) * x for i, x in enumerate(words, 1)),
            len(words) * sum(words),
        )
        daily = {}
        for number in range(self.settings.days):
            day = self.start + number * DAY
            begin, end = midnight(day, self.zone), midnight(day + DAY, self.zone)
            daily[day.isoformat()] = len({m.author for m in self.said if begin <= m.at < end})
        edges: dict[str, Counter[str]] = defaultdict(Counter)
        for message in self.said:
            targets = [(message.author, uid) for uid in message.mentions]
            targets += [(message.author, message.parent)] * bool(message.parent)
            targets += [(uid, message.author) for _, uid in self.reactions(message)]
            for one, other in targets:
                edges[one][other] += one != other
        now, then, first = set(authors), set(before.authors()), self.first_posts()
        return {
            "threads_started": sum(m.is_head and m.reply_count >= 1 for m in self.said),
            "thread_share": share(sum(m.is_reply for m in self.said), len(self.said)),
            "first_reply": {
                "count": len(waits),
                "median": waits[math.ceil(len(waits) / 2) - 1] if waits else None,
                "p90": waits[math.ceil(Fraction(9 * len(waits), 10)) - 1] if waits else None,
            },
            "top_level": len(top),
            "unanswered": unanswered,
            "gini_of_words": gini,
            "daily_posters": daily,
            "daily_posters_mean": share(sum(daily.values()), len(daily)),
            "wau": self.posters_of_last(7),
            "mau": self.posters_of_last(28),
            "retention": {
                "rate": 100 * share(len(now & then), len(then)) if then else None,
                "both": len(now & then),
                "new": sum(self.begin <= first[uid] < self.end for uid in now),
                "lapsed": len(then - now),
                "returning": sum(first[uid] < self.begin for uid in now - then),
            },
            "edges": {one: by_count(+edges[one]) for one in sorted(edges) if +edges[one]},
            "huddles": self.huddles(),
            "bot_share": self.bot_share(),
        }

    def posters_of_last(self, days: int) -> int:
        begin = midnight(self.last - (days - 1) * DAY, self.zone)
        return len({m.author for m in self.counted if begin <= m.at < self.end})

    def kept(self) -> list[Message]:
        return [m for m in self.everything if not m.deleted and self.begin <= m.at < self.end]

    def huddles(self) -> dict[str, int]:
        huddles = [m for m in self.kept() if m.subtype == "huddle_thread"]
        rooms = [m.room or {} for m in huddles]
        return {
            "count": len(huddles),
            "participants": len(
                {uid for room in rooms for uid in room.get("participant_history", [])}
            ),
            "seconds": sum(
                room["date_end"] - room["date_start"]
                for room in rooms
                if room.get("date_start", 0) > 0 and room.get("date_end", 0) > 0
            ),
        }

    def bot_share(self) -> Fraction:
        bots = people = 0
        for message in self.kept():
            if message.subtype == "bot_message" or (
                message.author
                and self.is_bot(message.author)
                and message.subtype in {"", *self.talk}
            ):
                bots += 1
            elif self.counts(message):
                people += 1
        return share(bots, bots + people)


PEOPLE = (
    "reactions_from",
    "reacted_to",
    "reactions_combined",
    "author_thread_responded",
    "thread_responders",
    "threads_combined",
    "you_mentioned",
    "mentioned_you",
    "mentions_combined",
)


def compare(cur: Any, prev: Any) -> dict[str, Any]:
    if prev is None:
        return {"cur": cur, "prev": None, "diff_pct": None, "state": "new"}
    if prev == 0:
        state = "same" if cur == 0 else "from_zero"
        return {"cur": cur, "prev": prev, "diff_pct": None, "state": state}
    diff = Fraction(cur) * 100 / Fraction(prev) - 100
    state = "same" if abs(diff) < Fraction(1, 2) else "up" if diff > 0 else "down"
    return {"cur": cur, "prev": prev, "diff_pct": diff, "state": state}


def compared(now: Week, then: Week) -> dict[str, Any]:
    statistics, earlier = now.statistics(), then.statistics()
    days, days_before = now.time()["user_weekday"], then.time()["user_weekday"]
    found: dict[str, Any] = {
        "statistics": {
            name: compare(value, earlier[name])
            for name, value in statistics.items()
            if not isinstance(value, list)
        },
        "user_weekday": {
            str(day): pair(days.get(str(day), [0, 0]), days_before.get(str(day), [0, 0]))
            for day in range(7)
        },
        "channels": {},
        "users": {},
    }
    pairs, pairs_before = now.channel_pairs(), then.channel_pairs()
    stats, stats_before = now.channel_stats(), then.channel_stats()
    users, users_before = now.channel_users(), then.channel_users()
    for cid, (m, w) in pairs.items():
        before = stats_before.get(cid)
        old = pairs_before.get(cid, [None, None])
        entry = {"messages": compare(m, old[0]), "words": compare(w, old[1])}
        for name in ("percent", "cpercent", "posters", "words_per_poster"):
            entry[name] = compare(stats[cid][name], before and before[name])
        entry["share_rounded"] = compare(
            round(stats[cid]["percent"], 1), before and round(before["percent"], 1)
        )
        entry["users"] = {
            uid: pair(value, users_before.get(cid, {}).get(uid))
            for uid, value in users[cid].items()
        }
        found["channels"][cid] = entry
    of_users, of_users_before = now.user_stats(), then.user_stats()
    people, people_before = now.people(), then.people()
    for uid, stat in of_users.items():
        before = of_users_before.get(uid)
        counts = before["count"] if before else [None, None]
        found["users"][uid] = {
            "messages": compare(stat["count"][0], counts[0]),
            "words": compare(stat["count"][1], counts[1]),
            **{
                name: compare(stat[name], before and before[name])
                for name in ("rphw", "thread_messages", "percent_of_words", "cum_percent_of_words")
            },
            "people": {
                name: {
                    "total": compare(
                        people[uid][name].total(), people_before[uid][name].total() if before else 0
                    ),
                    "people": compare(
                        len(people[uid][name]), len(people_before[uid][name]) if before else 0
                    ),
                }
                for name in PEOPLE
            },
        }
    return found


def pair(now: list[int], then: list[int] | None) -> dict[str, Any]:
    m, w = then or (None, None)
    return {"messages": compare(now[0], m), "words": compare(now[1], w)}


def document(workspace: Workspace, settings: Settings) -> dict[str, Any]:
    """The report document, with fractions where it has floats."""
    messages = messages_of(workspace)
    now = Week(workspace, messages, settings.start, settings)
    then = Week(workspace, messages, settings.start - settings.days * DAY, settings)
    emoji: Counter[str] = Counter()
    for message in now.said:
        emoji.update(name for name, _ in now.reactions(message))
    counts = by_count(+emoji)
    reacted, replied = now.lists(now.said)
    words = sum(message.words for message in now.said)
    return {
        "profile": "modern",
        "report_timezone": settings.zone,
        "start_date": settings.start.isoformat(),
        "end_date": now.last.isoformat(),
        "days": settings.days,
        "statistics": now.statistics(),
        "users": now.authors(),
        "user_stats": now.user_stats(),
        "enriched_user": now.enriched_users(),
        "channels": now.channel_pairs(),
        "channel_stats": now.channel_stats(),
        "channel_user": now.channel_users(),
        "enriched_channel": now.enriched_channels(),
        **now.time(),
        "reaction": counts,
        "emoji_rate": now.rates(counts, words),
        "reaction_count": reacted,
        "reply_count": replied,
        "new_statistics": now.new_statistics(then),
        "compared": compared(now, then),
    }
