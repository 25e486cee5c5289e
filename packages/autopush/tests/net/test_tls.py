"""The TLS of a listener, spoken by clients of the standard library over loopback."""

import asyncio
import base64
import contextlib
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from cryptography.x509 import load_pem_x509_certificate
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autopush.net.tls import (
    AUTHORITIES,
    CERTIFICATE,
    DH_PARAMETERS,
    KEY,
    ClientTls,
    ServerTls,
    TlsFileError,
)
from support.certificates import Authority, CertificateFiles, self_signed
from support.soak import examples

BOTH_LOOPS = True

# The group of RFC 7919 with 2048 bits: OpenSSL needs no time to make it.
FFDHE2048 = bytes.fromhex(
    "FFFFFFFFFFFFFFFFADF85458A2BB4A9AAFDC5620273D3CF1D8B9C583CE2D3695A9E13641146433FBCC939DCE249B3E"
    "F97D2FE363630C75D8F681B202AEC4617AD3DF1ED5D5FD65612433F51F5F066ED0856365553DED1AF3B557135E7F57"
    "C935984F0C70E0E68B77E2A689DAF3EFE8721DF158A136ADE73530ACCA4F483A797ABC0AB182B324FB61D108A94BB2"
    "C8E3FBB96ADAB760D7F4681D4F42A3DE394DF4AE56EDE76372BB190B07A7C8EE0A6D709E02FCE1CDF7E2ECC03404CD"
    "28342F619172FE9CE98583FF8E4F1232EEF28183C3FE3B1B4C6FAD733BB5FCBC2EC22005C58EF1837D1683B2C6F34A"
    "26C1B2EFFA886B423861285C97FFFFFFFFFFFFFFFF"
)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def files(authority: Authority, tmp_path: Path) -> CertificateFiles:
    return authority.issue(tmp_path)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A client's certificate and key."""
    return self_signed(tmp_path / "client.pem")


@pytest.fixture
def asking(files: CertificateFiles) -> ServerTls:
    """Asks clients for a certificate, and accepts any."""
    return ServerTls(str(files.certificate), str(files.key), asks_clients=True)


def client_context(
    authority: Authority, certificate: Path | None, version: str = "TLSv1_3"
) -> ssl.SSLContext:
    context = authority.client()
    context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
    if certificate is not None:
        context.load_cert_chain(certificate)
    return context


def der(path: Path) -> bytes:
    """The first certificate of a file that may hold a key before it."""
    text = path.read_text()
    return ssl.PEM_cert_to_DER_cert(text[text.index("-----BEGIN CERTIFICATE") :])


def server_tls(files: CertificateFiles, dh_parameters: Path | None = None) -> ServerTls:
    return ServerTls(str(files.certificate), str(files.key), str(dh_parameters or ""))


class Echo(asyncio.Protocol):
    """`tls` is set when the handshake is done, `ended` when the connection is lost."""

    def __init__(self, made: list["Echo"]) -> None:
        made.append(self)
        self.tls: ssl.SSLObject | None = None
        self.ended = asyncio.Event()
        self.error: Exception | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.tls = transport.get_extra_info("ssl_object")

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.error = exc
        self.ended.set()


@asynccontextmanager
async def listening(tls: ServerTls, made: list[Echo] | None = None) -> AsyncIterator[int]:
    """The port of an echo service; `made` gets its connections."""
    loop = asyncio.get_running_loop()
    made = [] if made is None else made
    server = await loop.create_server(lambda: Echo(made), "127.0.0.1", 0, ssl=tls.context)
    faults: list[dict[str, object]] = []
    loop.set_exception_handler(lambda _, context: faults.append(context))
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
    assert faults == []


class Client:
    """One connection to the echo service."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.tls: ssl.SSLObject = writer.get_extra_info("ssl_object")

    @classmethod
    async def connect(cls, port: int, context: ssl.SSLContext, **options: Any) -> "Client":
        return cls(*await asyncio.open_connection("127.0.0.1", port, ssl=context, **options))

    @property
    def names(self) -> set[str]:
        """What the certificate of the server is for."""
        certificate = cast(dict[str, Any], self.tls.getpeercert())
        return {value for _, value in certificate["subjectAltName"]}

    async def echo(self, text: bytes) -> bytes:
        self._writer.write(text)
        return await self._reader.readexactly(len(text))

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


async def negotiated(port: int, context: ssl.SSLContext) -> tuple[str, str, str | None]:
    """Protocol version, cipher suite and application protocol of a connection."""
    client = await Client.connect(port, context)
    assert await client.echo(b"hello") == b"hello"
    version, cipher = client.tls.version(), client.tls.cipher()
    application = client.tls.selected_alpn_protocol()
    assert version
    assert cipher
    await client.close()
    return version, cipher[0], application


# ── what is negotiated ───────────────────────────────────────────────────────────────────────────


async def test_a_client_of_today_gets_tls_1_3_and_http_1_1(
    authority: Authority, files: CertificateFiles
) -> None:
    client = authority.client()
    client.set_alpn_protocols(["h2", "http/1.1"])
    async with listening(server_tls(files)) as port:
        version, _, application = await negotiated(port, client)
    assert version == "TLSv1.3"
    assert application == "http/1.1"


async def test_the_server_chooses_among_the_ciphers_of_a_client_with_tls_1_2(
    authority: Authority, files: CertificateFiles
) -> None:
    client = authority.client()
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    client.set_ciphers("ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-ECDSA-AES128-GCM-SHA256")
    async with listening(server_tls(files)) as port:
        version, cipher, application = await negotiated(port, client)
    assert version == "TLSv1.2"
    assert cipher == "ECDHE-ECDSA-AES128-GCM-SHA256"
    assert application is None


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated:DeprecationWarning")
@pytest.mark.parametrize("refused", ["TLS 1.1", "CBC", "no forward secrecy"])
async def test_what_is_no_longer_safe_is_refused(
    authority: Authority, files: CertificateFiles, refused: str
) -> None:
    client = authority.client()
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    if refused == "TLS 1.1":
        client.minimum_version = client.maximum_version = ssl.TLSVersion.TLSv1_1
        client.set_ciphers("ALL:@SECLEVEL=0")
    else:
        client.set_ciphers("ECDHE-ECDSA-AES128-SHA256" if refused == "CBC" else "AES128-GCM-SHA256")
    async with listening(server_tls(files)) as port:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await Client.connect(port, client)


def dh_file(path: Path) -> Path:
    # PKCS #3: a sequence of the prime and the generator, 2.
    der = bytes.fromhex("30820108 0282010100") + FFDHE2048 + bytes.fromhex("020102")
    text = base64.encodebytes(der).decode()
    path.write_text(f"-----BEGIN DH PARAMETERS-----\n{text}-----END DH PARAMETERS-----\n")
    return path


@pytest.mark.parametrize("has_parameters", [True, False])
async def test_a_client_without_elliptic_curves_needs_a_file_with_parameters(
    authority: Authority, tmp_path: Path, has_parameters: bool
) -> None:
    client = authority.client()
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    client.set_ciphers("DHE-RSA-AES128-GCM-SHA256")
    parameters = dh_file(tmp_path / "dh.pem") if has_parameters else None
    async with listening(server_tls(authority.issue(tmp_path, rsa_bits=2048), parameters)) as port:
        if has_parameters:
            assert (await negotiated(port, client))[1] == "DHE-RSA-AES128-GCM-SHA256"
        else:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await Client.connect(port, client)


# ── reading the files again ──────────────────────────────────────────────────────────────────────


async def test_after_a_reload_new_connections_get_the_new_certificate_and_old_ones_go_on(
    authority: Authority, files: CertificateFiles, tmp_path: Path
) -> None:
    tls = server_tls(files)
    async with listening(tls) as port:
        old = await Client.connect(port, authority.client())
        authority.issue(tmp_path, "127.0.0.1", "push.example")
        tls.reload()
        new = await Client.connect(port, authority.client())
        assert old.names == {"127.0.0.1"}
        assert new.names == {"127.0.0.1", "push.example"}
        for client in (old, new):
            assert await client.echo(b"still here") == b"still here"
            await client.close()
    assert tls.names == ("push.example", "127.0.0.1")


async def test_a_reload_holds_for_clients_with_and_without_a_host_name(
    authority: Authority, files: CertificateFiles, tmp_path: Path
) -> None:
    tls = server_tls(files)
    async with listening(tls) as port:
        authority.issue(tmp_path, "127.0.0.1", "push.example")
        tls.reload()
        for name in ("push.example", "127.0.0.1"):  # an address is not sent as a name
            client = await Client.connect(port, authority.client(), server_hostname=name)
            assert "push.example" in client.names
            await client.close()


@pytest.mark.parametrize("spoiled", ["certificate", "key", "absent"])
async def test_a_reload_that_fails_leaves_the_certificate_in_use(
    authority: Authority, files: CertificateFiles, tmp_path: Path, spoiled: str
) -> None:
    tls = server_tls(files)
    before = tls.names, tls.expires
    authority.issue(tmp_path, "push.example")
    if spoiled == "certificate":
        files.certificate.write_text("half of a file")
    elif spoiled == "key":
        files.key.write_bytes(authority.issue(tmp_path / "..").key.read_bytes())
    else:
        files.key.unlink()
    async with listening(tls) as port:
        with pytest.raises(TlsFileError):
            tls.reload()
        assert (tls.names, tls.expires) == before
        client = await Client.connect(port, authority.client())
        assert client.names == {"127.0.0.1"}
        await client.close()


async def handshake(
    tls: ssl.SSLObject,
    bios: tuple[ssl.MemoryBIO, ssl.MemoryBIO],
    streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
) -> None:
    incoming, outgoing = bios
    reader, writer = streams
    while True:
        try:
            tls.do_handshake()
            break
        except ssl.SSLWantReadError:
            writer.write(outgoing.read())
            incoming.write(await reader.read(65536))


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
@pytest.mark.parametrize("asks_clients", [False, True])
async def test_sessions_are_resumed_after_a_reload_or_with_the_certificate_of_the_client(
    authority: Authority,
    files: CertificateFiles,
    own: Path,
    tmp_path: Path,
    asks_clients: bool,
    version: str,
) -> None:
    context = client_context(authority, own, version)
    tls = ServerTls(str(files.certificate), str(files.key), asks_clients=asks_clients)
    made: list[Echo] = []
    async with listening(tls, made) as port:
        first = await Client.connect(port, context)
        await first.echo(b"x")  # the tickets of TLS 1.3 come before it
        if not asks_clients:
            authority.issue(tmp_path)
            tls.reload()
        bios = ssl.MemoryBIO(), ssl.MemoryBIO()
        again = context.wrap_bio(*bios, server_hostname="127.0.0.1", session=first.tls.session)
        streams = await asyncio.open_connection("127.0.0.1", port)
        await handshake(again, bios, streams)
        again.write(b"y")
        streams[1].write(bios[1].read())
        await streams[0].read(1)
        assert again.session_reused
        assert made[1].tls is not None
        assert made[1].tls.getpeercert(True) == (der(own) if asks_clients else None)
        streams[1].close()
        await first.close()


# ── files that cannot be used ────────────────────────────────────────────────────────────────────


def refusal(files: CertificateFiles, dh_parameters: Path | None = None) -> TlsFileError:
    with pytest.raises(TlsFileError) as caught:
        server_tls(files, dh_parameters)
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("part", [CERTIFICATE, KEY])
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "No such file or directory"),
        ("", "no PEM file with a"),
        ("-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n", "no PEM file with a"),
    ],
)
def test_a_file_that_is_not_what_it_should_be_is_named(
    files: CertificateFiles, part: str, content: str | None, reason: str
) -> None:
    path: Path = getattr(files, part)
    path.unlink()
    if content is not None:
        path.write_text(content)
    error = refusal(files)
    assert error.part == part
    assert str(error).startswith(f"{path}: {reason}")


def test_a_folder_is_no_key(files: CertificateFiles) -> None:
    error = refusal(files._replace(key=files.key.parent))
    assert str(error) == f"{files.key.parent}: Is a directory"


def test_a_key_that_belongs_to_another_certificate_is_refused(
    authority: Authority, files: CertificateFiles, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = authority.issue(tmp_path / "other")
    error = refusal(files._replace(key=other.key))
    assert error.part == KEY
    expected = f"{other.key}: not the key of the first certificate in {files.certificate}"
    assert str(error) == expected


def test_a_key_with_a_passphrase_is_refused_without_a_question_at_the_terminal(
    authority: Authority, tmp_path: Path
) -> None:
    error = refusal(authority.issue(tmp_path, passphrase=b"secret"))
    assert error.part == KEY
    assert "passphrase" in str(error)
    assert "secret" not in str(error)


def test_a_certificate_with_a_short_key_is_refused(authority: Authority, tmp_path: Path) -> None:
    error = refusal(authority.issue(tmp_path, rsa_bits=1024))
    assert error.part == CERTIFICATE
    assert "too short" in str(error)


@pytest.mark.parametrize("content", [None, "", "certificate"])
def test_a_file_without_diffie_hellman_parameters_is_refused(
    files: CertificateFiles, tmp_path: Path, content: str | None
) -> None:
    path = tmp_path / "dh.pem"
    if content is not None:
        path.write_text(files.certificate.read_text() if content else "")
    error = refusal(files, path)
    assert error.part == DH_PARAMETERS
    assert str(error).startswith(f"{path}: ")


# ── warnings ─────────────────────────────────────────────────────────────────────────────────────


def test_files_in_order_need_no_warning(files: CertificateFiles) -> None:
    tls = server_tls(files)
    assert tls.warnings(time.time()) == []
    certificate = load_pem_x509_certificate(files.certificate.read_bytes())
    assert tls.expires == certificate.not_valid_after_utc


@pytest.mark.parametrize(
    ("days", "reason"), [((-3, -2), "the certificate expired on "), ((2, 3), "is not valid before")]
)
def test_a_certificate_outside_its_time_is_used_with_a_warning(
    authority: Authority, tmp_path: Path, days: tuple[float, float], reason: str
) -> None:
    files = authority.issue(tmp_path, days=days)
    (warning,) = server_tls(files).warnings(time.time())
    assert str(files.certificate) in warning
    assert reason in warning


def test_a_key_that_other_users_can_read_is_used_with_a_warning(files: CertificateFiles) -> None:
    files.key.chmod(0o640)  # a group for keys is usual
    assert server_tls(files).warnings(time.time()) == []
    files.key.chmod(0o644)
    (warning,) = server_tls(files).warnings(time.time())
    assert warning == f"{files.key} is open to other users (mode 644): chmod o= {files.key}"


# ── connections to other nodes ───────────────────────────────────────────────────────────────────


async def test_a_node_is_trusted_by_its_authority_or_by_its_own_certificate(
    authority: Authority, files: CertificateFiles
) -> None:
    async with listening(server_tls(files)) as port:
        for path in (authority.path, files.certificate):
            context = await ClientTls(str(path)).context()
            client = await Client.connect(port, context)
            assert await client.echo(b"node") == b"node"
            await client.close()


async def test_a_node_of_another_authority_or_name_is_not_trusted(
    authority: Authority, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    stranger = Authority(tmp_path / "other")
    async with listening(server_tls(authority.issue(tmp_path, "node.example"))) as port:
        for path, name in ((stranger.path, "node.example"), (authority.path, "127.0.0.1")):
            context = await ClientTls(str(path)).context()
            with pytest.raises(ssl.SSLCertVerificationError):
                await Client.connect(port, context, server_hostname=name)


async def test_without_a_file_the_authorities_of_the_system_are_read_once(
    authority: Authority, files: CertificateFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.path))
    tls = ClientTls()
    contexts = await asyncio.gather(*(tls.context() for _ in range(3)))
    assert len({id(context) for context in contexts}) == 1
    async with listening(server_tls(files)) as port:
        client = await Client.connect(port, contexts[0])
        await client.close()


async def test_authorities_are_read_again_as_a_whole_or_not_at_all(
    authority: Authority, files: CertificateFiles, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(Authority(tmp_path / "other").path.read_bytes())
    tls = ClientTls(str(trusted))
    async with listening(server_tls(files)) as port:
        with pytest.raises(ssl.SSLCertVerificationError):
            await Client.connect(port, await tls.context())
        trusted.write_bytes(authority.path.read_bytes())
        tls.reload()
        for _ in range(2):
            client = await Client.connect(port, await tls.context())
            await client.close()
            trusted.write_text("half")
            with pytest.raises(TlsFileError) as caught:
                tls.reload()
            assert caught.value.part == AUTHORITIES


@pytest.mark.parametrize("content", [None, "", "no certificate"])
def test_a_file_without_authorities_is_refused(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    with pytest.raises(TlsFileError) as caught:
        ClientTls(str(path))
    assert caught.value.part == AUTHORITIES
    assert str(caught.value).startswith(f"{path}: ")


# ── certificates of clients ──────────────────────────────────────────────────────────────────────

VERSIONS = pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])


@VERSIONS
@pytest.mark.parametrize("presents", [True, False])
async def test_the_certificate_of_a_client_is_accepted_and_shown(
    authority: Authority, asking: ServerTls, own: Path, version: str, presents: bool
) -> None:
    made: list[Echo] = []
    async with listening(asking, made) as port:
        context = client_context(authority, own if presents else None, version)
        client = await Client.connect(port, context)
        assert await client.echo(b"hello") == b"hello"
        await client.close()
        (served,) = made
        await served.ended.wait()
    assert served.tls is not None
    assert served.tls.getpeercert(True) == (der(own) if presents else None)
    assert served.tls.getpeercert() == ({} if presents else None)
    assert served.tls.cipher()
    assert served.tls.compression() is None
    assert served.error is None


@VERSIONS
async def test_a_certificate_of_an_unknown_authority_is_accepted_with_its_chain(
    authority: Authority, asking: ServerTls, version: str, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    stranger = Authority(tmp_path / "other")
    issued = stranger.issue(tmp_path / "other", "client.example")
    chain = tmp_path / "chain.pem"
    chain.write_bytes(issued.certificate.read_bytes() + stranger.path.read_bytes())
    context = client_context(authority, None, version)
    context.load_cert_chain(chain, issued.key)
    made: list[Echo] = []
    async with listening(asking, made) as port:
        client = await Client.connect(port, context)
        await client.echo(b"x")
        assert made[0].tls is not None
        assert made[0].tls.getpeercert(True) == der(issued.certificate)
        await client.close()


@VERSIONS
async def test_the_end_behind_data_in_one_piece_is_seen(
    authority: Authority, asking: ServerTls, own: Path, version: str
) -> None:
    made: list[Echo] = []
    async with listening(asking, made) as port:
        context = client_context(authority, own, version)
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        writer.write(b"last words")
        writer.close()  # which is close_notify right behind it
        await made[0].ended.wait()
        assert made[0].error is None


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\x05hello"])
async def test_what_is_no_tls_ends_the_connection(asking: ServerTls, sent: bytes) -> None:
    made: list[Echo] = []
    async with listening(asking, made) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()
        assert not any(served.tls for served in made)


async def test_a_record_that_was_tampered_with_ends_the_connection(
    authority: Authority, asking: ServerTls, own: Path
) -> None:
    bios = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = client_context(authority, own).wrap_bio(*bios, server_hostname="127.0.0.1")
    made: list[Echo] = []
    async with listening(asking, made) as port:
        streams = await asyncio.open_connection("127.0.0.1", port)
        await handshake(tls, bios, streams)
        tls.write(b"good")
        good = bios[1].read()
        tls.write(b"bad")
        bad = bytearray(bios[1].read())
        bad[-1] ^= 1
        streams[1].write(good + bad)
        await made[0].ended.wait()
        streams[1].close()


@given(st.data())
@settings(
    max_examples=examples(40, 40), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_what_is_pending_can_be_read_however_it_was_cut(
    authority: Authority, asking: ServerTls, own: Path, data: st.DataObject
) -> None:
    """As uvloop does: it reads while the BIO or the connection says that something is there."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = asking.context.wrap_bio(to_server, to_client, server_side=True)
    from_server, from_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context(authority, own).wrap_bio(
        from_server, from_client, server_hostname="127.0.0.1"
    )
    done = [False, False]
    while not all(done):
        for number, side in enumerate((client, server)):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
                done[number] = True
            to_server.write(from_client.read())
            from_server.write(to_client.read())
    texts = data.draw(st.lists(st.binary(min_size=1, max_size=40_000), max_size=8))
    for text in texts:
        for start in range(0, len(text), 16384):
            client.write(text[start : start + 16384])
    wire = from_client.read()
    read = b""
    size = data.draw(st.sampled_from([1000, 16384, 262_144]))
    while wire:
        cut = data.draw(st.integers(1, len(wire)))
        to_server.write(wire[:cut])
        wire = wire[cut:]
        with contextlib.suppress(ssl.SSLWantReadError):
            while to_server.pending or server.pending():
                read += server.read(size)
    assert read == b"".join(texts)
