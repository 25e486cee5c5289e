"""The log check: each call leaves exactly one error in the logs."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autopush.net.http_messages import Response
from autopush.telemetry import logs
from autopush.web.app import log_check
from autopush.webpush.errors import PushError


@pytest.fixture
def log_file(tmp_path: Path) -> Iterator[Path]:
    level = logging.getLogger().level
    path = tmp_path / "autopush.log"
    logs.configure(output=str(path), level="debug", background=False)
    yield path
    logs.shutdown()
    logging.getLogger().setLevel(level)


def records(path: Path) -> list[dict[str, Any]]:
    logs.shutdown()
    return [json.loads(line) for line in path.read_text().splitlines()]


def document(response: Response) -> dict[str, Any]:
    assert response.status == 418
    assert response.content_type == "application/json"
    answered: dict[str, Any] = json.loads(response.body)
    assert (answered["code"], answered["errno"]) == (418, 999)
    return answered


@pytest.mark.parametrize("kind", ["", "error", "Error", "errors", "some-error", "errorcrit"])
def test_an_error_is_logged_once_and_the_response_is_418(log_file: Path, kind: str) -> None:
    answered = document(log_check(kind))
    assert (answered["error"], answered["message"]) == ("Test Error", "ERROR:Success")
    (record,) = records(log_file)
    assert record["Fields"]["level"] == "error"
    assert record["Fields"]["message"] == "Test Error Message"
    assert record["Fields"]["status_code"] == 418


@pytest.mark.parametrize("kind", ["crit", "CRIT", "critical"])
def test_an_exception_is_logged_once_with_its_traceback(log_file: Path, kind: str) -> None:
    answered = document(log_check(kind))
    assert (answered["error"], answered["message"]) == ("Test Failure", "FAILURE:Success")
    (record,) = records(log_file)
    assert record["Fields"]["message"] == "Test Critical Message"
    assert "LogCheckError: LogCheck" in json.dumps(record)
    assert "Traceback" in json.dumps(record)


@pytest.mark.parametrize("kind", ["other", "e", "%"])
def test_an_unknown_kind_is_404_with_errno_0_and_logs_nothing(log_file: Path, kind: str) -> None:
    with pytest.raises(PushError) as caught:
        log_check(kind)
    assert (caught.value.status, caught.value.errno) == (404, 0)
    assert records(log_file) == []


def test_without_logs_the_response_is_the_same() -> None:
    assert document(log_check("crit"))["message"] == "FAILURE:Success"
