"""`autopush settings`: the effective settings of a command and where each comes from.

An unknown option or an invalid value is an error, as at the start of that command.

Rule: no secret is printed, not even its length.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final

from autopush.commands import CommandLine
from autopush.commands.arguments import add_daemon
from autopush.commands.checks import examine_start
from autopush.commands.running import load_for_daemon
from autopush.settings import OPTIONS, STARTUP_FAILED, Option, Settings, StartupError
from autopush.settings.declaration import IniFile, Source, show_value
from autopush.settings.reference import render_sample, render_toml_sample
from autopush.settings.sources import TOML_FILE
from autopush.settings.value_types import Value
from autopush.telemetry import logs

SECRET: Final = "(secret)"  # noqa: S105
VALUE_WIDTH: Final = 44
"""Columns for values; a longer one shifts only its own line."""


def show(_: Settings, arguments: argparse.Namespace) -> int:
    """Print the settings and what prevents the start, or write samples; 3: it would not start."""
    if arguments.sample is not None:
        if arguments.json or arguments.daemon:
            raise StartupError("--sample writes every option of every command: give no other flag")
        write_samples(arguments.sample, sample_files(arguments.format))
        return 0
    if arguments.format:
        raise StartupError("--format is for --sample; for the settings there is --json")
    settings, warnings = load_for_daemon(arguments)
    for warning in warnings:
        print(f"autopush: warning: {warning}", file=sys.stderr)
    _print((render_json if arguments.json else render_text)(settings))
    problems = examine_start(settings, time.time)[0]
    for problem in problems:
        logs.print_error(problem)
    return STARTUP_FAILED if problems else 0


def _print(text: str) -> None:
    """Print; a reader such as `head` may close the pipe early."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        # Otherwise Python reports it again when it flushes standard output at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# ── Effective values ──────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class EffectiveValue:
    """`value` is None if it is known only at the start; `default_text` then describes it."""

    option: Option
    value: Value
    source: Source


def effective_values(settings: Settings) -> Iterator[EffectiveValue]:
    """Those of the options of `settings.command`, in the order of the table."""
    for option in OPTIONS:
        if settings.command in option.commands:
            source = settings.sources.get(option.name, Source())
            yield EffectiveValue(option, _value(option, source, settings), source)


def _value(option: Option, source: Source, settings: Settings) -> Value:
    value: Value = getattr(settings, option.name)
    if source.kind == "default" and option.default_text:
        return option.effective(settings) if option.effective is not None else value or None
    if option.value_type.without_secret is not None and isinstance(value, str):
        return option.value_type.without_secret(value)
    return SECRET if option.secret else value


def render_text(settings: Settings) -> str:
    """Three columns: option, value, and where it was set or `default`."""
    values = list(effective_values(settings))
    given = sum(value.source.kind != "default" for value in values)
    width = max(len(value.option.name) for value in values)
    lines = [f"# autopush {settings.command}: {given} of {len(values)} options are set"]
    for title, members in groupby(values, key=lambda value: value.option.group):
        lines += ["", f"# {title}"]
        for member in members:
            text = f"({member.option.default_text})"
            if member.value is not None:
                text = show_value(member.value)
            source = member.source.place or member.source.kind
            lines.append(f"{member.option.name:{width}}  {text:{VALUE_WIDTH}}  {source}")
    return "\n".join(lines)


def render_json(settings: Settings) -> str:
    """For each option `value`, `source` and `place`; if `value` is null, `default` in words."""
    options = {}
    for member in effective_values(settings):
        document = {
            "value": member.value,
            "source": member.source.kind,
            "place": member.source.place or None,
        }
        if member.value is None:
            document["default"] = member.option.default_text
        options[member.option.name] = document
    return json.dumps({"command": settings.command, "options": options}, indent=2, default=str)


# ── Sample files ──────────────────────────────────────────────────────────────────────────────────


def sample_files(only: str | None) -> dict[str, str]:
    """By name. `only`: `toml` or `ini`; None for both."""
    ini = {file.file_name: render_sample(file) for file in IniFile} if only != "toml" else {}
    return ini | ({TOML_FILE: render_toml_sample()} if only != "ini" else {})


def write_samples(folder: str, samples: Mapping[str, str]) -> None:
    """Write into `folder`, or print if it is `-`. StartupError instead of overwriting a file."""
    if folder == "-":
        _print("\n".join(samples.values()).rstrip())
        return
    paths = {Path(folder) / name: text for name, text in samples.items()}
    for path in paths:
        if path.exists():
            raise StartupError(f"{path} exists; nothing was written")
    for path, text in paths.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise StartupError(f"cannot write {path}: {error.strerror}") from None
        print(f"wrote {path}")


# ── Arguments ─────────────────────────────────────────────────────────────────────────────────────


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("What to print")
    add_daemon(group, "the command whose settings they are")
    group.add_argument("--json", action="store_true", help="print JSON")
    group.add_argument(
        "--sample",
        metavar="FOLDER",
        nargs="?",
        const="-",
        help="instead, write sample files into FOLDER, or print them: every option commented out",
    )
    about = "which sample files: autopush.toml, or the three of the original [default: all]"
    group.add_argument("--format", choices=("toml", "ini"), help=about)


COMMANDS: Final = {"settings": CommandLine(show, _add_arguments)}
