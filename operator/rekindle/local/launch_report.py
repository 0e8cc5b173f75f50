"""`--report`: the run's report, from its journal, and what only the launcher knows."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rekindle.local.faults import Done
from rekindle.local.supervisor import Outcome
from rekindle.runtime.errors import StoreRefused
from rekindle.runtime.report import build_report
from rekindle.runtime.store import Store


def write_report(
    path: Path,
    store: Store,
    outcome: Outcome,
    core_seconds: float,
    chaos: list[Done],
    say: Callable[[str], None],
) -> None:
    """Write the report to `path`, also that of a run that failed. What goes wrong is told by `say`."""
    try:
        report = build_report(store)
        report["launcher"] = launcher_report(outcome, core_seconds, chaos)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    except StoreRefused as error:
        say(f"no report: {error}")
    except OSError as error:
        say(f"no report: {path}: {error.strerror or error}")
    else:
        say(f"report: {path}")


def launcher_report(outcome: Outcome, core_seconds: float, chaos: list[Done]) -> dict[str, Any]:
    """What the journal does not have: exit code, wall-clock and CPU seconds of this launch, its chaos."""
    return {
        "exitCode": outcome.code,
        "seconds": round(outcome.seconds, 3),
        "coreSeconds": round(core_seconds, 3),
        "drivers": outcome.drivers,
        "chaos": [{"t": one.t, "fault": one.fault, "what": one.what} for one in chaos],
    }
