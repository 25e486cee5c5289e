"""The manual, completions for shells and the short settings file, from the tables of `--help`."""

import argparse
from collections.abc import Iterator
from itertools import groupby
from textwrap import wrap
from typing import Final, NamedTuple

from autopush.cli import make_parser
from autopush.commands import COMMANDS, Command
from autopush.settings.options import OPTIONS

_MOST_USED: Final = (
    *("domain", "acme_email", "endpoint_url", "websocket_url", "host", "port", "workers", "store"),
    *("trusted_proxies", "ssl_cert", "ssl_key", "metrics_port", "accounts_required"),
    *("allowed_senders", "log_output", "log_level"),
)
"""Those of these that there are stand in the settings file of packages."""
_SETTINGS_HEAD: Final = """\
# /etc/autopush/autopush.ini: settings of the service, one `option = value` a line.
# All options: man autopush, or autopush settings --sample. Check them: autopush settings.
# Secrets may stand here: only root and the user autopush can read this file.

# Where the store and the keys are.
data = /var/lib/autopush
"""


class _Flag(NamedTuple):
    names: tuple[str, ...]
    metavar: str | None
    help: str
    is_setting: bool


def _flags(command: Command) -> Iterator[_Flag]:
    settings = {name for option in OPTIONS for name in (option.short, option.flag, option.off_flag)}
    for action in make_parser(command)._actions:  # argparse has no public list of them
        names = tuple(action.option_strings)
        text = "" if action.help in (None, argparse.SUPPRESS) else str(action.help)
        metavar = action.metavar if isinstance(action.metavar, str) else None
        if action.nargs != 0 and metavar is None:
            metavar = "|".join(map(str, action.choices or [action.dest.upper()]))
        yield _Flag(
            names or (metavar or action.dest,),
            metavar if names and action.nargs != 0 else None,
            text.replace("%%", "%"),
            not settings.isdisjoint(names) and action.dest.startswith("option "),
        )


def short_settings() -> str:
    """An ini file with the options that matter most, commented out."""
    lines = [_SETTINGS_HEAD]
    by_name = {option.name: option for option in OPTIONS}
    for option in (by_name[name] for name in _MOST_USED if name in by_name):
        about = option.help[0].upper() + option.help[1:]
        lines += [*(f"# {line}" for line in wrap(f"{about} [{option.default_shown}]", 96))]
        lines += [f"#{option.name} =", ""]
    return "\n".join(lines)


# ── Manual page ───────────────────────────────────────────────────────────────────────────────────


def manual(version: str, date: str) -> str:
    """In the macros of man(7)."""
    parts = [
        f'.TH AUTOPUSH 1 "{date}" "autopush {version}" "User commands"',
        *(".SH NAME", r"autopush \- a Web Push service", ".SH SYNOPSIS"),
        *(r".B autopush", r"\fICOMMAND\fR [\fIOPTION\fR]... [\fIARGUMENT\fR]...", ".PP"),
        *(".B autoendpoint", r"[\fIOPTION\fR]...", ".PP", ".B autokey", ".PP"),
        *(".B endpoint_diagnostic", r"[\fIOPTION\fR]... \fIURL\fR", ".SH COMMANDS"),
    ]
    for command in COMMANDS:
        usage = make_parser(command).usage or ""
        parts += [
            ".TP",
            rf"\fB{_roff(usage)}\fR",
            _roff(command.summary[0].upper() + command.summary[1:] + "."),
        ]
        for flag in _flags(command):
            if not flag.is_setting and not flag.names[0].startswith(
                ("-h", "--version", "--config")
            ):
                parts += [".RS", *_entry(flag.names, flag.metavar, flag.help), ".RE"]
    parts += [".SH SETTINGS", "Flags of the service and of the commands that use its store."]
    for title, options in groupby(OPTIONS, key=lambda option: option.group):
        parts.append(f".SS {_roff(title)}")
        for option in options:
            names = [name for name in (option.short, option.flag) if name]
            metavar = option.value_type.metavar
            if option.value_type.is_flag:
                names, metavar = [*names, option.off_flag], ""
            about = (
                f"{option.help} [default: {option.default_shown}] [env: {', '.join(option.env)}]"
            )
            parts += _entry(tuple(names), metavar, about)
    parts += [
        *(".SH FILES", ".TP", ".I /etc/autopush/autopush.ini", "Settings of the package; see also"),
        r".IR /etc/autopush.toml .",
        *(".TP", ".I /var/lib/autopush", "The store and the keys."),
        *(".SH EXIT STATUS", "0: done. 2: wrong usage. 3: the start failed, which is one line."),
    ]
    return "\n".join(parts) + "\n"


def _entry(names: tuple[str, ...], metavar: str | None, about: str) -> list[str]:
    shown = ", ".join(rf"\fB{_roff(name)}\fR" for name in names)
    value = rf" \fI{_roff(metavar)}\fR" if metavar else ""
    return [".TP", shown + value, _roff(about) or r"\&"]


def _roff(text: str) -> str:
    text = text.replace("\\", r"\e").replace("-", r"\-")
    for char, name in (("…", "..."), ("“", '"'), ("”", '"'), ("·", r"\(pc")):
        text = text.replace(char, name)
    return rf"\&{text}" if text[:1] in (".", "'") else text


# ── Completion ────────────────────────────────────────────────────────────────────────────────────


def _completed(command: Command) -> Iterator[tuple[str, str]]:
    """The long flags of a command, with the first part of their help."""
    for flag in _flags(command):
        for name in flag.names:
            if name.startswith("--"):
                yield name, flag.help.partition(" [")[0].partition("; ")[0]


def bash() -> str:
    cases = "\n".join(
        f"    {command.name}) flags='{' '.join(name for name, _ in _completed(command))}' ;;"
        for command in COMMANDS
    )
    commands = " ".join(command.name for command in COMMANDS)
    return f"""\
_autopush() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} flags=
  if [ "$COMP_CWORD" = 1 ]; then
    mapfile -t COMPREPLY < <(compgen -W '{commands}' -- "$word")
    return
  fi
  case ${{COMP_WORDS[1]}} in
{cases}
  esac
  case $word in
    -*) mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$word") ;;
    *) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
  esac
}}
complete -o filenames -F _autopush autopush
"""


def zsh() -> str:
    def quoted(text: str) -> str:
        for char in ":[]":
            text = text.replace(char, rf"\{char}")
        return text.replace("'", "'\\''")

    names = "\n".join(f"  '{each.name}:{quoted(each.summary)}'" for each in COMMANDS)
    cases = "\n".join(
        f"  {command.name}) _arguments "
        + " ".join(f"'{name}[{quoted(about)}]'" for name, about in _completed(command))
        + " '*:file:_files' ;;"
        for command in COMMANDS
    )
    return f"""\
#compdef autopush
local -a commands=(
{names}
)
if (( CURRENT == 2 )); then
  _describe command commands
  return
fi
case $words[2] in
{cases}
esac
"""


def fish() -> str:
    def quoted(text: str) -> str:
        return "'" + text.replace("\\", r"\\").replace("'", r"\'") + "'"

    lines = []
    for command in COMMANDS:
        first = f"complete -c autopush -n __fish_use_subcommand -a {command.name}"
        lines.append(f"{first} -f -d {quoted(command.summary)}")
        seen = f"complete -c autopush -n '__fish_seen_subcommand_from {command.name}'"
        lines += [f"{seen} -l {name[2:]} -d {quoted(about)}" for name, about in _completed(command)]
    return "\n".join(lines) + "\n"
