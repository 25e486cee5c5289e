"""Where the program begins: `channelstats`, and `python -m channelstats`.

Rule: Ctrl-C is one line from the first moment on, so nothing of ours is imported before that.
"""

import sys
from typing import Final

INTERRUPTED: Final = 130
"""The exit code."""


def main() -> int:
    """The command line; see `channelstats.cli`."""
    try:
        from channelstats import cli  # noqa: PLC0415 - see above

        return cli.main()
    except KeyboardInterrupt:
        print("channelstats: interrupted; run it again to go on", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
