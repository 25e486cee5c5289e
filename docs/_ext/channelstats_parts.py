"""Parts of the pages of channelstats that are made from its code: commands, settings, tables,
figures.
"""

from argparse import ArgumentParser
from datetime import date
from typing import Final
from zoneinfo import ZoneInfo

from channelstats.commands import COMMANDS
from channelstats.commands.context import make_parser
from channelstats.facts import Inputs, Options, Period
from channelstats.pages import goals
from channelstats.pages.loading import DashboardData
from channelstats.pages.reports import ReportData, ReportKind, ReportRequest
from channelstats.render.reports import tables_of
from channelstats.settings import OPTIONS, Option, show_value
from channelstats.tables.columns import MESSAGES

EXPLAINED: Final = {
    "import-export": "getting-started.md#import-it",
    "sync": "slack.md#read-the-workspace",
    "report": "getting-started.md#a-report",
    "serve": "dashboard.md",
    "login": "dashboard.md#a-token-of-ones-own",
    "send-weekly": "slack.md#every-week",
    "notify": "dashboard.md#notifications",
    "warn": "slack.md#goals-and-alerts",
    "mail": "dashboard.md#mail",
    "rebuild-firstposts": "data.md#first-posts",
    "import-members": "data.md#when-accounts-were-created",
    "forget": "privacy.md",
    "copy": "privacy.md#a-copy-without-names",
    "note": "dashboard.md#notes-on-dates",
    "doctor": "troubleshooting.md",
    "demo": "getting-started.md",
}
"""Where each command is explained; a link that leads nowhere fails the build."""


def commands() -> str:
    """Every command, with its own flags."""
    rows = ["| command | what it does |", "|---|---|"]
    rows += [
        f"| [`channelstats {of.name}`](#command-{of.name}) | {of.summary} |" for of in COMMANDS
    ]
    sections = (_command(of.name, of.summary, make_parser(of)) for of in COMMANDS)
    return "\n".join([*rows, *(line for section in sections for line in section)])


def _command(name: str, text: str, parser: ArgumentParser) -> list[str]:
    usage = [action for action in parser._actions if action.dest not in _OF_ALL]
    about = f"{text[0].upper()}{text[1:]}. [More on it]({EXPLAINED[name]})."
    lines = ["", f"(command-{name})=", f"## {name}", "", about, ""]
    if not usage:
        return lines
    lines += ["| flag | meaning |", "|---|---|"]
    for action in usage:
        names = ", ".join(f"`{flag}`" for flag in action.option_strings)
        shown = action.metavar or ("" if action.nargs == 0 else action.dest.upper())
        choices = " ".join(f"`{choice}`" for choice in action.choices or ())
        word = names or f"`{shown if isinstance(shown, str) else action.dest}`"
        value = f" `{shown}`" if names and shown and not choices else ""
        meaning = " ".join(filter(None, [action.help or "", choices]))
        lines.append(f"| {word}{value} | {meaning} |")
    return lines


_OF_ALL: Final = {"help", "config", "quiet", "command", *(option.name for option in OPTIONS)}


def settings() -> str:
    """Every setting."""
    rows = ["| setting, flag, environment | default | meaning |", "|---|---|---|"]
    for of in OPTIONS:
        names = f"[**{of.name}**]{{#channelstats-{of.name.replace('_', '-')}}}<br>"
        rows.append(f"| {names}`{of.flag}`<br>`{of.variable}` | {_default(of)} | {of.help} |")
    return "\n".join(rows)


def _default(of: Option) -> str:
    return "" if of.default == "" else f"`{show_value(of.default)}`"


def tables() -> str:
    """The columns of the tables that CSV and Parquet have."""
    parts = []
    week = Period(date(2024, 3, 10), 7, ZoneInfo("UTC"))
    nothing = DashboardData(Inputs(MESSAGES.to_frame()), week, Options())
    kinds = {
        ReportKind.GLOBAL: "global and brief",
        ReportKind.CHANNEL: "channel",
        ReportKind.USER: "user",
    }
    for kind, name in kinds.items():
        parts += ["", f"### Tables of a {name} report", "", "| table | columns |", "|---|---|"]
        wanted = ReportRequest(kind, "" if kind is ReportKind.GLOBAL else "X")
        for table in tables_of(wanted, ReportData(nothing, made_at=0)):
            columns = " ".join(f"`{column.name}`" for column in table.columns)
            parts.append(f"| `{table.name}` | {columns} |")
    return "\n".join(parts)


def figures() -> str:
    """Every figure that may have a goal, with what it means and its names."""
    names: dict[tuple[str, str], list[str]] = {}
    for name, tile in goals.figures().items():
        names.setdefault((tile.title, tile.about), []).append(f"`{name}`")
    rows = ["| figure | meaning | names |", "|---|---|---|"]
    rows += [
        f"| {title} | {about} | {'<br>'.join(every)} |" for (title, about), every in names.items()
    ]
    return "\n".join(rows)
