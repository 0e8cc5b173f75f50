"""`rekindle run` on an application of `apps/`, with faults, and what came of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

APPS = Path(__file__).with_name("apps")
MANIFEST = """\
apiVersion: rekindle.dev/v1beta2
kind: SparkApplication
metadata: {{name: {name}}}
spec:
  type: Python
  sparkVersion: "4"
  mainApplicationFile: {main}
  arguments: {arguments}
  executor: {{instances: 3, cores: 1, memory: 700m}}
  speculation: {{enabled: true, checkInterval: 500ms, {speculation}}}
  recovery: {{volumes: {volumes}}}
{more}"""


@dataclass(frozen=True)
class Outcome:
    """How a run ended. `report` is what `--report` wrote."""

    code: int
    out: str
    err: str
    report: dict[str, Any]

    def stage(self, name: str) -> dict[str, Any]:
        return next(stage for stage in self.report["stages"] if stage["name"] == name)

    def restarted(self) -> dict[str, int]:
        """Job vertex -> restarted subtasks, over all recoveries."""
        total: dict[str, int] = {}
        for recovery in self.report["recoveries"]:
            for name, count in recovery["restarted"].items():
                total[name] = total.get(name, 0) + count
        return total


class Application:
    """An application with a store of its own in `folder`; `run` may be called again to go on."""

    def __init__(
        self,
        folder: Path,
        main: str,
        *arguments: str,
        volumes: int = 1,
        speculation: str = "baselineLowerBound: 5s",
        place: str | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        """`place` is the store's, a folder unless given; `more` is put into the manifest's spec."""
        self.folder, self.out = folder, folder / "out"
        self.place = place or str(folder / "store")
        self.manifest = folder / "app.yaml"
        text = MANIFEST.format(
            name=Path(main).stem.replace("_", "-"),
            main=APPS / main,
            arguments=json.dumps([*arguments, str(self.out)]),
            volumes=volumes,
            speculation=speculation,
            more="".join(f"  {name}: {json.dumps(value)}\n" for name, value in (more or {}).items()),
        )
        self.manifest.write_text(text)

    @property
    def store(self) -> Path:
        return self.folder / "store"

    def command(self, *options: str) -> list[str]:
        report = str(self.folder / "report.json")
        run = [sys.executable, "-m", "rekindle.cli", "run", str(self.manifest), "--store", self.place]
        return [*run, "--report", report, *options]

    def run(self, *faults: str, options: tuple[str, ...] = ()) -> Outcome:
        """Run to the end, with `--chaos` faults."""
        chaos = [part for fault in faults for part in ("--chaos", fault)]
        ended = subprocess.run(
            self.command(*options, *chaos),
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
            env=os.environ,
        )
        return self.outcome(ended.returncode, ended.stdout, ended.stderr)

    def outcome(self, code: int, out: str, err: str) -> Outcome:
        path = self.folder / "report.json"
        return Outcome(code, out, err, json.loads(path.read_text()) if path.exists() else {})

    def published(self, query: str) -> list[tuple[Any, ...]]:
        """Rows of a query over `sink`, the files that were published."""
        with duckdb.connect() as connection:
            return connection.sql(query.format(sink=f"read_parquet('{self.out}/*.parquet')")).fetchall()


def chain_is_right(application: Application) -> bool:
    """Whether the sums of `apps/chain.py` are what arithmetic says."""
    rows = 40_000
    expected = {(key, 2 * sum(range(key, rows, 101)), len(range(key, rows, 101))) for key in range(101)}
    return set(application.published("select k, total, n from {sink}")) == expected
