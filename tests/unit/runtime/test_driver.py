"""Which sessions can run a pipeline."""

from __future__ import annotations

from typing import Any

import pytest

from rekindle.api.connector_report import WireSink
from rekindle.api.last_words import LastWords, decode_last_words
from rekindle.pipeline import Pipeline
from rekindle.runtime import driver
from rekindle.runtime.errors import EnvironmentProblem, StoreFull
from rekindle.runtime.result import RunResult


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


class TestLastWords:
    """What Kubernetes tells of a driver that has ended, with its exit code."""

    @pytest.fixture
    def words(self, tmp_path, monkeypatch):
        words = tmp_path / "termination-log"
        monkeypatch.setattr(driver, "LAST_WORDS", words)
        return words

    @pytest.fixture
    def run(self, monkeypatch):
        """Have a pipeline run that ends with an error, or with none."""

        def run(error=None, *, sinks=()):
            def ended(graph, session, store, options, told):
                told += sinks
                if error is not None:
                    raise error
                return RunResult("p", "finished", {}, {})

            monkeypatch.setattr(driver, "_session", lambda spark: spark)
            monkeypatch.setattr(driver, "_conf", lambda session: {})
            monkeypatch.setattr(driver, "_run", ended)
            run_pipeline: Any = driver.run_pipeline
            run_pipeline(lambda: None, object())

        return run

    def test_an_error_is_told_in_a_container_of_kubernetes(self, words, run):
        words.touch()
        with pytest.raises(StoreFull):
            run(StoreFull("no space left in the store /s", remedy="free space there" + "!" * 9000))
        assert words.read_text().startswith("store-full: no space left in the store /s\n-> free space there")
        assert words.stat().st_size <= 4096

    def test_elsewhere_nothing_is_written(self, words, run):
        with pytest.raises(StoreFull):
            run(StoreFull("full"))
        assert not words.exists()

    def test_an_error_that_the_program_has_caught_is_not_the_last_word(self, words, run):
        words.touch()
        with pytest.raises(StoreFull):
            run(StoreFull("full"))
        run()
        assert words.read_text() == ""

    def test_how_far_its_sinks_are_is_told_whether_it_has_failed_or_not(self, words, run):
        words.touch()
        sink = WireSink(name="totals", partitions=2, written=2, commit="Committed")
        run(sinks=[sink])
        assert decode_last_words(words.read_text()) == LastWords("", (sink,))
        with pytest.raises(StoreFull):
            run(StoreFull("full"), sinks=[sink])
        assert decode_last_words(words.read_text()) == LastWords("store-full: full", (sink,))
