"""Words in the store: from exports and from the Web API, and gone where they have to be."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import pytest

from channelstats.ingest import export_reader
from channelstats.ingest.export_import import ImportOptions
from channelstats.ingest.runs import Event, StepProgress, SyncOptions
from channelstats.ingest.topics import TopicRules
from channelstats.tables.exclusion import forget_person, remove_before
from channelstats.tables.topics import WeekTopics, left_out_mark
from support.channelstats.house import MODERN, House
from support.channelstats.slack_house import Slack, running_slack
from support.channelstats.workspace import Raw, Workspace, write_folder
from support.clocks import ManualClock

DAY = 86_400
NOON = 1_710_158_400
"""Of Monday 2024-03-11."""
NOW = NOON + 4 * DAY
WEEK, BEFORE = date(2024, 3, 10), date(2024, 3, 3)
PEOPLE = [f"U000{n}" for n in range(1, 8)]
RULES = TopicRules()
ON = ImportOptions(topics=RULES)


def said(n: int, text: str, days: int = 0) -> Raw:
    ts = f"{NOON + days * DAY + n:010d}.000100"
    return {"type": "message", "ts": ts, "text": text, "user": PEOPLE[n]}


def town(**texts: list[Raw]) -> Workspace:
    """Channels by name with their messages; `C` and the name in capitals is a channel's ID."""
    channels: list[Any] = [
        {"id": f"C{name.upper()}", "name": name, "created": 1, "members": PEOPLE} for name in texts
    ]
    made = Workspace([{"id": uid, "name": f"name{uid[-1]}"} for uid in PEOPLE], channels)
    for name, raws in texts.items():
        made.messages[f"C{name.upper()}"] = raws
    return made


def harvest(people: int, days: int = 0) -> Workspace:
    """So many people talk about the harvest, in two channels, and one about a secret."""
    one = [said(n, "our harvest <https://example.org/h?key=1>", days) for n in range(people)]
    return town(one=one[: people // 2], two=[*one[people // 2 :], said(6, "zanzibar", days)])


@pytest.fixture(scope="module")
def slack() -> Iterator[Slack]:
    with running_slack() as found:
        yield found


def export(of: Workspace, folder: Path) -> Path:
    return write_folder(of.files(), folder)


async def words(of: House, mark: str = "") -> dict[date, WeekTopics]:
    return await of.tables.topics.read([BEFORE, WEEK], mark)


@pytest.mark.parametrize("large", [export_reader.LARGE, 0])
async def test_an_import_keeps_what_many_say_and_nothing_else_of_a_text(
    empty: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: int
) -> None:
    monkeypatch.setattr(export_reader, "LARGE", large)
    await empty.take_in(export(harvest(6), tmp_path / "e"), MODERN, ON, NOW)
    terms = {"harvest": 6, "example.org": 6, "example.org/h": 6}
    assert await words(empty) == {WEEK: WeekTopics(messages=7, people=7, terms=terms)}
    everything = str(await empty.everything())
    assert "zanzibar" not in everything
    assert "key=1" not in everything


async def test_a_sync_counts_as_an_import_does(empty: House, slack: Slack) -> None:
    slack.serve(harvest(6))
    options = SyncOptions(topics=RULES)
    await slack.sync(empty, now=NOW, options=options, counting=MODERN)
    assert (await words(empty))[WEEK].terms["harvest"] == 6
    slack.serve(harvest(5))  # a message is gone, so this run sees less
    await slack.sync(empty, now=NOW + 60, options=options, counting=MODERN)
    assert (await words(empty))[WEEK].terms["harvest"] == 6


async def test_off_means_that_nothing_is_counted(
    empty: House, slack: Slack, tmp_path: Path
) -> None:
    off = TopicRules(is_on=False)
    await empty.take_in(export(harvest(6), tmp_path / "e"), MODERN, ImportOptions(topics=off), NOW)
    slack.serve(harvest(6))
    await slack.sync(empty, now=NOW, options=SyncOptions(topics=off), counting=MODERN)
    assert await words(empty) == {}
    assert "harvest" not in str(await empty.everything())


async def test_private_channels_are_not_counted_even_where_they_are_imported(
    empty: House, slack: Slack, tmp_path: Path
) -> None:
    of = harvest(6)
    for channel in of.channels:
        channel["is_private"] = True
    files = of.files()
    files["groups.json"] = files.pop("channels.json")
    path = write_folder(files, tmp_path / "e")
    await empty.take_in(path, MODERN, msgspec.structs.replace(ON, include_private=True), NOW)
    assert len(await empty.items("Message")) == 7
    slack.serve(of)
    options = SyncOptions(topics=RULES, include_private=True)
    await slack.sync(empty, now=NOW, options=options, counting=MODERN)
    assert await words(empty) == {}


async def test_who_is_left_out_is_not_counted_and_other_exclusions_do_not_see_it(
    empty: House, tmp_path: Path
) -> None:
    path, out = export(harvest(6), tmp_path / "e"), frozenset({"name1", "name2"})
    mark = left_out_mark(out, ())
    await empty.take_in(path, MODERN, ON, NOW)
    assert await words(empty, mark) == {}
    rules = TopicRules(left_out=mark)
    options = ImportOptions(exclude_people=out, topics=rules)
    await empty.take_in(path, MODERN, options, NOW)
    assert (await words(empty, mark))[WEEK].terms == {}
    assert await words(empty) == {}


async def test_what_follows_an_interruption_counts_the_channels_that_were_done(
    empty: House, tmp_path: Path
) -> None:
    path = export(harvest(6), tmp_path / "e")

    def interrupt(event: Event) -> None:
        if isinstance(event, StepProgress) and event.step == "messages" and event.done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await empty.take_in(path, MODERN, ON, NOW, interrupt)
    assert await words(empty) == {}
    await empty.take_in(path, MODERN, ON, NOW)
    assert (await words(empty))[WEEK].terms["harvest"] == 6


async def test_a_run_that_saw_less_of_a_week_replaces_nothing(empty: House, tmp_path: Path) -> None:
    await empty.take_in(export(harvest(6), tmp_path / "many"), MODERN, ON, NOW)
    await empty.take_in(export(harvest(5), tmp_path / "few"), MODERN, ON, NOW)
    assert (await words(empty))[WEEK].terms["harvest"] == 6
    await empty.take_in(export(harvest(6, -7), tmp_path / "before"), MODERN, ON, NOW)
    assert set(await words(empty)) == {BEFORE, WEEK}


async def test_of_somebody_who_is_forgotten_no_word_stays_that_needed_them(
    empty: House, tmp_path: Path
) -> None:
    both = town(
        one=[said(n, "harvest") for n in range(3)] + [said(n, "rain", -7) for n in range(3)],
        two=[said(n, "harvest") for n in range(3, 6)] + [said(n, "rain", -7) for n in range(3, 5)],
    )
    path = export(both, tmp_path / "e")
    await empty.take_in(path, MODERN, ON, NOW)

    async def forget(uid: str) -> None:
        async with empty.tables.writing(ManualClock(NOW)):
            assert [done async for done in forget_person(empty.tables, uid)]

    assert {week: of.terms for week, of in (await words(empty)).items()} == {
        BEFORE: {"rain": 5},
        WEEK: {"harvest": 6},
    }
    await forget(PEOPLE[5])  # who wrote in one of the weeks alone
    assert (await words(empty))[BEFORE].terms == {"rain": 5}
    assert (await words(empty))[WEEK].terms == {"harvest": 5}
    await forget(PEOPLE[0])
    assert [of.terms for of in (await words(empty)).values()] == [{}, {}]
    await empty.take_in(path, MODERN, ON, NOW)  # and no import brings them back
    assert [of.terms for of in (await words(empty)).values()] == [{}, {}]


async def test_old_weeks_go_with_their_messages(empty: House, tmp_path: Path) -> None:
    for days in (0, -7):
        await empty.take_in(export(harvest(6, days), tmp_path / str(days)), MODERN, ON, NOW)
    async with empty.tables.writing(ManualClock(NOW)):
        assert [removed async for removed in remove_before(empty.tables, WEEK)]
    assert set(await words(empty)) == {WEEK}
    assert "topics 20240303" not in await empty.items("BulkStore")
