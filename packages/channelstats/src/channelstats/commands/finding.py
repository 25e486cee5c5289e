"""What a check of `channelstats doctor` found.

Rule: a finding is one line; it says what is so, and where something is wrong, what to do about it.
"""

from enum import StrEnum

import msgspec


class Level(StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class Finding(msgspec.Struct, frozen=True):
    level: Level
    about: str
    text: str

    def __str__(self) -> str:
        return f"{self.level:<8} {self.about}: {self.text}"


def ok(about: str, text: str) -> Finding:
    return Finding(Level.OK, about, text)


def warning(about: str, text: str) -> Finding:
    return Finding(Level.WARNING, about, text)


def problem(about: str, text: str) -> Finding:
    return Finding(Level.PROBLEM, about, text)
