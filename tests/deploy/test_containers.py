"""The image, without an engine: what its first stage installs is run."""

import fnmatch
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.paths import ROOT
from support.tools import run_captured

DEPLOY = ROOT / "deploy"


def instructions() -> list[tuple[str, str]]:
    """Those of the Dockerfile: the word, and the rest with continued lines joined."""
    text = (DEPLOY / "Dockerfile").read_text("utf-8")
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    found = [line.partition(" ") for line in text.splitlines() if line.strip()]
    return [(word, rest.strip()) for word, _, rest in found]


EXTRAS = "import botocore, google.auth, h2, OpenSSL, sentry_sdk"


def left_out(folder: str, names: list[str]) -> set[str]:
    """Those that .dockerignore leaves out, of what a kept folder has."""
    patterns = [
        line.removeprefix("**/")
        for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines()
        if line.startswith("**/")
    ]
    return {name for name in names if any(fnmatch.fnmatch(name, each) for each in patterns)}


@pytest.mark.slow
@pytest.mark.timeout(900)
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
                    shutil.copytree(ROOT / source, inside(target), ignore=left_out)
                else:
                    inside(target).mkdir(parents=True)
                    shutil.copy(ROOT / source, inside(target))
        elif word == "RUN":
            for root in ("/opt/autopush", "/src"):
                rest = rest.replace(root, str(inside(root)))
            # The pip of the environment of the tests, as new as that of the image's Python, and its
            # cache: the index was read and the wheels were loaded when that was set up.
            own = f"{sys.executable} -m pip --python {inside('/opt/autopush')}"
            rest = rest.replace(str(inside("/opt/autopush/bin/pip")), own)
            rest = rest.replace(" --no-cache-dir", " --no-compile")
            subprocess.run(["bash", "-ec", rest], check=True, env=environment, timeout=600)
    programs = inside("/opt/autopush/bin")
    assert not [*inside("/src").rglob("tests")]

    def run(*words: str | Path) -> str:
        ended = run_captured(words, env=environment, cwd=tmp_path)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    run(programs / "python", "-c", EXTRAS)
    assert run(programs / "autopush", "--version").startswith("autopush 2.")
    assert run(programs / "autokey").startswith("Key = ")
    assert "/data" in run(programs / "autopush", "settings", "--data", "/data")
