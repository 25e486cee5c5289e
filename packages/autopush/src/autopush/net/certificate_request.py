"""A server's TLS context that asks clients for a certificate and accepts any, or none.

What a certificate is worth is decided for each request. The ssl module cannot leave that open: it
ends the handshake unless the certificate leads to a CA that it knows. So pyOpenSSL speaks TLS here.
The event loop needs nothing of a context but `wrap_bio`, and of what that returns nothing but the
methods of `CertificateRequestTls`.

Rule: these behave as those of `ssl.SSLObject`. Above all, `pending` is not 0 while `read` has more
to return: uvloop reads no further when nothing is pending.
"""

import ssl
from collections.abc import Iterable
from typing import Any, Final, Self, cast

from OpenSSL import SSL
from OpenSSL.crypto import FILETYPE_ASN1, X509, dump_certificate

_PURPOSE: Final = b"autopush client certificates"
"""What sessions belong to. OpenSSL resumes none with a certificate when it is not said."""
_RECORD: Final = 16384
"""Bytes of data in one record of TLS, at most."""
_CHUNK: Final = 65536


class CertificateRequestContext(ssl.SSLContext):
    """For a server, of TLS 1.2 and later. What its methods load and set is in force, not what is
    assigned to its properties.

    Its server name callback may choose another context of this class; it is not told the name.
    """

    tls: SSL.Context

    def __new__(cls) -> Self:
        self = super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)
        self.tls = tls = SSL.Context(SSL.TLS_SERVER_METHOD)
        tls.set_min_proto_version(SSL.TLS1_2_VERSION)
        tls.set_options(
            SSL.OP_NO_COMPRESSION | SSL.OP_NO_RENEGOTIATION | SSL.OP_CIPHER_SERVER_PREFERENCE
        )
        tls.set_mode(SSL.MODE_RELEASE_BUFFERS)
        tls.set_session_cache_mode(SSL.SESS_CACHE_OFF)  # tickets do without
        tls.set_session_id(_PURPOSE)
        tls.set_verify(SSL.VERIFY_PEER, _accept)
        tls.set_verify_depth(0)  # the rest of a chain is worth no time
        return self

    def set_ciphers(self, cipherlist: str, /) -> None:
        super().set_ciphers(cipherlist)
        self.tls.set_cipher_list(cipherlist.encode())

    def set_alpn_protocols(self, alpn_protocols: Iterable[str]) -> None:
        names = [name.encode() for name in alpn_protocols]
        super().set_alpn_protocols(name.decode() for name in names)

        def choose(_: SSL.Connection, offered: list[bytes]) -> bytes | SSL._NoOverlappingProtocols:
            return next((name for name in names if name in offered), SSL.NO_OVERLAPPING_PROTOCOLS)

        self.tls.set_alpn_select_callback(choose)

    def load_cert_chain(  # type: ignore[override]  # with names of files only
        self, certfile: str, keyfile: str, password: Any = None
    ) -> None:
        super().load_cert_chain(certfile, keyfile, password)
        try:
            self.tls.use_certificate_chain_file(certfile)
            self.tls.use_privatekey_file(keyfile)
        except SSL.Error as error:
            raise _translated(error) from None

    def load_dh_params(self, path: str, /) -> None:
        super().load_dh_params(path)
        try:
            self.tls.load_tmp_dh(path)
        except SSL.Error as error:
            raise _translated(error) from None

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        if not server_side or server_hostname is not None or session is not None:
            raise ValueError("a CertificateRequestContext is for servers")
        tls = CertificateRequestTls(self, incoming, outgoing)
        return cast(ssl.SSLObject, tls)


class CertificateRequestTls:
    """The TLS of one connection, between two memory BIOs: what the event loop uses of
    `ssl.SSLObject`, with `getpeercert` for who asks who the client is.
    """

    __slots__ = ("_connection", "_failure", "_incoming", "_outgoing", "_unread", "context")

    def __init__(
        self, context: CertificateRequestContext, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO
    ) -> None:
        self.context = context
        if context.sni_callback is not None:  # it may assign another one to `context`
            context.sni_callback(cast(ssl.SSLObject, self), "", context)
        self._incoming = incoming
        self._outgoing = outgoing
        self._connection = SSL.Connection(self.context.tls)
        self._connection.set_accept_state()
        self._failure: ssl.SSLError | None = None  # behind the data that `read` returned
        # The connection was given something, or knows of an end or a failure, and `read` has not
        # yet found that nothing is left of it.
        self._unread = False

    def do_handshake(self) -> None:
        self._receive()
        try:
            self._connection.do_handshake()
        except SSL.Error as error:
            raise _translated(error) from None
        finally:
            self._send()

    def read(self, size: int, buffer: bytearray | memoryview | None = None) -> bytes | int:
        """Up to so many bytes of what has come; none at the end."""
        data = self._read(size)
        if buffer is None:
            return data
        buffer[: len(data)] = data
        return len(data)

    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Returns how many bytes were taken: those of one record."""
        if not data:
            return 0
        try:
            return self._connection.send(data)
        except SSL.Error as error:
            raise _translated(error) from None
        finally:
            self._send()

    def pending(self) -> int:
        return self._connection.pending() or int(self._unread)

    def unwrap(self) -> None:
        """Say that nothing more is sent.

        :raises ssl.SSLWantReadError: the client has not said that yet
        """
        self._receive()
        try:
            ended = self._connection.shutdown() or self._connection.shutdown()
        except SSL.Error as error:
            raise _translated(error) from None
        finally:
            self._send()
        if not ended:
            raise ssl.SSLWantReadError

    def getpeercert(self, binary_form: bool = False) -> dict[str, str] | bytes | None:
        """The client's certificate, None without one: in DER, or as the ssl module shows what was
        not verified.
        """
        certificate = self._connection.get_peer_certificate()
        if certificate is None:
            return None
        return dump_certificate(FILETYPE_ASN1, certificate) if binary_form else {}

    def cipher(self) -> tuple[str, str, int] | None:
        """The cipher's name, its oldest protocol, and the bits of its key."""
        connection = self._connection
        name, version = connection.get_cipher_name(), connection.get_cipher_version()
        bits = connection.get_cipher_bits()
        return None if name is None or version is None or bits is None else (name, version, bits)

    def compression(self) -> None:
        """There is none."""

    def _read(self, size: int) -> bytes:
        if self._failure is not None:
            raise self._failure
        self._receive()
        parts: list[bytes] = []
        try:
            while size:
                parts.append(self._connection.recv(min(size, _RECORD)))
                size -= len(parts[-1])
        except SSL.WantReadError:
            self._unread = False
            if not parts:
                raise ssl.SSLWantReadError from None
        except SSL.ZeroReturnError:  # the next call gets here again, if there are parts now
            pass
        except SSL.Error as error:
            self._failure = _translated(error)
            if not parts:
                raise self._failure from None
        finally:
            self._send()
        return b"".join(parts)

    def _receive(self) -> None:
        if self._incoming.pending:
            self._connection.bio_write(self._incoming.read())
            self._unread = True

    def _send(self) -> None:
        try:
            while len(part := self._connection.bio_read(_CHUNK)) == _CHUNK:
                self._outgoing.write(part)
        except SSL.WantReadError:  # there is nothing
            return
        self._outgoing.write(part)


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


def _accept(_connection: SSL.Connection, _certificate: X509, *_result: int) -> bool:
    return True
