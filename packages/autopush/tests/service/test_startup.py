"""The start: its order, the data folder, and what it reports."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from autopush.bridges.discovery import load_routers
from autopush.keys import ServiceKeys
from autopush.service import startup
from autopush.service.startup import (
    announce,
    announce_addresses,
    announce_keys,
    announce_routers,
    prepare_data_folder,
)
from autopush.settings import Settings, StartupError
from support.clocks import ManualClock

KEYS = ServiceKeys(("k",), ("a",))


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The steps of starts that fail when the store is checked, in order."""
    taken: list[str] = []

    def step(name: str, answer: object = None) -> None:
        def take(*_: object, **__: object) -> object:
            taken.append(name)
            return answer

        monkeypatch.setattr(startup, name, take)

    async def check_store(*_: object) -> None:
        taken.append("check_store")
        raise StartupError("no store")

    step("prepare_data_folder")
    step("service_keys", KEYS)
    step("bind", (Settings(), []))
    step("serve", 0)
    step("Supervisor", 0)
    monkeypatch.setattr(startup, "check_store", check_store)
    step("check_keys")
    step("save_keys", KEYS)
    return taken


@pytest.mark.parametrize("workers", [1, 2])
def test_folder_keys_ports_and_store_are_checked_before_any_worker_starts(
    steps: list[str], workers: int
) -> None:
    with pytest.raises(StartupError, match="no store"):
        startup.run(Settings(workers=workers))
    assert steps == ["prepare_data_folder", "service_keys", "bind", "check_store"]


def test_a_data_folder_that_nothing_is_kept_in_is_not_created(steps: list[str]) -> None:
    with pytest.raises(StartupError):
        startup.run(Settings(command="connection", store="dynamodb://", crypto_key=("k",)))
    assert "prepare_data_folder" not in steps


@pytest.mark.parametrize("no_aws", [False, True])
def test_no_aws_keeps_the_whole_process_from_asking_the_instance_metadata_service(
    steps: list[str], monkeypatch: pytest.MonkeyPatch, no_aws: bool
) -> None:
    monkeypatch.setattr(os, "environ", {})
    with pytest.raises(StartupError):
        startup.run(Settings(no_aws=no_aws))
    assert os.environ == ({"AWS_EC2_METADATA_DISABLED": "true"} if no_aws else {})


# The data folder


def refused_folder(folder: Path) -> str:
    with pytest.raises(StartupError) as caught:
        prepare_data_folder(folder)
    text = str(caught.value)
    assert str(folder) in text
    assert "\n" not in text
    return text


def test_a_missing_data_folder_is_created_for_its_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    prepare_data_folder(folder)
    assert folder.is_dir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_an_existing_folder_is_not_changed(tmp_path: Path) -> None:
    tmp_path.chmod(0o750)
    (tmp_path / "kept").write_text("kept")
    prepare_data_folder(tmp_path)
    prepare_data_folder(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o750
    assert (tmp_path / "kept").read_text() == "kept"


def test_a_link_to_a_folder_is_a_folder(tmp_path: Path) -> None:
    link = tmp_path / "link"
    (tmp_path / "there").mkdir()
    link.symlink_to(tmp_path / "there")
    prepare_data_folder(link)


def test_a_file_is_not_a_folder(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("kept")
    assert "is not a folder" in refused_folder(file)
    assert file.read_text() == "kept"


def test_a_folder_cannot_be_created_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot make" in refused_folder(tmp_path / "file" / "folder")


def test_a_dangling_link_is_refused_folder(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nowhere")
    refused_folder(link)
    assert not (tmp_path / "nowhere").exists()


def test_a_name_that_is_too_long_is_refused_folder(tmp_path: Path) -> None:
    refused_folder(tmp_path / ("x" * 300))


@pytest.mark.parametrize("missing", [os.R_OK, os.W_OK, os.X_OK])
def test_a_folder_without_all_permissions_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: int
) -> None:
    # With a substitute: nothing is forbidden to root, who may be running this.
    monkeypatch.setattr(os, "access", lambda path, wanted: not wanted & missing)
    assert "may not be written" in refused_folder(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_folder_of_another_user_is_refused_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        refused_folder(tmp_path)
        refused_folder(tmp_path / "folder")
    finally:
        tmp_path.chmod(0o700)


# What is reported


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


@pytest.mark.parametrize("name", ["crypto_key", "auth_key"])
@pytest.mark.parametrize(
    ("settings", "warned"),
    [
        (Settings(), False),
        (Settings(command="connection"), True),
        (Settings(command="endpoint"), True),
        (Settings(store="dynamodb://"), True),
    ],
)
def test_a_node_of_a_cluster_that_created_a_key_of_its_own_warns_that_others_need_it(
    end_logs: Callable[[], str], settings: Settings, warned: bool, name: str
) -> None:
    announce_keys(settings, ServiceKeys(("k",), ("a",), made=(Path("/d/keys") / name,)))
    text = end_logs()
    assert f"/d/keys/{name}" in text
    others = {"crypto_key": "all other nodes", "auth_key": "all other endpoint nodes"}
    assert (f"{others[name]} need the same one" in text) == warned


# ── What is logged of bridges ───────────────────────────────────────────────────────────────────


def test_bridges_are_logged_with_what_the_operator_has_to_know(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    settings = Settings(
        senderid_list={"7": {"auth": "key-of-gcm"}},
        adm_creds={"p": {"client_id": "i", "client_secret": "key-of-adm"}},
    )
    announce_routers(load_routers(settings, ManualClock()))
    first, warning = caplog.records
    assert (first.levelname, vars(first)["fields"]) == ("INFO", {"routers": ["adm", "gcm"]})
    assert (warning.levelname, vars(warning)["fields"]) == ("WARNING", {"router": "gcm"})
    assert "shut down" in warning.getMessage()
    assert "key-of" not in caplog.text


def test_without_bridges_nothing_is_logged_of_them(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    announce_routers({})
    assert caplog.records == []


# Addresses


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        (Settings(), "Listening on 127.0.0.1; port 8081, on 127.0.0.1, must not be public"),
        (
            Settings(host="::"),
            "Listening on every interface; port 8081, on 127.0.0.1, must not be public",
        ),
        (
            Settings(host="::", router_host="0.0.0.0"),
            "Listening on every interface; port 8081, on every interface, must not be public",
        ),
        (Settings(command="endpoint", host="0.0.0.0"), "Listening on every interface"),
    ],
)
def test_where_the_ports_listen_is_logged(
    caplog: pytest.LogCaptureFixture, settings: Settings, line: str
) -> None:
    caplog.set_level("INFO")
    announce_addresses(settings)
    assert caplog.messages[0] == line


CLUSTER = "dynamodb://"


@pytest.mark.parametrize(
    ("settings", "warned"),
    [
        (Settings(host="0.0.0.0"), False),
        (Settings(host="0.0.0.0", router_hostname="node.invalid"), True),
        (Settings(host="0.0.0.0", router_hostname="node.invalid", router_host="0.0.0.0"), False),
        (Settings(command="endpoint", host="0.0.0.0", store=CLUSTER), False),
    ],
)
def test_an_internal_port_on_every_interface_that_nobody_asked_for_is_a_warning(
    caplog: pytest.LogCaptureFixture, settings: Settings, warned: bool
) -> None:
    announce_addresses(settings)
    lines = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [line.startswith("The internal port listens on every") for line in lines] == (
        [True] if warned else []
    )


@pytest.mark.parametrize(
    ("settings", "warned"),
    [
        (Settings(), False),
        (Settings(store=CLUSTER), True),
        (Settings(command="connection"), True),
        (Settings(command="connection", store=CLUSTER), True),
        (Settings(command="connection", hostname="192.0.2.7"), False),
        (Settings(router_hostname="192.0.2.7", store=CLUSTER), False),
        (Settings(hostname="192.0.2.7", router_hostname="localhost", store=CLUSTER), True),
        (Settings(command="endpoint", store=CLUSTER), False),
    ],
)
def test_a_node_of_a_cluster_that_other_machines_cannot_reach_is_a_warning(
    caplog: pytest.LogCaptureFixture, settings: Settings, warned: bool
) -> None:
    announce_addresses(settings)
    lines = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [line.startswith("Nodes on other machines cannot reach this") for line in lines] == (
        [True] if warned else []
    )
