"""What a test has logged."""

import json
from pathlib import Path
from typing import Any

from autopush.telemetry import logs


class LogFile:
    """Takes all logs from now to the end of the test, as JSON or as text. `options`: more of
    `logs.configure`.
    """

    def __init__(
        self, folder: Path, *, level: str = "info", human: bool = False, **options: Any
    ) -> None:
        self.path = folder / "log"
        logs.configure(output=str(self.path), level=level, human=human, background=False, **options)

    @property
    def text(self) -> str:
        return self.path.read_text("utf-8")

    @property
    def records(self) -> list[dict[str, Any]]:
        """All lines of the service as JSON, without those of libraries."""
        found = [json.loads(line) for line in self.text.splitlines()]
        return [record for record in found if record["Type"].startswith("autopush:")]

    @property
    def all_fields(self) -> list[dict[str, Any]]:
        """The fields of all these lines."""
        return [record["Fields"] for record in self.records]

    def fields(self, event: str) -> list[dict[str, Any]]:
        """The fields of each line of that event at level info, without event and level."""
        return [
            {name: value for name, value in fields.items() if name not in ("message", "level")}
            for fields in self.all_fields
            if fields["message"] == event and fields["level"] == "info"
        ]
