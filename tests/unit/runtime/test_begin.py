"""How a driver begins on a run whose pipeline was edited: nothing is removed before the run is accepted, and what an
edit has discarded goes whoever comes to it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rekindle.api.settings import RekindleSettings
from rekindle.core import actions as act
from rekindle.core import events as ev
from rekindle.core.graph import ExecutionGraph
from rekindle.core.ids import ExecutionAttemptID
from rekindle.core.options import BlocklistOptions, FailoverOptions, SpeculationOptions
from rekindle.pipeline import FileSink, Pipeline
from rekindle.pipeline.graph import PipelineGraph
from rekindle.runtime.errors import Fenced, PipelineMisuse, StoreRefused
from rekindle.runtime.job_master import JobMaster
from rekindle.runtime.journal import Journal, Record
from rekindle.runtime.layout import RunLayout
from rekindle.runtime.loops.activation_log import Activation, ActivationLog
from rekindle.runtime.loops.loops import begin_anew, forget_all
from rekindle.runtime.loops.progress import ProgressOfLoops
from rekindle.runtime.observer import Observer
from rekindle.runtime.open_run import OpenRun, open_run
from rekindle.runtime.state import RunState
from rekindle.runtime.store import Store
from rekindle.runtime.task import sealed

LAYOUT = RunLayout(1)
OPTIONS = ev.OptionsGiven(SpeculationOptions(), FailoverOptions(), BlocklistOptions(), ())


class Actor:
    """Releases, and does nothing else."""

    def __init__(self, state: RunState) -> None:
        self._state = state
        self.asked: list[act.Action] = []

    def do(self, action: act.Action) -> None:
        self.asked.append(action)
        if isinstance(action, act.Release):
            self._state.committed.release(action.vertex)


class Edited:
    """a -> b -> d, pointwise throughout, on a store: no Spark, so tests tell the core what Spark would have made."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.store = Store.at(root / "store").prepare()

    def graph(self, *, partitions: int = 5, name: str = "b", out: str = "out", more: bool = False) -> PipelineGraph:
        pipeline = Pipeline("p", default_partitions=2)
        pipeline.source(name="a", partitions=partitions, partition_by="id")(lambda spark: spark)
        pipeline.stage(name=name, pointwise=True)(lambda a: a)
        readers: dict[str, Any] = {"b": lambda b: b, "b2": lambda b2: b2}
        pipeline.sink(FileSink(str(self.root / out), mode="error"), name="d", pointwise=True)(readers[name])
        if more:
            pipeline.sink(str(self.root / "more"), name="c", pointwise=True)(lambda a: a)
        return pipeline.build()

    def driver(self, **edit: Any) -> JobMaster:
        """With what a driver begins with, and nothing else: a whole one needs a Spark session."""
        graph = self.graph(**edit)
        run = self.opened(graph)
        assert run.facts.first_graph is not None
        core = ExecutionGraph(
            run.facts.first_graph,
            speculation=SpeculationOptions(),
            failover=FailoverOptions(),
            blocklist=BlocklistOptions(),
        )
        master = JobMaster.__new__(JobMaster)
        schemas, plans = dict(run.facts.schemas), dict(run.facts.plans)
        master.state = RunState(graph, RekindleSettings(), run, core, None, None, schemas, plans)  # type: ignore[arg-type]
        master._observer, master._actor = Observer(master.state), Actor(master.state)  # type: ignore[assignment]
        master._options, master._attempt = OPTIONS, run.facts.drivers + 1
        master._exchange = SimpleNamespace(tell=lambda now: None)  # type: ignore[assignment]
        master._sources = SimpleNamespace(read=lambda: ())  # type: ignore[assignment]
        master._loops = SimpleNamespace(progress=ProgressOfLoops())  # type: ignore[assignment]
        return master

    def opened(self, graph: PipelineGraph) -> OpenRun:
        run = open_run(
            self.store,
            graph,
            volumes=1,
            lease_seconds=1.0,
            history=10,
            takeover=True,
            reruns_changed=True,
            say=lambda _: None,
        )
        run.lease.release()
        return run

    def make(self, master: JobMaster, *stages: str) -> None:
        """All partitions of these stages are committed and told."""
        for stage in stages:
            master.state.schemas[stage] = "{}"
            master.state.note("StagePlanned", stage=stage, schema="{}", values="v")
            for task in master.state.core.execution_vertices(stage):
                self.commit(stage, task.id.subtask, task.version)
            now = 10.0
            master.state.committed.scan(stage)
            for task in master.state.core.execution_vertices(stage):
                attempt = ExecutionAttemptID(task.id, task.executions[0].attempt_id.attempt)
                master.state.see(ev.AttemptDeployed(attempt, "n", now), now)
                master.state.see(ev.AttemptFinished(attempt, now, ev.PartitionOutput(1, 100, "x", "n")), now)
        master._flush()

    def commit(self, stage: str, partition: int, version: int) -> None:
        path = f"{LAYOUT.data(stage, partition)}/{attempt(partition, version)}/part"
        self.store.put_if_absent(path, b"x" * 100)
        files = [{"path": path, "bytes": 100, "footer": None, "content": None}]
        fields = {"stage": stage, "partition": partition, "version": version, "task": 1, "writer": "w", "rows": 1}
        more = {"bytes": 100, "digest": "x", "files": files, "seconds": 1.0, "finishedAt": 10.0}
        text = sealed({"format": 1, **fields, **more})
        self.store.put_if_absent(LAYOUT.manifest(stage, partition, version), text.encode())

    def stored(self, stage: str) -> list[str]:
        return self.store.names(LAYOUT.data(stage, 0))


def attempt(partition: int, version: int) -> str:
    return f".attempt-p{partition:05d}-v{version:04d}-x"


@pytest.fixture
def edited(tmp_path: Path) -> Edited:
    """The first driver has made `a` and `b`, and was lost."""
    edited = Edited(tmp_path)
    first = edited.driver()
    first._start()
    edited.make(first, "a", "b")
    return edited


@pytest.mark.requirement("S7-17")
def test_an_edit_that_is_refused_has_removed_nothing_and_may_be_undone(edited):
    (edited.root / "taken").mkdir()
    (edited.root / "taken" / "file").touch()
    with pytest.raises(PipelineMisuse, match="taken exists already"):
        edited.driver(name="b2", out="taken")._start()
    assert edited.stored("b") == [attempt(one, 1) for one in range(5)]
    again = edited.driver()
    again._start()
    assert again.state.core.is_finished("b")
    assert edited.stored("b") == [attempt(one, 1) for one in range(5)]


@pytest.mark.requirement("S7-17")
def test_what_an_edit_has_discarded_goes_when_the_journal_tells_of_the_edit(edited):
    edited.driver(name="b2")._start()
    assert edited.stored("b") == []
    assert edited.stored("a") == [attempt(one, 1) for one in range(5)]


@pytest.mark.requirement("S7-17")
def test_a_driver_that_another_has_followed_removes_nothing_of_what_it_would_discard(edited):
    late = edited.driver(name="b2")
    edited.driver()._start()
    with pytest.raises(Fenced):
        late._start()
    assert edited.stored("b") == [attempt(one, 1) for one in range(5)]


@pytest.mark.requirement("S7-17")
def test_what_a_driver_did_not_come_to_remove_the_next_one_does(edited, monkeypatch):
    """Of a stage that begins anew: what has been made since stays, and partitions that it has no more go too."""
    killed = edited.driver(partitions=3)
    with monkeypatch.context() as patched:
        patched.setattr(JobMaster, "_remove_discarded", lambda self: None)
        killed._start()
    edited.make(killed, "a")
    assert edited.stored("a") == sorted(
        [*(attempt(one, 1) for one in range(5)), *(attempt(one, 2) for one in range(3))]
    )
    for _ in range(2):
        edited.driver(partitions=3)._start()
        assert edited.stored("a") == [attempt(one, 2) for one in range(3)]
        assert edited.stored("b") == []


def test_what_a_new_driver_is_answered_to_an_edit_is_told(edited):
    """`a` was released when nobody needed it any more, and a new stage reads it."""
    second = edited.driver()
    second._start()
    edited.make(second, "d")
    assert edited.stored("a") == []
    for _ in range(2):  # the first of these drivers dies before it writes anything
        master = edited.driver(more=True)
    master._start()
    told = [one for one in journal(edited) if one.get("action") == "Restart"]
    assert [one["cause"] for one in told if ["a", 0] in one["vertices"]] == ["the pipeline was edited"]
    assert isinstance(master._actor, Actor)
    assert any(isinstance(action, act.Restart) for action in master._actor.asked)


@pytest.mark.requirement("S7-17")
def test_a_run_whose_newest_segments_are_gone_is_not_told_of_an_edit(edited):
    """The segments may be restored, and the edit undone."""
    edited.commit("d", 0, 7)
    master = edited.driver(name="b2")
    with pytest.raises(StoreRefused, match="newest segments are gone") as refused:
        master._start()
    master._abandon(refused.value)
    assert [one["note"] for one in journal(edited) if one.get("note") in ("PipelineChanged", "RunFailed")] == [
        "RunFailed"
    ]
    assert len(edited.stored("b")) == 5


def test_at_the_end_all_goes_that_was_ever_stored(edited):
    master = edited.driver(name="b2")
    master._start()
    edited.store.put_if_absent(f"{LAYOUT.data('b', 0)}/{attempt(0, 1)}/late", b"of a task that nobody could end")
    master.state.graph = PipelineGraph("p", ())
    master._end(act.Finish())
    assert edited.stored("b") == []


def test_the_space_that_counts_is_that_of_what_is_there_and_of_use(edited):
    """Else a run whose edit has discarded results would be refused by its storeLimit, and each one that follows."""
    assert stored_bytes(edited.driver()) == 1000
    fewer = edited.driver(partitions=3)
    fewer._start()
    assert fewer.state.stored_bytes() == 0
    edited.make(fewer, "a")
    assert fewer.state.stored_bytes() == 300
    edited.make(fewer, "b")
    assert fewer.state.stored_bytes() == 600
    assert stored_bytes(edited.driver(partitions=3)) == 600


def stored_bytes(master: JobMaster) -> int:
    master._start()
    return master.state.stored_bytes()


def journal(edited: Edited) -> list[Record]:
    return Journal(edited.store, LAYOUT, "a reader").replay()


def test_what_loops_have_made_goes_with_the_run(edited):
    layout = RunLayout(1, volumes=2)
    names = [f"{layout.loop('a', 'of')}/{what}" for what in ("activations/1", "rows/x")]
    names += [f"volume-1/{name}" for name in names]
    for name in names:
        edited.store.put_if_absent(name, b"")
    forget_all(edited.store, layout)
    assert not any(map(edited.store.exists, names))


def test_a_loop_that_is_asked_for_again_begins_anew_and_another_does_not(edited):
    logs = {one: ActivationLog(edited.store, f"{LAYOUT.loop(one, 'of')}/activations", "x") for one in ("a", "a-b")}
    for log in logs.values():
        log.append(Activation(ended=True))
    begin_anew(edited.store, LAYOUT, "a", "y")
    found = {name: list(ActivationLog(edited.store, log._folder, "z").take_over()) for name, log in logs.items()}
    assert found == {"a": [], "a-b": [Activation(ended=True)]}
