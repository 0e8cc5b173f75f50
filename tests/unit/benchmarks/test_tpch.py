"""The jobs that are measured, as far as they go without Spark, and the oracle."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from benchmarks import data, job
from benchmarks.scenarios import no_fault, slow_node, splits
from benchmarks.sources import ticks
from benchmarks.tpch import pipeline, scores
from benchmarks.tpch.oracle import difference, right_answer
from rekindle.api.manifest import load_manifest


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> Path:
    """Five small tables in the form of TPC-H's."""
    folder = tmp_path_factory.mktemp("data")
    contents = {
        "lineitem": "select 1::bigint l_orderkey, 2::bigint l_partkey, i::bigint l_suppkey, i::int l_linenumber, "
        "10.00::decimal(15,2) l_quantity, 100.00::decimal(15,2) l_extendedprice, "
        "0.25::decimal(15,2) l_discount, 'RAIL' l_shipmode from range(1, 3) t(i)",
        "orders": "select 1::bigint o_orderkey, date '1994-05-01' o_orderdate",
        "partsupp": "select 2::bigint ps_partkey, i::bigint ps_suppkey, 3.50::decimal(15,2) ps_supplycost "
        "from range(1, 3) t(i)",
        "supplier": "select i::bigint s_suppkey, 7::bigint s_nationkey from range(1, 3) t(i)",
        "nation": "select 7::bigint n_nationkey, 'GERMANY' n_name",
    }
    with duckdb.connect() as connection:
        for name, query in contents.items():
            (folder / name).mkdir()
            connection.sql(query).write_parquet(str(folder / name / f"{name}.1.parquet"))
    return folder


def publish(rows: str, out: Path) -> Path:
    out.mkdir()
    with duckdb.connect() as connection:
        connection.sql(rows).write_parquet(str(out / "part-0.parquet"))
    return out


def test_the_oracle_knows_profits(tables):
    [(nation, year, profit)] = right_answer("profits", tables, 0)
    assert (nation, year, profit) == ("GERMANY", 1994, Decimal(2 * (100 * 3 // 4 - 35)))


def test_the_oracle_knows_scores_without_taking_all_steps(tables):
    total = 0
    for value in (8 * 1 + 1, 8 * 1 + 2):
        for _ in range(1234):
            value = (scores.FACTOR * value + scores.INCREMENT) % scores.MODULUS
        total += value
    assert right_answer("scores", tables, 1234) == [("RAIL", 2, total)]


def test_an_answer_is_compared_to_the_last_digit(tables, tmp_path):
    row = "select 'GERMANY' nation, 1994 as year, {}::decimal(38,4) profit"
    assert difference("profits", tables, 0, publish(row.format("80.0000"), tmp_path / "right")) is None
    wrong = difference("profits", tables, 0, publish(row.format("80.0001"), tmp_path / "wrong"))
    assert wrong == "1 rows where 1 are right; 1 are missing, 1 should not be there"
    assert difference("profits", tables, 0, tmp_path / "none") == "there is no answer in none"


@pytest.mark.parametrize("module", [pipeline, scores])
def test_both_jobs_are_pipelines_of_three_stored_stages_or_more(module):
    graph = module.pipeline.build()
    stored = [stage for stage in graph.stages if stage.exchange.value == "blocking"]
    assert len(stored) >= 3
    assert all(stage.deterministic for stage in stored)


def test_the_manifest_is_one_that_rekindle_run_takes():
    manifest = load_manifest(Path(pipeline.__file__).with_name("app.yaml"))
    assert manifest.metadata.name == pipeline.pipeline.name
    assert manifest.spec.executor.instances == 3


def test_every_contender_has_its_job():
    wanted = {("profits", one.job) for one in no_fault.CONTENDERS}
    wanted |= {(workload, one.job) for one in slow_node.CONTENDERS for workload in ("profits", "scores")}
    wanted |= {(f"ticks-{kind}", one.job) for one in splits.CONTENDERS for kind in ticks.UNITS}
    assert wanted == set(job.JOBS)


def test_long_splits_are_the_same_work_as_even_ones():
    assert len({sum(units) for units in ticks.UNITS.values()}) == 1
    assert max(ticks.UNITS["skewed"]) == 20 * min(ticks.UNITS["skewed"])


def test_data_is_made_once_for_a_scale_and_never_half(tmp_path, monkeypatch):
    made = tmp_path / "made"
    fake = tmp_path / "tpcgen-cli"
    python = sys.executable
    script = f"import sys, os; open({str(made)!r}, 'a').write('x'); os.mkdir(sys.argv[-1] + '/lineitem')"
    fake.write_text(f'#!/bin/sh\nexec {python} -c "{script}" "$@"\n')
    fake.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    first = data.tpch_data(0.5, tmp_path / "cache")
    assert first == data.tpch_data(0.5, tmp_path / "cache") == tmp_path / "cache" / "tpch-0.5"
    assert made.read_text() == "x"
    fake.write_text("#!/bin/sh\nexit 3\n")
    with pytest.raises(SystemExit, match="failed"):
        data.tpch_data(1, tmp_path / "cache")
    assert not (tmp_path / "cache" / "tpch-1").exists()


def test_the_command_line_runs_as_a_program():
    run = Path(job.__file__).with_name("run.py")
    ended = subprocess.run([sys.executable, str(run), "--help"], capture_output=True, text=True, check=True)
    assert "--only {no-fault,slow-node,killed-driver,splits}" in ended.stdout
