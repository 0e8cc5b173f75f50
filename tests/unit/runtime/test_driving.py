"""What is made of a plan that is ready."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rekindle.core.events import Event, RerunRequested
from rekindle.runtime.driving import StageDriver
from rekindle.runtime.errors import StoreRefused
from rekindle.runtime.observer import Observer
from tests.unit.core.dsl import Run, job


class Planned:
    """Stage `B` of A => B*2, whose partition 0 is stored as `stored` says, is planned as `now` says."""

    def __init__(self, policy: str, *, finished: bool = True, promised: bool = False) -> None:
        core = Run(job("A => B*2")).submit()
        core.finish("A")
        if finished:
            core.finish("B[0]")
        self.told: list[Event] = []
        self.notes: list[str] = []
        self.state: Any = SimpleNamespace(
            core=core.graph,
            schemas={"B": "before"},
            plans={"B": "v"},
            settings=SimpleNamespace(recovery=SimpleNamespace(changed_stages=policy)),
            note=lambda name, **_: self.notes.append(name),
            see=lambda event, now: self.told.append(event),
            is_deterministic=lambda stage: promised,
        )

    def note(self, schema: str, values: str = "v", map_side: bool = False) -> Planned:
        planned = SimpleNamespace(schema=schema, values=values, hashed=True)
        run: Any = SimpleNamespace(
            noted=False, planned=planned, map_side=map_side, stage=SimpleNamespace(name="B", partitions=2)
        )
        StageDriver(self.state, Observer(self.state))._note_planned(run, 1.0)
        return self


@pytest.mark.requirement("S7-5", "S7-17")
@pytest.mark.parametrize("map_side", [True, False])
@pytest.mark.parametrize("promised", [True, False])
def test_what_was_stored_with_other_columns_is_made_again_where_changes_may_be(map_side, promised):
    """Whatever was promised of its rows: else each driver to come would find the same."""
    planned = Planned("rerun", promised=promised).note("now", values="w", map_side=map_side)
    assert planned.told == [RerunRequested("B", "it was planned with other columns")]
    assert planned.state.schemas == {"B": "now"}
    assert planned.notes == ["StagePlanned"]


def test_it_is_refused_where_changes_may_not_be():
    planned = Planned("refuse")
    with pytest.raises(StoreRefused, match=r"(?s)stage B: its schema changed.*changedStages: rerun.*--fresh"):
        planned.note("now")
    assert (planned.state.schemas, planned.notes, planned.told) == ({"B": "before"}, [], [])


@pytest.mark.parametrize("policy", ["rerun", "refuse"])
def test_a_stage_of_which_nothing_is_stored_may_have_any_columns(policy):
    assert Planned(policy, finished=False).note("now").told == []
