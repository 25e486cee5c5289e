"""How many people use a word or a link in a week, counted while messages are read.

Rule: nothing of a text is stored but what at least `FEWEST_PEOPLE` people wrote in at least
`FEWEST_CHANNELS` public channels in one week, and of that the number of people alone. Until a run
is over its counts are in memory, and only there: a word that few people use is on no disk, neither
as it is nor as a digest, which a dictionary would undo. So each run counts by itself; of two that
counted the same week the one that saw more messages of it is kept (see `tables.topics`).

Messages of excluded people and of bots are not counted, nor are names of people, code, mentions,
emoji, mail addresses and the words of `stop_words`. Of a link its host and path are kept.
"""

import asyncio
import re
from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import date
from typing import Final, Self, TypeAlias
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import msgspec
import polars as pl

from channelstats.counting import PEOPLE_SUBTYPES, is_bot
from channelstats.days import DAY, SUNDAY, date_at, midnight, week_of
from channelstats.ingest.stop_words import STOP_WORDS
from channelstats.tables import Tables
from channelstats.tables.directory import User
from channelstats.tables.exclusion import Exclusions
from channelstats.tables.message_row import MessageRow
from channelstats.tables.topics import FEWEST_PEOPLE, WeekTopics

FEWEST_CHANNELS: Final = 2

WEEKS: Final = 13
"""The newest weeks of what is read are counted: one is compared with the eight before it, and the
pages reach back a month. More would cost time and memory in each import."""

SHORTEST_WORD, LONGEST_WORD = 3, 30
LONGEST_LINK: Final = 120
_MOST_WORDS: Final = 1 << 21
"""Of a run; also of pieces of text between separators."""
_MOST_USES: Final = 1 << 25
"""Of all weeks of one run; what comes beyond is not counted. About 200 MB."""
_PENDING: Final = 1 << 21
"""Characters of messages after which their words are looked for."""
_WEEK: Final = 7 * DAY

_WORD: Final = re.compile(r"[^\W_]+")
_SEPARATED: Final = bytes(
    code if code >= 0x80 else ord(chr(code).lower() if chr(code).isalnum() else " ")
    for code in range(256)
)
"""What each byte of UTF-8 becomes: ASCII a small letter, a digit or a space."""
_HALVES: Final = "surrogatepass"
"""Texts may hold halves of surrogate pairs."""
_MARKED_UP: Final = (
    r"```.*?(?:```|$)|`[^`\n]*`"  # code
    r"|<[^>]*>|https?://\S+"  # mentions, channels, links
    r"|:[a-z0-9_+'-]+:"  # emoji
)
_NO_WORDS: Final = re.compile(_MARKED_UP, re.DOTALL)
_NO_WORDS_NOR_MAIL: Final = re.compile(rf"{_MARKED_UP}|[^\s@]*+@\S*", re.DOTALL)
"""The same, mail addresses and mentions that are none; it takes four times as long."""
_LINK: Final = re.compile(
    # A pattern that begins with letters skips other text ten times as fast.
    r"http(?:(?<=<http)s?://[^>|\s]+|(?<!<http)(?<!\whttp)s?://[^\s<>|]+)"
)
_MOST_LINKS: Final = 1 << 14
"""Links that are taken apart only once."""
_SLACK: Final = ".slack.com"
"""Links to messages and files are about these alone."""

_Pending: TypeAlias = defaultdict[tuple[str, str], list[str]]
"""What a person wrote in a channel."""

_WRITTEN: Final = frozenset({"", *PEOPLE_SUBTYPES})


class TopicRules(msgspec.Struct, frozen=True):
    """What the operator decides: whether words are counted, the first day of weeks (Monday is 0),
    and a mark of who and what is left out.
    """

    is_on: bool = True
    first_weekday: int = SUNDAY
    left_out: str = ""


class NotCounted(msgspec.Struct, frozen=True):
    """Whose messages are not counted, and words that are none as somebody is called so."""

    excluded: Exclusions
    bots: frozenset[str]
    names: frozenset[str]

    @classmethod
    async def load(cls, tables: Tables, excluded: Exclusions) -> Self:
        users = await tables.users.all()
        bots = frozenset(uid for uid, user in users.items() if user.is_bot)
        return cls(excluded, bots, await asyncio.to_thread(words_of_names, users.values()))

    def __contains__(self, uid: str) -> bool:
        return uid in self.excluded or is_bot(uid, self.bots)


class TopicCounter:
    """Counts the messages of one run, of the weeks up to the one that ``newest`` is in (seconds).
    It can be sent to another process before it has counted anything.
    """

    def __init__(self, newest: int, zone: ZoneInfo, first_weekday: int) -> None:
        last = week_of(date_at(newest, zone), first_weekday)
        self._weeks = [last - number * _WEEK for number in reversed(range(WEEKS))]
        ends = [*self._weeks, last + _WEEK]
        self._bounds = [f"{midnight(day, zone):010d}.000000" for day in ends]
        self._begin, self._end = "", ""
        self._messages = [0] * WEEKS
        self._uses = [_Uses() for _ in self._weeks]
        self._terms, self._people, self._channels = _Terms(), _Numbers(), _Numbers()
        self._tokens, self._links = _Tokens(self._terms), _Links(self._terms)
        self._pending: list[_Pending] = [defaultdict(list) for _ in self._weeks]
        self._now: _Pending | None = None
        self._waiting = 0

    def add(self, row: MessageRow, text: str) -> None:
        """Count what somebody wrote in a public channel."""
        if not self._begin <= row.ts < self._end:
            week = bisect_right(self._bounds, row.ts) - 1
            self._begin, self._end = ("", *self._bounds, "~")[week + 1 : week + 3]
            self._now = self._pending[week] if 0 <= week < WEEKS else None
        if self._now is None or not row.slack_uid or row.is_bot or row.subtype not in _WRITTEN:
            return
        self._now[row.slack_uid, row.slack_cid].append(text)
        self._waiting += len(text)
        if self._waiting > _PENDING:
            self._number()

    def _number(self) -> None:
        """Turn what came into numbers."""
        for week, pending in enumerate(self._pending):
            uses = self._uses[week]
            for (uid, cid), texts in pending.items():
                self._messages[week] += len(texts)
                if len(uses.words) < _MOST_USES // WEEKS:
                    uses.add(self._numbers(texts), self._people[uid], self._channels[cid])
            pending.clear()
        self._waiting = 0

    def _numbers(self, texts: Iterable[str]) -> set[int]:
        """The numbers of the words and links in texts."""
        plain: list[str] = []
        found: set[int] = set()  # `set[int]()` takes three times as long
        for text in texts:
            if "<" in text or ":" in text or "`" in text or "@" in text:
                if "http" in text:
                    for address in _LINK.findall(text):
                        found |= self._links[address]
                text = (_NO_WORDS_NOR_MAIL if _may_have_mail(text) else _NO_WORDS).sub(" ", text)
            # The small letter of a capital may depend on the letters beside it.
            plain.append(text if text.isascii() else text.lower())
        # Bytes are taken apart in a third of the time that characters take.
        tokens = " ".join(plain).encode(errors=_HALVES).translate(_SEPARATED).split()
        found.update(map(self._tokens.__getitem__, tokens))
        for number in found & self._tokens.several.keys():
            found.remove(number)
            found |= self._tokens.several[number]
        found.discard(_Terms.STOPPED)
        return found

    def result(self, out: NotCounted) -> dict[date, WeekTopics]:
        """What is kept of each week."""
        self._number()
        people = [number for uid, number in self._people.items() if uid in out]
        terms = [None if term in out.names else term for term in self._terms.known]
        known = pl.Series("term", terms, pl.String)
        found = {}
        for number, week in enumerate(self._weeks):
            if messages := self._messages[number]:
                found[week] = _kept(self._uses[number].frame(), people, known, messages)
        return found


class _Numbers(dict[str, int]):
    """A number for each text, in the order in which they come."""

    def __missing__(self, text: str) -> int:
        self[text] = number = len(self)
        return number


class _Terms(dict[str, int]):
    """A number for each word and link; ``known`` has them by their numbers. Stop words have one
    number, and one have all others that are not kept, however many say them.
    """

    STOPPED, UNFIT = 0, 1

    def __init__(self) -> None:
        super().__init__()
        self.known: list[str | None] = [None, None]

    def __missing__(self, term: str) -> int:
        if term in STOP_WORDS or len(self) >= _MOST_WORDS:
            return self.STOPPED
        if not _is_fit(term):
            return self.UNFIT
        self[term] = number = len(self.known)
        self.known.append(term)
        return number


class _Tokens(dict[bytes, int]):
    """The number of the word in a piece of text between ASCII separators, in UTF-8. A piece that
    other separators divide into several words has a negative number; ``several`` has theirs.
    """

    def __init__(self, terms: _Terms) -> None:
        super().__init__()
        self._terms = terms
        self.several: dict[int, set[int]] = {}

    def __missing__(self, token: bytes) -> int:
        if len(self) >= _MOST_WORDS:
            return _Terms.STOPPED
        numbers = {self._terms[word] for word in words_of(token.decode(errors=_HALVES))}
        if len(numbers) > 1:
            number = -1 - len(self.several)
            self.several[number] = numbers
        else:
            number = numbers.pop() if numbers else _Terms.STOPPED
        self[token] = number
        return number


class _Links(dict[str, frozenset[int]]):
    """What of a link is kept, by its address, as numbers."""

    def __init__(self, terms: _Terms) -> None:
        super().__init__()
        self._terms = terms

    def __missing__(self, address: str) -> frozenset[int]:
        numbers = frozenset(map(self._terms.__getitem__, _link(address)))
        if len(self) < _MOST_LINKS:
            self[address] = numbers
        return numbers


class _Uses:
    """The words of a week, by their numbers: some of each person in a channel, one after the other.
    ``sizes`` says how many.
    """

    def __init__(self) -> None:
        self.words, self.sizes = array("I"), array("I")
        self.people, self.channels = array("I"), array("I")

    def add(self, words: Iterable[int], person: int, channel: int) -> None:
        before = len(self.words)
        self.words.extend(words)
        if size := len(self.words) - before:
            self.sizes.append(size)
            self.people.append(person)
            self.channels.append(channel)

    def frame(self) -> pl.DataFrame:
        """A row for each word: `word`, `person`, `channel`."""
        each = {"person": self.people, "channel": self.channels, "size": self.sizes}
        groups = pl.DataFrame(each, schema=dict.fromkeys(each, pl.UInt32))
        words = pl.Series("word", self.words, pl.UInt32)
        who_and_where = pl.col("person", "channel").repeat_by("size").explode()
        return groups.select(who_and_where).with_columns(words)


def _kept(each: pl.DataFrame, left_out: list[int], words: pl.Series, messages: int) -> WeekTopics:
    if left_out:
        each = each.filter(~pl.col("person").is_in(left_out))
    counts = each.group_by("word").agg(pl.col("person").n_unique(), pl.col("channel").n_unique())
    many = counts.filter(pl.col("person") >= FEWEST_PEOPLE, pl.col("channel") >= FEWEST_CHANNELS)
    named = pl.DataFrame({"term": words.gather(many["word"]), "people": many["person"]})
    return WeekTopics(
        messages=messages,
        people=each["person"].n_unique(),
        # Numbers of words are others in each run.
        terms=dict(named.drop_nulls().sort("term").iter_rows()),
    )


# ── words ────────────────────────────────────────────────────────────────────────────────────────


def words_of(text: str) -> list[str]:
    """The words of a text without links and the like, in small letters."""
    return _WORD.findall(text.lower())


def _may_have_mail(text: str) -> bool:
    """Whether any `@` is of something else than mentions, each of which begins a word."""
    if "@" not in text:
        return False
    mentions = text.count(" <@") + text.startswith("<@")
    return text.count("@") > mentions or text.rfind(">") < text.rfind("<@")


def _link(address: str) -> Iterator[str]:
    """The host of a link, and the page: without what only some may see or know, such as a query."""
    try:
        parts = urlsplit(address.replace("&amp;", "&"))
        host = (parts.hostname or "").removeprefix("www.")
    except ValueError:
        return
    if "." not in host or f".{host}".endswith(_SLACK):
        return
    yield host
    if path := parts.path.rstrip(".,;:!?)").rstrip("/"):
        yield f"{host}{path}"


def _is_fit(term: str) -> bool:
    if "." in term:  # a link, as no word has one
        return len(term) <= LONGEST_LINK and term.isprintable()
    return SHORTEST_WORD <= len(term) <= LONGEST_WORD and not term.isdecimal()


def words_of_names(users: Iterable[User]) -> frozenset[str]:
    """What people are called, in the form that words have."""
    return frozenset(
        word
        for user in users
        for name in (user.user_name, user.real_name, user.display_name)
        for word in words_of(name)
    )
