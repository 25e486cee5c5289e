"""Certificates made on the fly, for TLS on loopback."""

import datetime
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def tls_pair(folder: Path, name: str = "127.0.0.1") -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Contexts of a server and of a client that trusts it, for one host name or address."""
    both = self_signed(folder / "server.pem", name)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(both)
    return server, ssl.create_default_context(cafile=str(both))


def self_signed(path: Path, name: str = "127.0.0.1") -> Path:
    """A file with a key and its certificate, for one host name or address."""
    key = ec.generate_private_key(ec.SECP256R1())
    number = x509.random_serial_number()
    # A name of its own: who trusts several finds the one that signed by its name.
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"made by a test, {number:x}")])
    today = datetime.datetime.now(datetime.UTC)
    alternative: x509.GeneralName
    try:
        alternative = x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        alternative = x509.DNSName(name)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(number)
        .not_valid_before(today - datetime.timedelta(days=1))
        .not_valid_after(today + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    public = certificate.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path.write_bytes(private + public)
    return path
