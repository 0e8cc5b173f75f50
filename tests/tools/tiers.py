"""Runs the tests in tiers and says how long each took against its budget.

    python -m tests.tools.tiers                      every tier, in order
    python -m tests.tools.tiers unit -k detector     one tier, with more arguments for pytest

A tier that fails does not stop the next ones (FAILFAST=1 does); the exit status is 1 when any failed. The
last line is the sum of all tests, such as `123 passed, 0 failed`. A tier over its budget does not fail, for
a busy machine is not a bug: its long cases belong under `@pytest.mark.soak`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.tools import class_archive
from tests.tools.junit import Counts, read_counts
from tests.tools.machine import limits

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(".build")  # all paths are relative to ROOT, where main() goes first
_END_SECONDS = 60.0
BUDGETS = {"set-up": 15.0, "core": 3.0, "Spark": 15.0, "faults": 15.0, "cluster": 30.0}  # minutes


@dataclass(frozen=True)
class Need:
    """What the tests of a tier stand on: modules with their arguments."""

    make: tuple[str, ...]
    """Has it made, and says so; instant where it is there."""

    is_there: tuple[str, ...] = ()
    """Exit code 0 where it is."""

    drop: tuple[str, ...] = ()
    """Ends it, if it was not there before."""

    build: tuple[str, ...] = ()
    """Builds what takes minutes on a new machine: done beside the tiers that come before."""


@dataclass(frozen=True)
class Tier:
    """One step of `make test`: a make target that checks, or a folder of tests for pytest."""

    name: str
    budget: str
    folder: str | None = None
    needs: tuple[Need, ...] = ()
    jvm_options: Callable[[], str] = str
    """For all JVMs of its tests, asked for when what it needs is there."""

    parts: tuple[tuple[str, ...], ...] = ((),)
    """Arguments for pytest, of each of its runs: one after the other, they have all tests that are not `soak`."""

    @property
    def junits(self) -> list[Path]:
        """What each of its runs has counted."""
        return [BUILD / "junit" / f"{name}.xml" for name in self._names()]

    @property
    def rules(self) -> list[Path]:
        """Which rules its last full runs showed; see tests/tools/requirements.py."""
        return [BUILD / "requirements" / f"{name}.json" for name in self._names()]

    def _names(self) -> list[str]:
        return [f"{self.name}-{number}" if number else self.name for number in range(len(self.parts))]

    def commands(self, arguments: Sequence[str] = ()) -> list[list[str]]:
        """`arguments`: for one run with a selection of its own, instead of all parts."""
        if self.folder is None:
            return [["make", "--no-print-directory", self.name]]
        command = [sys.executable, "-m", "pytest", self.folder, "-q", "--durations=5"]
        if arguments:  # a selection says nothing about the rules that the rest of the tier shows
            together = () if len(self.parts) > 1 else self.parts[0]
            return [[*command, f"--junitxml={self.junits[0]}", *together, *arguments]]
        return [
            [*command, f"--junitxml={junit}", *part, f"--rules-report={rules}"]
            for part, junit, rules in zip(self.parts, self.junits, self.rules, strict=True)
        ]


BUCKET, CLASSES = Need(("tests.tools.bucket",)), Need(("tests.tools.class_archive",))
CONNECTOR = Need(("tests.tools.connector",))
CLUSTER = Need(("tests.kind", "up"), ("tests.kind", "status"), ("tests.kind", "down"), ("tests.kind", "build"))
AT_ONCE = ("--numprocesses=auto", "--dist=worksteal")
BESIDE = ("-m", "beside and not soak", "--numprocesses=3", "--dist=worksteal")
"""More than there are cores, for most of the time these wait."""

TIERS = (
    Tier("lint", "core"),
    Tier("types", "core"),
    Tier("layers", "core"),
    Tier("unit", "core", "tests/unit", parts=(AT_ONCE,)),
    Tier("spark", "Spark", "tests/spark", (BUCKET, CLASSES), class_archive.options),
    Tier("faults", "faults", "tests/faults", (CLASSES,), class_archive.options),
    Tier(
        "cluster",
        "cluster",
        "tests/cluster",
        (BUCKET, CONNECTOR, CLUSTER),
        parts=(BESIDE, ("-m", "not beside and not soak")),  # the rights that all have used are looked at last
    ),
)


@dataclass(frozen=True)
class Outcome:
    tier: Tier
    seconds: float
    ok: bool
    counts: Counts = field(default_factory=Counts)


def run_tier(tier: Tier, arguments: Sequence[str] = ()) -> Outcome:
    """Run one tier with its output passed through."""
    print(f"\n== {tier.name} ==", flush=True)
    for file in (*tier.junits, *(() if arguments else tier.rules)):
        file.unlink(missing_ok=True)
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")}
    began = time.monotonic()
    with ExitStack() as stack:
        for need in tier.needs:
            stack.enter_context(needed(need, environment))
        if options := tier.jvm_options():
            environment["JAVA_TOOL_OPTIONS"] = f"{options} {environment.get('JAVA_TOOL_OPTIONS', '')}".strip()
        commands = tier.commands(arguments)
        statuses = [subprocess.run(command, env=environment, check=False).returncode for command in commands]
    counts = sum((_counted(*run) for run in zip(statuses, tier.junits, strict=False)), Counts())
    return Outcome(tier, time.monotonic() - began, not any(statuses), counts if tier.folder else Counts())


def _counted(status: int, junit: Path) -> Counts:
    """Of a run of pytest."""
    counts = read_counts(junit)
    if status and not counts.failed:  # nothing collected, a crash, a skip that CI forbids
        counts += Counts(failed=1)
    return counts


@contextmanager
def needed(need: Need, environment: dict[str, str]) -> Iterator[None]:
    """Have what a tier needs while it runs. Where it cannot be made, the tests themselves say so."""
    was_there = _succeeds(need.is_there, environment, quiet=True)
    _succeeds(need.make, environment)
    try:
        yield
    finally:
        if not was_there:
            _succeeds(need.drop, environment)


@contextmanager
def built_beside(tiers: Sequence[Tier]) -> Iterator[None]:
    """What tiers but the first stand on is built meanwhile, on what CPU time the others leave."""
    needs = [
        need for tier in tiers[1:] for need in tier.needs if need.build and not _succeeds(need.is_there, quiet=True)
    ]
    log = BUILD / "built-beside.log"
    log.parent.mkdir(exist_ok=True)
    with log.open("wb") as out:
        commands = [["nice", "-n", "19", sys.executable, "-m", *need.build] for need in needs]
        at_work = [
            subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
            for command in commands
        ]
        try:
            yield
        finally:
            for need, process in zip(needs, at_work, strict=True):
                if process.poll() is None:  # no tier has waited for it
                    os.killpg(process.pid, signal.SIGTERM)
                    process.wait(timeout=_END_SECONDS)
                _succeeds(need.drop, quiet=True)  # what it started on the way, unless a tier has dropped it


def _succeeds(module: tuple[str, ...], environment: dict[str, str] | None = None, *, quiet: bool = False) -> bool:
    """Run a module; whether it ends well. False for none."""
    if not module:
        return False
    out = subprocess.DEVNULL if quiet else None
    command = [sys.executable, "-m", *module]
    return subprocess.run(command, env=environment, check=False, stdout=out, stderr=out).returncode == 0


def run_all(tiers: Iterable[Tier], run: Callable[[Tier], Outcome], failfast: bool) -> list[Outcome]:
    outcomes = []
    for tier in tiers:
        outcomes.append(run(tier))
        if failfast and not outcomes[-1].ok:
            break
    return outcomes


def report(outcomes: Sequence[Outcome], setup_seconds: float | None) -> list[str]:
    """The table of minutes against budgets, what failed, and the sum on the last line."""
    spent = {} if setup_seconds is None else {"set-up": setup_seconds}
    for outcome in outcomes:
        spent[outcome.tier.budget] = spent.get(outcome.tier.budget, 0.0) + outcome.seconds
    lines = ["", f"{'tier':<10} {'minutes':>8} {'budget':>7}  made of"]
    for name, seconds in spent.items():
        parts = [f"{o.tier.name} {o.seconds:.0f} s" for o in outcomes if o.tier.budget == name]
        note = ", ".join(parts) or "the last cold one"
        over = "   OVER BUDGET: move long cases to make soak" if seconds / 60 > BUDGETS[name] else ""
        lines.append(f"{name:<10} {seconds / 60:>8.1f} {BUDGETS[name]:>7.0f}  {note}{over}")
    failed = [outcome.tier.name for outcome in outcomes if not outcome.ok]
    total = sum((outcome.counts for outcome in outcomes), Counts())
    lines.append("")
    if failed:
        lines.append(f"failed tiers: {', '.join(failed)}")
    if total.skipped:
        lines.append(f"skipped: {total.skipped}")
    lines.append(f"{total.passed} passed, {total.failed} failed")
    return lines


def read_setup_seconds() -> float | None:
    try:
        return float((Path(sys.prefix) / "setup-seconds").read_text())
    except (OSError, ValueError):
        return None


def chosen(arguments: Sequence[str]) -> Sequence[Tier]:
    if not arguments:
        return TIERS
    tiers = [tier for tier in TIERS if tier.name == arguments[0]]
    if not tiers:
        sys.exit(f"no tier {arguments[0]!r}; there are {', '.join(tier.name for tier in TIERS)}")
    return tiers


def main(arguments: Sequence[str]) -> int:
    os.chdir(ROOT)
    here = [f"on this machine: {line}" for line in limits()]
    tiers, pytest_arguments = chosen(arguments), arguments[1:]
    print(*here, sep="\n", end="\n" if here else "")
    with built_beside(tiers):
        outcomes = run_all(
            tiers, lambda tier: run_tier(tier, pytest_arguments), failfast=os.environ.get("FAILFAST") == "1"
        )
    setup_seconds = None if arguments else read_setup_seconds()
    print(*here, *report(outcomes, setup_seconds), sep="\n", flush=True)
    return 0 if all(outcome.ok for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
