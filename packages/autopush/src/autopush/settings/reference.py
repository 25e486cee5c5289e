"""The table written out: the page of the documentation, and the sample ini files.

`python -m autopush.settings.reference [shared|connection|endpoint]` prints them.
"""

import sys
from itertools import groupby
from textwrap import wrap

from autopush.settings.declaration import DAEMONS, IniFile, Option
from autopush.settings.options import OPTIONS
from autopush.settings.original import OBSOLETE
from autopush.settings.sources import FILE_ALIASES, SEARCH_PATHS
from autopush.settings.value_types import BOOLEAN, TEXT


def render_reference() -> str:
    """A Markdown table for each group of options, in the syntax of MyST."""
    parts = []
    for title, options in groupby(OPTIONS, key=lambda option: option.group):
        head = f"## {title}\n\n| option, flag, environment | default | meaning |\n|---|---|---|"
        parts.append("\n".join([head, *(_row(option) for option in options)]) + "\n")
    names = ", ".join(f"`{name}`" for name in sorted(OBSOLETE))
    parts.append(f"## Obsolete options\n\nAccepted in a file, with a warning: {names}.\n")
    return "\n".join(parts)


def option_anchor(name: str) -> str:
    """The fragment of an option in the page of the settings."""
    return f"option-{name.replace('_', '-')}"


def _row(option: Option) -> str:
    value_type = option.value_type
    flags = [option.flag, option.off_flag]
    if not value_type.is_flag:
        flags = [f"{option.flag} {value_type.metavar}"]
    names = [name for name in (option.short, *flags, *option.env) if name]
    about = [_about(option)]
    lacking = [f"`autopush {command}`" for command in DAEMONS if command not in option.commands]
    if lacking:
        about.append(f"Not with {' and '.join(lacking)}")
    if option.daemon_env:
        about.append(f"Also `{option.daemon_env}`, but not with `autopush serve`")
    cells = (
        "<br>".join(
            [f"[**`{option.name}`**]{{#{option_anchor(option.name)}}}"]
            + [f"`{name}`" for name in names]
        ),
        option.default_text or f"`{option.default_shown}`",
        ". ".join(about) + ".",
    )
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def _about(option: Option) -> str:
    """What it is, and what its value has to be."""
    about = option.help[0].upper() + option.help[1:]
    is_plain = option.value_type in (BOOLEAN, TEXT)
    return about if is_plain else f"{about}; {option.value_type.expected}"


def render_sample(file: IniFile) -> str:
    """An ini file with the options of `file`, commented out.

    A line without its comment sign states the default; where that is computed, or there is none,
    the value is empty, which counts as not given.
    """
    paths = ", ".join(path.format(file.file_name) for path in SEARCH_PATHS)
    lines = [
        f"# {file.file_name}",
        "#",
        f"# Looked for as {paths};",
        f"# or named with --config-{file}. Environment variables and flags are stronger.",
        "# An empty value counts as not given.",
    ]
    aliases = {name for _, other, name in FILE_ALIASES if other is file}
    mine = [option for option in OPTIONS if option.file is file or option.name in aliases]
    for title, options in groupby(mine, key=lambda option: option.group):
        lines += ["", f"## {title}"]
        for option in options:
            about = f"{_about(option)}."
            value = "" if option.default_text else option.default_shown
            if option.default_text:
                about += f" Default: {option.default_text}."
            lines += ["", *(f"# {line}" for line in wrap(about, 90))]
            lines.append(f"#{option.name} = {value}".rstrip())
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(render_sample(IniFile(sys.argv[1])) if len(sys.argv) > 1 else render_reference())
