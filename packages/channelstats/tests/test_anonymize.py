"""Pseudonyms, and a copy under them: nothing real is left, and every figure stays."""

import random
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from channelstats.anonymize import Pseudonyms, copy_anonymized
from channelstats.facts import Options, Period
from channelstats.identifiers import is_channel_id, is_user_id
from channelstats.tables.message_row import MessageRow, encode_json
from support.channelstats.house import NOW, House, decoded, house
from support.channelstats.inputs import wanted
from support.channelstats.random_workspace import Maker, settings
from support.channelstats.workspace import write_zip
from support.clocks import ManualClock
from support.soak import slow_after

GIVEN_NAMES = (Path(__file__).parent / "given_names.txt").read_text().split()

SECRET, OTHER = b"0123456789abcdef", b"0123456789abcdeg"


def test_a_pseudonym_is_the_same_in_every_run_and_another_under_another_secret() -> None:
    one, again, other = Pseudonyms(SECRET), Pseudonyms(SECRET), Pseudonyms(OTHER)
    for name in (Pseudonyms.identifier, Pseudonyms.person, Pseudonyms.channel):
        assert name(one, "UALICE") == name(again, "UALICE") != name(other, "UALICE")
        assert name(one, "UALICE") != name(one, "UBOB")


def test_a_pseudonym_looks_like_what_it_stands_for() -> None:
    names = Pseudonyms(SECRET)
    assert is_user_id(names.identifier("UALICE"))
    assert is_channel_id(names.identifier("CGEN"))


def test_no_pseudonym_has_a_given_name_in_it() -> None:
    names = Pseudonyms(SECRET)
    shown = [
        *(names.person(f"U{number}").lower().split()[:2] for number in range(5000)),
        *(names.channel(f"C{number}").split("-")[:2] for number in range(5000)),
    ]
    words = {word for pair in shown for word in pair}
    assert len(words) > 150  # as many as there are
    assert words & set(GIVEN_NAMES) == set()


def test_an_emoji_that_not_everybody_has_is_called_otherwise() -> None:
    names = Pseudonyms(SECRET)
    for emoji in ("tada", "+1::skin-tone-2", "thumbsup"):
        assert names.emoji(emoji) == emoji
    assert names.emoji("alice-dance").startswith("custom-")
    assert names.emoji("alice-dance") != names.emoji("bob-dance")


# ── the copy ─────────────────────────────────────────────────────────────────────────────────────

BY_RANK = {"cum_percent_of_words", "cpercent"}
"""What changes of those who are equal depends on their order."""

ID = re.compile(r"\b[CUWB][A-Z0-9]*\b")


def numbers(part: Any) -> list[float]:
    if isinstance(part, dict):
        kept = [
            value
            for name, value in part.items()
            if name not in BY_RANK or not isinstance(value, dict)
        ]
        return [number for value in kept for number in numbers(value)]
    if isinstance(part, list):
        return [number for value in part for number in numbers(value)]
    return [part] if isinstance(part, int | float) else []


@pytest.fixture
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("copy")


@asynccontextmanager
async def copied(source: House, folder: Path, **excluded: list[str]) -> AsyncIterator[House]:
    """An anonymous copy of all that a house has."""
    async with house(folder) as target:
        clock = ManualClock(NOW)
        assert [n async for n in copy_anonymized(source.tables, target.tables, clock, **excluded)]
        yield target


async def take_in_something(source: House, folder: Path, seed: int) -> tuple[Period, Options]:
    """A random workspace in which people and channels have names that are in nothing else."""
    rng = random.Random(seed)
    of = settings(rng)
    workspace = Maker(rng, of).workspace(60)
    for one in (*workspace.users, *workspace.channels):
        one["name"] = f"z_q{one['id'].lower()}"
    export = write_zip(workspace.files(), folder / "export.zip")
    await source.take_in(export, now=1_800_000_000)
    return wanted(of)


@pytest.mark.parametrize("seed", slow_after(1, range(3)))
async def test_no_name_no_id_and_no_link_is_in_a_copy_and_every_figure_stays(
    empty: House, tmp_path: Path, elsewhere: Path, seed: int
) -> None:
    period, options = await take_in_something(empty, tmp_path, seed)
    await empty.tables.configuration.put_workspace("z_q", 1)
    async with copied(empty, elsewhere) as target:
        real, shown = [decoded(await of.report(period, options)) for of in (empty, target)]
        before, after = await empty.everything(), await target.everything()
        ids = {*before["User"], *(key for key in before["Channel"] if ID.fullmatch(key))}
        said = repr(after) + repr(target.kept().rows())
        assert not (ids - {"USLACKBOT"}) & set(ID.findall(said))
        assert "z_q" in repr(before)
        assert "z_q" not in said.lower()  # no pseudonym has an underscore
        assert await target.tables.configuration.slack_name() == ""
        for name in ("Message", "User", "UserCreated", "FirstPost", "BulkStore", "Channel"):
            assert len(after[name]) == len(before[name]), name
    assert list(real) == list(shown)
    for name, part in real.items():
        # Equals are in the order of their IDs.
        assert sorted(numbers(shown[name])) == sorted(numbers(part)), name


async def test_files_and_emoji_tell_nothing(example: House, elsewhere: Path) -> None:
    about = [{"id": "F0SECRET", "mimetype": "image/png", "user": "UBOB"}]
    room = {"participant_history": ["UBOB"], "date_start": 1, "date_end": 2}
    row = MessageRow("CDEV", "1710630900.009999", "UBOB", reactions="bob-dance:UBOB,tada:UBOB")
    row.files, row.room = encode_json(about), encode_json(room)
    await example.tables.messages.write([row])
    async with copied(example, elsewhere) as target:
        [found] = [
            of async for rows in target.tables.messages.pages() for of in rows if of.ts == row.ts
        ]
    uid = found.slack_uid
    assert re.fullmatch(rf"custom-\w{{4}}:{uid},tada:{uid}", found.reactions)
    assert not re.search("F0SECRET|UBOB", found.files + found.room)
    assert found.room.replace(found.slack_uid, "UBOB") == row.room
    assert "image/png" in found.files


async def test_who_and_what_is_excluded_is_not_copied(example: House, elsewhere: Path) -> None:
    left_out = {"excluded_people": ["bob"], "excluded_channels": ["dev"]}
    async with copied(example, elsewhere, **left_out) as target:
        users, channels = await target.tables.users.all(), await target.tables.channels.all()
        assert (len(users), len(channels)) == (3, 1)
        rows = [row async for page in target.tables.messages.pages() for row in page]
        assert {row.slack_cid for row in rows} == channels.keys()
        assert {row.slack_uid for row in rows if not row.is_bot} <= users.keys()
