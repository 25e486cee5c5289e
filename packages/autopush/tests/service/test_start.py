"""The order of a start, and what it says."""

import os
from pathlib import Path

import pytest

from autopush import service
from autopush.keys import ServiceKeys
from autopush.service import announce, announce_keys
from autopush.settings import Settings, StartupError
from autopush.telemetry import logs

KEYS = ServiceKeys(("k",), ())


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The steps of starts that fail when the store is looked at, in order."""
    taken: list[str] = []

    def step(name: str, answer: object = None) -> None:
        def take(*_: object, **__: object) -> object:
            taken.append(name)
            return answer

        monkeypatch.setattr(service, name, take)

    async def check_store(*_: object) -> None:
        taken.append("check_store")
        raise StartupError("no store")

    step("prepare")
    step("service_keys", KEYS)
    step("bind", (Settings(), []))
    step("run_worker", 0)
    step("supervise", 0)
    monkeypatch.setattr(service, "check_store", check_store)
    return taken


@pytest.mark.parametrize("workers", [1, 2])
def test_folder_keys_ports_and_store_are_looked_at_before_any_worker_starts(
    steps: list[str], workers: int
) -> None:
    with pytest.raises(StartupError, match="no store"):
        service.run(Settings(workers=workers))
    assert steps == ["prepare", "service_keys", "bind", "check_store"]


def test_a_folder_that_nothing_is_kept_in_is_left_alone(steps: list[str]) -> None:
    with pytest.raises(StartupError):
        service.run(Settings(command="connection", store="dynamodb://", crypto_key=("k",)))
    assert "prepare" not in steps


@pytest.mark.parametrize("no_aws", [False, True])
def test_no_aws_keeps_the_whole_process_from_asking_the_machines_metadata_address(
    steps: list[str], monkeypatch: pytest.MonkeyPatch, no_aws: bool
) -> None:
    monkeypatch.setattr(os, "environ", {})
    with pytest.raises(StartupError):
        service.run(Settings(no_aws=no_aws))
    assert os.environ == ({"AWS_EC2_METADATA_DISABLED": "true"} if no_aws else {})


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        (
            Settings(data=Path("/d")),
            (
                "autopush ready: start page http://127.0.0.1:8082/ "
                "· WebSocket ws://127.0.0.1:8080/ · node API 127.0.0.1:8081 · data /d"
            ),
        ),
        (
            Settings(data=Path("/d"), store="dynamodb://eu-west-1", workers=3),
            (
                "autopush ready: start page http://127.0.0.1:8082/ "
                "· WebSocket ws://127.0.0.1:8080/ · node API 127.0.0.1:8081 "
                "· store dynamodb://eu-west-1 workers=3"
            ),
        ),
        (
            Settings(data=Path("/d"), command="connection", router_hostname="node1"),
            (
                "autopush connection ready: WebSocket ws://127.0.0.1:8080/ · node API node1:8081 "
                "· store /d/autopush.sqlite"
            ),
        ),
        (
            Settings(
                command="endpoint",
                host="::1",
                port=9000,
                endpoint_url="https://push.example",
                aws_ddb_endpoint="http://127.0.0.1:8000",
            ),
            (
                "autopush endpoint ready: start page https://push.example/ · HTTP [::1]:9000 "
                "· store dynamodb://?endpoint=http://127.0.0.1:8000"
            ),
        ),
    ],
)
def test_the_ready_line_says_what_is_served(
    capsys: pytest.CaptureFixture[str], settings: Settings, line: str
) -> None:
    announce(settings)
    assert capsys.readouterr().out == f"{line}\n"


@pytest.mark.parametrize(
    ("settings", "warned"),
    [
        (Settings(), False),
        (Settings(command="connection"), True),
        (Settings(command="endpoint"), True),
        (Settings(store="dynamodb://"), True),
    ],
)
def test_a_node_of_a_cluster_that_made_its_own_crypto_key_says_that_all_need_it(
    tmp_path: Path, settings: Settings, warned: bool
) -> None:
    for name in ("crypto_key", "auth_key"):
        log = tmp_path / name
        logs.configure(output=str(log), background=False)
        announce_keys(settings, ServiceKeys(("k",), ("a",), made=(Path("/d/keys") / name,)))
        logs.shutdown()
        assert f"/d/keys/{name}" in log.read_text()
        is_warning = "all other nodes need the same one" in log.read_text()
        assert is_warning == (warned and name == "crypto_key")
