"""Every report of every workspace can be rendered, whatever is missing in it."""

import json
import random
from functools import partial
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from channelstats.counting import Counting
from channelstats.facts import Options, Period
from channelstats.pages.model import ChoiceError
from channelstats.pages.reports import ReportKind, ReportRequest, load_report_data
from channelstats.render.names import Directory, load
from channelstats.render.reports import Form, render
from channelstats.render.slack import MOST_BLOCKS, MOST_CHARACTERS
from support.channelstats.house import UTC, house
from support.channelstats.random_workspace import Maker, settings
from support.channelstats.workspace import write_zip
from support.soak import slow_after


@pytest.mark.parametrize("seed", slow_after(1, range(3)))
async def test_every_report_can_be_rendered(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    made = settings(rng)
    workspace = Maker(rng, made).workspace(rng.choice((0, 3, 40)))
    period = Period(made.start, made.days, ZoneInfo(made.zone))
    counting = Counting(include_bots=made.include_bots)
    options = Options(counting, made.default_timezone, made.merge_skin_tones)
    async with house(tmp_path, UTC) as opened:
        await opened.take_in(
            write_zip(workspace.files(), tmp_path / "export.zip"), now=1_800_000_000
        )
        known = await load(opened.tables, "example")
        of = partial(load_report_data, opened.tables, period, options, now=1_800_000_000)
        real = await of()
        small = await of(smallest_group=2)
    people = [*sorted(known.people)[:2], "UNOBODY"]
    wanted = [ReportRequest(ReportKind.GLOBAL), ReportRequest(ReportKind.BRIEF)]
    wanted += [
        ReportRequest(ReportKind.CHANNEL, cid) for cid in [*sorted(workspace.messages)[:2], "CNONE"]
    ]
    wanted += [ReportRequest(ReportKind.USER, uid) for uid in people]
    for one in wanted:
        for form in Form:
            for directory, data in ((known, real), (Directory(), real), (known, small)):
                try:
                    files = render(one, data, directory, form)
                except ChoiceError:  # the rest says so on the page
                    assert data is small
                    assert form in (Form.CSV, Form.PARQUET)
                    continue
                assert all(files.values())
                if form is Form.SLACK:
                    check_limits(files[""])


def check_limits(file: bytes) -> None:
    blocks = json.loads(file)["blocks"]
    assert 0 < len(blocks) <= MOST_BLOCKS
    texts = [block["text"]["text"] for block in blocks]
    assert all(texts)
    assert sum(map(len, texts)) <= MOST_CHARACTERS
