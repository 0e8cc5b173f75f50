"""From a manifest to a driver's command line."""

import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

from rekindle.api.manifest import ManifestError
from rekindle.api.spark_application import SparkApplication
from rekindle.local.submission import (
    ExecutorShape,
    driver_environment,
    driver_java_options,
    executor_java_conf,
    executor_shape,
    plan_submission,
)


def application(**spec) -> SparkApplication:
    base = {"type": "Python", "sparkVersion": version("pyspark"), "mainApplicationFile": "main.py"}
    return SparkApplication.model_validate(
        {
            "apiVersion": "rekindle.dev/v1beta2",
            "kind": "SparkApplication",
            "metadata": {"name": "flights"},
            "spec": {**base, **spec},
        }
    )


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "main.py").write_text("")
    return tmp_path


def plan(folder, nodes=3, **spec):
    return plan_submission(application(**spec), folder, nodes=nodes)


def test_the_command_line_ends_with_program_and_arguments(folder):
    command = plan(folder, arguments=["--year", "2013"]).command("spark://h:1", "-Xint", {"spark.a": "b"})
    assert command[0].endswith("bin/spark-submit")
    assert command[-3:] == [str(folder / "main.py"), "--year", "2013"]
    assert command[command.index("--master") + 1] == "spark://h:1"
    assert command[command.index("--driver-java-options") + 1] == "-Xint"
    assert "spark.a=b" in command
    assert "--properties-file" not in command


def test_a_cluster_s_properties_are_given_as_a_file(folder):
    command = plan(folder).command("spark://h:1", "", {}, Path("/work/spark-defaults.conf"))
    assert command[command.index("--properties-file") + 1] == "/work/spark-defaults.conf"


def test_one_executor_on_each_node_is_the_default(folder):
    submission = plan(folder, nodes=4)
    assert submission.executors == ExecutorShape(instances=4, cores=1, memory=1024)
    assert submission.conf["spark.cores.max"] == "4"
    assert submission.conf["spark.executor.memory"] == "1024m"


@pytest.mark.parametrize(
    ("spec", "shape"),
    [
        ({"executor": {"cores": 2, "memory": "600m", "instances": 5}}, ExecutorShape(5, 2, 600)),
        (
            {"sparkConf": {"spark.executor.cores": "3", "spark.executor.memory": "2g"}},
            ExecutorShape(3, 3, 2048),
        ),
        (
            {
                "executor": {"cores": 2},
                "sparkConf": {"spark.executor.cores": "3", "spark.executor.instances": "1"},
            },
            ExecutorShape(1, 2, 1024),
        ),
        ({"sparkConf": {"spark.executor.pyspark.memory": "300m"}}, ExecutorShape(3, 1, 1024, 300)),
        (
            {"sparkConf": {"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "1g"}},
            ExecutorShape(3, 1, 1024, 1024),
        ),
    ],
)
def test_executors_are_as_the_fields_say_and_else_as_spark_conf_says(spec, shape):
    assert executor_shape(application(**spec).spec, 3) == shape


def test_settings_become_conf_with_an_absolute_store(folder):
    submission = plan(folder, speculation={"enabled": True}, recovery={"store": "results"})
    assert submission.store.folder == folder / "results"
    assert submission.conf["spark.rekindle.recovery.store"] == str(folder / "results")
    assert submission.conf["spark.rekindle.speculation.enabled"] == "true"
    assert submission.conf["spark.scheduler.mode"] == "FAIR"


def test_the_store_is_beside_the_manifest_unless_said_otherwise(folder):
    assert plan(folder).store.folder == folder / ".rekindle" / "flights"
    elsewhere = plan_submission(application(), folder, nodes=1, store=folder / "x", store_limit=5)
    assert elsewhere.store.folder == folder / "x"
    assert elsewhere.settings.recovery.store_limit == 5


def test_the_user_s_conf_wins_over_ours_but_for_what_the_cluster_is(folder):
    conf = plan(
        folder,
        sparkConf={"spark.ui.enabled": "true", "spark.scheduler.mode": "FIFO", "spark.executor.memory": "9g"},
        hadoopConf={"fs.x": "y"},
        executor={"memory": "1g", "env": [{"name": "A", "value": "b"}]},
    ).conf
    assert conf["spark.ui.enabled"] == "true"
    assert conf["spark.scheduler.mode"] == "FIFO"
    assert conf["spark.hadoop.fs.x"] == "y"
    assert conf["spark.executorEnv.A"] == "b"
    assert conf["spark.executor.memory"] == "1024m"
    assert conf["spark.pyspark.python"] == sys.executable


@pytest.mark.parametrize("key", ["spark.master", "spark.cores.max", "spark.driver.host"])
def test_what_the_private_cluster_decides_is_refused(folder, key):
    with pytest.raises(ManifestError, match=rf"spec\.sparkConf\.{key}: .*; remove it"):
        plan(folder, sparkConf={key: "x"})


@pytest.mark.parametrize("language", ["Java", "Scala", "R"])
def test_other_languages_are_refused_with_the_reason(folder, language):
    with pytest.raises(ManifestError, match=rf"spec\.type: {language} applications are not run on one machine"):
        plan(folder, type=language)


def test_a_bad_number_in_spark_conf_is_a_manifest_s_error(folder):
    with pytest.raises(ManifestError, match=r"spark\.executor\.\*: .*'many'"):
        plan(folder, sparkConf={"spark.executor.cores": "many"})


def test_dependencies_are_found_beside_the_manifest(folder):
    (folder / "a.zip").write_text("")
    (folder / "b.csv").write_text("")
    options = plan(
        folder,
        deps={"pyFiles": ["a.zip"], "files": ["b.csv", "s3a://x/c.csv"], "packages": ["g:a:1", "g:b:2"]},
    ).options
    assert options[options.index("--py-files") + 1] == str(folder / "a.zip")
    assert options[options.index("--files") + 1] == f"{folder / 'b.csv'},s3a://x/c.csv"
    assert options[options.index("--packages") + 1] == "g:a:1,g:b:2"
    assert "--jars" not in options


def test_a_missing_main_file_names_the_nearest(folder):
    with pytest.raises(
        ManifestError, match=r"spec\.mainApplicationFile: no such file: .*man\.py; did you mean main\.py\?"
    ):
        plan(folder, mainApplicationFile="man.py")
    with pytest.raises(ManifestError, match=r"spec\.deps\.jars\[0\]: no such file"):
        plan(folder, deps={"jars": ["x.jar"]})


def test_a_path_in_the_image_is_taken_from_beside_the_manifest_and_said(folder):
    submission = plan(folder, mainApplicationFile="local:///opt/app/main.py")
    assert submission.main_file == str(folder / "main.py")
    where = f"local:///opt/app/main.py is in the image; taken here from {folder / 'main.py'}"
    assert submission.notes == (f"spec.mainApplicationFile: {where}",)


def test_notes_name_meaningless_fields_and_another_spark(folder):
    notes = plan(folder, image="spark:4", sparkVersion="3.5.1").notes
    assert notes == (
        "no meaning on one machine: spec.image",
        f"spec.sparkVersion is 3.5.1; PySpark {version('pyspark')} is used here",
    )


def test_java_options_keep_the_user_s_last(tmp_path):
    spec = application(driver={"javaOptions": "-Da=b"}, sparkConf={"spark.executor.extraJavaOptions": "-Dc=d"}).spec
    assert driver_java_options(spec, tmp_path).endswith(f"-Djava.io.tmpdir={tmp_path} -Da=b")
    assert executor_java_conf(spec, tmp_path)["spark.executor.extraJavaOptions"].endswith(" -Dc=d")


def test_the_driver_s_environment_has_our_path_before_the_user_s(folder):
    submission = plan(folder, driver={"env": [{"name": "PYTHONPATH", "value": "/theirs"}, {"name": "A", "value": "b"}]})
    environment = driver_environment(submission, {"PYTHONPATH": "/ours"}, folder)
    assert environment["PYTHONPATH"] == "/ours:/theirs"
    assert environment["A"] == "b"
    assert environment["SPARK_LOCAL_IP"] == "127.0.0.1"


def test_a_manifest_in_yaml_and_its_plan_agree(folder):
    text = yaml.safe_dump({"sparkConf": {"spark.x": "y=z, and more"}})
    assert plan(folder, **yaml.safe_load(text)).conf["spark.x"] == "y=z, and more"
