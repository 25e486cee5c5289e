"""How a connection is made on a server that asks for TLS and passwords, and what of it is refused.

Each refusal is one line, without a password.
"""

import asyncio
import os
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import asyncpg
import pytest

from keytables import KeytablesError, Range, Throttled, Unavailable, open_engine
from keytables.failures import FailureReports
from keytables.postgresql import connections
from keytables.postgresql.connections import Connector, Pool
from keytables.postgresql.failures import ConnectionLost
from support.certificates import Authority, CertificateFiles
from support.postgres_servers import FAST, USER, PgBouncer, PostgresServer, postgres
from support.table_engines import MESSAGES

PASSWORD = "hidden/secret@"
QUOTED = "hidden%2Fsecret%40"

HBA = f"""
local   all {USER}                  trust
hostssl all certified 127.0.0.1/32  cert map=tests
hostssl all all       127.0.0.1/32  scram-sha-256
"""
IDENT = r"tests /^made.by.a.test certified"


class Secured:
    """A server with a certificate for `localhost`, and not for 127.0.0.1."""

    def __init__(self, folder: Path) -> None:
        self.server = PostgresServer(
            *(*FAST, "ssl=on", "ssl_cert_file=cert.pem", "ssl_key_file=key.pem"),
            "ssl_ca_file=authority.pem",
            "password_encryption=scram-sha-256",  # since version 14 that is the default
        )
        authorities = []
        for name in ("ours", "other"):
            (folder / name).mkdir()
            authorities.append(Authority(folder / name))
        ours, other = authorities
        self.root, self.other_root = ours.path, other.path
        (folder / "server").mkdir()
        served = ours.issue(folder / "server", "localhost")
        (folder / "client").mkdir()
        self.client: CertificateFiles = ours.issue(folder / "client")
        (folder / "stranger").mkdir()
        self.stranger: CertificateFiles = other.issue(folder / "stranger")
        for name, path in zip(
            ("cert.pem", "key.pem", "authority.pem"), (*served, ours.path), strict=True
        ):
            self.server.put(name, path.read_bytes())
        self.server.put("pg_hba.conf", HBA)
        self.server.put("pg_ident.conf", IDENT)

    def url(
        self, query: str = "", *, user: str = f"{USER}:{QUOTED}", host: str = "localhost"
    ) -> str:
        return f"postgresql://{user}@{host}:{self.server.port}/postgres?{query}"

    async def execute(self, sql: str) -> None:
        connection = await asyncpg.connect(
            host=str(self.server.folder), port=self.server.port, user=USER, database="postgres"
        )
        await connection.execute(sql)
        await connection.close()


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    found = Secured(folder)
    with ExitStack() as ended:
        ended.callback(found.server.remove)
        found.server.start()

        async def prepare() -> None:
            await found.execute(f"ALTER ROLE {USER} PASSWORD '{PASSWORD}'")
            await found.execute("CREATE ROLE certified LOGIN SUPERUSER")

        asyncio.run(prepare())
        yield found


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("PG")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


async def opens(url: str) -> None:
    engine = await open_engine(url)
    try:
        assert MESSAGES.name not in await engine.table_names()
    finally:
        await engine.close()


async def refusal(url: str) -> str:
    with pytest.raises(Unavailable) as caught:
        await open_engine(url)
    text = str(caught.value)
    assert "\n" not in text
    assert "hidden" not in text
    assert "secret" not in text
    return text


# --- TLS ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["", "sslmode=prefer", "sslmode=allow", "sslmode=require"])
async def test_tls_is_used_without_a_check_unless_one_is_asked_for(
    secured: Secured, mode: str
) -> None:
    await opens(secured.url(mode, host="127.0.0.1"))


@pytest.mark.parametrize("mode", ["require", "verify-ca", "verify-full"])
async def test_a_certificate_of_the_named_authority_is_accepted(
    secured: Secured, mode: str
) -> None:
    await opens(secured.url(f"sslmode={mode}&sslrootcert={secured.root}"))


@pytest.mark.parametrize("mode", ["require", "verify-ca", "verify-full"])
async def test_a_certificate_of_another_authority_is_refused(secured: Secured, mode: str) -> None:
    url = secured.url(f"sslmode={mode}&sslrootcert={secured.other_root}")
    # The root comes along, as it is the server's `ssl_ca_file` too.
    expected = "the certificate of PostgreSQL is refused: self-signed certificate in certificate "
    assert await refusal(url) == f"{expected}chain"


async def test_only_verify_full_wants_the_name_of_the_host(secured: Secured) -> None:
    await opens(secured.url(f"sslmode=verify-ca&sslrootcert={secured.root}", host="127.0.0.1"))
    url = secured.url(f"sslmode=verify-full&sslrootcert={secured.root}", host="127.0.0.1")
    assert await refusal(url) == (
        "the certificate of PostgreSQL is refused: IP address mismatch, certificate is not valid "
        "for '127.0.0.1'."
    )


async def test_verify_full_without_an_authority_is_refused(secured: Secured) -> None:
    text = await refusal(secured.url("sslmode=verify-full"))
    assert text.startswith("cannot connect to PostgreSQL: root certificate file ")
    assert text.endswith(" does not exist or cannot be accessed")


async def test_a_server_that_wants_tls_refuses_a_plain_connection(secured: Secured) -> None:
    assert "no encryption" in await refusal(secured.url("sslmode=disable"))


async def test_a_client_certificate_is_shown(secured: Secured) -> None:
    shown = f"sslmode=require&sslcert={secured.client.certificate}&sslkey={secured.client.key}"
    await opens(secured.url(shown, user="certified"))
    assert "certificate" in await refusal(secured.url("sslmode=require", user="certified"))
    strange = (
        f"sslmode=require&sslcert={secured.stranger.certificate}&sslkey={secured.stranger.key}"
    )
    assert "PostgreSQL" in await refusal(secured.url(strange, user="certified"))


async def test_the_version_of_tls_can_be_bounded(secured: Secured) -> None:
    await opens(secured.url("ssl_min_protocol_version=TLSv1.3"))
    assert "TLS version" in await refusal(secured.url("ssl_min_protocol_version=TLSv9"))


# --- passwords and variables ----------------------------------------------------------------------


async def test_a_wrong_password_is_named_and_not_shown(secured: Secured) -> None:
    assert await refusal(secured.url(user=f"{USER}:hidden")) == (
        f'PostgreSQL refused the connection: password authentication failed for user "{USER}"'
    )


async def test_passwords_come_from_the_password_file(
    secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = tmp_path / "passwords"
    lines.write_text(f"localhost:{secured.server.port}:*:{USER}:{PASSWORD}\n")
    lines.chmod(0o600)
    await opens(secured.url(f"passfile={lines}", user=USER))
    monkeypatch.setenv("PGPASSFILE", str(lines))
    await opens(secured.url(user=USER))
    lines.rename(tmp_path / ".pgpass")
    monkeypatch.delenv("PGPASSFILE")
    await opens(secured.url(user=USER))
    assert "password" in await refusal(secured.url(user=USER, host="127.0.0.1"))


async def test_what_the_url_leaves_out_is_taken_from_the_variables_of_libpq(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "PGHOST": "localhost",
        "PGPORT": str(secured.server.port),
        "PGUSER": USER,
        "PGDATABASE": "postgres",
        "PGPASSWORD": PASSWORD,
        "PGSSLMODE": "verify-full",
        "PGSSLROOTCERT": str(secured.root),
    }.items():
        monkeypatch.setenv(name, value)
    await opens("postgresql://")
    monkeypatch.setenv("PGSSLROOTCERT", str(secured.other_root))
    assert "certificate of PostgreSQL is refused" in await refusal("postgresql://")


async def test_a_unix_socket_is_a_host(secured: Secured) -> None:
    folder = str(secured.server.folder).replace("/", "%2F")
    await opens(f"postgresql://{USER}@{folder}:{secured.server.port}/postgres")
    query = f"host={folder}&port={secured.server.port}"
    await opens(f"postgresql://{USER}@/postgres?{query}")
    assert "there is no such socket" in await refusal(f"postgresql://{USER}@%2Fmissing/postgres")


@pytest.mark.parametrize(("mode", "name"), [("verify-full", "sslrootcert"), ("require", "sslcert")])
async def test_a_file_that_is_missing_is_named(secured: Secured, mode: str, name: str) -> None:
    url = secured.url(f"sslmode={mode}&{name}=/missing.pem")
    assert f"{name}: there is no file /missing.pem" in await refusal(url)


async def test_a_port_that_is_no_number_is_named_without_the_url() -> None:
    refused = await refusal(f"postgresql://{USER}:hidden@127.0.0.1:hidden/postgres")
    assert refused == "cannot connect to PostgreSQL: the port is not a number"


# --- what the server limits -----------------------------------------------------------------------


async def test_too_few_connections_are_named(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the start, and if only one is left, with the first read. Nothing is created with one."""
    await secured.execute("CREATE ROLE limited LOGIN CONNECTION LIMIT 1 PASSWORD 'hidden'")
    await secured.execute("CREATE SCHEMA limited AUTHORIZATION limited")
    url = secured.url("schema=limited", user="limited:hidden")
    expected = 'PostgreSQL has no free connection: too many connections for role "limited"'
    assert (await refusal(url)).startswith(expected)
    await secured.execute("DO $$ BEGIN ASSERT to_regclass('limited.\"~format\"') IS NULL; END $$")
    await secured.execute("ALTER ROLE limited CONNECTION LIMIT 2")
    await opens(url)
    await secured.execute("ALTER ROLE limited CONNECTION LIMIT 1")
    engine = await open_engine(url)
    try:
        with pytest.raises(Throttled, match=expected):
            await engine.ensure_table(MESSAGES)
        assert (await refusal(url)).startswith(expected)
    finally:
        await engine.close()


async def test_with_fewer_connections_than_it_may_open_all_is_done_and_the_reason_is_reported(
    secured: Secured,
) -> None:
    """One connection commits, one reads; a second commit and a second read would like others."""
    await secured.execute("CREATE ROLE few LOGIN CONNECTION LIMIT 2 PASSWORD 'hidden'")
    await secured.execute("CREATE SCHEMA few AUTHORIZATION few")
    reported: list[KeytablesError] = []
    url = secured.url("schema=few", user="few:hidden")
    engine = await open_engine(url, on_failure=reported.append)
    try:
        table = await engine.ensure_table(MESSAGES)
        keys = [("u", str(number)) for number in range(20)]
        for user, place in keys:
            first = table.put({"user": user, "place": place})
            await asyncio.sleep(0)
            await asyncio.gather(first, table.put({"user": "v", "place": place}))
        pages = await asyncio.gather(*(table.query("u", sort=Range(ge=place)) for _, place in keys))
        assert len(pages[0].items) == len((await table.query("v")).items) == len(keys)
    finally:
        await engine.close()
    expected = 'PostgreSQL has no free connection: too many connections for role "few"'
    assert len(reported) >= 2
    assert all(str(error).startswith(expected) for error in reported)


async def test_a_statement_that_takes_too_long_is_ended_by_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(connections._SETTINGS, "statement_timeout", "50ms")
    session = await Connector(postgres().url(), {}, 5.0).connect()
    with pytest.raises(Throttled, match="canceled a statement that took too long"):
        await session.fetch("SELECT pg_sleep(60)")
    assert not session.is_closed
    assert await session.fetch("SELECT 1") == [(1,)]
    await session.close()


async def test_a_connection_is_given_up_when_one_statement_is_not_answered_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(connections._SETTINGS, "statement_timeout", "0")
    session = await Connector(postgres().url(), {}, 5.0).connect()
    for _ in range(3):  # together they take longer
        await session.fetch("SELECT pg_sleep(1.8)")
    with pytest.raises(ConnectionLost, match="did not answer in time"):
        await session.fetch("SELECT pg_sleep(60)")
    assert session.is_closed


async def test_both_ends_ask_whether_a_silent_connection_still_exists() -> None:
    session = await Connector(postgres().url(), {}, 5.0).connect()
    sock = session._connection._transport.get_extra_info("socket")
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == connections.KEEPALIVE
    assert await session.fetch("SHOW tcp_keepalives_idle") == [(str(connections.KEEPALIVE),)]
    await session.close()


async def test_a_transaction_that_stands_still_is_ended_by_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(connections._SETTINGS, "idle_in_transaction_session_timeout", "50ms")
    session = await Connector(postgres().url(), {}, 5.0).connect()
    closed = asyncio.Event()
    session._connection.add_termination_listener(lambda _: closed.set())
    with pytest.raises(ConnectionLost):
        async with session.transaction():
            await asyncio.wait_for(closed.wait(), 20)
    assert session.is_closed


async def test_the_pool_opens_a_connection_in_place_of_one_that_was_ended() -> None:
    pool = Pool(Connector(postgres().url(), {}, 5.0), 1, FailureReports())
    async with pool.session() as first:
        pid = first.backend.pid
    async with pool.session() as session:
        with pytest.raises(ConnectionLost):
            await session.fetch("SELECT pg_terminate_backend($1)", pid)
    async with pool.session() as session:
        assert session.backend.pid != pid
    await pool.close()


# --- a pooler in between --------------------------------------------------------------------------


@pytest.mark.parametrize("ignored", ["", "SETTINGS"])
async def test_pgbouncer_is_refused_by_name(tmp_path: Path, ignored: str) -> None:
    """Also where it is told to swallow the settings of the session."""
    settings = ",".join([*connections._SETTINGS, "application_name"])
    with PgBouncer(postgres(), tmp_path, ignored and settings) as bouncer:
        text = await refusal(postgres().url(port=bouncer.port))
    assert re.match(r"a connection pooler \(such as PgBouncer\) is between this process and ", text)
