"""The folder `acme` of the data folder.

    state.json       accounts, the order in progress, the certificate with its key, the last failure
    certificate.pem  what TLS is served with: that certificate, or a placeholder

Rule: each file is for its owner only and is replaced as a whole, and `state.json` comes first. So
a process that is killed at any point leaves a pair of key and certificate that belong together, and
the next one goes on with the order.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from autopush.acme.renewal import CertificateFacts, Failure
from autopush.keys import write_private
from autopush.settings import StartupError
from autopush.telemetry import logs

if TYPE_CHECKING:  # it takes a tenth of the start
    from cryptography.x509 import Certificate

FOLDER: Final = "acme"
CERTIFICATE: Final = "certificate.pem"
STATE: Final = "state.json"
PLACEHOLDER: Final = "autopush placeholder"
"""Common name of the issuer of a certificate that is there until the first one is issued."""
PLACEHOLDER_DAYS: Final = 365

_log = logs.get(__name__)


class AcmeAccount(Struct, frozen=True):
    """`key`: PEM. `uri`: of the account at its directory."""

    key: str
    uri: str
    email: str = ""


class PlacedOrder(Struct, frozen=True):
    """`key`: of the certificate, PEM."""

    directory: str
    names: tuple[str, ...]
    uri: str
    key: str


class AcmeState(Struct):
    """`accounts`: by the URL of their directory. `certificate`: key and chain, PEM; `issued_by`:
    the directory that it is from. `suggested`: when that directory has it renewed; `ask_at`: when
    to ask again.
    """

    accounts: dict[str, AcmeAccount] = {}
    order: PlacedOrder | None = None
    certificate: str = ""
    issued_by: str = ""
    suggested: float | None = None
    ask_at: float = 0.0
    failure: Failure | None = None


class CertificateFolder:
    """:raises StartupError: (every method) a file cannot be read or written"""

    def __init__(self, data: Path) -> None:
        self._data = data
        self.path = data / FOLDER
        self.certificate = self.path / CERTIFICATE
        self._state = self.path / STATE

    def prepare(self, names: Sequence[str], now: float) -> AcmeState:
        """Make the folder, and have `certificate` hold what can be served: the certificate of the
        state, else what is there, else a placeholder.
        """
        try:
            self.path.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise _unusable(self.path, error) from None
        self._put_damaged_aside()
        state = self.read()
        present = self._text(self.certificate)
        for pem in (state.certificate, present):
            facts = facts_of(pem)
            if facts is not None and not facts.is_placeholder:
                break
        else:
            if present and facts is None:
                _log.error("A damaged certificate is replaced", file=str(self.certificate))
            if facts is None or facts.ends < now or facts.names != frozenset(names):
                pem = placeholder(names, now)
        if pem != present:
            self._write(self.certificate, pem)
        return state

    def read(self) -> AcmeState:
        """Without a file, or with one that is damaged, an empty state."""
        return _decoded(self._text(self._state)) or AcmeState()

    def _put_damaged_aside(self) -> None:
        text = self._text(self._state)
        if not text or _decoded(text) is not None:
            return
        aside = self._state.with_suffix(".damaged")
        try:
            self._state.replace(aside)
        except OSError as error:
            raise _unusable(self._state, error) from None
        _log.error("A damaged file is put aside", file=str(self._state), to=aside.name)

    def write(self, state: AcmeState) -> None:
        """Save it; a new certificate in it is served from now on."""
        self._write(self._state, msgspec.json.encode(state).decode())
        if facts_of(state.certificate) and state.certificate != self._text(self.certificate):
            self._write(self.certificate, state.certificate)

    def served(self) -> CertificateFacts | None:
        return facts_of(self._text(self.certificate))

    def _text(self, path: Path) -> str:
        try:
            return path.read_text("ascii", "replace")
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise _unusable(path, error) from None

    def _write(self, path: Path, text: str) -> None:
        try:
            write_private(path, text, self._data)
        except OSError as error:
            raise _unusable(path, error) from None


def _decoded(text: str) -> AcmeState | None:
    try:
        return msgspec.json.decode(text, type=AcmeState)
    except msgspec.MsgspecError:  # its text may hold a part of a key
        return None


def facts_of(pem: str) -> CertificateFacts | None:
    """Of the first certificate of a PEM text; None if it has none, or no key that belongs to it."""
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415
    from cryptography.x509 import load_pem_x509_certificate  # noqa: PLC0415 - see above

    try:
        certificate = load_pem_x509_certificate(pem.encode())
        key = load_pem_private_key(pem.encode(), None)
    except (ValueError, TypeError):  # TypeError: a key with a passphrase
        return None
    if certificate.public_key() != key.public_key():
        return None
    return certificate_facts(certificate)


def certificate_facts(certificate: "Certificate") -> CertificateFacts:
    from cryptography import x509  # noqa: PLC0415 - see above

    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        names = frozenset(extension.value.get_values_for_type(x509.DNSName))
    except (x509.ExtensionNotFound, ValueError):
        names = frozenset()
    common = certificate.issuer.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    return CertificateFacts(
        names,
        certificate.not_valid_before_utc.timestamp(),
        certificate.not_valid_after_utc.timestamp(),
        certificate.serial_number,
        is_placeholder=bool(common) and common[0].value == PLACEHOLDER,
    )


def placeholder(names: Sequence[str], now: float) -> str:
    """A key and a certificate that it signs itself, which no client trusts."""
    from cryptography import x509  # noqa: PLC0415 - see above
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, PLACEHOLDER)])
    begins = datetime.fromtimestamp(now, UTC) - timedelta(days=1)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(issuer)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(begins + timedelta(days=PLACEHOLDER_DAYS))
        .add_extension(x509.SubjectAlternativeName(list(map(x509.DNSName, names))), critical=False)
        .sign(key, hashes.SHA256())
    )
    return private_pem(key) + certificate.public_bytes(Encoding.PEM).decode()


def new_key() -> str:
    """A private key on the curve P-256, PEM."""
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    return private_pem(ec.generate_private_key(ec.SECP256R1()))


def private_pem(key: object) -> str:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat  # noqa: PLC0415

    assert isinstance(key, EllipticCurvePrivateKey)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def _unusable(path: Path, error: OSError) -> StartupError:
    return StartupError(f"data: {path}: {error.strerror}")
