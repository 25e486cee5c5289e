import asyncio
import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopush.telemetry import logs
from autopush.telemetry.log_format import REDACTED, SECRET_FIELDS, human_line, json_line
from autopush.telemetry.log_writer import REPORT_EVERY, LogWriter

ENVELOPE = {"hostname": "box", "logger": "Autopush-2.0"}


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    return tmp_path / "autopush.log"


def configure(path: Path, level: str = "debug", **more: Any) -> None:
    logs.configure(
        output=str(path), level=level, version="2.0", hostname="box", clock=lambda: 1.5, **more
    )


def records(path: Path) -> list[dict[str, Any]]:
    assert logs.flush()
    return [json.loads(line) for line in path.read_text().splitlines()]


# The shape of a record


def test_a_record_has_the_shape_of_mozlog(log_file: Path) -> None:
    configure(log_file)
    logs.get("connection").info("Session", uaid_hash="ab", channels=["c"], connection_time=3)
    assert records(log_file) == [
        {
            "Timestamp": 1_500_000_000,
            "Type": "autopush:connection",
            "Severity": 5,
            "EnvVersion": "2.0",
            "Logger": "Autopush-2.0",
            "Hostname": "box",
            "Pid": os.getpid(),
            "Fields": {
                "message": "Session",
                "level": "info",
                "uaid_hash": "ab",
                "channels": ["c"],
                "connection_time": 3,
            },
        }
    ]


def test_errors_have_severity_3_and_all_else_5(log_file: Path) -> None:
    configure(log_file)
    log = logs.get("x")
    for write in (log.debug, log.info, log.warning, log.error, log.critical):
        write("m")
    assert [record["Severity"] for record in records(log_file)] == [5, 5, 5, 3, 3]


def test_client_info_and_timings_are_flattened(log_file: Path) -> None:
    configure(log_file)
    logs.get("x").info("m", client_info={"user_agent": "u"}, timings={"route_time": 1.5})
    fields = records(log_file)[0]["Fields"]
    assert fields == {"message": "m", "level": "info", "user_agent": "u", "route_time": 1.5}


def test_an_exception_brings_its_traceback(log_file: Path) -> None:
    configure(log_file)
    log = logs.get("x")
    try:
        raise LookupError("lost")
    except LookupError:
        log.exception("while handled")
    log.exception("given", error=ValueError("bad"), uaid_hash="ab")
    first, second = (record["Fields"]["exception"] for record in records(log_file))
    assert first.startswith("Traceback")
    assert first.endswith("LookupError: lost")
    assert second == "ValueError: bad"


# Secrets


@pytest.mark.parametrize("name", [*sorted(SECRET_FIELDS), "Authorization", "Crypto-Key"])
@pytest.mark.parametrize("human", [True, False])
def test_secrets_are_redacted_wherever_they_stand(log_file: Path, name: str, human: bool) -> None:
    configure(log_file, human=human)
    fields: dict[str, object] = {name: "geheim", "client_info": {name: "geheim"}}
    fields["nested"] = {"deep": {name: ["geheim"]}}
    logs.get("x").info("m", **fields)
    assert logs.flush()
    text = log_file.read_text()
    assert "geheim" not in text
    assert REDACTED in text


def test_redaction_leaves_the_callers_dict_alone(log_file: Path) -> None:
    configure(log_file)
    headers = {"authorization": "vapid"}
    logs.get("x").info("m", headers=headers)
    assert headers == {"authorization": "vapid"}


def test_debug_lines_of_the_aws_library_which_tell_of_credentials_are_never_written(
    log_file: Path,
) -> None:
    configure(log_file, level="debug")
    logging.getLogger("botocore.credentials").debug("Found credentials: geheim")
    logging.getLogger("elsewhere").debug("said")
    assert [record["Fields"]["message"] for record in records(log_file)] == ["said"]


# Levels


def test_nothing_below_the_level_is_written_and_the_level_can_change(log_file: Path) -> None:
    configure(log_file, level="warning")
    log = logs.get("x")
    log.info("no")
    assert not log.is_on("info")
    logs.set_level("debug")
    assert log.is_on("debug")
    log.debug("yes")
    assert [record["Fields"]["message"] for record in records(log_file)] == ["yes"]


def test_a_call_below_the_level_does_not_look_at_its_fields(log_file: Path) -> None:
    class Untouchable:
        def __repr__(self) -> str:
            raise AssertionError

    configure(log_file, level="info")
    logs.get("x").debug("m", value=Untouchable())
    assert records(log_file) == []


def test_before_configure_and_after_shutdown_logs_are_silent(
    log_file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    logs.shutdown()
    logs.get("x").critical("early")
    configure(log_file)
    logs.shutdown()
    logs.get("x").critical("late")
    assert log_file.read_text() == ""
    assert capfd.readouterr() == ("", "")


def test_output_none_writes_nothing(capfd: pytest.CaptureFixture[str], log_file: Path) -> None:
    logs.configure(output="none")
    logs.get("x").critical("m")
    assert capfd.readouterr() == ("", "")


def test_a_file_is_appended_to(log_file: Path) -> None:
    for _ in range(2):
        configure(log_file)
        logs.get("x").info("m")
    assert len(records(log_file)) == 2


def test_a_file_that_cannot_be_opened_keeps_the_old_output(log_file: Path) -> None:
    configure(log_file)
    with pytest.raises(OSError, match="Not a directory"):
        configure(log_file / "below")
    logs.get("x").info("m")
    assert len(records(log_file)) == 1


# Everything ends up here


def test_the_standard_library_logs_here_too(log_file: Path) -> None:
    configure(log_file, level="info")
    logging.getLogger("some.library").warning("%d of %s", 3, "x")
    logging.getLogger("some.library").debug("no")
    (first,) = records(log_file)
    assert (first["Type"], first["Fields"]["message"]) == ("python:some.library", "3 of x")
    assert first["Fields"]["level"] == "warning"


def test_a_record_whose_arguments_do_not_fit_is_logged_as_it_is(log_file: Path) -> None:
    configure(log_file)
    ours = [h for h in logging.getLogger().handlers if type(h).__module__ == logs.__name__]
    assert len(ours) == 1
    record = logging.LogRecord("library", logging.ERROR, "f", 1, "%d", ("no number",), None)
    ours[0].handle(record)
    assert records(log_file)[0]["Fields"]["message"] == "%d"


async def test_a_task_nobody_waited_for_is_reported(log_file: Path) -> None:
    configure(log_file)

    async def fail() -> None:
        raise LookupError("lost")

    task = asyncio.ensure_future(fail())
    await asyncio.wait([task])
    del task
    fields = [record["Fields"] for record in records(log_file) if record["Severity"] == 3]
    assert fields[0]["message"].startswith("Task exception was never retrieved")
    assert fields[0]["exception"].endswith("LookupError: lost")


# A line always comes out

Anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.just("\ud800")
    | st.builds(object)
    | st.frozensets(st.text()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=10,
)


@given(st.text(), st.dictionaries(st.text() | st.just("event") | st.just("self"), Anything))
def test_whatever_is_logged_one_line_of_each_form_comes_out(
    message: str, fields: dict[str, Any]
) -> None:
    event = {**fields, "event": message, "_level": "info", "_at": 0.0, "_source": "x"}
    for line in (json_line, human_line):
        written = line({**event}, ENVELOPE)
        assert written.endswith(b"\n")
        if line is json_line or "exception" not in fields:
            assert written.count(b"\n") == 1


def test_field_names_that_collide_do_not_fail_the_caller(log_file: Path) -> None:
    configure(log_file)
    logs.get("x").info("m", self=1)
    logs.get("x").info("n", event=1, level=2)
    first, second = (record["Fields"] for record in records(log_file))
    assert (first["message"], second["message"]) == ("m", "n")


def test_text_for_people_is_one_line_and_a_traceback_below(log_file: Path) -> None:
    configure(log_file, human=True)
    logs.get("web").info("odd\nmessage", a="b c", n=2, evil="\x1b[31m")
    logs.get("web").exception("failed", error=ValueError("first\nsecond"))
    assert logs.flush()
    assert log_file.read_text() == (
        "1970-01-01T00:00:01.500Z INFO web: odd\\nmessage a='b c' n=2 evil='\\x1b[31m'\n"
        "1970-01-01T00:00:01.500Z ERROR web: failed\n"
        "    ValueError: first\n"
        "    second\n"
    )


# The writer


class Pipe:
    """A pipe that nobody reads until `read_lines`."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()

    def read_until(self, ending: bytes) -> bytes:
        data = b""
        while not data.endswith(ending):
            data += os.read(self.reader, 65_536)
        return data

    def fill(self) -> int:
        os.set_blocking(self.writer, False)
        size = 0
        try:
            while True:
                size += os.write(self.writer, b"." * 4096)
        except BlockingIOError:
            os.set_blocking(self.writer, True)
        return size


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    os.close(pipe.reader)


def lost_line(number: int) -> bytes:
    return b"lost %d\n" % number


@pytest.mark.timeout(20)
def test_a_blocked_pipe_costs_lines_not_time(pipe: Pipe) -> None:
    now = [100.0]
    writer = LogWriter(pipe.writer, lost_line, capacity=100, monotonic=lambda: now[0], owned=True)
    size = pipe.fill()
    writer.start()
    for number in range(1000):
        writer.write(b"line %d\n" % number)
    assert 899 <= writer.lost <= 900
    assert not writer.flush(0.01)
    data = b""
    while len(data) < size:
        data += os.read(pipe.reader, size - len(data))
    assert writer.flush(5)
    writer.write(b"end\n")
    assert writer.flush(5)
    lines = pipe.read_until(b"end\n").splitlines()
    reports = [line for line in lines if line.startswith(b"lost")]
    assert reports == [b"lost %d" % writer.lost]
    assert len(lines) - 2 + writer.lost == 1000
    writer.close(5)


def test_reports_of_lost_lines_are_rare(tmp_path: Path) -> None:
    path = tmp_path / "log"
    now = [0.0]
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    writer = LogWriter(descriptor, lost_line, capacity=0, monotonic=lambda: now[0], owned=True)
    writer.start()
    for step in (0.0, REPORT_EVERY / 2, REPORT_EVERY / 2, REPORT_EVERY - 1):
        now[0] += step
        writer.write(b"x\n")
        assert writer.flush(5)
    assert path.read_bytes() == b"lost 1\nlost 2\n"
    writer.close(5)
    assert path.read_bytes() == b"lost 1\nlost 2\nlost 1\n"


@pytest.mark.timeout(20)
def test_a_full_pipe_does_not_block_a_process_without_the_thread(pipe: Pipe) -> None:
    size = pipe.fill()
    writer = LogWriter(pipe.writer, lost_line, owned=True)
    writer.write(b"a\n")
    assert (writer.lost, writer.in_background) == (1, False)
    assert len(os.read(pipe.reader, size)) == size
    writer.write(b"b\n")
    assert pipe.read_until(b"b\n") == b"lost 1\nb\n"
    writer.close(0)


def test_a_closed_pipe_loses_lines_and_nothing_else(tmp_path: Path) -> None:
    reader, descriptor = os.pipe()
    os.close(reader)
    writer = LogWriter(descriptor, lost_line, owned=True)
    writer.start()
    writer.write(b"a\n")
    assert writer.flush(5)
    assert writer.lost == 1
    writer.close(5)


def test_lines_of_several_processes_do_not_mix_in_a_pipe(pipe: Pipe) -> None:
    # Each write to a pipe is at most PIPE_BUF bytes, which POSIX makes atomic.
    sizes: list[int] = []
    write: Callable[[int, memoryview], int] = os.write

    class Spy:
        def __call__(self, descriptor: int, data: memoryview) -> int:
            sizes.append(len(data))
            return write(descriptor, data)

    writer = LogWriter(pipe.writer, lost_line, owned=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", Spy())
        writer.start()
        for number in range(400):
            writer.write(b"%099d\n" % number)
        assert writer.flush(5)
    writer.close(5)
    assert sum(sizes) == 40_000
    assert max(sizes) <= 4096
    assert len(sizes) < 400


PROGRAM = """
from autopush.telemetry import logs
logs.configure(output="stdout", human=False)
log = logs.get("x")
for number in range(500):
    log.info("m", number=number)
{ending}
"""


@pytest.mark.parametrize("ending", ["", "raise SystemExit(0)", "import sys; sys.exit()"])
def test_what_was_logged_is_written_before_the_process_ends(ending: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(ending=ending)], capture_output=True, check=True
    )
    assert done.stderr == b""
    numbers = [json.loads(line)["Fields"]["number"] for line in done.stdout.splitlines()]
    assert numbers == list(range(500))


@pytest.mark.timeout(30)
def test_a_reader_that_stopped_reading_does_not_keep_the_process_from_ending() -> None:
    program = PROGRAM.format(ending="").replace("range(500)", "range(5000)")
    program += "\nlogs.shutdown(timeout=0.2)\n"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.wait(timeout=20) == 0


def test_the_logger_name_carries_program_and_version(log_file: Path) -> None:
    logs.configure(output=str(log_file), program="Autoendpoint", version="2.1")
    logs.get("x").info("m")
    record = records(log_file)[0]
    assert record["Logger"] == "Autoendpoint-2.1"
    assert re.fullmatch(r"\S+", record["Hostname"])
