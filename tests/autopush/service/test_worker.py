"""What one worker does with errors that nobody caught."""

import asyncio
from functools import partial
from pathlib import Path

from autopush.service.worker import report_loop_error
from autopush.telemetry import logs

SECRET = "0123456789abcdef0123456789abcdef"


def crash(_uaid: str) -> None:
    raise RuntimeError("a defect")


async def test_an_error_on_the_loop_is_logged_without_the_arguments_of_its_callback(
    tmp_path: Path,
) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(report_loop_error)
    logs.configure(output=str(tmp_path / "log"))
    loop.call_soon(partial(crash, SECRET))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    logs.shutdown()
    text = (tmp_path / "log").read_text()
    assert "a defect" in text
    assert SECRET not in text
