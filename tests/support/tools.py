"""Programs of this machine that tests stand on, browsers above all.

Rule: where one is missing, its tests are skipped and say how to install it; where CI is `true` they
fail, so that nothing goes unproved in silence.
"""

import os
import shutil
from collections.abc import Iterable

import pytest


def need(program: str, install: str, *, also: Iterable[str] = ()) -> str:
    """The path of a program, or of one that serves as well; `install` is the command for it.

    :raises pytest.skip.Exception: there is none (with CI=true: pytest.fail.Exception)
    """
    for name in (program, *also):
        if found := shutil.which(name):
            return found
    reason = f"needs {program}: {install}"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
