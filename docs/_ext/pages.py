"""Parts of pages that are made from the code: errors, settings, commands, states.

A page has a line `<!-- from the code: NAME -->`; NAME is a key of `PARTS`, whose text replaces the
line.
"""

import ast
import functools
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from autopush import bridges
from autopush.api.app import EXPOSED, MAX_AGE, ROUTES
from autopush.commands import COMMANDS
from autopush.delivery.bridged import REASONS
from autopush.protocol.states import TRANSITIONS, Event, State
from autopush.settings import OPTIONS
from autopush.settings.declaration import IniFile
from autopush.settings.reference import (
    option_anchor,
    render_reference,
    render_sample,
    render_toml_sample,
)
from autopush.settings.sources import TOML_FILE
from autopush.telemetry import metric_table
from autopush.telemetry.metric_table import BRIDGE_REASONS, METRICS
from autopush.telemetry.metrics import Kind, Metric
from autopush.telemetry.prometheus import prometheus_name
from autopush.webpush.errors import ERRORS, reason_phrase

from . import channelstats_parts, message_picture, month_picture, state_diagram

OPTION_LINK: Final = re.compile(r"\[`(?P<name>\w+)`\]\(settings\.md\)")
"""How a page names an option: a link to the page, which becomes a link to the option."""

PLACEHOLDER: Final = re.compile(r"^<!-- from the code: (?P<name>[a-z-]+) -->$", re.MULTILINE)


def errors() -> str:
    """Every error number: an overview, then a section for each, with its anchor."""
    parts = ["| errno | HTTP | meaning |", "|---|---|---|"]
    parts += [
        f"| [{kind:d}](#{kind.anchor}) | {kind.status} {reason_phrase(kind.status)} "
        f"| {kind.title} |"
        for kind in ERRORS.values()
    ]
    for kind in ERRORS.values():
        parts += [
            "",
            f"({kind.anchor})=",
            f"## {kind:d}: {kind.title}",
            "",
            f"HTTP status {kind.status} {reason_phrase(kind.status)}.",
            "",
            kind.help,
        ]
    return "\n".join(parts)


def cors() -> str:
    """The headers by which web pages may call the endpoints."""
    rows = [
        "| path | `Access-Control-` headers |",
        "|---|---|",
        f"| all | `Allow-Origin: *`; `Expose-Headers: {EXPOSED}` |",
    ]
    rows += [
        f"| `{route.path}` | `Allow-Methods: {route.methods}`; "
        f"`Allow-Headers: {route.allowed_headers}`; `Max-Age: {MAX_AGE}` |"
        if route.allowed_headers
        else f"| `{route.path}` | `Allow-Methods: {route.methods}`; no request headers; "
        f"`Max-Age: {MAX_AGE}` |"
        for route in ROUTES
    ]
    return "\n".join(rows)


def bridge_modules() -> dict[str, str]:
    """The modules of bridges by router type, each with the first sentence of its docstring."""
    found = {}
    for path in sorted(Path(bridges.__path__[0]).glob("*.py")):
        module = ast.parse(path.read_text("utf-8"))
        if any(isinstance(part, ast.FunctionDef) and part.name == "create" for part in module.body):
            summary = " ".join((ast.get_docstring(module) or "").partition("\n\n")[0].split())
            found[path.stem] = re.split(r"(?<=\.) |[.:]$", summary)[0].removesuffix(".")
    return found


def bridge_table() -> str:
    """The bridges and the options that put them into service."""
    rows = ["| router type | what it is | options |", "|---|---|---|"]
    for name, summary in bridge_modules().items():
        options = [f"[`{row.name}`](settings.md)" for row in OPTIONS if row.bridge == name]
        rows.append(f"| `{name}` | {summary} | {', '.join(options)} |")
    rows.append(
        "| any other | a [router of your own](#a-router-of-your-own) | [`routers`](settings.md) |"
    )
    return "\n".join(rows)


def sample_files() -> str:
    """The TOML file and the three ini files, every option commented out."""
    samples = [(TOML_FILE, render_toml_sample())]
    samples += [(file.file_name, render_sample(file)) for file in IniFile]
    return "\n\n".join(
        f"### {name}\n\n```{name.rpartition('.')[2]}\n{text}```" for name, text in samples
    )


def commands() -> str:
    """The commands of the command line."""
    rows = ["| command | what it does |", "|---|---|"]
    rows += [f"| `autopush {command.name}` | {command.summary} |" for command in COMMANDS]
    rows.append("| `autoendpoint` | the same as `autopush endpoint` |")
    rows.append("| `endpoint_diagnostic` | the same as `autopush diagnose` |")
    rows.append("| `autokey` | print a new key, for the options `crypto_key` and `auth_key` |")
    return "\n".join(rows)


def metrics() -> str:
    """Every metric, by the sections of the table, with both of its names and its labels."""
    parts = []
    for title, of_section in metric_sections().items():
        parts += [f"### {title}", "", "| metric | in Prometheus | meaning |", "|---|---|---|"]
        parts += [
            f"| `{metric.name}`<br>{_kind(metric)} | `{prometheus_name(metric)}`{_labels(metric)} "
            f"| {metric.help} |"
            for metric in of_section
        ]
        parts.append("")
    return "\n".join(parts)


def metric_sections() -> dict[str, list[Metric]]:
    """The metrics below each heading of the table's source."""
    source = Path(metric_table.__file__).read_text("utf-8")
    sections: dict[str, list[Metric]] = {}
    for title, body in re.findall(r"^# ── (.+?) ─+$(.*?)(?=^# ──|\Z)", source, re.M | re.S):
        names = re.findall(r"^[A-Z_0-9]+: Final = _\w+\(\s*\"(.+?)\"", body, re.M)
        found = [metric for metric in METRICS if metric.name in names]
        if found:
            sections[title] = found
    return sections


def latencies() -> str:
    """The bounds of the buckets of all histograms of times."""
    bounds = {metric.buckets for metric in METRICS if metric.kind is Kind.HISTOGRAM}
    seconds = {", ".join(f"{bound:g}" for bound in each) for each in bounds if each}
    return "\n".join(f"    {each}" for each in sorted(seconds))


def bridge_reasons() -> str:
    """The reason of each error of a bridge."""
    rows = ["| `reason` | errno |", "|---|---|"]
    for reason in BRIDGE_REASONS:
        numbers = [f"[{errno:d}](errors.md)" for errno, name in REASONS.items() if name == reason]
        rows.append(f"| `{reason}` | {', '.join(numbers) or 'any other'} |")
    return "\n".join(rows)


def _kind(metric: Metric) -> str:
    return f"{metric.kind}, {metric.unit}" if metric.unit else str(metric.kind)


def _labels(metric: Metric) -> str:
    labels = {"worker": ("0", "1", "…")} if metric.per_worker else metric.labels
    return "".join(
        f"<br>`{name}`: {', '.join(f'`{value}`' for value in values)}"
        for name, values in labels.items()
    )


def state_picture() -> str:
    """The state diagram of a session."""
    svg = state_diagram.draw(tuple(State), TRANSITIONS)
    return f'<figure class="state-diagram">\n{svg}\n</figure>\n'


def month() -> str:
    """The move of a user to the next month's table."""
    return f'<figure class="month-picture">\n{month_picture.draw()}\n</figure>\n'


def message_way() -> str:
    return f'<figure class="message-picture">\n{message_picture.draw()}\n</figure>\n'


def states() -> str:
    """The states and what they mean."""
    return state_diagram.legend(State)


def events() -> str:
    """The events and who causes them."""
    return state_diagram.legend(Event)


def transitions() -> str:
    """Every legal step of a session."""
    return state_diagram.table(TRANSITIONS)


PARTS: Final[Mapping[str, Callable[[], str]]] = {
    "bridge-reasons": bridge_reasons,
    "bridges": bridge_table,
    "channelstats-commands": channelstats_parts.commands,
    "channelstats-settings": channelstats_parts.settings,
    "channelstats-tables": channelstats_parts.tables,
    "channelstats-figures": channelstats_parts.figures,
    "commands": commands,
    "cors": cors,
    "errors": errors,
    "latencies": latencies,
    "metrics": metrics,
    "events": events,
    "message-way": message_way,
    "month-picture": month,
    "sample-files": sample_files,
    "settings": render_reference,
    "state-picture": state_picture,
    "states": states,
    "transitions": transitions,
}


@functools.cache
def fill(text: str) -> str:
    """The page with every placeholder replaced, and links to options made exact.

    Raises:
        KeyError: a placeholder names no part.
    """
    text = PLACEHOLDER.sub(lambda found: PARTS[found["name"]](), text)
    return OPTION_LINK.sub(
        lambda found: f"[`{found['name']}`](#{option_anchor(found['name'])})", text
    )
