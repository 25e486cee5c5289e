"""Tests of a stranger, in a folder of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from autopush.testing.control import VERBS
from support.page_examples import code_blocks, page
from support.paths import PYTHONPATH

OTHERS = """
import asyncio
import ssl
import urllib.request


async def test_a_coroutine_waits(push_service):
    subscription = push_service.subscribe()
    assert push_service.received == []
    push_service.answer(503)
    try:
        await subscription.anext(0.01)
    except TimeoutError as error:
        assert "nothing was sent" in str(error)


def test_tls_by_its_own_authority(push_service_tls):
    context = ssl.create_default_context(cafile=push_service_tls.ca)
    with urllib.request.urlopen(push_service_tls.url + "/status", context=context) as response:
        assert response.status == 200
"""


def run_pytest(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    plugins = ["-p", "pytest_autopush", "-p", "no:cacheprovider", "-W", "error"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugins, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": PYTHONPATH, "NO_PROXY": "*"},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )


@pytest.mark.slow
def test_the_example_of_the_page_and_others_pass_beside_each_other(tmp_path: Path) -> None:
    [example] = code_blocks(page("test-your-code"), "python")
    assert len(example.split("\n")) <= 12
    (tmp_path / "test_example.py").write_text(example)
    (tmp_path / "test_others.py").write_text(OTHERS)
    loops = ["asyncio_mode=auto", "asyncio_default_fixture_loop_scope=function"]
    done = run_pytest(tmp_path, "-n", "2", *(word for each in loops for word in ("-o", each)))
    assert "3 passed" in done.stdout, done.stdout + done.stderr
    left = {path.name for path in tmp_path.iterdir()} - {"__pycache__"}
    assert left == {"test_example.py", "test_others.py"}


@pytest.mark.parametrize("verb", VERBS)
def test_the_page_has_every_verb(verb: str) -> None:
    assert f"`{verb}`" in page("test-your-code")


def test_the_readme_has_the_example_of_the_page() -> None:
    readme = Path(__file__).parents[1] / "README.md"
    assert code_blocks(readme.read_text("utf-8"), "python") == code_blocks(
        page("test-your-code"), "python"
    )
