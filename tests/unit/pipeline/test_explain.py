"""The explanation of a pipeline, word for word."""

from __future__ import annotations

import pytest

from rekindle.core.options import SpeculationOptions
from rekindle.pipeline import FileSink, Pipeline, PipelineError, SparkSink, explain
from rekindle.pipeline.explain import mermaid
from tests.unit.pipeline.helpers import three_stages


def all_kinds() -> Pipeline:
    pipeline = Pipeline("flight-delays")

    @pipeline.source(partitions=1)
    def airlines(spark):
        """Names of airlines."""

    @pipeline.source(exchange="pipelined", deterministic=True)
    def raw(spark):
        """Flights as they came."""

    @pipeline.stage(partition_by=["tailnum", "day"], partitions=12, deterministic=True)
    def flights(raw):
        """Flights without the cancelled ones."""

    @pipeline.stage(exchange="cached")
    def busy(flights):
        """Airports with many flights."""

    @pipeline.stage(pointwise=True, broadcast="airlines", speculation=False)
    def named(flights, airlines):
        """With the airline's name."""

    @pipeline.sink(FileSink("out/report", "csv"), deterministic=False)
    def report(named, busy):
        """Never shown: where it goes is."""

    return pipeline


EXPECTED = """\
Pipeline flight-delays: 6 stages, 1 sink

Stages
stage     reads              result                       exchange
--------  -----------------  ---------------------------  ---------  -----------------------------------
airlines  (source)           1 × rebalanced               blocking   Names of airlines.
raw       (source)           not stored                   pipelined  Flights as they came.
flights   raw                12 × keyed by tailnum, day   blocking   Flights without the cancelled ones.
busy      flights            8 × rebalanced               cached     Airports with many flights.
named     flights, airlines  12 × pointwise from flights  blocking   With the airline's name.
report    named, busy        8 × rebalanced               blocking   -> csv files in out/report

Sources and sinks
stage     is      how                  attempts at a time
--------  ------  -------------------  ------------------  -------------------------------------------------
airlines  source  a function of spark  as Spark plans
raw       source  a function of spark  as Spark plans
report    sink    FileSink csv, error  one                 it is a sink and speculation.sinkEnabled is false

Regions (what restarts together)
- airlines.map: one region; made again, it restarts the whole stage unless its output proves equal
- airlines: 1 region, one per result partition
- flights.map: one region, with raw computed inside; made again alone, for it promises the same rows
- flights: 12 regions, one per result partition
- busy: one region; lost with its executors and then computed again
- named: 12 regions, one per result partition
- report.map: one region; made again, it restarts the whole stage
- report: 8 regions, one per result partition

Speculation
stage     copies
--------  ------  -------------------------------------------------
airlines  yes     up to 3 attempts of a partition at a time
raw       -       computed inside flights
flights   yes     up to 3 attempts of a partition at a time
busy      no      it has no job of its own: its readers compute it
named     no      the stage says speculation=False
report    no      it is a sink and speculation.sinkEnabled is false
The map sides' tasks are copied by Spark itself (spark.speculation.*), in every stage.

Missing settings of the session
- no FAIR scheduling: a copy waits behind the stage it should rescue

Mermaid
flowchart LR
  n_airlines["airlines<br/>1 × rebalanced<br/>speculated"]
  subgraph region_flights["one region"]
    n_raw["raw<br/>not stored"]
    n_flights["flights<br/>12 × keyed by tailnum, day<br/>speculated"]
  end
  n_busy["busy<br/>8 × rebalanced<br/>no copies: it has no job of its own: its readers compute it"]
  n_named["named<br/>12 × pointwise from flights<br/>no copies: the stage says speculation=False"]
  n_report["report<br/>8 × rebalanced<br/>no copies: it is a sink and speculation.sinkEnabled is false"]
  n_raw -.->|pipelined| n_flights
  n_flights -->|blocking| n_busy
  n_flights -->|blocking, pointwise| n_named
  n_airlines -->|blocking, broadcast| n_named
  n_named -->|blocking| n_report
  n_busy -.->|cached| n_report
  n_report ==> o_report[("csv files in out/report")]
"""


def test_stages_exchanges_regions_speculation_levers_and_a_picture():
    options = SpeculationOptions(enabled=True, max_concurrent_executions=3)
    lever = "no FAIR scheduling: a copy waits behind the stage it should rescue"
    assert explain(all_kinds().build(), options, [lever]) == EXPECTED


def test_the_picture_alone_is_the_end_of_the_explanation():
    options = SpeculationOptions(enabled=True, max_concurrent_executions=3)
    assert EXPECTED.endswith("\nMermaid\n" + mermaid(all_kinds().build(), options))


def speculation_of(pipeline: Pipeline, **options) -> dict[str, str]:
    """Stage -> what the section on speculation says."""
    text = explain(pipeline.build(), SpeculationOptions(**options))
    section = text.partition("\nSpeculation\n")[2].partition("\n\n")[0]
    rows = [line for line in section.splitlines()[2:] if "spark.speculation" not in line]
    return {row.split()[0]: " ".join(row.split()[1:]) for row in rows}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {},
            {
                "flights": "no speculation.enabled is false",
                "delayed": "no speculation.enabled is false",
                "report": "no speculation.enabled is false",
            },
        ),
        (
            {"enabled": True, "source_enabled": False, "sink_enabled": True},
            {
                "flights": "no it is a source and speculation.sourceEnabled is false",
                "delayed": "yes up to 2 attempts of a partition at a time",
                "report": "yes up to 2 attempts of a partition at a time",
            },
        ),
    ],
)
def test_every_stage_that_is_not_speculated_says_why(options, expected):
    assert speculation_of(three_stages(), **options) == expected


def test_a_reason_inside_a_region_names_the_stage_it_comes_from():
    assert (
        speculation_of(three_stages(exchange="pipelined", speculation=False), enabled=True, sink_enabled=True)["report"]
        == "no delayed, computed inside it: the stage says speculation=False"
    )


def test_a_sink_without_the_capability_says_so():
    pipeline = three_stages()
    sink = FileSink("out/more", supports_concurrent_execution_attempts=False)
    pipeline.sink(sink, name="more")(lambda delayed: delayed)
    assert speculation_of(pipeline, enabled=True, sink_enabled=True)["more"] == (
        "no its sink does not support concurrent execution attempts"
    )


def test_nothing_is_said_about_sparks_copies_when_there_are_none():
    assert "spark.speculation" not in explain(three_stages().build(), SpeculationOptions())


def test_no_missing_levers():
    assert "\nMissing settings of the session\nnone\n" in explain(three_stages().build(), SpeculationOptions())


def test_the_picture_survives_any_path():
    pipeline = three_stages()
    pipeline.sink('out/<a> "b" & c', name="more")(lambda delayed: delayed)
    text = explain(pipeline.build(), SpeculationOptions())
    assert 'o_more[("parquet files in out/#lt;a#gt; #quot;b#quot; #amp; c")]' in text


def test_a_stream_with_speculation_is_not_explained_but_refused():
    pipeline = Pipeline("p")
    pipeline.source(name="clicks", streaming=True, speculation=False)(lambda spark: spark)
    pipeline.sink("out", name="report")(lambda clicks: clicks)
    for form in (explain, mermaid):
        with pytest.raises(PipelineError, match="source 'clicks' is a streaming source and speculation is on"):
            form(pipeline.build(), SpeculationOptions(enabled=True))


def ends_of(**options: bool) -> dict[str, str]:
    """Stage -> what the section on sources and sinks says."""
    pipeline = Pipeline("ends")
    pipeline.source_function("n BIGINT", splits=3, side_effects=False, name="pages")(lambda split, splits: iter(()))
    pipeline.source_function("n BIGINT", splits=3, name="calls")(lambda split, splits: iter(()))
    table = SparkSink("jdbc", options={"url": "jdbc:x", "password": "hidden", "dbtable": "t"})
    pipeline.sink(table, name="table")(lambda pages, calls: pages)
    pipeline.sink(SparkSink("delta", options={"path": "/lake"}, mode="overwrite"), name="lake")(lambda pages: pages)
    text = explain(pipeline.build(), SpeculationOptions(**options))
    assert "hidden" not in text
    section = text.partition("\nSources and sinks\n")[2].partition("\n\n")[0]
    return {row.split()[0]: " ".join(row.split()[1:]) for row in section.splitlines()[2:]}


def test_what_sources_and_sinks_are_and_who_may_use_them_is_said():
    told = ends_of(enabled=True, sink_enabled=True)
    assert told["pages"].endswith(", by splits several")
    assert told["calls"].endswith("one its function may have side effects: it does not say side_effects=False")
    assert told["table"] == "sink SparkSink jdbc, append several a commit that was cut off is not repeated (repeatable)"
    assert told["lake"] == "sink SparkSink delta, overwrite several"
    off = ends_of(enabled=True, source_enabled=False)
    assert off["pages"].endswith("one it is a source and speculation.sourceEnabled is false")
    assert off["lake"].endswith("one it is a sink and speculation.sinkEnabled is false")
