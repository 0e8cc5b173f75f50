"""Medians, ratios, tables and the file of results."""

from __future__ import annotations

import pytest

from benchmarks.bench import Settings, interleaved
from benchmarks.results import ResultsFile, Run, core_seconds, markdown, ratio, spread
from benchmarks.run import SCENARIOS, about, changed, make_parser

RUNS = [
    Run("a", 1, 10.0, 20.0),
    Run("b", 1, 5.0, 4.0),
    Run("a", 2, 30.0, 22.0),
    Run("b", 2, 7.0, 4.0),
    Run("a", 3, 11.0, 21.0),
]


def test_the_median_comes_with_its_range():
    assert str(spread(RUNS, "a")) == "11.0 (10.0 – 30.0)"
    assert str(spread(RUNS, "b", core_seconds)) == "4.0 (4.0 – 4.0)"


def test_a_ratio_is_one_of_medians():
    assert ratio(RUNS, "a", "b") == pytest.approx(11 / 6)
    assert ratio(RUNS, "a", "b", core_seconds) == pytest.approx(21 / 4)


def test_a_run_without_the_right_answer_counts_nowhere():
    bad = Run("b", 3, 0.1, 0.1, error="7 rows where 175 are right")
    assert spread([*RUNS, bad], "b") == spread(RUNS, "b")
    assert spread([bad], "b") is None
    assert ratio([Run("a", 1, 10.0), bad], "a", "b") is None


def test_a_table_has_a_dash_where_nothing_is_known():
    assert markdown(("", "seconds"), [("a", spread(RUNS, "a")), ("c", None), ("d", 1.234)]).splitlines() == [
        "|  | seconds |",
        "| --- | ---: |",
        "| a | 11.0 (10.0 – 30.0) |",
        "| c | – |",
        "| d | 1.23 |",
    ]


def test_contenders_take_turns_and_each_is_first_once():
    order = list(interleaved("abc", range(1, 4)))
    assert [name for _, name in order] == list("abcbcacab")
    assert [number for number, _ in order] == [1, 1, 1, 2, 2, 2, 3, 3, 3]


def test_rounds_that_are_added_go_on_with_the_next_contender():
    assert list(interleaved("abc", range(2, 3))) == [(2, "b"), (2, "c"), (2, "a")]


def test_results_are_put_together_only_when_nothing_but_the_number_of_rounds_differs():
    was = about(Settings(runs=3))
    assert changed(was, Settings(runs=2)) == []
    assert changed(was, Settings(runs=3, scale=5.0)) == ["scale"]
    assert changed({**was, "pyspark": "4.0.0"}, Settings(runs=3)) == ["pyspark"]


def test_a_scenario_that_is_run_again_replaces_its_own_results_only(tmp_path):
    results = ResultsFile(tmp_path / "deep" / "results.json")
    assert results.runs("slow-node") == []
    results.save("slow-node", {"cores": 2}, RUNS)
    results.save("no-fault", {"cores": 2}, RUNS[:1])
    results.save("no-fault", {"cores": 4}, RUNS[:2])
    assert results.runs("slow-node") == RUNS
    assert results.runs("no-fault") == RUNS[:2]
    assert results.about("no-fault") == {"cores": 4}


def test_the_command_line_has_the_defaults_of_the_settings():
    options = vars(make_parser().parse_args([]))
    assert {name: options[name] for name in vars(Settings())} == vars(Settings())
    assert vars(make_parser().parse_args(["--only", "slow-node", "--only", "no-fault"]))["only"] == [
        "slow-node",
        "no-fault",
    ]


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_can_tell_of_runs_that_all_failed(name):
    assert "–" in SCENARIOS[name].tables([Run("any", 1, error="its deadline passed")])
