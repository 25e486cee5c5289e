"""Each distribution works when it is installed by itself, with what it requires and no more."""

import os
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from support.paths import PACKAGES, ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

COMMANDS = {
    "keytables": {},
    "autopush": {
        "autopush": ["serve", "connection", "endpoint", "maintain", "diagnose", "send", "keys"],
        "autoendpoint": [],
        "autokey": [],
        "endpoint_diagnostic": [],
    },
    "channelstats": {"channelstats": ["import-export", "report", "serve", "demo"]},
}
"""By package, the commands it installs and their subcommands."""

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel of each package, built from its folder."""
    folder = tmp_path_factory.mktemp("wheels")
    found = {}
    for package in COMMANDS:
        out = folder / package
        pip(
            sys.executable,
            "wheel",
            "--no-deps",
            "--no-build-isolation",
            "-w",
            out,
            PACKAGES / package,
        )
        (found[package],) = out.glob("*.whl")
    return found


def pip(python: str | Path, *words: str | Path) -> None:
    subprocess.run(
        [python, "-m", "pip", "--disable-pip-version-check", "--quiet", *words],
        check=True,
        timeout=300,
    )


@pytest.fixture(params=COMMANDS)
def installed(
    request: pytest.FixtureRequest, wheels: dict[str, Path], tmp_path: Path
) -> tuple[str, Run]:
    """A package in an environment of its own, and how to run a program there."""
    package: str = request.param
    venv.create(tmp_path / "venv", with_pip=True)
    programs = tmp_path / "venv" / "bin"
    pinned = ROOT / "requirements" / f"{package}.txt"
    pip(programs / "python", "install", "--require-hashes", "-r", pinned)
    needed = [wheels["keytables"]] if package != "keytables" else []
    pip(programs / "python", "install", "--no-index", *needed, wheels[package])
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(program: str, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [programs / program, *words],
            env={**environment, "HOME": str(tmp_path)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return package, run


def test_what_a_distribution_installs_runs_and_says_what_is_missing(
    installed: tuple[str, Run],
) -> None:
    package, run = installed
    assert run("python", "-m", "pip", "check").returncode == 0
    for program, subcommands in COMMANDS[package].items():
        for words in [["--help"], *([name, "--help"] for name in subcommands)]:
            done = run(program, *words)
            assert (done.returncode, done.stderr) == (0, ""), (program, words)
            assert done.stdout.startswith("usage:"), (program, words)
    for library in ("botocore", "h2", "httpx"):
        assert run("python", "-c", f"import {library}").returncode != 0
    refused = run(
        "python",
        "-c",
        "import asyncio, time, keytables.stores as stores\n"
        "asyncio.run(stores.open_engine('dynamodb://eu-west-1', clock=time.time))",
    )
    assert "keytables[dynamodb]" in refused.stderr


def test_a_wheel_holds_its_own_package_only(wheels: dict[str, Path]) -> None:
    for package, wheel in wheels.items():
        with zipfile.ZipFile(wheel) as names:
            tops = {name.split("/")[0] for name in names.namelist()}
        assert {top for top in tops if not top.endswith(".dist-info")} == {package}
