"""What a new driver needs of a journal."""

from __future__ import annotations

from typing import Any

import pytest

from rekindle.core.events import JobGraphChanged, JobSubmitted, RerunRequested, to_record
from rekindle.runtime.errors import StoreRefused
from rekindle.runtime.facts import fold, graph_record
from rekindle.runtime.journal import Record, note
from tests.unit.core.dsl import job


def stages(*names: str, **exchanges: str) -> list[dict[str, Any]]:
    return [{"name": name, "exchange": exchanges.get(name, "blocking")} for name in names]


def event(what: Any) -> Record:
    return {"t": 1.0, "kind": "event", "event": to_record(what)}


def begun(**more: Any) -> Record:
    return note(0.0, "RunStarted", application="p", fingerprints={}, stages=stages("A", "B"), **more)


BEGUN = begun(graph=graph_record(job("A => B")))


def changed(*names: str, anew: tuple[str, ...] = (), gone: tuple[str, ...] = (), **exchanges: str) -> Record:
    told = {"again": [], "anew": list(anew), "new": [], "gone": list(gone)}
    fingerprints = dict.fromkeys(names, "")
    return note(1.0, "PipelineChanged", fingerprints=fingerprints, stages=stages(*names, **exchanges), **told)


@pytest.mark.parametrize(
    ("records", "why"),
    [
        ([begun(graph=to_record(JobSubmitted()))], "the run's job graph is JobSubmitted"),
        ([begun(), event(JobGraphChanged.to(job("A => B => C")))], "the job graph changed, and it does not tell from"),
    ],
)
def test_a_journal_that_does_not_tell_its_job_graph_is_refused(records, why):
    with pytest.raises(StoreRefused, match=rf"(?s){why}.*the version of rekindle that wrote this store"):
        fold(records)


def test_a_run_of_an_older_version_can_be_read_by_whom_only_its_end_concerns():
    facts = fold(
        [begun(shape="x"), note(1.0, "StagesChanged", stages=["A"], fingerprints={}), note(2.0, "RunFinished")]
    )
    assert (facts.first_graph, facts.finished) == (None, True)


@pytest.mark.requirement("S7-17")
def test_what_was_discarded_once_is_remembered_through_later_edits():
    facts = fold([BEGUN, changed("B", "C", gone=("A",)), changed("A", "B", "C"), changed("A", "B", "C", B="cached")])
    assert facts.discarded == {"A", "B"}
    assert facts.stored == {"A", "C"}


def test_what_is_known_of_a_stage_is_forgotten_when_it_begins_anew():
    planned = [note(1.0, "StagePlanned", stage=stage, schema="{}", values="v") for stage in "AB"]
    wishes = [note(1.0, "RerunRequested", stage=stage, by="me") for stage in "AB"]
    edit = [changed("A", "B", "C", anew=("B",)), event(JobGraphChanged.to(job("A => C => B")))]
    facts = fold([BEGUN, *planned, *wishes, *edit])
    assert (set(facts.schemas), set(facts.plans), set(facts.reruns)) == ({"A"}, {"A"}, {"A"})
    facts.add([event(RerunRequested("A", "asked for by me"))])
    assert facts.reruns == {}


def test_what_subtasks_of_sources_read_is_kept_in_order():
    facts = fold(
        [
            note(1.0, "SplitsSettled", stage="events", source="f-0", subtask=1, splits=[[4, 6], [2, 2]]),
            note(1.0, "SplitsSettled", stage="events", source="g-1", subtask=1, splits=[]),
        ]
    )
    assert facts.settled == {("events", "f-0"): {1: [4, 5, 6, 2]}, ("events", "g-1"): {1: []}}


def test_a_source_is_another_after_each_edit_and_when_it_is_to_be_made_again():
    begun = note(0.0, "RunStarted", application="a", fingerprints={"events": "f" * 64, "other": "o" * 64}, stages=[])
    edited = {"application": "a", "stages": [], "anew": [], "gone": [], "again": ["events"]}
    changes = [
        note(1.0, "PipelineChanged", fingerprints={"events": "e" * 64, "other": "o" * 64}, **edited),
        note(2.0, "PipelineChanged", fingerprints={"events": "f" * 64, "other": "o" * 64}, **edited),
        note(3.0, "RerunRequested", stage="events", by="somebody"),
    ]
    told = [fold([begun, *changes[:count]]).sources() for count in range(4)]
    assert len({one["events"] for one in told}) == 4
    assert len({one["other"] for one in told}) == 1
    assert fold([begun, *changes]).sources() == told[3]
