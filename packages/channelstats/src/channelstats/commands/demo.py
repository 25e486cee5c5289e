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

from channelstats.commands.context import CommandContext, Failure, argument, command, flag, many
from channelstats.commands.import_ import import_archive
from channelstats.commands.serve import SignalHandler, check_port, serve_dashboard
from channelstats.demo.workspace import Size, last_day_before, write_export
from channelstats.ingest.export_import import ImportOptions
from channelstats.progress import show
from channelstats.settings import OptionGroup, Settings

KEPT: Final = "demo.json"
"""In a data folder: that it is a demo's, and which one. Without it nothing is written there."""

_USUAL: Final = msgspec.structs.asdict(Size())
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
        argument(
            f"--{name}",
            type=int,
            default=usual,
            metavar="N",
            help=f"number of {name} [default: {usual:,}]",
        )
        for name, usual in _USUAL.items()
    ),
    argument(
        "--seed", type=int, default=1, metavar="N", help="each makes another one [default: 1]"
    ),
    argument("--export", type=Path, metavar="PATH", help="only write it as a Slack export"),
    flag("--no-browser", "open no browser"),
    groups=(OptionGroup.COUNTING, OptionGroup.DASHBOARD),
)
async def demo(context: CommandContext) -> int:
    requested, export = _requested(context), context.arguments.export
    if export is not None:
        _write(context, requested, export)
        context.say(f"{export}: {many(requested.size.messages, 'made-up message')}")
        return context.exit_code
    with _folder(context) as folder:
        own = msgspec.structs.replace(context, settings=_settings(context, folder))
        await check_port(own.settings)
        await _make(own, requested)
        is_kept = context.arguments.data is not None
        second = signal.SIG_DFL if is_kept else _removing(folder)
        await serve_dashboard(
            own, lambda url: _open_browser(context, url), second=second, is_made_up=True
        )
    return context.exit_code


def _requested(context: CommandContext) -> DemoPlan:
    """What is asked for."""
    numbers = {name: getattr(context.arguments, name) for name in _MOST}
    for name, most in _MOST.items():
        if not 1 <= numbers[name] <= most:
            context.wrong_usage(f"--{name}: expected a number from 1 to {most:,}")
    if context.arguments.store is not None:
        context.wrong_usage("--store: a demo is kept in a folder; name one with --data")
    last_day = last_day_before(datetime.fromtimestamp(context.clock(), UTC).date())
    return DemoPlan(Size(**numbers), context.arguments.seed, last_day)


def _settings(context: CommandContext, folder: Path) -> Settings:
    """Those given, but for what belongs to a real workspace; any free port unless one is named."""
    return dataclasses.replace(
        context.settings,
        data=str(folder),
        store="",
        prefix="channelstats",
        slack_name="",
        exclude_channels=frozenset(),
        exclude_users=frozenset(),
        retention_days=0,
        port=context.settings.port if context.arguments.port is not None else 0,
    )


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
    """Have the workspace in the folder, unless it is there."""
    folder = context.settings.folder
    plan = _begun(context.settings, requested)
    if plan.is_whole:
        return
    folder.mkdir(0o700, parents=True, exist_ok=True)
    (folder / KEPT).write_bytes(msgspec.json.encode(plan))
    export = folder / "export.zip"
    try:
        _write(context, plan, export)
        options = ImportOptions(include_private=True)
        await import_archive(context, export, options)
    finally:
        export.unlink(missing_ok=True)
    finished = msgspec.structs.replace(plan, is_whole=True)
    (folder / KEPT).write_bytes(msgspec.json.encode(finished))


def _begun(settings: Settings, requested: DemoPlan) -> DemoPlan:
    """What the folder holds, or what is wanted where it holds nothing.

    :raises Failure: it holds something else
    """
    try:
        begun = msgspec.json.decode((settings.folder / KEPT).read_bytes(), type=DemoPlan)
    except FileNotFoundError:
        if settings.file.exists():
            raise Failure(f"{settings.folder}: not a demo's; name another folder") from None
        return requested
    except msgspec.MsgspecError as error:
        raise Failure(f"{settings.folder / KEPT}: {error}") from None
    if (begun.size, begun.seed) != (requested.size, requested.seed):
        raise Failure(f"{settings.folder}: holds another demo; remove it or name another folder")
    return begun


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
