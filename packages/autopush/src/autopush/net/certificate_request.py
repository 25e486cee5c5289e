"""TLS that asks clients for a certificate and accepts any, or none.

The application judges the certificate at each request. The ssl module ends the handshake unless the
certificate leads to a known CA, so this is pyOpenSSL behind `wrap_bio`, the one method of a context
that event loops call.
"""

import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar, TypeVarTuple, cast

from OpenSSL import SSL
from OpenSSL.crypto import FILETYPE_ASN1, dump_certificate

_T = TypeVar("_T")
_Args = TypeVarTuple("_Args")

_RECORD: Final = 16384  # the most data bytes in a TLS record
_CHUNK: Final = 65536


class CertificateRequestContext(ssl.SSLContext):
    _tls: SSL.Context

    def load(self, certificate: str, key: str, dh_parameters: str, ciphers: str) -> None:
        """Load PEM files and an OpenSSL cipher list for new connections.

        :raises ssl.SSLError: a file cannot be used; nothing has changed
        """
        tls = SSL.Context(SSL.TLS_SERVER_METHOD)
        tls.set_min_proto_version(SSL.TLS1_2_VERSION)
        tls.set_options(
            SSL.OP_NO_COMPRESSION | SSL.OP_NO_RENEGOTIATION | SSL.OP_CIPHER_SERVER_PREFERENCE
        )
        tls.set_mode(SSL.MODE_RELEASE_BUFFERS)
        tls.set_session_cache_mode(SSL.SESS_CACHE_OFF)  # session tickets need none
        # Without a session id context OpenSSL resumes no session that has a client certificate.
        tls.set_session_id(b"autopush client certificates")
        tls.set_verify(SSL.VERIFY_PEER, lambda *_: True)
        tls.set_verify_depth(0)  # spend no time on the chain
        tls.set_cipher_list(ciphers.encode())
        tls.set_alpn_select_callback(_http_1_1)
        try:
            tls.use_certificate_chain_file(certificate)
            tls.use_privatekey_file(key)
            if dh_parameters:
                tls.load_tmp_dh(dh_parameters)
        except SSL.Error as error:
            raise _translated(error) from None
        self._tls = tls

    def wrap_bio(
        self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *_server: Any, **_options: Any
    ) -> ssl.SSLObject:
        return cast(ssl.SSLObject, CertificateRequestTls(self._tls, incoming, outgoing))


class CertificateRequestTls:
    """The part of `ssl.SSLObject` that event loops use, and `getpeercert`.

    Rule: `pending` is not 0 while `read` has more to return; uvloop stops reading at 0.
    """

    __slots__ = ("_connection", "_failure", "_incoming", "_outgoing", "_unread")

    def __init__(self, tls: SSL.Context, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._connection = SSL.Connection(tls)
        self._connection.set_accept_state()
        self._failure: ssl.SSLError | None = None  # to raise after the data that `read` returned
        # Input, an end or a failure has arrived, and `read` has not drained it yet.
        self._unread = False

    def do_handshake(self) -> None:
        self._call(self._connection.do_handshake)

    def read(self, size: int, buffer: bytearray | memoryview | None = None) -> bytes | int:
        """Return up to `size` received bytes; none at the end of the stream."""
        data = self._read(size)
        if buffer is None:
            return data
        buffer[: len(data)] = data
        return len(data)

    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Return how many bytes were taken: at most one record."""
        return self._call(self._connection.send, data) if data else 0

    def pending(self) -> int:
        return self._connection.pending() or int(self._unread)

    def unwrap(self) -> None:
        """Send close_notify.

        :raises ssl.SSLWantReadError: the client has not sent its own yet
        """
        if not (self._call(self._connection.shutdown) or self._call(self._connection.shutdown)):
            raise ssl.SSLWantReadError

    def getpeercert(self, binary_form: bool = False) -> dict[str, str] | bytes | None:
        """The certificate in DER, or {} as in the ssl module when unverified; None without one."""
        certificate = self._connection.get_peer_certificate()
        if certificate is None:
            return None
        return dump_certificate(FILETYPE_ASN1, certificate) if binary_form else {}

    def cipher(self) -> tuple[str | None, str | None, int | None]:
        connection = self._connection
        version, bits = connection.get_cipher_version(), connection.get_cipher_bits()
        return connection.get_cipher_name(), version, bits

    def compression(self) -> None:
        """None: compression is off."""

    def _read(self, size: int) -> bytes:
        if self._failure is not None:
            raise self._failure
        parts: list[bytes] = []
        try:
            while size:
                parts.append(self._call(self._connection.recv, min(size, _RECORD)))
                size -= len(parts[-1])
        except ssl.SSLWantReadError:
            self._unread = False
            if not parts:
                raise
        except ssl.SSLZeroReturnError:  # the next call gets here again if there are parts
            pass
        except ssl.SSLError as error:
            self._failure = error
            if not parts:
                raise
        return b"".join(parts)

    def _call(self, function: Callable[[*_Args], _T], *args: *_Args) -> _T:
        """Feed the received bytes, call pyOpenSSL and pass its output on."""
        if self._incoming.pending:
            self._connection.bio_write(self._incoming.read())
            self._unread = True
        try:
            return function(*args)
        except SSL.Error as error:
            raise _translated(error) from None
        finally:
            with suppress(SSL.WantReadError):  # raised when nothing is left
                while True:
                    self._outgoing.write(self._connection.bio_read(_CHUNK))


def _http_1_1(_: object, offered: list[bytes]) -> bytes | SSL._NoOverlappingProtocols:
    return b"http/1.1" if b"http/1.1" in offered else SSL.NO_OVERLAPPING_PROTOCOLS


_ERRORS: Final[dict[type[SSL.Error], type[ssl.SSLError]]] = {
    SSL.WantReadError: ssl.SSLWantReadError,
    SSL.WantWriteError: ssl.SSLWantWriteError,
    SSL.ZeroReturnError: ssl.SSLZeroReturnError,
    SSL.SysCallError: ssl.SSLEOFError,  # a memory BIO has no other system call error
}


def _translated(error: SSL.Error) -> ssl.SSLError:
    known = _ERRORS.get(type(error))
    if known is not None:
        return known()
    reasons = error.args[0] if error.args else ()
    reason = str(reasons[-1][-1]) if reasons else "unknown error"
    translated = ssl.SSLError(ssl.SSL_ERROR_SSL, reason)
    translated.reason = reason.upper().replace(" ", "_")
    return translated
