"""The checks that a start must pass."""

import asyncio
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import apsw
import pytest
from cryptography import x509

from autopush.acme.files import AcmeState, CertificateFolder
from autopush.acme.renewal import Failure
from autopush.commands import checks
from autopush.commands.checks import (
    Subject,
    check_addresses,
    check_bridges,
    check_data_folder,
    check_installation,
    check_keys,
    check_logs,
    check_tls,
    examine_start,
    is_for,
    is_installed,
)
from autopush.keys import save_keys, service_keys
from autopush.settings import Settings
from autopush.version import VERSION
from support.cases import cases
from support.certificates import self_signed
from support.checks import NOW, findings, given, subject

KEY = "Mghht5Ko9NLO4SPnxMb5vKuetGLJc743-6TUfE_je_A="


# ── Installation and bridges ──────────────────────────────────────────────────────────────────────

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
    monkeypatch.setattr(checks, "is_installed", lambda _: True)
    assert ("OK", f"extra {extra}") in await findings(check_installation, settings)
    monkeypatch.setattr(checks, "is_installed", lambda _: False)
    (level, text) = (await findings(check_installation, settings))[-1]
    assert (level, f"pip install 'autopush-server[{extra}]'" in text) == ("FAIL", True)


async def test_a_router_of_another_distribution_needs_no_extra_of_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checks, "is_installed", lambda _: False)
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


# ── TLS ───────────────────────────────────────────────────────────────────────────────────────────

HOST = "push.example.org"


@pytest.fixture
def pem(tmp_path: Path) -> Path:
    """A key and its certificate, for `HOST` and twenty days."""
    path = self_signed(tmp_path / "server.pem", HOST, days=20)
    path.chmod(0o600)
    return path


def at(pem: Path, days: float, settings: Settings | None = None) -> Subject:
    """So many days before the certificate ends."""
    ends = x509.load_pem_x509_certificate(pem.read_bytes()).not_valid_after_utc
    return subject(settings or tls(pem, pem), now=ends.timestamp() - days * 86_400)


def tls(key: Path | str, certificate: Path | str, host: str = HOST) -> Settings:
    return Settings(ssl_key=str(key), ssl_cert=str(certificate), endpoint_hostname=host)


@pytest.mark.parametrize(
    ("days", "level"), [(20, "OK"), (14.5, "OK"), (13.5, "WARN"), (0.5, "WARN"), (-0.5, "FAIL")]
)
async def test_a_certificate_is_to_be_renewed_in_time(pem: Path, days: float, level: str) -> None:
    [(found, text)] = await findings(check_tls, at(pem, days))
    assert (found, text.startswith("ssl_cert")) == (level, True)


async def test_a_certificate_of_the_future_is_a_warning(pem: Path) -> None:
    _, (level, text) = await findings(check_tls, at(pem, 30))
    assert (level, "is not valid before" in text) == ("WARN", True)


async def test_a_certificate_for_another_host_is_a_failure(pem: Path) -> None:
    _, (level, text) = await findings(check_tls, at(pem, 20, tls(pem, pem, "other.example")))
    assert (level, "ssl_cert is not for other.example" in text) == ("FAIL", True)


@pytest.mark.parametrize(
    ("state", "days", "expected"),
    [
        ("first start", 20, [("OK", "the first start orders a certificate for push.example.org")]),
        ("placeholder", 20, [("FAIL", "no certificate for push.example.org was issued yet")]),
        ("issued", 12.5, [("OK", "domain: valid for 12 days")]),
        ("issued", -0.5, [("FAIL", "the certificate expired on")]),
        ("damaged", 20, [("WARN", "is damaged")]),
        (
            "failed",
            20,
            [("OK", "domain: valid for 20 days"), ("FAIL", "the last order failed: no answer")],
        ),
        (
            "other name",
            20,
            [("OK", "valid for"), ("WARN", "the certificate is not for push.example.org")],
        ),
    ],
)
def test_a_certificate_by_acme_is_judged_without_a_start(
    tmp_path: Path, pem: Path, state: str, days: float, expected: list[tuple[str, str]]
) -> None:
    folder, now = CertificateFolder(tmp_path / "data"), at(pem, days).clock()
    if state != "first start":
        folder.path.parent.mkdir()
        folder.prepare([HOST], now)
    failure = Failure("no answer", now, 1, now + 60, "") if state == "failed" else None
    if state in ("issued", "failed", "other name"):
        if state == "other name":
            self_signed(pem, "b.example", days=20)
        folder.write(AcmeState(certificate=pem.read_text(), failure=failure))
    if state == "damaged":
        folder.certificate.write_text(pem.read_text()[:-200])
    settings = Settings(data=tmp_path / "data", domain=(HOST,), http_port=80)
    found = asyncio.run(findings(check_tls, subject(settings, now=now)))
    assert [level for level, _ in found] == [level for level, _ in expected]
    assert all(words in text for (_, text), (_, words) in zip(found, expected, strict=True))


async def test_a_key_that_others_can_read_is_a_warning(pem: Path) -> None:
    os.chmod(pem, 0o644)
    _, (level, text) = await findings(check_tls, at(pem, 20))
    assert (level, "is open to other users (mode 644)" in text) == ("WARN", True)


async def test_the_internal_port_has_a_pair_of_its_own(pem: Path) -> None:
    settings = Settings(
        router_ssl_key=str(pem), router_ssl_cert=str(pem), router_hostname="node1.example"
    )
    _, (level, text) = await findings(check_tls, at(pem, 20, settings))
    assert (level, "router_ssl_cert is not for node1.example" in text) == ("FAIL", True)
    [(level, text)] = await findings(check_tls, Settings())
    assert (level, text.startswith("not configured")) == ("OK", True)


async def test_the_cas_of_other_nodes_must_be_readable(pem: Path, tmp_path: Path) -> None:
    settings = Settings(command="endpoint", router_ssl_ca=str(pem))
    assert await findings(check_tls, settings) == [("OK", "router_ssl_ca can be read")]
    (tmp_path / "junk").write_text("a secret")
    settings = Settings(command="endpoint", router_ssl_ca=str(tmp_path / "junk"))
    [(level, text)] = await findings(check_tls, settings)
    assert (level, "no PEM file with certificates" in text) == ("FAIL", True)
    assert "a secret" not in text


@cases(
    ("name", "host", "matches"),
    [
        ("push.example.org", "PUSH.example.org", True),
        ("*.Example.org", "push.example.org", True),
        ("*.example.org", "a.push.example.org", False),
        ("*.example.org", "example.org", False),
        ("192.0.2.7", "192.0.2.7", True),
        ("192.0.2.7", "192.0.2.8", False),
    ],
)
def test_a_wildcard_stands_for_one_label(name: str, host: str, matches: bool) -> None:
    assert is_for(name, host) is matches


@pytest.fixture
def forbid(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Makes a path one that this user may not write, which also root may otherwise."""
    access = os.access

    def forbid(path: Path) -> None:
        def refuse(asked: Path, mode: int) -> bool:
            return asked != path and access(asked, mode)

        monkeypatch.setattr(os, "access", refuse)

    return forbid


# ── Data folder ───────────────────────────────────────────────────────────────────────────────────


async def test_a_data_folder_for_its_owner_alone_is_well(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o700)
    settings = Settings(data=tmp_path)
    assert await findings(check_data_folder, settings) == [("OK", f"{tmp_path}, mode 700")]


async def test_a_data_folder_that_others_can_read_is_a_warning(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o755)
    [(level, text)] = await findings(check_data_folder, Settings(data=tmp_path))
    assert (level, text.endswith(f"chmod 700 {tmp_path}")) == ("WARN", True)


async def test_a_data_folder_that_cannot_be_made_or_written_is_a_failure(
    tmp_path: Path, forbid: Callable[[Path], None]
) -> None:
    new = Settings(data=tmp_path / "a" / "b")
    [(level, text)] = await findings(check_data_folder, new)
    assert (level, text) == ("OK", f"{new.data} will be created at the first start")
    forbid(tmp_path)
    for settings in (new, Settings(data=tmp_path)):
        [(level, text)] = await findings(check_data_folder, settings)
        assert level == "FAIL"
        assert str(settings.data) in text
    file = tmp_path / "file"
    file.touch()
    [(level, text)] = await findings(check_data_folder, Settings(data=file))
    assert (level, "is not a folder" in text) == ("FAIL", True)


async def test_a_data_folder_that_nothing_is_kept_in_is_not_looked_at() -> None:
    settings = Settings(command="connection", store="dynamodb://", crypto_key=(KEY,))
    [(level, text)] = await findings(check_data_folder, settings)
    assert (level, text.startswith("not needed")) == ("OK", True)


# ── Keys ──────────────────────────────────────────────────────────────────────────────────────────


async def test_keys_of_files_and_settings_are_counted_and_never_shown(tmp_path: Path) -> None:
    keys = save_keys(service_keys((), (), tmp_path))
    settings = Settings(data=tmp_path)
    found = await findings(check_keys, settings)
    assert found == [
        ("OK", f"crypto_key: 1 in {tmp_path}/keys/crypto_key"),
        ("OK", f"auth_key: 1 in {tmp_path}/keys/auth_key"),
    ]
    settings = Settings(crypto_key=(KEY, KEY), command="connection", sources=given("crypto_key"))
    assert await findings(check_keys, settings) == [("OK", "crypto_key: 2 from --crypto-key")]
    assert not any(key in str(found) for key in (KEY, *keys.crypto, *keys.auth))


async def test_a_key_file_that_others_can_read_is_a_warning_and_a_broken_one_a_failure(
    tmp_path: Path,
) -> None:
    save_keys(service_keys((), (), tmp_path))
    (tmp_path / "keys" / "crypto_key").chmod(0o644)
    (tmp_path / "keys" / "auth_key").write_text("two words\n")
    (crypto, first), (auth, second) = await findings(check_keys, Settings(data=tmp_path))
    assert (crypto, "chmod 600" in first) == ("WARN", True)
    assert (auth, "auth_key:1: not a key" in second) == ("FAIL", True)
    assert "two words" not in second


async def test_a_data_folder_that_is_a_link_to_nothing_is_a_failure(tmp_path: Path) -> None:
    link = tmp_path / "data"
    link.symlink_to(tmp_path / "not mounted")
    [(level, text)] = await findings(check_data_folder, Settings(data=link))
    assert level == "FAIL"
    assert f"{link} is a dangling link to {tmp_path}/not mounted" in text


# ── Addresses ─────────────────────────────────────────────────────────────────────────────────────

CLUSTER = "dynamodb://"
EVERYWHERE = "the internal port listens on every interface: node.invalid"
UNREACHABLE = "nodes on other machines cannot reach http://"


@cases(
    ("settings", "warning"),
    [
        (Settings(), ""),
        (Settings(host="0.0.0.0"), ""),
        (Settings(host="0.0.0.0", router_hostname="node.invalid"), EVERYWHERE),
        (Settings(host="0.0.0.0", router_hostname="node.invalid", router_host="0.0.0.0"), ""),
        (Settings(command="endpoint", host="0.0.0.0", store=CLUSTER), ""),
        (Settings(store=CLUSTER), UNREACHABLE),
        (Settings(command="connection"), UNREACHABLE),
        (Settings(command="connection", store=CLUSTER), UNREACHABLE),
        (Settings(command="connection", hostname="192.0.2.7"), ""),
        (Settings(router_hostname="192.0.2.7", store=CLUSTER), ""),
        (Settings(hostname="192.0.2.7", router_hostname="localhost", store=CLUSTER), UNREACHABLE),
        (Settings(command="endpoint", store=CLUSTER), ""),
    ],
)
async def test_an_internal_port_that_is_everywhere_unasked_or_out_of_reach_is_a_warning(
    settings: Settings, warning: str
) -> None:
    found = await findings(check_addresses, settings)
    lines = [text for level, text in found if level != "OK"]
    assert len(lines) == bool(warning)
    assert all(line.startswith(warning) for line in lines)


@pytest.mark.parametrize(
    ("settings", "levels"),
    [
        (Settings(), ["OK", "OK"]),
        # With the embedded store all nodes are on one machine, and share the data folder.
        (Settings(command="connection"), ["OK"]),
        (Settings(command="endpoint"), ["OK", "OK"]),
        (Settings(store=CLUSTER), ["WARN", "WARN"]),
        (Settings(store=CLUSTER, command="connection"), ["WARN"]),
    ],
)
async def test_a_node_of_a_cluster_that_would_create_a_key_of_its_own_is_a_warning(
    tmp_path: Path, settings: Settings, levels: list[str]
) -> None:
    found = await findings(check_keys, replace(settings, data=tmp_path))
    assert [level for level, _ in found] == levels


def test_a_start_gets_what_else_the_operator_should_know(tmp_path: Path) -> None:
    settings = Settings(
        data=tmp_path,
        senderid_list={"7": {"auth": "key-of-gcm"}},
        adm_creds={"p": {"client_id": "i", "client_secret": "key-of-adm"}},
    )
    tmp_path.chmod(0o755)
    problems, warnings = examine_start(settings, lambda: NOW)
    assert problems == []
    folder, gcm = warnings
    assert folder.found == f"{tmp_path} is open to other users (mode 755)"
    assert gcm.found.startswith("gcm: Google has shut down GCM")
    assert "key-of" not in f"{warnings}"


# ── Logs ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("output", ["stdout", "stderr", "none"])
async def test_logs_that_go_to_no_file_are_well(output: str) -> None:
    assert await findings(check_logs, Settings(log_output=output)) == [
        ("OK", f"log_output {output}")
    ]


async def test_a_log_file_that_can_be_appended_to_or_created_is_well(tmp_path: Path) -> None:
    path = tmp_path / "log"
    for _ in range(2):
        assert await findings(check_logs, Settings(log_output=str(path))) == [("OK", str(path))]
        path.touch()


async def test_a_log_file_that_cannot_be_opened_is_a_failure(
    tmp_path: Path, forbid: Callable[[Path], None]
) -> None:
    for output in (tmp_path, tmp_path / "missing" / "log"):
        [(level, text)] = await findings(check_logs, Settings(log_output=str(output)))
        assert (level, str(output) in text) == ("FAIL", True)
    path = tmp_path / "log"
    path.touch()
    forbid(path)
    [(level, text)] = await findings(check_logs, Settings(log_output=str(path)))
    assert (level, "may not be written by this user" in text) == ("FAIL", True)
