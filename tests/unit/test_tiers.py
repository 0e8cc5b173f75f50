"""The tier runner: what it adds up, and that a failure never looks like a success."""

import time

import pytest

from tests.tools.junit import Counts, read_counts
from tests.tools.tiers import BUDGETS, TIERS, Need, Outcome, Tier, built_beside, needed, report, run_all, run_tier

JUNIT = """<testsuites><testsuite tests="5">
  <testcase classname="a" name="good"/>
  <testcase classname="a" name="bad"><failure message="no"/></testcase>
  <testcase classname="a" name="bad"><error message="and its teardown"/></testcase>
  <testcase classname="b" name="good"/>
  <testcase classname="b" name="left_out"><skipped message="why"/></testcase>
</testsuite></testsuites>"""

UNIT = Tier("unit", "core", "tests/unit")
SPARK = Tier("spark", "Spark", "tests/spark")


def outcome(tier: Tier, seconds: float = 1.0, passed: int = 0, failed: int = 0, skipped: int = 0) -> Outcome:
    return Outcome(tier, seconds, failed == 0, Counts(passed, failed, skipped))


def test_a_test_that_fails_twice_counts_once(tmp_path):
    file = tmp_path / "unit.xml"
    file.write_text(JUNIT)
    assert read_counts(file) == Counts(passed=2, failed=1, skipped=1)


@pytest.mark.parametrize("text", [None, "", "<testsuites><testsuite>"])
def test_a_missing_or_cut_junit_file_counts_nothing(tmp_path, text):
    file = tmp_path / "unit.xml"
    if text is not None:
        file.write_text(text)
    assert read_counts(file) == Counts()


def test_the_last_line_is_the_sum_over_all_tiers():
    lines = report([outcome(UNIT, passed=120), outcome(SPARK, passed=3, failed=1)], setup_seconds=None)
    assert lines[-1] == "123 passed, 1 failed"
    assert "failed tiers: spark" in lines


def test_skipped_tests_are_neither_passed_nor_hidden():
    lines = report([outcome(UNIT, passed=2, skipped=1)], setup_seconds=None)
    assert lines[-2:] == ["skipped: 1", "2 passed, 0 failed"]


def test_minutes_are_added_per_budget_and_an_excess_is_named():
    lint = Tier("lint", "core")
    lines = report([outcome(lint, seconds=60), outcome(UNIT, seconds=150), outcome(SPARK, 30)], setup_seconds=90)
    [core] = [line for line in lines if line.startswith("core")]
    assert core.split()[:3] == ["core", "3.5", "3"]
    assert "lint 60 s, unit 150 s" in core
    assert "OVER BUDGET" in core
    [spark] = [line for line in lines if line.startswith("Spark")]
    assert "OVER" not in spark
    [setup] = [line for line in lines if line.startswith("set-up")]
    assert setup.split()[:3] == ["set-up", "1.5", "15"]


@pytest.mark.parametrize(("failfast", "ran"), [(False, ["unit", "spark"]), (True, ["unit"])])
def test_a_failed_tier_stops_the_next_only_when_asked(failfast, ran):
    outcomes = run_all([UNIT, SPARK], lambda tier: outcome(tier, failed=1), failfast)
    assert [one.tier.name for one in outcomes] == ran


def test_a_tier_without_tests_fails(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    result = run_tier(Tier("empty", "core", "no/such/folder"))
    assert not result.ok
    assert result.counts == Counts(failed=1)
    capfd.readouterr()


def test_a_tier_s_jvm_options_go_before_those_of_whoever_runs_it(tmp_path, monkeypatch, capfd):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_it.py").write_text(
        "import os\n\ndef test_it():\n    assert os.environ['JAVA_TOOL_OPTIONS'] == '-Xint -Xmx1g'\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Xmx1g")
    result = run_tier(Tier("it", "core", "tests", jvm_options=lambda: "-Xint"), ["-q"])
    assert result.counts == Counts(passed=1), capfd.readouterr().out


def test_a_part_of_a_tier_reports_no_rules():
    assert any("--rules-report" in word for [command] in [UNIT.commands()] for word in command)
    assert not any("--rules-report" in word for [command] in [UNIT.commands(["-k", "name"])] for word in command)


def test_every_tier_has_a_budget_and_its_own_files():
    assert {tier.budget for tier in TIERS} <= set(BUDGETS)
    files = [path for tier in TIERS for path in (*tier.junits, *tier.rules)]
    assert len(set(files)) == len(files)
    assert not any(path.is_absolute() for path in files)


def test_the_parts_of_a_tier_run_one_after_the_other_and_are_counted_together(tmp_path, monkeypatch, capfd):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_it.py").write_text(
        "import pathlib\n\ndef test_first():\n    pathlib.Path('there').touch()\n\n"
        "def test_second():\n    assert pathlib.Path('there').exists()\n\ndef test_wrong():\n    assert 0\n"
    )
    (tmp_path / "conftest.py").write_text("def pytest_addoption(parser):\n    parser.addoption('--rules-report')\n")
    monkeypatch.chdir(tmp_path)
    result = run_tier(Tier("it", "core", "tests", parts=(("-k", "first"), ("-k", "second or wrong"))))
    assert (result.ok, result.counts) == (False, Counts(passed=2, failed=1)), capfd.readouterr().out


def test_a_selection_is_one_run_of_all_parts():
    tier = Tier("it", "core", "tests", parts=(("-m", "some"), ("-m", "others")))
    [command] = tier.commands(["-k", "name"])
    assert command[-2:] == ["-k", "name"]
    assert not {"some", "others"} & set(command)


@pytest.mark.parametrize(("was_there", "left"), [(False, []), (True, ["there"])])
def test_what_a_tier_needs_is_dropped_unless_it_was_there_before(tmp_path, was_there, left):
    """`touch`, `test -e` and `rm`, as modules."""
    scripts = {
        "make": "pathlib.Path('there').touch()",
        "look": "sys.exit(not pathlib.Path('there').exists())",
        "drop": "pathlib.Path('there').unlink()",
    }
    for name, text in scripts.items():
        (tmp_path / f"{name}.py").write_text(f"import os, pathlib, sys\nos.chdir({str(tmp_path)!r})\n{text}\n")
    if was_there:
        (tmp_path / "there").touch()
    need = Need(("make",), ("look",), ("drop",))
    with needed(need, {"PYTHONPATH": str(tmp_path)}):
        assert (tmp_path / "there").exists()
    assert [name for name in ("there",) if (tmp_path / name).exists()] == left


@pytest.mark.parametrize("waits", [0, 600])
def test_what_takes_minutes_is_built_beside_and_ended_where_nobody_waits_for_it(tmp_path, monkeypatch, waits):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    build = "import pathlib, time; pathlib.Path('begun').touch(); time.sleep({}); pathlib.Path('built').touch()"
    (tmp_path / "slow_build.py").write_text(build.format(waits))
    (tmp_path / "drop_it.py").write_text("import pathlib; pathlib.Path('dropped').touch()")
    need = Need(("unused",), is_there=("no_such_module",), drop=("drop_it",), build=("slow_build",))
    with built_beside((UNIT, Tier("cluster", "cluster", needs=(need,)))):
        deadline = time.monotonic() + 30
        while not (tmp_path / ("begun" if waits else "built")).exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        if not waits:
            time.sleep(1)  # it ends
    assert [(tmp_path / name).exists() for name in ("begun", "built", "dropped")] == [True, not waits, True]


@pytest.mark.parametrize(("before", "is_there"), [((), ()), ((UNIT,), ("platform",))], ids=["first tier", "there"])
def test_nothing_is_built_beside_that_is_there_or_waited_for(tmp_path, monkeypatch, before, is_there):
    monkeypatch.chdir(tmp_path)
    need = Need(("unused",), is_there=is_there, drop=("no_such_module",), build=("no_such_module",))
    with built_beside((*before, Tier("cluster", "cluster", needs=(need,)))):
        pass
    assert (tmp_path / ".build" / "built-beside.log").read_bytes() == b""
