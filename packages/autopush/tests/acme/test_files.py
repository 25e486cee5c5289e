"""What TLS is served with: always a key and a certificate that belong together."""

import stat
from pathlib import Path

import pytest

from autopush.acme.files import AcmeAccount, AcmeState, CertificateFolder, facts_of, placeholder
from autopush.net.tls import ServerTls
from support.certificates import Authority

NAMES = ("a.example", "b.example")
NOW = 1_800_000_000.0


@pytest.fixture
def folder(tmp_path: Path) -> CertificateFolder:
    return CertificateFolder(tmp_path)


def issued(tmp_path: Path) -> str:
    files = Authority(tmp_path).issue(tmp_path, *NAMES)
    return files.key.read_text() + files.certificate.read_text()


def test_a_placeholder_is_served_until_there_is_a_certificate(
    folder: CertificateFolder, tmp_path: Path
) -> None:
    folder.prepare(NAMES, NOW)
    path = str(folder.certificate)
    served = ServerTls(path, path)
    assert served.names == NAMES
    assert (facts := folder.served()) is not None
    assert facts.is_placeholder
    folder.write(AcmeState(certificate=issued(tmp_path)))
    served.reload()
    assert (facts := folder.served()) is not None
    assert not facts.is_placeholder


def test_a_placeholder_stays_and_other_names_or_its_end_have_another(
    folder: CertificateFolder,
) -> None:
    folder.prepare(NAMES, NOW)
    first = folder.certificate.read_text()
    folder.prepare(NAMES, NOW + 60)
    assert folder.certificate.read_text() == first
    folder.prepare(NAMES[:1], NOW)
    second = folder.certificate.read_text()
    assert second != first
    folder.prepare(NAMES[:1], NOW + 400 * 86_400)
    assert folder.certificate.read_text() != second


def test_every_file_is_for_its_owner_only(folder: CertificateFolder, tmp_path: Path) -> None:
    folder.prepare(NAMES, NOW)
    folder.write(AcmeState(certificate=issued(tmp_path)))
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.path.iterdir()}
    assert modes == {"certificate.pem": 0o600, "state.json": 0o600}
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700


@pytest.mark.parametrize("damage", ["half", "other key", "empty", "gone"])
def test_a_pair_that_is_damaged_is_replaced_by_that_of_the_state(
    folder: CertificateFolder, tmp_path: Path, damage: str
) -> None:
    folder.prepare(NAMES, NOW)
    pem = issued(tmp_path)
    folder.write(AcmeState(certificate=pem))
    other = placeholder(NAMES, NOW)
    wrong = {
        "half": pem[:-300],
        "other key": other[: other.index("-----BEGIN CERT")] + pem[pem.index("-----BEGIN CERT") :],
        "empty": "",
    }
    assert all(facts_of(each) is None for each in wrong.values())
    folder.certificate.unlink()
    if damage in wrong:
        folder.certificate.write_text(wrong[damage])
    folder.prepare(NAMES, NOW)
    assert folder.certificate.read_text() == pem


def test_a_certificate_outlives_its_state(folder: CertificateFolder, tmp_path: Path) -> None:
    folder.prepare(NAMES, NOW)
    pem = issued(tmp_path)
    folder.write(AcmeState({"https://directory.example/": AcmeAccount("key", "uri")}, None, pem))
    (folder.path / "state.json").write_text('{"accounts": ')
    assert folder.prepare(NAMES, NOW) == AcmeState()
    assert (folder.path / "state.damaged").read_text() == '{"accounts": '
    assert folder.certificate.read_text() == pem
