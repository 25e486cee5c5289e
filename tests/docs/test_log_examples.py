"""The log lines that the documentation shows are such as the service writes."""

import json
import re
from pathlib import Path

from autopush.api.request_log import RequestLog
from autopush.api.responses import ErrorResponses, storage_refusal
from autopush.net.http_messages import Request
from autopush.telemetry import logs
from autopush.webpush.errors import PushError
from autopush.webpush.tokens import EndpointTokens, KeyRing, new_key
from keytables import Unavailable
from support.paths import ROOT

PAGE = (ROOT / "docs" / "operations.md").read_text("utf-8")
VARYING = {"Timestamp", "Hostname", "Pid", "request_id", "python_version"}


def written(path: Path, *, human: bool) -> str:
    """The line about a refusal, as the page describes it."""
    logs.configure(output=str(path), human=human, background=False, version="2.0")
    tokens = EndpointTokens(KeyRing([new_key()]), "https://push.example")
    requests = RequestLog(tokens, ErrorResponses("https://push.example/errors"), str)
    headers = {"user-agent": "app/1"}
    request = Request("POST", "/v1/fcm/app/registration", "", headers, "192.0.2.7")
    try:
        raise storage_refusal(Unavailable("gone")) from Unavailable("gone")
    except PushError as refusal:
        requests.refused(request, refusal)
    logs.shutdown()
    return path.read_text()


def test_the_line_in_json_is_one_that_is_written(tmp_path: Path) -> None:
    [example] = re.findall(r'```json\n(\{"Timestamp".*?)```', PAGE, re.DOTALL)
    shown, line = json.loads(example), json.loads(written(tmp_path / "log", human=False))
    shown_fields, fields = shown.pop("Fields"), line.pop("Fields")
    for left, right in ((shown, line), (shown_fields, fields)):
        assert left.keys() == right.keys()
        for name in left.keys() - VARYING:
            assert left[name] == right[name]


def test_the_line_in_text_is_one_that_is_written(tmp_path: Path) -> None:
    [example] = re.findall(r"```text\n\S+Z (WARNING .*) …\n```", PAGE)
    assert re.match(rf"\S+Z {re.escape(example)} ", written(tmp_path / "log", human=True))
