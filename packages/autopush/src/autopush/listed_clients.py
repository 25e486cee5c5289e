"""The clients of the option `client_certs`, known by the SHA-256 of their TLS certificates."""

import hashlib
from collections.abc import Mapping

from cryptography.x509 import load_der_x509_certificate
from cryptography.x509.oid import NameOID

from autopush.settings.value_types import NamedTexts


class ListedClients:
    """`listed`: the fingerprints of each client, as upper-case hex with colons. The certificates
    that are asked for are in DER; empty for none.
    """

    def __init__(self, listed: NamedTexts) -> None:
        self._names = {each: name for name, prints in listed.items() for each in prints}

    def __contains__(self, certificate: bytes) -> bool:
        return fingerprint(certificate) in self._names

    def log_fields(self, certificate: bytes) -> Mapping[str, str]:
        """What logs say of a certificate: `tls_auth` is the client's name in the option."""
        if not certificate:
            return {}
        sha256, cn = fingerprint(certificate), common_name(certificate)
        name = self._names.get(sha256)
        if name is None:
            return {"tls_failed_sha256": sha256, "tls_failed_cn": cn}
        return {"tls_auth": name, "tls_auth_sha256": sha256, "tls_auth_cn": cn}


def fingerprint(certificate: bytes) -> str:
    """As `openssl x509 -fingerprint -sha256` writes it; empty without a certificate."""
    return hashlib.sha256(certificate).digest().hex(":").upper() if certificate else ""


def common_name(certificate: bytes) -> str:
    """The CN of the subject, at most 64 characters as X.509 has it; empty where there is none."""
    try:
        subject = load_der_x509_certificate(certificate).subject
        names = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    except ValueError:
        return ""
    return str(names[0].value)[:64] if names else ""
