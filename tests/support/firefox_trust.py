"""Having Firefox accept a certificate that no CA of the system has signed."""

import hashlib
import ssl
from pathlib import Path

from support.certificates import LOOPBACK

SHA256_OID = "OID.2.16.840.1.101.3.4.2.1"


def trust_certificate(profile: Path, certificate: Path, *ports: int) -> None:
    """Add exceptions for this certificate, on these ports of this machine, to a profile that is not
    in use: what a user does who accepts the warning.
    """
    der = ssl.PEM_cert_to_DER_cert(certificate.read_text())
    digest = hashlib.sha256(der).hexdigest().upper()
    fingerprint = ":".join(digest[at : at + 2] for at in range(0, len(digest), 2))
    with (profile / "cert_override.txt").open("a") as file:
        for port in ports:
            file.write(f"{LOOPBACK}:{port}:\t{SHA256_OID}\t{fingerprint}\t\n")
