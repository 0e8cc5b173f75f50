"""Loops as they are declared: what a body may be made of, and what is said where it is not that."""

from __future__ import annotations

from typing import Any

import pytest

from rekindle.core.options import SpeculationOptions
from rekindle.pipeline import Pipeline, explain
from rekindle.pipeline.fingerprint import stage_fingerprint
from rekindle.pipeline.loops import LoopBody, LoopStream
from tests.unit.pipeline.helpers import complaint

ROW = "city LONG, km DOUBLE"


def further(batch, roads): ...


def same(batch): ...


def shorter(batch, state): ...


def pipeline_of(body: Any, *, own_feedback: bool = False, **options: Any) -> Pipeline:
    """start and roads, the loop, and a sink that reads it."""
    pipeline = Pipeline("paths")

    @pipeline.source
    def start(spark): ...

    @pipeline.source
    def roads(spark): ...

    declare = pipeline.iterate_with_feedback if own_feedback else pipeline.iterate
    declare("start", name="reached", **options)(body)

    @pipeline.sink("out")
    def report(reached, roads): ...

    return pipeline


def built(body: Any, **options: Any) -> LoopBody:
    made = pipeline_of(body, **options).build().stage("reached").loop
    assert made is not None
    return made


def names(body: LoopBody) -> list[str]:
    return [operator.name for operator in body.operators]


@pytest.mark.requirement("S8-4", "S8-6")
def test_a_body_is_a_function_of_one_stream_that_returns_its_feedback_and_its_output():
    def body(start):
        gone = start.transform(same)
        return gone, start.transform(same, name="kept")

    made = built(body)
    assert names(made) == ["input", "same", "kept"]
    assert (made.feedback.name, made.output.name) == ("same", "kept")


@pytest.mark.requirement("S8-5", "S8-6")
def test_feedback_of_other_columns_is_a_stream_of_its_own():
    def body(start, nearer, roads):
        best = start.union(nearer.transform(further, roads)).update(shorter, key="city", schema=ROW)
        return best, best.at_end()

    pipeline = pipeline_of(body, own_feedback=True)
    stage = pipeline.build().stage("reached")
    assert stage.inputs == ("start", "roads")
    assert stage.loop is not None
    assert names(stage.loop) == ["input", "feedback", "further", "union", "shorter", "shorter_at_end"]


@pytest.mark.requirement("S8-4", "S8-5")
def test_a_body_may_be_an_object_with_a_method_loop():
    class Halving:
        def loop(self, start):
            return start.transform(same), start

    assert names(built(Halving())) == ["input", "same"]


@pytest.mark.requirement("S8-8", "S8-9", "S8-15", "S8-22")
def test_what_an_inner_loop_puts_out_is_feedback_and_output_of_the_outer_one():
    seen: list[LoopStream] = []

    def inner(stream):
        seen.append(stream)
        return stream.transform(same), stream

    def body(start):
        first = start.iterate(inner)
        second = first.iterate(inner)
        seen.extend([start, first, second])
        return second, second

    made = built(body)
    one, two, start, first, second = seen
    assert one.scope.unnest() == two.scope.unnest() == start.scope == first.scope == second.scope
    assert one.scope != two.scope
    assert (start.scope.level, one.scope.level) == (1, 2)
    assert [loop.name for loop in made.loops()] == ["reached", "reached.inner", "reached.inner_2"]
    assert made.feedback is made.output


@pytest.mark.requirement("S8-10")
class TestAnotherScope:
    def test_an_inner_stream_that_is_used_outside(self):
        kept = []

        def inner(stream):
            kept.append(stream)
            return stream.transform(same), stream

        def body(start):
            start.iterate(inner)
            return start.union(kept[0]), start

        assert complaint(pipeline_of(body)) == (
            "union in loop 'reached' takes streams of one scope: 'input' is in scope 'default > reached', 'input' in "
            "scope 'default > reached > inner'\n"
            "-> bring the outer stream in as input of the loop, or the inner one out as its output"
        )

    @pytest.mark.parametrize("operation", ["transform", "update", "iterate", "iterate_with_feedback"])
    def test_a_table_that_was_not_brought_into_the_loop(self, operation):
        def body(start, roads):
            def inner(stream):
                more = {"key": "city", "schema": ROW} if operation == "update" else {}
                made = getattr(stream, operation)(further, roads, **more)
                return made, made

            return start.iterate(inner), start

        said = complaint(pipeline_of(body))
        assert said.startswith(f"{operation} in loop 'inner' takes streams of one scope: 'input' is in scope")
        assert "'roads' in scope 'default > reached'" in said

    @pytest.mark.requirement("S8-3", "S8-22")
    def test_feedback_of_the_loop_around(self):
        def body(start):
            return start.iterate(lambda stream: (start, stream)), start

        assert complaint(pipeline_of(body)) == (
            "the feedback of loop 'default > reached > loop' must be in that scope, and 'input' is in scope "
            "'default > reached'\n-> return a stream that the loop's own body makes"
        )

    def test_output_of_the_loop_around(self):
        def body(start):
            return start.iterate(lambda stream: (stream, start)), start

        assert "the output of loop 'reached.loop' takes streams of one scope" in complaint(pipeline_of(body))


@pytest.mark.requirement("S8-7")
def test_nothing_of_a_loop_is_a_time_out():
    import inspect

    methods: list[Any] = [
        Pipeline.iterate,
        Pipeline.iterate_with_feedback,
        LoopStream.iterate,
        LoopStream.iterate_with_feedback,
    ]
    taken = {name for method in methods for name in inspect.signature(method).parameters}
    assert {name for name in taken if "time" in name or "wait" in name} == set()


@pytest.mark.parametrize("returned", [None, "stream", ("one",), (1, 2)])
def test_a_body_that_returns_no_pair_of_streams(returned):
    said = complaint(pipeline_of(lambda start: returned))
    assert said.startswith("loop 'reached': its function returned ")
    assert said.endswith("-> return two streams: what is fed back, and what the loop puts out")


def test_a_stream_that_nothing_reads():
    def body(start):
        start.transform(same, name="forgotten")
        return start, start

    assert complaint(pipeline_of(body)) == (
        "loop 'reached': nothing reads 'forgotten'\n"
        "-> feed it back, put it out or make something of it; else take it out of the body"
    )


def test_a_loop_whose_result_nobody_reads():
    pipeline = Pipeline("paths")

    @pipeline.source
    def start(spark): ...

    @pipeline.iterate("start")
    def reached(start):
        return start, start

    assert complaint(pipeline).startswith("loop 'reached' makes a result that no stage reads")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda start: start.transform(same).at_end(), "at_end of 'same', which keeps no state"),
        (lambda start: start.update(shorter, key="", schema=ROW), "update 'shorter' has key=''"),
        (lambda start: start.update(shorter, key="city", schema=""), "update 'shorter' has schema=''"),
        (lambda start: start.union("roads"), "union of 'input' is given a str"),
        (lambda start: start.union(start), "union of 'input' has a stream twice"),
        (lambda start: start.transform(7), "'transform' is a int"),
        (lambda start: start.transform(same, name="a b"), "an operator cannot be called so: name='a b'"),
        (lambda start: start.transform(same, name="input"), "an operator has that name already: name='input'"),
    ],
)
def test_operations_with_something_else(call, said):
    def body(start):
        made = call(start)
        return made, made

    assert said in complaint(pipeline_of(body))


def test_the_state_at_the_end_of_a_loop_within_a_loop():
    def inner(stream):
        kept = stream.update(shorter, key="city", schema=ROW)
        return kept, kept.at_end()

    said = complaint(pipeline_of(lambda start: (start.iterate(inner), start)))
    assert "ends when the loops around it have ended" in said


@pytest.mark.parametrize(
    ("made", "what"),
    [
        (lambda end: (end, end), "the feedback"),
        (lambda end: (end.iterate(lambda stream: (stream, stream), name="inner"), end), "inner"),
        (lambda end: (end.transform(same).update(shorter, key="city", schema=ROW, name="later"), end), "later"),
    ],
)
def test_what_is_made_of_a_state_at_the_end_goes_round_no_more(made, what):
    said = complaint(pipeline_of(lambda start: made(start.update(shorter, key="city", schema=ROW).at_end())))
    assert said.startswith(f"loop 'reached': {what} is made of a state at the end")


def test_what_goes_in_must_be_a_stage_and_the_body_must_take_it():
    assert "takes 0 parameters" in complaint(pipeline_of(lambda: None))
    assert "takes 1 parameters" in complaint(pipeline_of(lambda start: None, own_feedback=True))
    said = complaint(pipeline_of(lambda start, spark: (start, start)))
    assert "takes 'spark', and its body is made of streams alone" in said
    assert "has feedback_first=1" in complaint(pipeline_of(lambda start: (start, start), feedback_first=1))
    assert "has most_activations=0" in complaint(pipeline_of(lambda start: (start, start), most_activations=0))
    pipeline = pipeline_of(lambda start, nowhere: (start, start))
    assert "reads 'nowhere', which no stage makes" in complaint(pipeline)


@pytest.mark.requirement("S2-13")
def test_a_loop_is_not_speculated_and_explain_says_so_and_draws_its_scopes():
    def inner(stream):
        return stream.transform(same), stream

    text = explain(pipeline_of(lambda start: (start.iterate(inner), start)).build(), SpeculationOptions(enabled=True))
    assert "reached  no      it is a loop: what goes round is not copied" in text
    assert 'subgraph loop_reached["loop reached"]' in text
    assert 'subgraph loop_reached_inner["loop reached.inner"]' in text
    assert "l_reached_inner_same -.->|feedback| l_reached_inner_input" in text


def test_tables_may_be_called_otherwise_than_the_parameters():
    def body(start, edges):
        made = start.transform(further, edges)
        return made, made

    assert pipeline_of(body, tables="roads").build().stage("reached").inputs == ("start", "roads")
    assert "has tables=(), and 1 parameters for them" in complaint(pipeline_of(body, tables=()))
    assert "has tables=7" in complaint(pipeline_of(body, tables=7))
    assert "reads 'streets', which no stage makes" in complaint(pipeline_of(body, tables="streets"))


@pytest.mark.parametrize("exchange", ["pipelined", "cached"])
def test_a_loop_reads_what_is_stored(exchange):
    pipeline = Pipeline("paths")

    @pipeline.source(exchange=exchange)
    def start(spark): ...

    pipeline.iterate("start", name="reached")(lambda start: (start, start))

    @pipeline.sink("out")
    def report(reached): ...

    assert complaint(pipeline).startswith(
        f"loop 'reached' is a loop and reads 'start', which is {exchange}: nothing is"
    )


def test_a_loop_within_given_as_an_object_is_part_of_the_fingerprint_too():
    class Inner:
        def __init__(self, fn):
            self.fn = fn

        def loop(self, stream):
            return stream.transform(self.fn, name="one"), stream

    def of(fn):
        inner = Inner(fn)
        return stage_fingerprint(pipeline_of(lambda start: (start, start.iterate(inner))).build(), "reached")

    assert of(lambda batch: batch.where("a")) == of(lambda batch: batch.where("a"))
    assert of(lambda batch: batch.where("a")) != of(lambda batch: batch.where("b"))


def test_what_a_loop_computes_is_part_of_its_fingerprint():
    class Keeping:
        def __init__(self, km):
            self.km = km

        def loop(self, start):
            return start.transform(same), start

    class Other(Keeping):
        def loop(self, start):
            return start.transform(same), start.transform(same)

    bodies = [
        Keeping(1),
        Keeping(2),
        Other(1),
        lambda start: (start, start),
        lambda start: (start, start.transform(same)),
    ]
    found = [stage_fingerprint(pipeline_of(body).build(), "reached") for body in bodies]
    assert len(set(found)) == len(bodies)
    assert found[0] == stage_fingerprint(pipeline_of(Keeping(1)).build(), "reached")
