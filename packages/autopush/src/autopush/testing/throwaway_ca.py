"""A certification authority for one test service, and the certificate that it issues."""

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

_CURVE = SECP256R1()
_DAYS = 2


def issue(folder: Path, address: str) -> tuple[Path, Path]:
    """Write the PEM file of a new CA, and one with a certificate for that address and its key. The
    key of the CA is not kept.
    """
    signer, key = generate_private_key(_CURVE), generate_private_key(_CURVE)
    issuer = x509.Name(
        [x509.NameAttribute(NameOID.COMMON_NAME, f"autopush test {x509.random_serial_number():x}")]
    )
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    authority = (
        _builder(issuer, issuer, signer, signer)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(signer, SHA256())
    )
    names = x509.SubjectAlternativeName(
        [x509.IPAddress(ipaddress.ip_address(address)), x509.DNSName("localhost")]
    )
    own = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "autopush test-service")])
    certificate = (
        _builder(own, issuer, key, signer)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(names, critical=False)
        .sign(signer, SHA256())
    )
    ca_file, chain_file = folder / "ca.pem", folder / "server.pem"
    ca_file.write_bytes(authority.public_bytes(Encoding.PEM))
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    chain_file.write_bytes(private + certificate.public_bytes(Encoding.PEM))
    return ca_file, chain_file


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: EllipticCurvePrivateKey,
    signer: EllipticCurvePrivateKey,
) -> x509.CertificateBuilder:
    now, days = datetime.datetime.now(datetime.UTC), datetime.timedelta(_DAYS)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - days)
        .not_valid_after(now + days)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
