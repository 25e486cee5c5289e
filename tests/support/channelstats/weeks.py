"""The weeks of the worked example: what their reports are made of, and what is known beside it."""

import json
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from channelstats.facts import Options, Period
from channelstats.pages.reports import ReportData, ReportKind, ReportRequest, load_report_data
from channelstats.pages.stored_document import document_of
from channelstats.render.names import Directory, load
from channelstats.render.reports import Form, render
from support.channelstats.house import EXAMPLE, NOW, UTC, house
from support.clocks import ManualClock


@dataclass
class Week:
    """A week; ``document`` is the stored one."""

    data: ReportData
    directory: Directory
    document: dict[str, Any]

    def named(self, directory: Directory) -> "Week":
        """The same with other names."""
        return replace(self, directory=directory)

    def files(
        self, kind: str, form: str, subject: str = "", *, smallest_group: int = 1
    ) -> dict[str, bytes]:
        """The files of a report."""
        wanted, data = ReportRequest(ReportKind(kind), subject), self.data
        if smallest_group != data.smallest_group:
            data = replace(data, smallest_group=smallest_group)
        return render(wanted, data, self.directory, Form(form))

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
    options = Options()
    async with house(folder) as opened:
        await opened.take_in(EXAMPLE)
        tables = opened.tables
        for name, start in STARTS.items():
            period = Period(start, 7, UTC)
            found[name] = Week(
                await load_report_data(tables, period, options, now=int(NOW)),
                await load(tables, "example"),
                json.loads(await document_of(tables, period, options, clock=ManualClock(NOW))),
            )
    return found
