"""`python -m channelstats` is the command line.

Rule: nothing else is here.
"""

import sys

from channelstats.cli import main

if __name__ == "__main__":
    sys.exit(main())
