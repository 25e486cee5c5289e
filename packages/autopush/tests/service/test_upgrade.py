"""The start of the next version, with small programs in its place."""

import json
import os
import select
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from autopush.service.upgrade import (
    INHERITED,
    PROGRAM,
    Predecessor,
    ServiceUpgrade,
    find_next_version,
    own_command,
)
from autopush.settings import StartupError

PATIENCE = 30.0
READY = f"""
import json, os, time
os.write(json.loads(os.environ["{INHERITED}"])["ready_pipe"], b"ready")
"""
HANGS = "import time; time.sleep(600)"
FAILS = "raise SystemExit(3)"


def begin(program: str, ready: list[int], timeout: float = PATIENCE) -> ServiceUpgrade:
    command = [sys.executable, "-c", program]
    upgrade = ServiceUpgrade([], ready.append, command=command, timeout=timeout)
    upgrade.begin(100.0)
    return upgrade


def test_the_one_file_is_started_as_it_is_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/cache/1f/bin/autopush", "serve", "--workers", "2"])
    monkeypatch.setattr(sys, "orig_argv", ["/cache/1f/bin/python3", "-I", *sys.argv])
    monkeypatch.setattr(sys, "executable", "/cache/1f/bin/python3")
    assert own_command({}) == [sys.executable, "-I", *sys.argv]
    assert own_command({PROGRAM: "/opt/autopush"}) == ["/opt/autopush", "serve", "--workers", "2"]


def wait_for(upgrade: ServiceUpgrade) -> None:
    assert upgrade.pipe is not None
    assert select.select([upgrade.pipe], [], [], PATIENCE)[0]


def test_a_version_that_is_ready_takes_over() -> None:
    ready: list[int] = []
    upgrade = begin(READY, ready)
    assert upgrade.due == 100.0 + PATIENCE
    wait_for(upgrade)
    assert upgrade.conclude()
    assert len(ready) == 1
    assert upgrade.pipe is None
    assert not upgrade.conclude()
    upgrade.close()
    os.waitpid(ready[0], 0)


def ready_then(program: str, failures: list[str]) -> tuple[ServiceUpgrade, int]:
    """An upgrade to a version that is ready, and its process id."""
    ready: list[int] = []
    upgrade = ServiceUpgrade(
        [],
        ready.append,
        lambda: failures.append("failed"),
        command=[sys.executable, "-c", READY + program],
    )
    upgrade.begin(100.0)
    wait_for(upgrade)
    assert upgrade.conclude()
    return upgrade, ready[0]


def test_a_version_that_fails_after_it_was_ready_leaves_this_one_serving(
    end_logs: Callable[[], str],
) -> None:
    failures: list[str] = []
    upgrade, pid = ready_then(HANGS, failures)
    assert upgrade.successor is not None
    assert not select.select([upgrade.successor], [], [], 0)[0]
    os.kill(pid, signal.SIGKILL)
    assert select.select([upgrade.successor], [], [], PATIENCE)[0]
    assert upgrade.take_back()
    assert failures == ["failed"]
    upgrade.begin(200.0)  # another may be tried
    assert upgrade.pipe is not None
    upgrade.close()
    assert f'"next_pid":{pid}' in (logged := end_logs())
    assert "signal SIGKILL" in logged


def test_a_version_that_was_stopped_after_it_was_ready_stops_the_service() -> None:
    failures: list[str] = []
    upgrade, _ = ready_then("", failures)
    assert upgrade.successor is not None
    assert select.select([upgrade.successor], [], [], PATIENCE)[0]
    assert not upgrade.take_back()
    assert failures == []
    upgrade.close()


@pytest.mark.parametrize(
    ("program", "cause"), [(HANGS, "not ready after 0 s"), (FAILS, "exit code 3")]
)
def test_a_version_that_does_not_get_ready_is_ended_and_another_may_be_tried(
    end_logs: Callable[[], str], program: str, cause: str
) -> None:
    ready: list[int] = []
    upgrade = begin(program, ready, timeout=0.0)
    following = find_next_version(os.getpid())
    if program is FAILS:
        wait_for(upgrade)
    assert not upgrade.conclude()
    if following is not None:  # it had not failed yet
        assert following.is_decided
        assert not following.runs
    upgrade.begin(200.0)
    assert upgrade.pipe is not None
    upgrade.cancel()
    assert ready == []
    assert cause in end_logs()


def test_only_one_version_starts_at_a_time(end_logs: Callable[[], str]) -> None:
    upgrade = begin(HANGS, [])
    pipe = upgrade.pipe
    upgrade.begin(101.0)
    assert (upgrade.pipe, upgrade.due) == (pipe, 100.0 + PATIENCE)
    upgrade.cancel()
    assert "under way already" in end_logs()


def test_a_program_that_is_gone_leaves_this_version_serving(
    end_logs: Callable[[], str], tmp_path: Path
) -> None:
    upgrade = ServiceUpgrade([], lambda _: None, command=[str(tmp_path / "gone")])
    upgrade.begin(100.0)
    assert upgrade.pipe is None
    assert "cannot be started" in end_logs()


def test_the_sockets_of_a_predecessor_are_used_and_its_variable_is_removed() -> None:
    reader, writer = os.pipe()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        place = listening.getsockname()
        inherited = {
            "pid": 1,
            "reading_end": 0,
            "ready_pipe": writer,
            "listeners": [{"websocket": os.dup(listening.fileno())}],
        }
        environment = {INHERITED: json.dumps(inherited)}
        predecessor = Predecessor(environment)
    assert environment == {}
    assert [each["websocket"].getsockname() for each in predecessor.listeners] == [place]
    predecessor.close_unused([])
    assert predecessor.listeners[0]["websocket"].fileno() == -1
    predecessor.report_ready()
    predecessor.report_ready()  # once only
    assert os.read(reader, 100) == b"ready"
    os.close(reader)


@pytest.mark.parametrize(
    "text", ["", "{}", '{"pid":1,"reading_end":0,"ready_pipe":9999,"listeners":[]}']
)
def test_a_malformed_inheritance_stops_the_start(text: str) -> None:
    with pytest.raises(StartupError, match=INHERITED):
        Predecessor({INHERITED: text})
