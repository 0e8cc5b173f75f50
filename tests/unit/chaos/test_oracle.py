"""The oracle of chaos sees what it is there to see."""

from __future__ import annotations

from pathlib import Path

import pytest

from rekindle.core import events as ev
from rekindle.runtime.facts import RunFacts
from rekindle.runtime.journal import Journal
from rekindle.runtime.layout import RunLayout
from rekindle.runtime.store import Store
from tests.cluster.chaos.oracle import check_manifests, check_writers, replay
from tests.unit.core.dsl import Run, job

LAYOUT = RunLayout(1)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.at(tmp_path).prepare()


def journal(store: Store, writer: str) -> Journal:
    made = Journal(store, LAYOUT, writer)
    made.replay()
    return made


def test_writers_that_follow_each_other_are_counted(store):
    for writer in ("one", "one", "two"):
        journal(store, writer).append([])
    assert check_writers(store, LAYOUT) == 2


def test_a_driver_that_writes_after_its_successor_is_found(store):
    for writer in ("one", "two", "one"):
        journal(store, writer).append([])
    with pytest.raises(AssertionError, match="segment 3 is one's, whose successor had begun"):
        check_writers(store, LAYOUT)


def played(run: Run) -> RunFacts:
    """The facts of a journal of that run."""
    first = ev.OptionsGiven(run.options["speculation"], run.options["failover"], run.options["blocklist"], ())
    return RunFacts(events=[(first, 0.0), *((event, now) for event, now, _ in run.journal)])


def test_a_complete_stage_that_is_made_again_is_found():
    run = Run(job("A*2 => m", "m ~> B*2")).submit()
    run.finish("A")
    run.finish("m")
    run.finish("B[0]")
    run.loses_driver()
    assert replay(run.job_graph, played(run))[1] == set()
    run.loses("A/1")
    graph, again = replay(run.job_graph, played(run))
    assert again == {"A"}
    assert graph.inventory() == run.graph.inventory()


def finished(store: Store) -> Run:
    run = Run(job("A*2 => B")).submit()
    run.finish("A")
    run.loses("A/1")
    run.finish("A[1]")
    for partition, version in ((0, 1), (1, 1), (1, 2)):
        store.put_if_absent(LAYOUT.manifest("A", partition, version), b"")
    run.finish("B")
    store.put_if_absent(LAYOUT.manifest("B", 0, 2), b"")  # it was to read what was lost
    return run


def test_the_newest_version_of_each_partition_is_the_one_that_counts(store):
    check_manifests(store, LAYOUT, finished(store).graph)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda store: store.delete(LAYOUT.manifest("A", 1, 2)), r"A\[1\]: version 2 is not there"),
        (lambda store: store.put_if_absent(LAYOUT.manifest("A", 0, 2), b""), r"A\[0\]: \[1, 2\] are there, it is at 1"),
    ],
)
def test_a_version_that_is_not_the_jobs_is_found(store, change, said):
    run = finished(store)
    change(store)
    with pytest.raises(AssertionError, match=said):
        check_manifests(store, LAYOUT, run.graph)
