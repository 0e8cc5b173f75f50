"""The order in which a round ends: first the journal, then whatever cannot be undone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rekindle.core import events as ev
from rekindle.core.graph import ExecutionGraph
from rekindle.core.ids import ResultPartitionID
from rekindle.core.options import BlocklistOptions, FailoverOptions, SpeculationOptions
from rekindle.pipeline import Pipeline
from rekindle.pipeline.translation import to_job_graph
from rekindle.runtime import job_master as module
from rekindle.runtime.errors import Fenced, StoreRefused
from rekindle.runtime.facts import RunFacts
from rekindle.runtime.job_master import JobMaster
from rekindle.runtime.layout import RunLayout
from rekindle.runtime.state import RunState
from rekindle.runtime.store import Store
from tests.unit.core.dsl import Run, job


def job_master(append) -> JobMaster:
    """With what `_flush` uses and nothing else: a whole one needs a Spark session."""
    master = JobMaster.__new__(JobMaster)
    journal = SimpleNamespace(append=append)
    state = SimpleNamespace(
        actions=[], records=[{"a": "record"}], when_durable=[], open_run=SimpleNamespace(journal=journal)
    )
    master.state = state  # type: ignore[assignment]
    return master


@pytest.mark.requirement("S7-17", "S5-13")
def test_a_driver_whose_successor_has_begun_removes_nothing():
    def fenced(records):
        raise Fenced("another driver has taken this store", remedy="end this process")

    removed: list[str] = []
    master = job_master(fenced)
    master.state.when_durable.append(lambda: removed.append("losers"))
    with pytest.raises(Fenced):
        master._flush()
    assert removed == []


def test_what_is_to_be_removed_is_once_the_journal_says_why():
    seen: list[str] = []
    master = job_master(lambda records: seen.append("journal"))
    master.state.when_durable.append(lambda: seen.append("removed"))
    master._flush()
    master.state.records = [{"a": "record"}]
    master._flush()
    assert seen == ["journal", "removed", "journal"]


@pytest.mark.requirement("S1-4")
def test_slow_tasks_are_looked_for_also_while_the_clock_has_been_set_back(monkeypatch):
    """Else nobody would look before the clock shows again what it showed."""
    clock = SimpleNamespace(passed=0.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.passed))
    asked: list[float] = []

    def find_slow(core, now):
        asked.append(now)
        return ev.SlowTasksFound(())

    master = JobMaster.__new__(JobMaster)
    master._detector, master._check_interval = SimpleNamespace(find_slow=find_slow), 1.0
    master._next_check, master._slow_before = 0.0, False
    master.state = SimpleNamespace(core=None)  # type: ignore[assignment]
    for clock.passed, shown in [(100.0, 5000.0), (100.5, 5000.5), (101.0, 1400.0), (102.0, 1401.0)]:
        master._detect(shown)
    assert asked == [5000.0, 1400.0, 1401.0]


@pytest.fixture
def cut_off(tmp_path) -> JobMaster:
    """The driver of two stages `a` and `b`, of which only `a` was begun, in its second version."""
    pipeline = Pipeline("p", default_partitions=1)
    pipeline.source(name="a")(lambda spark: spark)
    pipeline.sink("out", name="b")(lambda a: a)
    graph = pipeline.build()
    speculation = SpeculationOptions()
    job_graph = to_job_graph(graph, speculation)
    core = ExecutionGraph(job_graph, speculation=speculation, failover=FailoverOptions(), blocklist=BlocklistOptions())
    core.handle(ev.JobSubmitted(), 1.0)
    core.handle(ev.PartitionsLost((ResultPartitionID("a", 0), ResultPartitionID("a.map", 0)), "gone"), 2.0)
    run = SimpleNamespace(store=Store.at(tmp_path).prepare(), layout=RunLayout(1))
    master = JobMaster.__new__(JobMaster)
    master.state = RunState(graph, None, run, core, None, None, {}, {})  # type: ignore[arg-type]
    return master


@pytest.mark.requirement("S7-17")
@pytest.mark.parametrize(("stage", "version"), [("a", 3), ("b", 1)])
def test_a_journal_that_does_not_tell_of_what_is_stored_has_lost_its_end(cut_off, stage, version):
    run = cut_off.state.open_run
    run.store.put_if_absent(run.layout.manifest(stage, 0, version), b"{}")
    with pytest.raises(StoreRefused, match=rf"(?s)newest segments are gone .*version {version} of {stage}/0.*restore"):
        cut_off._check_journal_tells_of(cut_off.state.graph.stage(stage))


@pytest.mark.parametrize("version", [1, 2])
def test_a_journal_tells_of_older_versions_too(cut_off, version):
    run = cut_off.state.open_run
    run.store.put_if_absent(run.layout.manifest("a", 0, version), b"{}")
    assert cut_off.state.core.execution_vertices("a")[0].version == 2
    cut_off._check_journal_tells_of(cut_off.state.graph.stage("a"))


def begun_anew(tmp_path, run: Run) -> JobMaster:
    """The driver that finds this history in the journal, and nothing gone of what is stored."""
    journal = SimpleNamespace(append=lambda records: journaled.extend(records))
    journaled: list[Any] = []
    facts = RunFacts([(event, now) for event, now, _ in run.journal])
    opened = SimpleNamespace(
        store=Store.at(tmp_path).prepare(),
        layout=RunLayout(1),
        facts=facts,
        journal=journal,
        identity="1",
        edit=[],
        writer="w",
        seen=journaled,
    )
    master = JobMaster.__new__(JobMaster)
    core = ExecutionGraph(run.first_job_graph, **run.options)
    master.state = RunState(SimpleNamespace(stages=()), None, opened, core, None, None, {}, {})  # type: ignore[arg-type]
    master._observer = SimpleNamespace(see_what_is_gone=lambda now: None)  # type: ignore[assignment]
    master._actor = SimpleNamespace(do=lambda action: None)  # type: ignore[assignment]
    master._options, master._attempt = ev.OptionsGiven(**run.options, speculative=()), 2
    master._start()
    return master


def restarts(master: JobMaster) -> list[tuple[str, list[list[object]]]]:
    """What the journal's readers are told."""
    seen = master.state.open_run.seen  # type: ignore[attr-defined]
    return [(one["cause"], one["vertices"]) for one in seen if one.get("action") == "Restart"]


def half_done() -> Run:
    run = Run(job("a => b => c")).submit()
    run.finish("a")
    run.finish("b")
    return run


EDITED = ("the pipeline was edited", [["b", 0], ["c", 0]])


@pytest.mark.parametrize(
    "later", [[], [job("a => b*2 => c", "b => d")], [job("a => b*2 => c", "b => d"), job("a => b*2 => c")]]
)
def test_what_edits_in_a_row_have_answered_is_seen_to_by_the_next_driver(tmp_path, later):
    """Each of them was made by somebody who had no driver run: it was refused, or ended before it had begun."""
    run = half_done()
    run.becomes(job("a => b*2 => c"))
    for graph in later:
        run.becomes(graph)
    master = begun_anew(tmp_path, run)
    assert restarts(master) == [EDITED]
    assert master.state.resumed is not None
    assert master.state.resumed.restart == {"b": ((0, 0),), "c": ((0, 0),)}
    assert master.state.resumed.why == (EDITED[0],)


def test_what_a_driver_has_seen_to_is_not_told_again(tmp_path):
    run = half_done()
    run.becomes(job("a => b*2 => c"))
    run.loses_driver()
    run.becomes(job("a => b*2 => c", "b => d"))
    master = begun_anew(tmp_path, run)
    assert [cause for cause, _ in restarts(master)] == ["the driver was lost: driver 2 took over"]
