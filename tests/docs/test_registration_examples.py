"""The examples of the registration API work as printed."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from support.paths import ROOT
from support.service import running_service

PAGE = (ROOT / "docs" / "bridges.md").read_text("utf-8")
SECTION = PAGE.partition("\n## Registration API\n")[2].partition("\n## ")[0]
PORT_OF_THE_PAGE = "http://127.0.0.1:8080"


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_commands_of_the_page_work_against_the_stub_router(tmp_path: Path) -> None:
    (script,) = re.findall(r"^```sh\n(.*?)^```$", SECTION, re.DOTALL | re.MULTILINE)
    assert PORT_OF_THE_PAGE in script
    with running_service(tmp_path / "data", AUTOPUSH_STUB_ROUTER="true") as running:
        done = subprocess.run(
            ["bash", "-eu", "-c", script.replace(PORT_OF_THE_PAGE, running.endpoint)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    pushed, updated, subscribed, listed, *deleted = map(json.loads, done.stdout.splitlines())
    registered = json.loads((tmp_path / "registration.json").read_text())
    assert pushed.keys() == {"message-id"}
    assert updated == {}
    assert listed["uaid"] == registered["uaid"]
    channels = {registered["channelID"], subscribed["channelID"]}
    assert set(listed["channelIDs"]) == channels
    assert deleted == [{}, {}]
