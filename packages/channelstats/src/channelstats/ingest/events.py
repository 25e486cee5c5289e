"""What a run that takes in messages reports while it goes on: how far it is, and what went wrong.

Rule: an event names channels, files, methods and numbers; never what somebody wrote, never a token.
"""

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from channelstats.slack.export import Problem

__all__ = ["Event", "OnEvent", "Problem", "StepProgress", "ignore_event"]


class StepProgress(msgspec.Struct, frozen=True):
    """``done`` of ``total`` are done of a ``step`` (0: not known of how many). The import of an
    export counts bytes, all else counts what the step is named after. ``channel``: the one at hand,
    "" at the beginning of a step; ``messages`` of this run so far.
    """

    step: str
    done: int
    total: int = 0
    channel: str = ""
    messages: int = 0


Event: TypeAlias = StepProgress | Problem
OnEvent: TypeAlias = Callable[[Event], object]
"""Is given every event at once; it may raise to end the run."""


def ignore_event(_: Event) -> None:
    """For whoever wants the result alone."""
