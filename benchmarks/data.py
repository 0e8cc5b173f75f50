"""TPC-H data by the PyPI package tpcgen-cli, made once for each scale factor."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

TABLES = ("lineitem", "orders", "partsupp", "supplier", "nation")
FILES = 6
"""Files of a table, but for the smallest."""


def tpch_data(scale: float, cache: Path) -> Path:
    """The folder with the tables at a scale factor, a folder of Parquet files each; made when it is not there.

    Raises:
        SystemExit: tpcgen-cli is missing or failed.
    """
    folder = cache / f"tpch-{scale:g}"
    if folder.exists():
        return folder
    aside = cache / f"{folder.name}.new"
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    command = [str(_generator()), "tpch", "parquet", "--quiet", "--scale-factor", f"{scale:g}"]
    command += ["--parts", str(FILES), "--tables", ",".join(TABLES), "--output-dir", str(aside)]
    if subprocess.run(command, check=False).returncode != 0:
        sys.exit(f"bench: {' '.join(command)} failed")
    aside.rename(folder)
    return folder


def _generator() -> Path:
    """The program, which pip puts beside the interpreter."""
    beside = Path(sys.executable).with_name("tpcgen-cli")
    found = beside if beside.exists() else shutil.which("tpcgen-cli")
    if found is None:
        sys.exit("bench: tpcgen-cli is missing; pip install -e '.[bench]'")
    return Path(found)
