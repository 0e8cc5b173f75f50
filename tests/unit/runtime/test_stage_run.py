"""What is kept of Spark's own accounts of a stage."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rekindle.pipeline import Pipeline
from rekindle.runtime.scheduler import StageView
from rekindle.runtime.stage_run import StageRun


def view(stage: int, status: str, complete: int, seconds: float) -> StageView:
    known: dict[str, Any] = {"stage": stage, "status": status, "complete": complete, "executor_seconds": seconds}
    return StageView(**{**dict.fromkeys(StageView.__dataclass_fields__, 0), **known})


def test_map_tasks_are_counted_although_a_copy_finds_its_map_side_done():
    """A copy's job lists the map side again, as skipped, and Spark then shows nothing else of it."""
    pipeline = Pipeline("p")  # Spark's views and jobs below are stand-ins: only what they count is looked at
    pipeline.source(name="a")(lambda spark: spark)
    pipeline.sink("out", name="b")(lambda a: a)
    seen = {"original": [view(1, "COMPLETE", 3, 2.0), view(2, "ACTIVE", 1, 1.0)]}
    scheduler = SimpleNamespace(stages_of=lambda group: seen[group])
    run = StageRun(pipeline.build().stage("b"), scheduler, (), "p", lambda: None)  # type: ignore[arg-type]
    run.jobs = [SimpleNamespace(group="original")]  # type: ignore[list-item]
    run.note_ran(seen["original"])
    seen["original"] = [view(1, "SKIPPED", 0, 0.0), view(2, "COMPLETE", 4, 5.0)]
    run.copies = [SimpleNamespace(job=SimpleNamespace(group="copy"))]  # type: ignore[list-item]
    seen["copy"] = [view(1, "SKIPPED", 0, 0.0), view(3, "COMPLETE", 1, 0.5)]
    assert run.tasks_since() == (3, 7.5)
    assert run.tasks_since() == (0, 0.0)


def stage_run(outputs: dict[int, list[int]]) -> StageRun:
    """A result that reads shuffle 2, whose map tasks read shuffle 1; `outputs` are the tasks that made either."""
    pipeline = Pipeline("p")
    pipeline.source(name="a")(lambda spark: spark)
    pipeline.sink("out", name="b")(lambda a: a)
    made = {shuffle: [(task, "1", 0) for task in tasks] for shuffle, tasks in outputs.items()}
    scheduler = SimpleNamespace(map_outputs=made.__getitem__)
    run = StageRun(pipeline.build().stage("b"), scheduler, (), "p", lambda: None)  # type: ignore[arg-type]
    run.shuffles, run._read_shuffles, run._fed_by = (1, 2), (2,), {2: (1,)}
    return run


@pytest.mark.requirement("S7-5", "S7-6")
def test_a_shuffle_whose_map_tasks_have_read_an_inner_one_before_and_after_it_was_made_again_is_mixed():
    """All of it may happen between two looks at Spark, and then nothing else shows it."""
    assert stage_run({1: [0, 1], 2: [2, 3]}).mixed_map_outputs(4) is None
    assert stage_run({1: [0, 5], 2: [2, 6]}).mixed_map_outputs(7) == "map task 5 ran after map task 2"
    assert stage_run({1: [0, 1], 2: [2, 5]}).mixed_map_outputs(4) == "map task 5 ran after result task 4"
    assert stage_run({1: [0, 5], 2: [6, 7]}).mixed_map_outputs(8) is None


@pytest.mark.requirement("S7-14")
def test_a_partition_whose_manifest_was_damaged_is_not_waited_for_but_made_again():
    """Its job has ended well, and nobody else will write the manifest again."""
    run = stage_run({})
    run.jobs = [SimpleNamespace(ended=True, cancelled=False, error=None, partitions=(0, 1))]  # type: ignore[list-item]
    assert run.written() == {0, 1}
    run.removed(1)
    assert run.written() == {0}


def test_no_two_plans_of_a_process_share_a_job_group():
    """Spark would run no job in a group that an earlier run has cancelled; an address in memory comes again."""
    pipeline = Pipeline("p")
    pipeline.source(name="a")(lambda spark: spark)
    pipeline.sink("out", name="b")(lambda a: a)
    stage = pipeline.build().stage("b")
    groups = {StageRun(stage, None, (), "p", lambda: None)._plan_group for _ in range(100)}  # type: ignore[arg-type]
    assert len(groups) == 100
