"""What `make mutants` counts, and how it says so."""

from __future__ import annotations

from collections import Counter

from tests.tools.mutants import LINKS, count, lay_out, score, table

RESULTS = """\
    rekindle.core.regions.x_together__mutmut_1: killed
    rekindle.core.regions.x_together__mutmut_2: survived
    rekindle.core.regions.xǁPipelinedRegionsǁexpand__mutmut_1: timeout
    rekindle.core.regions.xǁPipelinedRegionsǁexpand__mutmut_2: not checked
    rekindle.core.budget.xǁFailureBudgetǁclear__mutmut_1: no tests
"""


def test_mutants_are_counted_by_module_and_status():
    assert count(RESULTS) == {
        "regions": Counter({"killed": 1, "survived": 1, "timeout": 1, "not checked": 1}),
        "budget": Counter({"no tests": 1}),
    }


def test_the_score_is_of_those_that_were_run_and_one_that_never_ends_is_noticed():
    counts = count(RESULTS)
    assert (score(counts["regions"]), score(counts["budget"]), score(Counter())) == ("67%", "0%", "-")


def test_the_table_ends_with_the_sum():
    *_, last = table(count(RESULTS))
    assert last == "| all | 1 | 1 | 1 | 1 | 1 | 50% |"


def test_the_folder_leads_to_the_sources_and_may_be_there_already(tmp_path):
    for _ in range(2):
        lay_out(tmp_path)
    assert (tmp_path / "src" / "rekindle" / "core" / "regions.py").is_file()
    assert all((tmp_path / name).exists() for name in LINKS)
