"""`channelstats demo`: a workspace that is made up, in the dashboard.

Rule: it is kept apart from everything real: in a folder of its own, with only those settings that
say how it is shown, and removed at the end unless a folder was named for it.
"""

import asyncio
import dataclasses
import shutil
import signal
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

import msgspec

from channelstats.commands.context import (
    CommandContext,
    Failure,
    argument,
    command,
    flag,
    many,
    number_argument,
)
from channelstats.commands.import_ import import_archive
from channelstats.commands.serve import SignalHandler, check_port, serve_dashboard
from channelstats.demo.directory import TEAM
from channelstats.demo.workspace import Size, last_day_before, write_export
from channelstats.ingest.export_import import ImportOptions
from channelstats.progress import show
from channelstats.settings import OptionGroup

KEPT: Final = "demo.json"
"""In a data folder: that it is a demo's, and which one. Without it nothing is written there."""

_MOST: Final = msgspec.structs.asdict(Size(20_000, 2_000, 5_000_000, 3_660))
BROWSER: Final = "channelstats-browser"
"""The thread that opens one."""

_SCREENS: Final = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")


class DemoPlan(msgspec.Struct, frozen=True):
    """What a demo is made of."""

    size: Size
    seed: int
    last_day: date
    is_whole: bool = False


@command(
    *(
        number_argument(
            f"--{name}", f"number of {name} [default: {usual:,}]", _MOST[name], default=usual
        )
        for name, usual in msgspec.structs.asdict(Size()).items()
    ),
    argument(
        "--seed", type=int, default=1, metavar="N", help="each makes another one [default: 1]"
    ),
    argument("--export", type=Path, metavar="PATH", help="only write it as a Slack export"),
    flag("--no-browser", "open no browser"),
    groups=(OptionGroup.COUNTING, OptionGroup.DASHBOARD),
)
async def demo(context: CommandContext) -> int:
    arguments, settings = context.arguments, context.settings
    if arguments.store is not None:
        context.wrong_usage("--store: a demo is kept in a folder; name one with --data")
    size = Size(**{name: getattr(arguments, name) for name in _MOST})
    today = datetime.fromtimestamp(context.clock(), UTC).date()
    requested = DemoPlan(size, arguments.seed, last_day_before(today))
    if arguments.export is not None:
        _write(context, requested, arguments.export)
        context.say(f"{arguments.export}: {many(size.messages, 'made-up message')}")
        return context.exit_code
    with _folder(context) as folder:
        # Those given, but for what belongs to a real workspace.
        own_settings = dataclasses.replace(
            settings,
            data=str(folder),
            store="",
            prefix="channelstats",
            slack_name="",
            exclude_channels=frozenset(),
            exclude_users=frozenset(),
            retention_days=0,
            team=settings.team or TEAM,
            port=0 if arguments.port is None else settings.port,
        )
        own = msgspec.structs.replace(context, settings=own_settings)
        await check_port(own.settings)
        await _make(own, requested)
        second = signal.SIG_DFL if arguments.data is not None else _removing(folder)
        await serve_dashboard(
            own, lambda url: _open_browser(context, url), second=second, is_made_up=True
        )
    return context.exit_code


@contextmanager
def _folder(context: CommandContext) -> Iterator[Path]:
    """The folder that was named, or one that is gone afterwards."""
    if context.arguments.data is not None:
        yield context.settings.folder
        return
    with tempfile.TemporaryDirectory(prefix="channelstats-demo-") as name:
        yield Path(name)


def _removing(folder: Path) -> SignalHandler:
    """What a second signal does: it removes the folder, and ends the process at once."""

    def end(number: int, _: object) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    return end


async def _make(context: CommandContext, requested: DemoPlan) -> None:
    """Have the workspace in the folder; one that was begun is completed as it was planned.

    :raises Failure: the folder holds something else
    """
    folder, kept, plan = context.settings.folder, context.settings.folder / KEPT, requested
    try:
        plan = msgspec.json.decode(kept.read_bytes(), type=DemoPlan)
    except FileNotFoundError:
        if context.settings.file.exists():
            raise Failure(f"{folder}: not a demo's; name another folder") from None
    except msgspec.MsgspecError as error:
        raise Failure(f"{kept}: {error}") from None
    if (plan.size, plan.seed) != (requested.size, requested.seed):
        raise Failure(f"{folder}: holds another demo; remove it or name another folder")
    if plan.is_whole:
        return
    folder.mkdir(0o700, parents=True, exist_ok=True)
    kept.write_bytes(msgspec.json.encode(plan))
    export = folder / "export.zip"
    try:
        _write(context, plan, export)
        await import_archive(context, export, ImportOptions(include_private=True))
    finally:
        export.unlink(missing_ok=True)
    kept.write_bytes(msgspec.json.encode(msgspec.structs.replace(plan, is_whole=True)))


def _write(context: CommandContext, plan: DemoPlan, path: Path) -> None:
    """Write the export; whole, or not at all. Nothing else runs yet that it could keep waiting.

    :raises Failure: there is something
    """
    if path.exists():
        raise Failure(f"{path}: exists already")
    part = path.with_name(f"{path.stem}.part{path.suffix}")
    bar, task = context.progress_bar("making up messages", " messages"), asyncio.current_task()

    def on_progress(done: int, total: int) -> None:
        if task is not None and task.cancelling():  # by Ctrl-C
            raise asyncio.CancelledError
        show(bar, done, total)

    try:
        write_export(
            part,
            plan.size,
            last_day=plan.last_day,
            seed=plan.seed,
            progress=on_progress,
        )
        part.rename(path)
    finally:
        bar.close()
        if part.is_dir():
            shutil.rmtree(part)
        part.unlink(missing_ok=True)


def _open_browser(context: CommandContext, url: str) -> None:
    """Open the dashboard where a browser has somewhere to; one in the terminal would be in the
    way.
    """
    has_screen = any(context.environment.get(name) for name in _SCREENS)
    if context.arguments.no_browser or not (sys.platform in ("darwin", "win32") or has_screen):
        return
    threading.Thread(target=webbrowser.open, args=(url,), name=BROWSER, daemon=True).start()
