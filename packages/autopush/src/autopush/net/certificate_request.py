"""TLS that asks clients for a certificate and accepts any, or none.

What a certificate is worth is decided for each request. The ssl module cannot leave that open: it
ends the handshake unless the certificate leads to a CA that it knows. So pyOpenSSL speaks TLS here,
behind the one method of a context that event loops call, `wrap_bio`.
"""

import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar, TypeVarTuple, cast

from OpenSSL import SSL
from OpenSSL.crypto import FILETYPE_ASN1, dump_certificate

_T = TypeVar("_T")
_Args = TypeVarTuple("_Args")

_RECORD: Final = 16384  # bytes of data in one record of TLS, at most
_CHUNK: Final = 65536


class CertificateRequestContext(ssl.SSLContext):
    """The context of a server."""

    _tls: SSL.Context

    def load(self, certificate: str, key: str, dh_parameters: str, ciphers: str) -> None:
        """Use these files and rules, as `ServerTls` has them, for new connections.

        :raises ssl.SSLError: a file cannot be used; nothing has changed
        """
        tls = SSL.Context(SSL.TLS_SERVER_METHOD)
        tls.set_min_proto_version(SSL.TLS1_2_VERSION)
        tls.set_options(
            SSL.OP_NO_COMPRESSION | SSL.OP_NO_RENEGOTIATION | SSL.OP_CIPHER_SERVER_PREFERENCE
        )
        tls.set_mode(SSL.MODE_RELEASE_BUFFERS)
        tls.set_session_cache_mode(SSL.SESS_CACHE_OFF)  # tickets do without
        # OpenSSL resumes no session with a certificate where it is not said what it belongs to.
        tls.set_session_id(b"autopush client certificates")
        tls.set_verify(SSL.VERIFY_PEER, lambda *_: True)
        tls.set_verify_depth(0)  # the rest of a chain is worth no time
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
    """The TLS of one connection between two memory BIOs: of `ssl.SSLObject` what event loops use,
    and `getpeercert`.

    Rule: `pending` is not 0 while `read` has more to return, as uvloop reads no further then.
    """

    __slots__ = ("_connection", "_failure", "_incoming", "_outgoing", "_unread")

    def __init__(self, tls: SSL.Context, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._connection = SSL.Connection(tls)
        self._connection.set_accept_state()
        self._failure: ssl.SSLError | None = None  # behind the data that `read` returned
        # The connection was given something, or knows of an end or a failure, and `read` has not
        # yet found that nothing is left of it.
        self._unread = False

    def do_handshake(self) -> None:
        self._call(self._connection.do_handshake)

    def read(self, size: int, buffer: bytearray | memoryview | None = None) -> bytes | int:
        """Up to so many bytes of what has come; none at the end."""
        data = self._read(size)
        if buffer is None:
            return data
        buffer[: len(data)] = data
        return len(data)

    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Returns how many bytes were taken: those of one record."""
        return self._call(self._connection.send, data) if data else 0

    def pending(self) -> int:
        return self._connection.pending() or int(self._unread)

    def unwrap(self) -> None:
        """Say that nothing more is sent.

        :raises ssl.SSLWantReadError: the client has not said that yet
        """
        if not (self._call(self._connection.shutdown) or self._call(self._connection.shutdown)):
            raise ssl.SSLWantReadError

    def getpeercert(self, binary_form: bool = False) -> dict[str, str] | bytes | None:
        """The client's certificate, None without one: in DER, or as the ssl module shows what was
        not verified.
        """
        certificate = self._connection.get_peer_certificate()
        if certificate is None:
            return None
        return dump_certificate(FILETYPE_ASN1, certificate) if binary_form else {}

    def cipher(self) -> tuple[str | None, str | None, int | None]:
        """The cipher's name, its oldest protocol, and the bits of its key."""
        connection = self._connection
        version, bits = connection.get_cipher_version(), connection.get_cipher_bits()
        return connection.get_cipher_name(), version, bits

    def compression(self) -> None:
        """There is none."""

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
        except ssl.SSLZeroReturnError:  # the next call gets here again, if there are parts now
            pass
        except ssl.SSLError as error:
            self._failure = error
            if not parts:
                raise
        return b"".join(parts)

    def _call(self, function: Callable[[*_Args], _T], *args: *_Args) -> _T:
        """Call pyOpenSSL with what has come, then pass on what it wants to send."""
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
    SSL.SysCallError: ssl.SSLEOFError,  # there is no other system call of a memory BIO
}


def _translated(error: SSL.Error) -> ssl.SSLError:
    """The error of the ssl module, with its `reason` where OpenSSL says one."""
    known = _ERRORS.get(type(error))
    if known is not None:
        return known()
    reasons = error.args[0] if error.args else ()
    reason = str(reasons[-1][-1]) if reasons else "unknown error"
    translated = ssl.SSLError(ssl.SSL_ERROR_SSL, reason)
    translated.reason = reason.upper().replace(" ", "_")
    return translated
