"""The table of what storing costs, from handmade runs; applications that are accepted and have what they import."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from benchmarks.results import Run
from benchmarks.storing_on_kubernetes import CONTENDERS, make_parser, manifest, programs, table
from rekindle.api.spark_application import SparkApplication, SparkApplicationSpec
from tests.cluster import bucket


@pytest.fixture(autouse=True)
def a_connector(monkeypatch):
    """Which Spark would have to fetch."""
    monkeypatch.setattr(bucket, "connector_jars", lambda: [Path("hadoop-aws.jar")])


def spec_of(name: str) -> SparkApplicationSpec:
    return SparkApplication.model_validate(manifest(CONTENDERS[name], "spark:none")).spec


def run(contender: str, seconds: float, number: int = 1) -> Run:
    return Run(contender, number, seconds, 2 * seconds)


def lines(found: list[Run], names: list[str]) -> list[list[str]]:
    return [line.strip("| ").split(" | ") for line in table(found, names).splitlines()]


def test_everybody_is_set_beside_who_stores_nothing_and_who_stores_there_by_hand():
    seconds = {"plain": 40, "hand-volume": 50, "volume": 60, "volumes": 70, "hand-bucket": 80, "bucket": 100}
    found = [run(name, float(value)) for name, value in seconds.items()]
    head, _, *rows = lines(found, list(CONTENDERS))
    assert head == ["seconds", "core-seconds", "times plain", "times by hand"]
    assert rows == [
        ["plain", "40.0", "80.0", "1.00", "–"],
        ["hand-volume", "50.0", "100", "1.25", "1.00"],
        ["volume", "60.0", "120", "1.50", "1.20"],
        ["volumes", "70.0", "140", "1.75", "1.40"],
        ["hand-bucket", "80.0", "160", "2.00", "1.00"],
        ["bucket", "100", "200", "2.50", "1.25"],
    ]


def test_ratios_are_of_medians_and_a_wrong_answer_is_no_figure():
    found = [run("plain", 10.0), run("volume", 12.0), run("volume", 15.0, 2), run("volume", 40.0, 3)]
    found.append(Run("volume", 4, 1.0, 1.0, error="175 rows where 175 are right; 1 are missing, 1 should not be there"))
    assert lines(found, ["volume"])[2] == ["volume", "15.0 (12.0 – 40.0)", "30.0 (24.0 – 80.0)", "1.50", "–"]


def test_nobody_is_set_beside_who_was_not_measured():
    assert lines([run("bucket", 10.0)], ["bucket"])[2] == ["bucket", "10.0", "20.0", "–", "–"]


@pytest.mark.parametrize("name", CONTENDERS)
def test_every_application_is_one_that_is_accepted_on_the_same_executors(name):
    spec = spec_of(name)
    assert (spec.executor.instances, spec.executor.cores, spec.executor.memory, spec.driver.memory) == (
        3,
        1,
        "1g",
        "1g",
    )
    assert spec.spark_conf == {"spark.cores.max": "3", "spark.sql.shuffle.partitions": "9"}
    assert spec.restart_policy is not None
    assert spec.restart_policy.type == "Never"


@pytest.mark.parametrize("name", CONTENDERS)
def test_what_its_pods_mount_is_there(name):
    spec = spec_of(name)
    volumes = [volume["name"] for volume in spec.volumes or ()]
    for pod in (spec.driver, spec.executor):
        assert sorted(mount["name"] for mount in pod.volume_mounts or ()) == sorted(volumes)


@pytest.mark.parametrize(("name", "by_hand"), [("volume", "hand-volume"), ("bucket", "hand-bucket")])
def test_by_hand_differs_in_what_the_program_is_told_only(name, by_hand):
    mine, theirs = spec_of(name), spec_of(by_hand)
    assert (mine.arguments, theirs.arguments) == (["rekindle"], ["hand"])
    assert mine == theirs.model_copy(update={"arguments": ["rekindle"]})


def test_results_are_where_the_contender_says():
    assert spec_of("plain").recovery.storage is None
    assert [spec_of(name).recovery.volumes for name in ("hand-volume", "volume", "volumes")] == [1, 1, 3]
    assert spec_of("bucket").recovery.store == "s3://stores/storing"


def test_the_program_has_every_file_of_ours_that_it_imports():
    (volume,) = (one["configMap"] for one in spec_of("plain").volumes or () if "configMap" in one)
    files = {item["path"]: programs()["data"][item["key"]] for item in volume["items"]}
    assert f"local:///app/{next(iter(files))}" == spec_of("plain").main_application_file
    reached: set[str] = set()
    imported = {next(iter(files))}
    while (path := next(iter(imported - reached), None)) is not None:
        reached.add(path)
        imported |= imports(files[path])
    assert reached <= files.keys()
    assert reached >= {"benchmarks/tpch/pipeline.py", "benchmarks/tpch/peers.py", "benchmarks/job.py"}


def imports(text: str) -> set[str]:
    """The files of the project, beside the library, that a program imports at its beginning."""
    nodes = [node for node in ast.parse(text).body if isinstance(node, ast.ImportFrom)]
    ours = [node for node in nodes if (node.module or "").startswith(("benchmarks", "tests"))]
    names = {name for node in ours for name in _named(node)}
    return {f"{name.replace('.', '/')}.py" for name in names}


def _named(node: ast.ImportFrom) -> list[str]:
    """Modules: `from benchmarks.tpch import peers` names one, `from benchmarks.tpch.pipeline import OUT` another."""
    module = node.module or ""
    package = Path(__file__).parents[3] / module.replace(".", "/")
    return [f"{module}.{alias.name}" for alias in node.names] if package.is_dir() else [module]


def test_a_config_map_takes_the_programs():
    assert len(json.dumps(programs())) < 1 << 20
    assert all("/" not in key for key in programs()["data"])


def test_each_contender_is_measured_once_at_scale_one_unless_told():
    options = make_parser().parse_args([])
    assert (options.contenders, options.rounds, options.scale) == (list(CONTENDERS), 1, 1.0)
    assert make_parser().parse_args(["--contenders", "bucket", "--scale", "0.1"]).scale == 0.1


@pytest.mark.parametrize("words", [["--scale", "0"], ["--scale", "-1"], ["--scale", "nan"], ["--contenders", "disk"]])
def test_what_cannot_be_measured_is_refused(words, capsys):
    with pytest.raises(SystemExit) as ended:
        make_parser().parse_args(words)
    assert ended.value.code == 2
    assert words[0] in capsys.readouterr().err
