"""`channelstats demo`: a workspace that is made up, in the dashboard.

Rule: it is kept apart from everything real: in a folder of its own, by the settings that concern
how it is shown alone, and gone at the end unless a folder was named for it.
"""

import argparse
import asyncio
import shutil
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

import msgspec

from channelstats.commands.call import DONE, Call, Command, Failure
from channelstats.commands.import_export import take_in
from channelstats.commands.output import many
from channelstats.commands.serve import serve
from channelstats.demo.workspace import Size, last_day_before, write_export
from channelstats.ingest.export_import import ImportOptions
from channelstats.settings import Group, Settings

KEPT: Final = "demo.json"
"""In a data folder: that it is a demo's, and which one. Without it nothing is written there."""

_MOST: Final = Size(20_000, 2_000, 5_000_000, 3_660)
_EXPORT: Final = "export.zip"
BROWSER: Final = "channelstats-browser"
"""The thread that opens one."""

_SCREENS: Final = frozenset({"DISPLAY", "WAYLAND_DISPLAY", "BROWSER"})


class Made(msgspec.Struct, frozen=True):
    """What a demo is made of."""

    size: Size
    seed: int
    last_day: date
    is_whole: bool = False


class _Stopped(Exception):  # noqa: N818 - named for what happened
    """Nobody waits for the workspace any more."""


def _flags(parser: argparse.ArgumentParser) -> None:
    usual = Size()
    for name, default in msgspec.structs.asdict(usual).items():
        text = f"how many {name}; {default:,}"
        parser.add_argument(f"--{name}", type=int, default=default, metavar="N", help=text)
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="makes another one; 1")
    parser.add_argument(
        "--export", type=Path, metavar="PATH", help="write it as a Slack export, and no more"
    )
    parser.add_argument("--no-browser", action="store_true", help="open no browser")
    parser.add_argument(
        "--anonymize", action="store_true", help="pseudonyms for people and channels, no links"
    )


async def _run(call: Call) -> int:
    wanted = _wanted(call)
    if call.given.export is not None:
        await _write(call, wanted, call.given.export)
        call.say(f"{call.given.export}: {many(wanted.size.messages, 'made-up message')}")
        return DONE
    with _folder(call) as folder:
        own = msgspec.structs.replace(call, settings=_settings(call, folder))
        await _make(own, wanted)
        return await serve(own, on_ready=_opener(call))


def _wanted(call: Call) -> Made:
    """What is asked for."""
    given = {name: getattr(call.given, name) for name in Size.__struct_fields__}
    for name, most in msgspec.structs.asdict(_MOST).items():
        if not 1 <= given[name] <= most:
            call.wrong(f"--{name}: expected a number from 1 to {most:,}")
    if call.given.store is not None:
        call.wrong("--store: a demo is kept in a folder; name one with --data")
    last_day = last_day_before(datetime.fromtimestamp(call.clock(), UTC).date())
    return Made(Size(**given), call.given.seed, last_day)


def _settings(call: Call, folder: Path) -> Settings:
    """Those given, but for what belongs to a real workspace; any free port unless one is named."""
    return msgspec.structs.replace(
        call.settings,
        data=str(folder),
        store="",
        prefix="channelstats",
        slack_name="",
        exclude_channels="",
        exclude_users="",
        retention_days=0,
        anonymize_secret_file="",
        port=call.settings.port if call.given.port is not None else 0,
    )


# ── the folder ───────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _folder(call: Call) -> Iterator[Path]:
    """The folder that was named, or one that is gone afterwards."""
    if call.given.data is not None:
        yield call.settings.folder
        return
    with tempfile.TemporaryDirectory(prefix="channelstats-demo-") as name:
        yield Path(name)


async def _make(call: Call, wanted: Made) -> None:
    """Have the workspace in the folder, unless it is there."""
    settings = call.settings
    made = _made(settings, wanted)
    if made.is_whole:
        return
    settings.folder.mkdir(0o700, parents=True, exist_ok=True)
    note = settings.folder / KEPT
    note.write_bytes(msgspec.json.encode(made))
    export = settings.folder / _EXPORT
    try:
        await _write(call, made, export)
        await take_in(call, export, ImportOptions(include_private=True))
    finally:
        export.unlink(missing_ok=True)
    note.write_bytes(msgspec.json.encode(msgspec.structs.replace(made, is_whole=True)))


def _made(settings: Settings, wanted: Made) -> Made:
    """What the folder holds, or what is wanted where it holds nothing.

    :raises Failure: it holds something else
    """
    try:
        made = msgspec.json.decode((settings.folder / KEPT).read_bytes(), type=Made)
    except FileNotFoundError:
        if settings.file.exists():
            raise Failure(f"{settings.folder}: not a demo's; name another folder") from None
        return wanted
    except msgspec.MsgspecError as error:
        raise Failure(f"{settings.folder / KEPT}: {error}") from None
    if (made.size, made.seed) != (wanted.size, wanted.seed):
        raise Failure(f"{settings.folder}: holds another demo; remove it or name another folder")
    return made


# ── the export ───────────────────────────────────────────────────────────────────────────────────


async def _write(call: Call, wanted: Made, path: Path) -> None:
    """Write the export; whole, or not at all.

    :raises Failure: there is something
    """
    part = path.with_name(f"{path.stem}.part{path.suffix}")
    progress, stop = call.progress(), threading.Event()

    def tell(done: int, total: int) -> None:
        if stop.is_set():
            raise _Stopped
        progress.show(done, total, "messages made up")

    def write() -> None:
        if path.exists():
            raise Failure(f"{path}: there is something already")
        try:
            write_export(
                part, wanted.size, last_day=wanted.last_day, seed=wanted.seed, progress=tell
            )
            part.rename(path)
        except BaseException:
            _remove(part)
            raise

    try:
        await asyncio.to_thread(write)
    finally:
        stop.set()
        progress.end()


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


# ── the browser ──────────────────────────────────────────────────────────────────────────────────


def _opener(call: Call) -> Callable[[str], None]:
    """What is done with the address of the dashboard."""

    def ready(url: str) -> None:
        print(f"channelstats ready: {url}", flush=True)
        if not call.given.no_browser and _has_screen(call):
            open_it = threading.Thread(
                target=webbrowser.open, args=(url,), name=BROWSER, daemon=True
            )
            open_it.start()

    return ready


def _has_screen(call: Call) -> bool:
    """Whether a browser would have somewhere to open; one in the terminal would be in the way."""
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(_SCREENS & {name for name, value in call.environment.items() if value})


COMMAND = Command(
    "demo",
    "show the dashboard of a workspace that is made up",
    _run,
    _flags,
    (Group.COUNTING, Group.DASHBOARD),
)
