"""forget: a person is removed from the store for good; copy: nobody has a name in it."""

import asyncio
import io
import json
import random
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from channelstats.commands import DONE, NOT_DONE, USAGE, WITH_PROBLEMS
from channelstats.tables import Tables
from keytables.sqlite.division import divide_store
from keytables.stores import open_engine
from support.channelstats.called import Capture, called, stored
from support.channelstats.house import NOW, UTC
from support.channelstats.workspace import Raw, write_zip
from support.soak import slow_after

pytestmark = pytest.mark.usefixtures("example")

ASKED = "Remove everything about Bob Berg (UBOB)? [y/N] "


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def at_terminal(answer: str, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """The screen of somebody who answers so."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    monkeypatch.setattr(sys, "stderr", screen)
    return screen


def forget(*flags: str) -> int:
    return called("forget", "bob", *flags, now=NOW)


def is_there() -> bool:
    return "UBOB" in str(stored()) and "UBOB" in stored("User")


def test_a_dry_run_counts_and_touches_nothing(capfd: Capture) -> None:
    names = ("Message", "User", "Configuration", "BulkStore", "FirstPost", "ReportStore")
    before = [stored(name) for name in names]
    assert forget("--dry-run") == DONE
    counted = "6 messages would be removed, 3 of others would be changed"
    assert capfd.readouterr().out == f"Bob Berg (UBOB): {counted}\n"
    assert [stored(name) for name in names] == before


def test_as_much_goes_as_the_dry_run_counted(capfd: Capture) -> None:
    assert forget() == DONE
    assert "forgotten: 6 messages removed, 3 of others changed;" in capfd.readouterr().err
    assert not is_there()


def test_days_in_files_that_cannot_be_removed_are_a_problem(
    capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert called("report", "global", "--format", "json", now=NOW) == DONE
    for name in ("open", "unlink"):  # modes do not bind every user that tests run as
        monkeypatch.setattr(Path, name, refused(getattr(Path, name)))
    capfd.readouterr()
    assert forget("--yes") == WITH_PROBLEMS
    said = capfd.readouterr().err
    assert "forgotten: 6 messages removed" in said
    assert ".parquet: cannot be overwritten or removed" in said
    assert not is_there()


def refused(do: Callable[..., Any]) -> Callable[..., Any]:
    """The same, but for columns of days."""

    def refusing(path: Path, *arguments: Any, **how: Any) -> Any:
        if path.suffix == ".parquet":
            raise PermissionError(path)
        return do(path, *arguments, **how)

    return refusing


@pytest.mark.parametrize(
    ("answer", "flags", "goes"),
    [
        *((answer, (), False) for answer in ("\n", "", "bob\n")),
        ("Yes\n", (), True),
        ("", ("--yes",), True),
    ],
)
def test_at_a_terminal_nobody_goes_without_a_yes(
    answer: str, flags: tuple[str, ...], goes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = at_terminal(answer, monkeypatch)
    assert forget(*flags) == (DONE if goes else NOT_DONE)
    said = screen.getvalue()
    assert said.startswith(ASKED) is not bool(flags)
    assert said.endswith("channelstats: nothing was removed\n") is not goes
    assert is_there() is not goes


def test_somebody_unknown_is_called_by_the_id(capfd: Capture) -> None:
    assert called("forget", "UNOBODY", "--dry-run", now=NOW) == DONE
    assert capfd.readouterr().out.startswith("UNOBODY: 0 messages would be removed")


# ── nothing stays in the files ───────────────────────────────────────────────────────────────────

PERSON = "UGONEPERSON"


def grown(seed: int, size: int) -> dict[str, bytes]:
    """The files of an export in which somebody writes, is mentioned, reacts and replies."""
    rng = random.Random(seed)
    people = [PERSON, *(f"U{seed:02}{n:06}" for n in range(12))]
    messages: list[Raw] = []
    for n in range(size):
        ts, author = f"{1709500000 + n * 700}.{n:06}", rng.choice(people)
        said: Raw = {"type": "message", "ts": ts, "user": author}
        said["text"] = "a" + f" <@{rng.choice(people)}>" * rng.randint(0, 4)
        some = rng.sample(people, rng.randint(0, len(people)))
        said["reactions"] = [{"name": "wave", "users": some, "count": len(some)}]
        if n and rng.random() < 0.4:
            said |= {"thread_ts": messages[rng.randrange(n)]["ts"], "parent_user_id": PERSON}
        messages.append(said)
    files: dict[str, Any] = {
        "users.json": [{"id": uid, "name": f"name of {uid}"} for uid in people],
        "channels.json": [{"id": "C1", "name": "one", "members": people}],
    }
    for begin in range(0, size, 50):
        files[f"one/{begin:05}.json"] = messages[begin : begin + 50]
    return {name: json.dumps(content).encode() for name, content in files.items()}


def holding(folder: Path, *texts: str) -> list[str]:
    """The files below a folder that hold one of these texts anywhere."""
    return [
        str(path.relative_to(folder))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and any(text.encode() in path.read_bytes() for text in texts)
    ]


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("size", slow_after(3, (700, 90, 40, 300, 1500, 7)))
def test_no_byte_of_a_forgotten_person_stays_in_any_file(
    tmp_path: Path, size: int, parts: int
) -> None:
    """Also while somebody else has the store open, who keeps the log from going with the file."""
    data = tmp_path / "data"
    (data / "x").mkdir(parents=True)
    store = data / "channelstats.sqlite"
    if parts > 1:
        divide_store(store, parts)
    for number, files in enumerate((grown(size, size // 2), grown(size, size))):
        export = str(write_zip(files, tmp_path / f"{number}.zip"))
        assert called("import-export", export, "--data", str(data), now=NOW) == DONE
    assert "channelstats.sqlite" in str(holding(data, PERSON))

    async def forget_beside_another() -> int:
        other = await open_engine(f"sqlite:///{store}", wipe=True)
        try:
            tables = await Tables.open(other, "channelstats", UTC)
            await tables.users.all()
            arguments = ("forget", PERSON, "--yes", "--data", str(data))
            return await asyncio.to_thread(called, *arguments, now=NOW)
        finally:
            assert holding(data, PERSON, f"name of {PERSON}") == []
            await other.close()

    assert asyncio.run(forget_beside_another()) == DONE
    assert holding(data, PERSON, f"name of {PERSON}") == []


def test_no_byte_of_messages_that_are_too_old_stays(tmp_path: Path) -> None:
    data = tmp_path / "data"
    export = str(write_zip(grown(1, 500), tmp_path / "x.zip"))
    assert called("import-export", export, "--data", str(data), now=NOW) == DONE
    old = "C1_170950"
    assert holding(data, old) != []
    arguments = ("--data", str(data), "--retention-days", "16")
    assert called("import-export", export, *arguments, now=NOW) == DONE
    assert len(stored(folder=data)) > 10
    assert holding(data, old) == []


# ── copy ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_copy_without_names_is_a_folder_like_any_other(tmp_path: Path, capfd: Capture) -> None:
    assert called("copy", "--anonymize", "anonymous", now=NOW) == DONE
    assert capfd.readouterr().err == "copied without names: 15 messages\n"
    told = []
    for data in ((), ("--data", "anonymous")):
        words = ("report", "global", "--week", "2024-03-12", "--format", "json")
        assert called(*words, *data, now=NOW) == DONE
        told.append(json.loads(capfd.readouterr().out))
    assert told[0]["statistics"]["words"] == told[1]["statistics"]["words"] == 40
    assert "UBOB" in str(told[0])
    assert "UBOB" not in str(told[1])
    files = filter(Path.is_file, (tmp_path / "anonymous").rglob("*"))
    found = b"".join(path.read_bytes() for path in files)
    assert not re.search(b"UBOB|Bob Berg|CGEN", found)


def test_a_copy_has_every_row(capfd: Capture) -> None:
    assert called("copy", "other", now=NOW) == DONE
    assert re.fullmatch(r"copied with all names: \d+ rows\n", capfd.readouterr().err)
    assert stored(folder=Path("other")) == stored()


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        (("--anonymize", "channelstats-data"), USAGE, "this is the store to copy"),
        (("--anonymize", "mysql://x"), USAGE, "a store is sqlite:///PATH"),
        (("--anonymize", "there"), NOT_DONE, "there is a workspace in it already"),
    ],
)
def test_a_place_that_is_none_is_one_line(
    words: tuple[str, ...], code: int, line: str, capfd: Capture
) -> None:
    assert called("copy", "--anonymize", "there", now=NOW) == DONE
    capfd.readouterr()
    ended: object
    try:
        ended = called("copy", *words, now=NOW)
    except SystemExit as wrong_usage:
        ended = wrong_usage.code
    assert ended == code
    [error] = capfd.readouterr().err.splitlines()
    assert line in error


def test_notes_are_written_listed_and_removed(capfd: Capture) -> None:
    def note(*words: str) -> int:
        return called("note", *words, now=NOW)

    assert note("2024-03-12", " Launch  of\nthe app") == DONE
    assert note("2024-03-12", "Launch") == note("2024-01-01", "Holiday") == DONE
    assert "in place of 'Launch of the app'" in capfd.readouterr().err
    assert note("--list") == DONE
    assert capfd.readouterr().out == "2024-01-01 Holiday\n2024-03-12 Launch\n"
    assert note("--remove", "2024-01-01") == DONE
    assert note("--remove", "2024-01-01") == NOT_DONE
    assert "2024-01-01: there is no note" in capfd.readouterr().err
    for wrong in (("2024-03-12",), ("2024-03-12", "x" * 61), (), ("--list", "2024-03-12", "x")):
        with pytest.raises(SystemExit) as refused:
            note(*wrong)
        assert refused.value.code == USAGE
    assert stored("Configuration")["notes"] == {"key": "notes", "2024-03-12": "Launch"}
