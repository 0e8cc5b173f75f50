"""What is noticed of map outputs that Spark loses and makes again."""

from __future__ import annotations

from typing import Any

import pytest

from rekindle.runtime.map_side import MapSide
from rekindle.runtime.scheduler import StageView

Outputs = list[tuple[int, str, int] | None]
"""Of a shuffle: task, executor and checksum of each map partition."""


class Shuffles:
    """As much of Spark's scheduler as is asked."""

    def __init__(self, *outputs: Outputs) -> None:
        self.outputs = dict(enumerate(outputs))
        self.epoch = 0

    def map_output_epoch(self) -> int:
        return self.epoch

    def available_map_outputs(self, shuffle: int) -> int:
        return sum(one is not None for one in self.outputs[shuffle])

    def map_partitions(self, shuffle: int) -> int:
        return len(self.outputs[shuffle])

    def map_outputs(self, shuffle: int) -> Outputs:
        return self.outputs[shuffle]


def map_side(scheduler: Any, **named: Any) -> MapSide:
    return MapSide(scheduler, tuple(scheduler.outputs), tuple(scheduler.outputs), **named)


def test_outputs_that_are_not_made_yet_are_no_loss_and_those_of_a_complete_shuffle_are_one_once():
    spark = Shuffles([(1, "a", 7), None])
    side = map_side(spark)
    assert side.loss([]) is None
    spark.outputs[0] = [(1, "a", 7), (2, "b", 7)]
    assert (side.loss([]), side.is_intact(), side.holders()) == (None, True, {"a", "b"})
    spark.outputs[0] = [(1, "a", 7), None]
    assert (side.loss([]), side.is_intact()) == ("1 of 2 map outputs are gone", False)
    assert side.loss([]) is None


def test_a_stage_that_spark_runs_again_is_a_loss_once():
    side, again = map_side(Shuffles([(1, "a", 7)])), StageView(4, 1, 0, "ACTIVE", 0.0)
    assert side.loss([again]) == "Spark ran its stage 4 again (attempt 1)"
    assert side.loss([again]) is None


def test_a_map_task_after_the_first_result_task_may_have_been_read_by_some_only():
    side = map_side(Shuffles([(1, "a", 7), (9, "b", 7)]))
    assert side.mixture(first_task=10) is None
    assert side.mixture(first_task=5) == "map task 9 ran after result task 5"


@pytest.mark.requirement("S7-7")
def test_outputs_that_are_made_again_are_seen_by_the_next_look():
    spark = Shuffles([(1, "a", 7), (2, "b", 7)])
    side = map_side(spark)
    assert side.mixture(first_task=3) is None
    spark.outputs[0], spark.epoch = [(1, "a", 7), None], 1
    assert side.mixture(first_task=3) is None
    spark.outputs[0], spark.epoch = [(1, "a", 7), (6, "b", 7)], 2
    assert side.mixture(first_task=3) == "map task 6 ran after result task 3"


@pytest.mark.requirement("S7-5", "S7-6")
def test_a_shuffle_whose_map_tasks_have_read_an_inner_one_before_and_after_it_was_made_again_is_mixed():
    """All of it may happen between two looks at Spark, and then nothing else shows it."""

    def mixture(inner: list[int], outer: list[int], first_task: int) -> str | None:
        made: list[Outputs] = [[(task, "a", 7) for task in tasks] for tasks in (inner, outer)]
        spark: Any = Shuffles(*made)
        return MapSide(spark, shuffles=(0, 1), read=(1,), fed_by={1: (0,)}).mixture(first_task)

    assert mixture([0, 1], [2, 3], 4) is None
    assert mixture([0, 5], [2, 6], 7) == "map task 5 ran after map task 2"
    assert mixture([0, 1], [2, 5], 4) == "map task 5 ran after result task 4"
    assert mixture([0, 5], [6, 7], 8) is None


def test_a_digest_is_of_the_checksums_alone_and_only_of_all():
    spark = Shuffles([(1, "a", 7), (9, "b", 8)])
    side = map_side(spark)
    first = side.digest()
    assert (first is not None, side.digest_up_to) == (True, 9)
    spark.outputs[0] = [(20, "c", 7), (21, "c", 8)]
    assert (side.digest(), side.digest_up_to) == (first, 21)
    spark.outputs[0] = [(20, "c", 8), (21, "c", 7)]
    assert side.digest() not in (None, first)
    incomplete: list[Outputs] = [[(1, "a", 7), None], [(1, "a", 7), (2, "b", 0)], []]
    for outputs in incomplete:
        spark.outputs[0] = outputs
        assert side.digest() is None
    assert map_side(Shuffles([(1, "a", 7)]), reads_beside=True).digest() is None
    assert map_side(Shuffles([(1, "a", 7)]), values="x").digest() != map_side(Shuffles([(1, "a", 7)])).digest()
