"""The weeks of the worked example: what their reports are made of, and what is known beside it."""

import json
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

from channelstats.privacy import Pseudonyms, hidden_inputs
from channelstats.render.names import Directory, load
from channelstats.render.reports import Form, render, shown_subject
from channelstats.stats import Options, Period
from channelstats.stats.document import document_of
from channelstats.views.loading import DashboardData
from channelstats.views.report_data import ReportData, load_report_data
from channelstats.views.reports import ReportKind, ReportRequest
from support.channelstats.house import EXAMPLE, NOW, UTC, house
from support.clocks import ManualClock


@dataclass
class Week:
    """A week; ``document`` is the stored one."""

    data: ReportData
    directory: Directory
    document: dict[str, Any]
    _hidden: dict[Pseudonyms, ReportData] = field(default_factory=dict)
    """Under pseudonyms, kept for the next report, since figures are made once for all of them."""

    def named(self, directory: Directory) -> "Week":
        """The same with other names."""
        return replace(self, directory=directory)

    def rendered(
        self,
        kind: str,
        form: str,
        subject: str = "",
        *,
        names: Pseudonyms | None = None,
        smallest_group: int = 1,
    ) -> tuple[str, dict[str, bytes]]:
        """The name of a report and its files."""
        wanted, data = ReportRequest(ReportKind(kind), subject), self.data
        if names is not None:
            if names not in self._hidden:
                self._hidden[names] = hidden(data, names)
            data = self._hidden[names]
        if smallest_group != data.smallest_group:
            data = replace(data, smallest_group=smallest_group)
        shown = shown_subject(wanted, names)
        return shown.name, render(shown, data, self.directory, Form(form))

    def files(self, kind: str, form: str, subject: str = "", **options: Any) -> dict[str, bytes]:
        return self.rendered(kind, form, subject, **options)[1]

    def text(self, kind: str, form: str, subject: str = "", **options: Any) -> str:
        """The one file of a report."""
        return self.files(kind, form, subject, **options)[""].decode()


def hidden(data: ReportData, names: Pseudonyms) -> ReportData:
    """The same under pseudonyms, as `load_report_data` makes it."""
    of = data.data
    found = hidden_inputs(of.inputs, names)
    return replace(
        data,
        data=DashboardData(found.inputs, of.period, of.options),
        created={names.identifier(uid): at for uid, at in data.created.items()},
        members={names.identifier(cid): ends for cid, ends in data.members.items()},
        hidden=found,
    )


STARTS = {
    "W1": date(2024, 3, 3),
    "W2": date(2024, 3, 10),
    "silent": date(2024, 5, 5),
    "after": date(2024, 3, 17),
}


async def all_weeks_in(folder: Path) -> dict[str, Week]:
    found = {}
    options, counted = Options(), ["CDEV", "CGEN"]
    async with house(folder) as opened:
        await opened.take_in(EXAMPLE)
        tables = opened.tables
        for name, start in STARTS.items():
            period = Period(start, 7, UTC)
            found[name] = Week(
                await load_report_data(tables, period, options, now=int(NOW), counted=counted),
                await load(tables, "example"),
                json.loads(await document_of(tables, period, options, clock=ManualClock(NOW))),
            )
    return found
