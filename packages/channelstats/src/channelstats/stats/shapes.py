"""Small frames as dictionaries of the document; large ones become `json_text`.

Rule: keys are text, and their order is that of the frame.
"""

from collections.abc import Mapping

import polars as pl

Pair = list[int]
"""Messages and words, in that order."""


def pairs(frame: pl.DataFrame, key: str) -> dict[str, Pair]:
    """{key: [m, w]}"""
    return {str(name): [m, w] for name, m, w in frame.select(key, "m", "w").iter_rows()}


def numbers(frame: pl.DataFrame, key: str) -> dict[str, int]:
    """{key: n}"""
    return dict(frame.select(key, "n").iter_rows())


def per_thousand(found: Mapping[str, int], words: int) -> dict[str, float]:
    """Rates per 1000 words; 0 over no words."""
    return {name: 1000 * n / words if words else 0.0 for name, n in found.items()}
