"""Pushes to connected user agents in batches, in turn with single ones."""

import asyncio
from collections.abc import Iterator
from itertools import cycle, islice
from typing import Final
from urllib.parse import unquote_to_bytes, urlsplit

import orjson

from bench.ledger import Ledger
from bench.load import Load
from bench.push_client import ApplicationServer, base64url
from bench.report import Row, Sample, cost_row
from bench.run import Run, Stopwatch

PATH: Final = "/push/batch"
MESSAGES: Final = 500
SENDERS: Final = 4
MOST_OF_SINGLE: Final = 0.5


async def batch(run: Run) -> list[Row]:
    return [await _in_mode(run, mode) for mode in ("bypass", "store-first")]


async def _in_mode(run: Run, mode: str) -> Row:
    sizes = run.sizes
    sender = ApplicationServer()
    async with run.server(mode, **{"--batch-senders": sender.key}) as server:
        load = await Load.on(server, Ledger(), sender)
        await load.pushes(run, sizes.warm_up)
        single: list[Sample] = []

        async def in_turn() -> Sample:
            single.append(await load.pushes(run, sizes.pushes))
            return await _batches(run, load, sizes.pushes)

        batches = await run.floored(sizes.rounds, in_turn)
        await load.leave()
    alone = batches.with_samples(single)
    ratio = batches.microseconds / alone.microseconds
    return cost_row(
        f"push in a batch of {MESSAGES}, {mode}",
        batches,
        f"≤ {MOST_OF_SINGLE:g} of a single one",
        ratio <= MOST_OF_SINGLE,
        note=f"{ratio:.2f} of a single one ({alone.microseconds:.1f} µs)",
        of_single=ratio,
        single_us=alone.microseconds,
    )


async def _batches(run: Run, load: Load, count: int) -> Sample:
    """As `Load.pushes`."""
    ledger = load.fleet.ledger
    requests = _requests(load, count)
    url = urlsplit(load.fleet.origin)
    streams = [await asyncio.open_connection(url.hostname, url.port) for _ in range(SENDERS)]
    ledger.begin(count)
    watch = Stopwatch(load.server)
    sending = [asyncio.create_task(_send(*stream, requests, ledger)) for stream in streams]
    await ledger.all_answered(run.sizes.limit)
    await ledger.all_delivered(run.sizes.limit)
    watch.traffic_ended()
    await load.fleet.barrier()
    await load.server.wait_until_idle()
    sample = watch.sample(count)
    ledger.close_round()
    await asyncio.gather(*sending)
    for _, writer in streams:
        writer.close()
    return sample


async def _send(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    requests: Iterator[bytes],
    ledger: Ledger,
) -> None:
    for request in requests:
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        if not head.startswith(b"http/1.1 200 "):
            ledger.fail(f"a batch was answered {head[:100]!r}")
            return
        length = int(head.partition(b"content-length: ")[2].partition(b"\r")[0])
        for line in (await reader.readexactly(length)).splitlines():
            result = orjson.loads(line)
            if result["status"] != 201:
                ledger.fail(f"a push of a batch was answered {result}")
                return
            ledger.answer(unquote_to_bytes(result["location"].rpartition("/m/")[2]))


def _requests(load: Load, count: int) -> Iterator[bytes]:
    """Batches to the user agents round-robin, made before a clock starts."""
    fleet = load.fleet
    headers = {"TTL": "3600", "Urgency": "normal", "Content-Encoding": "aes128gcm"}
    lines = [
        orjson.dumps(
            {"endpoint": each.endpoint, "headers": headers, "body": base64url(each.body).decode()},
            option=orjson.OPT_APPEND_NEWLINE,
        )
        for each in fleet.identities
    ]
    numbered = cycle(lines)
    requests = []
    for first in range(0, count, MESSAGES):
        body = b"".join(islice(numbered, min(MESSAGES, count - first)))
        head = (
            f"POST {PATH} HTTP/1.1\r\nHost: {urlsplit(fleet.origin).netloc}\r\n"
            f"Content-Type: application/x-ndjson\r\nContent-Length: {len(body)}\r\n"
            f"Authorization: vapid t={load.token.decode()}, k={fleet.sender.key}\r\n\r\n"
        )
        requests.append(head.encode() + body)
    return iter(requests)
