"""`channelstats migrate` and what it says."""

import asyncio
from pathlib import Path

import pytest

from channelstats.cli import NOT_DONE, main
from channelstats.commands.call import DONE, WITH_PROBLEMS
from support.channelstats import original
from support.channelstats.called import called, stored
from support.channelstats.house import EXAMPLE, NOW, house


@pytest.fixture
def source(tmp_path: Path) -> str:
    """A store that the worked example is in, in the original's tables too; a URL."""

    async def make() -> None:
        async with house(tmp_path) as found:
            await found.take_in(EXAMPLE)
            await original.make(found)

    asyncio.run(make())
    return f"sqlite://{tmp_path}/store.sqlite"


def migrate(source: str, *flags: str) -> int:
    return called("migrate", "--from", source, "--from-prefix", "original", *flags, now=NOW)


def test_it_says_what_came_over(source: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert migrate(source) == DONE
    assert capfd.readouterr().err == (
        "read: 4 users, 2 channels, 2 memberships, 2 samples of members, 15 messages (15 new or "
        "changed), 2 channels with their threads, 3 first posts\n"
    )
    assert len(stored()) == 15
    assert migrate(source) == DONE
    assert "15 messages (0 new or changed)" in capfd.readouterr().err
    week = ["--week", "2024-03-12", "--profile", "compat"]
    assert main(["report", "global", *week]) == DONE
    assert "40 (+54%)" in capfd.readouterr().out


def test_what_is_too_old_does_not_stay(source: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert migrate(source, "--retention-days", "11") == DONE
    assert capfd.readouterr().err.endswith("removed: 6 messages of more than 11 days ago\n")
    assert len(stored()) == 9


def test_a_row_that_is_none_is_a_problem(source: str, capfd: pytest.CaptureFixture[str]) -> None:
    async def spoil() -> None:
        async with house(Path(source.removeprefix("sqlite://")).parent) as found:
            await original.put(found.engine, "Message", {"cid_ts": "nonsense"})

    asyncio.run(spoil())
    assert migrate(source) == WITH_PROBLEMS
    assert capfd.readouterr().err.startswith("channelstats: messages: 1 left out: cid_ts: expected")


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (["--from", "sqlite:///none/store.sqlite"], "--from: /none/store.sqlite: there is no such"),
        (["--from", "mysql://x"], "--from: a store is sqlite:///PATH or dynamodb://"),
        (["--from", "{source}", "--from-prefix", "x"], "--from: there are no tables that begin"),
        (["--from", "{source}", "--store", "{source}"], "--from: these are the tables to write to"),
    ],
)
def test_a_source_that_is_none_is_an_error_and_makes_nothing(
    source: str, flags: list[str], line: str, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    given = [flag.replace("{source}", source) for flag in flags]
    assert called("migrate", *given, now=NOW) == NOT_DONE
    [error] = capfd.readouterr().err.splitlines()
    assert error.startswith(f"channelstats: {line}")
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []
