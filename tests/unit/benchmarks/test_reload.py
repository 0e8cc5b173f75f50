"""What is measured is what operator and driver do, and it has the right answer."""

from __future__ import annotations

from benchmarks.reload import PROCEDURES, plan, replayed, table
from benchmarks.results import Run
from rekindle.api.application_status import RecoverySummary
from rekindle.core.graph import ExecutionGraph

SIZE = 2101


def test_a_driver_that_has_replayed_has_all_of_one_vertex_and_half_of_the_other():
    graph = replayed(SIZE)()
    assert isinstance(graph, ExecutionGraph)
    assert graph.is_finished("made")
    assert list(graph.unfinished("read")) == list(range(1, SIZE - 1, 2))


def test_the_plan_keeps_all_that_is_stored_and_restarts_what_ran():
    summary = plan(SIZE)()
    assert isinstance(summary, RecoverySummary)
    waiting = [one for one in range(SIZE - 1) if one % 2 and one < 2001]
    assert summary.reused_partitions == 2 * SIZE - 1 - len(waiting)
    assert summary.restarted.keys() <= {"read"}


def test_the_table_has_a_line_for_each_and_a_column_for_each_size():
    found = [Run(f"{name} {size}", 1, 7.0) for name in PROCEDURES for size in (10_000, 50_000)]
    lines = table(found).splitlines()
    assert [line.split(" | ")[1] for line in lines[2:]] == ["7.0"] * 3
    assert len(lines) == 5
