"""Every report of every workspace can be rendered, whatever is missing in it."""

import copy
import json
import random
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from channelstats.counting import Counting, Profile
from channelstats.render.names import Directory, load
from channelstats.reports.anonymous import Pseudonyms
from channelstats.reports.render import Form, Kind, Wanted, render
from channelstats.reports.slack_messages import MOST_BLOCKS, MOST_CHARACTERS, characters_of
from channelstats.stats import Options, Period
from support.channelstats.house import UTC, house
from support.channelstats.random_workspace import Maker, settings
from support.channelstats.workspace import write_zip
from support.soak import slow_after


@pytest.mark.parametrize("seed", slow_after(4, range(12)))
async def test_every_report_can_be_rendered(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    of = settings(rng)
    workspace = Maker(rng, of).workspace(rng.choice((0, 3, 40)))
    period = Period(of.start, of.days, ZoneInfo(of.zone))
    counting = Counting(Profile(of.profile), include_bots=of.include_bots)
    options = Options(counting, of.default_timezone, of.merge_skin_tones)
    async with house(tmp_path, UTC) as opened:
        await opened.take_in(
            write_zip(workspace.files(), tmp_path / "export.zip"), now=1_800_000_000
        )
        document = (await opened.report(period, options)).document
        known = await load(opened.tables, period, "example", list(workspace.messages))
    before = copy.deepcopy(document)
    people = [*sorted(known.people)[:2], "UNOBODY"]
    wanted = [Wanted(Kind.GLOBAL), Wanted(Kind.BRIEF)]
    wanted += [Wanted(Kind.CHANNEL, cid) for cid in [*sorted(workspace.messages)[:2], "CNONE"]]
    wanted += [Wanted(Kind.USER, uid) for uid in people]
    pseudonyms = Pseudonyms(b"a secret of sixteen", known.names)
    for one in wanted:
        for form in Form:
            for directory, names in ((known, None), (Directory(), None), (known, pseudonyms)):
                _, files = render(one, document, directory, form, names=names)
                assert all(files.values())
                if form is Form.SLACK:
                    check_limits(files[""])
    assert document == before


def check_limits(file: bytes) -> None:
    for message in json.loads(file)["messages"]:
        blocks = message["blocks"]
        assert 0 < len(blocks) <= MOST_BLOCKS
        assert sum(map(characters_of, blocks)) <= MOST_CHARACTERS
        for block in blocks:
            assert block.get("text", {"text": "x"})["text"]
            assert all(field["text"] for field in block.get("fields", ()))
