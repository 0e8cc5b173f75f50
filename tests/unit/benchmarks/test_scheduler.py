"""The procedures that are measured beside Flink's: they do what their names say."""

import pytest

from benchmarks import procedures, scheduler


@pytest.mark.parametrize(("procedure", "named"), [("restart", 21), ("detect", 0), ("detect-slow", 4)])
def test_what_is_asked_names_as_many_tasks_as_flink_would_and_changes_nothing(procedure, named):
    call = procedures.PROCEDURES[procedure](20)
    assert [call(), call()] == [named, named]


@pytest.mark.parametrize("procedure", ["release", "build", "restart-all"])
def test_what_changes_the_job_runs_on_a_new_one_each_time(procedure):
    assert [procedures.PROCEDURES[procedure](20)() for _ in range(2)] == [0, 0]


def test_a_release_is_one():
    graph = procedures.submitted(5)
    procedures.finish(graph, procedures.SOURCE, range(5))
    procedures.finish(graph, procedures.SINK, range(5))
    assert graph.is_done
    assert graph.is_finished_for_good(procedures.SOURCE)


def test_both_sides_know_all_procedures():
    java = (scheduler.HERE / "flink/src/main/java/rekindle/FlinkPeer.java").read_text()
    for procedure in scheduler.PROCEDURES:
        assert procedure.name in procedures.PROCEDURES
        assert f'"{procedure.name}"' in java


def test_the_first_call_is_the_cold_one_and_the_last_half_of_the_others_the_warm_ones():
    measured = scheduler.Measured()
    measured.add(["9000000 3", "5000000 3", "4000000 3", "2000000 3", "1000000 3"])
    assert (measured.cold, measured.warm, measured.named) == ([9.0], [1.5], {3})


def test_a_peer_that_fails_is_told_with_its_last_words():
    with pytest.raises(scheduler.Failed, match=r"(?s)ended with 1:.*KeyError: 'no-such'"):
        scheduler.ours("no-such", 1, 1)
