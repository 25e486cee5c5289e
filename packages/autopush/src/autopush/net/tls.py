"""TLS contexts of listening ports and of connections to other nodes.

Rule: files take effect together or not at all. If one is wrong, what was loaded before stays in
use.
"""

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

# Loading `cryptography.x509` takes a tenth of the start, and most services have no certificate.
if TYPE_CHECKING:
    from cryptography.x509 import Certificate

    from autopush.net.certificate_request import CertificateRequestContext

# Mozilla's "intermediate" list for general-purpose servers; for TLS 1.3 OpenSSL's default is used.
_CIPHERS: Final = (
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-RSA-CHACHA20-POLY1305",
)
# Only for clients without elliptic curves; these need DH parameters.
_DH_CIPHERS: Final = ("DHE-RSA-AES128-GCM-SHA256", "DHE-RSA-AES256-GCM-SHA384")

_READABLE_BY_OTHERS: Final = 0o007

# What a file is for.
CERTIFICATE: Final = "certificate"
KEY: Final = "key"
DH_PARAMETERS: Final = "dh_parameters"
AUTHORITIES: Final = "authorities"


class TlsFileError(Exception):
    """A TLS file cannot be used. The text names it and says why, without secrets.

    `part`: CERTIFICATE, KEY, DH_PARAMETERS or AUTHORITIES.
    """

    def __init__(self, part: str, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.part = part


class ServerTls:
    """The TLS of one listener, from PEM files.

    `certificate`: the server's, then those that lead to its CA. `key`: without a passphrase; may be
    in the same file. `dh_parameters`: empty for none. `asks_clients`: clients are asked for a
    certificate, and any is accepted; needs pyOpenSSL. `authorities`: clients may have a certificate
    of these CAs, and any other ends the handshake.

    `context` is for `loop.create_server` and `loop.start_tls`; `reload` keeps it and,
    without `asks_clients`, earlier session tickets.

    :raises TlsFileError: a file cannot be used
    """

    def __init__(
        self,
        certificate: str,
        key: str,
        dh_parameters: str = "",
        *,
        asks_clients: bool = False,
        authorities: str = "",
    ) -> None:
        self._certificate_file = certificate
        self._key_file = key
        self._dh_file = dh_parameters
        self._authorities = authorities
        self._asking: CertificateRequestContext | None = None
        if asks_clients:
            from autopush.net import certificate_request  # noqa: PLC0415 - needs an extra library

            self._asking = certificate_request.CertificateRequestContext(ssl.PROTOCOL_TLS_SERVER)
        self.reload()
        self.context: ssl.SSLContext = self._asking or self._loaded.context
        if self._asking is None:
            # Called for every handshake, also of a client that names no host.
            self.context.sni_callback = self._choose

    @property
    def names(self) -> tuple[str, ...]:
        return _names(self._loaded.certificate)

    @property
    def expires(self) -> datetime:
        """The end of the certificate's validity, in UTC."""
        return self._loaded.certificate.not_valid_after_utc

    def reload(self) -> None:
        """Read the files again, for new connections. Takes milliseconds; may run in a thread.

        :raises TlsFileError: a file cannot be used; nothing has changed
        """
        self._loaded = self._load()

    def warnings(self, now: float) -> list[str]:
        """Problems that the operator should know. `now`: seconds since the epoch."""
        problems = []
        path, certificate = self._certificate_file, self._loaded.certificate
        if certificate.not_valid_after_utc.timestamp() < now:
            problems.append(f"{path}: the certificate expired on {_day(self.expires)}")
        elif certificate.not_valid_before_utc.timestamp() > now:
            day = _day(certificate.not_valid_before_utc)
            problems.append(f"{path}: the certificate is not valid before {day}")
        mode = self._loaded.key_mode
        if mode & _READABLE_BY_OTHERS:
            path = self._key_file
            problems.append(f"{path} is open to other users (mode {mode:o}): chmod o= {path}")
        return problems

    def _choose(self, tls: ssl.SSLObject, _name: str | None, _context: object) -> None:
        # This changes only the certificate; other settings of `context` stay in force.
        tls.context = self._loaded.context

    def _load(self) -> "_Loaded":
        from cryptography.x509 import load_pem_x509_certificates  # noqa: PLC0415 - see above

        with _reading(CERTIFICATE, self._certificate_file, "no PEM file with a certificate"):
            content = Path(self._certificate_file).read_bytes()
            certificate = load_pem_x509_certificates(content)[0]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= (
            ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
        )
        ciphers = ":".join(_CIPHERS + (_DH_CIPHERS if self._dh_file else ()))
        context.set_ciphers(ciphers)
        context.set_alpn_protocols(["http/1.1"])
        with _reading(KEY, self._key_file, "no PEM file with a private key"):
            key_mode = Path(self._key_file).stat().st_mode & 0o777
            Path(self._key_file).open("rb").close()  # for the reason, which OpenSSL does not give
            self._load_chain(context)
        if self._dh_file:
            reason = "no PEM file with Diffie-Hellman parameters that are safe to use"
            with _reading(DH_PARAMETERS, self._dh_file, reason):
                context.load_dh_params(self._dh_file)
        if self._authorities:
            context.verify_mode = ssl.CERT_OPTIONAL
            with _reading(AUTHORITIES, self._authorities, "no PEM file with certificates"):
                context.load_verify_locations(self._authorities)
        if self._asking is not None:
            with _reading(KEY, self._key_file, "the files changed while they were read"):
                self._asking.load(self._certificate_file, self._key_file, self._dh_file, ciphers)
        return _Loaded(context, certificate, key_mode)

    def _load_chain(self, context: ssl.SSLContext) -> None:
        def refuse() -> str:  # else OpenSSL would ask at the terminal
            raise TlsFileError(
                KEY, self._key_file, "the key has a passphrase; store it without one"
            )

        try:
            context.load_cert_chain(self._certificate_file, self._key_file, refuse)
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                reason = f"not the key of the first certificate in {self._certificate_file}"
                raise TlsFileError(KEY, self._key_file, reason) from None
            if error.reason in ("EE_KEY_TOO_SMALL", "CA_MD_TOO_WEAK", "CA_KEY_TOO_SMALL"):
                reason = "the certificate has too short a key or a signature that is not safe"
                raise TlsFileError(CERTIFICATE, self._certificate_file, reason) from None
            raise


class _Loaded(NamedTuple):
    context: ssl.SSLContext
    certificate: "Certificate"
    key_mode: int  # permissions of the key's file


class ClientTls:
    """The TLS of connections to other nodes, whose certificates and host names are checked.

    `authorities`: PEM file with the CAs of the nodes' certificates, or with these themselves; empty
    for the system's CAs, which are read when first needed (20 ms and 2 MB).

    :raises TlsFileError: the file cannot be used
    """

    __slots__ = ("_authorities", "_context", "_loading")

    def __init__(self, authorities: str = "") -> None:
        self._authorities = authorities
        self._context = self._load() if authorities else None
        self._loading = asyncio.Lock()

    async def context(self) -> ssl.SSLContext:
        """For `loop.create_connection`."""
        async with self._loading:
            if self._context is None:
                self._context = await asyncio.to_thread(self._load)
        return self._context

    def reload(self) -> None:
        """Read the certificates again, for new connections. Takes milliseconds; may run in a
        thread.

        :raises TlsFileError: the file cannot be used; nothing has changed
        """
        if self._context is not None:
            self._context = self._load()

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if not self._authorities:
            context.load_default_certs()
            return context
        # The file may hold a node's own certificate, which need not be a CA's.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        with _reading(AUTHORITIES, self._authorities, "no PEM file with certificates"):
            context.load_verify_locations(self._authorities)
        return context


@contextmanager
def _reading(part: str, path: str, reason: str) -> Iterator[None]:
    """Turn failures to read a file into `TlsFileError`; `reason`: its text for wrong content."""
    try:
        yield
    except (ssl.SSLError, ValueError):
        raise TlsFileError(part, path, reason) from None
    except OSError as error:
        raise TlsFileError(part, path, error.strerror or type(error).__name__) from None


def _names(certificate: "Certificate") -> tuple[str, ...]:
    from cryptography import x509  # noqa: PLC0415 - see above

    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (x509.ExtensionNotFound, ValueError):  # ValueError: there is one that cannot be parsed
        return ()
    kinds: tuple[type[Any], ...] = (x509.DNSName, x509.IPAddress)
    return tuple(str(name) for kind in kinds for name in extension.value.get_values_for_type(kind))


def _day(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d")
