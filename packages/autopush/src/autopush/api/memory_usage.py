"""`/_memusage`: what the memory of a worker is used for, to find leaks."""

import asyncio
import ctypes
import gc
import os
import resource
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs

from autopush.api import responses
from autopush.net.http_messages import Request, Response

LONGEST_LIST: Final = 50
"""Object types listed."""
_OFF: Final = frozenset({"0", "false", "no", "off"})
_SMAPS: Final = Path("/proc/self/smaps")
_COLUMNS: Final = {"Size": "Kbytes", "Rss": "RSS", "Private_Dirty": "Dirty"}


async def memory_usage(request: Request) -> Response:
    """`/_memusage`: a report to find memory leaks. It blocks the worker; its port is local only.

    `objgraph=false` leaves out the objects, `dump_rpy_heap=false` the garbage collector.
    """
    if request.method not in ("GET", "HEAD") or request.path != "/_memusage":
        return responses.text(404, "GET /_memusage\n")
    wanted = {
        name: values[-1].lower() not in _OFF for name, values in parse_qs(request.query).items()
    }
    report = await asyncio.to_thread(_of_process)
    if wanted.get("dump_rpy_heap", True):
        report += f"\nCollector: {gc.get_count()=} {gc.get_freeze_count()=}\n"
        report += "".join(f"{generation}\n" for generation in gc.get_stats())
    if wanted.get("objgraph", True):
        report += "\nObjects:\n" + "".join(_object_types())
    return responses.text(200, report)


def _of_process() -> str:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    parts = [f"pid {os.getpid()}\n{usage}\n", "".join(_mappings()), _allocator()]
    return "\n".join(parts)


def _mappings() -> Iterator[str]:
    """The mappings and their sums in the columns of `pmap -x`, in KiB."""
    if not _SMAPS.exists():
        yield "This system does not list the mappings of a process.\n"
        return
    yield f"{'Address':>16} {'Kbytes':>9} {'RSS':>9} {'Dirty':>9} Mapping\n"
    sums: Counter[str] = Counter()
    address, name, sizes = "", "", dict[str, int]()
    for line in _SMAPS.read_text().splitlines():
        field, _, rest = line.partition(":")
        if field in _COLUMNS:
            sizes[field] = int(rest.split()[0])
        elif field == "VmFlags":
            sums.update(sizes)
            yield _mapping(address, sizes, name or "[ anon ]")
        elif "-" in field.split()[0]:
            words = line.split(maxsplit=5)
            address, name = words[0].partition("-")[0], words[5] if len(words) > 5 else ""
    yield _mapping("total", sums, "")


def _mapping(address: str, sizes: "Counter[str] | dict[str, int]", name: str) -> str:
    numbers = " ".join(f"{sizes[column]:>9}" for column in _COLUMNS)
    return f"{address:>16} {numbers} {name}".rstrip() + "\n"


def _allocator() -> str:
    """glibc's own report, an XML document; other C libraries have none."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not (hasattr(libc, "malloc_info") and hasattr(libc, "open_memstream")):
        return "The C library does not report on its allocator.\n"
    libc.open_memstream.restype = ctypes.c_void_p
    text, size = ctypes.c_char_p(), ctypes.c_size_t()
    stream = libc.open_memstream(ctypes.byref(text), ctypes.byref(size))
    if not stream:
        return f"The allocator's report failed: {os.strerror(ctypes.get_errno())}\n"
    libc.malloc_info(0, ctypes.c_void_p(stream))
    libc.fclose(ctypes.c_void_p(stream))
    try:
        return (text.value or b"").decode()
    finally:
        libc.free(text)


def _object_types() -> Iterator[str]:
    """Objects that the collector tracks, by type, without those frozen at the start."""
    # gc.unfreeze() and gc.freeze() would keep for ever what has become garbage since.
    types = Counter(type(each).__name__ for each in gc.get_objects())
    for name, number in types.most_common(LONGEST_LIST):
        yield f"{name:<40} {number:>10}\n"
