"""Tables as files: CSV for spreadsheets, Parquet for notebooks.

Rule: one file for each table. A text that a spreadsheet would run as a formula gets a quote before
it in CSV.
"""

import io
from collections.abc import Mapping
from typing import Final

import polars as pl

_FORMULA: Final = "^[=+\\-@\\t\\r]"


def csv_files(frames: Mapping[str, pl.DataFrame]) -> dict[str, bytes]:
    """Files by name."""
    return {f"{name}.csv": _csv(frame).encode() for name, frame in frames.items()}


def _csv(frame: pl.DataFrame) -> str:
    texts = pl.col(pl.String)
    risky = texts.str.contains(_FORMULA)
    guarded = pl.when(risky).then(pl.lit("'") + texts).otherwise(texts).name.keep()
    return frame.with_columns(guarded).write_csv()


def parquet_files(frames: Mapping[str, pl.DataFrame]) -> dict[str, bytes]:
    """Files by name."""
    return {f"{name}.parquet": _parquet(frame) for name, frame in frames.items()}


def _parquet(frame: pl.DataFrame) -> bytes:
    file = io.BytesIO()
    frame.write_parquet(file)
    return file.getvalue()
