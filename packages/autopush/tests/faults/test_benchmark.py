"""The benchmark's ledger balances: every message answered 201 arrives once, also in a storm."""

import asyncio
import sys

import pytest

from support.paths import ROOT


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_the_quick_benchmark_finds_nothing_lost_or_twice() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "bench", "--quick"),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, complaints = await process.communicate()
    print(output.decode())
    assert process.returncode == 0, complaints.decode()
    assert "MISMATCH" not in complaints.decode()
