"""Certificates made on the fly, for TLS on loopback."""

import datetime
import ipaddress
import ssl
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

LOOPBACK = "127.0.0.1"

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


class CertificateFiles(NamedTuple):
    certificate: Path
    key: Path

    @property
    def options(self) -> list[str]:
        """The flags of a service that uses them on its public ports."""
        return ["--ssl-cert", str(self.certificate), "--ssl-key", str(self.key)]

    @property
    def router_options(self) -> list[str]:
        """The flags of a service that uses them on its internal port."""
        return ["--router-ssl-cert", str(self.certificate), "--router-ssl-key", str(self.key)]


class Authority:
    """A CA of our own, in a file that clients can trust."""

    def __init__(self, folder: Path) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = _certificate(self._key, None, (), (-1, 10))
        self.path = folder / "authority.pem"
        self.path.write_bytes(self._certificate.public_bytes(Encoding.PEM))

    def issue(
        self,
        folder: Path,
        *names: str,
        days: tuple[float, float] = (-1, 1),
        passphrase: bytes | None = None,
        rsa_bits: int | None = None,
    ) -> CertificateFiles:
        """A certificate, and its key in a file for its owner only; put in place of former ones.

        `days`: from when to when it is valid, counted from now. `rsa_bits`: an RSA key of that
        size in place of one on an elliptic curve.
        """
        key: PrivateKey = ec.generate_private_key(ec.SECP256R1())
        if rsa_bits:
            key = rsa.generate_private_key(65537, rsa_bits)
        certificate = _certificate(key, (self._certificate, self._key), names or (LOOPBACK,), days)
        files = CertificateFiles(folder / "cert.pem", folder / "key.pem")
        files.certificate.write_bytes(certificate.public_bytes(Encoding.PEM))
        files.key.write_bytes(private_pem(key, passphrase))
        files.key.chmod(0o600)
        return files

    def client(self) -> ssl.SSLContext:
        """The context of a client that trusts this CA alone."""
        return ssl.create_default_context(cafile=str(self.path))


def tls_pair(folder: Path, name: str = LOOPBACK) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Contexts of a server and of a client that trusts it, for one host name or address."""
    both = self_signed(folder / "server.pem", name)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(both)
    return server, ssl.create_default_context(cafile=str(both))


def self_signed(path: Path, name: str = LOOPBACK, days: float = 1) -> Path:
    """A file with a key and its certificate, for one host name or address and so many days."""
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _certificate(key, None, (name,), (-1, days))
    path.write_bytes(private_pem(key) + certificate.public_bytes(Encoding.PEM))
    return path


def _certificate(
    key: PrivateKey,
    issuer: tuple[x509.Certificate, PrivateKey] | None,
    names: tuple[str, ...],
    days: tuple[float, float],
) -> x509.Certificate:
    """One that is signed by the issuer, or a CA's that is signed by itself."""
    number = x509.random_serial_number()
    # A name of its own: who trusts several finds the one that signed by its name.
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"made by a test, {number:x}")])
    now = datetime.datetime.now(datetime.UTC)
    begin, end = (now + datetime.timedelta(days=day) for day in days)
    signer, signing_key = issuer or (None, key)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(signer.subject if signer else subject)
        .public_key(key.public_key())
        .serial_number(number)
        .not_valid_before(begin)
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key()),
            critical=False,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    if issuer is None:
        # Who checks strictly, as Python does from 3.13 on, wants a CA to say so.
        usage = dict.fromkeys(
            (
                *("digital_signature", "key_cert_sign", "crl_sign", "content_commitment"),
                *("key_encipherment", "data_encipherment", "key_agreement"),
                *("encipher_only", "decipher_only"),
            ),
            False,
        )
        usage |= dict.fromkeys(("digital_signature", "key_cert_sign", "crl_sign"), True)
        builder = builder.add_extension(x509.KeyUsage(**usage), critical=True)
    if names:
        alternatives = x509.SubjectAlternativeName([_alternative(name) for name in names])
        builder = builder.add_extension(alternatives, critical=False)
    return builder.sign(signing_key, hashes.SHA256())


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def private_pem(key: PrivateKey, passphrase: bytes | None = None) -> bytes:
    encryption = BestAvailableEncryption(passphrase) if passphrase else NoEncryption()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
