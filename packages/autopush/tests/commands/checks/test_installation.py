"""SQLite, extras, and credentials of bridges."""

import sys

import apsw
import pytest

from autopush.commands.checks import installation
from autopush.commands.checks.installation import check_bridges, check_installation, is_installed
from autopush.settings import Settings
from autopush.version import VERSION
from support.checks import findings

FINGERPRINT = ":".join(["0A"] * 32)
GCM = {"1": {"auth": "a-secret"}}


async def test_versions_are_named() -> None:
    assert await findings(check_installation, Settings()) == [
        ("OK", f"autopush {VERSION}"),
        ("OK", f"SQLite {apsw.sqlite_lib_version()}"),
    ]


@pytest.mark.parametrize(("version", "level"), [("3.51.2", "FAIL"), ("3.51.3", "OK")])
async def test_an_old_sqlite_is_a_failure_where_the_store_is_embedded(
    monkeypatch: pytest.MonkeyPatch, version: str, level: str
) -> None:
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: version)
    _, (found, text) = await findings(check_installation, Settings())
    assert (found, version in text) == (level, True)
    on_dynamodb = await findings(check_installation, Settings(store="dynamodb://"))
    assert "SQLite" not in str(on_dynamodb)


@pytest.mark.parametrize(
    ("settings", "extra"),
    [
        (Settings(senderid_list=GCM), "bridges"),
        (Settings(wake_pem="wake.pem"), "bridges"),
        (Settings(firehose_stream_name="stream"), "firehose"),
        (Settings(sentry_dsn="https://x"), "sentry"),
        (Settings(client_certs={"one": (FINGERPRINT,)}), "client-certificates"),
    ],
)
async def test_an_extra_that_an_option_needs_and_that_is_missing_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, extra: str
) -> None:
    monkeypatch.setattr(installation, "is_installed", lambda _: True)
    assert ("OK", f"extra {extra}") in await findings(check_installation, settings)
    monkeypatch.setattr(installation, "is_installed", lambda _: False)
    (level, text) = (await findings(check_installation, settings))[-1]
    assert (level, f"pip install 'autopush-server[{extra}]'" in text) == ("FAIL", True)


async def test_a_router_of_another_distribution_needs_no_extra_of_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(installation, "is_installed", lambda _: False)
    for settings in (Settings(routers={"other": {}}), Settings(stub_router=True)):
        assert not [
            text for _, text in await findings(check_installation, settings) if "pip" in text
        ]


def test_a_module_of_a_package_that_is_not_there_is_not_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert is_installed("os.path")
    assert not is_installed("nothing_like_this.at_all")
    monkeypatch.setitem(sys.modules, "botocore", None)
    assert not is_installed("nothing_like_this")


# ── Bridges ───────────────────────────────────────────────────────────────────────────────────────


async def test_credentials_that_can_be_read_are_well() -> None:
    found = await findings(check_bridges, Settings(stub_router=True, senderid_list=GCM))
    assert [text.partition(":")[0] for _, text in found] == ["gcm", "stub"]
    assert "FAIL" not in dict(found)
    assert "a-secret" not in str(found)
    assert await findings(check_bridges, Settings()) == [("OK", "none is configured")]


async def test_credentials_that_cannot_be_read_are_a_failure_that_shows_none() -> None:
    creds = {"app": {"projectid": "p", "auth": '{"private_key": "a secret"}'}}
    [(level, text)] = await findings(check_bridges, Settings(fcm_creds=creds))
    assert level == "FAIL"
    assert "fcm_creds" in text
    assert "a secret" not in text


async def test_a_connection_node_has_no_bridges_to_check() -> None:
    settings = Settings(command="connection", senderid_list=GCM)
    [(level, text)] = await findings(check_bridges, settings)
    assert (level, text) == ("OK", "only endpoint nodes have bridges")
