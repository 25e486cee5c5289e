"""What TLS to PostgreSQL costs the client: CPU time of an operation with it, against without, in
turn, on a server of its own.

    PYTHONPATH=tests .venv/bin/python -m bench.postgres_tls [OPERATIONS]
"""

import statistics
import sys
import tempfile
from pathlib import Path

import uvloop

from autopush.store.tables import message_table
from bench.postgres_costs import LANES, SCHEMA, cost, item, ours
from keytables.postgresql import PostgresEngine
from support.certificates import LOOPBACK, Authority
from support.postgres_servers import PostgresServer

ROUNDS = 5


async def measure(plain: str, encrypted: str, times: int) -> None:
    engines = [
        await PostgresEngine.open(url, schema=SCHEMA, connections=max(LANES) + 1)
        for url in (plain, encrypted)
    ]
    tables = [await engine.ensure_table(message_table("message")) for engine in engines]
    await tables[0].batch_write(puts=[item(number) for number in range(max(LANES))])
    without, with_tls = map(ours, tables)
    for lanes in LANES:
        for name in without:
            some = times // 10 if name.startswith("batch") else times
            pairs = [
                (await cost(without[name], lanes, some), await cost(with_tls[name], lanes, some))
                for _ in range(ROUNDS + 1)
            ][1:]
            us, tls_us = (statistics.median(each) / 1000 for each in zip(*pairs, strict=True))
            added = statistics.median(tls - own for own, tls in pairs) / 1000
            print(f"{name}, {lanes} at a time: {us:.1f} µs, with TLS {tls_us:.1f}: +{added:.1f}")
    for engine in engines:
        await engine.close()


def main(times: int) -> None:
    server = PostgresServer("ssl=on", "shared_buffers=256MB", "max_wal_size=4GB")
    try:
        with tempfile.TemporaryDirectory() as folder:
            files = Authority(Path(folder)).issue(Path(folder), LOOPBACK)
            server.put("server.crt", files.certificate.read_bytes())
            server.put("server.key", files.key.read_bytes())
        server.start()
        plain = server.url()
        uvloop.run(measure(plain, plain.replace("sslmode=disable", "sslmode=require"), times))
    finally:
        server.remove()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000)
