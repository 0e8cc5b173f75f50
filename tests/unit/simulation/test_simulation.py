"""Histories by the thousand: random jobs, random faults at random times, and the answer is right at the end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rekindle.core import failover, graph, losses, recovery, sparing
from rekindle.core.execution import InvariantViolation
from tests.unit.simulation import driver, spark
from tests.unit.simulation.world import Broken, World

pytestmark = pytest.mark.thorough

SEEDS = 2000
BATCHES = 10


@pytest.mark.requirement("S7-5", "S7-6", "S7-7", "S7-12", "S7-16", "S7-17", "S7-25")
@pytest.mark.parametrize("batch", range(BATCHES))
def test_whatever_happens_the_job_ends_with_rows_that_belong_together(batch):
    for seed in range(batch * SEEDS // BATCHES, (batch + 1) * SEEDS // BATCHES):
        World(seed).run()


@pytest.mark.requirement("S7-7")
def test_a_digest_of_map_outputs_spares_nobody_who_read_those_that_they_replaced():
    """s0[1] reads the outputs 0-1-2; one is lost and made again, 0-1-6, before anything is seen. Its commit is told
    with the digest of 0-1-6, then the loss; the next run makes 0-1-6, and s0[1] stays beside what is made from that.
    """
    World(104813).run()


def nothing(*arguments: Any, **options: Any) -> dict[str, set[int]]:
    return {}


def expects_nothing(self: sparing.DigestSparing, vertex: str, subtask: int, digest: str | None) -> dict[str, set[int]]:
    self._expected.get(vertex, {}).pop(subtask, None)
    return {}


MUTANTS: dict[str, tuple[type, str, Callable[..., Any]]] = {
    "consumers are left alone": (failover._Walk, "_visit_consumers", nothing),
    "missing inputs are not made again": (failover._Walk, "_visit_missing_inputs", nothing),
    "who is deterministic makes the same rows of other rows": (failover._Walk, "_any_changed", lambda *_: False),
    "a map side is awaited that nobody makes": (failover._Walk, "_will_be_made", lambda *_: True),
    "digests that differ pass": (sparing.DigestSparing, "finished", expects_nothing),
    "a lost partition is nobody's": (recovery.Recovery, "lose", nothing),
    "a lost driver loses nothing": (losses.LossHandler, "driver_lost", lambda *_: []),
    "shuffles that were made again are not told": (driver.Driver, "_map_lost", nothing),
    "what a lost driver had not looked at is believed": (driver.Driver, "_may_be_mixed", lambda *_: False),
    "a driver replays by its own options": (graph.ExecutionGraph, "_options_given", lambda *_: []),
    "cached rows that are lost are made again without a word": (spark.Spark, "_is_made_again", lambda *_: True),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_rule_that_is_broken_on_purpose_is_noticed(mutant, monkeypatch):
    where, name, broken = MUTANTS[mutant]
    monkeypatch.setattr(where, name, broken)
    with pytest.raises((Broken, InvariantViolation)):
        run_all()


def run_all() -> None:
    for seed in range(SEEDS):
        World(seed).run()


def test_a_seed_gives_the_same_history_in_every_process():
    program = "from tests.unit.simulation.world import World; w = World(7); w.run(); print(*w.driver.trace, sep='\\n')"
    root = Path(__file__).resolve().parents[3]
    told = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=root,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2")
    ]
    assert told[0] == told[1]
    assert "AttemptFinished" in told[0]
