"""Secrets: the tokens of Slack, and the files that the program makes for itself in the data folder.

Rule: a secret comes from the environment, or from a file that its owner alone can read. It is in no
setting, no error and no `repr`.
"""

import os
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

import msgspec

from channelstats.identifiers import is_token
from channelstats.settings import PREFIX, SettingError, Settings

_LONGEST_TOKEN_FILE: Final = 4096
_LONGEST_FILE: Final = 10_000


# ── Tokens of Slack ──────────────────────────────────────────────────────────────────────────────


class Purpose(StrEnum):
    """What a token is for. Where only one of the two is given, it serves for both."""

    READ = "read"
    POST = "post"

    @property
    def variable(self) -> str:
        return f"{PREFIX}{self.upper()}_TOKEN"

    @property
    def flag(self) -> str:
        return f"--{self}-token-file"


class Token(msgspec.Struct, frozen=True):
    """A token, and where it came from. ``purpose`` is the one it was given for."""

    text: str
    purpose: Purpose
    place: str

    def __repr__(self) -> str:
        return f"<token that {self.purpose}s, of {self.place}>"


def slack_token(purpose: Purpose, settings: Settings, environment: Mapping[str, str]) -> str:
    """The token for a purpose.

    :raises SettingError: there is none, or it cannot be used
    """
    token = find_token(purpose, settings, environment)
    if token is None:
        raise SettingError(
            f"there is no Slack token: put one into {purpose.variable}, or into a file that only "
            f"you can read and name it with {purpose.flag}"
        )
    return token.text


def find_token(
    purpose: Purpose, settings: Settings, environment: Mapping[str, str]
) -> Token | None:
    """The token for a purpose; None when neither is given.

    :raises SettingError: what is given cannot be used
    """
    for given_for in sorted(Purpose, key=lambda other: other is not purpose):
        place, text = given_for.variable, environment.get(given_for.variable, "").strip()
        if not text:
            place = getattr(settings, f"{given_for}_token_file")
            if not place:
                continue
            text = read_token_file(Path(place).expanduser())
        if not is_token(text):
            raise SettingError(f"{place}: expected a token alone, as in xoxb-… or xoxp-…")
        return Token(text, given_for, place)
    return None


def read_token_file(path: Path) -> str:
    """What a file holds that is its owner's alone.

    :raises SettingError: it cannot be read, or others can read it
    """
    try:
        with path.open("rb") as file:
            if not stat.S_ISREG(mode := os.fstat(file.fileno()).st_mode):
                raise SettingError(f"{path}: expected a file that holds a token")
            if mode & 0o077:
                raise SettingError(f"{path}: others can read this token; chmod 600 ends that")
            return file.read(_LONGEST_TOKEN_FILE).decode("ascii").strip()
    except UnicodeDecodeError:
        raise SettingError(f"{path}: expected a token alone, of ASCII characters") from None
    except OSError as error:
        raise SettingError(f"{path}: {error.strerror or 'cannot be read'}") from None


MAIL_PASSWORD: Final = f"{PREFIX}MAIL_PASSWORD"


def mail_password(settings: Settings, environment: Mapping[str, str]) -> str:
    """The password of the mail server's user.

    :raises SettingError: there is none, or it cannot be read
    """
    if given := environment.get(MAIL_PASSWORD, "").strip():
        return given
    if not settings.mail_password_file:
        raise SettingError(
            f"there is no password for the user of mail_server: put it into {MAIL_PASSWORD}, or "
            "into a file that only you can read and name it with --mail-password-file"
        )
    return read_token_file(Path(settings.mail_password_file).expanduser())


# ── Files in the data folder ─────────────────────────────────────────────────────────────────────


def read_or_create(path: Path, create: Callable[[], bytes]) -> bytes:
    """What a file holds. One that is missing is written, with mode 600, and never changes again.

    Rule: of several programs at once the first writes it; nobody reads half of one.

    :raises OSError: the folder cannot be written, or the file not be read
    """
    try:
        return _read(path)
    except FileNotFoundError:
        path.parent.mkdir(0o700, parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.") as file:  # of mode 600
        file.write(create())
        file.flush()
        os.fsync(file.fileno())
        with suppress(FileExistsError):  # the other one counts
            os.link(file.name, path)
    return _read(path)


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_LONGEST_FILE)
