"""The example on real flights, against an independent computation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from examples.flights.data import write_data
from examples.flights.oracle import differences

FLIGHTS = Path(__file__).resolve().parents[2] / "examples" / "flights"


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> tuple[Path, dict]:
    """The example run once on a private cluster; its folder and its report."""
    folder = tmp_path_factory.mktemp("flights")
    data = write_data(folder / "data")
    report = folder / "report.json"
    command = [sys.executable, "-m", "rekindle.cli", "run", str(FLIGHTS / "app.yaml")]
    ended = subprocess.run(
        [*command, "--store", str(folder / "store"), "--report", str(report)],
        env={**os.environ, "FLIGHTS_DATA": str(data), "FLIGHTS_OUT": str(folder / "out")},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return folder, json.loads(report.read_text())


def test_both_answers_equal_duckdbs_to_the_last_digit(run):
    folder, _ = run
    assert differences(folder / "data", folder / "out") == []


def test_a_changed_answer_would_be_noticed(run, tmp_path):
    folder, _ = run
    (tmp_path / "carriers").symlink_to(folder / "out" / "carriers")
    routes = tmp_path / "routes"
    routes.mkdir()
    for path in (folder / "out" / "routes").glob("*.csv"):
        (routes / path.name).write_text(path.read_text().replace("Logan", "Brighton"))
    assert len(differences(folder / "data", tmp_path)) == 1


def test_stages_that_share_keys_do_not_shuffle_again(run):
    _, report = run
    map_tasks = {stage["name"]: stage["mapTasks"] for stage in report["stages"]}
    assert map_tasks["flights"] > 0
    assert map_tasks["legs"] == map_tasks["described"] == map_tasks["routes"] == 0


def test_the_report_fits_its_schema(run):
    import jsonschema

    import rekindle.runtime

    schema = json.loads((Path(rekindle.runtime.__file__).parent / "report.schema.json").read_text())
    jsonschema.validate(run[1], schema)
    broken = {**run[1], "state": "splendid"}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, schema)
