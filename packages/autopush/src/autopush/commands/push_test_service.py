"""`autopush test-service`: a push service for the tests of senders, in any language."""

import argparse
import asyncio
import os
import signal
import stat
import sys
from typing import Final

import msgspec

from autopush.commands import CommandLine
from autopush.settings import Settings
from autopush.testing.running import Address, running_service

STANDARD_INPUT: Final = 0


def serve_tests(_settings: Settings, arguments: argparse.Namespace) -> int:
    asyncio.run(_serve(as_json=arguments.json, tls=arguments.tls))
    return 0


async def _serve(*, as_json: bool, tls: bool) -> None:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    async with running_service(tls=tls) as address:
        print(msgspec.json.encode(address).decode() if as_json else _text(address), flush=True)
        if _has_parent():
            loop.add_reader(STANDARD_INPUT, _read, stop)
        await stop.wait()


def _has_parent() -> bool:
    """Whether the input is a pipe, which ends with the process that started this one. (In the
    background of a shell it is `/dev/null`, which has ended before it began.)
    """
    try:
        mode = os.fstat(STANDARD_INPUT).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _read(stop: asyncio.Event) -> None:
    if not os.read(STANDARD_INPUT, 4096):
        asyncio.get_running_loop().remove_reader(STANDARD_INPUT)
        stop.set()


def _text(address: Address) -> str:
    lines = [
        f"Push service     {address.url}",
        f"For browsers     {address.websocket_url}",
        f"Control API      {address.control}/openapi.json",
        f"Its token        {address.token}",
    ]
    if address.ca is not None:
        lines.append(f"CA to trust      {address.ca}")
    return "\n".join([*lines, "Ctrl-C ends it." if sys.stdin.isatty() else ""]).rstrip()


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json", action="store_true", help="print the addresses as one line of JSON, for programs"
    )
    parser.add_argument(
        "--tls",
        action="store_true",
        help="serve pushes over TLS, with a certificate by a CA made for this run",
    )


COMMANDS: Final = {"test-service": CommandLine(serve_tests, _add_arguments)}
