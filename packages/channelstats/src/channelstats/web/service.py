"""What is worked out for the pages: names, the days that were read, views, reports.

Rule: what was worked out serves again as long as the store says that nothing it was made of
changed; so what another process brings is on the next page. The work is done in threads, one piece
of a kind at a time.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Hashable
from contextlib import nullcontext
from datetime import date
from functools import partial
from typing import Final, Generic, TypeVar

import msgspec

from channelstats.days import DAY, date_at, week_of
from channelstats.facts import Period
from channelstats.facts.periods import WEEK, YEAR, History
from channelstats.facts.reading import ReportContext, history_of, load_context
from channelstats.lookup import Names
from channelstats.metrics.volume import volume
from channelstats.pages.annotations import with_date_notes, with_marks
from channelstats.pages.loading import (
    NO_MEMBERS,
    DashboardData,
    Members,
    TooMuch,
    load,
    load_members,
    refuse_small,
)
from channelstats.pages.model import CHANNEL, UNCOMPARED, Choice, ChoiceError, Page
from channelstats.pages.reports import ReportKind, ReportRequest
from channelstats.pages.views import view_of
from channelstats.render.reports import Form, render
from channelstats.sending.targets import report_data
from channelstats.settings import Settings
from channelstats.tables import Tables
from channelstats.tables.exclusion import resolve_channels, resolve_people
from channelstats.tables.messages import Progress
from channelstats.web.message_texts import MessageTexts
from keytables import Clock

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_MESSAGES: Final = 2_000_000
"""Messages that are kept in memory, of one choice of days or of several."""

_AT_ONCE: Final = 4
"""Periods that are read and views that are made at a time: one for each period that is offered, so
that none of them waits for the longest. Only of large ones it is one at a time."""

_CELLS: Final = 1_000_000
"""Cells of tables of views that are kept."""

_REPORTS: Final = 8
_PATIENCE: Final = 900.0
"""Seconds for reading days; a page waits less long."""

_UNSETTLED: Final = 30
"""Seconds after which days are read again that somebody is writing to."""

_NAMES: Final = 300
"""Seconds after which names are read again."""

_STORE_PATIENCE: Final = 15.0

_WAITING: Final = 16
"""Keys of a cache that are being made or wait for it."""


class FirstImport(Exception):  # noqa: N818 - named for what happens
    """The first import is going on: nothing can be worked out in a time that anybody would wait."""


class Busy(Exception):  # noqa: N818 - named for what happened
    """It is not ready yet; asking again in a while helps."""


class SingleFlightCache(Generic[K, V]):
    """What was made for one request and may serve the next. Results are kept that weigh ``most``
    together, and the newest whatever it weighs. ``at_once`` are made at a time; nobody waits longer
    than ``patience`` seconds.

    Rule: of one key there is never more than one making at a time; what was kept is bounded, and so
    is what waits. Whoever waits too long gets `Busy`; the making goes on and serves whoever asks
    again.
    """

    def __init__(
        self,
        most: int,
        *,
        weigh: Callable[[V], int] = lambda _: 1,
        at_once: int = 1,
        patience: float = 20.0,
    ) -> None:
        self._most, self._weigh, self._patience = most, weigh, patience
        self._weight = 0
        self._places = asyncio.Semaphore(at_once)
        self._made: OrderedDict[K, V] = OrderedDict()
        self._making: dict[K, asyncio.Task[V]] = {}

    async def get(self, key: K, make: Callable[[], Coroutine[None, None, V]]) -> V:
        """What was made for a key, or will be.

        :raises Busy: it takes too long, or too much is being made
        """
        if key in self._made:
            self._made.move_to_end(key)
            return self._made[key]
        if key not in self._making:
            if len(self._making) >= _WAITING:
                raise Busy
            self._making[key] = asyncio.create_task(self._make(key, make))
        try:
            # Whoever goes away takes nothing from the others. Not `wait_for`: before Python 3.12 it
            # swallows a cancellation that comes when the result is there.
            async with asyncio.timeout(self._patience):
                return await asyncio.shield(self._making[key])
        except TimeoutError:
            raise Busy from None

    async def close(self) -> None:
        """Give up what is being made."""
        making = list(self._making.values())
        for task in making:
            task.cancel()
        await asyncio.gather(*making, return_exceptions=True)

    async def _make(self, key: K, make: Callable[[], Coroutine[None, None, V]]) -> V:
        try:
            async with self._places:
                made = await make()
            self._made[key] = made
            self._weight += self._weigh(made)
            while self._weight > self._most and len(self._made) > 1:
                _, oldest = self._made.popitem(last=False)
                self._weight -= self._weigh(oldest)
            return made
        finally:
            del self._making[key]


class StoreSnapshot(msgspec.Struct, frozen=True):
    """What the store holds. ``history`` is the time that messages are known of; ``mark`` tells what
    is stored from what was stored at any other time. Unless it ``is_settled``, somebody may be
    writing, and the mark lasts for seconds.
    """

    is_empty: bool
    history: History
    mark: str
    is_settled: bool


class DashboardService:
    """A workspace that ``is_made_up`` is nowhere in Slack; ``texts`` is where messages can be
    read.
    """

    def __init__(
        self,
        tables: Tables,
        settings: Settings,
        *,
        clock: Clock,
        is_made_up: bool = False,
        texts: MessageTexts | None = None,
    ) -> None:
        self.tables, self.settings, self.clock = tables, settings, clock
        self.is_made_up, self.texts = is_made_up, texts
        self._alone = asyncio.Lock()
        """Held by whoever has much in memory beside what is kept."""
        self._history: SingleFlightCache[str, History] = SingleFlightCache(1)
        self._names: SingleFlightCache[str, Names] = SingleFlightCache(1)
        self._context: SingleFlightCache[str, ReportContext] = SingleFlightCache(1)
        self._data: SingleFlightCache[tuple[Choice, str], DashboardData] = SingleFlightCache(
            _MESSAGES,
            weigh=lambda data: data.inputs.messages.height,
            at_once=_AT_ONCE,
            patience=_PATIENCE,
        )
        self._views: SingleFlightCache[tuple[str, Choice, str, Members], Page] = SingleFlightCache(
            _CELLS, weigh=_cells, at_once=_AT_ONCE
        )
        self._reports: SingleFlightCache[tuple[date, ReportRequest, str], str] = SingleFlightCache(
            _REPORTS
        )

    @property
    def today(self) -> date:
        return date_at(int(self.clock()), self.tables.zone)

    async def close(self) -> None:
        people = self._names, self._context, self._history
        for kept in (self._reports, self._views, self._data, *people):
            await kept.close()

    async def snapshot(self) -> StoreSnapshot:
        """What there is now. Cheap: it is asked for each page.

        :raises FirstImport: there is nothing whole yet
        """
        configuration = self.tables.configuration
        async with asyncio.timeout(_STORE_PATIENCE):
            read, as_of = await configuration.last_run(), await configuration.directory_as_of()
            if not read and await self.tables.first_run_is_on(self.clock):
                raise FirstImport
            state = await self.tables.messages.versions.since(date.min)
            gone = len(await self.tables.configuration.forgotten())
            about = f"{as_of} {read} {gone}"
            mark = f"{about} {state or self._now(_UNSETTLED)}"

            async def history() -> History:
                posts = await self.tables.first_posts.all()
                return history_of(posts, min(read, int(self.clock())), self.tables.zone)

            return StoreSnapshot(
                is_empty=not read and await self.tables.messages.is_empty(),
                history=await self._history.get(mark, history),
                mark=mark,
                is_settled=state is not None,
            )

    async def names(self, snapshot: StoreSnapshot) -> Names:
        """Who is who."""
        return await self._names.get(self._mark_of_people(snapshot), self._read_names)

    def _mark_of_people(self, snapshot: StoreSnapshot) -> str:
        # An older export may bring people without messages, which no mark of the store tells.
        return f"{snapshot.mark} {self._now(_NAMES)}"

    async def read(
        self, choice: Choice, snapshot: StoreSnapshot, progress: Progress | None = None
    ) -> DashboardData:
        """Read the days of a choice, which every view of them needs."""

        async def read(days: Choice) -> DashboardData:
            reading = partial(self._load, days, snapshot, progress)
            now = await self._data.get((days, snapshot.mark), reading)
            if not choice.against_year:
                return now
            first, last = (day - YEAR * DAY for day in (days.first, days.last))
            days = msgspec.structs.replace(days, first=first, last=last)
            reading = partial(self._load, days, snapshot)
            return now.against_year(await self._data.get((days, snapshot.mark), reading))

        try:
            return await read(Choice(choice.first, choice.last))
        except TooMuch:
            if not choice.channels or choice.compare:
                raise
            alone = Choice(choice.first, choice.last, choice.channel, group=choice.group)
            return await read(alone)

    async def _load(
        self, days: Choice, snapshot: StoreSnapshot, progress: Progress | None = None
    ) -> DashboardData:
        reading = partial(load_context, self.tables, self.settings.options)
        return await load(
            self.tables,
            choice=days,
            options=self.settings.options,
            first_weekday=self.settings.first_weekday,
            context=await self._context.get(self._mark_of_people(snapshot), reading),
            progress=progress,
            alone=self._alone,
        )

    async def view(
        self, name: str, choice: Choice, snapshot: StoreSnapshot, assignee: str = ""
    ) -> Page:
        """A view. What somebody marked is left out of what is to be done at once, and what somebody
        noted is there; with an ``assignee`` what is not assigned to them is left out too.

        :raises ChoiceError: the choice cannot be shown
        :raises Busy: it takes too long
        """
        if name in UNCOMPARED:
            choice = msgspec.structs.replace(choice, against_year=False)
        members = NO_MEMBERS
        if name == CHANNEL and choice.channel:
            members = await load_members(self.tables, choice, self.settings.options)

        async def make() -> Page:
            data, smallest = await self.read(choice, snapshot), self.settings.min_group
            making = partial(view_of, smallest_group=smallest, members=members)
            async with self._alone if data.is_large else nullcontext():
                return await asyncio.to_thread(making, name, data, choice)

        page = await self._views.get((name, choice, snapshot.mark, members), make)
        page = with_marks(page, await self.tables.marks.all(), assignee)
        return with_date_notes(page, await self.tables.configuration.notes())

    # ── reports ──────────────────────────────────────────────────────────────────────────────────

    async def report(self, choice: Choice, snapshot: StoreSnapshot) -> str:
        """The report of the week that a choice ends in, as a page: of everything, or of the person
        or the channel.

        :raises ChoiceError: fewer people posted than a group must have
        :raises Busy: it takes too long
        """
        start = week_of(choice.last, self.settings.first_weekday)
        if choice.group and not choice.person:
            raise ChoiceError("channel: expected one channel to report on, not a group")
        kind = ReportKind.CHANNEL if choice.channel else ReportKind.GLOBAL
        if choice.person:  # it is about what the person wrote anywhere, whatever channel is chosen
            kind, choice = ReportKind.USER, Choice(choice.first, choice.last, person=choice.person)
        subject = choice.person or choice.channel
        wanted = ReportRequest(kind, subject, self.settings.optin_channel)
        names = await self.names(snapshot)
        making = partial(self._rendered, start, wanted, choice, names)
        mark = f"{snapshot.mark} {await self.tables.configuration.notes()}"
        return await self._reports.get((start, wanted, mark), making)

    def _now(self, seconds: int) -> int:
        """Another number every so many seconds."""
        return int(self.clock()) // seconds

    # ── making ───────────────────────────────────────────────────────────────────────────────────

    async def _read_names(self) -> Names:
        users, channels = await self.tables.users.all(), await self.tables.channels.all()
        settings = self.settings
        out = resolve_people(settings.exclude_users, users)
        out |= resolve_channels(settings.exclude_channels, channels)
        team = resolve_people(settings.team, users)
        slack_name = await self.tables.configuration.slack_name(settings.slack_name)
        making = partial(Names, slack_name=slack_name, out=out, team=team)
        return await asyncio.to_thread(making, users, channels)

    async def _rendered(
        self, start: date, wanted: ReportRequest, choice: Choice, names: Names
    ) -> str:
        week = Period(start, WEEK, self.tables.zone)
        data = await report_data(self.tables, self.settings, week, self.clock)

        def rendered() -> str:
            refuse_small(choice, data.groups)
            posters, fewest = volume(data.now).posters, data.groups.smallest
            if wanted.kind is ReportKind.GLOBAL and 0 < posters < fewest:
                small = f"fewer than {fewest} people posted in these days"
                raise ChoiceError(f"{small}: they have no report")
            return render(wanted, data, names.directory, Form.HTML)[""].decode()

        return await asyncio.to_thread(rendered)


def _cells(view: Page) -> int:
    """How large a view is."""
    return 100 + sum(table.rows.height * table.rows.width for table in view.tables)
