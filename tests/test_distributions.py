"""Each distribution is built, and installed by the lines of the documentation.

Offline, an environment holds the libraries of the one that runs the tests, but none of the
packages; `make slow` begins with an empty environment, and uses the package index.
"""

import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cases import cases
from support.paths import PACKAGES, ROOT
from support.tools import run_captured

pytestmark = pytest.mark.timeout(600)

NAMES = {
    "keytables": "keytables",
    "autopush": "autopush-server",
    "channelstats": "channelstats",
    "pytest-autopush": "pytest-autopush",
}
"""Names of the distributions, by folder."""

COMMANDS = {
    "autopush": [
        "serve",
        "connection",
        "endpoint",
        "maintain",
        "diagnose",
        "send",
        "keys",
        "test-service",
    ],
    "autoendpoint": [],
    "autokey": [],
    "endpoint_diagnostic": [],
    "channelstats": ["import-export", "report", "serve", "demo"],
}
"""By program, its subcommands."""

EACH_HELP = """
import sys
from contextlib import suppress
from importlib.metadata import entry_points
program, *subcommands = sys.argv[1:]
[main] = entry_points(group="console_scripts", name=program)
for name in subcommands:
    sys.argv = [program, name, "--help"]
    with suppress(SystemExit):
        main.load()()
"""
"""The help of each subcommand, in one process."""

ELSEWHERE = {
    "pip install ./autopush-webhook",  # tests/docs/test_third_party_router.py
    "pip install --upgrade apsw",
}
OURS = ("keytables", "autopush", "channelstats", "pytest_autopush")


def install_lines() -> Iterator[str]:
    pages = [ROOT / "README.md", *PACKAGES.glob("*/README.md"), *(ROOT / "docs").rglob("*.md")]
    for page in pages:
        text = " ".join(page.read_text("utf-8").split())
        for found in re.finditer(r"pip install [^`$]+", text):
            yield found[0].split(" autopush serve")[0].strip()


LINES = sorted(set(install_lines()) - ELSEWHERE)
FROM_CHECKOUT = [line for line in LINES if "packages/" in line]
FROM_INDEX = [line for line in LINES if "packages/" not in line]


class Environment:
    """A virtual environment in which a line of the documentation installs packages."""

    def __init__(self, folder: Path, *, offline: bool) -> None:
        self.folder = folder
        self._offline = offline
        venv.create(folder)
        self.programs = folder / "bin"
        if offline:
            [target] = folder.glob("lib/python*/site-packages")
            for library in Path(sysconfig.get_path("purelib")).iterdir():
                name = library.name.lower().lstrip("_")
                if not name.startswith((*OURS, "editable_impl", "pycache", "distutils")):
                    (target / library.name).symlink_to(library)

    def pip(self, *words: str) -> "subprocess.CompletedProcess[str]":
        offline = ["--no-index", "--no-build-isolation"] if self._offline else []
        # Most of what is installed is never imported, and would be compiled all the same.
        return self._run_pip("install", "-q", "--no-compile", *offline, *words)

    def _run_pip(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """That of the environment of the tests, on this one: to install another takes seconds."""
        pip = ["-m", "pip", "--python", str(self.programs / "python")]
        return self._run(sys.executable, *pip, *words, folder=ROOT)

    def run(self, program: str, *words: str) -> "subprocess.CompletedProcess[str]":
        return self._run(self.programs / program, *words, folder=self.folder)

    def _run(
        self, program: str | Path, *words: str, folder: Path
    ) -> "subprocess.CompletedProcess[str]":
        kept = {
            name: value
            for name, value in os.environ.items()
            if name not in {"PYTHONPATH", "VIRTUAL_ENV"} and not name.startswith("AWS_")
        }
        of_here = {"HOME": str(self.folder), "AWS_EC2_METADATA_DISABLED": "true"}
        return run_captured(
            [program, *words],
            # What was loaded for the environment of the tests is not loaded again.
            env={"XDG_CACHE_HOME": str(Path.home() / ".cache"), **kept, **of_here},
            cwd=folder,
            timeout=300,
        )

    def check_commands(self) -> None:
        """What was installed fits together, and every program prints its help."""
        assert self._run_pip("check").stdout == "No broken requirements found.\n"
        installed = [program for program in COMMANDS if (self.programs / program).exists()]
        for program in installed:
            done = self.run(program, "--help")
            assert (done.returncode, done.stderr) == (0, ""), program
            assert done.stdout.startswith("usage:"), program
            # A subcommand imports what it needs: here nothing can be missing if it is offline.
            if COMMANDS[program] and not self._offline:
                done = self.run("python", "-c", EACH_HELP, program, *COMMANDS[program])
                assert (done.returncode, done.stderr) == (0, ""), program
                for name in COMMANDS[program]:
                    assert f"usage: {program} {name} " in done.stdout, (program, name)
        done = self.run("python", "-c", "import keytables")
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the sdist of each package, and the wheel that is built from that."""
    folder = tmp_path_factory.mktemp("dist")
    for package in NAMES:
        done = run_captured(
            [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, package],
            cwd=PACKAGES,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.slow
def test_sdists_and_wheels_hold_their_own_package_and_the_licence(dist: Path) -> None:
    licence = (ROOT / "LICENSE").read_bytes()
    for package, name in NAMES.items():
        stem = name.replace("-", "_")
        [wheel] = dist.glob(f"{stem}-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            tops = {path.split("/")[0] for path in archive.namelist()}
            own = package.replace("-", "_")
            assert {top for top in tops if not top.endswith(".dist-info")} == {own}
            [path] = [path for path in archive.namelist() if path.endswith("/LICENSE")]
            assert archive.read(path) == licence
        [sdist] = dist.glob(f"{stem}-*.tar.gz")
        with tarfile.open(sdist) as archive_:
            files = {path.partition("/")[2]: path for path in archive_.getnames()}
            assert {"LICENSE", "README.md", "pyproject.toml"} <= files.keys()
            file = archive_.extractfile(files["LICENSE"])
            assert file is not None
            assert file.read() == licence


def test_every_place_that_installs_names_packages_of_ours() -> None:
    named = {word for line in LINES for word in re.findall(r"[a-z][a-z-]{5,}", line)}
    assert set(NAMES.values()) <= named


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with all libraries and none of the packages."""
    return Environment(tmp_path_factory.mktemp("venv"), offline=True)


@cases("line", FROM_CHECKOUT)
def test_a_line_for_a_checkout_names_the_base_layer_too(line: str) -> None:
    folders = {word.partition("[")[0] for word in shlex.split(line)[2:]}
    assert "packages/keytables" in folders


@pytest.mark.slow
def test_what_the_lines_for_a_checkout_name_can_be_installed_from_there(
    libraries: Environment,
) -> None:
    words = {word for line in FROM_CHECKOUT for word in shlex.split(line)[2:]}
    done = libraries.pip("--dry-run", *sorted(words))
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_package_alone_does_not_find_the_base_layer(libraries: Environment) -> None:
    done = libraries.pip("--dry-run", "packages/autopush")
    assert "No matching distribution found for keytables" in done.stderr


@pytest.mark.slow
def test_the_lines_for_an_index_install_what_a_release_builds(dist: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "venv", offline=True)
    names = [name for line in FROM_INDEX for name in shlex.split(line)[2:]]
    done = environment.pip("--find-links", str(dist), *names)
    assert done.returncode == 0, done.stderr
    environment.check_commands()


@pytest.mark.slow
def test_the_lines_for_a_checkout_install_with_the_package_index(tmp_path: Path) -> None:
    environment = Environment(tmp_path / "venv", offline=False)
    # Together, so that each package is built once; each line names the base layer, see above.
    words = {word for line in FROM_CHECKOUT for word in shlex.split(line)[2:]}
    done = environment.pip(*sorted(words))
    assert done.returncode == 0, done.stderr
    environment.check_commands()


@pytest.mark.slow
@pytest.mark.parametrize("package", NAMES)
def test_the_pinned_versions_suffice_and_bring_no_extra(
    package: str, dist: Path, tmp_path: Path
) -> None:
    environment = Environment(tmp_path / "venv", offline=False)
    pinned = ROOT / "requirements" / f"{package}.txt"
    done = environment.pip("--require-hashes", "-r", str(pinned))
    assert done.returncode == 0, done.stderr
    done = environment.pip("--no-index", "--find-links", str(dist), NAMES[package])
    assert done.returncode == 0, done.stderr
    environment.check_commands()
    for library in ("botocore", "h2"):
        assert environment.run("python", "-c", f"import {library}").returncode != 0
    refused = environment.run(
        "python",
        "-c",
        "import asyncio, time, keytables.stores as stores\n"
        "asyncio.run(stores.open_engine('dynamodb://eu-west-1', clock=time.time))",
    )
    assert "keytables[dynamodb]" in refused.stderr
