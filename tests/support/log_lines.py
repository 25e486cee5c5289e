"""What a test has logged."""

import json
from pathlib import Path
from typing import Any

from autopush.telemetry import logs


class LogFile:
    """Takes all logs from now to the end of the test, as JSON or as text."""

    def __init__(self, folder: Path, *, human: bool = False) -> None:
        self._path = folder / "log"
        logs.configure(output=str(self._path), human=human, background=False)

    @property
    def text(self) -> str:
        return self._path.read_text("utf-8")

    def fields(self, event: str) -> list[dict[str, Any]]:
        """The fields of each line of that event, as JSON."""
        found = [json.loads(line)["Fields"] for line in self.text.splitlines()]
        return [
            {name: value for name, value in fields.items() if name not in ("message", "level")}
            for fields in found
            if fields["message"] == event and fields["level"] == "info"
        ]
