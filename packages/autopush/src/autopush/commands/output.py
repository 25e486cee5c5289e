"""What a command says, and where: results on standard output, all else on standard error.

Rule: complaints are always said; results and progress are not when it is to be quiet.
"""

import sys

from autopush.commands.progress import Progress


class Output:
    """See the module."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet

    def say(self, text: str) -> None:
        """One line of the result."""
        if not self._quiet:
            print(text, flush=True)

    def progress(self, total: int) -> Progress | None:
        """A bar for so much work, unless it is to be quiet."""
        return None if self._quiet else Progress(total)


def complain(text: str) -> None:
    """One line about what went wrong."""
    print(f"autopush: {text}", file=sys.stderr, flush=True)
