"""The tokens of Slack: one that reads the workspace, one that posts to it.

Rule: a token comes from the environment, or from a file that its owner alone can read. It is in no
setting, no error and no `repr`.

Where only one of the two is given it serves for both.
"""

import os
import re
import stat
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final

from channelstats.settings import PREFIX, SettingError, Settings

_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,1000}")
_LONGEST_FILE: Final = 4096


class Purpose(StrEnum):
    READ = "read"
    POST = "post"

    @property
    def variable(self) -> str:
        return f"{PREFIX}{self.upper()}_TOKEN"

    @property
    def setting(self) -> str:
        return f"{self}_token_file"

    @property
    def flag(self) -> str:
        return f"--{self}-token-file"

    @property
    def other(self) -> "Purpose":
        return Purpose.POST if self is Purpose.READ else Purpose.READ


class Token:
    """A token, and where it came from. ``purpose`` is the one it was given for."""

    __slots__ = ("place", "purpose", "text")

    def __init__(self, text: str, purpose: Purpose, place: str) -> None:
        self.text, self.purpose, self.place = text, purpose, place

    def __repr__(self) -> str:
        return f"<token that {self.purpose}s, of {self.place}>"


def read_token(settings: Settings, environment: Mapping[str, str]) -> str:
    """The token that reads users, channels and messages.

    :raises SettingError: there is none, or it cannot be used
    """
    return _needed(Purpose.READ, settings, environment)


def post_token(settings: Settings, environment: Mapping[str, str]) -> str:
    """The token that posts reports.

    :raises SettingError: there is none, or it cannot be used
    """
    return _needed(Purpose.POST, settings, environment)


def find(purpose: Purpose, settings: Settings, environment: Mapping[str, str]) -> Token | None:
    """The token for a purpose; None when neither is given.

    :raises SettingError: what is given cannot be used
    """
    for given_for in (purpose, purpose.other):
        found = _given(given_for, settings, environment)
        if found is not None:
            return found
    return None


def _needed(purpose: Purpose, settings: Settings, environment: Mapping[str, str]) -> str:
    found = find(purpose, settings, environment)
    if found is None:
        raise SettingError(
            f"there is no token of Slack: put one into {purpose.variable}, or into a file that is "
            f"yours alone and name it with {purpose.flag}"
        )
    return found.text


def _given(purpose: Purpose, settings: Settings, environment: Mapping[str, str]) -> Token | None:
    place, text = purpose.variable, environment.get(purpose.variable, "").strip()
    if not text:
        place = getattr(settings, purpose.setting)
        if not place:
            return None
        text = _of_file(Path(place).expanduser())
    if not _TOKEN.fullmatch(text):
        raise SettingError(f"{place}: expected a token alone, as in xoxb-… or xoxp-…")
    return Token(text, purpose, place)


def _of_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            if not stat.S_ISREG(mode := os.fstat(file.fileno()).st_mode):
                raise SettingError(f"{path}: expected a file that holds a token")
            if mode & 0o077:
                raise SettingError(
                    f"{path}: others can read this token; make it yours alone with chmod 600"
                )
            return file.read(_LONGEST_FILE).decode("ascii").strip()
    except UnicodeDecodeError:
        raise SettingError(f"{path}: expected a token alone, as in xoxb-… or xoxp-…") from None
    except OSError as error:
        raise SettingError(f"{path}: {error.strerror or 'cannot be read'}") from None
