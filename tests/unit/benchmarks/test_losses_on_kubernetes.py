"""The table of what losses cost, from handmade runs; the application that is measured is one that is accepted."""

from __future__ import annotations

import pytest

from benchmarks.losses_on_kubernetes import make_parser, manifest, table
from benchmarks.results import Run
from rekindle.api.spark_application import SparkApplication


def run(contender: str, seconds: float, since: float, **more: float) -> Run:
    return Run(contender, 1, seconds, details={"since": since, **more})


def test_both_ratios_are_of_the_same_loss_at_the_same_time():
    found = [
        Run("undisturbed", 1, 100.0),
        run("anew node 75", 200.0, 120.0, rerun=225.0),
        run("rekindle node 75", 150.0, 30.0, rerun=12.0),
        run("anew driver 75", 1.0, 1.0),
    ]
    lines = [line.split(" | ") for line in table(found, ["node"], [75]).splitlines()]
    assert lines[2][:2] == ["| undisturbed", "100"]
    assert lines[3][:6] == ["| anew node 75", "200", "1.00", "120", "1.00", "225"]
    assert lines[4][:6] == ["| rekindle node 75", "150", "0.75", "30.0", "0.25", "12.0"]
    assert len(lines) == 5


def test_who_loses_an_executor_is_set_beside_plain_spark_which_tells_of_no_task_that_ran_again():
    found = [
        Run("undisturbed", 1, 100.0),
        Run("spark undisturbed", 1, 80.0),
        run("spark executor 50", 160.0, 100.0),
        run("shuffles executor 50", 120.0, 80.0),
        run("rekindle executor 50", 80.0, 50.0, rerun=9.0),
    ]
    lines = [line.strip("| ").split(" | ") for line in table(found, ["executor"], [50]).splitlines()[2:]]
    assert [line[:3] for line in lines[:2]] == [["spark undisturbed", "80.0", "–"], ["undisturbed", "100", "–"]]
    assert [line[1:6] for line in lines[2:]] == [
        ["160", "1.00", "100", "1.00", "–"],
        ["120", "0.75", "80.0", "0.80", "–"],
        ["80.0", "0.50", "50.0", "0.50", "9.0"],
    ]


def test_a_run_that_went_wrong_counts_nowhere():
    found = [run("anew driver 50", 200.0, 120.0), Run("rekindle driver 50", 1, error="it is FAILED")]
    last = table(found, ["driver"], [50]).splitlines()[-1]
    assert last.startswith("| rekindle driver 50 | – | – | – | – |")


def test_the_application_is_one_that_is_accepted():
    spec = SparkApplication.model_validate(manifest("spark:none", ["12", "10", "keep"], 2)).spec
    assert (spec.recovery.volumes, spec.arguments) == (2, ["12", "10", "keep"])
    spark = SparkApplication.model_validate(manifest("spark:none", ["12", "10", "plain"], is_shuffle_kept=True)).spec
    assert spark.recovery.storage is None
    assert spark.recovery.shuffle_volumes is not None


def test_each_loss_is_measured_unless_told():
    assert make_parser().parse_args([]).lost == ["driver", "node", "volume", "executor"]
    assert make_parser().parse_args(["--lost", "node"]).lost == ["node"]


@pytest.mark.parametrize("share", ["0", "100", "half"])
def test_nothing_can_be_lost_before_the_start_or_after_the_end(share, capsys):
    with pytest.raises(SystemExit) as ended:
        make_parser().parse_args(["--at", share])
    assert ended.value.code == 2
    assert f"--at: {share}: a whole number from 1 to 99 is needed" in capsys.readouterr().err
