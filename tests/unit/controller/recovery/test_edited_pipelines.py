"""A pipeline was edited under the same spec: no plan knows of it, and the driver that finds it so tells."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rekindle.core.events import DriverLost
from rekindle.core.recovery_plan import plan_of
from tests.unit.controller.recovery.test_recovering import half_done
from tests.unit.core.dsl import job


@pytest.mark.requirement("S6-22")
def test_a_driver_that_finds_its_pipeline_edited_says_so_and_names_what_is_made_anew():
    world = half_done()
    world.lose_driver()
    edited = world.run.becomes(job("A*3 => m", "m ~> B*6"))
    lost = world.run.graph.handle(DriverLost("gone"), world.now)
    world.follow(plan_of(world.run.graph, [*edited, *lost]))
    assert world.last is not None
    assert (world.last.restarted, world.last.restarted_vertices) == ({"m": "0", "B": "0-3"}, 5)
    assert (world.last.as_planned, world.last.why) == (False, "the pipeline was edited")
    assert world.messages("JobRecovered") == [
        "m[0], B[0-3] again, 3 result partitions stay: the pipeline was edited; "
        "planned was: m[0], B[0-3] again, 3 result partitions stay"
    ]


def test_so_does_one_that_finds_other_code_of_a_stage():
    world = half_done()
    world.lose_driver()
    other = world.run.reruns("A")
    world.follow(plan_of(world.run.graph, [*other, *world.run.graph.handle(DriverLost("gone"), world.now)]))
    assert world.messages("JobRecovered") == [
        "A[0-2], m[0], B[0-3] again, 0 result partitions stay: stage A again: somebody asks; "
        "planned was: m[0], B[0-3] again, 3 result partitions stay"
    ]
    found = world.status.condition("Recovering")
    assert found is not None
    assert found.message == world.messages("JobRecovered")[0]


def test_of_what_a_driver_says_of_its_reasons_as_much_is_shown_as_a_person_reads():
    world = half_done()
    world.lose_driver()
    plan = replace(world.own_plan(), why=tuple(f"reason {n}: \x1b[2J" + "long " * 100 for n in range(100)))
    world.follow(plan)
    assert world.last is not None
    assert world.last.why.startswith("reason 0: long")
    assert "\x1b" not in world.last.why
    assert len(world.last.why) <= 1000
