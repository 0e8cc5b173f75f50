"""Whose a store is, and whether what is in it may be gone on with."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rekindle.core.events import JobGraphChanged, JobSubmitted, RerunRequested, to_record
from rekindle.core.job_graph import JobGraph
from rekindle.core.options import SpeculationOptions
from rekindle.pipeline import Pipeline
from rekindle.pipeline.graph import PipelineGraph
from rekindle.pipeline.translation import to_job_graph
from rekindle.runtime.errors import Fenced, StoreRefused
from rekindle.runtime.journal import Journal, Record, note
from rekindle.runtime.layout import IDENTITY, LEASE, RunLayout, run_numbers
from rekindle.runtime.open_run import OpenRun, begin_anew, open_run
from rekindle.runtime.store import Store

LAYOUT = RunLayout(1)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.at(tmp_path / "store").prepare()


@pytest.fixture
def graph() -> PipelineGraph:
    pipeline = Pipeline("p")
    pipeline.source(name="a")(lambda spark: spark)
    pipeline.sink("out", name="b")(lambda a: a)
    return pipeline.build()


def opened(
    store: Store,
    graph: PipelineGraph,
    *,
    volumes: int = 1,
    history: int = 10,
    reruns_changed: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> OpenRun:
    run = open_run(
        store,
        graph,
        volumes=volumes,
        lease_seconds=1.0,
        history=history,
        takeover=True,
        reruns_changed=reruns_changed,
        say=say,
    )
    run.lease.release()
    return run


@pytest.mark.requirement("S7-17")
def test_results_whose_journal_is_gone_are_not_taken_for_those_of_a_new_run(store, graph):
    """Their pipeline may have been another: nothing tells any more."""
    opened(store, graph)
    store.put_if_absent(LAYOUT.manifest("a", 0, 1), b"{}")
    opened(store, graph)
    shutil.rmtree(store.folder / LAYOUT.journal)
    for _ in range(2):
        with pytest.raises(StoreRefused, match=r"(?s)journal of run 1 is gone from .*results of that run.*--fresh"):
            opened(store, graph)


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"{cut",
        b"\xff",
        b"[]",
        b"[" * 100_000,
        b'{"format": 1}',
        b'{"format": 1, "application": "p", "volumes": 1}',
        b'{"format": 1, "application": "p", "id": "x"}',
    ],
)
def test_a_damaged_identity_is_refused_by_name(store, graph, damaged):
    opened(store, graph)
    (store.folder / IDENTITY).write_bytes(damaged)
    with pytest.raises(StoreRefused, match=rf"(?s){IDENTITY} is damaged: .*restore it"):
        opened(store, graph)


def test_any_flipped_bit_of_an_identity_is_refused_or_changes_nothing_that_is_stored(store, graph):
    opened(store, graph)
    content = (store.folder / IDENTITY).read_bytes()
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1 << place % 7
        (store.folder / IDENTITY).write_bytes(changed)
        try:
            run = opened(store, graph)
        except StoreRefused:
            continue
        assert run.layout == LAYOUT
        assert run.facts.fingerprints


def test_a_run_that_has_stored_nothing_needs_no_journal(store, graph):
    opened(store, graph)
    shutil.rmtree(store.folder / LAYOUT.journal)
    assert opened(store, graph).layout == LAYOUT


def test_who_is_stopped_while_a_store_is_forgotten_can_forget_it_again(store, graph, monkeypatch):
    opened(store, graph)
    store.put_if_absent(LAYOUT.manifest("a", 0, 1), b"{}")
    delete, deleted = Store.delete, list[str]()

    def stopped_at_the_second(self: Store, name: str) -> None:
        if len(deleted) == 1:
            raise KeyboardInterrupt
        deleted.append(name)
        delete(self, name)

    with monkeypatch.context() as stopped:
        stopped.setattr(Store, "delete", stopped_at_the_second)
        with pytest.raises(KeyboardInterrupt):
            begin_anew(store)
    assert store.exists(IDENTITY)
    begin_anew(store)
    assert not store.holds("runs")
    assert not store.exists(IDENTITY)


def test_what_cannot_be_removed_is_not_called_forgotten(store, graph, monkeypatch):
    opened(store, graph)
    store.put_if_absent(LAYOUT.manifest("a", 0, 1), b"{}")
    monkeypatch.setattr(shutil, "rmtree", lambda path, ignore_errors: None)  # as for a folder of another user's
    with pytest.raises(StoreRefused, match=r"(?s)not all of .*/runs could be removed.*with the rights of who wrote it"):
        begin_anew(store)
    assert store.exists(IDENTITY)


@pytest.mark.parametrize("volumes", [1, 2])
def test_the_record_of_old_runs_goes_and_with_it_what_they_left(store, graph, volumes):
    for _ in range(5):
        run = opened(store, graph, volumes=volumes, history=3)
        store.put_if_absent(f"{run.layout.data('a', 1)}/left-behind", b"x")
        run.journal.append([note(1.0, "RunFinished")])
    assert run_numbers(store) == [3, 4, 5]
    files = {str(path.relative_to(store.folder)) for path in store.folder.rglob("left-behind")}
    assert files == {f"{RunLayout(number, volumes).data('a', 1)}/left-behind" for number in (3, 4, 5)}


def test_a_run_that_is_not_finished_is_gone_on_with_and_costs_no_other_its_record(store, graph):
    opened(store, graph, history=1).journal.append([note(1.0, "RunFinished")])
    for _ in range(3):
        assert opened(store, graph, history=2).layout.number == 2
    assert run_numbers(store) == [1, 2]


@pytest.mark.requirement("S7-17")
def test_a_driver_that_wakes_in_a_run_whose_record_is_gone_learns_that_it_is_over(store, graph):
    """The names of its next segments are free again."""
    sleeper = opened(store, graph)
    sleeper.journal.check_kept()
    for _ in range(2):
        opened(store, graph, history=1).journal.append([note(1.0, "RunFinished")])
    opened(store, graph, history=1)
    sleeper.journal.append([note(2.0, "SinkPublishing")])
    with pytest.raises(Fenced, match=r"run 1 of .* is long over"):
        sleeper.journal.check_kept()


@pytest.mark.requirement("S7-17")
def test_no_run_gets_the_number_of_one_that_was_forgotten(store, graph):
    """A driver or task of that one may still be about: it can only write names that nobody reads."""
    before = opened(store, graph)
    for _ in range(2):
        begin_anew(store)
    after = opened(store, graph)
    assert (before.layout.number, after.layout.number) == (1, 2)
    assert opened(store, graph).layout.number == 2
    store.put_if_absent(before.layout.manifest("a", 0, 1), b"{}")
    assert after.committed.scan("a") == []
    with pytest.raises(Fenced, match=r"run 1 of .* is long over"):
        before.journal.check_kept()


def test_a_damaged_number_of_the_first_run_is_refused_by_name(store, graph):
    store.replace("first-run", b"\xff")
    with pytest.raises(StoreRefused, match=r"(?s)first-run is damaged.*restore it"):
        opened(store, graph)


def chain(
    limit: int, partitions: int = 4, *, more: bool = False, pointwise: bool = False, promises: bool | None = None
) -> PipelineGraph:
    """a -> b -> d, where b's code has a limit in it."""
    pipeline = Pipeline("p", default_partitions=4)
    pipeline.source(name="a", partition_by="id", deterministic=promises)(lambda spark: spark)
    if pointwise:
        pipeline.stage(name="b", pointwise=True)(lambda a: a.limit(limit))
    else:
        pipeline.stage(name="b", partition_by="id", partitions=partitions)(lambda a: a.limit(limit))
    if more:
        pipeline.sink("other", name="c", pointwise=True)(lambda a: a)
    pipeline.sink("out", name="d", pointwise=True)(lambda b: b)
    return pipeline.build()


def submitted(run: OpenRun) -> None:
    """As the first driver's journal begins; `a`, `b` and `d` are planned."""
    notes = [note(1.0, "StagePlanned", stage=stage, schema="{}", values="v") for stage in "abd"]
    run.journal.append([{"t": 1.0, "kind": "event", "event": to_record(JobSubmitted())}, *notes])


@pytest.mark.requirement("S7-5")
def test_a_stage_whose_code_has_changed_is_to_be_made_again_until_a_driver_has_seen_to_it(store):
    said: list[str] = []
    opened(store, chain(1))
    for _ in range(2):  # the first of these drivers dies before it does anything
        run = opened(store, chain(2), reruns_changed=True, say=said.append)
        assert run.facts.reruns == {"b": "its code has changed"}
    told = "the pipeline has changed since this run began: b (other code); what was made of b is made again too, "
    assert said == [f"{told}unless it comes out the same"] * 2
    run.journal.append(run.edit)
    assert opened(store, chain(2)).facts.reruns == {"b": "its code has changed"}
    run.journal.append([{"t": 0.0, "kind": "event", "event": to_record(RerunRequested("b", "its code has changed"))}])
    assert opened(store, chain(2)).facts.reruns == {}
    with pytest.raises(
        StoreRefused, match=r"(?s)changed since this run began: b \(other code\)\n.*changedStages: rerun"
    ):
        opened(store, chain(1))


@pytest.mark.parametrize(
    ("changed", "how"),
    [
        ({"partitions": 5}, "b, d (other inputs or partitions)"),
        ({"pointwise": True}, "b, d (other inputs or partitions)"),
        ({"more": True}, "c (new)"),
    ],
)
def test_other_stages_are_told_by_name_and_refused_where_nothing_is_to_be_made_again(store, changed, how):
    opened(store, chain(1))
    before = store_names(store)
    with pytest.raises(StoreRefused) as refused:
        opened(store, chain(1, **changed))
    assert f"changed since this run began: {how}" in str(refused.value)
    assert "changedStages: rerun" in refused.value.remedy
    assert store_names(store) == before
    assert opened(store, chain(1)).facts.job_graph == opened(store, chain(1)).facts.first_graph


@pytest.mark.requirement("S7-3", "S7-17")
def test_what_still_fits_an_edited_pipeline_is_kept_and_the_rest_is_discarded(store):
    """A driver that comes later sees the same, and the stage that is gone is remembered."""
    submitted(opened(store, chain(1, more=True)))
    for edited in (True, False):
        run = opened(store, chain(2, partitions=5), reruns_changed=True)
        facts = run.facts
        assert set(facts.schemas) == set(facts.plans) == {"a"}
        assert facts.reruns == {}
        assert facts.discarded == {"b", "c", "d"}
        (_, (event, _)) = facts.events
        assert isinstance(event, JobGraphChanged)
        assert facts.has_begun
        assert (facts.first_graph, facts.job_graph) == (graph_of(chain(1, more=True)), graph_of(chain(2, partitions=5)))
        assert bool(run.edit) is edited
        if edited:
            run.journal.append(run.edit)
    assert len([one for one in records(store) if one.get("note") == "PipelineChanged"]) == 1


@pytest.mark.requirement("S7-17")
def test_opening_a_run_for_an_edited_pipeline_changes_nothing_that_is_stored(store):
    """It may still be refused, and then the edit may be undone."""
    submitted(opened(store, chain(1)))
    store.put_if_absent(f"{LAYOUT.data('b', 0)}/.attempt-p00000-v0001-x/part", b"rows")
    before = store_names(store)
    assert opened(store, chain(1, partitions=5), reruns_changed=True).edit
    assert store_names(store) == before
    assert opened(store, chain(1)).facts.discarded == set()


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"limit": 1, "more": True}, "c (new)"),
        ({"limit": 1, "partitions": 5}, "b, d (other inputs or partitions)"),
        ({"limit": 2, "more": True}, "b (other code); c (new); what was made of b is made again too, unless it comes "),
    ],
)
def test_only_of_other_code_it_is_said_that_what_was_made_of_it_is_made_again(store, changed, told):
    opened(store, chain(1))
    said: list[str] = []
    opened(store, chain(**changed), reruns_changed=True, say=said.append)
    (line,) = said
    assert line.removesuffix("out the same") == f"the pipeline has changed since this run began: {told}"


def test_a_result_that_is_stored_no_more_is_discarded(store):
    def through(exchange: str) -> PipelineGraph:
        pipeline = Pipeline("p", default_partitions=1)
        pipeline.source(name="a", partition_by="id")(lambda spark: spark)
        pipeline.stage(name="b", exchange=exchange, pointwise=exchange == "blocking")(lambda a: a)
        pipeline.sink("out", name="d", partitions=1)(lambda b: b)
        return pipeline.build()

    opened(store, through("blocking"))
    assert "b" in opened(store, through("cached"), reruns_changed=True).facts.discarded


@pytest.mark.parametrize("reruns_changed", [True, False])
def test_another_promise_is_no_reason_to_refuse_a_pipeline_or_to_make_anything_again(store, reruns_changed):
    """Also where its stage is half finished: what is there stays."""
    submitted(opened(store, chain(1)))
    said: list[str] = []
    run = opened(store, chain(1, promises=True), reruns_changed=reruns_changed, say=said.append)
    assert (run.facts.job_graph, run.facts.first_graph) == (graph_of(chain(1, promises=True)), graph_of(chain(1)))
    assert (set(run.facts.schemas), run.facts.reruns, run.facts.discarded) == (set("abd"), {}, set())
    assert [one["kind"] for one in run.edit] == ["event"]
    assert said == []


def test_stages_that_are_declared_in_another_order_are_the_same_pipeline(store):
    def fork(names: str) -> PipelineGraph:
        pipeline = Pipeline("p", default_partitions=2)
        pipeline.source(name="a", partition_by="id")(lambda spark: spark)
        for name in names:
            pipeline.sink(f"out-{name}", name=name)(lambda a: a)
        return pipeline.build()

    opened(store, fork("xy"))
    assert opened(store, fork("yx")).edit == []


STAGES_CHANGED = note(2.0, "StagesChanged", stages=["b"], fingerprints={"a": "1", "b": "2", "d": "3"})


@pytest.mark.requirement("S7-17")
@pytest.mark.parametrize("more", [(), (STAGES_CHANGED,)])
@pytest.mark.parametrize("now", [{}, {"partitions": 5}, {"pointwise": True}, {"more": True}])
def test_a_run_that_an_older_version_began_is_refused_by_name_until_it_has_finished(store, more, now):
    """Its journal tells neither how its stages read each other nor, so that this version knew, what was edited."""
    begun_by_an_older_version(store, chain(1), *more)
    before = store_names(store)
    for _ in range(2):
        with pytest.raises(
            StoreRefused, match=r"(?s)run 1 of .* by an older version of rekindle.*finish it with.*--fresh"
        ):
            opened(store, chain(1, **now), reruns_changed=True)
    assert store_names(store) == before


@pytest.mark.parametrize("more", [(), (STAGES_CHANGED,)])
def test_a_run_that_an_older_version_has_finished_is_followed_by_one_of_this(store, more):
    begun_by_an_older_version(store, chain(1), *more, note(3.0, "RunFinished", stored_bytes=0))
    run = opened(store, chain(2, partitions=5))
    assert (run.layout.number, run.edit, run.facts.first_graph) == (2, [], graph_of(chain(2, partitions=5)))


def begun_by_an_older_version(store: Store, graph: PipelineGraph, *more: Record) -> None:
    """It told of a digest of the job graph instead of that itself."""
    opened(store, graph)
    (begun,) = records(store)
    assert store.folder is not None
    (store.folder / LAYOUT.segment(1)).unlink()
    told = {name: one for name, one in begun.items() if name != "graph"}
    Journal(store, LAYOUT, "older").append([{**told, "shape": "a digest"}, *more])


def records(store: Store) -> list[Record]:
    return Journal(store, LAYOUT, "a reader").replay()


def graph_of(graph: PipelineGraph) -> JobGraph:
    return to_job_graph(graph, SpeculationOptions())


def store_names(store: Store) -> set[str]:
    assert store.folder is not None
    return {str(path) for path in store.folder.rglob("*") if path.is_file() and path.name != LEASE}
