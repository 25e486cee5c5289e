"""The files of TLS."""

import os
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from autopush.commands.checks import Subject
from autopush.commands.checks.certificates import check_tls, is_for
from autopush.settings import Settings
from support.certificates import self_signed
from support.checks import findings, subject

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
    assert (found, text.startswith("ssl_cert ")) == (level, True)


async def test_a_certificate_of_the_future_is_a_warning(pem: Path) -> None:
    _, (level, text) = await findings(check_tls, at(pem, 30))
    assert (level, "is not valid before" in text) == ("WARN", True)


async def test_a_certificate_for_another_host_is_a_failure(pem: Path) -> None:
    _, (level, text) = await findings(check_tls, at(pem, 20, tls(pem, pem, "other.example")))
    assert (level, "ssl_cert is not for other.example" in text) == ("FAIL", True)


@pytest.fixture
def files(pem: Path, tmp_path: Path) -> dict[str, Path | str]:
    """Files by what is in them; one that does not exist, and none."""
    key = serialization.load_pem_private_key(pem.read_bytes(), None)
    certificate = x509.load_pem_x509_certificate(pem.read_bytes())
    other = self_signed(tmp_path / "other.pem", HOST)
    written = {
        "certificate": certificate.public_bytes(serialization.Encoding.PEM),
        "encrypted": key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"geheim"),
        ),
        "junk": b"a secret",
    }
    for name, text in written.items():
        (tmp_path / name).write_bytes(text)
    paths: dict[str, Path | str] = {name: tmp_path / name for name in (*written, "missing")}
    return paths | {"key": pem, "other": other, "none": ""}


@pytest.mark.parametrize(
    ("key", "certificate", "found"),
    [
        ("key", "none", "ssl_key is given without ssl_cert"),
        ("none", "certificate", "ssl_cert is given without ssl_key"),
        ("missing", "certificate", "missing: No such file"),
        ("key", "missing", "missing: No such file"),
        ("other", "certificate", "not the key of the first certificate"),
        ("junk", "certificate", "no PEM file with a private key"),
        ("key", "junk", "no PEM file with a certificate"),
        ("encrypted", "certificate", "the key has a passphrase"),
    ],
)
async def test_files_that_are_missing_or_do_not_match_are_a_failure(
    files: dict[str, Path | str], key: str, certificate: str, found: str
) -> None:
    [(level, text)] = await findings(check_tls, tls(files[key], files[certificate]))
    assert (level, found in text) == ("FAIL", True), text
    assert "a secret" not in text


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


async def test_the_cas_of_other_nodes_must_be_readable(files: dict[str, Path | str]) -> None:
    settings = Settings(command="endpoint", router_ssl_ca=str(files["certificate"]))
    assert await findings(check_tls, settings) == [("OK", "router_ssl_ca can be read")]
    settings = Settings(command="endpoint", router_ssl_ca=str(files["junk"]))
    [(level, text)] = await findings(check_tls, settings)
    assert (level, "no PEM file with certificates" in text) == ("FAIL", True)


@pytest.mark.parametrize(
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
