"""The weeks of the worked example as documents, with what is known beside them."""

from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from channelstats.render.names import Directory, load
from channelstats.reports.cache import document_of
from channelstats.reports.document import whole
from channelstats.reports.render import Form, Kind, Wanted, render
from channelstats.stats import Options, Period
from support.channelstats.house import COMPAT, EXAMPLE, NOW, UTC, house
from support.clocks import ManualClock


@dataclass
class Week:
    """A document and its directory."""

    document: dict[str, Any]
    directory: Directory

    def files(self, kind: str, form: str, subject: str = "", **options: Any) -> dict[str, bytes]:
        wanted = Wanted(Kind(kind), subject)
        return render(wanted, self.document, self.directory, Form(form), **options)[1]

    def text(self, kind: str, form: str, subject: str = "", **options: Any) -> str:
        """The one file of a report."""
        return self.files(kind, form, subject, **options)[""].decode()


STARTS = {
    "W1": date(2024, 3, 3),
    "W2": date(2024, 3, 10),
    "silent": date(2024, 5, 5),
    "after": date(2024, 3, 17),
}


async def all_weeks_in(folder: Path) -> dict[str, Week]:
    found = {}
    async with house(folder) as opened:
        await opened.take_in(EXAMPLE)
        for name, start in STARTS.items():
            period = Period(start, 7, UTC)
            document = await document_of(
                opened.tables, period, Options(COMPAT), clock=ManualClock(NOW)
            )
            found[name] = Week(
                dict(whole(document)),
                await load(opened.tables, period, "example", ["CDEV", "CGEN"]),
            )
    return found
