"""Renders the table of options: the page of the documentation, and the sample files."""

import json
from collections.abc import Callable, Iterable
from itertools import groupby
from textwrap import wrap

from autopush.settings.declaration import DAEMONS, OBSOLETE, ORIGINAL_DAEMONS, IniFile, Option
from autopush.settings.options import OPTIONS
from autopush.settings.sources import SEARCH_PATHS, SERVE_ALIASES, TOML_FILE
from autopush.settings.value_types import BOOLEAN, TEXT


def render_reference() -> str:
    """A MyST Markdown table for each group of options."""
    parts = []
    for title, options in groupby(OPTIONS, key=lambda option: option.group):
        head = f"## {title}\n\n| option, flag, environment | default | meaning |\n|---|---|---|"
        parts.append("\n".join([head, *(_row(option) for option in options)]) + "\n")
    names = ", ".join(f"`{name}`" for name in sorted(OBSOLETE))
    parts.append(f"## Obsolete options\n\nAccepted in a file, with a warning: {names}.\n")
    return "\n".join(parts)


def option_anchor(name: str) -> str:
    """The URL fragment of an option on the settings page."""
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
    if option.reloads:
        about.append("Taken at a reload")
    elif option.reloads_if_set:
        about.append("Taken at a reload, if it was set and still is")
    if option.daemon_env:
        readers = " and ".join(f"`autopush {command}`" for command in ORIGINAL_DAEMONS)
        about.append(f"Also `{option.daemon_env}`, but only with {readers}")
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
    """The help text, with the values that are expected."""
    about = option.help[0].upper() + option.help[1:]
    is_plain = option.value_type in (BOOLEAN, TEXT)
    return about if is_plain else f"{about}; {option.value_type.expected}"


def render_sample(file: IniFile) -> str:
    """An ini file with the options of `file`, commented out.

    Uncommented, a line sets the default; one that is computed or absent is left empty, which counts
    as not given.
    """
    aliases = SERVE_ALIASES.get(file, {})
    return _render_sample(
        file.file_name,
        f"--config-{file}",
        [option for option in OPTIONS if option.file is file or option.name in aliases],
        lambda option: "" if option.default_text else option.default_shown,
    )


def render_toml_sample() -> str:
    """The TOML file with every option; see `render_sample`."""
    return _render_sample(
        TOML_FILE,
        "--config",
        OPTIONS,
        _toml_default,
        "Texts are written in quotes. An option of JSON may be a table behind all other options,",
        "such as [fcm_creds.APPLICATION] with a line for each member.",
    )


def _render_sample(
    file_name: str,
    flag: str,
    options: Iterable[Option],
    default: Callable[[Option], str],
    *more: str,
) -> str:
    paths = ", ".join(path.format(file_name) for path in SEARCH_PATHS)
    head = [
        file_name,
        "",
        f"Looked for as {paths};",
        f"or named with {flag}. Environment variables and flags are stronger.",
        "An empty value counts as not given.",
        *more,
    ]
    lines = [f"# {line}".rstrip() for line in head]
    for title, members in groupby(options, key=lambda option: option.group):
        lines += ["", f"## {title}"]
        for option in members:
            about = f"{_about(option)}."
            if option.default_text:
                about += f" Default: {option.default_text}."
            lines += ["", *(f"# {line}" for line in wrap(about, 90))]
            lines.append(f"#{option.name} = {default(option)}".rstrip())
    return "\n".join(lines) + "\n"


def _toml_default(option: Option) -> str:
    if isinstance(option.default, bool) and not option.default_text:
        return str(option.default).lower()
    if isinstance(option.default, int | float) and not option.default_text:
        return option.default_shown
    return json.dumps("" if option.default_text else option.default_shown)
