"""TLS: the context of a listening port, and that of connections to other nodes.

Rule: what is read from files takes effect as a whole or not at all. When one of them is wrong, what
was read before stays in use.
"""

import asyncio
import ssl
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

# Loading `cryptography.x509` is a tenth of the start, and most services have no certificate.
if TYPE_CHECKING:
    from cryptography.x509 import Certificate

# What Mozilla recommends for servers of general purpose ("intermediate"); TLS 1.3 has a list of its
# own, which OpenSSL's default is.
_CIPHERS: Final = (
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-RSA-CHACHA20-POLY1305",
)
# These need parameters, and are there for clients without elliptic curves alone.
_DH_CIPHERS: Final = ("DHE-RSA-AES128-GCM-SHA256", "DHE-RSA-AES256-GCM-SHA384")

_READABLE_BY_OTHERS: Final = 0o007

# What a file is for.
CERTIFICATE: Final = "certificate"
KEY: Final = "key"
DH_PARAMETERS: Final = "dh_parameters"
AUTHORITIES: Final = "authorities"


class TlsFileError(Exception):
    """A file that TLS needs cannot be used. The text names it and says why, and shows no secret.

    `part`: what the file is for: CERTIFICATE, KEY, DH_PARAMETERS or AUTHORITIES.
    """

    def __init__(self, part: str, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.part = part


def _new_context() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)


class ServerTls:
    """The TLS of one listener, from PEM files.

    `certificate`: the server's certificate, then those that lead to its CA. `key`: its private key,
    without a passphrase; the same file may hold both. `dh_parameters`: empty for none.
    `new_context`: makes a context that is not set up yet.

    `context` is for `loop.create_server` and `loop.start_tls`; it stays the same when the files are
    read again. Tickets of earlier sessions stay valid then.

    :raises TlsFileError: a file cannot be used
    """

    __slots__ = ("_current", "_files", "context")

    def __init__(
        self,
        certificate: str,
        key: str,
        dh_parameters: str = "",
        new_context: Callable[[], ssl.SSLContext] = _new_context,
    ) -> None:
        self._files = _Files(certificate, key, dh_parameters, new_context)
        self._current = self._files.load()
        self.context = self._current.context
        # Called for every handshake, also of a client that names no host.
        self.context.sni_callback = self._choose

    @property
    def names(self) -> tuple[str, ...]:
        """The host names and addresses that the certificate is for."""
        return _names(self._current.certificate)

    @property
    def expires(self) -> datetime:
        """The end of the certificate's validity, in UTC."""
        return self._current.certificate.not_valid_after_utc

    def reload(self) -> None:
        """Read the files again, for connections that are made from now on.

        It takes some milliseconds, and may be called in a thread.

        :raises TlsFileError: a file cannot be used; nothing has changed
        """
        self._current = self._files.load()

    def warnings(self, now: float) -> list[str]:
        """What an operator should know of the files. `now`: seconds since the epoch."""
        found = []
        certificate = self._current.certificate
        path = self._files.certificate
        if certificate.not_valid_after_utc.timestamp() < now:
            found.append(f"{path}: the certificate expired on {_day(self.expires)}")
        elif certificate.not_valid_before_utc.timestamp() > now:
            day = _day(certificate.not_valid_before_utc)
            found.append(f"{path}: the certificate is not valid before {day}")
        mode = self._current.key_mode
        if mode & _READABLE_BY_OTHERS:
            path = self._files.key
            found.append(f"{path} is open to other users (mode {mode:o}): chmod o= {path}")
        return found

    def _choose(self, tls: ssl.SSLObject, _name: str | None, _context: object) -> None:
        # Only the certificate changes by that; what was set on `context` stays in force.
        tls.context = self._current.context


class _Loaded(NamedTuple):
    context: ssl.SSLContext
    certificate: "Certificate"
    key_mode: int
    """The permissions of the key's file."""


class _Files(NamedTuple):
    certificate: str
    key: str
    dh_parameters: str
    new_context: Callable[[], ssl.SSLContext]

    def load(self) -> _Loaded:
        certificate = self._read_certificate()
        context = self.new_context()
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= (
            ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
        )
        ciphers = _CIPHERS + (_DH_CIPHERS if self.dh_parameters else ())
        context.set_ciphers(":".join(ciphers))
        context.set_alpn_protocols(["http/1.1"])
        key_mode = self._load_key(context)
        if self.dh_parameters:
            try:
                context.load_dh_params(self.dh_parameters)
            except ssl.SSLError:
                reason = "no PEM file with Diffie-Hellman parameters that are safe to use"
                raise TlsFileError(DH_PARAMETERS, self.dh_parameters, reason) from None
            except OSError as error:
                raise _unreadable(DH_PARAMETERS, self.dh_parameters, error) from None
        return _Loaded(context, certificate, key_mode)

    def _read_certificate(self) -> "Certificate":
        from cryptography.x509 import load_pem_x509_certificates  # noqa: PLC0415 - see above

        try:
            return load_pem_x509_certificates(Path(self.certificate).read_bytes())[0]
        except OSError as error:
            raise _unreadable(CERTIFICATE, self.certificate, error) from None
        except ValueError:
            reason = "no PEM file with a certificate"
            raise TlsFileError(CERTIFICATE, self.certificate, reason) from None

    def _load_key(self, context: ssl.SSLContext) -> int:
        def refuse() -> str:  # else OpenSSL would ask at the terminal
            raise TlsFileError(KEY, self.key, "the key has a passphrase; store it without one")

        try:
            mode = Path(self.key).stat().st_mode
            with Path(self.key).open("rb"):  # OpenSSL would not say what is wrong with it
                context.load_cert_chain(self.certificate, self.key, refuse)
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                reason = f"not the key of the first certificate in {self.certificate}"
                raise TlsFileError(KEY, self.key, reason) from None
            if error.reason in ("EE_KEY_TOO_SMALL", "CA_MD_TOO_WEAK", "CA_KEY_TOO_SMALL"):
                reason = "the certificate has too short a key or a signature that is not safe"
                raise TlsFileError(CERTIFICATE, self.certificate, reason) from None
            raise TlsFileError(KEY, self.key, "no PEM file with a private key") from None
        except OSError as error:
            raise _unreadable(KEY, self.key, error) from None
        return mode & 0o777


class ClientTls:
    """The TLS of connections to other nodes, whose certificates are checked, with the host's name.

    `authorities`: PEM file with the certificates that a node's must lead to, or that it must be;
    empty for the CAs of the system, which are read when they are first needed (20 ms and 2 MB).

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
        """Read the certificates again, for connections that are made from now on.

        It takes some milliseconds, and may be called in a thread.

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
        # A node's own certificate may be in the file, also one that is no CA's.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        try:
            context.load_verify_locations(self._authorities)
        except ssl.SSLError:
            reason = "no PEM file with certificates"
            raise TlsFileError(AUTHORITIES, self._authorities, reason) from None
        except OSError as error:
            raise _unreadable(AUTHORITIES, self._authorities, error) from None
        return context


def _unreadable(part: str, path: str, error: OSError) -> TlsFileError:
    return TlsFileError(part, path, error.strerror or type(error).__name__)


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
