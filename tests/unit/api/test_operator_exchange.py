"""What the operator and a job master tell each other, as bytes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.api.operator_exchange import (
    MOST_ANSWER_BYTES,
    MOST_CAUSE,
    MOST_REQUEST_BYTES,
    ExchangeAnswer,
    ExchangeRequest,
    WireBlock,
    Wish,
    decode,
    encode,
    fitting,
    wished,
)

nodes = st.from_regex(r"[!-~]{1,20}", fullmatch=True)
seconds = st.floats(0.5, 1e10)
blocks = st.builds(WireBlock, node=nodes, end=seconds, cause=st.text(max_size=20))
wishes = st.builds(Wish, node=nodes, seconds=seconds, cause=st.text(max_size=20))
requests = st.builds(fitting, st.lists(blocks, max_size=3), st.dictionaries(nodes, nodes, max_size=3))
answers = st.builds(lambda some, excludes: wished(some, excludes=excludes), st.lists(wishes, max_size=3), st.booleans())


@given(message=requests | answers)
def test_a_message_survives(message):
    assert decode(encode(message), type(message)) == message


def test_a_field_of_another_version_is_passed_over():
    assert decode(b'{"wishes": [], "events": [1, 2]}', ExchangeAnswer) == ExchangeAnswer()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "EOF"),
        (b"[]", "expected a mapping"),
        (b'{"blocks": []}', "nodes: required"),
        (b'{"nodes": {"1": 2}}', r"nodes.1: expected a text, got 2"),
        (b'{"nodes": {"1": "a\\nb"}}', "nodes.1: string should match"),
        (b'{"nodes": {}, "blocks": [{"node": "n", "end": NaN, "cause": ""}]}', "expected value"),
        (
            b'{"nodes": {}, "blocks": [{"node": "n", "end": "1", "cause": ""}]}',
            r"blocks\[0\].end: expected a number",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(body, message):
    with pytest.raises(ValueError, match=message):
        decode(body, ExchangeRequest)


@pytest.mark.parametrize(
    "wish", [{"seconds": 0}, {"seconds": -1}, {"seconds": 1e999}, {"cause": "x" * 1001}, {"node": ""}]
)
def test_a_wish_that_cannot_be_is_refused(wish):
    body = json.dumps({"wishes": [{"node": "n", "seconds": 1, "cause": "", **wish}]}).replace("Infinity", "1e999")
    with pytest.raises(ValueError, match=r"wishes|number"):
        decode(body.encode(), ExchangeAnswer)


def test_what_there_is_too_much_of_is_left_out_and_the_rest_is_not_too_large():
    many = [WireBlock(node="n" * 253, end=float(end), cause="\x01" * MOST_CAUSE) for end in range(2000)]
    request = fitting(many, {str(number).zfill(64): "n" * 253 for number in range(30_000)})
    assert min(block.end for block in request.blocks) == 1000.0
    assert len(request.nodes) == 20_000
    assert len(encode(request)) <= MOST_REQUEST_BYTES
    answer = wished([Wish(node="n" * 253, seconds=1.0, cause="\x01" * MOST_CAUSE)] * 200, excludes=True)
    assert len(answer.wishes) == 100
    assert len(encode(answer)) <= MOST_ANSWER_BYTES
