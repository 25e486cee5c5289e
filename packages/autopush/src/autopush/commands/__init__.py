"""One-shot commands and their arguments; their modules are imported on use: `--help` is fast.

Rule: a run may be interrupted anywhere, and may run beside the service and other runs; the next one
completes what was left undone. What they do to the tables is in `autopush.store`.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Final, TypeAlias

from autopush.settings import Settings
from autopush.settings.declaration import DAEMONS, IniFile
from autopush.settings.value_types import whole_number
from autopush.webpush.identifiers import canonical_uaid

DAEMON_FILES: Final = {
    "serve": tuple(IniFile),
    "connection": (IniFile.SHARED, IniFile.CONNECTION),
    "endpoint": (IniFile.SHARED, IniFile.ENDPOINT),
}

Run: TypeAlias = Callable[[Settings, argparse.Namespace], int]


@dataclass(frozen=True, slots=True)
class Command:
    """A subcommand. Its flags: the options that name it, one for each ini file, and its own."""

    name: str
    summary: str
    run: Run
    """Returns the exit code; raises StartupError, with nothing changed, if it cannot begin."""
    files: tuple[IniFile, ...] = tuple(IniFile)
    add_arguments: Callable[[argparse.ArgumentParser], None] | None = None
    """Adds arguments and flags that are not settings."""
    usage: str = ""
    """Its positional arguments in usage lines, such as `UAID…`."""
    text_flags: tuple[str, ...] = ()
    """Its own flags whose values may begin with a dash."""
    of_commands: tuple[str, ...] = ()
    """Commands whose options it takes. It loads the settings itself; `run` gets the defaults."""


def _loaded(module: str, function: str) -> Run:
    """A `run` that imports its module when it is called."""

    def run(settings: Settings, arguments: argparse.Namespace) -> int:
        found: Run = getattr(import_module(f"autopush.commands.{module}"), function)
        return found(settings, arguments)

    return run


def _add_maintain_arguments(parser: argparse.ArgumentParser) -> None:
    group = _add_dry_run(parser)
    group.add_argument("--only", choices=("tables", "users"), help="do one of the two parts")
    _add_number(
        group, "--keep-months", 2, (2, 1200), "keep message tables of so many months, this included"
    )
    for way in ("read", "write"):
        about = f"{way} units left to a table of an older month, where tables are provisioned"
        _add_number(group, f"--idle-{way}", 5, (1, 1_000_000), about, "UNITS")
    _add_number(
        group,
        "--months-ago",
        2,
        (1, 1200),
        "drop user agents that connected last so many calendar months ago or earlier",
    )
    _add_number(group, "--up-to", 12, (1, 1200), "look back so many months for them")
    group.add_argument(
        "--hours-only",
        action="store_true",
        help="leave out records whose last_connect names the day; a thirtieth of the reads",
    )
    _add_rate(parser)


def _add_drop_user_arguments(parser: argparse.ArgumentParser) -> None:
    about = "a user agent: 32 hex digits, with or without dashes"
    parser.add_argument("uaids", nargs="+", type=_parse_uaid, metavar="UAID", help=about)
    _add_dry_run(parser)


def _add_delete_uaids_arguments(parser: argparse.ArgumentParser) -> None:
    about = "one UAID a line, # begins a comment; - reads standard input"
    parser.add_argument("file", metavar="FILE", help=about)
    _add_dry_run(parser)
    _add_rate(parser)


def _add_diagnose_arguments(parser: argparse.ArgumentParser) -> None:
    about = "an endpoint URL of this service; its host does not matter"
    parser.add_argument("url", metavar="URL", help=about)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _add_backup_arguments(parser: argparse.ArgumentParser) -> None:
    about = "where the backup is written, in a new folder named by date and time"
    parser.add_argument("folder", metavar="FOLDER", help=about)
    group = parser.add_argument_group("What to do")
    about = "then remove all backups in FOLDER but the newest N [default: keep all]"
    _add_number(group, "--keep", None, (1, 100_000), about)
    group.add_argument("--quiet", action="store_true", help="print nothing but errors")


def _add_restore_arguments(parser: argparse.ArgumentParser) -> None:
    about = "a backup: a folder that `autopush backup` has written"
    parser.add_argument("backup", metavar="BACKUP", help=about)
    group = parser.add_argument_group("What to do")
    about = "replace the store that there is now; it is kept in the data folder"
    group.add_argument("--force", action="store_true", help=about)


def _add_upgrade_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("What to do")
    about = "the main process of the service [default: the one that has the store open]"
    _add_number(group, "--pid", None, (2, 2**22), about, "PID")


def _add_check_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("What to do")
    about = "stop after so many seconds [default: read all of it]"
    _add_number(group, "--timeout", None, (1, 1_000_000), about, "SECONDS")
    group.add_argument("--json", action="store_true", help="print one JSON object")


def _add_store_arguments(parser: argparse.ArgumentParser) -> None:
    about = "copy: all that is in one store into another one, of any kind"
    parser.add_argument("action", choices=("copy",), metavar="copy", help=about)
    about = "URL of a store, as the option store has it"
    parser.add_argument("source", metavar="FROM", help=about)
    parser.add_argument("target", metavar="TO", help="URL of one that is empty, or missing")
    group = parser.add_argument_group("What to do")
    about = "copy beside the running service, until little differs; a run without it finishes"
    group.add_argument("--online", action="store_true", help=about)
    about = "replace what is in TO: it then holds what FROM holds, and nothing else"
    group.add_argument("--into-existing", action="store_true", help=about)
    group.add_argument("--quiet", action="store_true", help="print nothing but errors")


def _add_user_arguments(parser: argparse.ArgumentParser) -> None:
    about = (
        "add: a user, and print its token, which is shown this once and ends the WebSocket URL; "
        "list: all users; revoke: end a user's sessions, and admit it no more; quota: set "
        "--connections"
    )
    actions = ("add", "list", "revoke", "quota")
    parser.add_argument("action", choices=actions, metavar="add|list|revoke|quota", help=about)
    about = "of the user: 1 to 64 of A-Z a-z 0-9 . _ @ -"
    parser.add_argument("name", metavar="NAME", nargs="?", help=about)
    group = parser.add_argument_group("What to do")
    about = "connections that the user may have at once in a worker; 0 sets no limit [default: 0]"
    _add_number(group, "--connections", None, (0, 1_000_000), about)


def _add_send_arguments(parser: argparse.ArgumentParser) -> None:
    about = "the endpoint URL of a subscription, of any push service"
    parser.add_argument("endpoint", metavar="ENDPOINT", nargs="?", help=about)
    group = parser.add_argument_group("The message", "Without one, the push is empty.")
    message = group.add_mutually_exclusive_group()
    message.add_argument("--data", metavar="TEXT", help="the message")
    message.add_argument("--file", metavar="FILE", help="a file with it; - reads standard input")
    about = "seconds that it may be kept for a user agent that is not connected"
    _add_number(group, "--ttl", 60, (0, 2**31), about, "SECONDS")
    about = "replaces the message of this topic that still waits"
    group.add_argument("--topic", type=_parse_ascii, help=about)
    urgencies = ("very-low", "low", "normal", "high")
    group.add_argument("--urgency", choices=urgencies, help="how urgent it is")
    group = parser.add_argument_group("The subscription", "A message is encrypted with its keys.")
    about = "JSON of it, as JSON.stringify(subscription) gives; it may name the endpoint too"
    group.add_argument("--subscription", metavar="FILE", help=about)
    group.add_argument("--p256dh", metavar="KEY", help="its public key, base64url")
    group.add_argument("--auth", metavar="SECRET", help="its shared secret, base64url")
    group = parser.add_argument_group("The sender", "VAPID, which v2 endpoints require.")
    about = "private key: PEM, or 32 bytes in base64url"
    group.add_argument("--vapid-key", metavar="FILE", help=about)
    about = "contact of the sender: a mailto: or https: URL; some push services require it"
    group.add_argument("--vapid-sub", metavar="URL", type=_parse_ascii, help=about)


def _add_keys_arguments(parser: argparse.ArgumentParser) -> None:
    about = (
        "rotate: put a new key first; the old ones stay accepted. accept: let the service start "
        "with a store whose crypto_key is lost; its subscriptions stay lost"
    )
    actions = ("rotate", "accept")
    parser.add_argument("action", choices=actions, metavar="rotate|accept", help=about)
    names = ("crypto_key", "auth_key")
    about = "which key [default: crypto_key]"
    parser.add_argument("name", nargs="?", choices=names, default=names[0], help=about)
    group = _add_dry_run(parser)
    about = "put the new key last: nodes accept it, and use it after the next rotation"
    group.add_argument("--prepare", action="store_true", help=about)


def _add_doctor_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("What to check")
    about = "the command that is to run here [default: serve]"
    group.add_argument("--for", dest="daemon", choices=DAEMONS, help=about)
    group.add_argument("--json", action="store_true", help="print one JSON object")
    about = "ask providers of bridges for access tokens; nothing is sent to a device"
    group.add_argument("--live", action="store_true", help=about)


def _add_senders_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("What to ask")
    about = "the command that runs here [default: serve]"
    group.add_argument("--for", dest="daemon", choices=DAEMONS, help=about)


def _add_settings_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("What to print")
    about = "the command whose settings they are [default: serve]"
    group.add_argument("--for", dest="daemon", choices=DAEMONS, help=about)
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


def _add_dry_run(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    group = parser.add_argument_group("What to do")
    about = "change nothing; print what would be done"
    group.add_argument("--dry-run", action="store_true", help=about)
    return group


def _add_rate(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("How fast")
    about = "user agents to drop in a second at most; fewer while the store is busy"
    _add_number(group, "--rate", 100, (1, 1_000_000), about)
    _add_number(group, "--batch-size", 25, (1, 100), "user agents to drop at the same time")
    group.add_argument("--quiet", action="store_true", help="print nothing but errors")


def _add_number(
    group: argparse._ArgumentGroup,
    flag: str,
    default: int | None,
    bounds: tuple[int, int],
    about: str,
    metavar: str = "N",
) -> None:
    value_type = whole_number(*bounds)

    def parse(text: str) -> int:
        try:
            return int(str(value_type.parse(text)))
        except ValueError:
            raise argparse.ArgumentTypeError(f"expected {value_type.expected}") from None

    if default is not None:
        about = f"{about} [default: {default}]"
    group.add_argument(flag, type=parse, default=default, metavar=metavar, help=about)


def _parse_uaid(text: str) -> str:
    uaid = canonical_uaid(text)
    if uaid is None:
        raise argparse.ArgumentTypeError(
            f"expected 32 hex digits, with or without dashes, got {len(text)} characters"
        )
    return uaid


def _parse_ascii(text: str) -> str:
    if not text.isascii() or not text.isprintable():
        raise argparse.ArgumentTypeError("expected printable ASCII characters")
    return text


STORE_COMMANDS: Final = (
    Command(
        "maintain",
        "maintain the monthly tables, and drop user agents not seen for months",
        _loaded("maintain", "maintain"),
        add_arguments=_add_maintain_arguments,
    ),
    Command(
        "drop-user",
        "drop single user agents, and print what was on record about them",
        _loaded("maintain", "drop_user"),
        add_arguments=_add_drop_user_arguments,
        usage="UAID…",
    ),
    Command(
        "delete-uaids",
        "drop all user agents of a list",
        _loaded("maintain", "delete_uaids"),
        add_arguments=_add_delete_uaids_arguments,
        usage="FILE",
    ),
    Command(
        "diagnose",
        "print what is known of an endpoint, and why a push would not arrive; "
        "`endpoint_diagnostic` does so too",
        _loaded("diagnose", "diagnose"),
        add_arguments=_add_diagnose_arguments,
        usage="URL",
    ),
    Command(
        "backup",
        "copy the embedded store and the keys, also while the service runs",
        _loaded("backup", "back_up"),
        add_arguments=_add_backup_arguments,
        usage="FOLDER",
    ),
    Command(
        "restore",
        "put the store and the keys of a backup in place",
        _loaded("backup", "restore"),
        add_arguments=_add_restore_arguments,
        usage="BACKUP",
    ),
    Command(
        "store",
        "copy a store into one of another kind, also while the service runs",
        _loaded("copy_store", "copy"),
        add_arguments=_add_store_arguments,
        usage="copy FROM TO",
    ),
    Command(
        "user",
        "manage the users whose user agents alone may connect, with accounts_required",
        _loaded("accounts", "run"),
        add_arguments=_add_user_arguments,
        usage="add|list|revoke|quota [NAME]",
    ),
    Command(
        "upgrade",
        "replace the running service by the version installed now, without refusing a connection",
        _loaded("upgrade", "upgrade"),
        add_arguments=_add_upgrade_arguments,
    ),
    Command(
        "check",
        "read the whole store, and say what of it is damaged and what to do",
        _loaded("check", "check"),
        add_arguments=_add_check_arguments,
    ),
)

SHELL_COMMANDS: Final = (
    Command(
        "send",
        "send one push, signed and encrypted",
        _loaded("send", "send"),
        (),
        add_arguments=_add_send_arguments,
        usage="ENDPOINT",
        text_flags=("--data", "--topic", "--p256dh", "--auth"),
    ),
    Command(
        "keys",
        "rotate a key that is kept in the data folder, or go on after one was lost",
        _loaded("keys", "keys"),
        add_arguments=_add_keys_arguments,
        usage="rotate|accept [crypto_key|auth_key]",
    ),
)

SETTINGS_COMMANDS: Final = (
    Command(
        "settings",
        "print the settings that a command would have and where each comes from, or sample files",
        _loaded("show_settings", "show"),
        add_arguments=_add_settings_arguments,
        of_commands=DAEMONS,
    ),
    Command(
        "doctor",
        "check whether this machine offers what the service needs, and whether it is reached",
        _loaded("doctor", "run"),
        add_arguments=_add_doctor_arguments,
        of_commands=DAEMONS,
    ),
    Command(
        "senders",
        "print which senders go on sending to endpoints that are gone, as the running service says",
        _loaded("senders", "run"),
        add_arguments=_add_senders_arguments,
        of_commands=DAEMONS,
    ),
)
