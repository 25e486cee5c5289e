"""The steps that build the image, run in a folder in place of a container."""

import fnmatch
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support.dockerfile import instructions
from support.paths import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

EXTRAS = "import botocore, google.auth, h2, httpx, OpenSSL, sentry_sdk"


def ignored(folder: str, names: list[str]) -> set[str]:
    """Those that .dockerignore leaves out, of what a kept folder has."""
    patterns = [
        line.removeprefix("**/")
        for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines()
        if line.startswith("**/")
    ]
    return {name for name in names if any(fnmatch.fnmatch(name, each) for each in patterns)}


def test_the_first_stage_installs_a_service_with_all_its_extras(tmp_path: Path) -> None:
    def inside(path: str) -> Path:
        return tmp_path / path.lstrip("/")

    second_stage = [word for word, _ in instructions()].index("LABEL")
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    for word, rest in instructions()[:second_stage]:
        if word == "COPY":
            *sources, target = rest.split()
            for source in sources:
                if (ROOT / source).is_dir():
                    shutil.copytree(ROOT / source, inside(target), ignore=ignored)
                else:
                    inside(target).mkdir(parents=True)
                    shutil.copy(ROOT / source, inside(target))
        elif word == "RUN":
            for root in ("/opt/autopush", "/src"):
                rest = rest.replace(root, str(inside(root)))
            subprocess.run(["bash", "-ec", rest], check=True, env=environment, timeout=600)
    programs = inside("/opt/autopush/bin")
    assert not [*inside("/src").rglob("tests")]

    def run(*words: str | Path) -> str:
        ended = subprocess.run(
            words,
            capture_output=True,
            text=True,
            env=environment,
            cwd=tmp_path,
            timeout=60,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    run(programs / "python", "-c", EXTRAS)
    assert run(programs / "autopush", "--version").startswith("autopush 2.")
    assert run(programs / "autokey").startswith("Key = ")
    assert "/data" in run(programs / "autopush", "settings", "--data", "/data")
