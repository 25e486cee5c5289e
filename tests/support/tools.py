"""Programs of this machine that tests need: browsers, databases, `ip`.

Where one is missing, its tests are skipped and say how to install it; where CI is `true` they
fail, so that no test is silently left out.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest


def need(name: str, install: str, *programs: str) -> str:
    """The path of the first of these programs that is there.

    :param install: the command that installs it
    :param programs: names or paths; without any, `name` is the program's name
    :raises pytest.skip.Exception: there is none (with CI=true: pytest.fail.Exception)
    """
    for program in programs or (name,):
        if found := shutil.which(program):
            return found
    return give_up(f"needs {name} ({install})")


def give_up(reason: str) -> NoReturn:
    """Skip the test; with CI=true let it fail."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def start_kept(
    command: Sequence[str], *, end: str = "kill -9 $!", **options: Any
) -> "subprocess.Popen[Any]":
    """A process that ends with this one, however this one ends. `options`: of `Popen`.

    A shell carries out `end` when its own input ends, and that ends with the process that holds it.
    """
    keeper = f'"$@" & read -r _; {end}; wait'
    words = ["/bin/sh", "-c", keeper, "keeper", *command]
    return subprocess.Popen(words, stdin=subprocess.PIPE, **options)


def end_kept(process: "subprocess.Popen[Any]") -> None:
    assert process.stdin is not None
    process.stdin.close()
    process.wait()


def run_captured(
    words: Sequence[str | Path], *, timeout: float = 60, **options: Any
) -> "subprocess.CompletedProcess[str]":
    """Run a program to its end, whatever its exit code. `options`: of `subprocess.run`."""
    return subprocess.run(
        words, capture_output=True, text=True, check=False, timeout=timeout, **options
    )
