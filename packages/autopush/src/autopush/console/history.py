"""The last hour, as numbers of ten seconds each: what the lines of the console show."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

INTERVAL: Final = 10.0
"""Seconds between two samples."""
SAMPLES: Final = 360
"""An hour."""


def quantile(bounds: Sequence[float], counts: Sequence[float], share: float) -> float:
    """The value below which that share of a histogram lies, interpolated within its bucket; 0.0 for
    an empty one. `counts`: one more than `bounds`, for what is larger than all of them, which
    counts as the last one.
    """
    below, wanted = 0.0, share * sum(counts)
    if not wanted:
        return 0.0
    lower = 0.0
    for bound, count in zip(bounds, counts, strict=False):
        if count and below + count >= wanted:
            return lower + (bound - lower) * (wanted - below) / count
        below += count
        lower = bound
    return lower


class History:
    """`samples`: each with its time (epoch seconds), oldest first; of fixed number and size.

    `rates`: counters, kept as what they grew by in a second. `levels`: kept as they are.
    `times`: histograms by name, each with its bounds, kept as the value that 95 % are below.
    """

    def __init__(
        self,
        rates: Sequence[str],
        levels: Sequence[str],
        times: Mapping[str, Sequence[float]],
        *,
        samples: int = SAMPLES,
    ) -> None:
        self.names = (*rates, *levels, *times)
        self.samples: deque[tuple[float, ...]] = deque(maxlen=samples)
        self._rates, self._levels, self._times = rates, levels, times
        self._before: Mapping[str, float] = {}
        self._histograms: Mapping[str, Sequence[float]] = {}
        self._sampled_at = 0.0

    def add(
        self,
        at: float,
        now: float,
        numbers: Mapping[str, float],
        histograms: Mapping[str, Sequence[float]],
    ) -> None:
        """Take a sample. `at`: epoch seconds; `now`: monotonic. The first one only begins: what it
        counts may have come at any time.
        """
        seconds = now - self._sampled_at
        if self._before and seconds > 0:
            self.samples.append(
                (
                    round(at),
                    *(
                        round(max(0.0, numbers[each] - self._before[each]) / seconds, 3)
                        for each in self._rates
                    ),
                    *(round(numbers[each], 4) for each in self._levels),
                    *(
                        round(quantile(bounds, self._grown(name, histograms[name]), 0.95), 5)
                        for name, bounds in self._times.items()
                    ),
                )
            )
        self._before, self._histograms, self._sampled_at = dict(numbers), dict(histograms), now

    def _grown(self, name: str, counts: Sequence[float]) -> list[float]:
        before = self._histograms[name]
        return [max(0.0, now - then) for now, then in zip(counts, before, strict=True)]

    def document(self) -> dict[str, object]:
        """For JSON: `columns` names the numbers of each of the `rows`."""
        return {
            "interval": INTERVAL,
            "columns": ["at", *self.names],
            "rows": [list(sample) for sample in self.samples],
        }
