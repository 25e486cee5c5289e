"""The options written out for people: the reference page and the sample ini files.

Rule: nothing is typed by hand here; every word comes from the table.
`python -m autopush.settings_reference [shared|connection|endpoint]` prints them.
"""

import sys
from itertools import groupby
from textwrap import wrap

from .settings import OPTIONS
from .settings_flags import default_of
from .settings_kinds import boolean, text_value
from .settings_sources import FILE_ALIASES, OBSOLETE, SEARCH_PLACES
from .settings_table import DAEMONS, IniFile, Option


def render_reference() -> str:
    """A Markdown table for each group of options."""
    parts = []
    for title, options in groupby(OPTIONS, key=lambda option: option.group):
        rows = [
            f"## {title}\n",
            "| option | flag | environment | default | meaning |",
            "|---|---|---|---|---|",
            *(_row(option) for option in options),
        ]
        parts.append("\n".join(rows) + "\n")
    names = ", ".join(f"`{name}`" for name in sorted(OBSOLETE))
    parts.append(f"## Obsolete options\n\nAccepted in a file, with a warning: {names}.\n")
    return "\n".join(parts)


def _row(option: Option) -> str:
    flag = f"`{option.flag} {option.kind.metavar}`"
    if option.kind.is_flag:
        flag = f"`{option.flag}`, `{option.off_flag}`"
    if option.short:
        flag = f"`{option.short}`, {flag}"
    default = default_of(option) if option.default_text else f"`{default_of(option)}`"
    about = option.help[0].upper() + option.help[1:]
    if option.kind not in {boolean, text_value}:
        about += f"; {option.kind.expected}"
    about = ". ".join([about, *_limits(option)])
    cells = (
        f"`{option.name}`",
        flag,
        ", ".join(f"`{name}`" for name in option.env),
        default,
        f"{about}.",
    )
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def _limits(option: Option) -> list[str]:
    """Where the option is not to be had, or has one more variable."""
    limits = []
    lacking = [f"`autopush {command}`" for command in DAEMONS if command not in option.commands]
    if lacking:
        limits.append(f"Not with {' and '.join(lacking)}")
    if option.daemon_env:
        names = ", ".join(f"`{name}`" for name in option.daemon_env)
        limits.append(f"Also {names}, but not with `autopush serve`")
    return limits


def render_sample(file: IniFile) -> str:
    """An ini file that changes nothing: every option at home in `file`, commented out."""
    places = ", ".join(place.format(file.file_name) for place in SEARCH_PLACES)
    lines = [
        f"# {file.file_name}",
        "#",
        f"# Looked for as {places};",
        f"# or named with --config-{file}. Environment variables and flags are stronger.",
    ]
    alias = {name for _, other, name in FILE_ALIASES if other is file}
    mine = [option for option in OPTIONS if option.file is file or option.name in alias]
    for title, options in groupby(mine, key=lambda option: option.group):
        lines += ["", f"## {title}"]
        for option in options:
            about = option.help[0].upper() + option.help[1:] + "."
            if option.default_text:
                about += f" Default: {option.default_text}."
            lines += ["", *(f"# {line}" for line in wrap(about, 90))]
            lines.append(f"#{option.name} = {_sample_value(option)}")
    return "\n".join(lines) + "\n"


def _sample_value(option: Option) -> str:
    if option.default_text:
        return f"[{option.kind.metavar}]" if option.kind.is_list else option.kind.metavar
    if isinstance(option.default, bool):
        return "true" if option.default else "false"
    return default_of(option)


if __name__ == "__main__":
    print(render_sample(IniFile(sys.argv[1])) if len(sys.argv) > 1 else render_reference())
