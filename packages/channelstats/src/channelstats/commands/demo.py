"""`channelstats demo`: a workspace that is made up, in the dashboard.

Rule: it is kept apart from everything real: in a folder of its own, with only those settings that
say how it is shown, and removed at the end unless a folder was named for it.
"""

import argparse
import asyncio
import dataclasses
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

from channelstats.commands.context import DONE, Command, CommandContext, Failure, many
from channelstats.commands.import_ import import_export
from channelstats.commands.serve import serve
from channelstats.demo.workspace import Size, last_day_before, write_export
from channelstats.ingest.export_import import ImportOptions
from channelstats.settings import OptionGroup, Settings

KEPT: Final = "demo.json"
"""In a data folder: that it is a demo's, and which one. Without it nothing is written there."""

_MOST: Final = Size(20_000, 2_000, 5_000_000, 3_660)
_EXPORT: Final = "export.zip"
BROWSER: Final = "channelstats-browser"
"""The thread that opens one."""

_SCREENS: Final = frozenset({"DISPLAY", "WAYLAND_DISPLAY", "BROWSER"})


class DemoPlan(msgspec.Struct, frozen=True):
    """What a demo is made of."""

    size: Size
    seed: int
    last_day: date
    is_whole: bool = False


class _Stopped(Exception):  # noqa: N818 - named for what happened
    """The command was interrupted."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
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


async def _run(context: CommandContext) -> int:
    wanted = _wanted(context)
    if context.arguments.export is not None:
        await _write(context, wanted, context.arguments.export)
        context.say(f"{context.arguments.export}: {many(wanted.size.messages, 'made-up message')}")
        return DONE
    with _folder(context) as folder:
        own = msgspec.structs.replace(context, settings=_settings(context, folder))
        await _make(own, wanted)
        return await serve(own, on_ready=_opener(context))


def _wanted(context: CommandContext) -> DemoPlan:
    """What is asked for."""
    given = {name: getattr(context.arguments, name) for name in Size.__struct_fields__}
    for name, most in msgspec.structs.asdict(_MOST).items():
        if not 1 <= given[name] <= most:
            context.wrong_usage(f"--{name}: expected a number from 1 to {most:,}")
    if context.arguments.store is not None:
        context.wrong_usage("--store: a demo is kept in a folder; name one with --data")
    last_day = last_day_before(datetime.fromtimestamp(context.clock(), UTC).date())
    return DemoPlan(Size(**given), context.arguments.seed, last_day)


def _settings(context: CommandContext, folder: Path) -> Settings:
    """Those given, but for what belongs to a real workspace; any free port unless one is named."""
    return dataclasses.replace(
        context.settings,
        data=str(folder),
        store="",
        prefix="channelstats",
        slack_name="",
        exclude_channels="",
        exclude_users="",
        retention_days=0,
        anonymize_secret_file="",
        port=context.settings.port if context.arguments.port is not None else 0,
    )


# ── the folder ───────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _folder(context: CommandContext) -> Iterator[Path]:
    """The folder that was named, or one that is gone afterwards."""
    if context.arguments.data is not None:
        yield context.settings.folder
        return
    with tempfile.TemporaryDirectory(prefix="channelstats-demo-") as name:
        yield Path(name)


async def _make(context: CommandContext, wanted: DemoPlan) -> None:
    """Have the workspace in the folder, unless it is there."""
    settings = context.settings
    made = _made(settings, wanted)
    if made.is_whole:
        return
    settings.folder.mkdir(0o700, parents=True, exist_ok=True)
    note = settings.folder / KEPT
    note.write_bytes(msgspec.json.encode(made))
    export = settings.folder / _EXPORT
    try:
        await _write(context, made, export)
        await import_export(context, export, ImportOptions(include_private=True))
    finally:
        export.unlink(missing_ok=True)
    note.write_bytes(msgspec.json.encode(msgspec.structs.replace(made, is_whole=True)))


def _made(settings: Settings, wanted: DemoPlan) -> DemoPlan:
    """What the folder holds, or what is wanted where it holds nothing.

    :raises Failure: it holds something else
    """
    try:
        made = msgspec.json.decode((settings.folder / KEPT).read_bytes(), type=DemoPlan)
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


async def _write(context: CommandContext, wanted: DemoPlan, path: Path) -> None:
    """Write the export; whole, or not at all.

    :raises Failure: there is something
    """
    part = path.with_name(f"{path.stem}.part{path.suffix}")
    progress, stop = context.progress(), threading.Event()

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


def _opener(context: CommandContext) -> Callable[[str], None]:
    """What is done with the address of the dashboard."""

    def ready(url: str) -> None:
        print(f"channelstats ready: {url}", flush=True)
        if not context.arguments.no_browser and _has_screen(context):
            open_it = threading.Thread(
                target=webbrowser.open, args=(url,), name=BROWSER, daemon=True
            )
            open_it.start()

    return ready


def _has_screen(context: CommandContext) -> bool:
    """Whether a browser would have somewhere to open; one in the terminal would be in the way."""
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(_SCREENS & {name for name, value in context.environment.items() if value})


DEMO: Final = Command(
    "demo",
    "show the dashboard of a workspace that is made up",
    _run,
    _add_arguments,
    (OptionGroup.COUNTING, OptionGroup.DASHBOARD),
)
