"""The rules page, the markers that refer to it, and the table made from a run."""

import json

import pytest

from tests.tools.requirements import RULES, Results, merge, newest_source, parse_rules, stale, table
from tests.tools.tiers import ROOT, Tier

PAGE = """# Rules
- **S1-1** One rule,
  on two lines; it names S9-9 and **S9-8** in passing.
- **S1-2** (planned) A later one.
- **S1-3** Another.
- **S1-4** (ruling) What is not done, and why.
"""


@pytest.fixture
def project(pytester):
    """A small project of its own under the plugins, with the rules S1-1 to S1-3."""
    (pytester.path / "docs").mkdir()
    (pytester.path / RULES).write_text(PAGE)
    pytester.makeini("[pytest]\nmarkers =\n    requirement(*ids): rules\n")
    return pytester


def run(project, *arguments):
    plugins = ["-p", "tests.tools.rules_plugin", "-p", "tests.tools.no_skip_plugin", "-p", "no:cacheprovider"]
    return project.runpytest_inprocess(*plugins, *arguments)


def test_rules_are_the_bullets_that_begin_with_an_id():
    rules = parse_rules(PAGE)
    assert rules.ids == ("S1-1", "S1-2", "S1-3", "S1-4")
    assert rules.planned == {"S1-2"}
    assert rules.rulings == {"S1-4"}


def test_a_rule_stated_twice_is_an_error():
    with pytest.raises(ValueError, match="stated twice: S1-1"):
        parse_rules(PAGE + "- **S1-1** Again.\n")


def test_the_page_of_this_project_can_be_read():
    assert "S7-9" in parse_rules((ROOT / RULES).read_text(encoding="utf-8")).ids


def test_the_table_tells_passed_failed_planned_and_untested_apart():
    results = Results()
    results.add("S1-1", "passed", ["t::a", "t::b"])
    results.add("S1-1", "failed", ["t::c"])
    lines = table(parse_rules(PAGE), results)
    assert lines[1].split() == ["S1-1", "2", "1", "FAILED"]
    assert lines[2].split() == ["S1-2", "0", "0", "planned"]
    assert lines[3].split() == ["S1-3", "0", "0", "not", "tested"]
    assert lines[4].split() == ["S1-4", "0", "0", "ruling"]
    assert lines[-1] == "4 rules: 0 passed, 1 FAILED, 1 not tested, 1 ruling, 1 planned"


def test_a_run_writes_what_its_tests_did_and_runs_are_merged(project):
    project.makepyfile(
        """
        import pytest

        @pytest.mark.requirement("S1-1", "S1-3")
        def test_good(): ...

        @pytest.mark.requirement("S1-3")
        def test_bad(): assert False

        @pytest.fixture
        def breaks_after(): yield; assert False

        @pytest.mark.requirement("S1-2")
        def test_fails_in_teardown(breaks_after): ...
        """
    )
    run(project, "--rules-report=one.json")
    results = merge([project.path / "one.json", project.path / "not-there.json"])
    assert results.count("S1-1", "passed") == 1
    assert (results.count("S1-3", "passed"), results.count("S1-3", "failed")) == (1, 1)
    assert (results.count("S1-2", "passed"), results.count("S1-2", "failed")) == (0, 1)


def test_a_marker_with_an_unknown_rule_stops_the_run_and_names_both(project):
    project.makepyfile(
        """
        import pytest

        @pytest.mark.requirement("S1-99")
        def test_mistyped(): ...
        """
    )
    result = run(project)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*::test_mistyped: docs/semantics.md states no rule S1-99*"])


def test_a_marker_without_a_rule_stops_the_run(project):
    project.makepyfile("import pytest\n\n@pytest.mark.requirement()\ndef test_empty(): ...\n")
    result = run(project)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*::test_empty: requirement() takes the ids of rules*"])


SKIPS = """
import pytest

def test_left_out(): pytest.skip("no time")

@pytest.mark.xfail(reason="known")
def test_known_bad(): assert False

def test_good(): ...
"""


@pytest.mark.parametrize(("ci", "status"), [("true", pytest.ExitCode.TESTS_FAILED), ("", pytest.ExitCode.OK)])
def test_a_skipped_test_turns_the_run_red_in_ci_only(project, monkeypatch, ci, status):
    monkeypatch.setenv("CI", ci)
    project.makepyfile(SKIPS)
    result = run(project)
    assert result.ret == status
    if ci:
        result.stdout.fnmatch_lines(["*::test_left_out: Skipped: no time", "*::test_known_bad: known"])


def test_a_module_that_is_skipped_as_a_whole_turns_the_run_red_in_ci(project, monkeypatch):
    monkeypatch.setenv("CI", "true")
    project.makepyfile(test_whole="import pytest\npytest.skip('not here', allow_module_level=True)\n")
    project.makepyfile(test_other="def test_good(): ...\n")
    result = run(project)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["test_whole.py: Skipped: not here"])


def test_a_tier_is_stale_when_a_source_is_newer_than_the_start_of_its_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tier, check = Tier("unit", "core", "tests/unit"), Tier("lint", "core")
    source = tmp_path / "operator/rekindle/a.py"
    source.parent.mkdir(parents=True)
    source.touch()
    newest = newest_source(tmp_path)
    assert stale([tier, check], newest) == [tier]  # never run
    [rules] = tier.rules
    rules.parent.mkdir(parents=True)
    for began, expected in [(newest + 1, []), (newest - 1, [tier])]:
        rules.write_text(json.dumps({"started": began, "rules": {}}))
        assert stale([tier, check], newest) == expected
