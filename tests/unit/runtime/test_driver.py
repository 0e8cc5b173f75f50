"""Which sessions can run a pipeline."""

from __future__ import annotations

import pytest

from rekindle.pipeline import Pipeline
from rekindle.runtime.errors import EnvironmentProblem


@pytest.mark.requirement("S2-10")
def test_a_spark_connect_session_is_refused_with_the_reason(tmp_path):
    pipeline = Pipeline("p")
    pipeline.source(name="a")(lambda spark: spark)
    pipeline.sink(str(tmp_path / "out"), name="b")(lambda a: a)
    connect = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(EnvironmentProblem, match=r"(?s)Spark Connect.*no SparkContext.*spark-submit"):
        pipeline.run(connect, store=tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_a_driver_whose_threads_share_their_jobs_settings_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("PYSPARK_PIN_THREAD", "false")
    pipeline = Pipeline("p")
    pipeline.source(name="a")(lambda spark: spark)
    pipeline.sink(str(tmp_path / "out"), name="b")(lambda a: a)
    with pytest.raises(EnvironmentProblem, match=r"(?s)PYSPARK_PIN_THREAD is switched off.*leave PYSPARK_PIN_THREAD"):
        pipeline.run(store=tmp_path / "store")
    assert not (tmp_path / "store").exists()
