"""The settings as command-line flags.

Rule: flags and `--help` are made from the table; values stay text here and are judged with all
other sources by `settings_sources`.
"""

import argparse
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Final

from .settings import OPTIONS
from .settings_table import IniFile, Option

_SECRET_FLAGS: Final = frozenset(option.flag for option in OPTIONS if option.secret)


def default_of(option: Option) -> str:
    """The default as an operator would write it, or in words where it is worked out."""
    if option.default_text:
        return option.default_text
    if isinstance(option.default, bool):
        return "on" if option.default else "off"
    if isinstance(option.default, float):
        return f"{option.default:g}"
    return str(option.default)


def add_flags(
    parser: argparse.ArgumentParser, command: str, files: Sequence[IniFile] = tuple(IniFile)
) -> None:
    """Add a flag for each option `command` knows, and one for each ini file it reads."""
    mine = [option for option in OPTIONS if command in option.commands]
    for title, options in groupby(mine, key=lambda option: option.group):
        group = parser.add_argument_group(title)
        for option in options:
            _add_flag(group, option, command)
    group = parser.add_argument_group(
        "Files", "An ini file holds lines `option = value`; environment and flags are stronger."
    )
    for file in files:
        group.add_argument(
            f"--config-{file}",
            metavar="FILE",
            help=f"read FILE too, after every {file.file_name} that is found",
        )


def _add_flag(group: argparse._ArgumentGroup, option: Option, command: str) -> None:
    names = [option.short, option.flag] if option.short else [option.flag]
    variables = ", ".join(option.variables(command))
    told = f"{option.help} [default: {default_of(option)}] [env: {variables}]"
    told = told.replace("%", "%%")
    if option.kind.is_flag:
        group.add_argument(*names, dest=option.name, action="append_const", const="true", help=told)
        group.add_argument(
            option.off_flag,
            dest=option.name,
            action="append_const",
            const="false",
            help=f"the opposite of {option.flag}",
        )
    else:
        group.add_argument(
            *names, dest=option.name, action="append", metavar=option.kind.metavar, help=told
        )


def given_flags(arguments: argparse.Namespace) -> dict[str, list[str]]:
    """Option name → texts, for the options given on the command line."""
    values: Mapping[str, object] = vars(arguments)
    given: dict[str, list[str]] = {}
    for option in OPTIONS:
        texts = values.get(option.name)
        if isinstance(texts, list):
            given[option.name] = [str(text) for text in texts]
    return given


def named_files(arguments: argparse.Namespace) -> dict[IniFile, str]:
    """The ini files named on the command line."""
    paths = {file: getattr(arguments, f"config_{file}", None) for file in IniFile}
    return {file: path for file, path in paths.items() if path}


def with_dashes(argv: Sequence[str]) -> list[str]:
    """`--max_data=1` as `--max-data=1`: option names may be written as in the files.

    A key may begin with a dash, which argparse would take for a flag: it is joined to its own flag.
    """
    words: list[str] = []
    rest = iter(argv)
    for word in rest:
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            word = name.replace("_", "-") + equals + value
            if word in _SECRET_FLAGS and (key := next(rest, None)) is not None:
                word = f"{word}={key}"
        words.append(word)
    return words
