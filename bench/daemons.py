"""The two kinds of node as two processes: an endpoint daemon, a connection daemon and the link
between them. A measure sees them as one server, whose CPU time is the sum of both.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from bench import machine
from bench.server import Server


class Daemons(Server):
    """Both on the same core and over the same embedded store. `command` starts the one-process
    service; its last word is replaced.
    """

    def __init__(
        self, command: Sequence[str], options: Mapping[str, str], folder: Path, core: int
    ) -> None:
        common = {name: value for name, value in options.items() if name != "--direct-delivery"}
        (folder / "endpoint").mkdir()
        self._endpoint = Server(
            [*command[:-1], "endpoint"],
            {**options, "--data": str(folder / "data")},
            folder / "endpoint",
            core,
            ports={"--port": "0"},
        )
        super().__init__(
            [*command[:-1], "connection"],
            common,
            folder,
            core,
            ports={"--port": "0", "--router-port": "0"},
        )

    def start(self, limit: float = 30.0) -> None:
        self._endpoint.start(limit)
        self._options["--endpoint-url"] = f"http://{self.host}:{self._endpoint.port}"
        super().start(limit)

    def cpu_ns(self) -> int:
        return super().cpu_ns() + self._endpoint.cpu_ns()

    def shares(self) -> tuple[int, int]:
        """CPU nanoseconds of the endpoint and of the connection node."""
        return self._endpoint.cpu_ns(), machine.cpu_ns(self.pid)

    def stop(self, limit: float = 30.0) -> None:
        self._endpoint.stop(limit)
        super().stop(limit)

    def kill(self) -> None:
        self._endpoint.kill()
        super().kill()

    def complaints(self) -> str:
        return f"{self._endpoint.complaints()}\n{super().complaints()}"
