"""A cached result that several stages read at the same time, an executor killed meanwhile."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from tests.faults.harness import Application


@pytest.mark.requirement("S6-9", "S6-10")
def test_readers_of_a_cached_result_read_the_same_rows_though_it_comes_out_differently_each_time(tmp_path: Path):
    """Each number is either low or high: whoever reads another toss than the other reader loses or doubles it."""
    application = Application(tmp_path, "cached_draw.py", "3")
    outcome = application.run("kill-executor:node=1@stage=low")
    assert outcome.code == 0, outcome.err
    assert [fault["fault"] for fault in outcome.report["launcher"]["chaos"]] == ["kill-executor:node=1@stage=low"]
    with duckdb.connect() as connection:
        found = connection.sql(f"select id from read_parquet('{application.out}/*/*.parquet')").fetchall()
    assert sorted(found) == [(number,) for number in range(1000)]
