"""What the service costs, as ratios to a floor measured in the same run: `make bench`."""

import sys
from pathlib import Path

# One measure starts a PostgreSQL with what the tests start one with.
sys.path.append(str(Path(__file__).parent.parent / "tests"))
