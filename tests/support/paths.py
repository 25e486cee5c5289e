"""Where things are in the repository."""

import os
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
TOOLS: Final = Path(os.environ.get("TOOLS") or ROOT / ".tools")
"""What `make tools` has set up; `TOOLS` names another folder."""
TESTS: Final = ROOT / "tests"
PACKAGES: Final = ROOT / "packages"
PYTHONPATH: Final = os.pathsep.join(map(str, [*sorted(PACKAGES.glob("*/src")), TESTS]))
"""For processes that tests start: the packages, and `support`."""
