"""Faults of the machine in the processes of a service: a disk that fails, a clock that was set."""

import errno
import os
from collections import Counter
from mmap import mmap
from pathlib import Path

from support.injected.sitecustomize import CLOCK, CONTROL, FAULT, OPERATIONS

_INJECTED = Path(__file__).with_name("injected")


class MachineFaults:
    """`folder` must not be on a disk that a test fills. All processes with `variables` have these
    faults.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / "faults"
        path.write_bytes(bytes(CLOCK.size + FAULT.size * len(OPERATIONS)))
        self._log = Path(f"{path}-injected")
        self._log.touch()
        with path.open("r+b") as file:
            self._control = mmap(file.fileno(), 0)
        others = os.environ.get("PYTHONPATH", "")
        self.variables = {
            CONTROL: str(path),
            "PYTHONPATH": os.pathsep.join(filter(None, (str(_INJECTED), others))),
        }

    def fail(self, operation: str, number: int, chance: float = 1.0) -> None:
        """Have calls of that operation fail with that errno; 0 for none."""
        at = CLOCK.size + FAULT.size * OPERATIONS.index(operation)
        FAULT.pack_into(self._control, at, number, round(1000 * chance))

    @property
    def clock_offset(self) -> float:
        """Seconds by which the wall clock is ahead."""
        offset: float = CLOCK.unpack_from(self._control)[0]
        return offset

    @clock_offset.setter
    def clock_offset(self, seconds: float) -> None:
        CLOCK.pack_into(self._control, 0, seconds)

    def heal(self) -> None:
        """The disk works again, and the clock is right."""
        for operation in OPERATIONS:
            self.fail(operation, 0)
        self.clock_offset = 0.0

    @property
    def injected(self) -> Counter[str]:
        """How many calls have failed, by operation and name of the errno."""
        calls = self._log.read_bytes()
        return Counter(
            f"{OPERATIONS[operation]} {errno.errorcode[number]}"
            for operation, number in zip(calls[::2], calls[1::2], strict=True)
        )
