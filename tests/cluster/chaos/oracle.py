"""What must hold of a pipeline that has gone through faults, by its store, its journal and the cluster."""

from __future__ import annotations

import json
from collections import Counter

from rekindle.core import actions as act
from rekindle.core.events import OptionsGiven
from rekindle.core.graph import ExecutionGraph
from rekindle.core.job_graph import JobGraph
from rekindle.runtime.facts import RunFacts, fold
from rekindle.runtime.journal import Journal
from rekindle.runtime.layout import RunLayout, parse_manifest_name, run_numbers, segment_numbers
from rekindle.runtime.store import Store
from tests.cluster.chaos.subject import VOLUMES, Subject


def check(subject: Subject) -> dict[str, int]:
    """Raises AssertionError with what is wrong; else counts, for the record."""
    seen = subject.app.driver() is not None  # a driver that is deleted just after its end has no log any more
    if seen:
        assert subject.app.said("right") == [True], f"{subject}: the sums are wrong\n{subject.app.tell()}"
    store = subject.store()
    assert store is not None, f"{subject} has no store"
    runs = run_numbers(store)
    assert runs, f"{subject} has no run"
    found = Counter(seen=int(seen), harmed=len(subject.harmed), runs=len(runs))
    for number in runs:  # a driver that is killed after the end of its run is followed by one that begins another
        found += _check_run(subject, store, RunLayout(number, VOLUMES))
    return dict(found)


def _check_run(subject: Subject, store: Store, layout: RunLayout) -> Counter[str]:
    writers = check_writers(store, layout)
    facts = fold(Journal(store, layout, "oracle").replay())
    assert facts.finished, f"{subject}: run {layout.number} has not finished, by its journal"
    assert subject.graph is not None, f"{subject} has never told of its job"
    graph, again = replay(subject.graph, facts)
    assert not (again and not subject.harmed), f"{subject}: nothing was lost, and yet {again} was made again"
    check_manifests(store, layout, graph)
    return Counter(drivers=facts.drivers, writers=writers, again=len(again))


def check_writers(store: Store, layout: RunLayout) -> int:
    """How many drivers have written the journal; raises AssertionError where one did after its successor."""
    order: list[str] = []
    for number in segment_numbers(store, layout):
        data = store.get(layout.segment(number))
        assert data is not None
        writer = json.loads(data.splitlines()[0])["writer"]
        if writer not in order:
            order.append(writer)
        assert order[-1] == writer, f"segment {number} is {writer}'s, whose successor had begun to write"
    return len(order)


def replay(job_graph: JobGraph, facts: RunFacts) -> tuple[ExecutionGraph, set[str]]:
    """The job at its end, and the stored stages that had finished and were, in part, made again."""
    options = next(event for event, _ in facts.events if isinstance(event, OptionsGiven))
    graph = ExecutionGraph(
        job_graph, speculation=options.speculation, failover=options.failover, blocklist=options.blocklist
    )
    stored = set(filter(job_graph.is_stored, job_graph.order))
    done, again = set[str](), set[str]()
    for event, now in facts.events:
        done |= {name for name in stored if graph.is_finished(name)}
        restarts = [one for one in graph.handle(event, now) if isinstance(one, act.Restart)]
        again |= done & {vertex.vertex for restart in restarts for vertex in restart.vertices}
    return graph, again


def check_manifests(store: Store, layout: RunLayout, graph: ExecutionGraph) -> None:
    """Exactly one version of each partition is visible: that of the job, and none is newer."""
    for name in filter(graph.job_graph.is_stored, graph.job_graph.order):
        there = list(filter(None, map(parse_manifest_name, store.names(layout.manifests(name)))))
        for task in graph.execution_vertices(name):
            versions = [version for partition, version in there if partition == task.id.subtask]
            assert task.version in versions, f"{task.id}: version {task.version} is not there, {versions} are"
            assert max(versions) == task.version, f"{task.id}: {versions} are there, it is at {task.version}"
