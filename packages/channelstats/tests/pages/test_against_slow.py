"""The report equals the one that loops make from the definitions, in every workspace."""

import random
from fractions import Fraction
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from channelstats.counting import Counting
from channelstats.facts import local_times
from channelstats.pages.document import report
from support.channelstats import slow
from support.channelstats.house import decoded, house
from support.channelstats.inputs import inputs_of, wanted
from support.channelstats.random_workspace import Maker, settings
from support.channelstats.workspace import write_zip
from support.soak import slow_after, times

FIELDS = {"rank", "percent", "cur", "messages", "reaction_count", "total", "wau", "both", "posters"}
"""Where one of these is a key, the keys are names of fields, in no order."""

OURS = {"schema_version", "generated_at", "input_fingerprint"}


def check(found: Any, expected: Any, place: str = "") -> None:
    """Fail with the place where two documents differ, in kinds and in the order of keys too."""
    if isinstance(expected, dict):
        assert set(found) == set(expected), place
        if not FIELDS & set(expected):
            assert list(found) == list(expected), place
        for key in expected:
            check(found[key], expected[key], f"{place}/{key}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), place
        for number, value in enumerate(expected):
            check(found[number], value, f"{place}/{number}")
    elif isinstance(expected, Fraction):
        assert isinstance(found, float), (place, found)
        if "activity_percentage" in place or "actity_percentage" in place:
            assert found == pytest.approx(float(expected), rel=1e-12), place
        else:
            assert found == float(expected), place
    else:
        assert (type(found), found) == (type(expected), expected), place


@pytest.mark.parametrize("seed", slow_after(5, range(times(60, 1_000))))
def test_the_report_is_that_of_the_definitions(seed: int) -> None:
    rng = random.Random(seed)
    of = settings(rng)
    workspace = Maker(rng, of).workspace(rng.choice((0, 3, 15, 60)))
    period, options = wanted(of)
    found = decoded(report(inputs_of(workspace), period, options, generated_at=0))
    expected = slow.document(workspace, of)
    assert set(found) >= OURS
    check({name: found[name] for name in found if name not in OURS}, expected)


@pytest.mark.parametrize("seed", slow_after(1, range(200, 212)))
@pytest.mark.parametrize("at_once", [1, 7])
def test_messages_are_looked_at_in_parts_as_all_together(
    seed: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    of = settings(rng)
    inputs = inputs_of(Maker(rng, of).workspace(60))
    period, options = wanted(of)
    together = report(inputs, period, options, generated_at=0)
    monkeypatch.setattr(local_times, "_AT_ONCE", at_once)
    assert report(inputs, period, options, generated_at=0) == together


@pytest.mark.parametrize("seed", slow_after(1, range(1000, 1004)))
async def test_so_is_the_report_from_the_tables(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    of = settings(rng)
    workspace = Maker(rng, of).workspace(60)
    workspace.deleted.clear()
    period, options = wanted(of)
    expected = slow.document(workspace, of)
    export = write_zip(workspace.files(), tmp_path / "export.zip")
    async with house(tmp_path, ZoneInfo(rng.choice(("UTC", "Pacific/Kiritimati")))) as opened:
        configured = rng.choice((options.counting, Counting(include_bots=True)))
        await opened.take_in(export, counting=configured, now=1_800_000_000)
        found = decoded(await opened.report(period, options))
    check({name: found[name] for name in found if name not in OURS}, expected)
